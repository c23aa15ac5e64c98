// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where vCPUs' time went, down to the guest's functions. The states say how long each task was
 * executed on each vCPU, and what else its vCPU did; samples of the guest divide the former among
 * its stacks. So all parts add up to the vCPUs' time, however rare samples are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/compare.h"
#include "host_agent/analyze/functions.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define MOST_FRAMES	64u
#define MOST_STACKS	(1u << 14)	/* samples of further ones count for none */
#define NO_STACK	UINT32_MAX

/* Functions, by braid_function_of(), the innermost one first. */
struct stack {
	u32 nr;
	u32 off;		/* 1: interrupts were off, and the sample came late */
	u64 functions[MOST_FRAMES];
};

/* Where the samples' fields are, by the number of the event's type. */
struct places {
	bool looked;
	const struct braid_field *ip, *missed, *user, *stack;	/* all, or ->ip is NULL */
};

struct profile {
	const struct braid_states *s;
	struct braid_analysis_options o;
	struct braid_functions functions;
	struct places *places;
	size_t nr_places, places_capacity;
	struct stack *stacks;
	size_t nr_stacks, stacks_capacity;
	struct braid_hash by_stack;
	struct of_vcpu {
		s64 sampled_ns;		/* the last sample; 0: none */
		u64 executed_ns;	/* by then */
	} *vcpus;
	struct braid_sums times;	/* by vCPU, task, state (level), reason, culprit */
	struct braid_sums samples;	/* by vCPU, task, stack (detail); in periods */
	u64 nr_samples, nr_missed, nr_others;
};

/* Samples ------------------------------------------------------------------------------------ */

static const struct braid_field *profile_number(const struct braid_layout *layout, const char *name)
{
	const struct braid_field *field = braid_layout_find(layout, name);

	return field && braid_field_is_number(field) ? field : NULL;
}

static int profile_look(struct profile *x, const struct braid_event_type_info *info)
{
	const struct places none = { 0 };
	struct places *at;

	while (x->nr_places <= info->number)
		if (braid_array_push(x->places, x->nr_places, x->places_capacity, none))
			return braid_out_of_memory();
	at = &x->places[info->number];
	if (at->looked)
		return 0;
	at->looked = true;
	if (!info->layout || strcmp(info->system, "sample") || strcmp(info->name, "cpu"))
		return 0;
	at->ip = profile_number(info->layout, "ip");
	at->missed = profile_number(info->layout, "missed");
	at->user = profile_number(info->layout, "user");
	at->stack = braid_layout_find(info->layout, "stack");
	if (!at->missed || !at->user || !at->stack || !(at->stack->flags & BRAID_FIELD_DYNAMIC))
		at->ip = NULL;
	return 0;
}

static void profile_read_stack(struct profile *x, const struct places *at,
			       const struct braid_item *item, struct stack *stack)
{
	u64 ip = braid_field_number(at->ip, item->payload), frame;
	u32 offset, length, k;

	memset(stack, 0, sizeof(*stack));
	stack->functions[stack->nr++] = braid_field_number(at->user, item->payload) ?
		BRAID_FUNCTION_USER : braid_function_of(&x->functions, item->stream, ip);
	if (!braid_format_range(at->stack, item->payload, item->payload_bytes, &offset, &length))
		return;
	for (k = 0; k < length / sizeof(frame) && stack->nr < MOST_FRAMES; k++) {
		memcpy(&frame, item->payload + offset + k * sizeof(frame), sizeof(frame));
		/* The call is before the address that it returns to. */
		stack->functions[stack->nr++] = braid_function_of(&x->functions, item->stream,
								  frame - 1);
	}
}

static bool profile_same_stack(const void *in, u32 number, const void *key)
{
	return !memcmp(&((const struct stack *)in)[number], key, sizeof(struct stack));
}

