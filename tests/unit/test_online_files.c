// SPDX-License-Identifier: GPL-2.0-or-later
/* The online engine with files and marks that are not as they should be, and its limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/states.h"
#include "host_agent/online/online.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/crowd.h"
#include "tests/unit/host_events.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/online_engine.h"
#include "tests/unit/scratch.h"
#include "tests/unit/truth.h"

#define SECOND		1000000000ULL
#define MS		1000000ULL

static char *path;

static void put_edge(struct braid_capture_writer *w, u32 edge, u64 ns)
{
	struct braid_chunk_window window = { .edge = edge, .host_ns = SYNTH_START_NS + ns };

	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &window, sizeof(window), NULL, 0));
}

/* All that was written was of before then. */
static void mark_at(struct braid_online *o, struct braid_capture_writer *w, u64 ns)
{
	struct braid_capture_mark mark = { .until_ns = SYNTH_START_NS + ns };

	NEED(!braid_capture_flush(w));
	mark.bytes = braid_capture_bytes(w);
	CHECK(!braid_online_take(o, &mark));
}

/* A loss is found after a mark up to which all was known: it began no earlier. */
static void a_loss_after_a_mark(u64 mark_ns, u64 next_ns)
{
	struct braid_online *o = online_engine(1);
	struct braid_capture_writer *w = synth_capture(path);
	const u64 *ns;

	crowd_guest(w, 1, 1, 1);
	host_begin(w, 1, HOST_FIRST_TID);
	put_edge(w, BRAID_WINDOW_START, 100 * MS);
	NEED(!braid_online_open(o, path));
	host_event(w, 200 * MS, HOST_SWITCH, 7, HOST_FIRST_TID, false);
	mark_at(o, w, mark_ns);
	host_event(w, next_ns, HOST_IRQ_END, HOST_FIRST_TID, 0, true);
	mark_at(o, w, 700 * MS);
	ns = online_guest(o, "guest")->vcpus[0].ns;
	CHECK_EQ(ns[BRAID_VCPU_RUNS], mark_ns - 200 * MS + 700 * MS - next_ns);
	CHECK_EQ(ns[BRAID_VCPU_UNKNOWN], 100 * MS + next_ns - mark_ns);
	put_edge(w, BRAID_WINDOW_STOP, 800 * MS);
	NEED(!braid_capture_finish(w));
	CHECK(!braid_online_finish(o));
	ns = online_guest(o, "guest")->vcpus[0].ns;
	CHECK_EQ(ns[BRAID_VCPU_RUNS], mark_ns - 200 * MS + 800 * MS - next_ns);
	CHECK_EQ(braid_states_sum(ns), 700 * MS);
	braid_online_end(o);
}

static void losses_after_marks(void)
{
	a_loss_after_a_mark(500 * MS, 600 * MS);
	a_loss_after_a_mark(500 * MS, 500 * MS);
}

/* An episode counts when it is over, and is seen while it goes on. */
static void episodes(void)
{
	struct braid_online *o = online_engine(1);
	struct braid_capture_writer *w = synth_capture(path);
	const struct braid_online_guest *g;

	crowd_guest(w, 1, 1, 1);
	host_begin(w, 1, HOST_FIRST_TID);
	put_edge(w, BRAID_WINDOW_START, 0);
	NEED(!braid_online_open(o, path));
	host_event(w, 10 * MS, HOST_SWITCH, 7, HOST_FIRST_TID, false);
	host_event(w, 300 * MS, HOST_SWITCH, HOST_FIRST_TID, 7, false);
	host_event(w, 305 * MS, HOST_SWITCH, 7, HOST_FIRST_TID, false);
	host_event(w, 340 * MS, HOST_IRQ, HOST_FIRST_TID, 0, false);
	mark_at(o, w, 350 * MS);
	g = online_guest(o, "guest");
	CHECK_EQ(g->steals.nr, 1);
	CHECK_EQ(g->steals.counts[11], 1);	/* up to 5 ms */
	CHECK_EQ(g->steals.sum_ns, 5 * MS);
	CHECK_EQ(online_stolen_by(g, BRAID_CULPRIT_INTERRUPTS, ""), 10 * MS);
	mark_at(o, w, 390 * MS);
	CHECK_EQ(g->steals.nr, 1);
	CHECK_EQ(braid_online_worst_ns(o, &g->steals), 50 * MS);
	mark_at(o, w, 3 * SECOND);
	CHECK_EQ(braid_online_worst_ns(o, &g->steals), 3 * SECOND - 340 * MS);
	host_event(w, 3 * SECOND, HOST_IRQ_END, HOST_FIRST_TID, 0, false);
	mark_at(o, w, 4 * SECOND);
	CHECK_EQ(g->steals.nr, 2);
	CHECK_EQ(g->steals.counts[20], 1);	/* up to 5 s */
	mark_at(o, w, 6 * SECOND);
	CHECK_EQ(braid_online_worst_ns(o, &g->steals), 0);
	CHECK_EQ(braid_online_silent_ns(o, g), UINT64_MAX);	/* it never gave a sign */
	NEED(!braid_capture_finish(w));
	braid_online_end(o);
}

