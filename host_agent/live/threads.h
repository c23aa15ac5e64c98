/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's threads that are a recorded guest's vCPUs, and the further ones of its QEMU.
 *
 * - A row says since when a thread is known to be a vCPU: since the check before the one that found
 *   it. A thread that ends without a successor gets no row.
 * - They are found by the QEMU's process id alone, in /proc; the guest's memory is not read.
 * - All threads are checked when their number changes, and after some time anyway.
 * - That they are unknown is reported once per source.
 */
#ifndef BRAID_LIVE_THREADS_H
#define BRAID_LIVE_THREADS_H

#include "host_agent/live/quota.h"

#define BRAID_LIVE_OTHERS	512u	/* threads of a QEMU without vCPU; further ones get no row */

/* The threads that are the guest's vCPUs, as the stream has them. */
struct braid_live_threads {
	u64 due_ns;			/* when to check again */
	u64 checked_ns;			/* when they were last checked; 0: not yet */
	u64 count;			/* of the QEMU's threads then */
	u32 checks;
	pid_t of[BRAID_QEMU_VCPUS];	/* 0: not known */
	pid_t all;
	pid_t others[BRAID_LIVE_OTHERS];	/* that have a row */
	size_t nr_others;
	bool reported_unknown;
	struct braid_live_quota *quota;	/* of their cgroups */
};

/* Records the threads of the vCPUs, or reports that they are unknown. */
int braid_live_threads_begin(struct braid_live_threads *t, struct braid_live_stream *s);

/* Records new ones. */
int braid_live_threads_poll(struct braid_live_threads *t, struct braid_live_stream *s);

/* Before the stream's end: what its cgroups have counted up to now. */
int braid_live_threads_finish(struct braid_live_threads *t, struct braid_live_stream *s);

void braid_live_threads_free(struct braid_live_threads *t);

#endif /* BRAID_LIVE_THREADS_H */
