// SPDX-License-Identifier: GPL-2.0-or-later
/* The online engine: its sums are those of an analysis of the same files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/online/online.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/walk.h"
#include "tests/unit/busy_host.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

#define SECOND		1000000000ULL
#define MS		1000000ULL
#define NR_GUESTS	2
#define NR_KINDS	(BRAID_CULPRIT_INTERRUPTS + 1)
#define NR_REASONS	4

static char *path;

/* What an analysis of whole files finds. */
struct truth {
	struct of_guest {
		const char *name;
		u64 ns[2][BRAID_NR_VCPU_STATES];
		u64 stolen[NR_KINDS][NR_GUESTS];	/* the second by guest, of GUEST */
		u64 throttled;
		struct {
			u64 reason, count, ns;
		} exits[NR_REASONS];
		u64 woken, episodes;
	} guests[NR_GUESTS];
	const struct braid_states *s;
	s64 stolen_to[2 * NR_GUESTS];
};

static u32 number_of(const struct braid_stream *guest)
{
	return strcmp(guest->name, "web1") != 0;
}

static int take_span(void *arg, const struct braid_state_span *span)
{
	struct truth *t = arg;
	u32 guest = number_of(t->s->vcpus[span->vcpu].guest);
	struct braid_culprit group = braid_culprit_group(t->s, &span->culprit);
	u64 ns = span->to_ns - span->from_ns;

	if (span->state == BRAID_VCPU_THROTTLED)
		t->guests[guest].throttled += ns;
	if (span->state != BRAID_VCPU_STOLEN)
		return 0;
	t->guests[guest].stolen[group.kind][group.kind == BRAID_CULPRIT_GUEST ?
					    number_of(t->s->source->streams[group.id]) : 0] += ns;
	t->guests[guest].episodes += t->stolen_to[span->vcpu] != span->from_ns;
	t->stolen_to[span->vcpu] = span->to_ns;
	return 0;
}

static int take_exit(void *arg, const struct braid_exit *e)
{
	struct truth *t = arg;
	struct of_guest *g = &t->guests[number_of(t->s->vcpus[e->vcpu].guest)];
	u32 k;

	for (k = 0; g->exits[k].count && g->exits[k].reason != e->reason; k++)
		NEED(k + 1 < NR_REASONS);
	g->exits[k].reason = e->reason;
	g->exits[k].count++;
	g->exits[k].ns += e->to_ns - e->from_ns;
	return 0;
}

static int take_queued(void *arg, const struct braid_queue_wait *wait)
{
	struct truth *t = arg;

	t->guests[number_of(t->s->vcpus[wait->vcpu].guest)].woken += wait->woken;
	return 0;
}

static int take_event(void *arg, const struct braid_item *item,
		      const struct braid_event_type_info *info)
{
	return braid_states_event(arg, item, info);
}

static int take_lost(void *arg, const struct braid_item *item)
{
	return braid_states_lost(arg, item);
}

/* Adds a file's. */
static void analyze(struct truth *t, const char *file)
{
	static const struct braid_states_ops ops = {
		.span = take_span, .exit = take_exit, .queued = take_queued,
	};
	static const struct braid_walk_ops walk_ops = { .event = take_event, .lost = take_lost };
	static const struct braid_walk_options all;
	struct braid_walk_totals totals;
	struct braid_source *source;
	struct braid_states s;
	struct braid_walk w;
	u32 k, n;

	NEED(!braid_source_open_captures(&source, (char *const *)&file, 1, NULL));
	memset(t->stolen_to, 0, sizeof(t->stolen_to));
	t->s = &s;
	NEED(!braid_states_begin(&s, source, &ops, t));
	NEED(!braid_walk_begin(&w, source, &all, &totals) && !braid_walk_run(&w, &walk_ops, &s));
	braid_walk_end(&w);
	NEED(!braid_states_end(&s));
	for (k = 0; k < s.nr_vcpus; k++) {
		const struct braid_vcpu *v = &s.vcpus[k];

		for (n = 0; n < BRAID_NR_VCPU_STATES; n++)
			t->guests[number_of(v->guest)].ns[v->number][n] += v->ns[n];
	}
	braid_states_free(&s);
	braid_source_free(source);
}

/* The engine --------------------------------------------------------------------------------- */

static const struct braid_online_guest *guest(const struct braid_online *o, const char *name)
{
	const struct braid_online_guest *const *all;
	size_t k, nr;

	all = braid_online_guests(o, &nr);
	for (k = 0; k < nr; k++)
		if (!strcmp(all[k]->name, name))
			return all[k];
	return NULL;
}

static struct braid_online *engine(u64 every_ns)
{
	const struct braid_online_options options = { .every_ns = every_ns };
	struct braid_online *o;

	NEED(!braid_online_begin(&o, &options));
	return o;
}

