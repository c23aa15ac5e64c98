/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of a trace was asked for. */
#ifndef BRAID_EXPORT_SELECT_H
#define BRAID_EXPORT_SELECT_H

#include "host_agent/export/export.h"
#include "host_agent/format/format.h"

/**
 * braid_select_ring - whether a ring's items are wanted at all
 * @options: struct braid_export_options; so that it fits braid_merge_begin()
 * @ring: any
 */
bool braid_select_ring(void *options, const struct braid_ring *ring);

/**
 * braid_select_event - whether an event is wanted, of a ring that is
 * @options: what is wanted
 * @info: the event's kind
 */
bool braid_select_event(const struct braid_export_options *options,
			const struct braid_event_type_info *info);

#endif /* BRAID_EXPORT_SELECT_H */
