// SPDX-License-Identifier: GPL-2.0-or-later
/* Compares conditions with the sums of the last times. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/serve/rules.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/util/text.h"

#define STEPS		8u		/* of a rule's time, which is moved on by one at a time */
#define SLOTS		(STEPS + 1)	/* a whole time ago, and each step since */
#define CULPRITS	4u		/* in a sentence */

int braid_rules_add(struct braid_rules *rules, const struct braid_rule *rule)
{
	if (rules->nr == BRAID_RULES_MOST)
		return braid_fail(-ENOSPC, "more than %u conditions", BRAID_RULES_MOST);
	rules->items[rules->nr++] = *rule;
	return 0;
}

/* What was ---------------------------------------------------------------------------------- */

/* A vCPU, or the guest as a whole. */
struct rule_series {
	u64 past[SLOTS];	/* its sum, a step apart: a ring */
	u64 last;		/* likewise, in the last check */
};

struct braid_rule_state {
	size_t rule;		/* in items */
	char name[64];
	bool met;		/* in the present check */
	bool holds;
	s64 held_ns;		/* when it last held */
	s64 began_ns;		/* of the first step; 0: none */
	u64 steps;		/* that have begun */
	struct rule_series *series;
	size_t nr_series;
	struct rule_copy {
		s64 at_ns;
		struct braid_online_row *rows;
		size_t nr;
	} culprits[2];		/* as they were a time ago at most, and before that */
};

struct rule_key {
	size_t rule;
	const char *name;
};

static bool rule_same(const void *in, u32 number, const void *key)
{
	const struct braid_rule_state *s = ((struct braid_rule_state *const *)in)[number];
	const struct rule_key *wanted = key;

	return s->rule == wanted->rule && !strcmp(s->name, wanted->name);
}

static int rule_state_of(struct braid_rules *rules, size_t rule, const char *name,
			 struct braid_rule_state **out)
{
	const struct rule_key key = { rule, name };
	u32 hash = braid_hash_of(name, strlen(name), rule);
	u32 at = braid_hash_find(&rules->by_name, hash, rule_same, rules->states, &key);
	struct braid_rule_state *s;

	if (at != BRAID_HASH_NONE) {
		*out = rules->states[at];
		return 0;
	}
	s = calloc(1, sizeof(*s));
	if (!s || braid_hash_reserve(&rules->by_name, 1u << 30) ||
	    braid_array_push(rules->states, rules->nr_states, rules->capacity, s)) {
		free(s);
		return braid_out_of_memory();
	}
	s->rule = rule;
	snprintf(s->name, sizeof(s->name), "%s", name);
	braid_hash_put(&rules->by_name, hash, rules->nr_states - 1);
	*out = s;
	return 0;
}

static void rule_forget(struct braid_rules *rules, bool all)
{
	size_t k, kept = 0;

	for (k = 0; k < rules->nr_states; k++) {
		struct braid_rule_state *s = rules->states[k];

		if (s->met && !all) {
			s->met = false;
			rules->states[kept++] = s;
			continue;
		}
		free(s->culprits[0].rows);
		free(s->culprits[1].rows);
		free(s->series);
		free(s);
	}
	if (kept == rules->nr_states)
		return;
	rules->nr_states = kept;
	braid_hash_clear(&rules->by_name);
	for (k = 0; k < kept; k++)
		braid_hash_put(&rules->by_name,
			       braid_hash_of(rules->states[k]->name, strlen(rules->states[k]->name),
					     rules->states[k]->rule), k);
}

void braid_rules_clear(struct braid_rules *rules)
{
	rule_forget(rules, true);
	free(rules->states);
	braid_hash_free(&rules->by_name);
	*rules = (struct braid_rules){ 0 };
}

/* Sums -------------------------------------------------------------------------------------- */

static u64 rule_count(const struct braid_online_rows *rows)
{
	u64 count = rows->others.count;
	size_t k;

	for (k = 0; k < rows->nr; k++)
		count += rows->items[k].count;
	return count;
}

