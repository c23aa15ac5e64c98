/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packs captures, and unpacks them: the same bytes again. */
#ifndef BRAID_CAPTURE_PACK_H
#define BRAID_CAPTURE_PACK_H

#include <signal.h>

#include "host_agent/capture/chunk.h"

/* What a run of either did, and how it is watched. */
struct braid_pack_run {
	int level;			/* of zstd, 1 to 19 */
	u32 segment_bytes;		/* unpacked, of each segment; 0: the usual size */
	void (*progress)(void *arg, const char *what, u64 done, u64 total);	/* or NULL */
	void *progress_arg;
	const volatile sig_atomic_t *stop;	/* nonzero: end with -EINTR; or NULL */
	u64 read_bytes, written_bytes;	/* set */
};

/**
 * braid_pack - pack a capture
 * @to: an empty file, open for writing
 * @from: the capture, a regular file; its name for messages is @path
 * @run: how
 *
 * Return: 0, or -errno with braid_fail(): -EBADMSG: not a capture, or packed already.
 */
int braid_pack(int to, int from, const char *path, struct braid_pack_run *run);

/** braid_unpack - unpack a packed capture; as braid_pack(). -EBADMSG: not packed, or damaged */
int braid_unpack(int to, int from, const char *path, struct braid_pack_run *run);

#endif /* BRAID_CAPTURE_PACK_H */
