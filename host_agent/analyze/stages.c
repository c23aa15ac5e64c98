// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Takes the moments of interrupts on their way to tasks, adds up the times between them, and writes
 * these stages, and what halt polling costs and saves.
 */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/stages.h"
#include "host_agent/util/error.h"

#define FIRST_SYSTEM	0xecu	/* vectors from here on are no devices', on Linux */
#define NONE		INT64_MIN
#define NR_DECADES	7u	/* below 1 µs, below 10 µs, ..., from 100 ms on */
#define NR_VECTORS	256u

struct braid_stage {
	struct braid_histogram histogram;
	u64 decades[NR_DECADES];
	u64 bound_ns;		/* the worst, of the guest's events against the host's */
};

/* Moments that wait for the next one; INT64_MIN: none. */
struct braid_stage_vcpu {
	s64 raised_ns[NR_VECTORS];	/* not injected yet */
	bool if_alone[NR_VECTORS];	/* of each raise: as in struct braid_mark */
	s64 first_raise_ns;	/* while the vCPU sleeps */
	bool first_if_alone;
	s64 woken_ns, on_cpu_ns, injected_ns, entered_ns;
	u32 vector;		/* the last one injected */
	bool handled;		/* a handler began: */
	u32 handler;		/* its vector, or BRAID_MARK_DEVICE */
	s64 handler_ns;
	u64 handler_bound_ns;
	bool in_handler;
	u64 polls, polled_ns;	/* halts that ended while KVM polled, and its time on the CPU */
	u64 slept;		/* the others */
	u64 on_cpu_sum_ns;	/* in the hypervisor, since the exit; without the open span */
	u64 in_vain_ns;		/* the same before all sleeps */
};

static bool stages_wants(const struct braid_stages *x, u32 vcpu)
{
	return braid_analysis_wants(x->s, &x->o, vcpu, x->o.task);
}

/*
 * One more from @from_ns to @to_ns, as far as that is observed; the time between two clocks may be
 * too small by their bound.
 */
static void stages_add(struct braid_stages *x, u32 vcpu, enum braid_stage_kind kind, s64 from_ns,
		       s64 to_ns, u64 bound_ns)
{
	const struct braid_vcpu *v = &x->s->vcpus[vcpu];
	struct braid_stage *stage = &x->all[v->guest->number * BRAID_NR_STAGES + kind];
	u64 ns, limit = 1000;
	u32 k;

	if (to_ns < v->begin_ns || from_ns > v->end_ns || !stages_wants(x, vcpu))
		return;
	from_ns = from_ns > v->begin_ns ? from_ns : v->begin_ns;
	to_ns = to_ns < v->end_ns ? to_ns : v->end_ns;
	ns = to_ns > from_ns ? to_ns - from_ns : 0;
	for (k = 0; k < NR_DECADES - 1 && ns >= limit; k++)
		limit *= 10;
	stage->decades[k]++;
	stage->bound_ns = bound_ns > stage->bound_ns ? bound_ns : stage->bound_ns;
	braid_histogram_add(&stage->histogram, ns, from_ns);
}

/* From a moment that is used up by this, if there is one. */
static void stages_finish(struct braid_stages *x, const struct braid_mark *mark,
			  enum braid_stage_kind kind, s64 *from_ns)
{
	if (*from_ns != NONE)
		stages_add(x, mark->vcpu, kind, *from_ns, mark->ns, mark->bound_ns);
	*from_ns = NONE;
}

static void forget_host(struct braid_stage_vcpu *v)
{
	u32 k;

	for (k = 0; k < NR_VECTORS; k++)
		v->raised_ns[k] = NONE;
	v->first_raise_ns = v->woken_ns = v->on_cpu_ns = v->injected_ns = v->entered_ns = NONE;
	v->on_cpu_sum_ns = 0;
}

