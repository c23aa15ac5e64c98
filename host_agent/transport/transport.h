/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The range that a guest and its host share: found, mapped, validated.
 *
 * Invariants:
 * - Shared bytes are copied, the copy is checked, the copy is used. Addresses of sections and rings come from a
 *   superblock that braid_mapping_probe() or braid_mapping_buffers() has checked.
 * - A mapping's memory is accessed under braid_guard_run(), because its file may shrink at any moment: a function
 *   here runs under it, or says that its caller must. Each thread has its own guard.
 * - One agent drains a region: braid_mapping_take() locks its file until braid_mapping_close(), and a vhost-user
 *   endpoint serves one connection at a time.
 * - Nothing here writes to a shared region. A doorbell endpoint marks a file that it finds empty; a vhost-user
 *   endpoint writes to virtqueues and their buffers.
 * - One thread uses an endpoint. Its functions do not wait for a peer (docs/threat-model.md names one exception), and
 *   the work of each call is bounded.
 * - A file descriptor that a QEMU sent is closed by untrusted_fd.h, because close() may block.
 */
#ifndef BRAID_TRANSPORT_TRANSPORT_H
#define BRAID_TRANSPORT_TRANSPORT_H

#include <string.h>
#include <sys/types.h>

#include "host_agent/transport/guard.h"
#include "shared/ring.h"
#include "tracebraid/abi.h"

/* A region, mapped. What base points to is written by others at any time. */
struct braid_mapping {
	char path[256];
	u8 *base;
	u64 bytes;
	int fd;			/* the region's file; -1: it has no file of its own */
	bool writable;
	bool one_way;		/* a copy of ours: what is written to it never reaches the guest */
	u32 cut_off;		/* one_way: buffers, a bit each, that the guest removed before all
				   of their events were surely copied */
	dev_t device;
	ino_t inode;
	uid_t uid;		/* of the file, as its group and mode */
	gid_t gid;
	mode_t mode;
	pid_t qemu_pid;		/* its owner, if known from a socket; 0: unknown */
	const char *gone;	/* set by its endpoint: a phrase, see braid_mapping_gone() */
	bool taken_back;	/* gone, and its guest may provide it, or another, again */
	struct braid_mapping **owner;	/* its endpoint's pointer to it; NULL: none */
};

/**
 * braid_mapping_fail_open - say why a file was not opened, and what to do
 * @path: as it was named
 * @err: open()'s errno
 *
 * Return: -errno, with braid_fail().
 */
int braid_mapping_fail_open(const char *path, int err);

/**
 * braid_mapping_open - map a region's file
 * @out: set on success
 * @path: a regular file, not a symbolic link
 * @writable: for draining and commands; else read-only
 *
 * Content is not checked: see braid_mapping_identify().
 *
 * Return: 0, or -errno with braid_fail() (-ENOENT, -EACCES, -EMEDIUMTYPE: not a
 * region's file, -ENODATA: still empty).
 */
int braid_mapping_open(struct braid_mapping **out, const char *path, bool writable);

/**
 * braid_mapping_keep - open a file that no path will lead to any more
 * @path: as braid_mapping_open() is given it later
 * @device: the file must have it ...
 * @inode: ... and this one; else, or when it cannot be opened, nothing is kept
 * @writable: also for writing
 *
 * Not thread safe. The file stays open, and locked once it is taken, until the process ends.
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_mapping_keep(const char *path, dev_t device, ino_t inode, bool writable);

/** braid_mapping_kept - the path of a file that is kept; NULL: none */
const char *braid_mapping_kept(dev_t device, ino_t inode);

/**
 * braid_mapping_open_again - map a region that was identified before
 * @out: set on success
 * @path: as in braid_mapping_open()
 * @sb: the validated copy: all its ranges are inside the mapping
 *
 * Return: as braid_mapping_open(); -ESTALE: the file is another, smaller one.
 */
int braid_mapping_open_again(struct braid_mapping **out, const char *path,
			     const struct braid_superblock *sb);

#define BRAID_REGION_MAX_BYTES	(1ULL << 38)	/* a larger size is forged */

/**
 * braid_mapping_private - memory for a region's copy, all zeros
 * @bytes: of it; at most BRAID_REGION_MAX_BYTES
 * @path: for messages
 *
 * Return: the mapping, or NULL with braid_fail().
 */
struct braid_mapping *braid_mapping_private(u64 bytes, const char *path);

/** braid_mapping_close - unmap and free; NULL is fine */
void braid_mapping_close(struct braid_mapping *m);

/**
 * braid_mapping_take - map a region to drain it, as the only agent
 * @out: set on success; writable, and locked until it is closed
 * @path: as in braid_mapping_open()
 *
 * Return: as braid_mapping_open(); -EBUSY with braid_fail() that names the holder where it
 * is known.
 */
int braid_mapping_take(struct braid_mapping **out, const char *path);

/**
 * braid_mapping_gone - whether the file is no longer the mapped one
 * @m: the mapping
 *
 * Return: NULL, or a phrase: removed, truncated, unmapped by the guest.
 */
const char *braid_mapping_gone(const struct braid_mapping *m);

