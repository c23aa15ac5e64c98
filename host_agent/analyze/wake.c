// SPDX-License-Identifier: GPL-2.0-or-later
/* How long woken tasks of guests waited for a vCPU, and what the vCPU did meanwhile. */
#include <string.h>

#include "host_agent/analyze/compare.h"
#include "host_agent/analyze/recent_runs.h"
#include "host_agent/analyze/stages.h"
#include "host_agent/util/array.h"

/* What a task waited for. */
enum cause { OTHERS, HYPERVISOR, VMM, STOLEN, THROTTLED, ASLEEP, UNKNOWN, NR_CAUSES };

/* A wait, for the list of the longest. */
struct wait {
	u32 vcpu;
	s32 pid;
	s64 from_ns, to_ns;
	u64 ns[NR_CAUSES];
	struct braid_shares ran_instead;	/* tasks, while this one was in the run queue */
};

struct wake {
	struct braid_states *s;
	struct braid_analysis_options o;
	struct braid_sums sums;		/* by vCPU, and by task with --by task; ns: by enum cause */
	struct braid_longest longest;	/* struct wait */
	struct braid_recent_runs runs;
	struct braid_stages stages;
};

static int wake_by_length(const void *a, const void *b)
{
	const struct wait *x = a, *y = b;

	return braid_compare(x->to_ns - x->from_ns, y->to_ns - y->from_ns) ?:
	       braid_compare(y->from_ns, x->from_ns) ?: braid_compare(y->vcpu, x->vcpu);
}

static void find_causes(const struct braid_queue_wait *wait, u64 ns[NR_CAUSES])
{
	static const enum cause causes[BRAID_NR_VCPU_STATES] = {
		[BRAID_VCPU_UNKNOWN] = UNKNOWN, [BRAID_VCPU_GUEST] = OTHERS,
		[BRAID_VCPU_KVM] = HYPERVISOR, [BRAID_VCPU_VMM] = VMM, [BRAID_VCPU_RUNS] = OTHERS,
		[BRAID_VCPU_STOLEN] = STOLEN, [BRAID_VCPU_THROTTLED] = THROTTLED,
		[BRAID_VCPU_HALTED] = ASLEEP,
		[BRAID_VCPU_BLOCKED] = ASLEEP, [BRAID_VCPU_SLEEPS] = ASLEEP,
		[BRAID_VCPU_STOPPED] = ASLEEP, [BRAID_VCPU_OFFLINE] = ASLEEP,
	};
	u32 k;

	memset(ns, 0, NR_CAUSES * sizeof(*ns));
	for (k = 0; k < BRAID_NR_VCPU_STATES; k++)
		ns[causes[k]] += wait->ns[k];
}

static int wake_take_queued(void *arg, const struct braid_queue_wait *wait)
{
	struct wake *x = arg;
	struct wait w = {
		.vcpu = wait->vcpu, .pid = wait->pid, .from_ns = wait->from_ns,
		.to_ns = wait->to_ns,
	};
	struct braid_sum_key key = {
		.vcpu = wait->vcpu, .task = x->o.by_task ? wait->pid : BRAID_PID_UNKNOWN,
	};
	struct braid_sum *sum;
	int err;
	u32 k;

	if (!wait->woken || !braid_analysis_wants(x->s, &x->o, wait->vcpu, wait->pid))
		return 0;
	err = braid_sums_add(&x->sums, &key, w.to_ns - w.from_ns, w.from_ns, &sum);
	if (err)
		return err;
	find_causes(wait, w.ns);
	for (k = 0; k < NR_CAUSES; k++)
		sum->ns[k] += w.ns[k];
	/* Most waits are short: which tasks ran is not needed. */
	if (wait->known && (x->longest.nr < x->longest.max ||
			    (x->longest.nr && wake_by_length(x->longest.items, &w) < 0)))
		err = braid_states_settle(x->s, wait->vcpu, wait->to_ns) ?:
		      braid_recent_runs_find(&x->runs, wait->vcpu, wait->queue_from_ns, wait->to_ns,
					     &w.ran_instead);
	if (err)
		return err;
	braid_longest_add(&x->longest, &w);
	braid_stages_queued(&x->stages, wait);
	return 0;
}

static int wake_take_span(void *arg, const struct braid_state_span *span)
{
	struct wake *x = arg;

	braid_stages_span(&x->stages, span);
	return braid_recent_runs_span(&x->runs, span);
}

