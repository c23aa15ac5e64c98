// SPDX-License-Identifier: GPL-2.0-or-later
/* Joins the measures of two captures by name, and writes what differs. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/compare.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define ALPHA	0.01	/* of comparisons, all their measures together */

enum side { NOW, OTHER };

/* A measure of both captures. */
struct row {
	const char *guest;
	enum braid_measure_kind kind;
	char name[BRAID_NAME_TEXT];
	u64 part[2][BRAID_COMPARE_BINS];
	u64 whole[2][BRAID_COMPARE_BINS];
	bool has[2];			/* the guest is in that capture */
	struct braid_estimate of[2];
	double change, interval;	/* interval: negative if unknown, ... */
	double chance;			/* ... as the probability of the change by chance */
	bool significant;
};

struct comparison {
	struct braid_measures *sides[2];
	bool kvm, user;			/* both have kvm events; kvm_userspace_exit */
	struct row *rows;
	size_t nr, capacity;
};

static const char *guest_of(const struct braid_measures *m, const struct braid_measure *measure)
{
	return m->s->source->streams[measure->key.stream]->name;
}

static void add_bins(u64 *to, const u64 *from)
{
	u32 k;

	for (k = 0; k < BRAID_COMPARE_BINS; k++)
		to[k] += from[k];
}

/* Of all streams of that name: a guest that reboots has several. Return: whether there is one. */
static bool add_whole(const struct braid_measures *m, const char *guest,
		      enum braid_measure_kind kind, u64 *to)
{
	bool any = false;
	size_t k;

	for (k = 0; k < m->nr; k++) {
		if (m->all[k].key.kind != kind || strcmp(guest_of(m, &m->all[k]), guest))
			continue;
		add_bins(to, m->all[k].of);
		any = true;
	}
	return any;
}

/* States that only kvm events tell apart have one name if either capture has no such events. */
static const char *name_of_state(const struct comparison *c, enum braid_vcpu_state state)
{
	if (!c->kvm && (state == BRAID_VCPU_GUEST || state == BRAID_VCPU_KVM || state == BRAID_VCPU_VMM))
		state = BRAID_VCPU_RUNS;
	if (!c->user && state == BRAID_VCPU_VMM)
		state = BRAID_VCPU_KVM;
	if (!c->kvm && (state == BRAID_VCPU_HALTED || state == BRAID_VCPU_BLOCKED))
		state = BRAID_VCPU_SLEEPS;
	return braid_vcpu_state_name(state);
}

/* Threads of one name are one culprit, whatever their ids: kworker/1:2[99] is kworker. */
static void name_culprit(const struct braid_measures *m, const struct braid_measure_key *key,
			 char name[BRAID_NAME_TEXT])
{
	struct braid_culprit culprit = { .kind = key->culprit, .id = (s32)key->id };

	if (key->culprit == BRAID_CULPRIT_VCPU) {
		snprintf(name, BRAID_NAME_TEXT, "%s", m->s->source->streams[key->id]->name);
		return;
	}
	braid_culprit_name(m->s, &culprit, name);
	if (key->culprit == BRAID_CULPRIT_TASK)
		name[strcspn(name, "/[")] = 0;
}

static void name_measure(const struct comparison *c, const struct braid_measures *m,
			 const struct braid_measure_key *key, char name[BRAID_NAME_TEXT])
{
	char what[BRAID_NAME_TEXT];

	switch (key->kind) {
	case BRAID_MEASURE_STATE:
		snprintf(name, BRAID_NAME_TEXT, "%s", name_of_state(c, key->id));
		break;
	case BRAID_MEASURE_CULPRIT:
		name_culprit(m, key, what);
		snprintf(name, BRAID_NAME_TEXT, "stolen by %.100s", what);
		break;
	case BRAID_MEASURE_WAIT:
		snprintf(name, BRAID_NAME_TEXT, "wait after a wakeup");
		break;
	case BRAID_MEASURE_WOKEN:
		snprintf(name, BRAID_NAME_TEXT, "wakeups");
		break;
	case BRAID_MEASURE_EXITS:
		snprintf(name, BRAID_NAME_TEXT, "exits");
		break;
	default:
		braid_exit_name(key->id, what);
		snprintf(name, BRAID_NAME_TEXT, "exits: %.100s", what);
	}
}

