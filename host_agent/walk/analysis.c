// SPDX-License-Identifier: GPL-2.0-or-later
/* Walks a trace for an analysis, and writes its results. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/compare.h"
#include "host_agent/trace/binaries.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/analysis.h"
#include "host_agent/walk/moment.h"
#include "host_agent/walk/walk.h"

#define REFINEMENTS	3

struct run {
	struct braid_states states;
	struct braid_walk walk;
	const struct braid_walk_options *options;
	const struct braid_analysis *analysis;
	void *state;
	bool any;
	s64 begin_ns, end_ns;	/* of the recording, or of its events */
};

/* Converts a time option, once the first event is known. Without the option *ns is unchanged. */
static int analysis_place(const struct run *r, const struct braid_walk_moment *m, s64 first_ns,
			  bool last, s64 *ns)
{
	s64 from_ns, to_ns;
	int err;

	if (m->kind == BRAID_MOMENT_NONE)
		return 0;
	if (m->kind == BRAID_MOMENT_SINCE) {
		if (__builtin_add_overflow(first_ns, m->ns, ns))
			*ns = INT64_MAX;
		return 0;
	}
	err = braid_moment_place(m, r->walk.source, r->options->realtime, last, ns);
	if (err || !r->options->realtime)
		return err;
	from_ns = to_ns = *ns;
	braid_moment_cover(r->walk.source, &from_ns, &to_ns);
	*ns = last ? to_ns : from_ns;
	return 0;
}

static int limit(struct run *r, s64 first_ns)
{
	s64 from_ns = INT64_MIN, to_ns = INT64_MAX;
	int err = analysis_place(r, &r->options->from, first_ns, false, &from_ns);

	r->begin_ns = r->states.begin_ns == INT64_MAX ? first_ns : r->states.begin_ns;
	r->end_ns = r->states.end_ns;

	if (!err)
		err = analysis_place(r, &r->options->to, first_ns, true, &to_ns);
	if (!err)
		braid_states_limit(&r->states, from_ns, to_ns);
	return err;
}

static int analysis_take_event(void *arg, const struct braid_item *item,
			       const struct braid_event_type_info *info)
{
	struct run *r = arg;
	int err = 0;

	if (!braid_states_takes(item->host_ns))
		return 0;
	if (!r->any)
		err = limit(r, item->host_ns);
	r->any = true;
	if (!err)
		err = braid_states_event(&r->states, item, info);
	if (!err && r->analysis->event)
		err = r->analysis->event(r->state, item, info);
	return err;
}

static int take_lost(void *arg, const struct braid_item *item)
{
	struct run *r = arg;

	return !braid_states_takes(item->host_ns) ? 0 : braid_states_lost(&r->states, item);
}

static int analysis_walk(struct run *r, struct braid_source *source)
{
	static const struct braid_walk_ops ops = { .event = analysis_take_event, .lost = take_lost };
	const struct braid_walk_options all = {
		.progress = r->options->progress, .progress_arg = r->options->progress_arg,
		.stop = r->options->stop,
	};
	struct braid_walk_totals totals = { 0 };
	int err = braid_walk_begin(&r->walk, source, &all, &totals);

	if (!err)
		err = braid_walk_run(&r->walk, &ops, r);
	if (!err)
		err = braid_states_end(&r->states);
	braid_walk_end(&r->walk);
	return err;
}

/* Whether a recording of any guest is within the selected time. */
static bool observes(const struct braid_states *s)
{
	const struct braid_observed *w;
	size_t k;

	for (k = 0; k < s->source->nr_streams; k++)
		for (w = s->guests[k].windows; w < s->guests[k].windows + s->guests[k].nr_windows; w++)
			if (s->guests[k].nr_vcpus && w->to_ns >= w->from_ns)
				return true;
	return !s->nr_vcpus;
}

static int fail_time(const struct run *r)
{
	s64 end_ns = r->end_ns == INT64_MAX ? r->states.last_ns : r->end_ns;

	if (r->states.end_ns >= r->states.begin_ns)
		return braid_fail(-ENOENT, "no guest was recorded in the selected time, which is between recordings");
	return braid_fail(-ENOENT, "the recording, from %lld.%06lld to %lld.%06lld s, is not within the selected time",
			  (long long)(r->begin_ns / 1000000000),
			  (long long)(r->begin_ns / 1000 % 1000000), (long long)(end_ns / 1000000000),
			  (long long)(end_ns / 1000 % 1000000));
}

/* Rows by task need to know which one is current. */
static int check_tasks(const struct run *r, const struct braid_analysis_options *wants)
{
	const struct braid_states *s = &r->states;
	struct braid_analysis_options vcpus = *wants;
	u32 k;

	vcpus.one_task = false;
	for (k = 0; k < s->nr_vcpus; k++)
		if (braid_analysis_wants(s, &vcpus, k, 0) &&
		    braid_tasks_known(s, s->vcpus[k].guest->number))
			return 0;
	return !s->nr_vcpus ? 0 :
	       braid_fail(-ENODATA, "%s", braid_lacks_switches(s));
}

