// SPDX-License-Identifier: GPL-2.0-or-later
/* Keeps the line that describes the last error. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/util/error.h"

static _Thread_local char failure[1024];

int braid_fail(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(failure, sizeof(failure), format, args);
	va_end(args);
	return err;
}

int braid_out_of_memory(void)
{
	return braid_fail(-ENOMEM, "out of memory");
}

int braid_fail_output(const char *what)
{
	int err = errno ? -errno : -EIO;

	return err == -EPIPE ? err : braid_fail(err, "cannot write %s: %s", what, strerror(-err));
}

const char *braid_failure(void)
{
	return failure;
}