/* Whether a capture has the events that a measure of a guest is made of. */
static bool is_recorded(const struct braid_measures *m, const char *guest,
			enum braid_measure_kind kind)
{
	const struct braid_source *source = m->s->source;
	bool woken = false;
	size_t k;

	if (kind == BRAID_MEASURE_EXITS || kind == BRAID_MEASURE_REASON)
		return braid_states_seen(m->s).kvm;
	if (kind != BRAID_MEASURE_WAIT && kind != BRAID_MEASURE_WOKEN)
		return true;
	for (k = 0; k < source->nr_streams; k++)
		woken |= m->s->guests[k].any_wakeup && !strcmp(source->streams[k]->name, guest);
	return woken;
}

/* Whether the analysis compares this. */
static bool is_wanted(const struct braid_analysis_options *o, enum braid_measure_kind kind)
{
	return kind != BRAID_MEASURE_TIME && o->compares & 1u << kind;
}

static int add_measure(struct comparison *c, enum side side, const struct braid_measure *measure)
{
	const struct braid_measures *m = c->sides[side];
	const char *guest = guest_of(m, measure);
	enum braid_measure_kind whole = measure->key.kind == BRAID_MEASURE_WAIT ?
					BRAID_MEASURE_WOKEN : BRAID_MEASURE_TIME;
	struct row new = { .guest = guest, .kind = measure->key.kind }, *row = NULL;
	size_t k;

	name_measure(c, m, &measure->key, new.name);
	for (k = 0; k < c->nr && !row; k++)
		if (c->rows[k].kind == new.kind && !strcmp(c->rows[k].guest, guest) &&
		    !strcmp(c->rows[k].name, new.name))
			row = &c->rows[k];
	if (!row) {
		for (k = NOW; k <= OTHER; k++)
			new.has[k] = add_whole(c->sides[k], guest, whole, new.whole[k]) &&
				     is_recorded(c->sides[k], guest, new.kind);
		if (braid_array_push(c->rows, c->nr, c->capacity, new))
			return braid_out_of_memory();
		row = &c->rows[c->nr - 1];
	}
	add_bins(row->part[side], measure->of);
	return 0;
}

static bool is_in_both(const struct row *row)
{
	return row->has[NOW] && row->has[OTHER];
}

static void estimate(struct comparison *c)
{
	enum side side;
	size_t k;

	for (k = 0; k < c->nr; k++) {
		struct row *row = &c->rows[k];

		for (side = NOW; side <= OTHER; side++)
			row->of[side] = braid_estimate_of(row->part[side], row->whole[side],
							  c->sides[side]->nr_bins);
		row->change = row->of[NOW].ratio - row->of[OTHER].ratio;
		row->interval = row->chance = -1;
		if (!is_in_both(row))
			continue;
		row->interval = braid_interval_of(&row->of[NOW], &row->of[OTHER]);
		row->chance = braid_chance_of(&row->of[NOW], &row->of[OTHER]);
	}
}

static int by_chance(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return braid_compare(x->chance, y->chance);
}

/*
 * Of many unchanged measures, some are far apart by chance: the more measures, the less likely by chance a change must be
 * (Holm). So in ALPHA of all comparisons of one cause at most, any measure appears as changed.
 */
static void comparison_judge(struct comparison *c)
{
	size_t k, left = 0;

	for (k = 0; k < c->nr; k++)
		left += c->rows[k].chance >= 0;
	qsort(c->rows, c->nr, sizeof(*c->rows), by_chance);
	for (k = 0; k < c->nr; k++) {
		if (c->rows[k].chance < 0)
			continue;
		if (c->rows[k].chance * left > ALPHA)
			break;
		c->rows[k].significant = true;
		left--;
	}
}

/* Measures of one unit have one rank: shares of time, waits, numbers per second. */
static int rank_of(const struct row *row)
{
	return row->kind == BRAID_MEASURE_STATE || row->kind == BRAID_MEASURE_CULPRIT ? 0 :
	       row->kind == BRAID_MEASURE_WAIT ? 1 : 2;
}

/* The significant ones first; of one unit, the largest change first. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return y->significant - x->significant ?: rank_of(x) - rank_of(y) ?:
	       braid_compare(fabs(y->change), fabs(x->change)) ?: strcmp(x->guest, y->guest) ?:
	       strcmp(x->name, y->name);
}

/* Output ------------------------------------------------------------------------------------- */