/* An option that selects nothing is probably a mistake. Return: 0, or -ENOENT with braid_fail(). */
static int check_selection(const struct run *r, const struct braid_analysis_options *wants)
{
	const struct braid_states *s = &r->states;
	bool any_vcpu = false, any_task = !wants->one_task;
	struct braid_analysis_options vcpus = *wants;
	u32 k;

	vcpus.one_task = false;
	for (k = 0; k < s->nr_vcpus; k++) {
		if (!braid_analysis_wants(s, &vcpus, k, 0))
			continue;
		any_vcpu = true;
		any_task |= !!braid_states_task(s, s->vcpus[k].guest->number, wants->task);
	}
	if (!any_vcpu && s->nr_vcpus)
		return wants->one_cpu ? braid_fail(-ENOENT, "no guest has a vCPU %u", wants->cpu) :
			braid_fail(-ENOENT, "'%s' is not a guest", wants->stream);
	if (!any_task)
		return braid_fail(-ENOENT, "no guest has a task %d", wants->task);
	if (s->begin_ns != INT64_MAX && (s->end_ns < s->begin_ns || !observes(s)))
		return fail_time(r);
	return wants->by_task ? check_tasks(r, wants) : 0;
}

/* JSON: its members, as an object. Return: 0, -EPIPE, or -errno with braid_fail(). */
static int put_result(const struct braid_text *text, enum braid_table_form form, FILE *to)
{
	bool object = form == BRAID_TABLE_JSON;

	errno = 0;
	if (text->failed)
		return braid_out_of_memory();
	fputs(object ? "{" : "", to);
	if (text->bytes)
		fwrite(text->data, 1, text->bytes, to);
	fputs(object ? "}\n" : "", to);
	return ferror(to) || fflush(to) ? braid_fail_output("the analysis") : 0;
}

/* The whole pass. Call end_run() in any case. */
static int analysis_run(struct run *r, struct braid_source *source,
			const struct braid_walk_options *options,
			const struct braid_analysis *analysis,
			const struct braid_analysis_options *wants)
{
	int err;

	*r = (struct run){
		.options = options, .analysis = analysis,
		.state = calloc(1, analysis->state_bytes),
	};
	err = r->state ? 0 : braid_out_of_memory();
	braid_source_rewind(source);
	if (!err)
		err = braid_states_begin(&r->states, source, &analysis->states, r->state);
	if (!err)
		err = analysis->begin(r->state, &r->states, wants);
	if (!err)
		err = analysis_walk(r, source);
	if (!err && analysis->name)
		err = check_selection(r, wants);
	if (!err && analysis->end)
		err = analysis->end(r->state);
	return err;
}

static void end_run(struct run *r)
{
	if (r->state)
		r->analysis->free(r->state);
	free(r->state);
	braid_states_free(&r->states);
}

int braid_analysis_write(FILE *to, struct braid_source *source,
			 const struct braid_walk_options *options,
			 const struct braid_analysis *analysis,
			 const struct braid_analysis_options *wants)
{
	struct braid_text text = { 0 }, other = { 0 };
	struct run r;
	int err = analysis_run(&r, source, options, analysis, wants);

	if (!err)
		analysis->write(r.state, &text);
	if (!err && wants->speedscope)
		err = braid_speedscope_write(&text, analysis->name, wants->by_count, &other);
	if (!err)
		err = put_result(wants->speedscope ? &other : &text, wants->form, to);
	braid_text_free(&text);
	braid_text_free(&other);
	end_run(&r);
	return err;
}

/* Whether it has samples of what guests' vCPUs, or CPUs of the host, executed. */
static bool has_samples(const struct braid_source *source)
{
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if (braid_stream_has_event(source->streams[k],
					   source->streams[k]->kind == BRAID_STREAM_HOST ?
					   "kernel_stack" : "cpu"))
			return true;
	return false;
}

/* Without the faults, which a later walk reports. @r: end_run() it in any case. */
static int run_quietly(struct run *r, struct braid_source *source,
		       const struct braid_walk_options *options,
		       const struct braid_analysis *analysis,
		       const struct braid_analysis_options *wants)
{
	void (*fault)(void *, const struct braid_stream *, const char *) = source->fault;
	u64 faults = source->faults;
	int err;

	source->fault = NULL;
	err = analysis_run(r, source, options, analysis, wants);
	source->fault = fault;
	source->faults = faults;
	braid_source_rewind(source);
	return err;
}

static int run_flame(struct braid_source *source, const struct braid_walk_options *options,
		     const struct braid_analysis_options *wants, u32 most, struct braid_flame *out)
{
	struct braid_text folded = { 0 };
	struct run r;
	int err = run_quietly(&r, source, options, &braid_analysis_profile, wants);

	if (!err && braid_profile_samples(r.state)) {
		braid_analysis_profile.write(r.state, &folded);
		err = folded.failed ? braid_out_of_memory() :
				      braid_flame_make(out, &folded, most);
		out->begin_ns = r.states.begin_ns == INT64_MAX ? r.begin_ns : r.states.begin_ns;
	}
	braid_text_free(&folded);
	end_run(&r);
	return err == -ENOENT ? 0 : err;	/* nothing is selected of a guest */
}

