// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Checks and copies a vmclock page, and evaluates the copy at a counter value. */
#include "shared/clock.h"
#include "shared/vmclock.h"

#define NS_PER_SECOND	1000000000ULL
#define END_OF_TIME	(~0ULL >> 1)	/* the largest s64 */
#define MOST_SECONDS	(END_OF_TIME / NS_PER_SECOND)
#define WORDS		(sizeof(struct braid_vmclock_page) / sizeof(u64))

u32 braid_vmclock_check(const struct braid_vmclock_page *page, u64 bytes)
{
	u32 size;

	if (!page || bytes < BRAID_VMCLOCK_LEAST_BYTES)
		return 0;
	size = braid_load(&page->size);
	if (braid_load(&page->magic) != BRAID_VMCLOCK_MAGIC || size < BRAID_VMCLOCK_LEAST_BYTES ||
	    size > bytes || braid_load(&page->version) != BRAID_VMCLOCK_VERSION)
		return 0;
	return size;
}

void braid_vmclock_copy(struct braid_vmclock_page *to, const struct braid_vmclock_page *page,
			u32 bytes)
{
	const u64 *from = (const u64 *)page;
	unsigned int k, nr = bytes < sizeof(*to) ? BRAID_VMCLOCK_LEAST_BYTES / sizeof(u64) : WORDS;

	for (k = 0; k < nr; k++)
		((u64 *)to)[k] = braid_load(&from[k]);
	for (; k < WORDS; k++)
		((u64 *)to)[k] = 0;
	if (bytes < sizeof(*to))
		to->flags &= ~(u64)BRAID_VMCLOCK_GENERATION;
}

/* steps * rate / 2^shift, in s / 2^64: seconds and the rest. Return: false on overflow. */
static bool braid_vmclock_scale(u64 steps, u64 rate, u8 shift, u64 *sec, u64 *frac)
{
	u64 high = braid_clock_high(steps, rate), low = steps * rate;

	if (shift >= 64)
		return false;
	*sec = high >> shift;
	*frac = shift ? high << (64 - shift) | low >> shift : low;
	return true;
}

/* Rounded down. Return: false on overflow. */
static bool braid_vmclock_to_ns(u64 sec, u64 frac, u64 *ns)
{
	if (sec >= MOST_SECONDS)
		return false;
	*ns = sec * NS_PER_SECOND + braid_clock_high(frac, NS_PER_SECOND);
	return true;
}

/* The time at a counter value. Return: false when the page gives none. */
static bool braid_vmclock_time(const struct braid_vmclock_page *copy, u8 counter_id, u64 counter,
			       u64 *ns)
{
	u64 sec, frac;

	if (counter_id == BRAID_VMCLOCK_NONE || copy->counter_id != counter_id ||
	    copy->time_type >= BRAID_VM_TIME_TYPES || !copy->period ||
	    copy->clock_status == BRAID_VM_INITIALIZING ||
	    copy->clock_status >= BRAID_VM_UNRELIABLE)
		return false;
	/* Not before the page's own pair: the counter went back, or the page is wrong. */
	if ((s64)(counter - copy->counter_value) < 0 ||
	    !braid_vmclock_scale(counter - copy->counter_value, copy->period, copy->period_shift,
				 &sec, &frac))
		return false;
	frac += copy->time_frac;
	if (sec >= MOST_SECONDS || copy->time_sec >= MOST_SECONDS)
		return false;
	return braid_vmclock_to_ns(sec + copy->time_sec + (frac < copy->time_frac), frac, ns);
}

/* The maximum error of that time. Return: false when the page states none. */
static bool braid_vmclock_bound(const struct braid_vmclock_page *copy, u64 counter, u64 *ns)
{
	const u64 needed = BRAID_VMCLOCK_TIME_MAXERROR | BRAID_VMCLOCK_PERIOD_MAXERROR;
	u64 sec, frac;

	if ((copy->flags & needed) != needed ||
	    !braid_vmclock_scale(counter - copy->counter_value, copy->period_maxerror,
				 copy->period_shift, &sec, &frac) ||
	    !braid_vmclock_to_ns(sec, frac, ns) || copy->time_maxerror_ns > END_OF_TIME - *ns - 2)
		return false;
	*ns += copy->time_maxerror_ns + 2;	/* both conversions round down */
	return true;
}

void braid_vmclock_evaluate(const struct braid_vmclock_page *copy, u8 counter_id, u64 counter,
			    struct braid_vmclock *out)
{
	*out = (struct braid_vmclock){
		.marker = copy->disruption_marker,
		.counter = counter,
		.time_type = copy->time_type,
		.status = copy->clock_status,
	};
	if (copy->flags & BRAID_VMCLOCK_GENERATION) {
		out->flags |= BRAID_VM_GENERATION;
		out->generation = copy->generation;
	}
	if (!braid_vmclock_time(copy, counter_id, counter, &out->time_ns))
		return;
	out->flags |= BRAID_VM_TIME;
	if (braid_vmclock_bound(copy, counter, &out->bound_ns))
		out->flags |= BRAID_VM_BOUND;
}
