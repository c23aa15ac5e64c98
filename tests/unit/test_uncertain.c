// SPDX-License-Identifier: GPL-2.0-or-later
/* Events whose order is uncertain: exactly these are found, and reports mark them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/walk/order.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"

#define STREAMS	4u
#define VCPUS	3u
#define EVENTS	2000u

static char path[64];
static u64 seed = 1;

static u64 random_below(u64 n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % n;
}

static struct braid_stream streams[STREAMS];
static struct braid_ring rings[STREAMS][VCPUS];
static struct braid_item items[EVENTS];

static bool same_clock(const struct braid_item *a, const struct braid_item *b)
{
	return a->stream == b->stream &&
	       (a->stream->clock.nr_tracks <= 1 || a->ring->cpu == b->ring->cpu);
}

/* Compares each with all before it. */
static bool plainly(u32 at)
{
	u32 k;

	for (k = 0; k < at; k++)
		if (!same_clock(&items[k], &items[at]) &&
		    (items[at].bound_ns == BRAID_BOUND_UNKNOWN ||
		     items[k].bound_ns == BRAID_BOUND_UNKNOWN ||
		     items[at].host_ns - (s64)items[at].bound_ns <=
		     items[k].host_ns + (s64)items[k].bound_ns))
			return true;
	return false;
}

static void make_items(s64 start_ns, u32 nr_streams, u64 most_bound)
{
	s64 now = start_ns;
	u32 k;

	for (k = 0; k < EVENTS; k++) {
		u32 s = random_below(nr_streams);

		now += random_below(300);
		items[k].stream = &streams[s];
		items[k].ring = &rings[s][random_below(VCPUS)];
		items[k].host_ns = now;
		items[k].sure = true;
		items[k].bound_ns = s ? random_below(most_bound) : 0;
		if (!random_below(900) && most_bound > 1000)
			items[k].bound_ns = BRAID_BOUND_UNKNOWN;
	}
}

static void against_all(void)
{
	static const s64 starts[] = { 1000000000, 0, -100000, INT64_MIN + 5, INT64_MAX - 1000000 };
	u32 found = 0, turn, k;

	for (turn = 0; turn < 60; turn++) {
		struct braid_order order = { 0 };

		for (k = 0; k < STREAMS; k++)
			streams[k].clock.nr_tracks = k ? (random_below(2) ? VCPUS : 1) : 0;
		make_items(starts[turn % 3], 1 + turn % STREAMS, 10 << turn % 11);
		for (k = 0; k < EVENTS; k++) {
			bool uncertain = braid_order_next(&order, &items[k]);

			CHECK(uncertain == plainly(k));
			found += uncertain;
		}
	}
	CHECK(found > 1000 && found < 60 * EVENTS * 9 / 10);
	for (turn = 3; turn < 5; turn++) {	/* nothing overflows */
		struct braid_order order = { 0 };

		make_items(starts[turn], STREAMS, 1 << 20);
		for (k = 0; k < EVENTS; k++)
			braid_order_next(&order, &items[k]);
	}
}

/* The same of several hosts: those of one are compared by its own clock. */
static bool plainly_of_hosts(u32 at)
{
	const struct braid_item *b = &items[at];
	u32 k;

	for (k = 0; k < at; k++) {
		const struct braid_item *a = &items[k];
		bool own = a->stream->host == b->stream->host && b->ring->tie;
		s64 from = own ? b->own_ns - (s64)b->own_bound_ns : b->host_ns - (s64)b->bound_ns;
		s64 to = own ? a->own_ns + (s64)a->own_bound_ns : a->host_ns + (s64)a->bound_ns;

		if (!same_clock(a, b) && from <= to)
			return true;
	}
	return false;
}