static void take_raise(const struct braid_stages *x, struct braid_stage_vcpu *v,
		       const struct braid_mark *mark)
{
	/* A second one of a vector that is pending is not another interrupt. */
	if (v->raised_ns[mark->value] == NONE) {
		v->raised_ns[mark->value] = mark->ns;
		v->if_alone[mark->value] = mark->if_alone;
	}
	if (v->first_raise_ns == NONE && x->s->vcpus[mark->vcpu].thread == BRAID_THREAD_SLEEPS) {
		v->first_raise_ns = mark->ns;
		v->first_if_alone = mark->if_alone;
	}
}

static void take_inject(struct braid_stages *x, struct braid_stage_vcpu *v,
			const struct braid_mark *mark)
{
	stages_finish(x, mark, BRAID_STAGE_ON_CPU_INJECTED, &v->on_cpu_ns);
	stages_finish(x, mark, v->if_alone[mark->value] ? BRAID_STAGE_RAISED_INJECTED_IF_ALONE :
		      BRAID_STAGE_RAISED_INJECTED, &v->raised_ns[mark->value]);
	v->injected_ns = mark->ns;
	v->vector = mark->value;
}

static bool stages_is_of(u32 handler, u32 vector)
{
	return handler == BRAID_MARK_DEVICE ? vector < FIRST_SYSTEM : handler == vector;
}

/* The handler is the next one of this vector; if the last one may be after this, it is unsure. */
static void take_entry(struct braid_stages *x, struct braid_stage_vcpu *v,
		       const struct braid_mark *mark)
{
	bool injected = v->injected_ns != NONE;

	v->on_cpu_ns = NONE;
	v->first_raise_ns = NONE;
	if (!injected)
		return;
	stages_finish(x, mark, BRAID_STAGE_INJECTED_ENTERED, &v->injected_ns);
	v->entered_ns = v->handled && stages_is_of(v->handler, v->vector) &&
			(u64)(mark->ns - v->handler_ns) < v->handler_bound_ns ? NONE : mark->ns;
}

static void take_handler(struct braid_stages *x, struct braid_stage_vcpu *v,
			 const struct braid_mark *mark)
{
	v->handled = v->in_handler = true;
	v->handler = mark->value;
	v->handler_ns = mark->ns;
	v->handler_bound_ns = mark->bound_ns;
	if (stages_is_of(v->handler, v->vector))
		stages_finish(x, mark, BRAID_STAGE_ENTERED_HANDLER, &v->entered_ns);
}

static void take_halted(const struct braid_stages *x, struct braid_stage_vcpu *v,
			const struct braid_mark *mark)
{
	const struct braid_vcpu *of = &x->s->vcpus[mark->vcpu];

	if (mark->ns < of->begin_ns || mark->ns > of->end_ns)
		return;
	if (mark->value) {
		v->slept++;
		return;
	}
	v->polls++;
	v->polled_ns += v->on_cpu_sum_ns;
	if (of->now.state == BRAID_VCPU_KVM)
		v->polled_ns += mark->ns - (of->now.from_ns > of->begin_ns ? of->now.from_ns : of->begin_ns);
}

void braid_stages_mark(struct braid_stages *x, const struct braid_mark *mark)
{
	struct braid_stage_vcpu *v = &x->vcpus[mark->vcpu];

	switch (mark->kind) {
	case BRAID_MARK_RAISED:
		take_raise(x, v, mark);
		break;
	case BRAID_MARK_WOKEN:
		stages_finish(x, mark, v->first_if_alone ? BRAID_STAGE_RAISED_WOKEN_IF_ALONE :
			      BRAID_STAGE_RAISED_WOKEN, &v->first_raise_ns);
		v->woken_ns = mark->ns;
		break;
	case BRAID_MARK_ON_CPU:
		v->on_cpu_ns = v->woken_ns == NONE ? NONE : mark->ns;
		stages_finish(x, mark, BRAID_STAGE_WOKEN_ON_CPU, &v->woken_ns);
		break;
	case BRAID_MARK_INJECTED:
		take_inject(x, v, mark);
		break;
	case BRAID_MARK_ENTERED:
		take_entry(x, v, mark);
		break;
	case BRAID_MARK_HALTED:
		take_halted(x, v, mark);
		break;
	case BRAID_MARK_HANDLER:
		take_handler(x, v, mark);
		break;
	case BRAID_MARK_HANDLER_END:
		v->in_handler = false;
		break;
	case BRAID_MARK_WAKES:
		if (v->in_handler)
			stages_add(x, mark->vcpu, BRAID_STAGE_HANDLER_WAKES, v->handler_ns,
				   mark->ns, 0);
		break;
	case BRAID_MARK_LOST:
		forget_host(v);
		break;
	case BRAID_MARK_LOST_GUEST:
		v->handled = v->in_handler = false;
		v->entered_ns = NONE;
		break;
	}
}

