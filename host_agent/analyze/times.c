// SPDX-License-Identifier: GPL-2.0-or-later
/* How long each vCPU, or each task of a guest, was in each state. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/analyze/compare.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

struct times {
	const struct braid_states *s;
	struct braid_analysis_options o;
	const struct braid_guest_task **tasks;	/* that are wanted, the busiest first */
	size_t nr_tasks;
};

static const struct braid_column of_vcpus[] = {
	{ "VCPU", "vcpu", BRAID_CELL_TEXT }, { "OBSERVED", "observed_ns", BRAID_CELL_DURATION },
	BRAID_STATE_COLUMNS,
};

static const struct braid_column of_tasks[] = {
	{ "GUEST", "guest", BRAID_CELL_TEXT }, { "TASK", "task", BRAID_CELL_TEXT },
	{ "OBSERVED", "observed_ns", BRAID_CELL_DURATION },
	{ "IN GUEST", "guest_ns", BRAID_CELL_DURATION },
	{ "EXITED", "exited_ns", BRAID_CELL_DURATION },
	{ "RUNNING", "running_ns", BRAID_CELL_DURATION },
	{ "STOLEN", "stolen_ns", BRAID_CELL_DURATION },
	{ "THROTTLED", "throttled_ns", BRAID_CELL_DURATION },
	{ "HELD", "held_ns", BRAID_CELL_DURATION },
	{ "QUEUED", "queued_ns", BRAID_CELL_DURATION },
	{ "BLOCKED", "blocked_ns", BRAID_CELL_DURATION },
	{ "UNKNOWN", "unknown_ns", BRAID_CELL_DURATION },
};

/* States that the trace cannot tell apart are not 0, but not known. */
static s64 shown(const struct braid_states *s, const struct braid_stream *guest,
		 enum braid_vcpu_state state, u64 ns)
{
	const struct braid_seen seen = braid_states_seen_of(s, guest);

	/* A guest's driver says what is offline. */
	if (state == BRAID_VCPU_OFFLINE)
		return guest->kind == BRAID_STREAM_VM ? BRAID_CELL_NONE : (s64)ns;
	if (state == BRAID_VCPU_THROTTLED)
		return braid_states_knows_throttled(s, guest) ? (s64)ns : BRAID_CELL_NONE;
	return (!seen.switches && state != BRAID_VCPU_UNKNOWN) ||
	       (braid_state_needs_kvm(state) && !seen.kvm) ||
	       (state == BRAID_VCPU_VMM && !seen.user) ? BRAID_CELL_NONE : (s64)ns;
}

static void times_put_vcpu(const struct times *x, u32 vcpu, struct braid_table *t)
{
	const struct braid_vcpu *v = &x->s->vcpus[vcpu];
	char name[BRAID_NAME_TEXT];
	size_t k;

	braid_table_text(t, braid_vcpu_name(x->s, vcpu, name));
	braid_table_number(t, v->observed_ns);
	for (k = 0; k < BRAID_NR_VCPU_STATES; k++) {
		enum braid_vcpu_state state = braid_state_of_column(k);

		braid_table_number(t, shown(x->s, v->guest, state, v->ns[state]));
	}
}

static void put_task(const struct times *x, const struct braid_guest_task *task,
		     struct braid_table *t)
{
	const struct braid_states *s = x->s;
	u64 known = braid_task_current_ns(task) - task->ns[BRAID_VCPU_UNKNOWN] + task->queued_ns +
		    task->blocked_ns;
	u64 observed = braid_states_within(s, task->stream, task->begin_ns, task->end_ns);
	const struct braid_stream *guest = s->source->streams[task->stream];
	char name[BRAID_NAME_TEXT], label[BRAID_STREAM_LABEL];

	/* A guest may say that a task was on two vCPUs at once. */
	if (observed < known + task->ns[BRAID_VCPU_UNKNOWN])
		observed = known + task->ns[BRAID_VCPU_UNKNOWN];
	braid_table_text(t, braid_stream_label(guest, label));
	braid_table_text(t, braid_task_name(s, task->stream, task->pid, name));
	braid_table_number(t, observed);
	braid_table_number(t, shown(s, guest, BRAID_VCPU_GUEST, task->ns[BRAID_VCPU_GUEST]));
	braid_table_number(t, shown(s, guest, BRAID_VCPU_KVM, task->ns[BRAID_VCPU_KVM] +
				    task->ns[BRAID_VCPU_VMM]));
	braid_table_number(t, shown(s, guest, BRAID_VCPU_RUNS, task->ns[BRAID_VCPU_RUNS]));
	braid_table_number(t, shown(s, guest, BRAID_VCPU_STOLEN, task->ns[BRAID_VCPU_STOLEN]));
	braid_table_number(t, shown(s, guest, BRAID_VCPU_THROTTLED,
				    task->ns[BRAID_VCPU_THROTTLED]));
	braid_table_number(t, braid_states_asleep(task->ns) + task->ns[BRAID_VCPU_OFFLINE]);
	braid_table_number(t, task->queued_ns);
	braid_table_number(t, task->blocked_ns);
	braid_table_number(t, observed - known);
}

