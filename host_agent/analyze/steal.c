// SPDX-License-Identifier: GPL-2.0-or-later
/* Who ran while a vCPU was runnable: victims and culprits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/compare.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/* A time in which a vCPU was stolen, without interruption. */
struct episode {
	u32 vcpu;
	s32 task;
	s64 from_ns, to_ns;	/* to_ns 0: none is open */
	struct braid_shares culprits;
};

struct steal {
	const struct braid_states *s;
	struct braid_analysis_options o;
	struct episode *open;		/* of each vCPU */
	struct braid_tally culprits;	/* of these */
	struct braid_sums sums;		/* by vCPU, culprit, perhaps task */
	struct braid_longest longest;	/* struct episode */
	struct braid_stolen *guests;	/* by stream's number; valid after steal_end() */
	u64 total_ns, episodes;
};

static s64 length(const struct episode *e)
{
	return e->to_ns - e->from_ns;
}

/* Of those that are equally long the earlier one counts as longer. */
static int steal_by_length(const void *a, const void *b)
{
	const struct episode *x = a, *y = b;

	return braid_compare(length(x), length(y)) ?: braid_compare(y->from_ns, x->from_ns) ?:
	       braid_compare(y->vcpu, x->vcpu);
}

/* A guest as a victim: its first vCPU. */
static u32 first_of(const struct steal *x, u32 vcpu)
{
	return x->s->guests[x->s->vcpus[vcpu].guest->number].first_vcpu;
}

/* What one culprit took of an episode. */
static int add_share(struct steal *x, const struct episode *e, const struct braid_culprit *culprit,
		     u64 ns)
{
	struct braid_sum_key key = {
		.vcpu = x->o.by_guest ? first_of(x, e->vcpu) : e->vcpu, .culprit = *culprit,
		.task = x->o.by_task ? e->task : BRAID_PID_UNKNOWN,
	};

	return ns ? braid_sums_add(&x->sums, &key, ns, e->from_ns, NULL) : 0;
}

static int add_shares(struct steal *x, const struct episode *e)
{
	static const struct braid_culprit others = {
		.kind = BRAID_CULPRIT_OTHERS, .vcpu = BRAID_NO_VCPU, .task = BRAID_PID_UNKNOWN,
	};
	const struct braid_share *share;
	int err = 0;
	u32 at = 0;

	while (!err && (share = braid_tally_next(&x->culprits, e->vcpu, &at)))
		err = add_share(x, e, &share->culprit, share->ns);
	return err ? err : add_share(x, e, &others, braid_tally_others(&x->culprits, e->vcpu));
}

/* An episode is over. */
static int steal_count(struct steal *x, struct episode *e)
{
	int err = e->to_ns ? add_shares(x, e) : 0;

	if (err || !e->to_ns)
		return err;
	x->total_ns += length(e);
	x->episodes++;
	if (braid_longest_takes(&x->longest, e)) {
		braid_tally_shares(&x->culprits, e->vcpu, &e->culprits);
		braid_longest_add(&x->longest, e);
	}
	e->to_ns = 0;
	return 0;
}

static int steal_take_span(void *arg, const struct braid_state_span *span)
{
	struct steal *x = arg;
	struct episode *e = &x->open[span->vcpu];
	struct braid_culprit culprit = span->culprit;
	int err = 0;

	if (e->to_ns && (span->state != BRAID_VCPU_STOLEN || span->from_ns != e->to_ns))
		err = steal_count(x, e);
	if (err || span->state != BRAID_VCPU_STOLEN ||
	    !braid_analysis_wants(x->s, &x->o, span->vcpu, span->task))
		return err;
	if (!e->to_ns) {
		e->vcpu = span->vcpu;
		e->task = span->task;
		e->from_ns = span->from_ns;
		braid_tally_clear(&x->culprits, span->vcpu);
	}
	if (x->o.by_guest)
		culprit = braid_culprit_group(x->s, &culprit);
	else if (!x->o.by_task)
		culprit.task = BRAID_PID_UNKNOWN;
	e->to_ns = span->to_ns;
	return braid_tally_add(&x->culprits, span->vcpu, &culprit, span->to_ns - span->from_ns);
}