/* What it does on its CPU from the exit on, before it sleeps: it handles the exit, and polls. */
void braid_stages_span(struct braid_stages *x, const struct braid_state_span *span)
{
	struct braid_stage_vcpu *v = &x->vcpus[span->vcpu];

	if (span->state == BRAID_VCPU_KVM) {
		v->on_cpu_sum_ns += span->to_ns - span->from_ns;
	} else if (span->state == BRAID_VCPU_HALTED) {
		v->in_vain_ns += v->on_cpu_sum_ns;
		v->on_cpu_sum_ns = 0;
	} else if (span->state != BRAID_VCPU_STOLEN && span->state != BRAID_VCPU_THROTTLED) {
		v->on_cpu_sum_ns = 0;
	}
}

void braid_stages_queued(struct braid_stages *x, const struct braid_queue_wait *wait)
{
	if (wait->woken)
		stages_add(x, wait->vcpu, BRAID_STAGE_WAKES_RUNS, wait->from_ns, wait->to_ns, 0);
}

static void merge(struct braid_stage *to, const struct braid_stage *from)
{
	u32 k;

	braid_histogram_merge(&to->histogram, &from->histogram);
	for (k = 0; k < NR_DECADES; k++)
		to->decades[k] += from->decades[k];
}

void braid_stages_end(struct braid_stages *x)
{
	struct braid_stage *of;
	size_t k;

	for (k = 0; k < x->s->source->nr_streams; k++) {
		if (braid_states_seen_of(x->s, x->s->source->streams[k]).other_vms)
			continue;
		of = &x->all[k * BRAID_NR_STAGES];
		merge(&of[BRAID_STAGE_RAISED_WOKEN], &of[BRAID_STAGE_RAISED_WOKEN_IF_ALONE]);
		merge(&of[BRAID_STAGE_RAISED_INJECTED], &of[BRAID_STAGE_RAISED_INJECTED_IF_ALONE]);
	}
}

/* Output ------------------------------------------------------------------------------------- */

static const char *const names[BRAID_SHOWN_STAGES] = {
	"raised to vCPU woken", "vCPU woken to on CPU", "on CPU to injected", "raised to injected",
	"injected to entry", "entry to handler", "handler to task woken", "task woken to on CPU",
};

static const struct braid_column columns[] = {
	{ "GUEST", "guest", BRAID_CELL_TEXT }, { "STAGE", "stage", BRAID_CELL_TEXT },
	{ "COUNT", "count", BRAID_CELL_COUNT }, { "P50", "p50_ns", BRAID_CELL_DURATION },
	{ "P99", "p99_ns", BRAID_CELL_DURATION }, { "WORST", "worst_ns", BRAID_CELL_DURATION },
	{ "AT", "worst_at_ns", BRAID_CELL_TIME }, { "BOUND", "bound_ns", BRAID_CELL_DURATION },
	{ "<1µs", "below_1us", BRAID_CELL_COUNT }, { "<10µs", "below_10us", BRAID_CELL_COUNT },
	{ "<100µs", "below_100us", BRAID_CELL_COUNT }, { "<1ms", "below_1ms", BRAID_CELL_COUNT },
	{ "<10ms", "below_10ms", BRAID_CELL_COUNT }, { "<100ms", "below_100ms", BRAID_CELL_COUNT },
	{ "longer", "longer", BRAID_CELL_COUNT },
};

