// SPDX-License-Identifier: GPL-2.0-or-later
/* Adds up what the states of one file show, in the tables. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/analyze/grow.h"
#include "host_agent/online/sums.h"
#include "host_agent/util/error.h"

static struct braid_online_guest *guest_of(const struct braid_online_sums *x, u32 vcpu)
{
	return x->guests[x->states.vcpus[vcpu].guest->number];
}

/* What the states hand on --------------------------------------------------------------------- */

/* The guest, or kind of others. */
static int add_stolen(struct braid_online_sums *x, struct braid_online_guest *g,
		      const struct braid_state_span *span)
{
	struct braid_culprit group = braid_culprit_group(&x->states, &span->culprit);
	const char *name = "";

	if (group.kind == BRAID_CULPRIT_GUEST)
		name = x->states.source->streams[group.id]->name;
	return braid_online_add(&g->culprits, x->options->max_culprits, group.kind, name,
				span->to_ns - span->from_ns, span->to_ns);
}

static void close_episode(struct braid_online_sums *x, u32 vcpu)
{
	struct braid_online_sum *sum = &x->vcpus[vcpu];
	struct braid_online_guest *g = guest_of(x, vcpu);

	if (sum->to_ns && g)
		braid_online_count(&g->steals, sum->to_ns - sum->from_ns, sum->to_ns);
	sum->to_ns = 0;
}

static int sums_take_span(void *arg, const struct braid_state_span *span)
{
	struct braid_online_sums *x = arg;
	struct braid_online_sum *sum = &x->vcpus[span->vcpu];
	struct braid_online_guest *g = guest_of(x, span->vcpu);

	if (span->state != BRAID_VCPU_STOLEN || span->from_ns != sum->to_ns)
		close_episode(x, span->vcpu);
	if (!g)
		return 0;
	if (span->state == BRAID_VCPU_THROTTLED)
		return braid_online_add(&g->cgroups, x->options->max_cgroups, 0,
					x->states.quotas[span->culprit.id].path,
					span->to_ns - span->from_ns, span->to_ns);
	if (span->state != BRAID_VCPU_STOLEN)
		return 0;
	if (!sum->to_ns)
		sum->from_ns = span->from_ns;
	sum->to_ns = span->to_ns;
	return add_stolen(x, g, span);
}

/* Each row has another name: unknown reasons of two architectures may be the same number. */
static void name_reason(const struct braid_online_rows *rows, u64 reason,
			char name[BRAID_NAME_TEXT])
{
	size_t k;

	static_assert(BRAID_NAME_TEXT <= BRAID_ONLINE_NAME, "a name fits");
	braid_exit_name(reason, name);
	for (k = 0; k < rows->nr; k++)
		if (!strcmp(rows->items[k].name, name))
			snprintf(name, BRAID_NAME_TEXT, "0x%llx", (unsigned long long)reason);
}

static int sums_take_exit(void *arg, const struct braid_exit *exit)
{
	struct braid_online_sums *x = arg;
	struct braid_online_guest *g = guest_of(x, exit->vcpu);
	struct braid_online_row *row = g ? braid_online_of_key(&g->exits, exit->reason) : NULL;
	u64 ns = exit->to_ns - exit->from_ns;
	char name[BRAID_NAME_TEXT];

	if (!g)
		return 0;
	if (!row) {
		name_reason(&g->exits, exit->reason, name);
		return braid_online_add(&g->exits, x->options->max_reasons, exit->reason, name, ns,
					exit->to_ns);
	}
	braid_online_add_to(row, ns, exit->to_ns);
	return 0;
}

static int sums_take_queued(void *arg, const struct braid_queue_wait *wait)
{
	struct braid_online_sums *x = arg;
	struct braid_online_guest *g = guest_of(x, wait->vcpu);

	if (g && wait->woken)
		braid_online_count(&g->wakeups, wait->to_ns - wait->from_ns, wait->to_ns);
	return 0;
}

