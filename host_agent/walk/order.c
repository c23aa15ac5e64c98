// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds events whose order is uncertain, in constant time each. */
#include "host_agent/walk/order.h"
#include "shared/platform.h"

/* The group whose events are ordered among themselves, whatever their bounds. */
static u64 clock_of(const struct braid_item *item)
{
	/* Where the epoch is uncertain, even one vCPU's order does not apply to another's. */
	bool apart = braid_item_part(item)->clock.nr_tracks > 1 || !item->sure;
	u64 vcpu = apart ? item->ring->cpu + 1 : 0;

	return ((u64)item->stream->number + 1) << 32 | vcpu;
}

static void take_in(struct braid_order_pair *o, u64 clock, s64 latest_ns)
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

/* Return: whether an earlier event of another clock reaches so far. */
static bool order_pass(struct braid_order_pair *o, u64 clock, s64 ns, u64 bound_ns)
{
	const struct braid_order_reach *other = o->first.clock == clock ? &o->second : &o->first;
	bool uncertain = other->clock && braid_clock_earliest(ns, bound_ns) <= other->latest_ns;

	take_in(o, clock, braid_clock_latest(ns, bound_ns));
	return uncertain;
}

/* With several hosts: an event by its own host's clock, and then by the timeline. */
static noinline bool order_pass_hosts(struct braid_order *o, const struct braid_item *item,
				      u64 clock)
{
	u32 host = braid_stream_host_number(braid_item_part(item));
	bool tied = item->ring->tie, uncertain = false;

	if (host < BRAID_ORDER_HOSTS) {
		uncertain = order_pass(&o->hosts[host], clock, tied ? item->own_ns : item->host_ns,
				       tied ? item->own_bound_ns : item->bound_ns);
		clock = (u64)host + 1;
	}
	/* A stream's number + 1 is above that of any host. */
	return order_pass(&o->across, clock, item->host_ns, item->bound_ns) || uncertain;
}

bool braid_order_next(struct braid_order *o, const struct braid_item *item)
{
	u64 clock = clock_of(item);
	s64 earliest_ns = braid_clock_earliest(item->host_ns, item->bound_ns);

	if (earliest_ns < o->earliest_ns)
		o->earliest_ns = earliest_ns;
	if (o->several)
		return order_pass_hosts(o, item, clock);
	return order_pass(o->hosts, clock, item->host_ns, item->bound_ns);
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
	return same_reach(&o->hosts->first, &later->hosts->first, earliest_ns) &&
	       same_reach(&o->hosts->second, &later->hosts->second, earliest_ns);
}

void braid_order_join(struct braid_order *o, const struct braid_order *later)
{
	if (later->hosts->first.clock)
		take_in(o->hosts, later->hosts->first.clock, later->hosts->first.latest_ns);
	if (later->hosts->second.clock)
		take_in(o->hosts, later->hosts->second.clock, later->hosts->second.latest_ns);
}
