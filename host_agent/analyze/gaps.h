/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Switches that the host's trace omits. Some kernels omit a few sched_switch events, and count no loss.
 *
 * The next event of a CPU shows it: its task is not the one that was switched to. A *gap* is the time
 * from the CPU's last event before to that event. Invariants:
 * - It opens at its start, not when the event is met: the ring's next event is known by then. So
 *   nothing that was handed on needs to be taken back.
 * - In a gap the CPU's current task is unknown, and so is the culprit of those that wait there.
 * - The vCPU that was current is unknown until an event proves its state. The one that is current at
 *   the end is unknown in the gap, unless it is proven to run on another CPU.
 * - Other vCPUs are as their events say: a gap hides no more switches than its ends show.
 * - A gap ends with its CPU's next event, before that is taken. A CPU with lost events has none:
 *   the loss hides more.
 *
 * After a switch's event, until the switch itself, a few events are still of the task that is
 * switched out; interrupts are off, and the scheduler has no events there. So such an event shows
 * a switch only if it is of the scheduler, has a role, or is of a third task.
 */
#ifndef BRAID_ANALYZE_GAPS_H
#define BRAID_ANALYZE_GAPS_H

#include "host_agent/analyze/roles.h"

struct braid_host_cpu;
struct braid_states;

/* The types of events of which it is asked whether they show a switch: few, so found when needed. */
struct braid_gaps {
	struct braid_format *format;	/* NULL: none was needed */
	struct braid_roles roles;
};

/**
 * braid_gaps_check - open a gap if an event shows that a switch before it was omitted
 * @s: the states
 * @item: the next event of one of a host's CPUs; not lost ones before it
 * @since_ns: the time of the CPU's event before it
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_gaps_check(struct braid_states *s, const struct braid_item *item, s64 since_ns);

/**
 * braid_gaps_close - end a CPU's gap, if it has one
 * @s: the states
 * @cpu: of any host
 * @ns: the time of its next event
 *
 * Return: 0, or -errno of an op.
 */
int braid_gaps_close(struct braid_states *s, struct braid_host_cpu *cpu, s64 ns);

/** braid_gaps_free - free the types */
void braid_gaps_free(struct braid_gaps *g);

#endif /* BRAID_ANALYZE_GAPS_H */