/* From a thread's wake-up to its CPU: the stage "vCPU woken to on CPU" of an analysis. */
static void sums_take_mark(void *arg, const struct braid_mark *mark)
{
	struct braid_online_sums *x = arg;
	const struct braid_vcpu *v = &x->states.vcpus[mark->vcpu];
	struct braid_online_sum *sum = &x->vcpus[mark->vcpu];
	struct braid_online_guest *g = guest_of(x, mark->vcpu);
	s64 from_ns = sum->woken_ns > v->begin_ns ? sum->woken_ns : v->begin_ns;

	if (mark->kind == BRAID_MARK_ON_CPU && sum->woken && g && mark->ns >= v->begin_ns &&
	    mark->ns <= v->end_ns)
		braid_online_count(&g->vcpu_wakeups, mark->ns - from_ns, mark->ns);
	if (mark->kind == BRAID_MARK_ON_CPU || mark->kind == BRAID_MARK_LOST)
		sum->woken = false;
	if (mark->kind != BRAID_MARK_WOKEN)
		return;
	sum->woken = true;
	sum->woken_ns = mark->ns;
}

/* Publishing ---------------------------------------------------------------------------------- */

/* Of each vCPU, the open span's time counts, too. */
static void publish_vcpu(struct braid_online_sums *x, u32 vcpu, s64 now_ns)
{
	const struct braid_vcpu *v = &x->states.vcpus[vcpu];
	struct braid_online_sum *sum = &x->vcpus[vcpu];
	struct braid_online_guest *g = guest_of(x, vcpu);
	u64 ns[BRAID_NR_VCPU_STATES];
	u32 k;

	braid_vcpu_sums(v, now_ns, ns);
	for (k = 0; k < BRAID_NR_VCPU_STATES; k++) {
		g->vcpus[v->number].ns[k] += ns[k] - sum->done_ns[k];
		g->states |= ns[k] ? 1u << k : 0;
	}
	memcpy(sum->done_ns, ns, sizeof(ns));
	if (sum->to_ns && v->now.state != BRAID_VCPU_STOLEN && !v->first_held)
		close_episode(x, vcpu);
	if (sum->to_ns)
		braid_online_compare(&g->steals, sum->to_ns - sum->from_ns, sum->to_ns);
	if (sum->woken && now_ns > sum->woken_ns)
		braid_online_compare(&g->vcpu_wakeups, now_ns - sum->woken_ns, now_ns);
}

/* The states that a guest's file can show. */
static u32 states_of(const struct braid_states *s, const struct braid_stream *guest)
{
	const struct braid_seen seen = braid_states_seen_of(s, guest);
	u32 all = 1u << BRAID_VCPU_UNKNOWN;

	if (seen.switches)
		all |= 1u << BRAID_VCPU_RUNS | 1u << BRAID_VCPU_STOLEN | 1u << BRAID_VCPU_SLEEPS |
		       1u << BRAID_VCPU_STOPPED;
	if (seen.kvm)
		all |= 1u << BRAID_VCPU_GUEST | 1u << BRAID_VCPU_KVM | 1u << BRAID_VCPU_HALTED |
		       1u << BRAID_VCPU_BLOCKED;
	if (seen.user)
		all |= 1u << BRAID_VCPU_VMM;
	if (braid_states_knows_throttled(s, guest))
		all |= 1u << BRAID_VCPU_THROTTLED;
	if (guest->kind == BRAID_STREAM_GUEST)
		all |= 1u << BRAID_VCPU_OFFLINE;
	return all;
}

static void publish_guest(struct braid_online_guest *g, const struct braid_states *s,
			  const struct braid_stream *stream, s64 now_ns)
{
	const struct braid_clock_inputs *in = &stream->clock_inputs;
	size_t nr = in->nr_round_trips;
	s64 answer_ns = nr ? (s64)in->round_trips[nr - 1].s.h2_ns : 0;

	g->seen_ns = now_ns;
	g->states |= states_of(s, stream);
	if (stream->kind != BRAID_STREAM_GUEST)
		return;
	/* A guest that has gone is not silent. One that was only stopped is in the next file. */
	g->driver = !stream->end_reason || stream->end_reason == BRAID_END_STOPPED;
	g->clock = stream->clock.kind;
	g->bound_ns = stream->bound_ns;
	if (answer_ns > g->sign_ns && answer_ns <= now_ns)
		g->sign_ns = answer_ns;
}

