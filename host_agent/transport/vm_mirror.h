/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A private copy of a region that lies in a guest's own memory, kept up to date by reading alone.
 *
 * Whoever drains it uses it as a region that is shared: its rings have a reader of ours, and what
 * is written to it stays here. It never learns of it: commands are not answered, and no clock is
 * exchanged.
 *
 * Invariants:
 * - An event becomes readable in the copy only when it is proven that the guest's kernel lived
 *   after its bytes were copied. docs/guest-memory.md has the argument.
 * - All chunks are of one nonce, and the superblock of one incarnation; if not, the copy is gone.
 */
#ifndef BRAID_TRANSPORT_VM_MIRROR_H
#define BRAID_TRANSPORT_VM_MIRROR_H

#include "host_agent/transport/transport.h"

#define BRAID_VM_SCHEME	"pid:"	/* of an endpoint's address; the VMM's process follows */
#define BRAID_VM_SEARCH_SHARE	50	/* searches take at most 1/50 of the time */

struct braid_vm_mirror;

/**
 * braid_vm_mirror_open - find a process' region, and begin to copy it
 * @out: set on success
 * @pid: of the VMM
 * @path: for messages, and the mapping's path
 * @former: NULL, or a mirror that was left: if it is of the same incarnation, the readers of its
 * rings go on here. The region may have moved to another process; this keeps no pointer to it
 *
 * Return: 0; -ENODATA: no region now; -ESTALE: it is older than what @former has read; or -errno.
 * With braid_fail().
 */
int braid_vm_mirror_open(struct braid_vm_mirror **out, pid_t pid, const char *path,
			 const struct braid_vm_mirror *former);

/** braid_vm_mirror_mapping - the copy; it lives until it is closed, longer than the mirror */
struct braid_mapping *braid_vm_mirror_mapping(struct braid_vm_mirror *m);

/**
 * braid_vm_mirror_pull - a turn, or the rest of it: bounded work
 * @m: the mirror; its mapping is not closed
 *
 * Sets the mapping's ->gone when there is no more to come.
 *
 * Return: whether there are new events.
 */
bool braid_vm_mirror_pull(struct braid_vm_mirror *m);

/**
 * braid_vm_mirror_settle - have all that the guest has committed by now
 * @m: the mirror
 *
 * Sleeps until it is proven: as a rule until the guest's next heartbeat, BRAID_POLL_MS at most. If
 * it does not come, a second, or if there was none in the last second, three times BRAID_POLL_MS.
 */
void braid_vm_mirror_settle(struct braid_vm_mirror *m);

/**
 * braid_vm_mirror_vouch - the guest was not reset between @since_ns and this call
 * @m: the mirror; no turn has begun
 * @since_ns: of CLOCK_MONOTONIC_RAW
 *
 * Makes readable what was copied, if the guest's heartbeat was seen after @since_ns.
 */
void braid_vm_mirror_vouch(struct braid_vm_mirror *m, u64 since_ns);

/** braid_vm_mirror_unproven - events that were copied, and may not be the guest's */
u64 braid_vm_mirror_unproven(const struct braid_vm_mirror *m);

/**
 * braid_vm_mirror_gather - begin a turn, or continue it with what braid_vm_memory_fetch() has read
 *
 * braid_vm_mirror_pull() ends the turn: it does the steps that are left.
 *
 * Return: whether there is something to fetch; if not, the turn has no more steps.
 */
bool braid_vm_mirror_gather(struct braid_vm_mirror *m);

/**
 * braid_vm_mirror_rest_ns - how long the next turn can wait
 *
 * So long that a turn copies an eighth of a ring, or a quarter of what it can copy; at most 32 ms,
 * in the first 20 s 16 ms.
 */
u64 braid_vm_mirror_rest_ns(const struct braid_vm_mirror *m);

/**
 * braid_vm_mirror_leave - keep how far its rings were read; it is not pulled any more
 * @m: the mirror; its mapping is about to be closed
 */
void braid_vm_mirror_leave(struct braid_vm_mirror *m);

/** braid_vm_mirror_close - the mapping stays; NULL is fine */
void braid_vm_mirror_close(struct braid_vm_mirror *m);

#endif /* BRAID_TRANSPORT_VM_MIRROR_H */
