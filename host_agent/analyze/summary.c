// SPDX-License-Identifier: GPL-2.0-or-later
/* One screen: how each guest ran, what took its CPU time, and which analysis to run next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/compare.h"
#include "host_agent/analyze/shares.h"
#include "host_agent/util/error.h"

#define WORTH_PPM	10000u		/* stolen time that is worth an analysis */
#define WORTH_NS	10000000u	/* likewise a stall from 10 ms on, or a wake-up */

struct summary {
	struct braid_states *s;
	struct braid_analysis_options o;
	void *steal, *stalls;
	struct braid_queue_wait *worst;	/* of each stream; to_ns 0: none */
	struct braid_tally quotas;	/* what cgroups held back of each stream */
};

static int summary_take_span(void *arg, const struct braid_state_span *span)
{
	struct summary *x = arg;
	int err = braid_analysis_steal.states.span(x->steal, span);

	if (!err && span->state == BRAID_VCPU_THROTTLED &&
	    braid_analysis_wants(x->s, &x->o, span->vcpu, span->task))
		err = braid_tally_add(&x->quotas, x->s->vcpus[span->vcpu].guest->number,
				      &span->culprit, span->to_ns - span->from_ns);
	return err ? err : braid_analysis_stalls.states.span(x->stalls, span);
}

static bool is_worse(const struct braid_queue_wait *wait, const struct braid_queue_wait *worst)
{
	s64 more_ns = (wait->to_ns - wait->from_ns) - (worst->to_ns - worst->from_ns);

	return !worst->to_ns || more_ns > 0 || (!more_ns && wait->from_ns < worst->from_ns);
}

static int summary_take_queued(void *arg, const struct braid_queue_wait *wait)
{
	struct summary *x = arg;
	struct braid_queue_wait *worst = &x->worst[x->s->vcpus[wait->vcpu].guest->number];

	if (!wait->woken || !braid_analysis_wants(x->s, &x->o, wait->vcpu, wait->pid))
		return 0;
	if (is_worse(wait, worst))
		*worst = *wait;
	return 0;
}

static int take_cut(void *arg, u32 vcpu, s64 ns)
{
	struct summary *x = arg;

	return braid_analysis_stalls.states.cut(x->stalls, vcpu, ns);
}

static int summary_take_event(void *state, const struct braid_item *item,
			      const struct braid_event_type_info *info)
{
	struct summary *x = state;

	return braid_analysis_stalls.event(x->stalls, item, info);
}

/* Output ------------------------------------------------------------------------------------- */

/* A guest's vCPUs together. */
struct row {
	const struct braid_stream *guest;
	u32 nr_vcpus;
	u64 whole_ns;
	u64 busy_ns, stolen_ns, throttled_ns, asleep_ns, offline_ns, unknown_ns;
	u64 exits;
	u64 lost;
	bool some_lost;
	const struct braid_gap *stall;
	const struct braid_queue_wait *wait;
	const struct braid_stolen *by;
};

static void add_vcpu(struct row *row, const struct braid_vcpu *v)
{
	row->nr_vcpus++;
	row->whole_ns += braid_states_sum(v->ns);
	row->busy_ns += braid_states_ran(v->ns);
	row->stolen_ns += v->ns[BRAID_VCPU_STOLEN];
	row->throttled_ns += v->ns[BRAID_VCPU_THROTTLED];
	row->asleep_ns += braid_states_asleep(v->ns);
	row->offline_ns += v->ns[BRAID_VCPU_OFFLINE];
	row->unknown_ns += v->ns[BRAID_VCPU_UNKNOWN];
	row->exits += v->exits;
}

static void fill_row(const struct summary *x, const struct braid_stream *guest, struct row *row)
{
	const struct braid_guest_state *g = &x->s->guests[guest->number];
	size_t n;
	u32 k;

	*row = (struct row){ .guest = guest };
	for (k = 0; k < g->nr_vcpus; k++)
		if (braid_analysis_wants(x->s, &x->o, g->first_vcpu + k, x->o.task))
			add_vcpu(row, &x->s->vcpus[g->first_vcpu + k]);
	for (n = 0; n < guest->nr_rings; n++) {
		row->lost += guest->rings[n]->walk.lost;
		row->some_lost |= guest->rings[n]->walk.some_lost;
	}
	row->stall = braid_stalls_worst(x->stalls, guest->number);
	row->wait = x->worst[guest->number].to_ns ? &x->worst[guest->number] : NULL;
	row->by = braid_steal_of(x->steal, guest->number);
}

