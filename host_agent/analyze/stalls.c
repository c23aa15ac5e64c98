// SPDX-License-Identifier: GPL-2.0-or-later
/* The longest times in which a vCPU recorded no event although its guest had work, and why. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define PAUSE_SLACK_NS	1000000	/* epochs' limits are bounds: a gap may begin or end within them */

struct stalls {
	struct braid_states *s;
	struct braid_analysis_options o;
	struct braid_gap *open;		/* of each vCPU: since its last event */
	struct braid_gap *worst;	/* of each stream; to_ns 0: none */
	struct braid_longest longest;	/* struct braid_gap */
	struct braid_tally culprits;	/* of each vCPU's open gap */
};

static int stalls_by_length(const void *a, const void *b)
{
	const struct braid_gap *x = a, *y = b;

	return braid_compare(braid_stall_ns(x), braid_stall_ns(y)) ?:
	       braid_compare(y->from_ns, x->from_ns) ?: braid_compare(y->vcpu, x->vcpu);
}

static void begin_gap(struct stalls *x, u32 vcpu, s64 ns)
{
	struct braid_gap *g = &x->open[vcpu];

	g->vcpu = vcpu;
	g->task = x->s->vcpus[vcpu].task;
	g->from_ns = ns;
	g->idle_ns = g->slept_ns = 0;
	g->to_end = false;
	braid_tally_clear(&x->culprits, vcpu);
	memset(g->ns, 0, sizeof(g->ns));
}

/* With work to do. */
static bool is_sleep(const struct braid_state_span *span)
{
	return span->state == BRAID_VCPU_BLOCKED ||
	       (span->state == BRAID_VCPU_SLEEPS && span->task);
}

static int stalls_take_span(void *arg, const struct braid_state_span *span)
{
	struct stalls *x = arg;
	struct braid_gap *g = &x->open[span->vcpu];
	s64 from_ns = span->from_ns > g->from_ns ? span->from_ns : g->from_ns;
	s64 until_ns = braid_states_traced_until(x->s, span->vcpu);
	s64 to_ns = span->to_ns < until_ns ? span->to_ns : until_ns;
	u64 ns = to_ns > from_ns ? to_ns - from_ns : 0;

	g->ns[span->state] += ns;
	if (span->state == BRAID_VCPU_HALTED || span->state == BRAID_VCPU_OFFLINE ||
	    (span->state == BRAID_VCPU_SLEEPS && !span->task))
		g->idle_ns += ns;
	if (is_sleep(span) && ns > g->slept_ns && x->s->vcpus[span->vcpu].woken_ns == span->to_ns) {
		g->slept_ns = ns;
		g->waker = x->s->vcpus[span->vcpu].waker;
	}
	if (span->state == BRAID_VCPU_STOLEN && ns)
		return braid_tally_add(&x->culprits, span->vcpu, &span->culprit, ns);
	return 0;
}

/* A gap is over. */
static int take_gap(struct stalls *x, u32 vcpu, s64 ns)
{
	struct braid_gap *g = &x->open[vcpu], *worst;
	u64 least_ns;
	int err;

	worst = &x->worst[x->s->vcpus[vcpu].guest->number];
	if (ns > braid_states_traced_until(x->s, vcpu))
		ns = braid_states_traced_until(x->s, vcpu);
	g->to_ns = ns;
	if (ns <= g->from_ns || !braid_analysis_wants(x->s, &x->o, vcpu, g->task))
		return 0;
	/* Most gaps are short: their states need not be known. */
	least_ns = worst->to_ns ? braid_stall_ns(worst) : 0;
	if (x->longest.nr < x->longest.max)
		least_ns = 0;
	else if (x->longest.nr && braid_stall_ns((void *)x->longest.items) < least_ns)
		least_ns = braid_stall_ns((void *)x->longest.items);
	if ((u64)(ns - g->from_ns) <= least_ns)
		return 0;
	err = braid_states_settle(x->s, vcpu, ns);
	if (err || !braid_stall_ns(g))
		return err;
	braid_tally_shares(&x->culprits, vcpu, &g->culprits);
	braid_longest_add(&x->longest, g);
	if (!worst->to_ns || stalls_by_length(worst, g) < 0)
		*worst = *g;
	return 0;
}