static void take_mark(void *arg, const struct braid_mark *mark)
{
	struct wake *x = arg;

	braid_stages_mark(&x->stages, mark);
}

/* Output ------------------------------------------------------------------------------------- */

#define CAUSE_COLUMNS								\
	{ "OTHERS RAN", "others_ns", BRAID_CELL_DURATION },			\
	{ "HYPERVISOR", "hypervisor_ns", BRAID_CELL_DURATION },		\
	{ "VMM", "vmm_ns", BRAID_CELL_DURATION },				\
	{ "STOLEN", "stolen_ns", BRAID_CELL_DURATION },			\
	{ "THROTTLED", "throttled_ns", BRAID_CELL_DURATION },			\
	{ "ASLEEP", "asleep_ns", BRAID_CELL_DURATION },			\
	{ "UNKNOWN", "unknown_ns", BRAID_CELL_DURATION }

/* The first column appears only with --by=task. */
static const struct braid_column columns[] = {
	{ "TASK", "task", BRAID_CELL_TEXT }, { "VCPU", "vcpu", BRAID_CELL_TEXT },
	{ "COUNT", "count", BRAID_CELL_COUNT }, { "TOTAL", "total_ns", BRAID_CELL_DURATION },
	CAUSE_COLUMNS,
	BRAID_SUM_COLUMNS,
};

static const struct braid_column longest_columns[] = {
	{ "AT", "at_ns", BRAID_CELL_TIME }, { "FOR", "duration_ns", BRAID_CELL_DURATION },
	{ "TASK", "task", BRAID_CELL_TEXT }, { "VCPU", "vcpu", BRAID_CELL_TEXT },
	CAUSE_COLUMNS, { "RAN INSTEAD", "behind", BRAID_CELL_LIST },
};

/*
 * Without KVM's events, time in the hypervisor and the VMM counts as OTHERS; without quotas in the
 * trace, what they hold back counts as STOLEN. @guest: NULL: of all
 */
static void put_cause(const struct wake *x, enum cause cause, const struct braid_stream *guest,
		      u64 ns, struct braid_table *t)
{
	const struct braid_seen seen = guest ? braid_states_seen_of(x->s, guest) :
					       braid_states_seen(x->s);
	bool unknown = ((cause == HYPERVISOR || cause == VMM) && !seen.kvm) ||
		       (cause == THROTTLED && guest && !braid_states_knows_throttled(x->s, guest));

	braid_table_number(t, unknown ? BRAID_CELL_NONE : (s64)ns);
}

static void put_cell(const struct wake *x, const struct braid_sum *cell, struct braid_table *t)
{
	const struct braid_stream *guest = cell->key.vcpu == BRAID_NO_VCPU ? NULL :
					   x->s->vcpus[cell->key.vcpu].guest;
	char name[BRAID_NAME_TEXT];
	u32 k;

	if (x->o.by_task)
		braid_table_text(t, braid_sum_task_name(x->s, &cell->key, name));
	braid_table_text(t, braid_sum_vcpu_name(x->s, &cell->key, name));
	braid_table_number(t, cell->count);
	braid_table_number(t, cell->total_ns);
	for (k = 0; k < NR_CAUSES; k++)
		put_cause(x, k, guest, cell->ns[k], t);
	braid_sum_put(cell, t);
}

static void put_wait(const struct wake *x, const struct wait *w, struct braid_table *t)
{
	char name[BRAID_NAME_TEXT];
	u32 guest, k;

	braid_table_number(t, w->from_ns);
	braid_table_number(t, w->to_ns - w->from_ns);
	guest = x->s->vcpus[w->vcpu].guest->number;
	braid_table_text(t, braid_task_name(x->s, guest, w->pid, name));
	braid_table_text(t, braid_vcpu_name(x->s, w->vcpu, name));
	for (k = 0; k < NR_CAUSES; k++)
		put_cause(x, k, x->s->vcpus[w->vcpu].guest, w->ns[k], t);
	if (w->ran_instead.nr || x->o.form == BRAID_TABLE_JSON)
		braid_shares_put(x->s, &w->ran_instead, x->o.form, t);
	else
		braid_table_text(t, "-");
}