/* Output ------------------------------------------------------------------------------------- */

/* The first column appears only with --by=task. */
static const struct braid_column matrix_columns[] = {
	{ "TASK", "task", BRAID_CELL_TEXT }, { "VICTIM", "victim", BRAID_CELL_TEXT },
	{ "CULPRIT", "culprit", BRAID_CELL_TEXT }, { "TOTAL", "total_ns", BRAID_CELL_DURATION },
	{ "SHARE", "share_ppm", BRAID_CELL_SHARE }, { "COUNT", "count", BRAID_CELL_COUNT },
	BRAID_SUM_COLUMNS,
};

static const struct braid_column longest_columns[] = {
	{ "AT", "at_ns", BRAID_CELL_TIME }, { "FOR", "duration_ns", BRAID_CELL_DURATION },
	{ "VICTIM", "victim", BRAID_CELL_TEXT }, { "TASK", "task", BRAID_CELL_TEXT },
	{ "CULPRITS", "culprits", BRAID_CELL_LIST },
};

static void put_numbers(const struct steal *x, const struct braid_sum *sum, struct braid_table *t)
{
	braid_table_number(t, sum->total_ns);
	braid_table_number(t, x->total_ns ? sum->total_ns * 1e6 / x->total_ns : 0);
	braid_table_number(t, sum->count);
	braid_sum_put(sum, t);
}

/* The rest of the matrix, as one row: the rows add up to the whole. */
static void steal_put_rest(const struct steal *x, struct braid_table *t, size_t first)
{
	struct braid_sum *rest = calloc(1, sizeof(*rest));
	char name[BRAID_NAME_TEXT];
	size_t k;

	if (!rest) {
		t->failed = true;
		return;
	}
	for (k = first; k < x->sums.nr; k++)
		braid_sums_merge(rest, x->sums.all[k]);
	snprintf(name, sizeof(name), "%zu more pair%s", x->sums.nr - first,
		 x->sums.nr - first == 1 ? "" : "s");
	if (x->o.by_task)
		braid_table_text(t, "");
	braid_table_text(t, name);
	braid_table_text(t, "");
	put_numbers(x, rest, t);
	free(rest);
}

static void put_matrix(struct steal *x, struct braid_table *t)
{
	/* Programs get all rows. */
	size_t nr = x->o.form == BRAID_TABLE_TEXT && x->sums.nr > x->o.top ? x->o.top :
									      x->sums.nr, k;
	char name[BRAID_NAME_TEXT];

	braid_sums_sort(&x->sums, braid_sum_by_total);
	for (k = 0; k < nr; k++) {
		const struct braid_sum *cell = x->sums.all[k];

		if (x->o.by_task)
			braid_table_text(t, braid_sum_task_name(x->s, &cell->key, name));
		if (x->o.by_guest && cell->key.vcpu != BRAID_NO_VCPU)
			braid_table_text(t, braid_stream_label(x->s->vcpus[cell->key.vcpu].guest, name));
		else
			braid_table_text(t, braid_sum_vcpu_name(x->s, &cell->key, name));
		braid_table_text(t, braid_culprit_name(x->s, &cell->key.culprit, name));
		put_numbers(x, cell, t);
	}
	if (nr < x->sums.nr)
		steal_put_rest(x, t, nr);
}

static void put_longest(struct steal *x, struct braid_table *t)
{
	const struct episode *all = (const struct episode *)x->longest.items;
	char name[BRAID_NAME_TEXT];
	u32 k;

	braid_longest_sort(&x->longest);
	for (k = 0; k < x->longest.nr; k++) {
		const struct episode *e = &all[k];

		braid_table_number(t, e->from_ns);
		braid_table_number(t, length(e));
		braid_table_text(t, braid_vcpu_name(x->s, e->vcpu, name));
		braid_task_name(x->s, x->s->vcpus[e->vcpu].guest->number, e->task, name);
		braid_table_text(t, name);
		braid_shares_put(x->s, &e->culprits, x->o.form, t);
	}
}

