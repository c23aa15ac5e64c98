// SPDX-License-Identifier: GPL-2.0-or-later
/* Loops over short reads and writes. */
#include <errno.h>
#include <unistd.h>

#include "host_agent/util/io.h"

int braid_write_all(int fd, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes) {
		ssize_t n = write(fd, at, bytes);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (!n)
			return -EIO;
		at += n;
		bytes -= n;
	}
	return 0;
}

ssize_t braid_pread_all(int fd, void *to, size_t bytes, u64 offset)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = pread(fd, (char *)to + done, bytes - done, offset + done);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (!n)
			break;
		done += n;
	}
	return done;
}
