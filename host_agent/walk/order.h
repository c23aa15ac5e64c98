/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether an event's place among the lines before it is proven. */
#ifndef BRAID_WALK_ORDER_H
#define BRAID_WALK_ORDER_H

#include "host_agent/trace/source.h"

/*
 * The latest possible times of the two clocks that reach farthest. At least one of them is not the
 * current event's clock, and no other clock reaches farther than that one. All events of a stream
 * share one clock, unless its vCPUs have separate clocks.
 */
struct braid_order {
	struct braid_order_reach {
		u64 clock;	/* 0: none */
		s64 latest_ns;
	} first, second;
	s64 earliest_ns;	/* of all events since this was set to INT64_MAX */
};

/**
 * braid_order_next - process the next event that is shown
 * @o: all zero at first
 * @item: an event; events are in order of host time
 *
 * Return: whether it may have been before an earlier one of another clock: the two times differ by
 * no more than the sum of their bounds.
 */
bool braid_order_next(struct braid_order *o, const struct braid_item *item);

/**
 * braid_order_agrees - whether a walk that began later says the same of its events
 * @o: after all events up to some time
 * @later: likewise, without the earliest ones
 * @earliest_ns: of the events from then on
 */
bool braid_order_agrees(const struct braid_order *o, const struct braid_order *later,
			s64 earliest_ns);

/** braid_order_join - add to @o the events that @later has processed */
void braid_order_join(struct braid_order *o, const struct braid_order *later);

#endif /* BRAID_WALK_ORDER_H */