/* The sum of a series; what it is compared with is its growth. */
static u64 rule_sum(const struct braid_rule *rule, const struct braid_online_guest *g, size_t k)
{
	switch (rule->what) {
	case BRAID_RULE_STOLEN:
		return g->vcpus[k].ns[BRAID_VCPU_STOLEN];
	case BRAID_RULE_THROTTLED:
		return g->vcpus[k].ns[BRAID_VCPU_THROTTLED];
	case BRAID_RULE_LOST:
		return g->lost + g->losses;
	case BRAID_RULE_EXITS:
		return rule_count(&g->exits);
	case BRAID_RULE_EVENT:
	case BRAID_RULE_TRIGGER:
		return rule->watched < g->nr_seen ? g->seen[rule->watched].count : 0;
	default:
		return 0;
	}
}

static size_t rule_nr_series(const struct braid_rule *rule, const struct braid_online_guest *g)
{
	bool by_vcpu = rule->what == BRAID_RULE_STOLEN || rule->what == BRAID_RULE_THROTTLED;

	return by_vcpu ? g->nr_vcpus : 1;
}

static int rule_grow(const struct braid_rule *rule, struct braid_rule_state *s,
		     const struct braid_online_guest *g)
{
	size_t nr = rule_nr_series(rule, g), k, n;
	struct rule_series *more;

	if (nr <= s->nr_series)
		return 0;
	more = reallocarray(s->series, nr, sizeof(*more));
	if (!more)
		return braid_out_of_memory();
	s->series = more;
	for (k = s->nr_series; k < nr; k++) {
		more[k].last = 0;
		for (n = 0; n < SLOTS; n++)	/* events are counted since the rule is there */
			more[k].past[n] = braid_rule_is_event(rule) ? 0 : rule_sum(rule, g, k);
	}
	s->nr_series = nr;
	return 0;
}

/* At each full time, so that a sentence can say what they took since. */
static int rule_copy_culprits(struct braid_rule_state *s, const struct braid_online_rows *rows,
			      s64 now_ns)
{
	struct rule_copy copy = s->culprits[1];
	struct braid_online_row *to = reallocarray(copy.rows, rows->nr + 1, sizeof(*to));

	if (!to)
		return braid_out_of_memory();
	if (rows->nr)
		memcpy(to, rows->items, rows->nr * sizeof(*to));
	to[rows->nr] = rows->others;
	s->culprits[1] = s->culprits[0];
	s->culprits[0] = (struct rule_copy){ .at_ns = now_ns, .rows = to, .nr = rows->nr };
	return 0;
}

/* Begins the steps up to a time. */
static int rule_step(const struct braid_rule *rule, struct braid_rule_state *s,
		     const struct braid_online_guest *g, s64 now_ns)
{
	u64 step_ns = rule->for_ns / STEPS, due;
	/* One event since the last check is enough, however long ago that was. */
	bool first = !s->began_ns, any = braid_rule_is_event(rule) && !rule->limit;
	size_t k;
	int err = 0;

	if (first)
		s->began_ns = now_ns;
	due = 1 + (u64)(now_ns - s->began_ns) / step_ns;
	if (due > s->steps + SLOTS)	/* a time without marks: all its steps are alike */
		s->steps = due - SLOTS;
	for (; s->steps < due && !err; s->steps++) {
		if (rule->what == BRAID_RULE_STOLEN && !(s->steps % STEPS))
			err = rule_copy_culprits(s, &g->culprits, now_ns);
		for (k = 0; k < s->nr_series && !first; k++)
			s->series[k].past[s->steps % SLOTS] = any ? s->series[k].last :
								    rule_sum(rule, g, k);
	}
	for (k = 0; k < s->nr_series; k++)
		s->series[k].last = rule_sum(rule, g, k);
	return err;
}

/* What is compared with the limit. */
struct rule_measured {
	u64 value;
	size_t vcpu;		/* the worst one */
	u64 ns;			/* over which it was measured */
};

static struct rule_measured rule_growth(const struct braid_rule *rule,
					const struct braid_rule_state *s,
					const struct braid_online_guest *g, s64 now_ns)
{
	u64 oldest = s->steps > SLOTS ? s->steps - SLOTS : 0, grown;
	struct rule_measured m = {
		.ns = now_ns - s->began_ns - oldest * (rule->for_ns / STEPS),
	};
	size_t k;

	if (rule->limit && s->steps < SLOTS)	/* not yet that long */
		return m;
	for (k = 0; k < s->nr_series && k < rule_nr_series(rule, g); k++) {
		grown = rule_sum(rule, g, k) - s->series[k].past[oldest % SLOTS];
		if ((s64)grown > (s64)m.value) {
			m.value = grown;
			m.vcpu = k;
		}
	}
	return m;
}

