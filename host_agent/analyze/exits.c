// SPDX-License-Identifier: GPL-2.0-or-later
/* Why vCPUs left guest code, how often, and what happened until they came back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/compare.h"
#include "host_agent/analyze/functions.h"
#include "host_agent/analyze/near.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define MOST_COLUMNS	17u

struct exits {
	const struct braid_states *s;
	struct braid_analysis_options o;
	struct braid_functions functions;
	struct of_vcpu {
		s32 task;	/* what its exits are counted for */
		u32 call;
		struct braid_near near;
	} *vcpus;
	struct braid_sums sums;	/* by vCPU, reason, level and the options; parts: states */
};

/* Exits -------------------------------------------------------------------------------------- */

static bool by_calls(const struct braid_analysis_options *o)
{
	return o->by_call || (o->folded && !o->by_function);
}

/* Whether events of the guest decide what exits are counted for, so that its clock matters. */
static bool exits_by_guest(const struct braid_analysis_options *o)
{
	return o->by_task || o->by_call || o->folded || o->one_task;
}

static int exits_take_event(void *state, const struct braid_item *item,
			    const struct braid_event_type_info *info)
{
	struct exits *x = state;
	u32 number = braid_states_vcpu_of(x->s, item);
	const struct braid_vcpu *v;
	struct of_vcpu *of;

	(void)info;
	if (number == BRAID_NO_VCPU || !exits_by_guest(&x->o))
		return 0;
	v = &x->s->vcpus[number];
	of = &x->vcpus[number];
	if (of->task == v->task && (of->call == v->call || !by_calls(&x->o)))
		return 0;
	of->task = v->task;
	of->call = v->call;
	braid_near_edge(&of->near, item->host_ns, braid_item_bound_of_host(item));
	return 0;
}

static u64 detail_of(struct exits *x, const struct braid_exit *exit)
{
	if (x->o.by_function)
		return braid_function_of(&x->functions, x->s->vcpus[exit->vcpu].guest,
				   exit->level == 1 ? exit->ip : 0);
	return by_calls(&x->o) ? exit->call : 0;
}

static int exits_take_exit(void *arg, const struct braid_exit *exit)
{
	struct exits *x = arg;
	struct braid_sum_key key = {
		.vcpu = exit->vcpu, .reason = exit->reason, .level = exit->level,
		.task = x->o.by_task || x->o.folded ? exit->task : BRAID_PID_UNKNOWN,
	};
	struct braid_sum *sum;
	int err;
	u32 k;

	if (!braid_analysis_wants(x->s, &x->o, exit->vcpu, exit->task))
		return 0;
	key.detail = detail_of(x, exit);
	if (exits_by_guest(&x->o))
		braid_near_exit(&x->vcpus[exit->vcpu].near, exit->from_ns, exit->to_ns - exit->from_ns,
				braid_stream_bound_of_host(x->s->vcpus[exit->vcpu].guest));
	err = braid_sums_add(&x->sums, &key, exit->to_ns - exit->from_ns, exit->from_ns, &sum);
	for (k = 0; k < BRAID_NR_VCPU_STATES && !err; k++)
		sum->ns[k] += exit->ns[k];
	return err;
}

/* Rows --------------------------------------------------------------------------------------- */

static const struct braid_column task_column = { "TASK", "task", BRAID_CELL_TEXT };
static const struct braid_column call_column = { "SYSTEM CALL", "system_call", BRAID_CELL_TEXT };
static const struct braid_column function_column = { "FUNCTION", "function", BRAID_CELL_TEXT };
static const struct braid_column vcpu_column = { "VCPU", "vcpu", BRAID_CELL_TEXT };
static const struct braid_column level_column = { "LEVEL", "level", BRAID_CELL_COUNT };

static const struct braid_column usual_columns[] = {
	{ "REASON", "reason", BRAID_CELL_TEXT }, { "COUNT", "count", BRAID_CELL_COUNT },
	{ "TOTAL", "total_ns", BRAID_CELL_DURATION },
	{ "HYPERVISOR", "hypervisor_ns", BRAID_CELL_DURATION },
	{ "VMM", "vmm_ns", BRAID_CELL_DURATION }, { "STOLEN", "stolen_ns", BRAID_CELL_DURATION },
	{ "THROTTLED", "throttled_ns", BRAID_CELL_DURATION },
	{ "HALTED", "halted_ns", BRAID_CELL_DURATION },
	{ "BLOCKED", "blocked_ns", BRAID_CELL_DURATION },
	BRAID_SUM_COLUMNS,
};

