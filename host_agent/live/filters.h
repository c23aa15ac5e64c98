/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The filters of a stream: those of the options, compiled for each event in the directory. */
#ifndef BRAID_LIVE_FILTERS_H
#define BRAID_LIVE_FILTERS_H

#include "host_agent/live/stream.h"

/* An event with a filter. */
struct braid_live_filter {
	struct braid_filter_program program;
	struct braid_pattern event;	/* its name: no glob of ours, and .filter */
	u16 buffer;
	bool refused;			/* the guest has no filter for it */
};

/* Filters that are about tasks and CPUs alone have one account. */
static inline bool braid_live_filter_is_own(const struct braid_live_filter *filter)
{
	return filter->event.filter;
}

struct braid_live_filters {
	struct braid_live_filter *items;	/* those with filters of their own first */
	size_t nr, capacity;
	size_t nr_own;
};

/** braid_live_filters_wanted - whether an option has a filter */
bool braid_live_filters_wanted(const struct braid_live_stream *s);

/** braid_live_filters_note_unused - a note if there are, but the guest's memory is only read */
int braid_live_filters_note_unused(struct braid_live_stream *s);

/**
 * braid_live_filters_find - compile the filters of all events in the directory
 * @filters: replaced on success
 * @s: with a mapping and a superblock
 *
 * The last pattern that matches an event has its filter, or none; what the options say of tasks and
 * CPUs is true of all. Return: 0, or -errno with
 * braid_fail(): an event's fields do not fit, the guest's driver has no filters, or nothing can be
 * asked of the guest.
 */
int braid_live_filters_find(struct braid_live_filters *filters, const struct braid_live_stream *s);

void braid_live_filters_free(struct braid_live_filters *filters);

#endif /* BRAID_LIVE_FILTERS_H */