/* The number of a stack; NO_STACK: there are too many. Return: 0 or -ENOMEM with braid_fail(). */
static int profile_number_stack(struct profile *x, const struct stack *stack, u32 *number)
{
	u32 hash = braid_hash_of(stack, sizeof(*stack), 0);

	*number = braid_hash_find(&x->by_stack, hash, profile_same_stack, x->stacks, stack);
	if (*number != BRAID_HASH_NONE)
		return 0;
	*number = x->nr_stacks < MOST_STACKS ? x->nr_stacks : NO_STACK;
	if (*number == NO_STACK)
		return 0;
	if (braid_hash_reserve(&x->by_stack, MOST_STACKS) ||
	    braid_array_push(x->stacks, x->nr_stacks, x->stacks_capacity, *stack))
		return braid_out_of_memory();
	braid_hash_put(&x->by_stack, hash, *number);
	return 0;
}

static bool profile_executes(enum braid_vcpu_state state)
{
	return state == BRAID_VCPU_GUEST || state == BRAID_VCPU_RUNS;
}

static u64 profile_executed_ns(const struct braid_vcpu *v, s64 ns)
{
	u64 executed = v->ns[BRAID_VCPU_GUEST] + v->ns[BRAID_VCPU_RUNS];

	return profile_executes(v->now.state) && ns > v->now.from_ns ?
	       executed + (ns - v->now.from_ns) : executed;
}

/*
 * The periods without a sample in which the vCPU executed: interrupts were off. In others it did
 * not, and no timer could expire.
 */
static u64 profile_periods_off(struct of_vcpu *of, const struct braid_vcpu *v, s64 ns, u64 missed)
{
	u64 executed_ns = profile_executed_ns(v, ns), period_ns, off = 0;

	if (of->sampled_ns && ns > of->sampled_ns && missed) {
		period_ns = (ns - of->sampled_ns) / (missed + 1);
		off = period_ns ? (executed_ns - of->executed_ns) / period_ns : 0;
		off = !off ? 0 : off - 1 < missed ? off - 1 : missed;
	}
	of->sampled_ns = ns;
	of->executed_ns = executed_ns;
	return off;
}

static int profile_count(struct profile *x, u32 vcpu, const struct stack *stack, u64 periods,
			 s64 ns)
{
	struct braid_sum_key key = { .vcpu = vcpu, .task = x->s->vcpus[vcpu].task };
	u32 number;
	int err = profile_number_stack(x, stack, &number);

	if (err || number == NO_STACK) {
		x->nr_others++;
		return err;
	}
	key.detail = number;
	return braid_sums_add(&x->samples, &key, periods, ns, NULL);
}

static int profile_take_event(void *state, const struct braid_item *item,
			      const struct braid_event_type_info *info)
{
	struct profile *x = state;
	u32 vcpu = braid_states_vcpu_of(x->s, item);
	const struct braid_vcpu *v;
	const struct places *at;
	struct stack stack;
	u64 missed, off;
	int err = profile_look(x, info);

	if (err)
		return err;
	at = &x->places[info->number];
	if (!at->ip || vcpu == BRAID_NO_VCPU || !braid_format_fields_of(info, item))
		return 0;
	v = &x->s->vcpus[vcpu];
	if (item->host_ns < v->begin_ns || item->host_ns > v->end_ns ||
	    !braid_analysis_wants(x->s, &x->o, vcpu, v->task))
		return 0;
	missed = braid_field_number(at->missed, item->payload) & UINT32_MAX;
	off = profile_periods_off(&x->vcpus[vcpu], v, item->host_ns, missed);
	profile_read_stack(x, at, item, &stack);
	x->nr_samples++;
	x->nr_missed += off;
	err = profile_count(x, vcpu, &stack, 1, item->host_ns);
	stack.off = 1;
	return err || !off ? err : profile_count(x, vcpu, &stack, off, item->host_ns);
}

static int profile_take_span(void *arg, const struct braid_state_span *span)
{
	struct profile *x = arg;
	struct braid_sum_key key = {
		.vcpu = span->vcpu, .task = span->task, .level = span->state,
		.culprit = span->culprit,
	};

	if (span->state == BRAID_VCPU_STOLEN)
		key.culprit = braid_culprit_group(x->s, &span->culprit);
	if (span->state == BRAID_VCPU_KVM || span->state == BRAID_VCPU_VMM)
		key.reason = span->reason;
	if (!braid_analysis_wants(x->s, &x->o, span->vcpu, span->task))
		return 0;
	return braid_sums_add(&x->times, &key, span->to_ns - span->from_ns, span->from_ns, NULL);
}