/* Marks that promise too much: events come late, and what was summed up stays. */
static void late_events(void)
{
	struct busy_host b = { .path = path, .for_ns = SECOND, .mark_ns = 5 * MS };
	struct braid_online *o = online_engine(1);
	u32 k;

	busy_host(&b);
	for (k = 0; k < b.nr_marks; k++)
		b.marks[k].until_ns += 3 * MS;
	NEED(!online_feed(o, &b));
	CHECK(braid_online_totals(o)->late > 100);
	CHECK_EQ(braid_online_totals(o)->failed, 0);
	CHECK_EQ(braid_online_totals(o)->host_events, b.host_events);
	CHECK(online_guest(o, "web1")->vcpus[0].ns[BRAID_VCPU_UNKNOWN] > 0);
	braid_online_end(o);
}

/* Times of marks that jump, bytes that are not there. */
static void absurd_marks(void)
{
	static const s64 times[] = {
		INT64_MIN, -1, 0, 1, SYNTH_START_NS + 2 * SECOND, 1LL << 60, 1LL << 61,
		INT64_MAX - 1,
	};
	struct busy_host b = { .path = path, .for_ns = 500 * MS, .mark_ns = 5 * MS };
	struct braid_online *o = online_engine(1);
	u32 round, k;

	busy_host(&b);
	for (round = 0; round < 200; round++) {
		NEED(!braid_online_open(o, path));
		for (k = 0; k < 20; k++) {
			struct braid_capture_mark mark = b.marks[truth_below(b.nr_marks)];

			if (!truth_below(3))
				mark.until_ns = times[truth_below(8)];
			if (!truth_below(3))
				mark.bytes = truth_below(2) ? truth_below(mark.bytes) :
							      BRAID_CAPTURE_ALL;
			CHECK(!braid_online_take(o, &mark));
		}
		CHECK(!braid_online_finish(o));
	}
	CHECK_EQ(braid_online_totals(o)->files, 200);
	braid_online_end(o);
}

/* A file may be damaged; that the sums are wrong is a defect of the program. */
static void check_sane(int err)
{
	CHECK(!err || !strstr(braid_failure(), "a bug in tracebraid"));
}

/* The recorder begins another file then; in this one its stream is not followed. */
static void a_guest_comes_late(void)
{
	struct busy_host b = {
		.path = path, .for_ns = SECOND, .mark_ns = 5 * MS, .late_web2 = true,
	};
	struct braid_online *o = online_engine(1);

	busy_host(&b);
	NEED(!online_feed(o, &b));
	CHECK_EQ(braid_online_totals(o)->streams_left_out, 1);
	CHECK_EQ(braid_online_totals(o)->failed, 0);
	CHECK(online_guest(o, "web1") && !online_guest(o, "web2"));
	b.late_web2 = false;
	b.from_ns = 2 * SECOND;
	busy_host(&b);
	NEED(!online_feed(o, &b));
	CHECK(online_guest(o, "web2"));
	braid_online_end(o);
}

