// SPDX-License-Identifier: GPL-2.0
/*
 * Answers the host's pings with the counter, samples the host's clock, publishes wall time and what
 * vmclock says.
 */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/processor.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/timekeeping.h>

#include "guest_driver/clock/exchange.h"
#include "guest_driver/clock/pair.h"
#include "guest_driver/clock/vmclock.h"
#include "guest_driver/core/counter.h"

/* A burst ends after this time without a ping, and after this total time. */
#define BURST_FIRST_NS		(6 * NSEC_PER_MSEC)	/* the host may be busy too */
#define BURST_QUIET_NS		(4 * NSEC_PER_MSEC)
#define BURST_WHOLE_NS		(30 * NSEC_PER_MSEC)	/* of which the vCPU has some */
#define WALL_PERIOD_NS		NSEC_PER_SEC
#define MARKER_TRIES		3

static bool clock_isolated;
module_param(clock_isolated, bool, 0644);
MODULE_PARM_DESC(clock_isolated, "1: the host may run the clock exchange on isolated CPUs too, for up to 30 ms at a time; 0: never (default)");

/* The counter, not before any load that precedes it, and the vCPU that it was read on. */
static u64 braid_exchange_read_counter(u32 *vcpu)
{
	u64 counter;

	preempt_disable();
	counter = braid_counter_ordered();
	*vcpu = smp_processor_id() + 1;
	preempt_enable();
	return counter;
}

static void braid_exchange_answer(struct braid_clock_cells *cells, u64 ping)
{
	u32 vcpu;

	braid_store(&cells->pong_counter, braid_exchange_read_counter(&vcpu));
	braid_store(&cells->pong_vcpu, vcpu);
	braid_store_release(&cells->pong, ping);			/* (K2) */
}

/*
 * Spins for pings. The vCPU may be preempted at any moment for longer than the timeout, so a
 * pending ping is answered however late; the next ones are fast again.
 */
static void braid_exchange_serve_burst(struct braid_clock_cells *cells, u64 burst)
{
	u64 start = ktime_get_mono_fast_ns(), now = start, end = start + BURST_FIRST_NS;
	u64 answered = READ_ONCE(cells->ping), ping;

	braid_store_release(&cells->ready, burst);		/* (K4) */
	for (; now - start < BURST_WHOLE_NS; now = ktime_get_mono_fast_ns()) {
		ping = braid_load_acquire(&cells->ping);	/* (K1) */
		if (ping != answered) {
			braid_exchange_answer(cells, ping);
			answered = ping;
			end = ktime_get_mono_fast_ns() + BURST_QUIET_NS;
		} else if ((s64)(now - end) >= 0) {
			return;
		} else {
			cpu_relax();
			if (need_resched())
				cond_resched();
		}
		if (READ_ONCE(cells->burst) != burst || READ_ONCE(cells->burst_over) == burst)
			return;		/* the host has enough samples */
	}
}

/*
 * Moves to the vCPU that the host requests, unless it is isolated: a burst would occupy it for up
 * to BURST_WHOLE_NS. A vCPU that is offline, or goes offline during the burst, is not an error: the
 * thread runs elsewhere, and each answer names its vCPU.
 */
static bool braid_exchange_move_to_vcpu(u32 vcpu, struct cpumask *before)
{
	u32 cpu = vcpu - 1;

	if (!vcpu || cpu >= nr_cpu_ids)
		return false;
	cpu = braid_index_nospec(cpu, nr_cpu_ids);
	if (cpu_is_isolated(cpu) && !READ_ONCE(clock_isolated))
		return false;
	cpumask_copy(before, current->cpus_ptr);
	return !set_cpus_allowed_ptr(current, cpumask_of(cpu));
}

static void braid_exchange_move_back(const struct cpumask *before)
{
	/* They may all be offline by now. */
	if (set_cpus_allowed_ptr(current, before))
		set_cpus_allowed_ptr(current, cpu_possible_mask);
}

static void braid_exchange_serve(struct braid_clock_cells *cells, u64 burst)
{
	static struct cpumask before;	/* too large for the stack; only one thread uses it */
	bool away = braid_exchange_move_to_vcpu(braid_load(&cells->burst_vcpu), &before);

	braid_exchange_serve_burst(cells, burst);
	if (away)
		braid_exchange_move_back(&before);
}

/*
 * Reads the counter, and the disruption marker that the page had before and after. Return:
 * poll_flags; a page that is always being changed gives no marker, and delays nothing.
 */
static u32 braid_exchange_read_marked(u64 *counter, u32 *vcpu, u64 *marker)
{
	bool stable;
	int tries;
	u32 seq;

	for (tries = 0; tries < MARKER_TRIES && braid_vmclock_is_there(); tries++) {
		stable = braid_vmclock_begin(&seq, marker);
		*counter = braid_exchange_read_counter(vcpu);
		if (stable && braid_vmclock_held(seq))
			return BRAID_POLL_MARKER;
	}
	*marker = 0;
	*counter = braid_exchange_read_counter(vcpu);
	return 0;
}