static int stalls_take_event(void *state, const struct braid_item *item,
			     const struct braid_event_type_info *info)
{
	struct stalls *x = state;
	u32 vcpu = braid_states_vcpu_of(x->s, item);
	int err = 0;

	(void)info;
	if (vcpu == BRAID_NO_VCPU || !braid_item_is_sure(item))
		return 0;
	/* Where events were lost there may have been none missing. */
	if (!item->lost_before && x->open[vcpu].from_ns != INT64_MIN)
		err = take_gap(x, vcpu, item->host_ns);
	begin_gap(x, vcpu, item->host_ns);
	if (x->open[vcpu].from_ns < x->s->vcpus[vcpu].begin_ns)
		x->open[vcpu].from_ns = x->s->vcpus[vcpu].begin_ns;
	return err;
}

/* Output ------------------------------------------------------------------------------------- */

static const struct braid_column columns[] = {
	{ "AT", "at_ns", BRAID_CELL_TIME }, { "FOR", "duration_ns", BRAID_CELL_DURATION },
	{ "IDLE", "idle_ns", BRAID_CELL_DURATION },
	{ "VCPU", "vcpu", BRAID_CELL_TEXT }, { "TASK", "task", BRAID_CELL_TEXT },
	{ "TID", "tid", BRAID_CELL_COUNT },
	BRAID_STATE_COLUMNS,
	{ "STALL", "stall_ns", BRAID_CELL_DURATION }, { "CAUSE", "cause", BRAID_CELL_TEXT },
	{ "TO END", "until_end", BRAID_CELL_COUNT },
	{ "CULPRITS", "culprits", BRAID_CELL_LIST },
};

/* What each state means to the vCPU's thread. @work: the vCPU's task is not the idle task. */
static const char *evidence(enum braid_vcpu_state state, bool work)
{
	static const char *const names[BRAID_NR_VCPU_STATES] = {
		[BRAID_VCPU_UNKNOWN] = "unknown",
		[BRAID_VCPU_GUEST] = "executing guest code without an event",
		[BRAID_VCPU_KVM] = "in the hypervisor",
		[BRAID_VCPU_VMM] = "in the VMM",
		[BRAID_VCPU_RUNS] = "running, in the guest, the hypervisor or the VMM",
		[BRAID_VCPU_STOLEN] = "runnable, not running",
		[BRAID_VCPU_THROTTLED] = "throttled by the CPU quota of its cgroup",
		[BRAID_VCPU_HALTED] = "halted",
		[BRAID_VCPU_BLOCKED] = "blocked in the hypervisor or the VMM, or frozen by its cgroup",
		[BRAID_VCPU_SLEEPS] = "asleep: halted, or blocked in the hypervisor or the VMM",
		[BRAID_VCPU_STOPPED] = "stopped by a signal or a debugger",
		[BRAID_VCPU_OFFLINE] = "offline",
	};

	if (state == BRAID_VCPU_SLEEPS && work)
		return "asleep with work to do: blocked in the hypervisor or the VMM, or frozen by its cgroup";
	return names[state];
}

/* The time for which the monitor stopped the guest, if its clock on a host says so. */
static u64 paused_there(const struct braid_vcpu *v, const struct braid_stream *part, s64 from_ns,
			s64 to_ns)
{
	const struct braid_clock *clock = &part->clock;
	const struct braid_clock_track *track;
	u64 ns = 0;
	size_t k;

	if (!clock->nr_tracks)
		return 0;
	track = braid_clock_track_of(clock, v->number);
	for (k = 1; k < track->nr_epochs; k++) {
		const struct braid_clock_epoch *e = &track->epochs[k];
		s64 left_ns = braid_stream_on_timeline(part, e->from_ns);
		s64 begun_ns = braid_stream_on_timeline(part, e->begun_ns);

		if (left_ns < from_ns - PAUSE_SLACK_NS || begun_ns > to_ns + PAUSE_SLACK_NS)
			continue;
		if (e->cause == BRAID_EPOCH_PAUSED)
			ns += (u64)begun_ns - (u64)left_ns;
		else if (e->cause == BRAID_EPOCH_STOOD_STILL && e->step_ns > 0)
			ns += e->step_ns;
	}
	return ns;
}

static u64 paused_ns(const struct braid_vcpu *v, s64 from_ns, s64 to_ns)
{
	const struct braid_stream *part;
	u64 ns = 0;
	size_t k;

	for (k = 0; (part = braid_stream_part(v->guest, k)); k++)
		ns += paused_there(v, part, from_ns, to_ns);
	return ns;
}