static const struct braid_column poll_columns[] = {
	{ "VCPU", "vcpu", BRAID_CELL_TEXT }, { "HALTS", "halts", BRAID_CELL_COUNT },
	{ "POLLED", "polled", BRAID_CELL_COUNT }, { "FOR", "polled_ns", BRAID_CELL_DURATION },
	{ "SLEPT", "slept", BRAID_CELL_COUNT },
	{ "BEFORE SLEEP", "before_sleep_ns", BRAID_CELL_DURATION },
	{ "WAKE-UP", "wakeup_p50_ns", BRAID_CELL_DURATION },
	{ "SAVED", "saved_ns", BRAID_CELL_DURATION },
};

/* Whether the events at both ends of a stage were recorded. */
static bool is_known(const struct braid_seen *s, const struct braid_guest_state *guest, u32 kind)
{
	switch (kind) {
	case BRAID_STAGE_RAISED_WOKEN:
		return s->raises && s->wakeups && s->switches;
	case BRAID_STAGE_WOKEN_ON_CPU:
		return s->wakeups && s->switches;
	case BRAID_STAGE_ON_CPU_INJECTED:
		return s->wakeups && s->switches && s->injections;
	case BRAID_STAGE_RAISED_INJECTED:
		return s->raises && s->injections;
	case BRAID_STAGE_INJECTED_ENTERED:
		return s->injections && s->kvm;
	case BRAID_STAGE_ENTERED_HANDLER:
		return s->injections && s->kvm && guest->any_handler;
	case BRAID_STAGE_HANDLER_WAKES:
		return guest->any_handler && guest->any_wakeup;
	default:
		return guest->any_wakeup && guest->any_switch;
	}
}

static bool is_shown(const struct braid_stages *x, u32 stream)
{
	const struct braid_guest_state *guest = &x->s->guests[stream];
	u32 k;

	for (k = 0; k < guest->nr_vcpus; k++)
		if (stages_wants(x, guest->first_vcpu + k))
			return true;
	return false;
}

static void put_stage(const struct braid_stages *x, u32 stream, u32 kind, struct braid_table *t)
{
	const struct braid_stage *stage = &x->all[stream * BRAID_NR_STAGES + kind];
	const struct braid_stream *of = x->s->source->streams[stream];
	const struct braid_seen seen = braid_states_seen_of(x->s, of);
	bool known = is_known(&seen, &x->s->guests[stream], kind);
	bool any = stage->histogram.nr;
	char guest[BRAID_STREAM_LABEL];
	u32 k;

	braid_table_text(t, braid_stream_label(of, guest));
	braid_table_text(t, names[kind]);
	braid_table_number(t, known ? (s64)stage->histogram.nr : BRAID_CELL_NONE);
	braid_table_number(t, any ? (s64)braid_histogram_percentile(&stage->histogram, 50) :
				    BRAID_CELL_NONE);
	braid_table_number(t, any ? (s64)braid_histogram_percentile(&stage->histogram, 99) :
				    BRAID_CELL_NONE);
	braid_table_number(t, any ? (s64)stage->histogram.longest_ns : BRAID_CELL_NONE);
	braid_table_number(t, any ? stage->histogram.longest_at_ns : BRAID_CELL_NONE);
	braid_table_number(t, any ? (s64)stage->bound_ns : BRAID_CELL_NONE);
	for (k = 0; k < NR_DECADES; k++)
		braid_table_number(t, known ? (s64)stage->decades[k] : BRAID_CELL_NONE);
}