static u64 ppm(u64 part, u64 whole)
{
	return whole ? part * 1e6 / whole : 0;
}

/* Without its task: who, not what it was just doing. */
static void name_culprit(const struct summary *x, const struct row *row,
			 char name[BRAID_NAME_TEXT])
{
	snprintf(name, BRAID_NAME_TEXT, "-");
	if (!row->by->culprit)
		return;
	if (row->by->culprit->kind == BRAID_CULPRIT_VCPU)
		braid_vcpu_name(x->s, row->by->culprit->vcpu, name);
	else
		braid_culprit_name(x->s, row->by->culprit, name);
}

static const struct braid_column columns[] = {
	{ "GUEST", "guest", BRAID_CELL_TEXT }, { "VCPUS", "vcpus", BRAID_CELL_COUNT },
	{ "BUSY", "busy_ppm", BRAID_CELL_SHARE }, { "STOLEN", "stolen_ppm", BRAID_CELL_SHARE },
	{ "THROTTLED", "throttled_ppm", BRAID_CELL_SHARE },
	{ "ASLEEP", "asleep_ppm", BRAID_CELL_SHARE },
	{ "OFFLINE", "offline_ppm", BRAID_CELL_SHARE }, { "UNKNOWN", "unknown_ppm", BRAID_CELL_SHARE },
	{ "EXITS", "exits", BRAID_CELL_COUNT }, { "LOST", "lost_events", BRAID_CELL_COUNT },
	{ "BOUND", "bound_ns", BRAID_CELL_BOUND },
	{ "WORST STALL", "worst_stall_ns", BRAID_CELL_DURATION },
	{ "AT", "worst_stall_at_ns", BRAID_CELL_TIME },
	{ "WORST WAKE-UP", "worst_wakeup_ns", BRAID_CELL_DURATION },
	{ "AT", "worst_wakeup_at_ns", BRAID_CELL_TIME },
	{ "TOP CULPRIT", "top_culprit", BRAID_CELL_TEXT },
};

static void summary_put_row(const struct summary *x, const struct row *row, struct braid_table *t)
{
	const struct braid_seen seen = braid_states_seen_of(x->s, row->guest);
	bool known = (seen.switches || seen.kvm) && row->nr_vcpus;
	bool driver = row->guest->kind == BRAID_STREAM_GUEST;
	char name[BRAID_NAME_TEXT], guest[BRAID_STREAM_LABEL];

	name_culprit(x, row, name);
	braid_table_text(t, braid_stream_label(row->guest, guest));
	braid_table_number(t, row->nr_vcpus ? (s64)row->nr_vcpus : BRAID_CELL_NONE);
	braid_table_number(t, known ? (s64)ppm(row->busy_ns, row->whole_ns) : BRAID_CELL_NONE);
	braid_table_number(t, known ? (s64)ppm(row->stolen_ns, row->whole_ns) : BRAID_CELL_NONE);
	braid_table_number(t, known && braid_states_knows_throttled(x->s, row->guest) ?
			   (s64)ppm(row->throttled_ns, row->whole_ns) : BRAID_CELL_NONE);
	braid_table_number(t, known ? (s64)ppm(row->asleep_ns, row->whole_ns) : BRAID_CELL_NONE);
	braid_table_number(t, driver ? (s64)ppm(row->offline_ns, row->whole_ns) : BRAID_CELL_NONE);
	braid_table_number(t, row->nr_vcpus ? (s64)ppm(row->unknown_ns, row->whole_ns) :
			   BRAID_CELL_NONE);
	braid_table_number(t, seen.kvm && row->nr_vcpus ? (s64)row->exits : BRAID_CELL_NONE);
	braid_table_number(t, driver ? (s64)row->lost : BRAID_CELL_NONE);
	braid_table_number(t, row->guest->bound_ns == BRAID_BOUND_UNKNOWN ? BRAID_CELL_NONE :
			   (s64)row->guest->bound_ns);
	braid_table_number(t, row->stall ? (s64)braid_stall_ns(row->stall) : BRAID_CELL_NONE);
	braid_table_number(t, row->stall ? row->stall->from_ns : BRAID_CELL_NONE);
	braid_table_number(t, row->wait ? row->wait->to_ns - row->wait->from_ns : BRAID_CELL_NONE);
	braid_table_number(t, row->wait ? row->wait->from_ns : BRAID_CELL_NONE);
	braid_table_text(t, name);
}