/* Events of which a part is nonsense, in files that are valid. */
static void wild_events(void)
{
	struct busy_host b = {
		.path = path, .for_ns = 300 * MS, .mark_ns = 5 * MS, .lose = 50,
	};
	struct braid_online *o = online_engine(1);
	u32 round, k;

	for (round = 0; round < 20; round++) {
		b.wild = 3 + truth_below(200);
		b.no_migrations = round & 1;
		b.ends_web1 = round & 2;
		busy_host(&b);
		NEED(!braid_online_open(o, path));
		for (k = 0; k < b.nr_marks; k++)
			check_sane(braid_online_take(o, &b.marks[k]));
		check_sane(braid_online_finish(o));
	}
	CHECK(braid_online_totals(o)->faults > 0);
	braid_online_end(o);
}

/* The same, in a recording that goes on to other files. */
static void wild_sequences(void)
{
	char *files[] = { path, scratch("second.braid"), scratch("third.braid") };
	struct busy_host b = {
		.path = path, .next = files + 1, .nr_next = 2, .for_ns = 300 * MS,
		.mark_ns = 5 * MS, .lose = 50,
	};
	struct braid_online *o = online_engine(1);
	u32 round, k;

	for (round = 0; round < 20; round++) {
		b.wild = 3 + truth_below(200);
		b.no_migrations = round & 1;
		b.ends_web1 = round & 2;
		b.late_web2 = round & 4;
		busy_host(&b);
		for (k = 0; k < 3; k++) {
			int ret = online_follow(o, files[k], 1 + truth_below(10));

			check_sane(ret == BRAID_ONLINE_END ? 0 : ret);
		}
	}
	check_sane(braid_online_finish(o));
	CHECK_EQ(braid_online_totals(o)->files, 60);
	braid_online_end(o);
}

/* The file itself states absurd times up to which it is complete. */
static void absurd_files(void)
{
	struct busy_host b = {
		.path = path, .for_ns = 500 * MS, .mark_ns = 5 * MS, .absurd = true,
	};
	struct braid_online *o = online_engine(1);
	size_t bytes;
	u32 round;
	u8 *all;
	int ret;

	busy_host(&b);
	all = read_file(path, &bytes);
	for (round = 0; round < 60; round++) {
		write_file(path, all, b.marks[truth_below(b.nr_marks)].bytes);
		NEED(!braid_online_open(o, path));
		check_sane(braid_online_turn(o, false));
		write_file(path, all, bytes);
		do
			ret = braid_online_turn(o, true);
		while (ret == 1);
		check_sane(ret);
		CHECK(braid_online_turn(o, true) == BRAID_ONLINE_END);
		CHECK(braid_online_totals(o)->now_ns <= BRAID_STATES_MAX_NS);
	}
	free(all);
	braid_online_end(o);
}

/* A damaged file is counted, and the next one is followed. */
static void damage(void)
{
	struct busy_host b = { .path = path, .for_ns = 500 * MS, .mark_ns = 20 * MS };
	char *damaged = scratch("damaged.braid");
	struct braid_online *o = online_engine(1);
	u8 *good, *bad;
	size_t bytes;
	u32 round, k;

	busy_host(&b);
	good = read_file(path, &bytes);
	bad = malloc(bytes);
	NEED(bad);
	for (round = 0; round < 60; round++) {
		memcpy(bad, good, bytes);
		for (k = truth_below(40); k; k--)
			bad[truth_below(bytes)] = truth_random();
		write_file(damaged, bad, truth_below(3) ? bytes : truth_below(bytes));
		if (braid_online_open(o, damaged))
			continue;
		for (k = 0; k < b.nr_marks; k++)
			check_sane(braid_online_take(o, &b.marks[k]));
		check_sane(braid_online_finish(o));
	}
	CHECK(braid_online_totals(o)->faults > 60);
	CHECK(braid_online_open(o, scratch("none.braid")) == -ENOENT);
	CHECK(braid_online_totals(o)->failed > 0);
	CHECK(!braid_online_take(o, &b.marks[0]) && !braid_online_finish(o));
	NEED(!online_feed(o, &b));
	free(good);
	free(bad);
	braid_online_end(o);
}

