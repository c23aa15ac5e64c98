// SPDX-License-Identifier: GPL-2.0-or-later
/* Quotes each name once. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/text/json_parts.h"
#include "host_agent/export/text/parts.h"

#define NR_TASKS	1024u	/* that are remembered */

/* What a task was called for a stretch of its stream's counter. */
struct task {
	const struct braid_stream *stream;	/* NULL: none yet */
	size_t nr_comms;	/* that the stream had defined by then */
	u64 from, until;	/* inclusive */
	s32 pid;
	struct braid_text text;
};

struct braid_json_parts {
	struct braid_parts streams, rings, types;
	struct task tasks[NR_TASKS];
};

struct braid_json_parts *braid_json_parts_new(void)
{
	return calloc(1, sizeof(struct braid_json_parts));
}

void braid_json_parts_free(struct braid_json_parts *p)
{
	size_t k;

	if (!p)
		return;
	braid_parts_free(&p->streams);
	braid_parts_free(&p->rings);
	braid_parts_free(&p->types);
	for (k = 0; k < NR_TASKS; k++)
		braid_text_free(&p->tasks[k].text);
	free(p);
}

static void json_parts_put_name(struct braid_text *t, const char *key, const char *name)
{
	braid_text_puts(t, key);
	braid_text_json(t, name, strlen(name));
}

void braid_json_parts_stream(struct braid_json_parts *p, const struct braid_stream *stream,
			     struct braid_text *out)
{
	struct braid_part *part = braid_parts_at(&p->streams, stream->number);
	struct braid_text text = { 0 };

	if (part && !part->text) {
		json_parts_put_name(&text, "{\"type\":\"event\",\"stream\":", stream->name);
		braid_text_puts(&text, ",\"ns\":");
		braid_parts_keep(part, &text);
	}
	braid_parts_put(out, part);
}

void braid_json_parts_ring(struct braid_json_parts *p, const struct braid_ring *ring,
			   struct braid_text *out)
{
	struct braid_part *part = braid_parts_at(&p->rings, ring->order);
	const char *name = braid_ring_buffer_name(ring);
	struct braid_text text = { 0 };

	if (part && !part->text) {
		braid_text_puts(&text, ",\"cpu\":");
		braid_text_u64(&text, ring->cpu, 0, ' ');
		if (*name && strcmp(name, "trace"))
			json_parts_put_name(&text, ",\"buffer\":", name);
		braid_parts_keep(part, &text);
	}
	braid_parts_put(out, part);
}

static void make_task(struct task *task, const struct braid_columns *columns,
		      const struct braid_item *item, s32 pid)
{
	const struct braid_vcpu_span *span = braid_columns_vcpu(columns, item, pid);
	struct braid_text *t = &task->text;

	t->bytes = 0;
	json_parts_put_name(t, ",\"comm\":", braid_format_comm_for(item, pid, &task->from, &task->until));
	braid_text_puts(t, pid < 0 ? ",\"pid\":-" : ",\"pid\":");
	braid_text_u64(t, pid < 0 ? -(u64)pid : (u64)pid, 0, ' ');
	if (span) {
		json_parts_put_name(t, ",\"guest\":", span->guest->name);
		braid_text_puts(t, ",\"vcpu\":");
		if (span->vcpu == BRAID_VCPU_ALL)
			braid_text_puts(t, "null");
		else
			braid_text_u64(t, span->vcpu, 0, ' ');
		if (!braid_columns_vcpu_only(columns, span))
			task->from = task->until = item->counter;
	}
	braid_text_pad(t);
	task->stream = item->stream;
	task->nr_comms = item->stream->nr_comms;
	task->pid = pid;
}

void braid_json_parts_task(struct braid_json_parts *p, const struct braid_columns *columns,
			   const struct braid_item *item, struct braid_text *out)
{
	s32 pid = braid_format_pid(item);
	struct task *task;

	if (pid == BRAID_PID_UNKNOWN)
		return;
	task = &p->tasks[((u32)pid + 37 * item->stream->number) % NR_TASKS];

	if (task->pid != pid || task->stream != item->stream ||
	    task->nr_comms != item->stream->nr_comms ||
	    item->counter < task->from || item->counter > task->until)
		make_task(task, columns, item, pid);
	out->failed |= task->text.failed;
	if (!task->text.failed)
		braid_text_put_blocks(out, task->text.data, task->text.bytes);
}

void braid_json_parts_type(struct braid_json_parts *p, const struct braid_event_type_info *info,
			   struct braid_text *out)
{
	struct braid_part *part = braid_parts_at(&p->types, info->number);
	struct braid_text text = { 0 };

	if (part && !part->text) {
		json_parts_put_name(&text, ",\"system\":", info->system);
		json_parts_put_name(&text, ",\"event\":", info->name);
		if (info->subevent)
			json_parts_put_name(&text, ",\"subevent\":", info->subevent);
		braid_text_puts(&text, ",\"fields\":");
		braid_parts_keep(part, &text);
	}
	braid_parts_put(out, part);
}
