/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of a trace was asked for. */
#ifndef BRAID_WALK_SELECT_H
#define BRAID_WALK_SELECT_H

#include "host_agent/walk/options.h"
#include "host_agent/format/format.h"

struct braid_select;

/* Times around certain events: of braid_around_find(). */
struct braid_select_times {
	struct braid_select_time_range {
		s64 from_ns, to_ns;	/* of the host's clock; apart from each other, in order */
	} *all;
	size_t nr, capacity;
};

/** braid_select_near - whether a time of the host's clock is one of them */
bool braid_select_near(const struct braid_select_times *times, s64 ns);

/**
 * braid_select_begin - prepare to select
 * @out: set on success
 * @source: the trace
 * @format: its formats
 * @options: the selection; all three must stay valid
 *
 * Return: 0, or -errno with braid_fail(): -EINVAL for a malformed filter, -ENOENT for one with an
 * unknown event or field, -ENODATA for a time that can't be converted.
 */
int braid_select_begin(struct braid_select **out, const struct braid_source *source,
		       struct braid_format *format, const struct braid_walk_options *options);

/**
 * braid_select_check - check that a selected stream and buffer are in the trace
 * @options: the selection
 * @source: complete
 *
 * An unknown name is an error, not an empty result.
 *
 * Return: 0, or -ENOENT with braid_fail().
 */
int braid_select_check(const struct braid_walk_options *options,
		       const struct braid_source *source);

/** braid_select_end - free; NULL is fine */
void braid_select_end(struct braid_select *s);

/**
 * braid_select_ring - whether any of a ring's items are selected
 * @options: struct braid_walk_options; the signature is that of braid_merge_begin()
 * @ring: any
 */
bool braid_select_ring(void *options, const struct braid_ring *ring);

enum braid_select_when { BRAID_SELECT_BEFORE, BRAID_SELECT_WITHIN, BRAID_SELECT_AFTER };

/**
 * braid_select_time - compare an item with the selected time range
 * @s: begun
 * @item: the item, in order of time
 * @ns: its time by the clock that is shown
 */
enum braid_select_when braid_select_time(struct braid_select *s, const struct braid_item *item,
					 s64 ns);

/**
 * braid_select_range - the selected time range
 * @s: begun; braid_select_time() was called for the first event
 * @from_ns: set, by the clock that is shown; INT64_MIN: from the start; INT64_MAX: never
 * @to_ns: likewise; INT64_MAX: up to the end
 */
void braid_select_range(const struct braid_select *s, s64 *from_ns, s64 *to_ns);

/**
 * braid_select_event - whether an event is selected, if its ring and time are
 * @s: begun
 * @item: the event
 * @info: its type
 *
 * Return: 1 or 0; -ENOMEM with braid_fail().
 */
int braid_select_event(struct braid_select *s, const struct braid_item *item,
		       const struct braid_event_type_info *info);

/** braid_select_is_left_out - whether an event was left out because of its type */
bool braid_select_is_left_out(const struct braid_select *s, const struct braid_event_type_info *info);

/**
 * braid_select_leave_out - let a stream's rings pass over events whose types are left out
 * @s: begun
 * @stream: of the source, which does not grow
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_select_leave_out(struct braid_select *s, const struct braid_stream *stream);

#endif /* BRAID_WALK_SELECT_H */
