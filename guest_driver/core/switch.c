// SPDX-License-Identifier: GPL-2.0
/*
 * Switches recording off and on, in any context, and counts for the host how often and how long it
 * was off. A ring is off while at least one of four switches is: the buffer's calls, its user's
 * switch, the triggers' one, and the ring's own calls.
 */
#include <linux/export.h>

#include "guest_driver/core/buffer.h"
#include "tracebraid/event.h"

/* Counting ------------------------------------------------------------------------------ */

static atomic_t changes = ATOMIC_INIT(0);	/* of any ring's count */

u32 braid_switch_changes(void)
{
	return atomic_read_acquire(&changes);
}

/*
 * Switches of one ring may change on several CPUs at once; whoever makes it go off or on accounts
 * for that.
 */
static void braid_switch_count(struct braid_off_count *count, bool off)
{
	atomic_inc_return(&count->begun);	/* full barriers, as is the one of ended */
	if (!off && !atomic_dec_return(&count->switches)) {
		atomic64_add(braid_counter(), &count->steps);
	} else if (off && atomic_inc_return(&count->switches) == 1) {
		atomic_inc(&count->times);
		atomic64_sub(braid_counter(), &count->steps);
	}
	atomic_inc_return(&count->ended);
	atomic_inc_return(&changes);
}

static void braid_switch_count_all(struct braid_buffer *buffer, bool off)
{
	u32 cpu;

	for (cpu = 0; cpu < buffer->nr_cpus; cpu++)
		braid_switch_count(&buffer->cpus[cpu].off, off);
}

#define CALLS	(BRAID_BUFFER_OFF - 1)

/* Return: whether this was the first of the calls that are in effect. */
static bool braid_switch_disable(atomic_t *disabled)
{
	return (atomic_inc_return(disabled) & CALLS) == 1;
}

/* A surplus enable has no effect. Return: whether this undid the last call. */
static bool braid_switch_enable(atomic_t *disabled)
{
	int calls = atomic_read(disabled);

	do {
		if (!(calls & CALLS))
			return false;
	} while (!atomic_try_cmpxchg(disabled, &calls, calls - 1));
	return (calls & CALLS) == 1;
}

/* Switches ------------------------------------------------------------------------------ */

void braid_buffer_record_disable(struct braid_buffer *buffer)
{
	if (braid_switch_disable(&buffer->disabled))
		braid_switch_count_all(buffer, true);
}
EXPORT_SYMBOL_GPL(braid_buffer_record_disable);

void braid_buffer_record_enable(struct braid_buffer *buffer)
{
	if (braid_switch_enable(&buffer->disabled))
		braid_switch_count_all(buffer, false);
}
EXPORT_SYMBOL_GPL(braid_buffer_record_enable);

int braid_buffer_record_disable_cpu(struct braid_buffer *buffer, int cpu)
{
	if (cpu < 0 || cpu >= buffer->nr_cpus)
		return -EINVAL;
	if (braid_switch_disable(&buffer->cpus[cpu].disabled))
		braid_switch_count(&buffer->cpus[cpu].off, true);
	return 0;
}
EXPORT_SYMBOL_GPL(braid_buffer_record_disable_cpu);

int braid_buffer_record_enable_cpu(struct braid_buffer *buffer, int cpu)
{
	if (cpu < 0 || cpu >= buffer->nr_cpus)
		return -EINVAL;
	if (braid_switch_enable(&buffer->cpus[cpu].disabled))
		braid_switch_count(&buffer->cpus[cpu].off, false);
	return 0;
}
EXPORT_SYMBOL_GPL(braid_buffer_record_enable_cpu);

void braid_buffer_set_on(struct braid_buffer *buffer, bool on)
{
	int was = on ? atomic_fetch_andnot(BRAID_BUFFER_OFF, &buffer->disabled) :
		       atomic_fetch_or(BRAID_BUFFER_OFF, &buffer->disabled);

	if (!(was & BRAID_BUFFER_OFF) != on)
		braid_switch_count_all(buffer, !on);
	if (!on)
		braid_synchronize_writers();
}

/* Triggers ------------------------------------------------------------------------------ */

void braid_switch_freeze(struct braid_buffer *buffer)
{
	if (!(atomic_fetch_or(BRAID_BUFFER_FROZEN, &buffer->disabled) & BRAID_BUFFER_FROZEN))
		braid_switch_count_all(buffer, true);
}

void braid_switch_thaw(struct braid_buffer *buffer)
{
	if (atomic_fetch_andnot(BRAID_BUFFER_FROZEN | BRAID_BUFFER_COUNTED, &buffer->disabled) &
	    BRAID_BUFFER_FROZEN)
		braid_switch_count_all(buffer, false);
}

/* For the host ---------------------------------------------------------------------------- */

static void braid_switch_store(struct braid_ring_private *priv, struct braid_off_count *count,
			       u32 times, s64 steps, bool is_off)
{
	braid_store(&priv->off_seq, count->seq + 1);
	braid_fence();					/* (F1) */
	braid_store(&priv->off_times, times);
	/* Those who switch at one time read their counters in any order. */
	braid_store(&priv->off_steps, max(steps, 0LL));
	braid_store(&priv->off_now, is_off);
	count->seq += 2;
	braid_store_release(&priv->off_seq, count->seq);	/* (F1) */
}

bool braid_switch_publish(struct braid_off_count *count, struct braid_ring_private *priv,
			  bool again)
{
	u32 ended = atomic_read_acquire(&count->ended);
	bool is_off = atomic_read(&count->switches) > 0;
	u32 times = atomic_read(&count->times);
	s64 steps = atomic64_read(&count->steps);

	if (again)
		count->seen = ended - 1;
	if (ended == count->seen && !is_off && !count->was_off)
		return false;
	if (is_off)
		steps += braid_counter();
	smp_rmb();	/* the words before begun */
	if (atomic_read(&count->begun) != ended)
		return true;	/* a change is underway */
	braid_switch_store(priv, count, times, steps, is_off);
	count->seen = ended;
	count->was_off = is_off;
	return is_off;
}