/**
 * braid_mapping_identify - a consistent, validated copy of the superblock
 * @m: the mapping
 * @sb: filled on success; private
 *
 * May sleep for 15 ms, while the guest changes its buffers.
 *
 * Return: 0 (LIVE or DOWN); -EAGAIN while the driver lays it out; -ENODATA when no driver has used
 * it; -EPROTO: another version; -EMEDIUMTYPE: not a region; -EBADMSG: a region with an impossible
 * superblock; -EFAULT: the file has shrunk. All with braid_fail().
 */
int braid_mapping_identify(const struct braid_mapping *m, struct braid_superblock *sb);

/**
 * braid_mapping_marked - whether it has the host's mark, unused by a driver
 * @m: the mapping
 */
bool braid_mapping_marked(const struct braid_mapping *m);

/**
 * braid_mapping_probe - likewise, without sleeping
 * @m: the mapping
 * @sb: filled on success; private
 * @torn: accept buffers that are being changed: a guest that died may leave them so. Validate a
 * ring before you access it
 *
 * Return: as braid_mapping_identify(); -EINPROGRESS with braid_fail(): the buffers are changing,
 * which takes a guest microseconds.
 */
int braid_mapping_probe(const struct braid_mapping *m, struct braid_superblock *sb, bool torn);

/**
 * braid_mapping_buffers - reload a region's buffer descriptors
 * @m: the mapping, under braid_guard_run()
 * @sb: a validated copy; buffers_seq, nr_buffers and buffers[] are replaced on success
 *
 * Return: 0; -EAGAIN while they change; -ESTALE: reinitialized; -EBADMSG with braid_fail(): they
 * are invalid.
 */
int braid_mapping_buffers(const struct braid_mapping *m, struct braid_superblock *sb);

#define BRAID_MOVE_TRIES	16	/* tries to read a ring while buffers keep changing */

/** braid_mapping_same_place - whether a buffer's rings are where they were, with the same shape */
static inline bool braid_mapping_same_place(const struct braid_buffer_desc *a,
					    const struct braid_buffer_desc *b)
{
	return a->layout == b->layout && a->rings_offset == b->rings_offset &&
	       a->ring_stride == b->ring_stride && a->nr_rings == b->nr_rings &&
	       a->nr_slots == b->nr_slots && a->subbuf_bytes == b->subbuf_bytes &&
	       a->private_bytes == b->private_bytes &&
	       !((a->flags ^ b->flags) & ~BRAID_BUFFER_CLOSING);
}

/**
 * braid_mapping_buffers_seq - the word that moves when buffers do; under braid_guard_run()
 *
 * It is ordered after the preceding loads, and before those that follow.
 */
static inline u32 braid_mapping_buffers_seq(const struct braid_mapping *m)
{
	braid_fence();							/* (R3) */
	return braid_load_acquire(&((const struct braid_superblock *)m->base)->buffers_seq);
}

/**
 * braid_mapping_same - whether the region is still the one of a superblock
 * @m: the mapping, under braid_guard_run()
 * @incarnation: of the copy
 *
 * Call after bytes were copied and before they are trusted: it is ordered after the preceding
 * loads. True in LIVE and in DOWN.
 */
static inline bool braid_mapping_same(const struct braid_mapping *m, u64 incarnation)
{
	const struct braid_superblock *sb = (const struct braid_superblock *)m->base;
	u32 state;

	braid_fence();
	state = braid_load(&sb->state);
	return braid_load(&sb->incarnation) == incarnation &&
	       (state == BRAID_STATE_LIVE || state == BRAID_STATE_DOWN);
}

/**
 * braid_stable_copy - copy what begins with a sequence number, a u32 that is odd while it changes
 * @to: room for @bytes; whole only if it was stable
 * @from: in a mapping, under braid_guard_run()
 * @bytes: with the sequence number, which the copy has, too
 * @known: the number of what the caller has already; 0: none
 *
 * Return: the number; 0: nothing new, or it was being changed.
 */
static inline u32 braid_stable_copy(void *to, const void *from, size_t bytes, u32 known)
{
	u32 seq = braid_load_acquire((const u32 *)from);		/* (M1, K3, K6, K8) */

	if (!seq || seq & 1 || seq == known)
		return 0;
	memcpy(to, from, bytes);
	memcpy(to, &seq, sizeof(seq));
	braid_fence();							/* (M1, K3, K6, K8) */
	return braid_load((const u32 *)from) == seq ? seq : 0;
}

/** braid_mapping_state - the state word, as it is now; under braid_guard_run() */
static inline u32 braid_mapping_state(const struct braid_mapping *m)
{
	return braid_load_acquire(&((const struct braid_superblock *)m->base)->state);
}

/**
 * braid_mapping_section - where a section is
 * @m: the mapping
 * @sb: a validated copy
 * @id: enum braid_section_id
 */
static inline void *braid_mapping_section(const struct braid_mapping *m,
					  const struct braid_superblock *sb, u32 id)
{
	return m->base + sb->sections[id].offset;
}

/**
 * braid_mapping_ring - find one ring
 * @m: the mapping
 * @sb: a validated copy
 * @buffer: its index, of an entry in use
 * @vcpu: less than the buffer's nr_rings
 * @map: filled; shared memory is not read
 */
void braid_mapping_ring(const struct braid_mapping *m, const struct braid_superblock *sb,
			u32 buffer, u32 vcpu, struct braid_ring_map *map);

#endif /* BRAID_TRANSPORT_TRANSPORT_H */
