/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The columns before an event's fields: built once per ring, task and event type. */
#ifndef BRAID_EXPORT_TEXT_COLUMNS_H
#define BRAID_EXPORT_TEXT_COLUMNS_H

#include "host_agent/trace/vcpu.h"
#include "host_agent/util/text.h"
#include "host_agent/walk/walk.h"

struct braid_columns;

/**
 * braid_columns_new - an empty set
 * @source: its longest stream name sets the width of the first column
 *
 * Return: NULL: out of memory.
 */
struct braid_columns *braid_columns_new(const struct braid_source *source);

/** braid_columns_put_date - a wall time in UTC: "2026-11-22T09:05:00.123456789Z" */
void braid_columns_put_date(struct braid_columns *c, s64 ns, struct braid_text *out);

/** braid_columns_vcpu - the vCPU of a host event's task at its time; NULL: none */
const struct braid_vcpu_span *braid_columns_vcpu(const struct braid_columns *c,
						 const struct braid_item *item, s32 pid);

/** braid_columns_vcpu_only - whether the span's task is that vCPU at all times */
bool braid_columns_vcpu_only(const struct braid_columns *c, const struct braid_vcpu_span *span);

/** braid_columns_free - free all; NULL is fine */
void braid_columns_free(struct braid_columns *c);

/**
 * braid_columns_put_event - stream, task, CPU, time and name of an event
 * @c: the columns
 * @walk: at the event
 * @item: the event
 * @info: its kind
 * @out: extended
 */
void braid_columns_put_event(struct braid_columns *c, const struct braid_walk *walk,
			     const struct braid_item *item,
			     const struct braid_event_type_info *info, struct braid_text *out);

/** braid_columns_put_other - the same for items that are not events: stream, CPU and time */
void braid_columns_put_other(struct braid_columns *c, const struct braid_walk *walk,
			     const struct braid_item *item, struct braid_text *out);

#endif /* BRAID_EXPORT_TEXT_COLUMNS_H */
