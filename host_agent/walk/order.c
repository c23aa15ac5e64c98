// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds events whose order is uncertain, in constant time each. */
#include "host_agent/walk/order.h"

/* The group whose events are ordered among themselves, whatever their bounds. */
static u64 clock_of(const struct braid_item *item)
{
	/* Where the epoch is uncertain, even one vCPU's order does not apply to another's. */
	u64 vcpu = item->stream->clock.nr_tracks > 1 || !item->sure ? item->ring->cpu + 1 : 0;

	return ((u64)item->stream->number + 1) << 32 | vcpu;
}

static void take_in(struct braid_order *o, u64 clock, s64 latest_ns)
{
	struct braid_order_reach *mine = clock == o->first.clock ? &o->first : &o->second, swap;

	/* The second is replaced only by one that reaches farther. */
	if (mine->clock && latest_ns <= mine->latest_ns)
		return;
	mine->clock = clock;
	mine->latest_ns = latest_ns;
	if (o->second.clock &&
	    (!o->first.clock || o->second.latest_ns > o->first.latest_ns)) {
		swap = o->first;
		o->first = o->second;
		o->second = swap;
	}
}

bool braid_order_next(struct braid_order *o, const struct braid_item *item)
{
	u64 clock = clock_of(item);
	const struct braid_order_reach *other = o->first.clock == clock ? &o->second : &o->first;
	s64 earliest_ns = braid_clock_earliest(item->host_ns, item->bound_ns);
	bool uncertain = other->clock && earliest_ns <= other->latest_ns;

	if (earliest_ns < o->earliest_ns)
		o->earliest_ns = earliest_ns;
	take_in(o, clock, braid_clock_latest(item->host_ns, item->bound_ns));
	return uncertain;
}

static bool matters(const struct braid_order_reach *reach, s64 earliest_ns)
{
	return reach->clock && reach->latest_ns >= earliest_ns;
}

static bool same_reach(const struct braid_order_reach *a, const struct braid_order_reach *b,
		       s64 earliest_ns)
{
	return matters(a, earliest_ns) ?
	       matters(b, earliest_ns) && a->clock == b->clock && a->latest_ns == b->latest_ns :
	       !matters(b, earliest_ns);
}

bool braid_order_agrees(const struct braid_order *o, const struct braid_order *later,
			s64 earliest_ns)
{
	return same_reach(&o->first, &later->first, earliest_ns) &&
	       same_reach(&o->second, &later->second, earliest_ns);
}

void braid_order_join(struct braid_order *o, const struct braid_order *later)
{
	if (later->first.clock)
		take_in(o, later->first.clock, later->first.latest_ns);
	if (later->second.clock)
		take_in(o, later->second.clock, later->second.latest_ns);
}