/* Parts -------------------------------------------------------------------------------------- */

/* A part of the time: of a state, and if the vCPU executed, of a stack (or NO_STACK). */
struct part {
	const struct braid_sum_key *key;
	u32 stack;
	u64 ns;
	u64 periods;		/* of its samples */
};

typedef int (*profile_part_fn)(struct profile *x, const struct part *part, void *arg);

/* By vCPU and task, so that a task's samples are next to each other. */
static int profile_by_task(const void *a, const void *b)
{
	const struct braid_sum *x = *(struct braid_sum *const *)a;
	const struct braid_sum *y = *(struct braid_sum *const *)b;

	return braid_compare(x->key.vcpu, y->key.vcpu) ?: braid_compare(x->key.task, y->key.task) ?:
	       braid_compare(x->key.detail, y->key.detail);
}

/* Where the samples of a row's task begin, after profile_by_task(). */
static size_t profile_find_samples(const struct profile *x, const struct braid_sum_key *key)
{
	size_t low = 0, high = x->samples.nr, middle;

	while (low < high) {
		const struct braid_sum_key *at;

		middle = low + (high - low) / 2;
		at = &x->samples.all[middle]->key;
		if ((braid_compare(at->vcpu, key->vcpu) ?: braid_compare(at->task, key->task)) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool profile_is_of(const struct braid_sum *sample, const struct braid_sum_key *key)
{
	return sample->key.vcpu == key->vcpu && sample->key.task == key->task;
}

/* Divides a row's time by its samples: to the last ns. */
static int profile_divide(struct profile *x, const struct braid_sum *row, profile_part_fn fn,
			  void *arg)
{
	size_t first = profile_find_samples(x, &row->key), k;
	struct part part = { .key = &row->key, .stack = NO_STACK };
	u64 all = 0, sum = 0, given_ns = 0, until_ns;
	int err = 0;

	for (k = first; k < x->samples.nr && profile_is_of(x->samples.all[k], &row->key); k++)
		all += x->samples.all[k]->total_ns;
	for (k = first; !err && sum < all; k++) {
		sum += x->samples.all[k]->total_ns;
		until_ns = sum == all ? row->total_ns :
			   (u64)((long double)row->total_ns * sum / all);
		part.stack = x->samples.all[k]->key.detail;
		part.ns = until_ns - given_ns;
		part.periods = x->samples.all[k]->total_ns;
		given_ns = until_ns;
		err = fn(x, &part, arg);
	}
	if (all || err)
		return err;
	part.ns = row->total_ns;
	return fn(x, &part, arg);
}

static int profile_all_parts(struct profile *x, profile_part_fn fn, void *arg)
{
	struct part part = { .stack = NO_STACK };
	int err = 0;
	size_t k;

	braid_sums_sort(&x->samples, profile_by_task);
	braid_sums_sort(&x->times, braid_sum_by_total);
	for (k = 0; k < x->times.nr && !err; k++) {
		const struct braid_sum *row = x->times.all[k];

		if (row->key.vcpu != BRAID_NO_VCPU && profile_executes(row->key.level)) {
			err = profile_divide(x, row, fn, arg);
			continue;
		}
		part.key = &row->key;
		part.ns = row->total_ns;
		err = fn(x, &part, arg);
	}
	return err;
}

/* Output ------------------------------------------------------------------------------------- */

/* What a part is beside the guest's own functions: "[stolen]" and the culprit, "[hypervisor]" ... */
static void profile_state_names(const struct profile *x, const struct braid_sum_key *key,
				char state[BRAID_NAME_TEXT], char detail[BRAID_NAME_TEXT])
{
	*detail = 0;
	snprintf(state, BRAID_NAME_TEXT, "[%s]", braid_vcpu_state_name(key->level));
	if (key->level == BRAID_VCPU_STOLEN || key->level == BRAID_VCPU_THROTTLED)
		braid_culprit_name(x->s, &key->culprit, detail);
	else if (key->level == BRAID_VCPU_KVM || key->level == BRAID_VCPU_VMM)
		braid_exit_name(key->reason, detail);
}

/* "guest1;vCPU 0;dd[123];user space;do_syscall_64;...", or ";[stolen];guest2" */
static int profile_write_line(struct profile *x, const struct part *part, void *arg)
{
	const struct braid_sum_key *key = part->key;
	const struct braid_sum sum = { .key = *key, .count = part->periods, .total_ns = part->ns };
	char name[BRAID_NAME_TEXT], detail[BRAID_NAME_TEXT];
	const struct stack *stack;
	struct braid_text *out = arg;
	size_t from = out->bytes;
	u32 k;

	braid_folded_vcpu(x->s, key, out);
	if (key->vcpu != BRAID_NO_VCPU) {
		braid_folded_frame(out, braid_sum_task_name(x->s, key, name));
		if (!profile_executes(key->level)) {
			profile_state_names(x, key, name, detail);
			braid_folded_frame(out, name);
			braid_folded_frame(out, detail);
		} else if (part->stack == NO_STACK) {
			braid_folded_frame(out, "[no sample]");
		} else {
			stack = &x->stacks[part->stack];
			for (k = stack->nr; k--;) {
				braid_function_name(&x->functions, x->s->vcpus[key->vcpu].guest,
						    stack->functions[k], name);
				braid_folded_frame(out, name);
			}
			if (stack->off)
				braid_folded_frame(out, "[interrupts off]");
		}
	}
	braid_folded_end(out, from, &sum, &x->o);
	return 0;
}

static const struct braid_column profile_columns[] = {
	{ "GUEST", "guest", BRAID_CELL_TEXT }, { "WHAT", "what", BRAID_CELL_TEXT },
	{ "TIME", "total_ns", BRAID_CELL_DURATION }, { "SHARE", "share_ppm", BRAID_CELL_SHARE },
};

/* A guest's row: of a function, whatever called it, or of a state with its culprit or reason. */
static int profile_add_row(struct profile *x, const struct part *part, void *arg)
{
	struct braid_sum_key key = *part->key;
	struct braid_sums *rows = arg;

	key.task = BRAID_PID_UNKNOWN;
	if (key.vcpu != BRAID_NO_VCPU)
		key.vcpu = x->s->guests[x->s->vcpus[key.vcpu].guest->number].first_vcpu;
	if (profile_executes(key.level)) {
		key.level = BRAID_VCPU_GUEST;
		if (part->stack != NO_STACK) {
			key.detail = x->stacks[part->stack].functions[0];
			key.reason = x->stacks[part->stack].off;
		}
	}
	return braid_sums_add(rows, &key, part->ns, 0, NULL);
}

static void profile_name_row(const struct profile *x, const struct braid_sum_key *key,
			     char what[2 * BRAID_NAME_TEXT])
{
	char name[BRAID_NAME_TEXT], detail[BRAID_NAME_TEXT];

	if (key->vcpu == BRAID_NO_VCPU) {
		*what = 0;
	} else if (!profile_executes(key->level)) {
		profile_state_names(x, key, name, detail);
		snprintf(what, 2 * BRAID_NAME_TEXT, "%s%s%s", name, *detail ? " " : "", detail);
	} else if (!key->detail) {
		snprintf(what, 2 * BRAID_NAME_TEXT, "[no sample]");
	} else {
		braid_function_name(&x->functions, x->s->vcpus[key->vcpu].guest, key->detail, name);
		snprintf(what, 2 * BRAID_NAME_TEXT, "%s%s", name,
			 key->reason ? " [interrupts off]" : "");
	}
}

static void profile_put_row(const struct profile *x, const char *guest, const char *what, u64 ns,
			    struct braid_table *t)
{
	braid_table_text(t, guest);
	braid_table_text(t, what);
	braid_table_number(t, ns);
	braid_table_number(t, x->times.total_ns ? ns * 1e6 / x->times.total_ns : 0);
}

static void profile_put_rows(struct profile *x, struct braid_sums *rows, struct braid_table *t)
{
	/* Programs get all rows. */
	size_t nr = x->o.form == BRAID_TABLE_TEXT && rows->nr > x->o.top ? x->o.top : rows->nr, k;
	char what[2 * BRAID_NAME_TEXT], label[BRAID_STREAM_LABEL];
	u64 rest_ns = 0;

	braid_sums_sort(rows, braid_sum_by_total);
	for (k = 0; k < nr; k++) {
		const struct braid_sum_key *key = &rows->all[k]->key;

		profile_name_row(x, key, what);
		profile_put_row(x, key->vcpu == BRAID_NO_VCPU ? "others" :
				braid_stream_label(x->s->vcpus[key->vcpu].guest, label),
				what, rows->all[k]->total_ns, t);
	}
	for (; k < rows->nr; k++)
		rest_ns += rows->all[k]->total_ns;
	if (nr == rows->nr)
		return;
	snprintf(what, sizeof(what), "%zu more", rows->nr - nr);
	profile_put_row(x, "", what, rest_ns, t);
}

static void profile_write(void *state, struct braid_text *out)
{
	struct profile *x = state;
	struct braid_sums rows = { 0 };
	struct braid_table table = {
		.key = "profile", BRAID_COLUMNS(profile_columns), .empty = "No vCPU was observed.",
	};

	if (x->o.folded) {
		profile_all_parts(x, profile_write_line, out);
		return;
	}
	table.failed = profile_all_parts(x, profile_add_row, &rows);
	if (!table.failed)
		profile_put_rows(x, &rows, &table);
	braid_certainty_write(x->s, &x->o, out);
	if (x->o.form == BRAID_TABLE_TEXT && x->nr_others)
		braid_text_printf(out, "# %llu samples are not used: there are more than %u distinct stacks\n",
				  (unsigned long long)x->nr_others, MOST_STACKS);
	if (x->o.form == BRAID_TABLE_TEXT)
		braid_text_printf(out, "# %llu sample%s, and %llu period%s without one while interrupts were off%s\n",
				  (unsigned long long)x->nr_samples, x->nr_samples == 1 ? "" : "s",
				  (unsigned long long)x->nr_missed, x->nr_missed == 1 ? "" : "s",
				  x->nr_samples ? "" : "; record with -e sample for the guest's functions");
	else if (x->o.form == BRAID_TABLE_JSON)
		braid_text_printf(out, ",\"samples\":%llu,\"periods_off\":%llu,\"samples_of_others\":%llu",
				  (unsigned long long)x->nr_samples,
				  (unsigned long long)x->nr_missed,
				  (unsigned long long)x->nr_others);
	braid_text_puts(out, x->o.form == BRAID_TABLE_TEXT ? "\n" :
			x->o.form == BRAID_TABLE_JSON ? "," : "");
	braid_table_write(&table, x->o.form, out);
	braid_table_free(&table);
	braid_sums_free(&rows);
}

/* Life --------------------------------------------------------------------------------------- */

static int profile_begin(void *state, struct braid_states *s,
			 const struct braid_analysis_options *options)
{
	struct profile *x = state;

	x->s = s;
	x->o = *options;
	x->vcpus = calloc((size_t)s->nr_vcpus + 1, sizeof(*x->vcpus));
	return x->vcpus ? braid_functions_begin(&x->functions, s->source) : braid_out_of_memory();
}

static void profile_free(void *state)
{
	struct profile *x = state;

	braid_functions_free(&x->functions);
	braid_sums_free(&x->times);
	braid_sums_free(&x->samples);
	braid_hash_free(&x->by_stack);
	free(x->stacks);
	free(x->places);
	free(x->vcpus);
}

const struct braid_analysis braid_analysis_profile = {
	.name = "profile",
	.help = "where the vCPUs' time went, down to the guest's functions",
	.takes = 1u << BRAID_ANALYSIS_FOLDED | 1u << BRAID_ANALYSIS_ONE_TASK,
	.state_bytes = sizeof(struct profile),
	.begin = profile_begin,
	.states = { .span = profile_take_span },
	.event = profile_take_event,
	.write = profile_write,
	.free = profile_free,
};
