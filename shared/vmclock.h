/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The vmclock page of a hypervisor, and the time that it says a counter value has. */
#ifndef BRAID_SHARED_VMCLOCK_H
#define BRAID_SHARED_VMCLOCK_H

#include "shared/platform.h"
#include "tracebraid/abi.h"

#define BRAID_VMCLOCK_MAGIC	0x4b4c4356u	/* the bytes "VCLK" */
#define BRAID_VMCLOCK_VERSION	1

/* braid_vmclock_page.counter_id */
#define BRAID_VMCLOCK_CNTVCT	0
#define BRAID_VMCLOCK_TSC	1
#define BRAID_VMCLOCK_NONE	0xff	/* the hypervisor gives no time; QEMU up to 11 */

/* braid_vmclock_page.flags */
#define BRAID_VMCLOCK_TAI_OFFSET	(1u << 0)
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

#define BRAID_VMCLOCK_LEAST_BYTES	offsetof(struct braid_vmclock_page, generation)

static_assert(BRAID_VMCLOCK_LEAST_BYTES == 104, "vmclock_abi");
static_assert(sizeof(struct braid_vmclock_page) == 112, "vmclock_abi");

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
 * braid_vmclock_check - whether memory is a vmclock page of a known format
 * @page: what should be one; NULL: none
 * @bytes: of @page
 *
 * Return: its size, as it states; 0: it is not one.
 */
u32 braid_vmclock_check(const struct braid_vmclock_page *page, u64 bytes);

/**
 * braid_vmclock_copy - copy a page; whether the copy is consistent, seq_count tells
 * @to: filled; what the page does not have is 0
 * @from: the page
 * @bytes: from braid_vmclock_check()
 */
void braid_vmclock_copy(struct braid_vmclock_page *to, const struct braid_vmclock_page *from,
			u32 bytes);

/**
 * braid_vmclock_evaluate - evaluate a copy of the page at a counter value
 * @copy: consistent
 * @counter_id: of the counter that is read
 * @counter: its value
 * @out: filled; flags say with what
 */
void braid_vmclock_evaluate(const struct braid_vmclock_page *copy, u8 counter_id, u64 counter,
			    struct braid_vmclock *out);

#endif /* BRAID_SHARED_VMCLOCK_H */
