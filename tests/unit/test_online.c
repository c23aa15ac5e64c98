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
#include "tests/unit/online_engine.h"
#include "tests/unit/scratch.h"

#define SECOND		1000000000ULL
#define MS		1000000ULL
#define NR_GUESTS	2
#define NR_KINDS	(BRAID_CULPRIT_INTERRUPTS + 1)
#define NR_REASONS	4

static char *path;

/* What an analysis of whole files finds. */
struct found {
	struct of_guest {
		const char *name;
		u64 ns[2][BRAID_NR_VCPU_STATES];
		u64 stolen[NR_KINDS][NR_GUESTS];	/* the second by guest, of GUEST */
		u64 throttled;
		struct {
			u64 reason, count, ns;
		} exits[NR_REASONS];
		u64 woken, episodes, vcpus_woken, vcpus_woken_ns;
	} guests[NR_GUESTS];
	const struct braid_states *s;
	s64 stolen_to[2 * NR_GUESTS], woken_ns[2 * NR_GUESTS];
};

static u32 number_of(const struct braid_stream *guest)
{
	return strcmp(guest->name, "web1") != 0;
}

static int take_span(void *arg, const struct braid_state_span *span)
{
	struct found *t = arg;
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
	struct found *t = arg;
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
	struct found *t = arg;

	t->guests[number_of(t->s->vcpus[wait->vcpu].guest)].woken += wait->woken;
	return 0;
}

