/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The members of an event's JSON object that many events share, made once. */
#ifndef BRAID_EXPORT_TEXT_JSON_PARTS_H
#define BRAID_EXPORT_TEXT_JSON_PARTS_H

#include "host_agent/export/text/columns.h"

struct braid_json_parts;

/** braid_json_parts_new - an empty set. Return: NULL: out of memory */
struct braid_json_parts *braid_json_parts_new(void);

/** braid_json_parts_free - free all; NULL is fine */
void braid_json_parts_free(struct braid_json_parts *p);

/** braid_json_parts_stream - append {"type":"event","stream":"guest1","ns": */
void braid_json_parts_stream(struct braid_json_parts *p, const struct braid_stream *stream,
			     struct braid_text *out);

/** braid_json_parts_ring - append ,"cpu":0 and, unless it is the usual one, ,"buffer":"name" */
void braid_json_parts_ring(struct braid_json_parts *p, const struct braid_ring *ring,
			   struct braid_text *out);

/** braid_json_parts_task - append ,"comm":"dd","pid":12 and of a vCPU's thread ,"guest":"guest1","vcpu":0 */
void braid_json_parts_task(struct braid_json_parts *p, const struct braid_columns *columns,
			   const struct braid_item *item, struct braid_text *out);

/** braid_json_parts_type - append ,"system":"sched","event":"sched_switch","fields": */
void braid_json_parts_type(struct braid_json_parts *p, const struct braid_event_type_info *info,
			   struct braid_text *out);

#endif /* BRAID_EXPORT_TEXT_JSON_PARTS_H */
