/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Events of the guest's programs, by /dev/tracebraid: a write() is an event in the ring of the
 * writer's CPU. docs/marker.md has the use; this header is all that a program in C needs.
 *
 *	echo "started" > /dev/tracebraid
 *
 *	struct { __u64 bytes; __u8 trace_id[16]; char path[64]; } request;
 *	int fd = braid_marker_open("request u64 bytes; u8 trace_id[16]; char path[64]");
 *
 *	braid_marker_write(fd, &request, sizeof(request));
 */
#ifndef TRACEBRAID_MARKER_H
#define TRACEBRAID_MARKER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define BRAID_MARKER_DEVICE	"/dev/tracebraid"
#define BRAID_MARKER_FIELDS	16	/* of one event */
#define BRAID_MARKER_EVENTS	128	/* of a guest */
#define BRAID_MARKER_TEXT	1024	/* bytes of a declaration, with the final 0 */
#define BRAID_MARKER_BYTES	2048	/* of one event, which must fit in a sub-buffer, too */
#define BRAID_TRACE_ID_BYTES	16	/* of a W3C trace context */

/*
 * What writes to this descriptor are from now on: an event of the system "user", declared as
 * "NAME TYPE FIELD; TYPE FIELD...". The argument is the declaration's address.
 *
 * TYPE is u8, s8, u16, s16, u32, s32, u64 or s64; "u8 FIELD[N]" is N bytes, "char FIELD[N]" a
 * text in N bytes, and "char FIELD[]", the last one, a text of any length. Fields lie as in a
 * struct in C of these members: each at a multiple of its size.
 *
 * Errors: EINVAL (not a valid declaration), EEXIST (another program has an event of this name
 * with other fields), EBUSY (the descriptor has one already), ENOSPC (BRAID_MARKER_EVENTS exist, or
 * the region's directory is full), ENOMEM, EFAULT.
 */
#define BRAID_MARKER_DECLARE	_IOW('B', 1, char[BRAID_MARKER_TEXT])

#ifndef __KERNEL__

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

/**
 * braid_marker_open - a descriptor for events of a program
 * @declaration: as for BRAID_MARKER_DECLARE; NULL: each write is a text
 *
 * Return: a descriptor, for braid_marker_write() and close(); or -errno: -ENOENT (the driver is not
 * loaded), -EACCES (the guest's administrator has not permitted it), or as BRAID_MARKER_DECLARE.
 */
static inline int braid_marker_open(const char *declaration)
{
	int fd = open(BRAID_MARKER_DEVICE, O_WRONLY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	if (!declaration || !ioctl(fd, BRAID_MARKER_DECLARE, declaration))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/**
 * braid_marker_write - record an event
 * @fd: of braid_marker_open()
 * @record: its fields, as declared
 * @bytes: of them; of a text, without its final 0
 *
 * Nothing happens while neither the host nor the guest's user has the event on. What a full ring
 * drops is counted there.
 *
 * Return: 0, or -errno: -EINVAL (not the declared size), -EMSGSIZE (more than BRAID_MARKER_BYTES,
 * or than a sub-buffer holds), -EFAULT, -ENOMEM.
 */
static inline int braid_marker_write(int fd, const void *record, unsigned long bytes)
{
	return write(fd, record, bytes) < 0 ? -errno : 0;
}

#endif /* __KERNEL__ */

#endif /* TRACEBRAID_MARKER_H */