/* What this driver knows of the disruption marker. */
static struct {
	bool seen;
	u64 last;
	u32 changes;
} marked;

/* Return: whether the marker differs from that of the previous poll sample. */
static bool braid_exchange_publish_poll(struct braid_clock_cells *cells)
{
	static u32 seq;
	u64 host_ns = braid_load_acquire(&cells->host_ns), counter, marker;	/* (K5) */
	u32 vcpu, flags;
	bool changed;

	braid_fence();		/* (K9) after this turn's heartbeat was stored */
	flags = braid_exchange_read_marked(&counter, &vcpu, &marker);
	changed = flags && marked.seen && marker != marked.last;
	braid_store(&cells->poll_seq, seq + 1);
	braid_fence();					/* (K6) */
	braid_store(&cells->poll_vcpu, vcpu);
	braid_store(&cells->poll_host_ns, host_ns);
	braid_store(&cells->poll_counter, counter);
	braid_store(&cells->poll_marker, marker);
	braid_store(&cells->poll_flags, flags);
	seq += 2;
	braid_store_release(&cells->poll_seq, seq);	/* (K6) */
	if (flags) {
		marked.seen = true;
		marked.last = marker;
		marked.changes += changed;
	}
	return changed;
}

static u32 braid_exchange_wall_flags(void)
{
	if (!braid_counter_unstable())
		return 0;
	pr_notice_once("this kernel has marked the TSC unstable; 'tracebraid clock' on the host says whether the error bounds of this guest's events still hold\n");
	return BRAID_WALL_TSC_UNSTABLE;
}

/* A pair, for the host and for the rings' TIME_STAMPs. */
static void braid_exchange_publish_wall(struct braid_guest_region *region)
{
	static u32 seq;
	struct braid_clock_cells *cells = region->clock;
	struct braid_clock_map map;
	struct braid_pair pair;

	map.mult = braid_clock_nominal_mult(region->layout.counter_hz);
	braid_pair_take(&pair, map.mult);
	map.ref_counter = pair.counter;
	map.ref_ns = pair.realtime_ns;
	braid_clock_latch_set(&region->external, &map);

	braid_store(&cells->wall_seq, seq + 1);
	braid_fence();					/* (K3) */
	braid_store(&cells->wall_source, pair.source);
	braid_store(&cells->wall_counter, pair.counter);
	braid_store(&cells->wall_realtime_ns, pair.realtime_ns);
	braid_store(&cells->wall_boottime_ns, pair.boottime_ns);
	braid_store(&cells->wall_flags, braid_exchange_wall_flags());
	seq += 2;
	braid_store_release(&cells->wall_seq, seq);	/* (K3) */
}

/* Leaves the last values where the page can't be read now. */
static void braid_exchange_publish_vmclock(struct braid_guest_region *region)
{
	static u32 seq;
	struct braid_clock_cells *cells = region->clock;
	struct braid_vmclock now;

	if (!braid_vmclock_take(&now))
		return;
	braid_store(&cells->vm_seq, seq + 1);
	braid_fence();					/* (K8) */
	braid_store(&cells->vm_flags, now.flags);
	braid_store(&cells->vm_marker, now.marker);
	braid_store(&cells->vm_counter, now.counter);
	braid_store(&cells->vm_time_ns, now.time_ns);
	braid_store(&cells->vm_bound_ns, now.bound_ns);
	braid_store(&cells->vm_generation, now.generation);
	braid_store(&cells->vm_changes, marked.changes);
	braid_store(&cells->vm_time_type, now.time_type);
	braid_store(&cells->vm_status, now.status);
	seq += 2;
	braid_store_release(&cells->vm_seq, seq);	/* (K8) */
}

static u64 next_wall_ns;

void braid_exchange_start(struct braid_guest_region *region)
{
	braid_pair_start();
	braid_vmclock_start();
	marked.seen = false;
	marked.changes = 0;
	braid_exchange_publish_wall(region);
	braid_exchange_publish_vmclock(region);
	next_wall_ns = ktime_get_mono_fast_ns() + WALL_PERIOD_NS;
}

void braid_exchange_stop(void)
{
	braid_vmclock_stop();
	braid_pair_stop();
}

void braid_exchange_poll(struct braid_guest_region *region)
{
	struct braid_clock_cells *cells = region->clock;
	u64 burst = braid_load_acquire(&cells->burst);		/* (K7) */
	u64 now = ktime_get_mono_fast_ns();
	bool disrupted = braid_exchange_publish_poll(cells);

	if (burst != READ_ONCE(cells->ready))
		braid_exchange_serve(cells, burst);
	if (now >= next_wall_ns || disrupted) {
		braid_exchange_publish_wall(region);
		braid_exchange_publish_vmclock(region);
		next_wall_ns = now + WALL_PERIOD_NS;
	}
}
