// SPDX-License-Identifier: GPL-2.0-or-later
/* Events that the online engine watches: counted as a walk finds them, and described. */
#include <errno.h>
#include <string.h>

#include "host_agent/online/online.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/walk.h"
#include "tests/unit/busy_host.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/online_engine.h"
#include "tests/unit/scratch.h"

#define MS		1000000ULL
#define SECOND		1000000000ULL

static char *path;

/* What `report` selects of web1. */
static u64 walk_finds(const char *filter)
{
	struct braid_walk_filter of = { .text = filter };
	struct braid_walk_options options = { .filters = &of, .nr_filters = 1 };
	struct braid_walk_totals totals;
	struct braid_source *source;
	struct braid_walk w;
	u64 nr = 0;
	int got;

	NEED(!braid_source_open_captures(&source, &path, 1, NULL));
	NEED(!braid_walk_begin(&w, source, &options, &totals) && !braid_walk_start(&w));
	while ((got = braid_walk_next(&w)) > 0)
		nr += got == BRAID_WALK_EVENT && !strcmp(w.item->stream->name, "web1");
	NEED(!got);
	braid_walk_end(&w);
	braid_source_free(source);
	return nr;
}

static void feed(struct braid_online *o)
{
	struct busy_host b = { .path = path, .for_ns = SECOND, .mark_ns = 5 * MS };

	busy_host(&b);
	NEED(!online_feed(o, &b));
}

static void as_a_walk_counts(void)
{
	static const struct {
		const char *pattern, *filter, *same;
	} all[] = {
		{ "sched:sched_switch", NULL, "sched/sched_switch" },
		{ "sched:*", "", "sched/.*" },
		{ "s*/sched_[sw]*", "", "sched/.*" },
		{ "sched:sched_switch", "next_pid == 33", "sched/sched_switch: next_pid == 33" },
		{ "sched:sched_switch", "CPU == 1 && prev_pid > 0",
		  "sched/sched_switch: CPU == 1 && prev_pid > 0" },
		/* No field of a switch. */
		{ "sched:*", "target_cpu == 1", "sched/.*: target_cpu == 1" },
	};
	struct braid_online *o = online_engine(1);
	const struct braid_online_guest *g;
	u32 numbers[6], none, k;

	for (k = 0; k < 6; k++)
		NEED(!braid_online_watch(o, all[k].pattern, all[k].filter, &numbers[k]));
	NEED(!braid_online_watch(o, "irq:*", NULL, &none));
	feed(o);
	g = online_guest(o, "web1");
	for (k = 0; k < 6; k++) {
		NEED(numbers[k] < g->nr_seen);
		CHECK(g->seen[numbers[k]].count > 10);
		CHECK_EQ(g->seen[numbers[k]].count, walk_finds(all[k].same));
	}
	CHECK(none >= g->nr_seen || !g->seen[none].count);
	CHECK_EQ(online_guest(o, "web2")->nr_seen, 0);
	CHECK(!strcmp(g->seen[numbers[0]].event, "sched:sched_switch"));
	CHECK_EQ(g->seen[numbers[4]].cpu, 1);
	CHECK_EQ(g->seen[numbers[4]].pid, 33);
	braid_online_end(o);
}

/* The first one is described, until what was seen is known. */
static void the_first_is_described(void)
{
	struct busy_host b = { .path = path, .for_ns = SECOND, .mark_ns = 5 * MS };
	struct braid_online *o = online_engine(1);
	const struct braid_online_guest *g;
	s64 first_ns = 0, until_ns;
	u64 count = 0;
	u32 number, k;

	busy_host(&b);
	NEED(!braid_online_watch(o, "sched:sched_wakeup", NULL, &number));
	NEED(!braid_online_open(o, path));
	for (k = 0; k < b.nr_marks; k++) {
		until_ns = b.marks[k].until_ns;
		NEED(!braid_online_take(o, &b.marks[k]));
		g = online_guest(o, "web1");
		if (!g || number >= g->nr_seen || g->seen[number].count == count)
			continue;
		CHECK(g->seen[number].host_ns > first_ns);
		CHECK(g->seen[number].host_ns <= until_ns);
		first_ns = g->seen[number].host_ns;
		count = g->seen[number].count;
		if (k % 2)
			braid_online_look_again(o);
		else if (k + 1 < b.nr_marks && !braid_online_take(o, &b.marks[++k]))
			CHECK_EQ(online_guest(o, "web1")->seen[number].host_ns, first_ns);
		count = online_guest(o, "web1")->seen[number].count;
		braid_online_look_again(o);
	}
	CHECK(count > 10);
	braid_online_end(o);
}

/* A number that is used again begins at 0. */
static void no_longer_watched(void)
{
	struct braid_online *o = online_engine(1);
	u32 one, other, k, numbers[BRAID_ONLINE_EVENTS];
	u64 count;

	NEED(!braid_online_watch(o, "sched:*", NULL, &one));
	feed(o);
	count = online_guest(o, "web1")->seen[one].count;
	CHECK(count > 10);
	braid_online_unwatch(o, one);
	CHECK_EQ(online_guest(o, "web1")->seen[one].count, 0);
	feed(o);
	CHECK_EQ(online_guest(o, "web1")->seen[one].count, 0);
	NEED(!braid_online_watch(o, "sched:sched_switch", "next_pid == 33", &other));
	CHECK_EQ(other, one);
	feed(o);
	CHECK_EQ(online_guest(o, "web1")->seen[other].count,
		 walk_finds("sched/sched_switch: next_pid == 33"));
	for (k = 1; k < BRAID_ONLINE_EVENTS; k++)
		NEED(!braid_online_watch(o, "a:b", NULL, &numbers[k]));
	CHECK_EQ(braid_online_watch(o, "a:b", NULL, &numbers[0]), -ENOSPC);
	braid_online_end(o);
}

static void others_are_refused(void)
{
	static const char *const bad[] = {
		"sched", "sched:", ":x", "", "a:b,c:d", "a:b c", "a:b>1",
	};
	char longer[200];
	size_t k;

	for (k = 0; k < sizeof(bad) / sizeof(*bad); k++)
		CHECK_EQ(braid_online_watch_check(bad[k], NULL), -EINVAL);
	memset(longer, 'a', sizeof(longer));
	longer[70] = ':';
	longer[199] = 0;
	CHECK_EQ(braid_online_watch_check(longer, NULL), -EINVAL);
	CHECK_EQ(braid_online_watch_check("a:b", "prio <"), -EINVAL);
	CHECK_EQ(braid_online_watch_check("a:b", "prio < 5 && comm ~ \"x*\""), 0);
}

int main(void)
{
	path = scratch("events.braid");
	RUN(as_a_walk_counts);
	RUN(the_first_is_described);
	RUN(no_longer_watched);
	RUN(others_are_refused);
	return VERDICT();
}