void braid_stall_cause(const struct braid_states *s, const struct braid_gap *g,
		       char cause[2 * BRAID_NAME_TEXT])
{
	const struct braid_vcpu *v = &s->vcpus[g->vcpu];
	u64 stall_ns = braid_stall_ns(g), ns = paused_ns(v, g->from_ns, g->to_ns);
	s64 alive_ns = s->guests[v->guest->number].alive_ns;
	char took[24], name[BRAID_NAME_TEXT];

	*cause = 0;
	if (ns >= stall_ns / 2) {
		braid_duration_text(ns, took);
		snprintf(cause, 2 * BRAID_NAME_TEXT, "the guest was paused for %s", took);
	} else if (g->to_end) {
		snprintf(cause, 2 * BRAID_NAME_TEXT, "silent until the end%s",
			 g->to_ns >= s->windows[v->host - s->hosts].to_ns ? "" :
			 g->to_ns >= alive_ns || g->to_ns >= v->last_ns ? " of its trace" : " of the recording");
	} else if (g->slept_ns >= stall_ns / 2 && g->waker.kind != BRAID_CULPRIT_UNKNOWN &&
		   g->waker.kind != BRAID_CULPRIT_NOTHING) {
		braid_duration_text(g->slept_ns, took);
		braid_culprit_name(s, &g->waker, name);
		snprintf(cause, 2 * BRAID_NAME_TEXT, "its thread slept for %s, until %.100s woke it", took,
			 g->waker.kind == BRAID_CULPRIT_INTERRUPTS ? "an interrupt" : name);
	}
}

/* One stall as a paragraph: the largest share first. */
static void put_paragraph(const struct stalls *x, const struct braid_gap *g,
			  struct braid_text *out)
{
	char name[BRAID_NAME_TEXT], task[BRAID_NAME_TEXT], took[24], cause[2 * BRAID_NAME_TEXT];
	const struct braid_vcpu *v = &x->s->vcpus[g->vcpu];
	u64 left[BRAID_NR_VCPU_STATES];
	u32 k, best;

	memcpy(left, g->ns, sizeof(left));
	braid_vcpu_name(x->s, g->vcpu, name);
	braid_task_name(x->s, v->guest->number, g->task, task);
	braid_duration_text(braid_stall_ns(g), took);
	braid_text_puts(out, name);
	if (v->tid)
		braid_text_printf(out, " (thread %d)", v->tid);
	braid_text_printf(out, " %srecorded no event for %s from %lld.%06lld; its task was %s:\n",
			  g->idle_ns ? "had work and " : "", took,
			  (long long)(g->from_ns / 1000000000),
			  (long long)(g->from_ns / 1000 % 1000000), task);
	braid_stall_cause(x->s, g, cause);
	if (*cause)
		braid_text_printf(out, "  cause: %s\n", cause);
	for (;;) {
		for (best = k = 0; k < BRAID_NR_VCPU_STATES; k++)
			best = left[k] > left[best] ? k : best;
		if (!left[best])
			break;
		braid_duration_text(left[best], took);
		braid_text_printf(out, "  %s %s", took, evidence(best, g->task > 0));
		if (best == BRAID_VCPU_STOLEN && g->culprits.nr) {
			braid_text_puts(out, "; on its CPU: ");
			braid_shares_write(x->s, &g->culprits, BRAID_TABLE_TEXT, out);
		}
		braid_text_putc(out, '\n');
		left[best] = 0;
	}
	if (!g->idle_ns)
		return;
	braid_duration_text(g->idle_ns, took);
	braid_text_printf(out, "  not counted: for %s more %s\n", took,
			  !g->ns[BRAID_VCPU_OFFLINE] ? "the guest had nothing to run" :
			  "the guest had nothing to run, or the vCPU was offline");
}

static void stalls_put_row(const struct stalls *x, const struct braid_gap *g, struct braid_table *t)
{
	char name[BRAID_NAME_TEXT], cause[2 * BRAID_NAME_TEXT];
	bool kvm = x->s->vcpus[g->vcpu].host->seen.kvm;
	u32 k;

	braid_table_number(t, g->from_ns);
	braid_table_number(t, g->to_ns - g->from_ns);
	braid_table_number(t, g->idle_ns);
	braid_table_text(t, braid_vcpu_name(x->s, g->vcpu, name));
	braid_task_name(x->s, x->s->vcpus[g->vcpu].guest->number, g->task, name);
	braid_table_text(t, name);
	braid_table_number(t, x->s->vcpus[g->vcpu].tid);
	for (k = 0; k < BRAID_NR_VCPU_STATES; k++) {
		enum braid_vcpu_state state = braid_state_of_column(k);

		bool known = kvm || !braid_state_needs_kvm(state);

		if (state == BRAID_VCPU_THROTTLED)
			known = braid_states_knows_throttled(x->s, x->s->vcpus[g->vcpu].guest);
		braid_table_number(t, known ? (s64)g->ns[state] : BRAID_CELL_NONE);
	}
	braid_table_number(t, braid_stall_ns(g));
	braid_stall_cause(x->s, g, cause);
	braid_table_text(t, *cause ? cause : "-");
	braid_table_number(t, g->to_end);
	braid_shares_put(x->s, &g->culprits, x->o.form, t);
}