/* Whose quota held it back. */
static void put_throttled(const struct summary *x, const struct row *row, const char *label,
			  const char *guest, struct braid_text *out)
{
	struct braid_shares shares;
	char took[24];

	if (ppm(row->throttled_ns, row->whole_ns) < WORTH_PPM)
		return;
	braid_duration_text(row->throttled_ns, took);
	braid_tally_shares(&x->quotas, row->guest->number, &shares);
	braid_text_printf(out, "%s's vCPUs were throttled for %s (all vCPUs together), by the CPU quota of ",
			  label, took);
	braid_shares_write(x->s, &shares, BRAID_TABLE_TEXT, out);
	braid_text_printf(out, ". tracebraid analyze states --stream %s FILE\n", guest);
}

/* Which analysis to run next, and why. */
static void put_next(const struct summary *x, const struct row *row, struct braid_text *out)
{
	char guest[BRAID_STREAM_LABEL + 2];
	char took[24], name[BRAID_NAME_TEXT], cause[2 * BRAID_NAME_TEXT];
	char label[BRAID_STREAM_LABEL];

	braid_stream_label(row->guest, label);
	snprintf(guest, sizeof(guest), strcmp(label, row->guest->name) ? "'%s'" : "%s", label);
	if (ppm(row->stolen_ns, row->whole_ns) >= WORTH_PPM) {
		braid_duration_text(row->stolen_ns, took);
		name_culprit(x, row, name);
		braid_text_printf(out, "%s's vCPUs were runnable, not running, for %s (all vCPUs together): ",
				  label, took);
		if (row->by->own_ns > row->stolen_ns / 2)
			braid_text_printf(out, "for %.0f %% of that time its own other vCPUs ran",
					  100.0 * row->by->own_ns / row->stolen_ns);
		else if (!row->by->culprit)
			braid_text_puts(out, "the trace does not show what ran instead");
		else if (row->by->culprit->kind == BRAID_CULPRIT_NOTHING)
			braid_text_printf(out, "for %.0f %% of that time their CPUs were idle, so %sthe switch to them was late",
					  100.0 * row->by->culprit_ns / row->stolen_ns,
					  braid_states_knows_throttled(x->s, row->guest) ? "" :
					  "a CPU quota held them back, or ");
		else
			braid_text_printf(out, "%.0f %% of that time because of %s",
					  100.0 * row->by->culprit_ns / row->stolen_ns, name);
		if (row->by->culprit && row->by->unknown_ns > row->by->culprit_ns)
			braid_text_printf(out, "; for %.0f %% the trace does not show what ran instead",
					  100.0 * row->by->unknown_ns / row->stolen_ns);
		braid_text_printf(out, ". tracebraid analyze steal --stream %s FILE\n", guest);
	}
	put_throttled(x, row, label, guest, out);
	if (row->stall && braid_stall_ns(row->stall) >= WORTH_NS) {
		braid_duration_text(braid_stall_ns(row->stall), took);
		braid_vcpu_name(x->s, row->stall->vcpu, name);
		braid_stall_cause(x->s, row->stall, cause);
		braid_text_printf(out, "%s had work and recorded no event for %s%s%s. tracebraid analyze stalls --stream %s FILE\n",
				  name, took, *cause ? ": " : "", cause, guest);
	}
	if (row->wait && row->wait->to_ns - row->wait->from_ns >= (s64)WORTH_NS) {
		braid_duration_text(row->wait->to_ns - row->wait->from_ns, took);
		braid_task_name(x->s, row->guest->number, row->wait->pid, name);
		braid_text_printf(out, "%s: %s ran %s after its wakeup. tracebraid analyze wake --stream %s FILE\n",
				  label, name, took, guest);
	}
}

/* A VM whose vCPUs' threads are not known: that it is there is all that the trace shows. */
static bool is_bare(const struct summary *x, const struct braid_stream *guest)
{
	return guest->kind == BRAID_STREAM_VM && !guest->nr_cpus && !x->o.one_cpu &&
	       !x->o.one_task && (!x->o.stream || braid_stream_is(guest, x->o.stream));
}

