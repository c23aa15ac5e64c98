// SPDX-License-Identifier: GPL-2.0-or-later
/* Passes lines for the user to the caller of the session. */
#include <stdarg.h>
#include <stdio.h>

#include "host_agent/record/private.h"

#define LINE_BYTES	2048

void braid_record_say(const struct braid_recording *r, const char *name, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	r->ops->say(r->arg, name, line);
}
