/* SPDX-License-Identifier: GPL-2.0 */
/* The vmclock page: the hypervisor's word on whether the counter was disrupted, and on the time. */
#ifndef BRAID_CLOCK_VMCLOCK_H
#define BRAID_CLOCK_VMCLOCK_H

#include "shared/vmclock.h"

/**
 * braid_vmclock_start - find and map the page, if the hypervisor provides one
 *
 * Beside the kernel's own driver (ptp_vmclock): the page is only read.
 * Context: may sleep.
 */
void braid_vmclock_start(void);

/** braid_vmclock_stop - the reverse; no other call may follow or run */
void braid_vmclock_stop(void);

/**
 * braid_vmclock_use - use a page that is mapped already
 * @memory: what should be a vmclock page; NULL: none
 * @bytes: of @memory
 *
 * Return: 0, or -EINVAL: not one that this driver knows; none is used then.
 */
int braid_vmclock_use(const void *memory, u64 bytes);

/** braid_vmclock_is_there - whether there is a page */
bool braid_vmclock_is_there(void);

/**
 * braid_vmclock_begin - load the disruption marker
 * @seq: for braid_vmclock_held()
 * @marker: filled if the guest has a page that is not being changed
 *
 * Never waits. Return: true; false: no marker.
 */
bool braid_vmclock_begin(u32 *seq, u64 *marker);

/** braid_vmclock_held - whether the page has not changed since braid_vmclock_begin() */
bool braid_vmclock_held(u32 seq);

/**
 * braid_vmclock_take - take the page's contents, at the counter's current value
 * @now: filled on success
 *
 * Return: true; false: there is no page, or it was being changed at each of a few attempts.
 */
bool braid_vmclock_take(struct braid_vmclock *now);

#endif /* BRAID_CLOCK_VMCLOCK_H */