static void take_mark(void *arg, const struct braid_mark *mark)
{
	struct found *t = arg;
	const struct braid_vcpu *v = &t->s->vcpus[mark->vcpu];
	s64 *woken_ns = &t->woken_ns[mark->vcpu];

	if (mark->kind == BRAID_MARK_ON_CPU && *woken_ns && mark->ns >= v->begin_ns) {
		t->guests[number_of(v->guest)].vcpus_woken++;
		t->guests[number_of(v->guest)].vcpus_woken_ns +=
			mark->ns - (*woken_ns > v->begin_ns ? *woken_ns : v->begin_ns);
	}
	if (mark->kind == BRAID_MARK_ON_CPU || mark->kind == BRAID_MARK_WOKEN)
		*woken_ns = mark->kind == BRAID_MARK_WOKEN ? mark->ns : 0;
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

/* Adds what files have together. */
static void analyze_all(struct found *t, char *const *files, size_t nr)
{
	static const struct braid_states_ops ops = {
		.span = take_span, .exit = take_exit, .queued = take_queued,
		.mark = take_mark,
	};
	static const struct braid_walk_ops walk_ops = { .event = take_event, .lost = take_lost };
	static const struct braid_walk_options all;
	struct braid_walk_totals totals;
	struct braid_source *source;
	struct braid_states s;
	struct braid_walk w;
	u32 k, n;

	NEED(!braid_source_open_captures(&source, files, nr, NULL));
	memset(t->stolen_to, 0, sizeof(t->stolen_to));
	memset(t->woken_ns, 0, sizeof(t->woken_ns));
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

static void analyze(struct found *t, const char *file)
{
	analyze_all(t, (char *const *)&file, 1);
}

/* The engine --------------------------------------------------------------------------------- */

/* After each mark: nothing goes back, and all vCPUs of a guest were observed for as long. */
static void check_on_the_way(const struct braid_online *o, struct of_guest before[NR_GUESTS])
{
	static const char *const names[NR_GUESTS] = { "web1", "web2" };
	u32 k, v, n;

	for (k = 0; k < NR_GUESTS; k++) {
		const struct braid_online_guest *g = online_guest(o, names[k]);

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

static void check_exits(const struct braid_online_guest *g, const struct of_guest *want)
{
	u32 n;

	for (n = 0; n < g->exits.nr && n < NR_REASONS; n++) {
		CHECK_EQ(g->exits.items[n].key, want->exits[n].reason);
		CHECK_EQ(g->exits.items[n].count, want->exits[n].count);
		CHECK_EQ(g->exits.items[n].ns, want->exits[n].ns);
	}
}

static void check_same(const struct braid_online *o, const struct found *t)
{
	static const char *const names[NR_GUESTS] = { "web1", "web2" };
	u32 k, n;

	for (k = 0; k < NR_GUESTS; k++) {
		const struct braid_online_guest *g = online_guest(o, names[k]);
		const struct of_guest *want = &t->guests[k];

		CHECK(g);
		if (!g)
			continue;
		check_states(g, want);
		for (n = 0; n < NR_KINDS; n++)
			CHECK_EQ(online_stolen_by(g, n, n == BRAID_CULPRIT_GUEST ? "web1" : ""), want->stolen[n][0]);
		CHECK_EQ(online_stolen_by(g, BRAID_CULPRIT_GUEST, "web2"), want->stolen[BRAID_CULPRIT_GUEST][1]);
		CHECK_EQ(g->cgroups.nr ? g->cgroups.items[0].ns : 0, want->throttled);
		check_exits(g, want);
		CHECK_EQ(g->wakeups.nr, want->woken);
		CHECK_EQ(g->vcpu_wakeups.nr, want->vcpus_woken);
		CHECK_EQ(g->vcpu_wakeups.sum_ns, want->vcpus_woken_ns);
		CHECK_EQ(g->steals.nr, want->episodes);
		CHECK_EQ(g->steals.sum_ns, g->vcpus[0].ns[BRAID_VCPU_STOLEN] +
					   g->vcpus[1].ns[BRAID_VCPU_STOLEN]);
	}
}

/* Of tasks, or without the driver of vCPUs. */
static void check_wakeups(const struct braid_online *o)
{
	const struct braid_online_guest *g = online_guest(o, "web1"), *vm = online_guest(o, "web2");

	CHECK_EQ(braid_online_wakeup_ns(o, g), braid_online_worst_ns(o, &g->wakeups));
	CHECK_EQ(braid_online_wakeup_ns(o, vm), braid_online_worst_ns(o, &vm->vcpu_wakeups));
}

/* Whatever the pieces are. */
static void same_as_an_analysis(void)
{
	static const u64 every_ns[] = { 1, 100 * MS, 3600 * SECOND };
	struct busy_host b = { .path = path, .for_ns = 2 * SECOND, .mark_ns = 5 * MS };
	struct found t = { 0 };
	u32 k;

	busy_host(&b);
	analyze(&t, path);
	CHECK(t.guests[0].woken > 100);
	CHECK(t.guests[1].vcpus_woken > 100);
	CHECK(t.guests[1].throttled > 0);
	CHECK(t.guests[0].exits[3].count > 0);
	CHECK(t.guests[0].stolen[BRAID_CULPRIT_GUEST][1] > 0);
	CHECK(t.guests[1].stolen[BRAID_CULPRIT_RECORDER][0] > 0);
	for (k = 0; k < 3; k++) {
		struct braid_online *o = online_engine(every_ns[k]);

		feed(o, &b);
		check_same(o, &t);
		CHECK_EQ(braid_online_totals(o)->host_events, b.host_events);
		CHECK_EQ(online_guest(o, "web1")->events, b.guest_events);
		CHECK_EQ(online_guest(o, "web2")->events, 0);
		check_wakeups(o);
		CHECK_EQ(braid_online_totals(o)->late, 0);
		CHECK_EQ(braid_online_totals(o)->failed, 0);
		CHECK_EQ(braid_online_totals(o)->faults, 0);
		braid_online_end(o);
	}
}

/* By what the file itself says. */
static void by_turns(void)
{
	struct busy_host b = { .path = path, .for_ns = SECOND, .mark_ns = 5 * MS };
	struct braid_online *o = online_engine(0);
	struct found t = { 0 };
	int ret;

	busy_host(&b);
	analyze(&t, path);
	NEED(!braid_online_open(o, path));
	do
		ret = braid_online_turn(o, false);
	while (ret == 1);
	CHECK_EQ(ret, BRAID_ONLINE_END);
	CHECK(!braid_online_finish(o));
	check_same(o, &t);
	CHECK_EQ(braid_online_totals(o)->late, 0);
	braid_online_end(o);
}

/* Sums go on from file to file, of guests with the same name. */
static void several_files(void)
{
	struct braid_online *o = online_engine(20 * MS);
	struct found t = { 0 };
	u32 k;

	for (k = 0; k < 3; k++) {
		struct busy_host b = {
			.path = path, .from_ns = k * 5 * SECOND, .for_ns = 700 * MS,
			.mark_ns = 5 * MS,
		};

		busy_host(&b);
		analyze(&t, path);
		feed(o, &b);
		CHECK_EQ(braid_online_totals(o)->files, k + 1);
	}
	check_same(o, &t);
	CHECK_EQ(braid_online_totals(o)->failed, 0);
	braid_online_end(o);
}

/* A recording that goes on to other files is one: what was known goes on, too. */
static void rotated(char **files, bool no_migrations)
{
	struct busy_host b = {
		.path = path, .next = files + 1, .nr_next = 2, .for_ns = 3 * SECOND,
		.mark_ns = 5 * MS,
		.sleeper = true, .no_migrations = no_migrations,
	};
	struct found t = { 0 };
	u32 parts, k;

	busy_host(&b);
	analyze_all(&t, files, 3);
	CHECK_EQ(t.guests[1].ns[1][BRAID_VCPU_UNKNOWN], 0);
	CHECK(braid_states_asleep(t.guests[1].ns[1]) > SECOND);
	for (parts = 1; parts < 40; parts += 13) {
		struct braid_online *o = online_engine(1);

		for (k = 0; k < 3; k++)
			CHECK_EQ(online_follow(o, files[k], parts), BRAID_ONLINE_END);
		CHECK(!braid_online_finish(o));
		check_same(o, &t);
		CHECK_EQ(braid_online_totals(o)->host_events, b.host_events);
		CHECK_EQ(online_guest(o, "web1")->events, b.guest_events);
		CHECK_EQ(braid_online_totals(o)->late + braid_online_totals(o)->faults, 0);
		CHECK_EQ(braid_online_totals(o)->host_lost + online_guest(o, "web1")->lost, 0);
		braid_online_end(o);
	}
}

static void goes_on(void)
{
	char *files[] = { path, scratch("second.braid"), scratch("third.braid") };
	u32 k;

	for (k = 0; k < 8; k++)
		rotated(files, k & 1);
}

/* In the first file one ends, and another one is in the later files only. */
static void guests_change(void)
{
	char *files[] = { path, scratch("after.braid"), scratch("last.braid") };
	struct busy_host b = {
		.path = path, .next = files + 1, .nr_next = 2, .for_ns = 3 * SECOND,
		.mark_ns = 5 * MS,
		.ends_web1 = true, .late_web2 = true,
	};
	struct braid_online *o = online_engine(1);
	struct found t = { 0 };
	u32 k;

	busy_host(&b);
	analyze_all(&t, files, 3);
	for (k = 0; k < 3; k++)
		CHECK_EQ(online_follow(o, files[k], 10), BRAID_ONLINE_END);
	CHECK(!braid_online_finish(o));
	check_states(online_guest(o, "web1"), &t.guests[0]);
	check_exits(online_guest(o, "web1"), &t.guests[0]);
	CHECK_EQ(online_guest(o, "web1")->steals.nr, t.guests[0].episodes);
	for (k = 0; k < 2; k++) {
		const u64 *ns = online_guest(o, "web2")->vcpus[k].ns;

		CHECK_EQ(braid_states_sum(ns), braid_states_sum(t.guests[1].ns[k]));
		CHECK(ns[BRAID_VCPU_UNKNOWN] < 100 * MS);
	}
	CHECK_EQ(braid_online_totals(o)->late + braid_online_totals(o)->streams_left_out, 0);
	braid_online_end(o);
}

/* Where it is not certain on which CPU a vCPU waits, its culprits wait, too. */
static void without_migrations(void)
{
	struct busy_host b = {
		.path = path, .for_ns = SECOND, .mark_ns = 2 * MS, .no_migrations = true,
	};
	struct braid_online *o = online_engine(1);
	struct found t = { 0 };

	busy_host(&b);
	analyze(&t, path);
	CHECK(t.guests[0].stolen[BRAID_CULPRIT_UNKNOWN][0] > 0);
	feed(o, &b);
	check_same(o, &t);
	braid_online_end(o);
}

/*
 * What was complete up to a mark stays known if events are lost after it; an analysis knows only
 * the last event before the loss.
 */
static void with_losses(void)
{
	struct busy_host b = { .path = path, .for_ns = SECOND, .mark_ns = 5 * MS, .lose = 20 };
	struct braid_online *o = online_engine(1);
	const struct braid_online_guest *g;
	struct found t = { 0 };
	u32 v;

	busy_host(&b);
	analyze(&t, path);
	CHECK(t.guests[0].ns[0][BRAID_VCPU_UNKNOWN] > 0);
	feed(o, &b);
	g = online_guest(o, "web1");
	for (v = 0; v < 2 && g; v++) {
		CHECK_EQ(braid_states_sum(g->vcpus[v].ns), braid_states_sum(t.guests[0].ns[v]));
		CHECK(g->vcpus[v].ns[BRAID_VCPU_UNKNOWN] > 0);
		CHECK(g->vcpus[v].ns[BRAID_VCPU_UNKNOWN] <= t.guests[0].ns[v][BRAID_VCPU_UNKNOWN]);
	}
	CHECK(braid_online_totals(o)->host_lost > 0);
	CHECK(braid_online_totals(o)->host_lost <= b.host_lost);
	braid_online_end(o);
}

/* What a file defines while it is followed. */
static void late_definitions(void)
{
	struct busy_host b = {
		.path = path, .for_ns = SECOND, .mark_ns = 5 * MS,
		.late_format = true, .late_cpu = true,
	};
	struct braid_online *o = online_engine(1);
	struct found t = { 0 };

	busy_host(&b);
	analyze(&t, path);
	feed(o, &b);
	check_same(o, &t);
	braid_online_end(o);
	o = online_engine(1);
	b.late_thread = true;
	busy_host(&b);
	feed(o, &b);
	CHECK(online_guest(o, "web2")->vcpus[1].ns[BRAID_VCPU_UNKNOWN] >= b.for_ns / 2 - 10 * MS);
	CHECK(online_guest(o, "web2")->vcpus[1].ns[BRAID_VCPU_UNKNOWN] < b.for_ns * 3 / 4);
	braid_online_end(o);
}

/* A guest that ends while the file goes on. */
static void a_guest_ends(void)
{
	struct busy_host b = {
		.path = path, .for_ns = SECOND, .mark_ns = 5 * MS, .ends_web1 = true,
	};
	struct braid_online *o = online_engine(1);
	struct of_guest before[NR_GUESTS] = { 0 };
	struct found t = { 0 };
	u32 k;

	busy_host(&b);
	analyze(&t, path);
	NEED(!braid_online_open(o, path));
	for (k = 0; k < b.nr_marks; k++) {
		CHECK(!braid_online_take(o, &b.marks[k]));
		check_on_the_way(o, before);
	}
	CHECK(braid_states_sum(before[0].ns[0]) < braid_states_sum(before[1].ns[0]));
	CHECK(!braid_online_finish(o));
	check_states(online_guest(o, "web1"), &t.guests[0]);
	check_states(online_guest(o, "web2"), &t.guests[1]);
	braid_online_end(o);
}

/* Without an end, what the last mark says was observed. */
static void a_killed_recording(void)
{
	struct busy_host b = {
		.path = path, .for_ns = SECOND, .mark_ns = 5 * MS, .killed = true,
	};
	struct braid_online *o = online_engine(1);
	struct found t = { 0 };
	u64 sum;

	busy_host(&b);
	analyze(&t, path);
	feed(o, &b);
	sum = braid_states_sum(online_guest(o, "web1")->vcpus[0].ns);
	CHECK(sum >= braid_states_sum(t.guests[0].ns[0]));
	CHECK(sum >= b.for_ns);
	CHECK_EQ(braid_online_totals(o)->now_ns, b.marks[b.nr_marks - 1].until_ns);
	braid_online_end(o);
}

int main(void)
{
	path = scratch("busy.braid");
	RUN(same_as_an_analysis);
	RUN(by_turns);
	RUN(several_files);
	RUN(without_migrations);
	RUN(with_losses);
	RUN(late_definitions);
	RUN(a_guest_ends);
	RUN(a_killed_recording);
	RUN(goes_on);
	RUN(guests_change);
	return VERDICT();
}