/* What hosts lost to their own hosts, or BRAID_CELL_NONE. */
static s64 host_steal_ns(const struct summary *x)
{
	s64 ns = BRAID_CELL_NONE;
	size_t k;

	for (k = 0; k < x->s->source->nr_streams; k++) {
		const struct braid_stream *of = x->s->source->streams[k];

		if (of->steal_last.host_ns > of->steal_first.host_ns &&
		    of->steal_last.steal_ns >= of->steal_first.steal_ns)
			ns = (ns == BRAID_CELL_NONE ? 0 : ns) +
			     (s64)(of->steal_last.steal_ns - of->steal_first.steal_ns);
	}
	return ns;
}

static void write_host_steal(const struct summary *x, struct braid_text *out)
{
	s64 ns = host_steal_ns(x);
	char took[24];

	if (x->o.form == BRAID_TABLE_JSON) {
		braid_text_puts(out, ",\"host_steal_ns\":");
		if (ns == BRAID_CELL_NONE)
			braid_text_puts(out, "null");
		else
			braid_text_printf(out, "%lld", (long long)ns);
	} else if (x->o.form == BRAID_TABLE_TEXT && ns > 0) {
		braid_duration_text(ns, took);
		braid_text_printf(out, "# the host is a virtual machine: by its /proc/stat, its own host took %s from its CPUs, which appears as running\n",
				  took);
	}
}

static void summary_write(void *state, struct braid_text *out)
{
	struct summary *x = state;
	struct braid_table table = {
		.key = "guests", BRAID_COLUMNS(columns), .empty = "The capture has no guest.",
	};
	struct braid_text next = { 0 };
	struct row row;
	size_t k;

	for (k = 0; k < x->s->source->nr_streams; k++) {
		fill_row(x, x->s->source->streams[k], &row);
		if (!row.nr_vcpus && !is_bare(x, row.guest))
			continue;
		summary_put_row(x, &row, &table);
		put_next(x, &row, &next);
	}
	braid_certainty_write(x->s, &x->o, out);
	write_host_steal(x, out);
	braid_steal_recorder_write(x->steal, out);
	if (x->o.form == BRAID_TABLE_JSON)
		braid_text_putc(out, ',');
	braid_table_write(&table, x->o.form, out);
	if (x->o.form == BRAID_TABLE_TEXT && next.bytes) {
		braid_text_puts(out, "\nNext:\n");
		braid_text_put(out, next.data, next.bytes);
	}
	out->failed |= next.failed;
	braid_text_free(&next);
	braid_table_free(&table);
}

/* Life --------------------------------------------------------------------------------------- */

static int summary_begin(void *state, struct braid_states *s,
			 const struct braid_analysis_options *options)
{
	struct summary *x = state;
	int err;

	x->s = s;
	x->o = *options;
	x->steal = calloc(1, braid_analysis_steal.state_bytes);
	x->stalls = calloc(1, braid_analysis_stalls.state_bytes);
	x->worst = calloc(s->source->nr_streams + 1, sizeof(*x->worst));
	if (!x->steal || !x->stalls || !x->worst)
		return braid_out_of_memory();
	err = braid_tally_begin(&x->quotas, s->source->nr_streams);
	if (!err)
		err = braid_analysis_steal.begin(x->steal, s, options);
	return err ? err : braid_analysis_stalls.begin(x->stalls, s, options);
}

static int summary_end(void *state)
{
	struct summary *x = state;
	int err = braid_analysis_steal.end(x->steal);

	return err ? err : braid_analysis_stalls.end(x->stalls);
}

static void summary_free_state(void *state)
{
	struct summary *x = state;

	if (x->steal)
		braid_analysis_steal.free(x->steal);
	if (x->stalls)
		braid_analysis_stalls.free(x->stalls);
	free(x->steal);
	free(x->stalls);
	free(x->worst);
	braid_tally_free(&x->quotas);
}

void *braid_summary_stalls(const void *state)
{
	return ((const struct summary *)state)->stalls;
}

const struct braid_analysis braid_analysis_summary = {
	.name = "summary",
	.help = "one line for each guest, and which analysis to run next",
	.compares = 1u << BRAID_MEASURE_STATE | 1u << BRAID_MEASURE_EXITS | 1u << BRAID_MEASURE_WAIT,
	.state_bytes = sizeof(struct summary),
	.begin = summary_begin,
	.states = { .span = summary_take_span, .queued = summary_take_queued, .cut = take_cut },
	.event = summary_take_event,
	.end = summary_end,
	.write = summary_write,
	.free = summary_free_state,
};