int braid_analysis_flame(struct braid_source *source, const struct braid_walk_options *options,
			 u32 most, struct braid_flame *out)
{
	struct braid_analysis_options wants = {
		.stream = options->stream, .one_cpu = options->one_cpu, .cpu = options->cpu,
		.folded = true,
	};
	int err;

	if (!has_samples(source))
		return 0;
	err = options->symbols ? braid_binaries_open(&wants.binaries, options->symbols) : 0;
	if (!err)
		err = run_flame(source, options, &wants, most, out);
	braid_binaries_free(wants.binaries);
	return err;
}

static bool has_entries(const struct braid_source *source)
{
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if (source->streams[k]->kind == BRAID_STREAM_HOST &&
		    braid_stream_has_event(source->streams[k], "kvm_entry"))
			return true;
	return false;
}

int braid_analysis_judge(struct braid_source *source, const struct braid_walk_options *options,
			 int (*take)(void *arg, struct braid_stream *stream,
				     const struct braid_windows_found *found), void *arg)
{
	const struct braid_analysis_options wants = { 0 };
	const struct braid_windows *found;
	struct run r;
	size_t k;
	int err;

	if (!has_entries(source))
		return 0;
	err = run_quietly(&r, source, options, &braid_analysis_windows, &wants);
	found = r.state;
	for (k = 0; k < source->nr_streams && !err; k++)
		if (source->streams[k]->kind == BRAID_STREAM_GUEST &&
		    braid_states_seen_of(&r.states, source->streams[k]).kvm)
			err = take(arg, source->streams[k], &found->found[k]);
	end_run(&r);
	return err;
}

struct refinement {
	u32 number;
	bool more;	/* it changes clocks */
};

const char *braid_analysis_not_judged(const struct braid_windows_found *found)
{
	return found->entries_missing ? "the host's kvm_entry events for this guest are incomplete" :
	       found->judged ? NULL :
	       "the host lacks kvm_entry and kvm_exit events for this guest, or for a CPU that it may have used";
}

static int refine(void *arg, struct braid_stream *stream, const struct braid_windows_found *found)
{
	const char *why = braid_analysis_not_judged(found);
	struct braid_clock *clock = &stream->clock;
	struct refinement *r = arg;
	int err;

	if (stream->nr_stays)
		return 0;	/* it has several */
	if (clock->kind != (r->number ? BRAID_CLOCK_WINDOWS :
				       braid_clock_sampled(&stream->clock_inputs)))
		return 0;
	if (!why && !r->number && !found->outside && !found->nr_samples)
		why = "kvm_entry and kvm_exit events do not make its bound smaller";
	if (why) {
		snprintf(clock->reason, sizeof(clock->reason), "%s", why);
		return 0;
	}
	if (!found->outside && r->number == REFINEMENTS)
		return 0;
	if (!found->outside) {
		r->more |= found->nr_samples > 0;
		return braid_stream_refine(stream, found->samples, found->nr_samples);
	}
	err = braid_stream_unrefine(stream);
	snprintf(clock->reason, sizeof(clock->reason), "%llu of %llu events contradict the host's kvm_entry and kvm_exit events",
		 (unsigned long long)found->outside, (unsigned long long)found->judged);
	return err;
}

int braid_analysis_refine(struct braid_source *source, const struct braid_walk_options *options)
{
	struct refinement r = { .more = true };
	int err = 0;
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if (!source->streams[k]->nr_stays &&
		    (source->streams[k]->clock.kind == BRAID_CLOCK_EXCHANGE ||
		     source->streams[k]->clock.kind == BRAID_CLOCK_READS))
			snprintf(source->streams[k]->clock.reason,
				 sizeof(source->streams[k]->clock.reason),
				 "the host has no kvm_entry and kvm_exit events");
	/* With tighter bounds more events have one window only. The last run checks the result. */
	for (; r.number <= REFINEMENTS && r.more && !err; r.number++) {
		r.more = false;
		err = braid_analysis_judge(source, options, refine, &r);
	}
	return err;
}

int braid_analysis_diff(FILE *to, struct braid_source *source,
			const struct braid_walk_options *options, struct braid_source *other,
			const struct braid_walk_options *of_other,
			const struct braid_analysis_options *wants)
{
	struct braid_text text = { 0 };
	struct run now, then = { .analysis = &braid_analysis_compare };
	int err = analysis_run(&now, source, options, &braid_analysis_compare, wants);

	if (!err)
		err = analysis_run(&then, other, of_other, &braid_analysis_compare, wants);
	if (!err)
		err = braid_comparison_write(now.state, then.state, &text);
	if (!err)
		err = put_result(&text, wants->form, to);
	braid_text_free(&text);
	end_run(&now);
	end_run(&then);
	return err;
}