void braid_online_sums_publish(struct braid_online_sums *x, s64 now_ns)
{
	const struct braid_states *s = &x->states;
	u32 k;

	for (k = 0; k < s->nr_streams; k++)
		if (x->guests[k])
			publish_guest(x->guests[k], s, s->source->streams[k], now_ns);
	for (k = 0; k < s->nr_vcpus && s->begin_ns != INT64_MAX; k++)
		if (guest_of(x, k))
			publish_vcpu(x, k, now_ns);
}

/* Life ---------------------------------------------------------------------------------------- */

/* The guests of a file's streams; those of one name are one. */
static int sums_find_guests(struct braid_online_sums *x, struct braid_source *source,
			    struct braid_online_table *t, struct braid_online_totals *totals)
{
	size_t k;
	int err = 0;

	x->guests = calloc(source->nr_streams + 1, sizeof(struct braid_online_guest *));
	if (!x->guests)
		return braid_out_of_memory();
	for (k = 0; k < t->nr; k++)
		t->items[k]->present = t->items[k]->driver = false;
	for (k = 0; k < source->nr_streams && !err; k++) {
		const struct braid_stream *stream = source->streams[k];

		if (!braid_stream_is_guest(stream))
			continue;
		err = braid_online_guest_of(t, stream->name, x->options->max_guests, &x->guests[k]);
		if (!err && x->guests[k])
			err = braid_online_vcpus(x->guests[k], stream->nr_cpus);
		if (err || !x->guests[k]) {
			totals->streams_left_out += !err;
			continue;
		}
		x->guests[k]->present = true;
		x->guests[k]->driver |= stream->kind == BRAID_STREAM_GUEST;
	}
	return err;
}

int braid_online_sums_begin(struct braid_online_sums *x, struct braid_source *source,
			    struct braid_online_table *t,
			    const struct braid_online_options *options,
			    struct braid_online_totals *totals)
{
	static const struct braid_states_ops ops = {
		.span = sums_take_span, .exit = sums_take_exit, .queued = sums_take_queued,
		.mark = sums_take_mark,
	};
	int err;

	x->options = options;
	err = sums_find_guests(x, source, t, totals);
	if (!err)
		err = braid_states_begin(&x->states, source, &ops, x);
	if (err)
		return err;
	x->vcpus = calloc((size_t)x->states.nr_vcpus + 1, sizeof(*x->vcpus));
	return x->vcpus ? 0 : braid_out_of_memory();
}

int braid_online_sums_go_on(struct braid_online_sums *x, struct braid_online_sums *former)
{
	u32 *numbers = calloc((size_t)former->states.nr_vcpus + 1, sizeof(*numbers)), k;
	s64 now_ns = former->states.paused_ns;
	int err;

	if (!numbers)
		return braid_out_of_memory();
	err = braid_states_go_on(&x->states, &former->states, numbers);
	for (k = 0; k < former->states.nr_vcpus && !err; k++) {
		if (numbers[k] != BRAID_NO_VCPU) {
			x->vcpus[numbers[k]] = former->vcpus[k];
			continue;
		}
		close_episode(former, k);
		if (guest_of(former, k))
			publish_vcpu(former, k, now_ns);
	}
	free(numbers);
	return err;
}

int braid_online_sums_end(struct braid_online_sums *x)
{
	int err = braid_states_end(&x->states);
	u32 k;

	for (k = 0; k < x->states.nr_vcpus; k++)
		close_episode(x, k);
	if (!err)
		braid_online_sums_publish(x, x->states.end_ns);
	return err;
}

void braid_online_sums_free(struct braid_online_sums *x)
{
	if (x->states.source)
		braid_states_free(&x->states);
	free(x->guests);
	free(x->vcpus);
	*x = (struct braid_online_sums){ 0 };
}