/* A guest that is gone for long is dropped, as a culprit, too. */
static void retention(void)
{
	const struct braid_online_options options = { .every_ns = 1, .retain_ns = 3 * SECOND };
	struct busy_host b = {
		.path = path, .for_ns = 500 * MS, .mark_ns = 5 * MS, .web2 = "gone",
	};
	struct braid_online *o;
	u64 sum;

	NEED(!braid_online_begin(&o, &options));
	busy_host(&b);
	NEED(!online_feed(o, &b));
	CHECK(online_guest(o, "gone") && online_stolen_by(online_guest(o, "web1"), BRAID_CULPRIT_GUEST, "gone"));
	b.web2 = NULL;
	for (b.from_ns = SECOND; b.from_ns < 3 * SECOND; b.from_ns += SECOND) {
		busy_host(&b);
		NEED(!online_feed(o, &b));
		CHECK(online_guest(o, "gone"));
	}
	sum = braid_states_sum(online_guest(o, "web1")->vcpus[0].ns);
	b.from_ns = 10 * SECOND;
	busy_host(&b);
	NEED(!online_feed(o, &b));
	b.from_ns = 12 * SECOND;
	busy_host(&b);
	NEED(!online_feed(o, &b));
	CHECK(!online_guest(o, "gone"));
	CHECK_EQ(braid_online_totals(o)->guests_dropped, 1);
	CHECK_EQ(online_stolen_by(online_guest(o, "web1"), BRAID_CULPRIT_GUEST, "gone"), 0);
	CHECK(online_stolen_by(online_guest(o, "web1"), BRAID_CULPRIT_GUEST, "web2") > 0);
	CHECK(braid_states_sum(online_guest(o, "web1")->vcpus[0].ns) > sum);
	braid_online_end(o);
}

static u64 sum_rows(const struct braid_online_rows *rows)
{
	u64 sum = rows->others.ns;
	size_t k;

	for (k = 0; k < rows->nr; k++)
		sum += rows->items[k].ns;
	return sum;
}

/* What is beyond a limit is others, and the sum stays. */
static void limits(void)
{
	const struct braid_online_options options = {
		.every_ns = 1, .max_guests = 1, .max_culprits = 2, .max_reasons = 1,
	};
	struct busy_host b = { .path = path, .for_ns = SECOND, .mark_ns = 5 * MS };
	struct braid_online *o, *all = online_engine(1);
	const struct braid_online_guest *g, *want;

	NEED(!braid_online_begin(&o, &options));
	busy_host(&b);
	NEED(!online_feed(o, &b) && !online_feed(all, &b));
	g = online_guest(o, "web1");
	want = online_guest(all, "web1");
	CHECK(g && !online_guest(o, "web2"));
	CHECK_EQ(braid_online_totals(o)->streams_left_out, 1);
	CHECK_EQ(g->culprits.nr, 2);
	CHECK(g->culprits.others.count > 0);
	CHECK_EQ(sum_rows(&g->culprits), sum_rows(&want->culprits));
	CHECK_EQ(g->exits.nr, 1);
	CHECK_EQ(g->exits.items[0].ns, want->exits.items[0].ns);
	CHECK_EQ(want->exits.nr, 4);
	CHECK_EQ(g->exits.others.count, want->exits.items[1].count + want->exits.items[2].count +
					want->exits.items[3].count);
	braid_online_end(o);
	braid_online_end(all);
}

int main(void)
{
	path = scratch("busy.braid");
	RUN(losses_after_marks);
	RUN(episodes);
	RUN(late_events);
	RUN(absurd_marks);
	RUN(a_guest_comes_late);
	RUN(wild_events);
	RUN(wild_sequences);
	RUN(absurd_files);
	RUN(damage);
	RUN(retention);
	RUN(limits);
	return VERDICT();
}