/* Which kinds of events there are of a row's host, or of all. */
static struct braid_seen seen_of(const struct exits *x, const struct braid_sum *cell)
{
	return cell->key.vcpu == BRAID_NO_VCPU ? braid_states_seen(x->s) :
						 x->s->vcpus[cell->key.vcpu].host->seen;
}

/* People see the level only if there is more than one; the keys of programs stay the same. */
static bool shows_level(const struct exits *x)
{
	return braid_states_seen(x->s).nested || x->o.form != BRAID_TABLE_TEXT;
}

static u32 fill_columns(const struct exits *x, struct braid_column columns[MOST_COLUMNS])
{
	u32 nr = 0;

	if (x->o.by_task)
		columns[nr++] = task_column;
	if (x->o.by_call)
		columns[nr++] = call_column;
	if (x->o.by_function)
		columns[nr++] = function_column;
	columns[nr++] = vcpu_column;
	if (shows_level(x))
		columns[nr++] = level_column;
	memcpy(columns + nr, usual_columns, sizeof(usual_columns));
	return nr + sizeof(usual_columns) / sizeof(usual_columns[0]);
}

/* A vCPU that halts, or is offline, has nothing to do: that costs nothing. */
static u64 halted_ns(const struct braid_sum *cell)
{
	return cell->ns[BRAID_VCPU_HALTED] + cell->ns[BRAID_VCPU_OFFLINE];
}

static u64 cost(const struct braid_sum *cell)
{
	return cell->total_ns - halted_ns(cell);
}

static int by_cost(const void *a, const void *b)
{
	const struct braid_sum *x = *(struct braid_sum *const *)a;
	const struct braid_sum *y = *(struct braid_sum *const *)b;

	return braid_compare(cost(y), cost(x)) ?: braid_compare(y->count, x->count) ?:
	       braid_compare(x->histogram.longest_at_ns, y->histogram.longest_at_ns);
}

/* The system call or the function of a row. */
static void name_detail(const struct exits *x, const struct braid_sum_key *key,
			char name[BRAID_NAME_TEXT])
{
	*name = 0;
	if (key->vcpu == BRAID_NO_VCPU)
		return;
	if (x->o.by_function)
		braid_function_name(&x->functions, x->s->vcpus[key->vcpu].guest, key->detail, name);
	else
		braid_call_name(&x->s->roles, key->detail, name);
}

static void put_names(const struct exits *x, const struct braid_sum *cell, struct braid_table *t)
{
	char name[BRAID_NAME_TEXT];

	if (x->o.by_task)
		braid_table_text(t, braid_sum_task_name(x->s, &cell->key, name));
	if (x->o.by_call || x->o.by_function) {
		name_detail(x, &cell->key, name);
		braid_table_text(t, name);
	}
	braid_table_text(t, braid_sum_vcpu_name(x->s, &cell->key, name));
	if (shows_level(x))
		braid_table_number(t, seen_of(x, cell).nested && cell->key.level ? cell->key.level :
									    BRAID_CELL_NONE);
	braid_exit_name(cell->key.reason, name);
	braid_table_text(t, cell->key.vcpu == BRAID_NO_VCPU ? "" : name);
}

static void exits_put_row(const struct exits *x, const struct braid_sum *cell,
			  struct braid_table *t)
{
	bool known = cell->key.vcpu == BRAID_NO_VCPU ||
		     braid_states_knows_throttled(x->s, x->s->vcpus[cell->key.vcpu].guest);