static struct rule_measured rule_measure(const struct braid_rule *rule,
					 const struct braid_rule_state *s,
					 const struct braid_rule_guest *g)
{
	struct rule_measured m = { 0 };
	u64 ns;

	switch (rule->what) {
	case BRAID_RULE_WAKE_UP:
		m.value = g->wake_up_ns;
		return m;
	case BRAID_RULE_SILENT:
		m.value = g->silent_ns == UINT64_MAX ? 0 : g->silent_ns;
		return m;
	default:
		m = rule_growth(rule, s, g->guest, g->now_ns);
		ns = m.ns ? m.ns : 1;
		if (rule->what == BRAID_RULE_EXITS)
			m.value = m.value * 1e9 / ns;
		else if (rule->what != BRAID_RULE_LOST && !braid_rule_is_event(rule))
			m.value = m.value * (double)BRAID_RULE_PPM / ns;
		return m;
	}
}

/* Sentences --------------------------------------------------------------------------------- */

static u64 rule_took(const struct rule_copy *since, const struct braid_online_row *row)
{
	size_t k;

	for (k = 0; k < since->nr; k++)
		if (since->rows[k].key == row->key && !strcmp(since->rows[k].name, row->name))
			break;
	/* A row that was dropped, and is there again, has begun anew. */
	return k < since->nr && since->rows[k].ns <= row->ns ? row->ns - since->rows[k].ns :
							      row->ns;
}

/* The last row of a copy is of the others. */
static u64 rule_others_took(const struct rule_copy *since, const struct braid_online_row *row)
{
	return row->ns - (since->rows ? since->rows[since->nr].ns : 0);
}

/* A culprit as a sentence names it; its own guest's other vCPUs may be one. */
static const char *rule_culprit(const struct braid_online_guest *g,
				const struct braid_online_row *row)
{
	switch ((enum braid_culprit_kind)row->key) {
	case BRAID_CULPRIT_GUEST:
		return strcmp(row->name, g->name) ? row->name : "its own other threads";
	case BRAID_CULPRIT_HOST:
		return "threads of the host";
	case BRAID_CULPRIT_RECORDER:
		return "this recorder";
	case BRAID_CULPRIT_INTERRUPTS:
		return "interrupts";
	case BRAID_CULPRIT_NOTHING:
		return "nothing (an idle CPU)";
	case BRAID_CULPRIT_UNKNOWN:
		return "what is not known";
	default:
		return *row->name ? row->name : "others";
	}
}

/* "; taken by web0 (62 %), threads of the host (31 %)": of all vCPUs' stolen time since a while. */
static void rule_blame(const struct braid_rule_state *s, const struct braid_online_guest *g,
		       struct braid_text *t)
{
	const struct rule_copy *since = &s->culprits[s->culprits[1].at_ns ? 1 : 0];
	struct {
		const struct braid_online_row *row;
		u64 ns;
	} most[CULPRITS + 1] = { 0 };
	u64 total = 0, ns;
	size_t k, n;

	/* The others are those beyond the limit of rows: together they may have taken most. */
	for (k = 0; k <= g->culprits.nr; k++) {
		const struct braid_online_row *row = k < g->culprits.nr ? &g->culprits.items[k] :
									 &g->culprits.others;

		ns = k < g->culprits.nr ? rule_took(since, row) : rule_others_took(since, row);
		total += ns;
		for (n = CULPRITS; n && most[n - 1].ns < ns; n--)
			most[n] = most[n - 1];
		most[n].row = row;
		most[n].ns = ns;
	}
	for (n = 0; n < CULPRITS && most[n].ns * 100 > total; n++)
		braid_text_printf(t, "%s%s (%.0f %%)", n ? ", " : "; taken by ",
				  rule_culprit(g, most[n].row), most[n].ns * 100.0 / total);
}

/* " in task sh[123] on vCPU 1 at 1234.567890123" */
static void rule_write_place(const struct braid_online_seen *seen, struct braid_text *t)
{
	if (seen->pid != BRAID_PID_UNKNOWN)
		braid_text_printf(t, " in task %s[%d]", seen->comm, seen->pid);
	braid_text_printf(t, " on vCPU %u at %lld.%09lld", seen->cpu,
			  (long long)(seen->host_ns / BRAID_SECOND_NS),
			  (long long)(seen->host_ns % BRAID_SECOND_NS));
}

