// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads files of the kernel, whose size is not known before. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "host_agent/live/tracefs_private.h"
#include "host_agent/util/cleanup.h"

#define FIRST_READ	(64u << 10)	/* files of /proc don't report their size */
#define LARGEST_READ	(256u << 20)

void *braid_host_read_file(const char *path, size_t *bytes)
{
	braid_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	braid_auto_free char *text = NULL;
	size_t used = 0, allocated = 0;
	ssize_t n;
	char *more;

	if (fd < 0)
		return NULL;
	do {
		if (allocated - used < FIRST_READ / 2) {
			allocated = allocated ? 2 * allocated : FIRST_READ;
			more = allocated <= LARGEST_READ ? realloc(text, allocated + 1) : NULL;
			if (!more)
				return NULL;
			text = more;
		}
		n = read(fd, text + used, allocated - used);
		if (n > 0)
			used += n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0)
		return NULL;
	text[used] = 0;
	if (bytes)
		*bytes = used;
	return braid_take(text);
}