/* The time in which the recorder ran; BRAID_CELL_NONE: the trace does not say which threads it had. */
static s64 recorder_ns(const struct steal *x)
{
	bool known = false;
	s64 ns = 0;
	size_t k;

	for (k = 0; k < x->s->source->nr_streams; k++)
		known |= x->s->source->streams[k]->kind == BRAID_STREAM_HOST &&
			 x->s->source->streams[k]->nr_others;
	for (k = 0; k < x->sums.nr; k++)
		if (braid_culprit_is_recorder(x->s, &x->sums.all[k]->key.culprit))
			ns += x->sums.all[k]->total_ns;
	return known && braid_states_seen(x->s).switches ? ns : BRAID_CELL_NONE;
}

void braid_steal_recorder_write(const void *state, struct braid_text *out)
{
	const struct steal *x = state;
	s64 ns = recorder_ns(x);
	char took[24];

	if (x->o.form == BRAID_TABLE_JSON) {
		braid_text_puts(out, ",\"recorder_ns\":");
		if (ns == BRAID_CELL_NONE)
			braid_text_puts(out, "null");
		else
			braid_text_printf(out, "%lld", (long long)ns);
	} else if (x->o.form == BRAID_TABLE_TEXT && ns != BRAID_CELL_NONE) {
		braid_duration_text(ns, took);
		braid_text_printf(out, "# of the stolen time, tracebraid's own recorder took %s (%.2f %%)\n",
				  took, x->total_ns ? 100.0 * ns / x->total_ns : 0);
	}
}

/* "guest1;vCPU 0;dd[123];guest2/vCPU 1: cc1[45] 12345" */
static void write_folded(const struct steal *x, struct braid_text *out)
{
	char name[BRAID_NAME_TEXT];
	size_t k, from;

	for (k = 0; k < x->sums.nr; k++) {
		const struct braid_sum_key *key = &x->sums.all[k]->key;

		from = out->bytes;
		braid_folded_vcpu(x->s, key, out);
		if (key->vcpu != BRAID_NO_VCPU) {
			braid_folded_frame(out, braid_sum_task_name(x->s, key, name));
			braid_folded_frame(out, braid_culprit_name(x->s, &key->culprit, name));
		}
		braid_folded_end(out, from, x->sums.all[k], &x->o);
	}
}

static void steal_write(void *state, struct braid_text *out)
{
	struct steal *x = state;
	struct braid_table matrix = {
		.key = "steal", .columns = matrix_columns + !x->o.by_task,
		.nr_columns = sizeof(matrix_columns) / sizeof(matrix_columns[0]) - !x->o.by_task,
		.empty = braid_states_seen(x->s).switches ? "No vCPU was stolen." :
			 "Stolen time is unknown: record with --host.",
	}, longest = {
		.key = "longest", BRAID_COLUMNS(longest_columns), .title = "Longest episodes:",
	};
	char total[24];

	if (x->o.folded) {
		braid_sums_sort(&x->sums, braid_sum_by_total);
		write_folded(x, out);
		return;
	}
	put_matrix(x, &matrix);
	put_longest(x, &longest);
	braid_certainty_write(x->s, &x->o, out);
	braid_duration_text(x->total_ns, total);
	if (x->o.form == BRAID_TABLE_TEXT)
		braid_text_printf(out, "# stolen: %s in %llu episode%s\n", total,
				  (unsigned long long)x->episodes, x->episodes == 1 ? "" : "s");
	else if (x->o.form == BRAID_TABLE_JSON)
		braid_text_printf(out, ",\"stolen_ns\":%llu,\"episodes\":%llu",
				  (unsigned long long)x->total_ns, (unsigned long long)x->episodes);
	braid_steal_recorder_write(x, out);
	braid_text_puts(out, x->o.form == BRAID_TABLE_TEXT ? "\n" :
			x->o.form == BRAID_TABLE_JSON ? "," : "");
	braid_table_write(&matrix, x->o.form, out);
	braid_table_write_next(&longest, x->o.form, out);
	braid_table_free(&matrix);
	braid_table_free(&longest);
}

/* Guests ------------------------------------------------------------------------------------- */

static bool steal_is_of(const struct steal *x, u32 vcpu, u32 stream)
{
	return vcpu != BRAID_NO_VCPU && x->s->vcpus[vcpu].guest->number == stream;
}