static void rule_write(const struct braid_rule *rule, const struct braid_rule_state *s,
		       const struct braid_online_guest *g, const struct rule_measured *m,
		       struct braid_text *t)
{
	switch (rule->what) {
	case BRAID_RULE_STOLEN:
	case BRAID_RULE_THROTTLED:
		braid_text_printf(t, "%s/vCPU %zu was %s for %.1f %% of the last %.3f s", g->name,
				  m->vcpu, braid_rule_name(rule->what),
				  m->value * 100.0 / BRAID_RULE_PPM, m->ns / 1e9);
		if (rule->what == BRAID_RULE_STOLEN)
			rule_blame(s, g, t);
		else if (g->cgroups.nr)
			braid_text_printf(t, "; by the quota of %s%s", g->cgroups.items[0].name,
					  g->cgroups.nr > 1 ? " and others" : "");
		return;
	case BRAID_RULE_WAKE_UP:
		if (braid_online_shows_tasks(g))
			braid_text_printf(t, "a task of %s waited %.3f ms for its vCPU after it was woken",
					  g->name, m->value / 1e6);
		else
			braid_text_printf(t, "a vCPU of %s waited %.3f ms for a CPU after it was woken",
					  g->name, m->value / 1e6);
		return;
	case BRAID_RULE_SILENT:
		braid_text_printf(t, "%s has been silent for %.3f s", g->name, m->value / 1e9);
		return;
	case BRAID_RULE_LOST:
		braid_text_printf(t, "%s lost %llu events within %.3f s", g->name,
				  (unsigned long long)m->value, m->ns / 1e9);
		return;
	case BRAID_RULE_EXITS:
		braid_text_printf(t, "the vCPUs of %s left guest code %llu times a second, over %.3f s",
				  g->name, (unsigned long long)m->value, m->ns / 1e9);
		return;
	case BRAID_RULE_EVENT:
		braid_text_printf(t, "%s recorded ", g->name);
		if (rule->limit)
			braid_text_printf(t, "%llu events within %.3f s, one of them ",
					  (unsigned long long)m->value, m->ns / 1e9);
		braid_text_puts(t, g->seen[rule->watched].event);
		rule_write_place(&g->seen[rule->watched], t);
		return;
	case BRAID_RULE_TRIGGER:
		braid_text_printf(t, "a trigger of %s fired", g->name);
		rule_write_place(&g->seen[rule->watched], t);
		return;
	default:
		return;
	}
}

static void rule_fire(const struct braid_rule *rule, const struct braid_rule_state *s,
		      const struct braid_online_guest *g, const struct rule_measured *m,
		      braid_rule_fn *fire, void *arg)
{
	struct braid_text t = { 0 };

	rule_write(rule, s, g, m, &t);
	braid_text_printf(&t, " (%s)", rule->text);
	braid_text_putc(&t, '\0');
	fire(arg, rule, g, t.failed ? rule->text : t.data);
	braid_text_free(&t);
}

static int rule_check(struct braid_rules *rules, size_t number, const struct braid_rule_guest *g,
		      braid_rule_fn *fire, void *arg)
{
	const struct braid_rule *rule = &rules->items[number];
	struct braid_rule_state *s = NULL;
	struct rule_measured m;
	int err = rule_state_of(rules, number, g->guest->name, &s);

	if (!err)
		err = rule_grow(rule, s, g->guest);
	if (!err)
		err = rule_step(rule, s, g->guest, g->now_ns);
	if (err)
		return err;
	s->met = true;
	m = rule_measure(rule, s, g);
	if (m.value > rule->limit) {
		s->held_ns = g->now_ns;
		if (!s->holds)
			rule_fire(rule, s, g->guest, &m, fire, arg);
		s->holds = true;
	} else if (g->now_ns - s->held_ns >= (s64)rule->for_ns) {
		s->holds = false;
	}
	return 0;
}

int braid_rules_check(struct braid_rules *rules, const struct braid_rule_guest *g,
		      braid_rule_fn *fire, void *arg)
{
	size_t k;
	int err = 0;

	for (k = 0; k < rules->nr && !err; k++)
		if (!fnmatch(rules->items[k].guests, g->guest->name, 0))
			err = rule_check(rules, k, g, fire, arg);
	return err;
}

void braid_rules_forget(struct braid_rules *rules)
{
	rule_forget(rules, false);
}
