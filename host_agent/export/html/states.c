// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Subscribes to the states of vCPUs, and writes those in which a vCPU did not execute. The verdict that
 * a page opens with is what the analyses 'summary' and 'stalls' say.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/export/html/states.h"
#include "host_agent/util/error.h"

#define CHUNK_SPANS	(64u << 10)
#define FIRST_MERGED_NS	1000u		/* resolution, once there are too many; it doubles ... */
#define MERGE_STEP	(256u << 10)	/* ... with each so many spans more */
#define MAX_DOUBLINGS	40u
#define WORST_STALLS	3u		/* of the verdict */

enum { TRACK, END, LENGTH, CULPRIT, PARTS, COLUMNS };

static const struct braid_analysis *const summary = &braid_analysis_summary;

struct span {
	s64 from_ns, to_ns;
	u32 state;
	u32 culprit;		/* its name */
};

struct vcpu {
	u32 lane;		/* 0: the page has none */
	bool proven;		/* a state other than unknown was met */
	bool open;		/* there is a last span, which may go on: */
	struct span last;
	struct braid_culprit culprit;	/* the last one: */
	u32 culprit_cpu;
	u64 renamed;		/* of the states, when its name was made */
	u32 culprit_name;	/* + 1; 0: none yet */
	/* Short spans, one after the other; nr_merged 0: none. */
	struct span merged;
	u32 nr_merged;
	u64 ns[BRAID_HTML_STATES];
};

struct braid_html_states {
	struct braid_states states;
	void *summary;			/* of braid_analysis_summary; NULL: no guest */
	struct braid_analysis_options wants;	/* its */
	const struct braid_walk *shown;
	const struct braid_html_lanes *lanes;
	struct braid_html_names *names;
	struct braid_html_out *out;
	u32 exact;			/* spans */
	struct vcpu *vcpus;
	u32 **host_lanes;		/* by host, then by CPU */
	struct braid_html_spans *spans;
	bool begun;			/* the origin of what follows is set */
	struct braid_text columns[COLUMNS];
	u64 nr, written;
	s64 origin_ns, last_end_ns;
};

/* Writing ---------------------------------------------------------------------------------- */

static bool executes(u32 state)
{
	return state == BRAID_VCPU_GUEST || state == BRAID_VCPU_RUNS;
}

static int html_states_flush(struct braid_html_states *x)
{
	u64 nr = x->nr;
	int err;

	x->nr = 0;
	if (!nr)
		return 0;
	err = braid_html_names_flush(x->names, x->out);
	return err ? err : braid_html_out_columns(x->out, "states", nr, x->columns, COLUMNS);
}

/* Times are relative to the first one. */
static void begin_at(struct braid_html_states *x, s64 ns)
{
	if (x->begun)
		return;
	x->begun = true;
	x->origin_ns = x->last_end_ns = ns;
	if (x->spans)
		braid_html_spans_waits_base(x->spans, ns);
}

static int html_states_put(struct braid_html_states *x, const struct vcpu *v,
			   const struct span *span)
{
	s64 from = braid_walk_shown_ns(x->shown, span->from_ns);
	s64 to = braid_walk_shown_ns(x->shown, span->to_ns);

	begin_at(x, to);
	braid_html_put(&x->columns[TRACK], (u64)v->lane * BRAID_HTML_STATES + span->state);
	braid_html_put_signed(&x->columns[END], (s64)((u64)to - (u64)x->last_end_ns));
	braid_html_put(&x->columns[LENGTH], to > from ? (u64)to - (u64)from : 0);
	braid_html_put(&x->columns[CULPRIT], span->culprit);
	x->last_end_ns = to;
	x->written++;
	return ++x->nr < CHUNK_SPANS ? 0 : html_states_flush(x);
}

/* Merged ones add up: what is not among the parts is time in which the vCPU executed. */
static int close_merged(struct braid_html_states *x, struct vcpu *v)
{
	u32 k, nr = v->nr_merged, parts = 0;

	v->nr_merged = 0;
	if (!nr)
		return 0;
	if (nr == 1)
		return executes(v->merged.state) ? 0 : html_states_put(x, v, &v->merged);
	for (k = 0; k < BRAID_HTML_STATES; k++)
		parts += v->ns[k] && !executes(k);
	if (!parts)
		return 0;
	braid_html_put(&x->columns[PARTS], parts);
	for (k = 0; k < BRAID_HTML_STATES; k++) {
		if (!v->ns[k] || executes(k))
			continue;
		braid_html_put(&x->columns[PARTS], k);
		braid_html_put(&x->columns[PARTS], v->ns[k]);
	}
	v->merged.state = BRAID_HTML_STATE_MERGED;
	v->merged.culprit = 0;
	return html_states_put(x, v, &v->merged);
}