	put_names(x, cell, t);
	braid_table_number(t, cell->count);
	braid_table_number(t, cell->total_ns);
	braid_table_number(t, cell->ns[BRAID_VCPU_KVM]);
	braid_table_number(t, seen_of(x, cell).user ? (s64)cell->ns[BRAID_VCPU_VMM] :
						      BRAID_CELL_NONE);
	braid_table_number(t, cell->ns[BRAID_VCPU_STOLEN]);
	braid_table_number(t, known ? (s64)cell->ns[BRAID_VCPU_THROTTLED] : BRAID_CELL_NONE);
	braid_table_number(t, halted_ns(cell));
	braid_table_number(t, cell->total_ns - cell->ns[BRAID_VCPU_KVM] -
			      cell->ns[BRAID_VCPU_VMM] - cell->ns[BRAID_VCPU_STOLEN] -
			      cell->ns[BRAID_VCPU_THROTTLED] - halted_ns(cell));
	braid_sum_put(cell, t);
}

/* Output ------------------------------------------------------------------------------------- */

/* "guest1;vCPU 0;dd[123];write;L2;HLT 12345": a frame that is always the same is left out. */
static void write_folded(const struct exits *x, struct braid_text *out)
{
	char name[BRAID_NAME_TEXT];
	size_t k, from;

	for (k = 0; k < x->sums.nr; k++) {
		const struct braid_sum_key *key = &x->sums.all[k]->key;

		from = out->bytes;
		braid_folded_vcpu(x->s, key, out);
		if (key->vcpu != BRAID_NO_VCPU) {
			braid_folded_frame(out, braid_sum_task_name(x->s, key, name));
			name_detail(x, key, name);
			if (strcmp(name, "-") &&
			    (x->o.by_function || x->s->guests[x->s->vcpus[key->vcpu].guest->number].any_call))
				braid_folded_frame(out, name);
			braid_folded_frame(out, key->level == 2 ? "L2" : "");
			braid_folded_frame(out, braid_exit_name(key->reason, name));
		}
		braid_folded_end(out, from, x->sums.all[k], &x->o);
	}
}

/* What is not known, and why. */
static void write_missing(const struct exits *x, struct braid_text *out)
{
	const struct braid_states *s = x->s;
	u32 k;

	if (x->o.form != BRAID_TABLE_TEXT)
		return;
	for (k = 0; k < s->source->nr_streams; k++) {
		const struct braid_stream *stream = s->source->streams[k];
		const struct braid_guest_state *guest = &s->guests[k];

		if (!guest->nr_vcpus || (x->o.stream && strcmp(x->o.stream, stream->name)))
			continue;
		if (x->o.by_call && !(guest->any_call && guest->any_switch))
			braid_text_printf(out, "# %s: its system calls are not known: record with%s%s\n",
					  stream->name, guest->any_call ? "" : " -e raw_syscalls",
					  guest->any_switch ? "" : " -e sched:sched_switch");
		if (x->o.by_function && !braid_functions_known(&x->functions, stream))
			braid_text_printf(out, "# %s: the capture has no names of its functions, so addresses are shown: %s\n",
					  stream->name, stream->kind == BRAID_STREAM_VM ?
					  "copy its /proc/kallsyms, as its root reads it, to DIRECTORY/kallsyms, and use --symbols DIRECTORY" :
					  "record events that print functions, such as timer, workqueue or kmem");
	}
}

static void exits_write_head(const struct exits *x, bool more, struct braid_text *out)
{
	char total[24], near[24];
	u64 near_ns = 0;
	u32 k;

	for (k = 0; k < x->s->nr_vcpus; k++)
		near_ns += x->vcpus[k].near.near_ns;
	if (x->o.form == BRAID_TABLE_TEXT) {
		braid_duration_text(x->sums.total_ns, total);
		braid_text_printf(out, "# %llu exit%s, %s in all%s\n",
				  (unsigned long long)x->sums.count, x->sums.count == 1 ? "" : "s", total,
				  more ? "; rows sorted by TOTAL minus HALTED" : "");
		braid_duration_text(near_ns, near);
		if (exits_by_guest(&x->o))
			braid_text_printf(out, "# %s of that may belong to another task or system call: the guest switched within the clocks' error bounds of the exit\n",
					  near);
		braid_text_putc(out, '\n');
	} else if (x->o.form == BRAID_TABLE_JSON) {
		braid_text_printf(out, ",\"count\":%llu,\"total_ns\":%llu,\"near_change_ns\":",
				  (unsigned long long)x->sums.count,
				  (unsigned long long)x->sums.total_ns);
		if (exits_by_guest(&x->o))
			braid_text_printf(out, "%llu,", (unsigned long long)near_ns);
		else
			braid_text_puts(out, "null,");	/* not asked */
	}
}

