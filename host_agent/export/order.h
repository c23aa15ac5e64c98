/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether an event's place among the lines before it is proven. */
#ifndef BRAID_EXPORT_ORDER_H
#define BRAID_EXPORT_ORDER_H

#include "host_agent/source/source.h"

/*
 * Of the two clocks whose events reach farthest: how far. One of them is not the clock of
 * the event at hand, and no other reaches farther than that one. All events of a stream
 * have one clock; unless its vCPUs have clocks of their own.
 */
struct braid_order {
	struct braid_order_reach {
		u64 clock;	/* 0: nobody's */
		s64 latest_ns;
	} first, second;
};

/**
 * braid_order_next - take in the next event that is shown
 * @o: all zero at first
 * @item: an event; they come in the order of host time
 *
 * Return: whether it may have been before an earlier one of another clock: the two
 * times are not farther apart than their bounds together.
 */
bool braid_order_next(struct braid_order *o, const struct braid_item *item);

#endif /* BRAID_EXPORT_ORDER_H */
