// SPDX-License-Identifier: GPL-2.0-or-later
/* Puts a dump in order that was written as a stream: what makedumpfile and QEMU call flattened. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/transport/dump.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

/*
 * A header of 4096 bytes, then extents: u64 offset, u64 bytes, both big endian, then the bytes.
 * An offset of ~0 ends it.
 */
#define SIGNATURE	"makedumpfile"
#define HEADER_BYTES	4096u
#define TYPE		1u
#define VERSION		1u
#define COPY_BYTES	(1u << 20)

struct flat_header {
	char signature[16];
	u64 type;
	u64 version;
};

struct flat_extent {
	u64 offset;
	u64 bytes;
};

bool braid_dump_flattened(int fd)
{
	struct flat_header header;

	return braid_pread_all(fd, &header, sizeof(header), 0) == sizeof(header) &&
	       !strncmp(header.signature, SIGNATURE, sizeof(header.signature)) &&
	       be64toh(header.type) == TYPE && be64toh(header.version) == VERSION;
}

static int flattened_make_file(const char *folder, const char *path)
{
	int fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	return fd < 0 ? braid_fail(-errno, "%s: flattened dump; cannot create a file in %s to reorder it: %s",
				   path, folder, strerror(errno)) : fd;
}

/* Copies an extent. Returns 0, 1 when some of it is missing, or -errno with braid_fail(). */
static int copy_extent(int from, int to, u64 at, const struct flat_extent *extent, u8 *buffer,
		       const char *path)
{
	u64 done, n;
	ssize_t got;
	int err;

	if (lseek(to, extent->offset, SEEK_SET) < 0)
		return braid_fail(-EBADMSG, "%s: a flattened dump with an invalid offset", path);
	for (done = 0; done < extent->bytes; done += n) {
		n = extent->bytes - done < COPY_BYTES ? extent->bytes - done : COPY_BYTES;
		got = braid_pread_all(from, buffer, n, at + done);
		if (got < 0)
			return braid_fail(got, "%s: cannot be read: %s", path, strerror(-got));
		err = braid_write_all(to, buffer, got);
		if (err)
			return braid_fail(err, "%s: flattened dump; cannot reorder it: %s; use `makedumpfile -R`",
					  path, strerror(-err));
		if ((u64)got < n)
			return 1;	/* use the part that exists */
	}
	return 0;
}

int braid_dump_unflatten(int fd, const char *folder, const char *path, bool *cut_off)
{
	braid_auto_free u8 *buffer = malloc(COPY_BYTES);
	struct flat_extent extent;
	u64 at = HEADER_BYTES;
	int err = 0, to;

	if (!buffer)
		return braid_fail(-ENOMEM, "%s: out of memory", path);
	to = flattened_make_file(folder, path);
	if (to < 0)
		return to;
	*cut_off = true;
	while (!err && braid_pread_all(fd, &extent, sizeof(extent), at) == sizeof(extent)) {
		extent.offset = be64toh(extent.offset);
		extent.bytes = be64toh(extent.bytes);
		at += sizeof(extent);
		*cut_off = extent.offset != ~0ULL;
		if (!*cut_off || at + extent.bytes < at)
			break;
		err = copy_extent(fd, to, at, &extent, buffer, path);
		at += extent.bytes;
	}
	if (err < 0) {
		close(to);
		return err;
	}
	return to;
}
