/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether an event's place among the lines before it is proven. */
#ifndef BRAID_WALK_ORDER_H
#define BRAID_WALK_ORDER_H

#include "host_agent/trace/source.h"

#define BRAID_ORDER_HOSTS	16u	/* streams of further ones are compared as if of others */

/*
 * The latest possible times of the two clocks that reach farthest. At least one of them is not the
 * current event's clock, and no other clock reaches farther than that one. All events of a stream
 * share one clock, unless its vCPUs have separate clocks.
 */
struct braid_order_pair {
	struct braid_order_reach {
		u64 clock;	/* 0: none */
		s64 latest_ns;
	} first, second;
};

/*
 * Two events of one host are compared by that host's clock, on which no tie has a part. Those of
 * different hosts are compared on the timeline.
 */
struct braid_order {
	bool several;		/* hosts; else the first of these alone is used */
	struct braid_order_pair hosts[BRAID_ORDER_HOSTS];
	struct braid_order_pair across;	/* here a host is a clock */
	s64 earliest_ns;	/* of all events since this was set to INT64_MAX */
};

/**
 * braid_order_next - process the next event that is shown
 * @o: all zero at first, but for ->several
 * @item: an event; events are in order of host time
 *
 * Return: whether it may have been before an earlier one of another clock: the two times differ by
 * no more than the sum of their bounds.
 */
bool braid_order_next(struct braid_order *o, const struct braid_item *item);

/**
 * braid_order_agrees - whether a walk that began later says the same of its events; of one host
 * @o: after all events up to some time
 * @later: likewise, without the earliest ones
 * @earliest_ns: of the events from then on
 */
bool braid_order_agrees(const struct braid_order *o, const struct braid_order *later,
			s64 earliest_ns);

/** braid_order_join - add to @o the events that @later has processed; of one host */
void braid_order_join(struct braid_order *o, const struct braid_order *later);

#endif /* BRAID_WALK_ORDER_H */