/* Shorter spans are merged. 0: none. */
static u64 resolution(const struct braid_html_states *x)
{
	u64 steps;

	if (x->written < x->exact)
		return 0;
	steps = (x->written - x->exact) / MERGE_STEP;
	return (u64)FIRST_MERGED_NS << (steps < MAX_DOUBLINGS ? steps : MAX_DOUBLINGS);
}

static int emit(struct braid_html_states *x, struct vcpu *v, const struct span *span)
{
	u64 ns = span->to_ns - span->from_ns, least = resolution(x);
	int err = 0;

	if (v->nr_merged && (ns >= least || v->merged.to_ns != span->from_ns))
		err = close_merged(x, v);
	if (err)
		return err;
	if (ns >= least)
		return executes(span->state) ? 0 : html_states_put(x, v, span);
	if (!v->nr_merged) {
		v->merged = *span;
		memset(v->ns, 0, sizeof(v->ns));
	}
	v->nr_merged++;
	v->ns[span->state] += ns;
	v->merged.to_ns = span->to_ns;
	return (u64)(v->merged.to_ns - v->merged.from_ns) < least ? 0 : close_merged(x, v);
}

/* The last span is over. */
static int close_last(struct braid_html_states *x, struct vcpu *v)
{
	bool open = v->open;

	v->open = false;
	return open ? emit(x, v, &v->last) : 0;
}

/* Spans that differ in what a page does not show are one. */
static int join(struct braid_html_states *x, struct vcpu *v, const struct span *span)
{
	struct span *last = &v->last;
	int err;

	if (v->open && last->to_ns == span->from_ns && last->state == span->state &&
	    last->culprit == span->culprit) {
		last->to_ns = span->to_ns;
		return 0;
	}
	err = close_last(x, v);
	*last = *span;
	v->open = true;
	return err;
}

/* The lane of a host's CPU, or 0. */
static u32 host_lane(const struct braid_html_states *x, const struct braid_host_state *host,
		     u32 cpu)
{
	return cpu < host->nr_cpus ? x->host_lanes[host - x->states.hosts][cpu] : 0;
}

static u32 lane_of_culprit(const struct braid_html_states *x, const struct braid_state_span *span)
{
	if (span->culprit.kind == BRAID_CULPRIT_UNKNOWN)
		return 0;
	if (span->culprit.kind != BRAID_CULPRIT_VCPU)
		return host_lane(x, x->states.vcpus[span->vcpu].host, span->cpu);
	return x->vcpus[span->culprit.vcpu].lane;
}

/* The name of what runs instead of a vCPU, which is mostly the last one. */
static u32 name_of(struct braid_html_states *x, struct vcpu *v,
		   const struct braid_state_span *span)
{
	const struct braid_vcpu *of = &x->states.vcpus[span->vcpu];
	char name[BRAID_NAME_TEXT];
	u32 lane;

	if (v->culprit_name && v->culprit_cpu == span->cpu && v->renamed == x->states.renamed &&
	    braid_culprit_same(&v->culprit, &span->culprit))
		return v->culprit_name - 1;
	v->culprit = span->culprit;
	v->culprit_cpu = span->cpu;
	v->renamed = x->states.renamed;
	lane = lane_of_culprit(x, span);
	braid_culprit_name(&x->states, &span->culprit, name);
	v->culprit_name = 1 + braid_html_name(x->names, BRAID_HTML_CULPRIT,
					      span->cpu < of->host->nr_cpus ? span->cpu + 1 : 0,
					      lane ? lane + 1 : 0, name, strlen(name));
	return v->culprit_name - 1;
}

/* The states' ops -------------------------------------------------------------------------- */