static void of_several_hosts(void)
{
	static struct braid_host hosts[3] = { { .number = 0 }, { .number = 1 }, { .number = 2 } };
	u32 found = 0, certain = 0, turn, k, n;

	for (turn = 0; turn < 40; turn++) {
		struct braid_order order = { .several = true };
		u32 nr_hosts = 2 + turn % 2;
		u64 tie = 1ULL << turn % 12;

		for (k = 0; k < STREAMS; k++) {
			streams[k].host = &hosts[k % nr_hosts];
			streams[k].clock.nr_tracks = turn & 4 ? VCPUS : 1;
			for (n = 0; n < VCPUS; n++)
				rings[k][n].tie = k % nr_hosts ? &hosts[k % nr_hosts].tie : NULL;
		}
		make_items(1000000000, STREAMS, 1000);
		for (k = 0; k < EVENTS; k++) {
			bool uncertain;

			items[k].own_ns = items[k].host_ns - 77000;
			items[k].own_bound_ns = items[k].bound_ns;
			items[k].bound_ns += items[k].ring->tie ? tie : 0;
			uncertain = braid_order_next(&order, &items[k]);
			CHECK(uncertain == plainly_of_hosts(k));
			found += uncertain;
			certain += !uncertain;
		}
	}
	CHECK(found > 1000 && certain > 1000);
	for (k = 0; k < STREAMS; k++) {
		streams[k].host = NULL;
		memset(rings[k], 0, sizeof(rings[k]));
	}
}

/* Events of one clock with a certain epoch are never uncertain. */
static void of_one_clock(void)
{
	struct braid_order order = { 0 };
	u32 k;

	streams[0].clock.nr_tracks = 1;
	make_items(0, 1, 1);
	for (k = 0; k < EVENTS; k++) {
		items[k].bound_ns = 100000;
		CHECK(!braid_order_next(&order, &items[k]));
	}
	/* With an uncertain epoch, two rings of one stream are like two clocks. */
	items[EVENTS - 1].ring = &rings[0][0];
	items[0].ring = &rings[0][1];
	items[0].host_ns = items[EVENTS - 1].host_ns + 1;
	items[0].bound_ns = 100000;
	items[0].sure = false;
	CHECK(braid_order_next(&order, &items[0]));
}

/* As many events are marked as the last line states, and the mark shifts no column. */
static void reports(void)
{
	struct braid_walk_options marked = { .uncertain = true };
	struct braid_walk_totals totals;
	char *text, last[64];
	const char *line, *end, *time;
	u64 n;

	synth_standard(path);
	text = report_text(path, false, NULL, &totals);
	n = totals.uncertain;
	CHECK(n > 0 && n < 857);
	CHECK_EQ(count_of(text, "] ~ "), 0);
	snprintf(last, sizeof(last), "193 lost, order uncertain for %llu\n",
		 (unsigned long long)n);
	CHECK(strstr(text, last));
	free(text);
	text = report_text(path, false, &marked, &totals);
	CHECK_EQ(totals.uncertain, n);
	CHECK_EQ(count_of(text, "] ~ "), n);
	for (line = text; (end = strchr(line, '\n')); line = end + 1) {
		time = *line == '#' ? NULL : strstr(line, "] ");
		if (time)
			CHECK(time[10] == '.' && time[20] == ':');
	}
	free(text);
	text = report_text(path, true, NULL, &totals);
	CHECK_EQ(count_of(text, ",\"uncertain\":true"), 0);
	free(text);
	text = report_text(path, true, &marked, &totals);
	CHECK_EQ(count_of(text, ",\"uncertain\":true"), n);
	snprintf(last, sizeof(last), "\"lost\":193,\"uncertain\":%llu}\n", (unsigned long long)n);
	CHECK(strstr(text, last));
	free(text);
	marked.stream = "guest1";
	text = report_text(path, false, &marked, &totals);
	CHECK_EQ(totals.uncertain, 0);	/* relative to the shown times */
	free(text);
}

int main(void)
{
	u32 s, v;

	snprintf(path, sizeof(path), "/tmp/braid-uncertain-%d", getpid());
	for (s = 0; s < STREAMS; s++) {
		streams[s].number = s;
		for (v = 0; v < VCPUS; v++)
			rings[s][v].cpu = v;
	}
	RUN(against_all);
	RUN(of_several_hosts);
	RUN(of_one_clock);
	RUN(reports);
	unlink(path);
	return VERDICT();
}
