// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes the stages of wake-ups, and what halt polling costs and saves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/stages_private.h"

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
static bool is_known(const struct braid_states *s, const struct braid_guest_state *guest, u32 kind)
{
	switch (kind) {
	case BRAID_STAGE_RAISED_WOKEN:
		return s->any_raise && s->any_wakeup && s->any_switch;
	case BRAID_STAGE_WOKEN_ON_CPU:
		return s->any_wakeup && s->any_switch;
	case BRAID_STAGE_ON_CPU_INJECTED:
		return s->any_wakeup && s->any_switch && s->any_inject;
	case BRAID_STAGE_RAISED_INJECTED:
		return s->any_raise && s->any_inject;
	case BRAID_STAGE_INJECTED_ENTERED:
		return s->any_inject && s->any_kvm;
	case BRAID_STAGE_ENTERED_HANDLER:
		return s->any_inject && s->any_kvm && guest->any_handler;
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
		if (braid_analysis_wants(x->s, &x->o, guest->first_vcpu + k, x->o.task))
			return true;
	return false;
}

static void put_stage(const struct braid_stages *x, u32 stream, u32 kind, struct braid_table *t)
{
	const struct braid_stage *stage = &x->all[stream * BRAID_NR_STAGES + kind];
	bool known = is_known(x->s, &x->s->guests[stream], kind), any = stage->histogram.nr;
	char guest[BRAID_STREAM_LABEL];
	u32 k;

	braid_stream_label(x->s->source->streams[stream], guest);
	braid_table_text(t, guest);
	braid_table_text(t, names[kind]);
	braid_table_number(t, known ? (s64)stage->histogram.nr : BRAID_CELL_NONE);
	braid_table_number(t, any ? (s64)braid_histogram_percentile(&stage->histogram, 50) :
				    BRAID_CELL_NONE);
	braid_table_number(t, any ? (s64)braid_histogram_percentile(&stage->histogram, 99) :
				    BRAID_CELL_NONE);
	braid_table_number(t, any ? (s64)stage->worst_ns : BRAID_CELL_NONE);
	braid_table_number(t, any ? stage->worst_at_ns : BRAID_CELL_NONE);
	braid_table_number(t, any ? (s64)stage->bound_ns : BRAID_CELL_NONE);
	for (k = 0; k < BRAID_NR_DECADES; k++)
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

	braid_vcpu_name(x->s, number, name);
	braid_table_text(t, name);
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
	char guest[BRAID_STREAM_LABEL];
	u32 k;

	if (!s->any_raise || !s->any_inject)
		braid_text_printf(out, "# the host has no %s events: stages that begin or end there are unknown; for a guest on KVM (x86, without APICv or AVIC), record them with --host\n",
				  !s->any_raise && !s->any_inject ? "kvm_apic_accept_irq and kvm_inj_virq" :
				  s->any_raise ? "kvm_inj_virq" : "kvm_apic_accept_irq");
	if (!s->any_halted)
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
		.key = "stages", .columns = columns,
		.nr_columns = sizeof(columns) / sizeof(columns[0]),
		.title = "Stages from interrupt to task, with a histogram of their durations:",
	}, polls = {
		.key = "halt_polling", .columns = poll_columns,
		.nr_columns = sizeof(poll_columns) / sizeof(poll_columns[0]),
		.title = "\nHalt polling:",
	};
	u32 k, kind;

	for (k = 0; k < x->s->source->nr_streams; k++)
		for (kind = 0; kind < BRAID_SHOWN_STAGES && is_shown(x, k); kind++)
			put_stage(x, k, kind, &table);
	for (k = 0; k < x->s->nr_vcpus && x->s->any_halted; k++)
		if (braid_analysis_wants(x->s, &x->o, k, x->o.task))
			put_polls(x, k, &polls);
	if (x->o.form == BRAID_TABLE_TEXT)
		write_missing(x, out);
	if (table.nr_cells || x->o.form == BRAID_TABLE_JSON)
		braid_table_write(&table, x->o.form, out);
	if (x->o.form == BRAID_TABLE_JSON)
		braid_text_putc(out, ',');
	if (polls.nr_cells || x->o.form == BRAID_TABLE_JSON)
		braid_table_write(&polls, x->o.form, out);
	braid_table_free(&table);
	braid_table_free(&polls);
}