static int html_states_span(void *arg, const struct braid_state_span *span)
{
	struct braid_html_states *x = arg;
	struct vcpu *v = &x->vcpus[span->vcpu];
	struct span mine = {
		.from_ns = span->from_ns, .to_ns = span->to_ns, .state = span->state,
	};
	int err = summary->states.span(x->summary, span);

	if (err || !v->lane)
		return err;
	if (span->state == BRAID_VCPU_SLEEPS && !span->task)
		mine.state = BRAID_HTML_STATE_IDLE;
	v->proven |= span->state != BRAID_VCPU_UNKNOWN;
	mine.culprit = span->state == BRAID_VCPU_STOLEN || span->state == BRAID_VCPU_THROTTLED ?
		       name_of(x, v, span) : 0;
	return join(x, v, &mine);
}

/* The lane of a stream's CPU, or 0. */
static u32 lane_of(const struct braid_html_states *x, u32 stream, u32 cpu)
{
	const struct braid_guest_state *guest = &x->states.guests[stream];
	const struct braid_stream *of = x->states.source->streams[stream];

	if (of->kind == BRAID_STREAM_HOST)
		return host_lane(x, braid_states_host(&x->states, of), cpu);
	return cpu < guest->nr_vcpus ? x->vcpus[guest->first_vcpu + cpu].lane : 0;
}

/* Within the selected time, as the rows of the page are. */
static int html_states_start(void *arg, const struct braid_task_start *of)
{
	struct braid_html_states *x = arg;
	const struct braid_stream *stream = x->states.source->streams[of->stream];
	const struct braid_item waking = { .stream = stream, .counter = of->waker_counter };
	char call[BRAID_CALL_BYTES];
	struct braid_html_start start = {
		.of = *of, .group = x->lanes->group_of[of->stream],
		.lane = lane_of(x, of->stream, of->cpu),
		.waker_lane = of->woken ? lane_of(x, of->stream, of->waker_cpu) : 0,
		.call = call, .machine = stream->machine,
	};

	if (of->ns < x->states.begin_ns || of->ns > x->states.end_ns || !x->spans || !start.lane)
		return 0;
	start.waker = braid_format_comm(&waking, of->waker);
	if (of->call < BRAID_CALL_NUMBER)
		braid_call_name(&x->states.roles, of->call, call);
	start.of.ns = braid_walk_shown_ns(x->shown, of->ns);
	start.of.off_ns = of->off ? braid_walk_shown_ns(x->shown, of->off_ns) : 0;
	start.of.woken_ns = of->woken ? braid_walk_shown_ns(x->shown, of->woken_ns) : 0;
	begin_at(x, start.of.ns);
	return braid_html_spans_started(x->spans, &start);
}

static int html_states_queued(void *arg, const struct braid_queue_wait *wait)
{
	struct braid_html_states *x = arg;

	return summary->states.queued(x->summary, wait);
}

static int html_states_cut(void *arg, u32 vcpu, s64 ns)
{
	struct braid_html_states *x = arg;

	return summary->states.cut(x->summary, vcpu, ns);
}

/* The verdict ------------------------------------------------------------------------------ */

/* Members that end in at_ns are moments of the host's clock. No string has a quote within. */
static void put_shown(const struct braid_html_states *x, const struct braid_text *json,
		      s64 base_ns, struct braid_text *out)
{
	static const char key[] = "at_ns\":";
	const char *from = json->data, *to;
	char *rest;
	s64 ns;

	while ((to = strstr(from, key))) {
		to += strlen(key);
		braid_text_put(out, from, to - from);
		from = to;
		ns = strtoll(from, &rest, 10);
		if (rest == from)	/* null */
			continue;
		braid_text_printf(out, "%lld",
				  (long long)((u64)braid_walk_shown_ns(x->shown, ns) - (u64)base_ns));
		from = rest;
	}
	braid_text_puts(out, from);
}

void braid_html_states_verdict(struct braid_html_states *x, s64 base_ns, struct braid_text *out)
{
	struct braid_text json = { 0 };

	if (!x->summary)
		return;
	braid_text_puts(&json, "{\"summary\":{");
	summary->write(x->summary, &json);
	braid_text_puts(&json, "},\"stalls\":{");
	braid_analysis_stalls.write(braid_summary_stalls(x->summary), &json);
	braid_text_puts(&json, "}}\n");
	braid_text_putc(&json, '\0');
	if (json.failed)
		out->failed = true;
	else
		put_shown(x, &json, base_ns, out);
	braid_text_free(&json);
}