/* Those of one culprit, whatever its tasks are, next to each other; so are those of one guest then. */
static int by_culprit(const void *a, const void *b)
{
	const struct braid_sum *x = *(struct braid_sum *const *)a;
	const struct braid_sum *y = *(struct braid_sum *const *)b;

	return braid_compare(x->key.culprit.kind, y->key.culprit.kind) ?:
	       braid_compare(x->key.culprit.id, y->key.culprit.id) ?:
	       braid_compare(x->key.vcpu, y->key.vcpu);
}

static bool same_culprit(const struct braid_culprit *a, const struct braid_culprit *b)
{
	return a->kind == b->kind && a->id == b->id;
}

/* What was taken from each guest. */
static void sum_guests(struct steal *x)
{
	const struct braid_culprit *last = NULL, *culprit;
	u32 of = BRAID_NO_VCPU, stream;
	struct braid_stolen *g;
	u64 sum = 0;
	size_t k;

	braid_sums_sort(&x->sums, by_culprit);
	for (k = 0; k < x->sums.nr; k++) {
		const struct braid_sum *cell = x->sums.all[k];

		if (cell->key.vcpu == BRAID_NO_VCPU)
			continue;
		culprit = &cell->key.culprit;
		stream = x->s->vcpus[cell->key.vcpu].guest->number;
		if (!last || !same_culprit(last, culprit) || stream != of)
			sum = 0;
		last = culprit;
		of = stream;
		sum += cell->total_ns;
		g = &x->guests[stream];
		if (culprit->kind == BRAID_CULPRIT_UNKNOWN) {
			g->unknown_ns += cell->total_ns;
		} else if (sum > g->culprit_ns && culprit->kind != BRAID_CULPRIT_OTHERS) {
			g->culprit_ns = sum;
			g->culprit = culprit;
		}
		if (culprit->kind == BRAID_CULPRIT_VCPU && steal_is_of(x, culprit->vcpu, stream))
			g->own_ns += cell->total_ns;
	}
}

/* Life --------------------------------------------------------------------------------------- */

static int steal_begin(void *state, struct braid_states *s,
		       const struct braid_analysis_options *options)
{
	struct steal *x = state;
	int err;

	x->s = s;
	x->o = *options;
	x->o.by_task |= x->o.folded;
	x->o.by_guest &= !x->o.folded;
	x->open = calloc((size_t)s->nr_vcpus + 1, sizeof(*x->open));
	x->guests = calloc(s->source->nr_streams + 1, sizeof(*x->guests));
	if (!x->open || !x->guests)
		return braid_out_of_memory();
	err = braid_tally_begin(&x->culprits, s->nr_vcpus);
	return err ? err : braid_longest_begin(&x->longest, x->o.top, sizeof(struct episode),
					       steal_by_length);
}

static int steal_end(void *state)
{
	struct steal *x = state;
	int err = 0;
	u32 k;

	for (k = 0; k < x->s->nr_vcpus && !err; k++)
		err = steal_count(x, &x->open[k]);
	if (!err)
		sum_guests(x);
	return err;
}

static void steal_free_state(void *state)
{
	struct steal *x = state;

	braid_sums_free(&x->sums);
	braid_tally_free(&x->culprits);
	free(x->open);
	free(x->guests);
	braid_longest_free(&x->longest);
}

const struct braid_stolen *braid_steal_of(const void *state, u32 stream)
{
	return &((const struct steal *)state)->guests[stream];
}

const struct braid_analysis braid_analysis_steal = {
	.name = "steal",
	.help = "what ran while a vCPU was runnable and did not run",
	.takes = 1u << BRAID_ANALYSIS_BY_TASK | 1u << BRAID_ANALYSIS_BY_GUEST | 1u << BRAID_ANALYSIS_FOLDED |
		 1u << BRAID_ANALYSIS_ONE_TASK,
	.compares = 1u << BRAID_MEASURE_CULPRIT,
	.state_bytes = sizeof(struct steal),
	.begin = steal_begin,
	.states = { .span = steal_take_span },
	.end = steal_end,
	.write = steal_write,
	.free = steal_free_state,
};