static int busiest(const void *a, const void *b)
{
	const struct braid_guest_task *x = *(const struct braid_guest_task *const *)a;
	const struct braid_guest_task *y = *(const struct braid_guest_task *const *)b;
	u64 of_x = braid_task_current_ns(x), of_y = braid_task_current_ns(y);

	return braid_compare(of_y, of_x) ?: braid_compare(x->stream, y->stream) ?:
	       braid_compare(x->pid, y->pid);
}

/* Whether the options select a task: --cpu does not. */
static bool wants_task(const struct times *x, const struct braid_guest_task *task)
{
	const struct braid_guest_state *guest = &x->s->guests[task->stream];
	struct braid_analysis_options o = x->o;

	o.one_cpu = false;
	return task->seen && task->pid && guest->nr_vcpus && guest->any_switch &&
	       braid_analysis_wants(x->s, &o, guest->first_vcpu, task->pid);
}

static int times_end(void *state)
{
	struct times *x = state;
	size_t k;

	if (!x->o.by_task)
		return 0;
	x->tasks = calloc(x->s->nr_tasks + 1, sizeof(*x->tasks));
	if (!x->tasks)
		return braid_out_of_memory();
	for (k = 0; k < x->s->nr_tasks; k++)
		if (wants_task(x, &x->s->tasks[k]))
			x->tasks[x->nr_tasks++] = &x->s->tasks[k];
	qsort(x->tasks, x->nr_tasks, sizeof(*x->tasks), busiest);
	return 0;
}

static void times_write(void *state, struct braid_text *out)
{
	struct times *x = state;
	bool people = x->o.form == BRAID_TABLE_TEXT;
	struct braid_table table = {
		.key = x->o.by_task ? "tasks" : "vcpu_states",
		.columns = x->o.by_task ? of_tasks : of_vcpus,
		.nr_columns = x->o.by_task ? sizeof(of_tasks) / sizeof(of_tasks[0]) :
					     sizeof(of_vcpus) / sizeof(of_vcpus[0]),
		.empty = x->o.by_task ? "No task of a guest was seen." : "The capture has no guest.",
	};
	size_t k;
	u32 n;

	for (k = 0; k < x->nr_tasks && (k < x->o.top || !people); k++)
		put_task(x, x->tasks[k], &table);
	for (n = 0; n < x->s->nr_vcpus && !x->o.by_task; n++)
		if (braid_analysis_wants(x->s, &x->o, n, x->o.task))
			times_put_vcpu(x, n, &table);
	braid_certainty_write(x->s, &x->o, out);
	braid_text_puts(out, x->o.form == BRAID_TABLE_JSON ? "," : people ? "\n" : "");
	braid_table_write(&table, x->o.form, out);
	if (people && x->nr_tasks > x->o.top)
		braid_text_printf(out, "%zu more task%s; use a larger --top\n", (size_t)(x->nr_tasks - x->o.top),
				  x->nr_tasks - x->o.top == 1 ? "" : "s");
	braid_table_free(&table);
}

static int times_begin(void *state, struct braid_states *s,
		       const struct braid_analysis_options *options)
{
	struct times *x = state;

	x->s = s;
	x->o = *options;
	return 0;
}

static void times_free_state(void *state)
{
	struct times *x = state;

	free(x->tasks);
}

const struct braid_analysis braid_analysis_states = {
	.name = "states",
	.help = "how long each vCPU, or each task of a guest, was in each state",
	.takes = 1u << BRAID_ANALYSIS_BY_TASK | 1u << BRAID_ANALYSIS_ONE_TASK,
	.compares = 1u << BRAID_MEASURE_STATE,
	.state_bytes = sizeof(struct times),
	.begin = times_begin,
	.end = times_end,
	.write = times_write,
	.free = times_free_state,
};