/* Its analysis takes part in the walk. */
static int begin_summary(struct braid_html_states *x, struct braid_walk *shown)
{
	x->wants = (struct braid_analysis_options){
		.top = WORST_STALLS, .stream = shown->options->stream,
		.one_cpu = shown->options->one_cpu, .cpu = shown->options->cpu,
		.form = BRAID_TABLE_JSON,
	};
	x->summary = calloc(1, summary->state_bytes);
	if (!x->summary)
		return braid_out_of_memory();
	shown->watch = summary->event;
	shown->watch_arg = x->summary;
	return summary->begin(x->summary, &x->states, &x->wants);
}

/* Life ------------------------------------------------------------------------------------- */

/* Of the group of the host's first stream. */
static int place_host(struct braid_html_states *x, u32 number)
{
	const struct braid_source *source = x->states.source;
	u32 nr = x->states.hosts[number].nr_cpus, k;
	size_t of = 0;

	x->host_lanes[number] = calloc((size_t)nr + 1, sizeof(**x->host_lanes));
	if (!x->host_lanes[number])
		return -ENOMEM;
	while (of < source->nr_streams && (source->streams[of]->kind != BRAID_STREAM_HOST ||
					   braid_stream_host_number(source->streams[of]) != number))
		of++;
	for (k = 0; k < nr; k++)
		x->host_lanes[number][k] = braid_html_lane_of(x->lanes, x->lanes->group_of[of], k);
	return 0;
}

static int place_vcpus(struct braid_html_states *x)
{
	u32 k;

	x->vcpus = calloc((size_t)x->states.nr_vcpus + 1, sizeof(*x->vcpus));
	x->host_lanes = calloc(x->states.nr_hosts, sizeof(*x->host_lanes));
	if (!x->vcpus || !x->host_lanes)
		return braid_out_of_memory();
	for (k = 0; k < x->states.nr_hosts; k++)
		if (place_host(x, k))
			return braid_out_of_memory();
	for (k = 0; k < x->states.nr_vcpus; k++) {
		const struct braid_vcpu *v = &x->states.vcpus[k];

		x->vcpus[k].lane = braid_html_lane_of(x->lanes,
						      x->lanes->group_of[v->guest->number],
						      v->number);
	}
	return 0;
}

int braid_html_states_begin(struct braid_html_states **out, struct braid_walk *shown,
			    const struct braid_html_lanes *lanes, struct braid_html_names *names,
			    struct braid_html_spans *spans, struct braid_html_out *page, u32 exact)
{
	static const struct braid_states_ops ops = {
		.span = html_states_span, .queued = html_states_queued,
		.started = html_states_start, .cut = html_states_cut,
	};
	struct braid_html_states *x = calloc(1, sizeof(*x));
	int err;

	*out = x;
	if (!x)
		return braid_out_of_memory();
	x->shown = shown;
	x->lanes = lanes;
	x->names = names;
	x->spans = spans;
	x->out = page;
	x->exact = exact;
	err = braid_states_begin(&x->states, shown->source, &ops, x);
	if (err)
		return err;
	shown->states = &x->states;
	err = x->states.nr_vcpus ? begin_summary(x, shown) : 0;
	return err ? err : place_vcpus(x);
}

const struct braid_observed *braid_html_states_recorded(const struct braid_html_states *x,
							size_t *nr)
{
	*nr = x->states.nr_recorded;
	return x->states.recorded;
}

s64 braid_html_states_origin(const struct braid_html_states *x)
{
	return x->origin_ns;
}

int braid_html_states_end(struct braid_html_states *x)
{
	int err = braid_states_end(&x->states);
	u32 k;

	if (!err && x->summary)
		err = summary->end(x->summary);
	for (k = 0; k < x->states.nr_vcpus && !err; k++) {
		if (!x->vcpus[k].proven)
			continue;
		err = close_last(x, &x->vcpus[k]);
		if (!err)
			err = close_merged(x, &x->vcpus[k]);
	}
	return err ? err : html_states_flush(x);
}

void braid_html_states_free(struct braid_html_states *x)
{
	u32 k;

	if (!x)
		return;
	for (k = 0; k < COLUMNS; k++)
		braid_text_free(&x->columns[k]);
	if (x->summary)
		summary->free(x->summary);
	free(x->summary);
	for (k = 0; x->host_lanes && k < x->states.nr_hosts; k++)
		free(x->host_lanes[k]);
	free(x->host_lanes);
	free(x->vcpus);
	braid_states_free(&x->states);
	free(x);
}