static const struct braid_column for_people[] = {
	{ "GUEST", "guest", BRAID_CELL_TEXT }, { "MEASURE", "measure", BRAID_CELL_TEXT },
	{ "CHANGE", "change", BRAID_CELL_FIGURE }, { "99 % CI", "interval", BRAID_CELL_FIGURE },
	{ "OTHER", "other", BRAID_CELL_FIGURE }, { "NOW", "now", BRAID_CELL_FIGURE },
	{ "VERDICT", "verdict", BRAID_CELL_TEXT },
};

static const struct braid_column for_programs[] = {
	{ "GUEST", "guest", BRAID_CELL_TEXT }, { "MEASURE", "measure", BRAID_CELL_TEXT },
	{ "UNIT", "unit", BRAID_CELL_TEXT }, { "OTHER", "other", BRAID_CELL_COUNT },
	{ "NOW", "now", BRAID_CELL_COUNT }, { "CHANGE", "change", BRAID_CELL_COUNT },
	{ "99 % CI", "interval", BRAID_CELL_COUNT }, { "SIGNIFICANT", "significant", BRAID_CELL_COUNT },
};

/* What a ratio is multiplied by for programs. */
static double scale_of(const struct row *row, const char **unit)
{
	switch (row->kind) {
	case BRAID_MEASURE_STATE:
	case BRAID_MEASURE_CULPRIT:
		*unit = "ppm";
		return 1e6;
	case BRAID_MEASURE_WAIT:
		*unit = "ns";
		return 1;
	default:
		*unit = "per_1000_s";
		return 1e12;
	}
}

/* A ratio for people, or a difference of two with its @sign. */
static void put_figure(struct braid_table *t, const struct row *row, double ratio, const char *sign)
{
	char text[64], duration[24];

	switch (row->kind) {
	case BRAID_MEASURE_STATE:
	case BRAID_MEASURE_CULPRIT:
		snprintf(text, sizeof(text), "%s%.2f %%", sign, 100 * ratio);
		break;
	case BRAID_MEASURE_WAIT:
		braid_duration_text(ratio, duration);
		snprintf(text, sizeof(text), "%s%s", sign, duration);
		break;
	default:
		snprintf(text, sizeof(text), "%s%.1f/s", sign, 1e9 * ratio);
	}
	braid_table_text(t, text);
}

static void put_for_people(const struct row *row, struct braid_table *t)
{
	braid_table_text(t, row->guest);
	braid_table_text(t, row->name);
	if (is_in_both(row))
		put_figure(t, row, fabs(row->change), row->change < 0 ? "-" : "+");
	else
		braid_table_text(t, "-");
	if (row->interval >= 0)
		put_figure(t, row, row->interval, "±");
	else
		braid_table_text(t, "-");
	if (row->has[OTHER])
		put_figure(t, row, row->of[OTHER].ratio, "");
	else
		braid_table_text(t, "-");
	if (row->has[NOW])
		put_figure(t, row, row->of[NOW].ratio, "");
	else
		braid_table_text(t, "-");
	braid_table_text(t, row->significant ? row->change > 0 ? "more" : "less" :
			 row->interval >= 0 ? "no significant change" :
			 is_in_both(row) ? "too few data" : "not recorded in both");
}

/* A capture may hold any number. */
static s64 rounded(double value)
{
	return value >= 9.2e18 ? INT64_MAX : value <= -9.2e18 ? -INT64_MAX : llround(value);
}

static void put_for_programs(const struct row *row, struct braid_table *t)
{
	const char *unit;
	double scale = scale_of(row, &unit);

	braid_table_text(t, row->guest);
	braid_table_text(t, row->name);
	braid_table_text(t, unit);
	braid_table_number(t, row->has[OTHER] ? rounded(row->of[OTHER].ratio * scale) : BRAID_CELL_NONE);
	braid_table_number(t, row->has[NOW] ? rounded(row->of[NOW].ratio * scale) : BRAID_CELL_NONE);
	braid_table_number(t, is_in_both(row) ? rounded(row->change * scale) : BRAID_CELL_NONE);
	braid_table_number(t, row->interval >= 0 ? rounded(row->interval * scale) : BRAID_CELL_NONE);
	braid_table_number(t, row->significant);
}

