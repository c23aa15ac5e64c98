// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes bytes, numbers and names from a trace.dat, each within its bounds. */
#include <errno.h>
#include <string.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

int braid_dat_broken(const struct braid_trace_dat *dat, const char *what)
{
	return braid_fail(-EBADMSG, "'%s' is not a valid trace.dat file: %s", dat->path, what);
}

int braid_dat_take(struct braid_dat_input *in, void *to, u64 bytes)
{
	ssize_t n;

	if (bytes > in->end - in->at)
		return braid_dat_broken(in->dat, "a section ends too early");
	if (in->memory) {
		memcpy(to, in->memory + in->at, bytes);
	} else {
		n = braid_pread_all(in->dat->fd, to, bytes, in->at);
		if (n < 0)
			return braid_fail(n, "cannot read '%s': %s", in->dat->path, strerror(-n));
		if ((u64)n != bytes)
			return braid_dat_broken(in->dat, "it was truncated while it was read");
	}
	in->at += bytes;
	return 0;
}

int braid_dat_take_number(struct braid_dat_input *in, u32 bytes, u64 *number)
{
	*number = 0;
	return braid_dat_take(in, number, bytes);
}

int braid_dat_take_string(struct braid_dat_input *in, char *to, size_t size)
{
	size_t k;
	int err;

	for (k = 0; k < size; k++) {
		err = braid_dat_take(in, to + k, 1);
		if (err || !to[k])
			return err;
	}
	return braid_dat_broken(in->dat, "a name in it is too long");
}
