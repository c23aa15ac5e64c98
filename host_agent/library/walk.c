// SPDX-License-Identifier: GPL-2.0-or-later
/* Walks: one item at a time, and what can be asked about it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/text/line.h"
#include "host_agent/library/private.h"
#include "host_agent/util/error.h"

static int walk_begin(struct tracebraid_walk *w, const char *const *select)
{
	int err = braid_library_select(&w->select, w->trace->source, select, BRAID_LIBRARY_WALK);

	w->select.options.stop = w->trace->stop;
	if (!err)
		err = braid_vcpu_map_make(&w->vcpus, w->trace->source);
	if (!err)
		err = braid_walk_begin(&w->walk, w->trace->source, &w->select.options, &w->totals);
	return err ? err : braid_walk_start(&w->walk);
}

int tracebraid_walk_new(struct tracebraid_walk **walk, struct tracebraid_trace *trace,
			const char *const *select)
{
	struct tracebraid_walk *w;
	int err = braid_library_claim_walk(trace);

	if (err)
		return err;
	w = calloc(1, sizeof(*w));
	if (!w) {
		braid_library_release(trace);
		return braid_out_of_memory();
	}
	w->trace = trace;
	trace->walk = w;
	trace->free_walk = tracebraid_walk_free;
	err = walk_begin(w, select);
	if (err)
		tracebraid_walk_free(w);
	else
		*walk = w;
	return err;
}

void tracebraid_walk_free(struct tracebraid_walk *w)
{
	if (!w)
		return;
	braid_walk_end(&w->walk);
	braid_vcpu_map_free(&w->vcpus);
	braid_library_columns_free(w);
	braid_text_free(&w->text);
	braid_library_select_free(&w->select);
	braid_library_release(w->trace);
	free(w);
}

int tracebraid_walk_next(struct tracebraid_walk *w)
{
	int got = braid_library_next(w);

	return got || braid_walk_is_over(&w->walk) ? got : TRACEBRAID_PAUSE;
}

int tracebraid_walk_seek(struct tracebraid_walk *w, int64_t ns)
{
	int err;

	if (w->trace->source->grows)
		return braid_fail(-EINVAL, "a walk along a followed capture cannot seek: use since= to select its start");
	w->waiting = false;
	w->got = BRAID_WALK_END;
	braid_source_rewind(w->trace->source);
	err = braid_walk_start(&w->walk);
	if (err)
		return err;
	w->got = braid_walk_next(&w->walk);
	if (w->got > 0 && w->walk.ns < ns)
		err = braid_walk_skip(&w->walk, ns);
	while (!err && w->got > 0 && w->walk.ns < ns)
		w->got = braid_walk_next(&w->walk);
	if (err)
		w->got = err;
	w->waiting = true;
	w->validated = false;
	return w->got < 0 ? w->got : 0;
}

int braid_library_walk_more(struct tracebraid_walk *w)
{
	int err = 0;

	w->got = BRAID_WALK_END;
	w->validated = false;
	if (w->walk.generation != w->trace->source->generation) {
		braid_library_plan_free(w);
		braid_vcpu_map_free(&w->vcpus);
		err = braid_vcpu_map_make(&w->vcpus, w->trace->source);
	}
	return err ? err : braid_walk_more(&w->walk);
}

/* The item ---------------------------------------------------------------------------------- */

int64_t tracebraid_ns(const struct tracebraid_walk *w)
{
	return w->walk.ns;
}

uint64_t tracebraid_bound_ns(const struct tracebraid_walk *w)
{
	return w->walk.bound_ns;
}

int tracebraid_uncertain(const struct tracebraid_walk *w)
{
	return w->walk.uncertain;
}

int tracebraid_late(const struct tracebraid_walk *w)
{
	return w->walk.late;
}

const struct tracebraid_stream *tracebraid_item_stream(const struct tracebraid_walk *w)
{
	return (const void *)w->walk.item->stream;
}

const char *tracebraid_host(const struct tracebraid_walk *w)
{
	const struct braid_item *item = w->walk.item;
	const struct braid_stream *of = item->kind != BRAID_ITEM_NOTE ? braid_item_part(item) :
					braid_stream_part_at(item->stream, item->host_ns);
	const struct braid_host *host = of->host;

	return host ? host->name : "";
}

const char *tracebraid_buffer(const struct tracebraid_walk *w)
{
	return tracebraid_cpu(w) == UINT32_MAX ? "" : braid_ring_buffer_name(w->walk.item->ring);
}

uint32_t tracebraid_cpu(const struct tracebraid_walk *w)
{
	return w->walk.item->ring->cpu;
}

uint64_t tracebraid_seq(const struct tracebraid_walk *w)
{
	return w->walk.item->seq;
}

uint64_t tracebraid_lost(const struct tracebraid_walk *w)
{
	return w->got == BRAID_WALK_LOST ? w->walk.item->lost_before : 0;
}

/* Events ------------------------------------------------------------------------------------ */

int32_t tracebraid_pid(const struct tracebraid_walk *w)
{
	return braid_library_pid(w);
}

const char *tracebraid_comm(const struct tracebraid_walk *w)
{
	return braid_library_comm(w);
}

const struct tracebraid_stream *tracebraid_vcpu(const struct tracebraid_walk *w, uint32_t *vcpu)
{
	const struct braid_item *item = w->walk.item;
	const struct braid_vcpu_span *span;
	s32 pid = tracebraid_pid(w);

	if (pid <= 0 || item->stream->kind != BRAID_STREAM_HOST)
		return NULL;
	span = braid_vcpu_map_find(&w->vcpus, braid_stream_host_number(item->stream), pid,
				   item->host_ns);
	if (!span)
		return NULL;
	*vcpu = span->vcpu == BRAID_VCPU_ALL ? UINT32_MAX : span->vcpu;
	return (const void *)span->guest;
}

const struct tracebraid_type *tracebraid_event_type(const struct tracebraid_walk *w)
{
	return w->got == BRAID_WALK_EVENT ? (const void *)w->walk.info : NULL;
}

static const char *end_text(struct tracebraid_walk *w)
{
	braid_text_putc(&w->text, '\0');
	if (!w->text.failed)
		return w->text.data;
	braid_text_free(&w->text);
	braid_out_of_memory();
	return NULL;
}

const char *tracebraid_text(struct tracebraid_walk *w)
{
	const struct braid_item *item = w->walk.item;

	w->text.bytes = 0;
	switch (w->got) {
	case BRAID_WALK_EVENT:
		braid_format_text_of(item, w->walk.info, &w->text);
		break;
	case BRAID_WALK_LOST:
		braid_line_put_lost(&w->text, item);
		break;
	case BRAID_WALK_NOTE:
		braid_text_safe(&w->text, (const char *)item->payload, item->payload_bytes);
		break;
	}
	return end_text(w);
}

const char *tracebraid_json(struct tracebraid_walk *w)
{
	w->text.bytes = 0;
	if (w->got == BRAID_WALK_EVENT)
		braid_format_json(w->walk.format, w->walk.item, &w->text);
	else
		braid_text_puts(&w->text, "{}");
	return end_text(w);
}

const void *tracebraid_payload(const struct tracebraid_walk *w, size_t *bytes)
{
	*bytes = w->got == BRAID_WALK_LOST ? 0 : w->walk.item->payload_bytes;
	return w->walk.item->payload;
}