/* How certain the states of both captures are. */
static void write_certainty(const struct comparison *c, struct braid_text *out)
{
	static const char *const names[] = { "now", "other" }, *const heads[] = { "NOW", "OTHER" };
	const struct braid_seen now = braid_states_seen(c->sides[NOW]->s);
	const struct braid_seen other = braid_states_seen(c->sides[OTHER]->s);
	const struct braid_analysis_options *o = &c->sides[NOW]->o;
	enum side side;

	for (side = NOW; side <= OTHER && o->form != BRAID_TABLE_CSV; side++) {
		if (o->form == BRAID_TABLE_JSON) {
			braid_text_printf(out, "\"%s\":{", names[side]);
		} else {
			braid_text_printf(out, "# %s: ", heads[side]);
			braid_text_safe(out, o->names[side], strlen(o->names[side]));
			braid_text_putc(out, '\n');
		}
		braid_certainty_write(c->sides[side]->s, &c->sides[side]->o, out);
		if (o->form == BRAID_TABLE_JSON)
			braid_text_puts(out, "},");
	}
	if (o->form != BRAID_TABLE_TEXT)
		return;
	if (now.switches != other.switches || now.wakeups != other.wakeups || now.kvm != other.kvm)
		braid_text_puts(out, "# the captures were recorded with different host events, so states may differ; record both with the same events\n");
	braid_text_puts(out, "# percentages are of the guest's vCPU time; their CHANGE and 99 % confidence interval are in percentage points; a change is significant if chance alone explains it in less than 1 % of such comparisons, of all their measures together\n\n");
}

static void write_rows(const struct comparison *c, struct braid_text *out)
{
	const struct braid_analysis_options *o = &c->sides[NOW]->o;
	bool people = o->form == BRAID_TABLE_TEXT;
	struct braid_table table = {
		.key = "measures", .columns = people ? for_people : for_programs,
		.nr_columns = people ? sizeof(for_people) / sizeof(for_people[0]) :
				       sizeof(for_programs) / sizeof(for_programs[0]),
		.empty = "Neither capture has the events that this analysis needs.",
	};
	size_t k, significant = 0;

	for (k = 0; k < c->nr && (!people || k < o->top); k++)
		(people ? put_for_people : put_for_programs)(&c->rows[k], &table);
	braid_table_write(&table, o->form, out);
	braid_table_free(&table);
	for (; k < c->nr; k++)
		significant += c->rows[k].significant;
	if (people && c->nr > o->top)
		braid_text_printf(out, "%zu more measure%s, %zu with a significant change; use a larger --top\n",
				  (size_t)(c->nr - o->top), c->nr - o->top == 1 ? "" : "s", significant);
}

/* A guest that is in both captures. Return: 0, or -ENOENT with braid_fail(). */
static int check_guests(const struct comparison *c)
{
	const char *names[2] = { NULL, NULL };
	u64 bins[BRAID_COMPARE_BINS] = { 0 };
	enum side side;
	size_t k;

	for (side = NOW; side <= OTHER; side++)
		for (k = 0; k < c->sides[side]->nr; k++) {
			const struct braid_measure *m = &c->sides[side]->all[k];

			names[side] = guest_of(c->sides[side], m);
			if (add_whole(c->sides[!side], names[side], BRAID_MEASURE_TIME, bins))
				return 0;
		}
	return braid_fail(-ENOENT, "no guest is in both captures (matched by name; NOW has %s, OTHER has %s); compare captures of the same guests",
			  names[NOW] ? names[NOW] : "none", names[OTHER] ? names[OTHER] : "none");
}

int braid_comparison_write(struct braid_measures *now, struct braid_measures *other,
			   struct braid_text *out)
{
	const struct braid_seen of_now = braid_states_seen(now->s);
	const struct braid_seen of_other = braid_states_seen(other->s);
	struct comparison c = {
		.sides = { now, other }, .kvm = of_now.kvm && of_other.kvm,
		.user = of_now.user && of_other.user,
	};
	int err = check_guests(&c);
	enum side side;
	size_t k;

	for (side = NOW; side <= OTHER; side++)
		for (k = 0; k < c.sides[side]->nr && !err; k++)
			if (is_wanted(&now->o, c.sides[side]->all[k].key.kind))
				err = add_measure(&c, side, &c.sides[side]->all[k]);
	if (!err) {
		estimate(&c);
		if (c.nr)
			comparison_judge(&c);
		if (c.nr)
			qsort(c.rows, c.nr, sizeof(*c.rows), compare_rows);
		write_certainty(&c, out);
		write_rows(&c, out);
	}
	free(c.rows);
	return err;
}
