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
#include "host_agent/analyze/profile_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

static int profile_take_span(void *arg, const struct braid_state_span *span)
{
	struct braid_profile *x = arg;
	struct braid_sum_key key = {
		.vcpu = span->vcpu, .task = span->task, .culprit = span->culprit,
		/* Whether the host's events tell its modes or not, the same samples divide it. */
		.level = braid_profile_executes(span->state) ? BRAID_VCPU_GUEST : span->state,
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

/* A part of the time: of a state, and of a stack: of the guest, if the vCPU executed. */
struct part {
	const struct braid_sum_key *key;
	u32 stack;		/* or BRAID_PROFILE_NO_STACK */
	u64 ns;
	u64 periods;		/* of its samples */
};

typedef int (*profile_part_fn)(struct braid_profile *x, const struct part *part, void *arg);

/* What samples of a row have in common: the host's are of its state and reason, too. */
static int profile_compare_row(const struct braid_sum_key *x, const struct braid_sum_key *y)
{
	return braid_compare(x->vcpu, y->vcpu) ?: braid_compare(x->task, y->task) ?:
	       braid_compare(x->level, y->level) ?: braid_compare(x->reason, y->reason);
}

/* So that samples of a row are next to each other. */
static int profile_by_row(const void *a, const void *b)
{
	const struct braid_sum *x = *(struct braid_sum *const *)a;
	const struct braid_sum *y = *(struct braid_sum *const *)b;

	return profile_compare_row(&x->key, &y->key) ?: braid_compare(x->key.detail, y->key.detail);
}

/* Where the samples of a row begin, after profile_by_row(). */
static size_t profile_find_samples(const struct braid_sums *samples,
				   const struct braid_sum_key *key)
{
	size_t after;

	braid_array_first(after, samples->nr,
			  profile_compare_row(&samples->all[after]->key, key) >= 0);
	return after;
}

/* Divides a row's time by its samples: to the last ns. */
static int profile_divide(struct braid_profile *x, const struct braid_sum *row, profile_part_fn fn,
			  void *arg)
{
	bool executes = braid_profile_executes(row->key.level);
	const struct braid_sums *samples = executes ? &x->samples : &x->host_samples;
	struct braid_sum_key key = row->key;
	struct part part = { .key = &row->key, .stack = BRAID_PROFILE_NO_STACK };
	u64 all = 0, sum = 0, given_ns = 0, until_ns;
	size_t first, k;
	int err = 0;

	if (executes)
		key.level = key.reason = 0;
	first = profile_find_samples(samples, &key);
	for (k = first; k < samples->nr && !profile_compare_row(&samples->all[k]->key, &key); k++)
		all += samples->all[k]->total_ns;
	for (k = first; !err && sum < all; k++) {
		sum += samples->all[k]->total_ns;
		until_ns = sum == all ? row->total_ns :
			   (u64)((long double)row->total_ns * sum / all);
		part.stack = samples->all[k]->key.detail;
		part.ns = until_ns - given_ns;
		part.periods = samples->all[k]->returned;
		given_ns = until_ns;
		err = fn(x, &part, arg);
	}
	if (all || err)
		return err;
	part.ns = row->total_ns;
	return fn(x, &part, arg);
}

static int profile_all_parts(struct braid_profile *x, profile_part_fn fn, void *arg)
{
	struct part part = { .stack = BRAID_PROFILE_NO_STACK };
	int err = 0;
	size_t k;

	braid_sums_sort(&x->samples, profile_by_row);
	braid_sums_sort(&x->host_samples, profile_by_row);
	braid_sums_sort(&x->times, braid_sum_by_total);
	for (k = 0; k < x->times.nr && !err; k++) {
		const struct braid_sum *row = x->times.all[k];

		if (row->key.vcpu != BRAID_NO_VCPU) {
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
static void profile_state_names(const struct braid_profile *x, const struct braid_sum_key *key,
				char state[BRAID_NAME_TEXT], char detail[BRAID_NAME_TEXT])
{
	*detail = 0;
	snprintf(state, BRAID_NAME_TEXT, "[%s]", braid_vcpu_state_name(key->level));
	if (key->level == BRAID_VCPU_STOLEN || key->level == BRAID_VCPU_THROTTLED)
		braid_culprit_name(x->s, &key->culprit, detail);
	else if (key->level == BRAID_VCPU_KVM || key->level == BRAID_VCPU_VMM)
		braid_exit_name(key->reason, detail);
}

static void profile_function_name(const struct braid_profile *x, const struct braid_stream *of,
				  u64 function, char name[BRAID_NAME_TEXT])
{
	if (function == BRAID_FUNCTION_ENDS)
		snprintf(name, BRAID_NAME_TEXT, "[ends here]");
	else if (function >= BRAID_FUNCTION_CODE && !(function & BRAID_FUNCTION_KERNEL))
		braid_user_code_name(&x->user, function, name);
	else
		braid_function_name(&x->functions, of, function, name);
}

static const char *profile_late_name(u32 late)
{
	static const char *const names[] = { "", "[interrupts off]", "[timer late]" };

	return names[late];
}

static void profile_write_stack(const struct braid_profile *x, u32 number, struct braid_text *out)
{
	const struct braid_profile_stack *stack = &x->stacks[number];
	char name[BRAID_NAME_TEXT];
	u32 k;

	for (k = stack->nr; k--;) {
		profile_function_name(x, stack->of, stack->functions[k], name);
		braid_folded_frame(out, name);
	}
	braid_folded_frame(out, profile_late_name(stack->late));
}

/* "guest1;vCPU 0;dd[123];user space;do_syscall_64;...", or ";[stolen];guest2" */
static int profile_write_line(struct braid_profile *x, const struct part *part, void *arg)
{
	const struct braid_sum_key *key = part->key;
	const struct braid_sum sum = { .key = *key, .count = part->periods, .total_ns = part->ns };
	char name[BRAID_NAME_TEXT], detail[BRAID_NAME_TEXT];
	struct braid_text *out = arg;
	size_t from = out->bytes;

	braid_folded_vcpu(x->s, key, out);
	if (key->vcpu != BRAID_NO_VCPU) {
		braid_folded_frame(out, braid_sum_task_name(x->s, key, name));
		if (!braid_profile_executes(key->level)) {
			profile_state_names(x, key, name, detail);
			braid_folded_frame(out, name);
			braid_folded_frame(out, detail);
		} else if (part->stack == BRAID_PROFILE_NO_STACK) {
			braid_folded_frame(out, "[no sample]");
		}
		if (part->stack != BRAID_PROFILE_NO_STACK)
			profile_write_stack(x, part->stack, out);
	}
	braid_folded_end(out, from, &sum, &x->o);
	return 0;
}

static const struct braid_column profile_columns[] = {
	{ "GUEST", "guest", BRAID_CELL_TEXT }, { "WHAT", "what", BRAID_CELL_TEXT },
	{ "TIME", "total_ns", BRAID_CELL_DURATION }, { "SHARE", "share_ppm", BRAID_CELL_SHARE },
};

/* A guest's row: of a function, whatever called it, or of a state with its culprit or reason. */
static int profile_add_row(struct braid_profile *x, const struct part *part, void *arg)
{
	struct braid_sum_key key = *part->key;
	struct braid_sums *rows = arg;

	key.task = BRAID_PID_UNKNOWN;
	if (key.vcpu != BRAID_NO_VCPU)
		key.vcpu = x->s->guests[x->s->vcpus[key.vcpu].guest->number].first_vcpu;
	if (braid_profile_executes(key.level) && part->stack != BRAID_PROFILE_NO_STACK) {
		key.detail = x->stacks[part->stack].functions[0];
		key.reason = x->stacks[part->stack].late;
	}
	return braid_sums_add(rows, &key, part->ns, 0, NULL);
}

static void profile_name_row(const struct braid_profile *x, const struct braid_sum_key *key,
			     char what[2 * BRAID_NAME_TEXT])
{
	char name[BRAID_NAME_TEXT], detail[BRAID_NAME_TEXT];

	if (key->vcpu == BRAID_NO_VCPU) {
		*what = 0;
	} else if (!braid_profile_executes(key->level)) {
		profile_state_names(x, key, name, detail);
		snprintf(what, 2 * BRAID_NAME_TEXT, "%s%s%s", name, *detail ? " " : "", detail);
	} else if (!key->detail) {
		snprintf(what, 2 * BRAID_NAME_TEXT, "[no sample]");
	} else {
		profile_function_name(x, x->s->vcpus[key->vcpu].guest, key->detail, name);
		snprintf(what, 2 * BRAID_NAME_TEXT, "%s%s%s", name, key->reason ? " " : "",
			 profile_late_name(key->reason));
	}
}

static void profile_put_row(const struct braid_profile *x, const char *guest, const char *what,
			    u64 ns, struct braid_table *t)
{
	braid_table_text(t, guest);
	braid_table_text(t, what);
	braid_table_number(t, ns);
	braid_table_number(t, x->times.total_ns ? ns * 1e6 / x->times.total_ns : 0);
}

static void profile_put_rows(struct braid_profile *x, struct braid_sums *rows,
			     struct braid_table *t)
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
	struct braid_profile *x = state;
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
		braid_text_printf(out, "# %llu samples are not used: there are more than %u distinct stacks, or stacks of tasks\n",
				  (unsigned long long)x->nr_others, BRAID_PROFILE_STACKS);
	if (x->o.form == BRAID_TABLE_TEXT && (x->user.nr_unmapped || x->user.nr_unnamed))
		braid_text_printf(out, "# user code is incomplete: %llu mappings are not used, and %llu times an address was not named, because there are too many\n",
				  (unsigned long long)x->user.nr_unmapped,
				  (unsigned long long)x->user.nr_unnamed);
	if (x->o.form == BRAID_TABLE_TEXT)
		braid_text_printf(out, "# %llu sample%s, and %llu period%s without one while the vCPU executed%s\n",
				  (unsigned long long)x->nr_samples, x->nr_samples == 1 ? "" : "s",
				  (unsigned long long)x->nr_missed, x->nr_missed == 1 ? "" : "s",
				  x->nr_samples ? "" : "; record with --sample 99 for the guest's functions");
	else if (x->o.form == BRAID_TABLE_JSON)
		braid_text_printf(out, ",\"samples\":%llu,\"periods_off\":%llu,\"samples_of_others\":%llu,\"mappings_of_others\":%llu,\"addresses_of_others\":%llu",
				  (unsigned long long)x->nr_samples,
				  (unsigned long long)x->nr_missed,
				  (unsigned long long)x->nr_others,
				  (unsigned long long)x->user.nr_unmapped,
				  (unsigned long long)x->user.nr_unnamed);
	braid_text_puts(out, x->o.form == BRAID_TABLE_TEXT ? "\n" :
			x->o.form == BRAID_TABLE_JSON ? "," : "");
	braid_table_write(&table, x->o.form, out);
	braid_table_free(&table);
	braid_sums_free(&rows);
}

u64 braid_profile_samples(const void *state)
{
	const struct braid_profile *x = state;

	return x->nr_samples + x->nr_host_samples;
}

/* Life --------------------------------------------------------------------------------------- */

static int profile_begin(void *state, struct braid_states *s,
			 const struct braid_analysis_options *options)
{
	struct braid_profile *x = state;

	x->s = s;
	x->o = *options;
	x->user.binaries = options->binaries;
	x->vcpus = calloc((size_t)s->nr_vcpus + 1, sizeof(*x->vcpus));
	if (!x->vcpus)
		return braid_out_of_memory();
	return braid_functions_begin(&x->functions, s->source, true, options->binaries);
}

static void profile_free(void *state)
{
	struct braid_profile *x = state;

	braid_functions_free(&x->functions);
	braid_sums_free(&x->times);
	braid_sums_free(&x->samples);
	braid_sums_free(&x->host_samples);
	braid_user_code_free(&x->user);
	braid_hash_free(&x->by_stack);
	free(x->stacks);
	free(x->places);
	free(x->vcpus);
}

const struct braid_analysis braid_analysis_profile = {
	.name = "profile",
	.help = "where the vCPUs' time went, down to the guest's functions",
	.takes = 1u << BRAID_ANALYSIS_FOLDED | 1u << BRAID_ANALYSIS_ONE_TASK |
		 1u << BRAID_ANALYSIS_SYMBOLS,
	.state_bytes = sizeof(struct braid_profile),
	.begin = profile_begin,
	.states = { .span = profile_take_span },
	.event = braid_profile_take_event,
	.end = braid_profile_settle,
	.write = profile_write,
	.free = profile_free,
};