static void wake_write_head(const struct wake *x, bool more, struct braid_text *out)
{
	char total[24];

	if (x->o.form == BRAID_TABLE_TEXT) {
		braid_duration_text(x->sums.total_ns, total);
		braid_text_printf(out, "# %llu wakeup%s of tasks that then ran; the tasks waited %s in all%s\n\n",
				  (unsigned long long)x->sums.count, x->sums.count == 1 ? "" : "s", total,
				  more ? "; only the largest rows are shown" : "");
	} else if (x->o.form == BRAID_TABLE_JSON) {
		braid_text_printf(out, ",\"count\":%llu,\"total_ns\":%llu,",
				  (unsigned long long)x->sums.count, (unsigned long long)x->sums.total_ns);
	}
}

/* They are of vCPUs, so not of one task. */
static void write_stages(struct wake *x, struct braid_text *out)
{
	braid_text_putc(out, x->o.form == BRAID_TABLE_JSON ? ',' : '\n');
	braid_stages_end(&x->stages);
	braid_stages_write(&x->stages, out);
}

/* Without a row: other events help only where some are missing. */
static const char *empty_text(const struct braid_states *s)
{
	bool wakeups = false, switches = false;
	size_t k;

	for (k = 0; k < s->source->nr_streams; k++) {
		wakeups |= s->guests[k].nr_vcpus && s->guests[k].any_wakeup;
		switches |= s->guests[k].nr_vcpus && s->guests[k].any_switch;
	}
	if (wakeups && switches)
		return "No guest has a wakeup of a task that then ran.";
	return wakeups ? "No guest has sched_switch events; record with -e sched:sched_switch." :
	       switches ? "No guest has wakeups; record with -e sched:sched_wakeup." :
			  "No guest has wakeups and switches; record with -e sched.";
}

static void wake_write(void *state, struct braid_text *out)
{
	struct wake *x = state;
	const struct wait *longest = (const struct wait *)x->longest.items;
	struct braid_table table = {
		.key = "wakeups", .columns = columns + !x->o.by_task,
		.nr_columns = sizeof(columns) / sizeof(columns[0]) - !x->o.by_task,
		.empty = empty_text(x->s),
	}, worst = {
		.key = "longest", BRAID_COLUMNS(longest_columns), .title = "Longest waits:",
	};
	size_t k;

	braid_sums_sort(&x->sums, braid_sum_by_total);
	/* Programs get all rows. */
	for (k = 0; k < x->sums.nr && (k < x->o.top || x->o.form != BRAID_TABLE_TEXT); k++)
		put_cell(x, x->sums.all[k], &table);
	braid_certainty_write(x->s, &x->o, out);
	wake_write_head(x, k < x->sums.nr, out);
	braid_longest_sort(&x->longest);
	for (k = 0; k < x->longest.nr; k++)
		put_wait(x, &longest[k], &worst);
	braid_table_write(&table, x->o.form, out);
	braid_table_write_next(&worst, x->o.form, out);
	if (!x->o.one_task && x->o.form != BRAID_TABLE_CSV)
		write_stages(x, out);
	braid_table_free(&table);
	braid_table_free(&worst);
}

/* Life --------------------------------------------------------------------------------------- */

static int wake_begin(void *state, struct braid_states *s,
		      const struct braid_analysis_options *options)
{
	struct wake *x = state;
	int err;

	x->s = s;
	x->o = *options;
	err = braid_stages_begin(&x->stages, s, options);
	if (!err)
		err = braid_recent_runs_begin(&x->runs, s->nr_vcpus);
	return err ? err : braid_longest_begin(&x->longest, x->o.top, sizeof(struct wait),
					       wake_by_length);
}

static void wake_free_state(void *state)
{
	struct wake *x = state;

	braid_stages_free(&x->stages);
	braid_recent_runs_free(&x->runs);
	braid_sums_free(&x->sums);
	braid_longest_free(&x->longest);
}

const struct braid_analysis braid_analysis_wake = {
	.name = "wake",
	.help = "how long woken tasks of guests waited for a vCPU, what the vCPU did meanwhile, and how "
		"long each stage takes from an interrupt to the task",
	.takes = 1u << BRAID_ANALYSIS_BY_TASK | 1u << BRAID_ANALYSIS_ONE_TASK,
	.compares = 1u << BRAID_MEASURE_WAIT | 1u << BRAID_MEASURE_WOKEN,
	.state_bytes = sizeof(struct wake),
	.begin = wake_begin,
	.states = { .span = wake_take_span, .queued = wake_take_queued, .mark = take_mark },
	.write = wake_write,
	.free = wake_free_state,
};
