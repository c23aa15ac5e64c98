// SPDX-License-Identifier: GPL-2.0-or-later
/* The timeline as JSON: one object a line. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/text/form.h"
#include "host_agent/export/text/line.h"
#include "host_agent/export/text/parts.h"
#include "host_agent/trace/epochs.h"

void braid_json_string(struct braid_text *t, const char *key, const char *value)
{
	braid_text_puts(t, key);
	braid_text_json(t, value, strlen(value));
}

static inline void put_bound(struct braid_text *t, u64 bound_ns)
{
	if (bound_ns == BRAID_BOUND_UNKNOWN)
		braid_text_puts(t, ",\"bound_ns\":null");
	else
		braid_json_u64(t, ",\"bound_ns\":", bound_ns);
}

/* The usual one is omitted. */
static void put_buffer(struct braid_text *t, const struct braid_ring *ring)
{
	const char *name = ring->cpu == BRAID_RING_NOTES ? "" : braid_ring_buffer_name(ring);

	if (*name && strcmp(name, "trace"))
		braid_json_string(t, ",\"buffer\":", name);
}

/* The members of an event's object that many events share are made once ---------------------------- */

#define NR_TASKS	1024u	/* that are remembered */

/* What a task was called for a stretch of its stream's counter. */
struct task {
	const struct braid_stream *stream;	/* NULL: none yet */
	size_t nr_comms;	/* that the stream had defined by then */
	u64 from, until;	/* inclusive */
	s32 pid;
	struct braid_text text;
};

struct json_parts {
	struct braid_parts streams, rings, types;
	struct task tasks[NR_TASKS];
};

static void forget_parts(struct braid_line_export *x)
{
	struct json_parts *p = x->parts;
	size_t k;

	x->parts = NULL;
	if (!p)
		return;
	braid_parts_free(&p->streams);
	braid_parts_free(&p->rings);
	braid_parts_free(&p->types);
	for (k = 0; k < NR_TASKS; k++)
		braid_text_free(&p->tasks[k].text);
	free(p);
}

/* {"type":"event","stream":"guest1","ns": */
static void put_stream_part(struct json_parts *p, const struct braid_stream *stream,
			    struct braid_text *out)
{
	struct braid_part *part = braid_parts_at(&p->streams, stream->number);
	struct braid_text text = { 0 };

	if (part && !part->text) {
		braid_json_string(&text, "{\"type\":\"event\",\"stream\":", stream->name);
		braid_text_puts(&text, ",\"ns\":");
		braid_parts_keep(part, &text);
	}
	braid_parts_put(out, part);
}

/* ,"cpu":0 and, unless it is the usual one, ,"buffer":"name" */
static void put_ring_part(struct json_parts *p, const struct braid_ring *ring,
			  struct braid_text *out)
{
	struct braid_part *part = braid_parts_at(&p->rings, ring->order);
	struct braid_text text = { 0 };