static void exits_write(void *state, struct braid_text *out)
{
	struct exits *x = state;
	struct braid_column columns[MOST_COLUMNS];
	struct braid_table table = {
		.key = "exits", .columns = columns, .nr_columns = fill_columns(x, columns),
		.empty = x->s->nr_vcpus ? "No vCPU left guest code." :
			 "No thread is known as a vCPU: whose the exits are is not known.",
	};
	size_t k;

	braid_sums_sort(&x->sums, by_cost);
	if (x->o.folded) {
		write_folded(x, out);
		return;
	}
	/* Programs get all rows. */
	for (k = 0; k < x->sums.nr && (k < x->o.top || x->o.form != BRAID_TABLE_TEXT); k++)
		exits_put_row(x, x->sums.all[k], &table);
	braid_certainty_write(x->s, &x->o, out);
	write_missing(x, out);
	exits_write_head(x, k < x->sums.nr, out);
	braid_table_write(&table, x->o.form, out);
	braid_table_free(&table);
}

/* Life --------------------------------------------------------------------------------------- */

static int exits_begin(void *state, struct braid_states *s,
		       const struct braid_analysis_options *options)
{
	struct exits *x = state;
	u32 k;

	x->s = s;
	x->o = *options;
	x->vcpus = calloc((size_t)s->nr_vcpus + 1, sizeof(*x->vcpus));
	if (!x->vcpus)
		return braid_out_of_memory();
	for (k = 0; k < s->nr_vcpus; k++)
		x->vcpus[k].task = BRAID_PID_UNKNOWN;
	return x->o.by_function ?
	       braid_functions_begin(&x->functions, s->source, false, options->binaries) : 0;
}

/* Without what is asked for there is nothing to show. */
static int exits_end(void *state)
{
	const struct exits *x = state;
	bool any_call = false, any_switch = false;
	u32 k;

	for (k = 0; k < x->s->source->nr_streams; k++) {
		any_call |= x->s->guests[k].any_call;
		any_switch |= x->s->guests[k].nr_vcpus && x->s->guests[k].any_switch;
	}
	if (!braid_states_seen(x->s).kvm)
		return braid_fail(-ENODATA, "no kvm events of the host: exits cannot be analyzed; for a guest on KVM, record them with --host");
	if (x->o.by_call && !any_call)
		return braid_fail(-ENODATA, "no guest has events of system calls; record them with -e raw_syscalls%s",
				  any_switch ? "" : " -e sched:sched_switch");
	if (x->o.by_call && !any_switch)
		return braid_fail(-ENODATA, "%s", braid_lacks_switches(x->s));
	if (x->o.by_function && x->sums.count && !x->functions.any)
		return braid_fail(-ENODATA, "kvm_exit events of the host have no address in the guest (guest_rip, vcpu_pc): exits cannot be grouped by function");
	return 0;
}

static void exits_free_state(void *state)
{
	struct exits *x = state;

	free(x->vcpus);
	braid_functions_free(&x->functions);
	braid_sums_free(&x->sums);
}

const struct braid_analysis braid_analysis_exits = {
	.name = "exits",
	.help = "why vCPUs left guest code, how often, and what it cost",
	.takes = 1u << BRAID_ANALYSIS_BY_TASK | 1u << BRAID_ANALYSIS_BY_CALL | 1u << BRAID_ANALYSIS_FOLDED |
		 1u << BRAID_ANALYSIS_ONE_TASK | 1u << BRAID_ANALYSIS_SYMBOLS,
	.compares = 1u << BRAID_MEASURE_EXITS | 1u << BRAID_MEASURE_REASON,
	.state_bytes = sizeof(struct exits),
	.begin = exits_begin,
	.states = { .exit = exits_take_exit },
	.event = exits_take_event,
	.end = exits_end,
	.write = exits_write,
	.free = exits_free_state,
};
