/* SPDX-License-Identifier: GPL-2.0 */
/* The vmclock page: the hypervisor's word on whether the counter was disrupted, and on the time. */
#ifndef BRAID_CLOCK_VMCLOCK_H
#define BRAID_CLOCK_VMCLOCK_H

#include "tracebraid/abi.h"

#define BRAID_VMCLOCK_MAGIC	0x4b4c4356u	/* the bytes "VCLK" */
#define BRAID_VMCLOCK_VERSION	1

/* braid_vmclock_page.counter_id */
#define BRAID_VMCLOCK_CNTVCT	0
#define BRAID_VMCLOCK_TSC	1
#define BRAID_VMCLOCK_NONE	0xff	/* the hypervisor gives no time; QEMU up to 11 */

/* braid_vmclock_page.flags */
#define BRAID_VMCLOCK_PERIOD_MAXERROR	(1u << 4)
#define BRAID_VMCLOCK_TIME_MAXERROR	(1u << 6)
#define BRAID_VMCLOCK_GENERATION	(1u << 8)

/* As <uapi/linux/vmclock-abi.h> of 6.13 and later has it. Little endian. */
struct braid_vmclock_page {
	u32 magic;
	u32 size;
	u16 version;
	u8 counter_id;
	u8 time_type;			/* enum braid_vm_time_type */
	u32 seq_count;			/* odd while what follows changes */
	u64 disruption_marker;
	u64 flags;
	u8 pad[2];
	u8 clock_status;		/* enum braid_vm_status */
	u8 smearing_hint;
	u16 tai_offset_sec;
	u8 leap_indicator;
	u8 period_shift;
	u64 counter_value;
	u64 period;			/* of the counter, in s / 2^(64 + period_shift) */
	u64 period_esterror;
	u64 period_maxerror;
	u64 time_sec;			/* at counter_value */
	u64 time_frac;			/* in s / 2^64 */
	u64 time_esterror_ns;
	u64 time_maxerror_ns;
	u64 generation;			/* in later editions: see size */
};

/* The page's contents at a counter value. */
struct braid_vmclock {
	u32 flags;			/* BRAID_VM_*, as in the clock cells, like the rest */
	u8 time_type;
	u8 status;
	u64 marker;
	u64 counter;
	u64 time_ns;
	u64 bound_ns;
	u64 generation;
};

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

/**
 * braid_vmclock_evaluate - evaluate a copy of the page at a counter value
 * @copy: consistent
 * @counter_id: of the counter that this guest reads
 * @counter: its value
 * @out: filled; flags say with what
 */
void braid_vmclock_evaluate(const struct braid_vmclock_page *copy, u8 counter_id, u64 counter,
			    struct braid_vmclock *out);

#endif /* BRAID_CLOCK_VMCLOCK_H */