	if (part && !part->text) {
		braid_json_u64(&text, ",\"cpu\":", ring->cpu);
		put_buffer(&text, ring);
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
	braid_json_string(t, ",\"comm\":", braid_format_comm_for(item, pid, &task->from, &task->until));
	braid_text_puts(t, ",\"pid\":");
	braid_text_signed(t, pid);
	if (span) {
		braid_json_string(t, ",\"guest\":", span->guest->name);
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

/* ,"comm":"dd","pid":12 and of a vCPU's thread ,"guest":"guest1","vcpu":0 */
static void put_task_part(struct json_parts *p, const struct braid_columns *columns,
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

/* ,"system":"sched","event":"sched_switch","fields": */
static void put_type_part(struct json_parts *p, const struct braid_event_type_info *info,
			  struct braid_text *out)
{
	struct braid_part *part = braid_parts_at(&p->types, info->number);
	struct braid_text text = { 0 };

	if (part && !part->text) {
		braid_json_string(&text, ",\"system\":", info->system);
		braid_json_string(&text, ",\"event\":", info->name);
		if (info->subevent)
			braid_json_string(&text, ",\"subevent\":", info->subevent);
		braid_text_puts(&text, ",\"fields\":");
		braid_parts_keep(part, &text);
	}
	braid_parts_put(out, part);
}

/* Lines -------------------------------------------------------------------------------------- */

static void put_date(struct braid_line_export *x)
{
	if (!x->walk.options->realtime)
		return;
	braid_text_puts(&x->out, ",\"time\":\"");
	braid_columns_put_date(x->columns, x->walk.ns, &x->out);
	braid_text_putc(&x->out, '"');
}

static void json_begin(struct braid_line_export *x, const char *type, const struct braid_item *item)
{
	struct braid_text *t = &x->out;

	braid_json_string(t, "{\"type\":", type);
	braid_json_string(t, ",\"stream\":", item->stream->name);
	braid_text_puts(t, ",\"ns\":");
	braid_text_signed(t, x->walk.ns);
	put_date(x);
	if (item->ring->cpu != BRAID_RING_NOTES)
		braid_json_u64(t, ",\"cpu\":", item->ring->cpu);
	put_buffer(t, item->ring);
}

static void json_put_event(struct braid_line_export *x, const struct braid_item *item,
			   const struct braid_event_type_info *info)
{
	struct json_parts *p = x->parts;
	struct braid_text *t = &x->out;

	if (!p)
		p = x->parts = calloc(1, sizeof(*p));
	if (!p) {
		t->failed = true;
		return;
	}
	put_stream_part(p, item->stream, t);
	braid_text_signed(t, x->walk.ns);
	put_date(x);
	put_ring_part(p, item->ring, t);
	put_bound(t, x->walk.bound_ns);
	if (x->walk.options->uncertain && x->walk.uncertain)
		braid_text_puts(t, ",\"uncertain\":true");
	braid_json_u64(t, ",\"seq\":", item->seq);
	put_task_part(p, x->columns, item, t);
	put_type_part(p, info, t);
	braid_format_json_of(item, info, t);
	braid_text_puts(t, ",\"text\":");
	braid_format_quoted_of(item, info, t);
	braid_text_puts(t, "}\n");
}

static void json_put_lost(struct braid_line_export *x, const struct braid_item *item)
{
	json_begin(x, "lost", item);
	if (item->lost_before == BRAID_LOST_SOME) {
		braid_text_puts(&x->out, ",\"lost\":null");
	} else {
		braid_json_u64(&x->out, ",\"lost\":", item->lost_before);
		braid_json_u64(&x->out, ",\"damaged\":", item->damaged_before);
	}
	braid_text_puts(&x->out, "}\n");
}

static void json_put_note(struct braid_line_export *x, const struct braid_item *item)
{
	json_begin(x, "note", item);
	braid_text_puts(&x->out, ",\"text\":");
	braid_text_json(&x->out, (const char *)item->payload, item->payload_bytes);
	braid_text_puts(&x->out, "}\n");
}

void braid_json_vcpus(struct braid_text *t, const struct braid_stream *s)
{
	size_t k;

	braid_text_puts(t, ",\"vcpus\":[");
	for (k = 0; k < s->nr_threads; k++) {
		const struct braid_vcpu_thread *row = &s->threads[k];

		braid_text_puts(t, k ? ",{\"vcpu\":" : "{\"vcpu\":");
		if (row->vcpu == BRAID_VCPU_ALL)
			braid_text_puts(t, "null");
		else
			braid_text_u64(t, row->vcpu, 0, ' ');
		braid_text_printf(t, ",\"tid\":%d", row->tid);
		if (row->from_ns)
			braid_json_u64(t, ",\"from_ns\":", row->from_ns);
		braid_text_putc(t, '}');
	}
	braid_text_putc(t, ']');
}

static void json_put_clock(struct braid_line_export *x, const struct braid_stream *s)
{
	const struct braid_host_clocks *host = &x->walk.source->clocks;
	const struct braid_clock *clock = &s->clock;
	struct braid_text *t = &x->out;

	braid_json_string(t, ",\"clock\":", braid_clock_kind_name(clock->kind));
	put_bound(t, braid_walk_stream_bound(&x->walk, s));
	if (s->kind == BRAID_STREAM_HOST) {
		braid_json_string(t, ",\"trace_clock\":", *s->trace_clock ? s->trace_clock :
			   host->trace.nr_tracks ? host->trace_name : x->walk.source->head.clock);
		return;
	}
	if (braid_line_misses_clock(x, s))
		braid_json_string(t, ",\"clock_asked\":", braid_clock_kind_name(x->walk.options->clock));
	braid_json_string(t, ",\"reason\":", clock->reason);
	if (s->tsc_unstable)
		braid_text_puts(t, ",\"tsc_unstable\":true");
	braid_json_u64(t, ",\"samples\":", clock->nr_samples);
	braid_json_u64(t, ",\"epochs\":", braid_epochs_most(s));
	braid_json_u64(t, ",\"counter_hz\":", s->counter_hz);
	if (clock->kind == BRAID_CLOCK_EXCHANGE || clock->kind == BRAID_CLOCK_READS)
		braid_text_printf(t, ",\"drift_ppm\":%.6f", braid_clock_drift(clock));
	braid_json_vcpus(t, s);
}

const char *braid_json_kind(const struct braid_stream *s)
{
	return s->kind == BRAID_STREAM_HOST ? "host" : s->kind == BRAID_STREAM_VM ? "vm" : "guest";
}

static void put_identity(struct braid_text *t, const struct braid_stream *s)
{
	braid_json_string(t, "{\"type\":\"stream\",\"stream\":", s->name);
	braid_json_string(t, ",\"kind\":", braid_json_kind(s));
	if (s->kind == BRAID_STREAM_VM) {
		braid_text_printf(t, ",\"pid\":%d", s->pid);
	} else {
		braid_json_string(t, ",\"kernel\":", s->kernel_release);
		braid_json_string(t, ",\"machine\":", s->machine);
	}
	braid_json_u64(t, ",\"cpus\":", s->nr_cpus);
}

void braid_json_account(struct braid_text *t, const struct braid_stream *stream)
{
	struct braid_stream_sum sum = braid_stream_sum_up(stream);

	if (stream->unconfirmed)
		braid_text_puts(t, ",\"unconfirmed\":true");
	if (!sum.known)
		return;
	braid_json_u64(t, ",\"written\":", sum.written);
	braid_json_u64(t, ",\"read\":", sum.read);
	braid_json_u64(t, ",\"lost\":", sum.lost);
	braid_json_u64(t, ",\"left\":", sum.left);
}

void braid_json_windows(struct braid_text *t, const struct braid_walk *w)
{
	size_t k;

	if (!w->source->nr_windows)
		return;
	braid_text_puts(t, ",\"recorded\":[");
	for (k = 0; k < w->source->nr_windows; k++) {
		const struct braid_window *window = &w->source->windows[k];

		if (window->again)
			continue;
		braid_text_printf(t, "%s{\"start_ns\":%lld", k ? "," : "",
				  (long long)braid_walk_shown_ns(w, window->start_ns));
		if (window->stop_ns != INT64_MAX)
			braid_text_printf(t, ",\"stop_ns\":%lld",
					  (long long)braid_walk_shown_ns(w, window->stop_ns));
		braid_text_putc(t, '}');
	}
	braid_text_putc(t, ']');
}

/* Where a guest was that moved between hosts: from when, by which clock, on which threads. */
static void put_stays(struct braid_line_export *x, const struct braid_stream *s)
{
	const struct braid_stay *stay = s->stays;
	struct braid_text *t = &x->out;
	s64 from_ns, begun_ns;
	size_t k;

	for (k = 0; k < s->nr_stays; k++) {
		braid_json_string(t, k ? ",{\"host\":" : ",\"stays\":[{\"host\":",
				  stay[k].of->host->name);
		if (k) {	/* the first one has no times */
			from_ns = braid_walk_shown_ns(&x->walk, stay[k].from_ns);
			begun_ns = braid_walk_shown_ns(&x->walk, stay[k].begun_ns);
			braid_text_printf(t, ",\"from_ns\":%lld,\"begun_ns\":%lld",
					  (long long)from_ns, (long long)begun_ns);
		}
		braid_json_string(t, ",\"clock\":", braid_clock_kind_name(stay[k].of->clock.kind));
		braid_json_string(t, ",\"reason\":", stay[k].of->clock.reason);
		put_bound(t, stay[k].bound_ns);
		braid_json_vcpus(t, stay[k].of);
		braid_text_puts(t, k + 1 < s->nr_stays ? "}" : "}]");
	}
}

static void json_put_stream(struct braid_line_export *x, const struct braid_stream *s)
{
	struct braid_text *t = &x->out;
	const char *why = braid_end_reason_name(s);

	put_identity(t, s);
	if (x->walk.source->nr_hosts > 1 && s->host)
		braid_json_string(t, ",\"host\":", braid_stream_first_part(s)->host->name);
	put_stays(x, s);
	if (s->kind == BRAID_STREAM_VM)
		braid_json_vcpus(t, s);
	else
		json_put_clock(x, s);
	braid_json_account(t, s);
	if (why)
		braid_json_string(t, ",\"end\":", why);
	braid_text_puts(t, "}\n");
}

/* Of a trace of several. */
static void put_hosts(struct braid_line_export *x)
{
	const struct braid_source *source = x->walk.source;
	struct braid_text *t = &x->out;
	size_t k;

	for (k = 0; k < source->nr_hosts && source->nr_hosts > 1; k++) {
		const struct braid_host *host = source->hosts[k];

		braid_json_string(t, "{\"type\":\"host\",\"host\":", host->name);
		braid_json_string(t, ",\"clock\":", k ? host->tie.reason : "the timeline");
		put_bound(t, host->bound_ns);
		if (k && !host->unordered) {
			braid_json_u64(t, host->declared ? ",\"samples\":" : ",\"messages\":",
				       host->tie.nr_samples);
			braid_text_printf(t, ",\"drift_ppm\":%.6f", braid_clock_drift(&host->tie));
		}
		if (*host->lies)
			braid_json_string(t, ",\"lies\":", host->lies);
		braid_text_puts(t, "}\n");
	}
}

void braid_json_head(struct braid_line_export *x)
{
	struct braid_text *t = &x->out;
	size_t k;

	braid_json_string(t, "{\"type\":\"header\",\"clock\":", x->walk.options->realtime ? "realtime" :
		   x->walk.source->head.clock);
	if (x->walk.options->realtime)
		put_bound(t, x->walk.clock_bound_ns);
	braid_json_string(t, ",\"host\":", x->walk.source->head.host_name);
	braid_json_u64(t, ",\"start_ns\":", x->walk.source->head.start_host_ns);
	braid_json_u64(t, ",\"start_realtime_ns\":", x->walk.source->head.start_realtime_ns);
	braid_json_string(t, ",\"agent\":", x->walk.source->head.agent_version);
	braid_json_windows(t, &x->walk);
	braid_text_puts(t, "}\n");
	put_hosts(x);
	for (k = 0; k < x->walk.source->nr_streams; k++)
		json_put_stream(x, x->walk.source->streams[k]);
}

/* A stream of a source that grows; of its clock more is known at the end. */
static void json_put_grown(struct braid_line_export *x, const struct braid_stream *s)
{
	put_identity(&x->out, s);
	braid_text_puts(&x->out, "}\n");
}

static void put_late(struct braid_line_export *x, u64 ns)
{
	braid_json_u64(&x->out, "{\"type\":\"late\",\"by_ns\":", ns);
	braid_text_puts(&x->out, "}\n");
}

static void put_hidden(struct braid_line_export *x)
{
	braid_json_u64(&x->out, "{\"type\":\"hidden\",\"lines\":", x->hidden);
	braid_text_puts(&x->out, "}\n");
}

void braid_json_foot(struct braid_line_export *x)
{
	u64 faults = 0, back = 0, more;
	size_t k;

	for (k = 0; k < x->walk.source->nr_streams; k++) {
		faults += braid_line_faults(x, x->walk.source->streams[k], &more);
		back += more;
	}
	for (k = 0; x->walk.source->grows && k < x->walk.source->nr_streams; k++)
		json_put_stream(x, x->walk.source->streams[k]);
	braid_json_u64(&x->out, "{\"type\":\"end\",\"events\":", x->walk.totals->events);
	braid_json_u64(&x->out, ",\"lost\":", x->walk.totals->lost);
	braid_json_u64(&x->out, ",\"uncertain\":", x->walk.totals->uncertain);
	if (x->walk.source->grows) {
		braid_json_u64(&x->out, ",\"late\":", x->walk.totals->late);
		braid_json_u64(&x->out, ",\"hidden\":", x->walk.totals->hidden);
	}
	if (faults)
		braid_json_u64(&x->out, ",\"faults\":", faults);
	if (back)
		braid_json_u64(&x->out, ",\"times_back\":", back);
	braid_text_puts(&x->out, x->walk.totals->some_lost ? ",\"more_lost\":true}\n" : "}\n");
}

int braid_export_json(FILE *to, struct braid_source *source,
		      const struct braid_walk_options *options,
		      struct braid_walk_totals *totals)
{
	static const struct braid_line_ops ops = {
		.header = braid_json_head,
		.event = json_put_event,
		.lost = json_put_lost,
		.note = json_put_note,
		.footer = braid_json_foot,
		.grown = json_put_grown,
		.late = put_late,
		.hidden = put_hidden,
		.forget = forget_parts,
	};

	return braid_line_run(&ops, to, source, options, totals);
}