static u64 stolen_by(const struct braid_online_guest *g, u64 kind, const char *name)
{
	size_t k;

	for (k = 0; k < g->culprits.nr; k++)
		if (g->culprits.items[k].key == kind && !strcmp(g->culprits.items[k].name, name))
			return g->culprits.items[k].ns;
	return 0;
}

/* After each mark: nothing goes back, and all vCPUs of a guest were observed for as long. */
static void check_on_the_way(const struct braid_online *o, struct of_guest before[NR_GUESTS])
{
	static const char *const names[NR_GUESTS] = { "web1", "web2" };
	u32 k, v, n;

	for (k = 0; k < NR_GUESTS; k++) {
		const struct braid_online_guest *g = guest(o, names[k]);

		if (!g)
			continue;
		CHECK_EQ(braid_states_sum(g->vcpus[0].ns), braid_states_sum(g->vcpus[1].ns));
		for (v = 0; v < 2; v++)
			for (n = 0; n < BRAID_NR_VCPU_STATES; n++) {
				CHECK(g->vcpus[v].ns[n] >= before[k].ns[v][n]);
				before[k].ns[v][n] = g->vcpus[v].ns[n];
			}
	}
}

static void feed(struct braid_online *o, const struct busy_host *b)
{
	struct of_guest before[NR_GUESTS] = { 0 };
	u32 k;

	NEED(!braid_online_open(o, b->path));
	for (k = 0; k < b->nr_marks; k++) {
		CHECK(!braid_online_take(o, &b->marks[k]));
		check_on_the_way(o, before);
	}
	CHECK(!braid_online_finish(o));
}

static void check_states(const struct braid_online_guest *g, const struct of_guest *want)
{
	u32 v, n;

	CHECK_EQ(g->nr_vcpus, 2);
	for (v = 0; v < 2; v++)
		for (n = 0; n < BRAID_NR_VCPU_STATES; n++)
			CHECK_EQ(g->vcpus[v].ns[n], want->ns[v][n]);
}

static void check_same(const struct braid_online *o, const struct truth *t)
{
	static const char *const names[NR_GUESTS] = { "web1", "web2" };
	u32 k, n;

	for (k = 0; k < NR_GUESTS; k++) {
		const struct braid_online_guest *g = guest(o, names[k]);
		const struct of_guest *want = &t->guests[k];

		CHECK(g);
		if (!g)
			continue;
		check_states(g, want);
		for (n = 0; n < NR_KINDS; n++)
			CHECK_EQ(stolen_by(g, n, n == BRAID_CULPRIT_GUEST ? "web1" : ""), want->stolen[n][0]);
		CHECK_EQ(stolen_by(g, BRAID_CULPRIT_GUEST, "web2"), want->stolen[BRAID_CULPRIT_GUEST][1]);
		CHECK_EQ(g->cgroups.nr ? g->cgroups.items[0].ns : 0, want->throttled);
		for (n = 0; n < g->exits.nr && n < NR_REASONS; n++) {
			CHECK_EQ(g->exits.items[n].key, want->exits[n].reason);
			CHECK_EQ(g->exits.items[n].count, want->exits[n].count);
			CHECK_EQ(g->exits.items[n].ns, want->exits[n].ns);
		}
		CHECK_EQ(g->wakeups.nr, want->woken);
		CHECK_EQ(g->steals.nr, want->episodes);
		CHECK_EQ(g->steals.sum_ns, g->vcpus[0].ns[BRAID_VCPU_STOLEN] +
					   g->vcpus[1].ns[BRAID_VCPU_STOLEN]);
	}
}

/* Whatever the pieces are. */
static void same_as_an_analysis(void)
{
	static const u64 every_ns[] = { 1, 100 * MS, 3600 * SECOND };
	struct busy_host b = { .path = path, .for_ns = 2 * SECOND, .mark_ns = 5 * MS };
	struct truth t = { 0 };
	u32 k;

	busy_host(&b);
	analyze(&t, path);
	CHECK(t.guests[0].woken > 100);
	CHECK(t.guests[1].throttled > 0);
	CHECK(t.guests[0].exits[3].count > 0);
	CHECK(t.guests[0].stolen[BRAID_CULPRIT_GUEST][1] > 0);
	CHECK(t.guests[1].stolen[BRAID_CULPRIT_RECORDER][0] > 0);
	for (k = 0; k < 3; k++) {
		struct braid_online *o = engine(every_ns[k]);

		feed(o, &b);
		check_same(o, &t);
		CHECK_EQ(braid_online_totals(o)->host_events, b.host_events);
		CHECK_EQ(guest(o, "web1")->events, b.guest_events);
		CHECK_EQ(guest(o, "web2")->events, 0);
		CHECK_EQ(braid_online_totals(o)->late, 0);
		CHECK_EQ(braid_online_totals(o)->failed, 0);
		CHECK_EQ(braid_online_totals(o)->faults, 0);
		braid_online_end(o);
	}
}

int main(void)
{
	path = scratch("busy.braid");
	RUN(same_as_an_analysis);
	return VERDICT();
}
