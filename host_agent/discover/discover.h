/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds regions on this machine, and whose they are. */
#ifndef BRAID_DISCOVER_DISCOVER_H
#define BRAID_DISCOVER_DISCOVER_H

#include <sys/types.h>

#include "host_agent/transport/directory.h"
#include "host_agent/transport/transport.h"

#define BRAID_GUEST_NAME_BYTES	64	/* as braid_chunk_stream.name */

/* A file that a running QEMU shares with its guest. */
struct braid_shared_file {
	char path[256];
	dev_t device;
	ino_t inode;
	pid_t pid;
	uid_t uid;				/* who runs it */
	char guest[BRAID_GUEST_NAME_BYTES];	/* QEMU's -name, or "" */
};

/**
 * braid_qemu_files - what the QEMUs of this machine map shared
 * @files: set on success; free()
 * @nr: their number
 *
 * Processes that this user may not look into are left out.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_qemu_files(struct braid_shared_file **files, size_t *nr);

/**
 * braid_qemu_of - the QEMU that maps a file shared
 * @device: of the file
 * @inode: of the file
 *
 * Many who ask at about the same time share one look at all processes. One thread's.
 *
 * Return: its pid, or 0: not known.
 */
pid_t braid_qemu_of(dev_t device, ino_t inode);

/* What the scheduler gave a thread so far, in ns. */
struct braid_thread_times {
	u64 run_ns;
	u64 wait_ns;		/* it could have run, and another one did */
};

/**
 * braid_thread_times - ask the scheduler for a thread's times
 * @tid: of this host
 * @times: filled on success
 *
 * Return: 0, or -errno: there is no such thread, or it is not ours to see.
 */
int braid_thread_times(pid_t tid, struct braid_thread_times *times);

enum braid_driver_state {
	BRAID_DRIVER_NONE,	/* never loaded */
	BRAID_DRIVER_STARTING,
	BRAID_DRIVER_LIVE,
	BRAID_DRIVER_SILENT,	/* should be live, and its heartbeat stands still */
	BRAID_DRIVER_DOWN,
	BRAID_DRIVER_UNREADABLE,	/* see error and why */
};

/** braid_driver_state_name - "live", ... */
const char *braid_driver_state_name(enum braid_driver_state state);

/* A region that was found. Strings are tamed: fit for a terminal. */
struct braid_found {
	char path[256];
	char name[BRAID_GUEST_NAME_BYTES];	/* QEMU's, or the guest's if unique, or the file's */
	pid_t qemu_pid;				/* 0: not known */
	enum braid_driver_state state;
	int error;				/* UNREADABLE: -errno ... */
	char why[256];				/* ... and its line */
	struct braid_superblock sb;		/* SILENT, LIVE, DOWN: valid; else zero */
	struct braid_event_count events;
	u32 fill_permille[BRAID_MAX_BUFFERS];	/* of the buffer's bytes, unread */
	dev_t device;
	ino_t inode;
};

#define BRAID_DISCOVER_LIVENESS	(1u << 0)	/* wait up to 1 s to tell LIVE from SILENT */

/**
 * braid_discover - look for regions
 * @found: set on success; free()
 * @nr: their number
 * @paths: look at these alone, whatever they are; when NULL, at all of /dev/shm and at
 *	what running QEMUs share, and only what is a region is found
 * @nr_paths: their number
 * @flags: BRAID_DISCOVER_*
 * @denied: set on success to the number of files that this user may not read; may be NULL
 *
 * Nothing in a region is changed.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_discover(struct braid_found **found, size_t *nr, const char *const *paths,
		   size_t nr_paths, u32 flags, size_t *denied);

/**
 * braid_mapping_fill - how full a buffer's rings are
 * @m: the mapping, under braid_guard_run()
 * @sb: the validated copy of its superblock
 * @buffer: its index, of an entry in use
 *
 * Return: unread bytes as permille of what the rings hold.
 */
u32 braid_mapping_fill(const struct braid_mapping *m, const struct braid_superblock *sb,
		       u32 buffer);

#endif /* BRAID_DISCOVER_DISCOVER_H */
