/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether an event's place among the lines before it is proven. */
#ifndef BRAID_WALK_ORDER_H
#define BRAID_WALK_ORDER_H

#include "host_agent/store/source.h"

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

#endif /* BRAID_WALK_ORDER_H */