static void put_polls(const struct braid_stages *x, u32 number, struct braid_table *t)
{
	const struct braid_stage_vcpu *v = &x->vcpus[number];
	const struct braid_stage *wakeups =
		&x->all[x->s->vcpus[number].guest->number * BRAID_NR_STAGES + BRAID_STAGE_WOKEN_ON_CPU];
	u64 p50 = braid_histogram_percentile(&wakeups->histogram, 50);
	bool any = wakeups->histogram.nr;
	char name[BRAID_NAME_TEXT];

	braid_table_text(t, braid_vcpu_name(x->s, number, name));
	braid_table_number(t, v->polls + v->slept);
	braid_table_number(t, v->polls);
	braid_table_number(t, v->polled_ns);
	braid_table_number(t, v->slept);
	braid_table_number(t, v->in_vain_ns);
	braid_table_number(t, any ? (s64)p50 : BRAID_CELL_NONE);
	braid_table_number(t, any ? (s64)(v->polls * p50) : BRAID_CELL_NONE);
}

/* What to record for the stages that are not known. */
static void write_missing(const struct braid_stages *x, struct braid_text *out)
{
	const struct braid_states *s = x->s;
	const struct braid_seen seen = braid_states_seen(s);
	char guest[BRAID_STREAM_LABEL];
	u32 k;

	if (!seen.raises || !seen.injections)
		braid_text_printf(out, "# the host has no %s events: stages that begin or end there are unknown; for a guest on KVM (x86, without APICv or AVIC), record them with --host\n",
				  !seen.raises && !seen.injections ? "kvm_apic_accept_irq and kvm_inj_virq" :
				  seen.raises ? "kvm_inj_virq" : "kvm_apic_accept_irq");
	if (!seen.halts)
		braid_text_puts(out, "# the host has no kvm_vcpu_wakeup events: halt polling is unknown; for a guest on KVM, record them with --host\n");
	for (k = 0; k < s->source->nr_streams; k++) {
		if (!is_shown(x, k) || s->guests[k].any_handler)
			continue;
		braid_stream_label(s->source->streams[k], guest);
		braid_text_printf(out, "# %s %s\n", guest, braid_has_events(s->source->streams[k]) ?
				  "has no events of interrupts: record with -e irq -e irq_vectors" :
				  "recorded no event, so its interrupts are unknown");
	}
}

void braid_stages_write(const struct braid_stages *x, struct braid_text *out)
{
	struct braid_table table = {
		.key = "stages", BRAID_COLUMNS(columns),
		.title = "Stages from interrupt to task, with a histogram of their durations:",
	}, polls = {
		.key = "halt_polling", BRAID_COLUMNS(poll_columns), .title = "Halt polling:",
	};
	u32 k, kind;

	for (k = 0; k < x->s->source->nr_streams; k++)
		for (kind = 0; kind < BRAID_SHOWN_STAGES && is_shown(x, k); kind++)
			put_stage(x, k, kind, &table);
	for (k = 0; k < x->s->nr_vcpus; k++)
		if (x->s->vcpus[k].host->seen.halts && stages_wants(x, k))
			put_polls(x, k, &polls);
	if (x->o.form == BRAID_TABLE_TEXT)
		write_missing(x, out);
	if (table.nr_cells || x->o.form == BRAID_TABLE_JSON)
		braid_table_write(&table, x->o.form, out);
	braid_table_write_next(&polls, x->o.form, out);
	braid_table_free(&table);
	braid_table_free(&polls);
}

/* Life --------------------------------------------------------------------------------------- */

int braid_stages_begin(struct braid_stages *x, const struct braid_states *s,
		       const struct braid_analysis_options *options)
{
	u32 k;

	x->s = s;
	x->o = *options;
	x->all = calloc((s->source->nr_streams + 1) * BRAID_NR_STAGES, sizeof(*x->all));
	x->vcpus = calloc((size_t)s->nr_vcpus + 1, sizeof(*x->vcpus));
	if (!x->all || !x->vcpus)
		return braid_out_of_memory();
	for (k = 0; k < s->nr_vcpus; k++)
		forget_host(&x->vcpus[k]);
	return 0;
}

void braid_stages_free(struct braid_stages *x)
{
	free(x->all);
	free(x->vcpus);
}