/* Whether any vCPU records events. */
static bool any_driver(const struct stalls *x)
{
	size_t k;

	for (k = 0; k < x->s->source->nr_streams; k++)
		if (x->s->source->streams[k]->kind == BRAID_STREAM_GUEST)
			return true;
	return false;
}

static void stalls_write(void *state, struct braid_text *out)
{
	struct stalls *x = state;
	const struct braid_gap *all = (const struct braid_gap *)x->longest.items;
	struct braid_table table = { .key = "stalls", BRAID_COLUMNS(columns) };
	u32 k;

	braid_longest_sort(&x->longest);
	braid_certainty_write(x->s, &x->o, out);
	if (x->o.form == BRAID_TABLE_TEXT) {
		if (!x->longest.nr)
			braid_text_printf(out, "%s.\n", any_driver(x) ? "No vCPU stalled" :
					  "Stalls are unknown: no guest has the driver");
		for (k = 0; k < x->longest.nr; k++) {
			braid_text_putc(out, '\n');
			put_paragraph(x, &all[k], out);
		}
		return;
	}
	for (k = 0; k < x->longest.nr; k++)
		stalls_put_row(x, &all[k], &table);
	if (x->o.form == BRAID_TABLE_JSON)
		braid_text_putc(out, ',');
	braid_table_write(&table, x->o.form, out);
	braid_table_free(&table);
}

const struct braid_gap *braid_stalls_worst(const void *state, u32 stream)
{
	const struct stalls *x = state;

	return x->worst[stream].to_ns ? &x->worst[stream] : NULL;
}

/* Life --------------------------------------------------------------------------------------- */

static int stalls_begin(void *state, struct braid_states *s,
			const struct braid_analysis_options *options)
{
	struct stalls *x = state;
	int err;
	u32 k;

	x->s = s;
	x->o = *options;
	x->open = calloc((size_t)s->nr_vcpus + 1, sizeof(*x->open));
	x->worst = calloc(s->source->nr_streams + 1, sizeof(*x->worst));
	if (!x->open || !x->worst)
		return braid_out_of_memory();
	err = braid_tally_begin(&x->culprits, s->nr_vcpus);
	if (err)
		return err;
	for (k = 0; k < s->nr_vcpus; k++)
		begin_gap(x, k, INT64_MIN);
	return braid_longest_begin(&x->longest, x->o.top, sizeof(struct braid_gap),
				   stalls_by_length);
}

/* Its guest's recording ends; what hangs then has no next event. */
static int stalls_cut(void *arg, u32 vcpu, s64 ns)
{
	struct stalls *x = arg;
	int err = 0;

	if (x->open[vcpu].from_ns != INT64_MIN && !x->s->vcpus[vcpu].in_gap) {
		x->open[vcpu].to_end = true;
		err = take_gap(x, vcpu, ns);
	}
	begin_gap(x, vcpu, INT64_MIN);
	return err;
}

static int stalls_end(void *state)
{
	struct stalls *x = state;
	int err = 0;
	u32 k;

	for (k = 0; k < x->s->nr_vcpus && !err; k++)
		err = stalls_cut(x, k, x->s->vcpus[k].end_ns);
	return err;
}

static void stalls_free_state(void *state)
{
	struct stalls *x = state;

	braid_longest_free(&x->longest);
	braid_tally_free(&x->culprits);
	free(x->open);
	free(x->worst);
}

const struct braid_analysis braid_analysis_stalls = {
	.name = "stalls",
	.help = "the longest times without an event of a vCPU that had work, and what happened meanwhile",
	.takes = 1u << BRAID_ANALYSIS_ONE_TASK,
	.state_bytes = sizeof(struct stalls),
	.begin = stalls_begin,
	.states = { .span = stalls_take_span, .cut = stalls_cut },
	.event = stalls_take_event,
	.end = stalls_end,
	.write = stalls_write,
	.free = stalls_free_state,
};
