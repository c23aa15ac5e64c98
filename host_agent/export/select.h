/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of a trace was asked for. */
#ifndef BRAID_EXPORT_SELECT_H
#define BRAID_EXPORT_SELECT_H

#include "host_agent/export/export.h"
#include "host_agent/format/format.h"

struct braid_select;

/**
 * braid_select_begin - get ready to select
 * @out: set on success
 * @source: what from
 * @format: its formats
 * @options: what is wanted; all three stay
 *
 * Return: 0, or -errno with braid_fail(): -EINVAL for a filter that can't be understood, -ENOENT
 * for one that names an event or a field that is not there, -ENODATA for a time that can't be told.
 */
int braid_select_begin(struct braid_select **out, const struct braid_source *source,
		       struct braid_format *format, const struct braid_export_options *options);

/** braid_select_end - free; NULL is fine */
void braid_select_end(struct braid_select *s);

/**
 * braid_select_ring - whether a ring's items are wanted at all
 * @options: struct braid_export_options; so that it fits braid_merge_begin()
 * @ring: any
 */
bool braid_select_ring(void *options, const struct braid_ring *ring);

enum braid_select_when { BRAID_SELECT_BEFORE, BRAID_SELECT_WITHIN, BRAID_SELECT_BEHIND };

/**
 * braid_select_time - where an item lies to the range that is wanted
 * @s: begun
 * @item: the items come in their order
 * @ns: its time by the clock that is shown
 */
enum braid_select_when braid_select_time(struct braid_select *s, const struct braid_item *item,
					 s64 ns);

/**
 * braid_select_event - whether an event is wanted, of a ring and a time that are
 * @s: begun
 * @item: the event
 * @info: its kind
 *
 * Return: 1 or 0; -ENOMEM with braid_fail().
 */
int braid_select_event(struct braid_select *s, const struct braid_item *item,
		       const struct braid_event_type_info *info);

#endif /* BRAID_EXPORT_SELECT_H */
