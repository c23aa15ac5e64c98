// SPDX-License-Identifier: GPL-2.0-or-later
/* Captures of several hosts: one timeline, the truth within each event's bound; or a refusal. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/trace/merge.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tracebraid/tracebraid.h"

#define SECONDS		3u
#define AHEAD_NS	777000000000LL	/* of the other host's clock */
#define PPM		35.0
#define TICKS		300u
#define DELAY_NS	30000u		/* of a message */

static char paths[3][64];
static char *both[3] = { paths[0], paths[1], paths[2] };

/* The other host's clock at a time of the first one's, and back. */
static u64 other_at(u64 ns)
{
	return ns + AHEAD_NS + (s64)((double)(s64)(ns - SYNTH_START_NS) * PPM / 1e6);
}

static double true_ns(double other)
{
	double since = other - AHEAD_NS - SYNTH_START_NS;

	return SYNTH_START_NS + since / (1 + PPM / 1e6);
}

/* The third host's clock, which knows only the second one's. */
#define THIRD_AHEAD_NS	(-300000000000LL)
#define THIRD_PPM	-18.0

static u64 third_at(u64 ns)
{
	return ns + THIRD_AHEAD_NS + (s64)((double)(s64)(ns - SYNTH_START_NS) * THIRD_PPM / 1e6);
}

static double third_true_ns(double third)
{
	return SYNTH_START_NS + (third - THIRD_AHEAD_NS - SYNTH_START_NS) / (1 + THIRD_PPM / 1e6);
}

/* What both hosts' recorders note of messages from one time to another; @lie_ns: of one of them. */
static void put_crossings(struct braid_capture_writer *w, bool first, u64 from_ns, u64 to_ns,
			  s64 lie_ns)
{
	struct braid_peer_crossing c[2] = { { .flags = first ? BRAID_CROSSING_TO : 0 },
					    { .flags = first ? 0 : BRAID_CROSSING_TO } };
	u64 ns;

	for (ns = from_ns; ns < to_ns; ns += 100000000) {
		u64 there = ns + DELAY_NS, back = there + 5000;

		/* The first host asks. */
		c[0].own_ns = first ? ns : other_at(there);
		c[0].peer_ns = first ? other_at(there) : ns;
		c[1].own_ns = first ? back + DELAY_NS : other_at(back);
		c[1].peer_ns = first ? other_at(back) : back + DELAY_NS;
		if (ns > (from_ns + to_ns) / 2) {
			c[0].peer_ns += lie_ns;
			c[1].peer_ns += lie_ns;
		}
		synth_peer(w, first ? 2 : 1, c, 2);
	}
}

/* One host's capture: a guest of the same name on each, and the host. */
static void make(u32 file, bool first, u64 incarnation, bool contact, s64 lie_ns)
{
	struct synth_guest_params params = {
		.name = "web", .incarnation = incarnation, .boot = 7, .ppm = first ? 12 : -21,
		.start_ns = first ? SYNTH_START_NS : other_at(SYNTH_START_NS),
		.nr_slots = 64, .subbuf_bytes = 4096,
	};
	u64 start_ns = params.start_ns, end_ns = SYNTH_START_NS + SECONDS * 1000000000ULL;
	struct braid_chunk_window edge = { .edge = BRAID_WINDOW_START, .host_ns = start_ns };
	struct braid_capture_writer *w = synth_capture_of(paths[file], first ? "alpha" : "beta",
							  first ? 1 : 2, start_ns);
	struct synth_guest g;
	u32 k;

	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	for (k = 0; k < TICKS; k++) {
		g.now += SECONDS * 1000000000ULL / TICKS;
		if (!(k % 10))
			synth_sample(w, &g, 300, 500);
		NEED(synth_tick(&g, k & 1, k, "x"));
		synth_drain(w, &g, 0);
	}
	synth_end(w, &g, BRAID_END_STOPPED);
	synth_host(w, 2, 100, start_ns + 1000000, SECONDS * 10000000ULL);
	if (contact)
		put_crossings(w, first, SYNTH_START_NS, end_ns, lie_ns);
	edge = (struct braid_chunk_window){
		.edge = BRAID_WINDOW_STOP, .host_ns = first ? end_ns : other_at(end_ns),
	};
	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
}

/* Of an event of a guest, by the first host's clock. */
static double truth(const struct braid_item *item)
{
	bool first = !item->stream->host->number;
	double own;

	if (item->stream->kind == BRAID_STREAM_HOST)
		own = (double)item->counter;
	else
		own = (first ? (double)SYNTH_START_NS : (double)other_at(SYNTH_START_NS)) +
		      (double)item->counter * (1 + (first ? 12 : -21) / 1e6);
	return first ? own : true_ns(own);
}

static u64 events, hosts, other_events, third_events;
static u64 widest_ns, third_widest_ns;

static void check_third(const struct braid_item *item)
{
	third_events++;
	CHECK(fabs(third_true_ns((double)item->counter) - (double)item->host_ns) <=
	      (double)item->bound_ns + 2);
	if (item->bound_ns > third_widest_ns)
		third_widest_ns = item->bound_ns;
}

static void check_hosts(size_t nr, size_t nr_hosts, const struct braid_source_options *options)
{
	const struct braid_item *item;
	struct braid_source *source;
	struct braid_merge *m;
	s64 last = INT64_MIN;

	events = hosts = other_events = third_events = widest_ns = third_widest_ns = 0;
	NEED(!braid_source_open_captures(&source, both, nr, options));
	CHECK_EQ(source->nr_hosts, nr_hosts);
	NEED(!braid_merge_begin(&m, source, NULL, NULL));
	while (braid_merge_next(m, &item) > 0) {
		CHECK(item->host_ns >= last);
		last = item->host_ns;
		if (item->kind != BRAID_ITEM_EVENT)
			continue;
		events++;
		if (!strcmp(item->stream->host->name, "gamma")) {
			check_third(item);
			continue;
		}
		hosts += item->stream->kind == BRAID_STREAM_HOST;
		other_events += item->stream->host->number;
		if (item->bound_ns == BRAID_BOUND_UNKNOWN)
			continue;
		CHECK(fabs(truth(item) - (double)item->host_ns) <= (double)item->bound_ns + 2);
		if (item->bound_ns > widest_ns)
			widest_ns = item->bound_ns;
	}
	CHECK_EQ(source->faults, 0);
	braid_merge_end(m);
	braid_source_free(source);
}

static void check_merged(size_t nr, const struct braid_source_options *options)
{
	check_hosts(nr, 2, options);
}

static void merged(void)
{
	make(0, true, 1, true, 0);
	make(1, false, 2, true, 0);
	check_merged(2, NULL);
	CHECK_EQ(events, 2 * TICKS + 200);
	CHECK_EQ(other_events, TICKS + 100);
	CHECK_EQ(hosts, 200);
	CHECK(widest_ns >= DELAY_NS / 2 && widest_ns < 3 * DELAY_NS);
	/* What one of them says suffices, whichever. */
	make(1, false, 2, false, 0);
	check_merged(2, NULL);
	CHECK(widest_ns < 3 * DELAY_NS);
	make(0, true, 1, false, 0);
	make(1, false, 2, true, 0);
	check_merged(2, NULL);
	CHECK(widest_ns < 3 * DELAY_NS);
	/* Two captures of one host have one clock, and what both have counts once. */
	make(2, false, 2, false, 0);
	check_merged(3, NULL);
	CHECK_EQ(events, 2 * TICKS + 200);
	CHECK(widest_ns < 3 * DELAY_NS);
}

static bool has_stream(const struct tracebraid_trace *trace, const char *name)
{
	size_t k;

	for (k = 0; k < tracebraid_nr_streams(trace); k++)
		if (!strcmp(tracebraid_stream_name(tracebraid_stream(trace, k)), name))
			return true;
	return false;
}

/* Guests of one name, even of one incarnation, are two. */
static void told_apart(void)
{
	static const char *const names[] = { "web@alpha", "web@beta", "host@alpha", "host@beta" };
	const char *const files[] = { paths[0], paths[1] };
	struct tracebraid_trace *trace;
	u32 k;

	make(0, true, 1, true, 0);
	make(1, false, 1, true, 0);
	NEED(!tracebraid_open_with(&trace, files, 2, NULL, NULL, NULL));
	CHECK_EQ(tracebraid_nr_streams(trace), 4);
	for (k = 0; k < 4; k++)
		CHECK(has_stream(trace, names[k]));
	tracebraid_close(trace);
	/* One host alone keeps its names. */
	NEED(!tracebraid_open_with(&trace, files, 1, NULL, NULL, NULL));
	CHECK(has_stream(trace, "web") && has_stream(trace, "host"));
	tracebraid_close(trace);
}

/* The third host's capture, which has what crossed between it and the second one, if @contact. */
static void make_third(u32 file, bool contact)
{
	u64 end_ns = SYNTH_START_NS + SECONDS * 1000000000ULL, ns;
	struct braid_chunk_window edge = {
		.edge = BRAID_WINDOW_START, .host_ns = third_at(SYNTH_START_NS),
	};
	struct braid_capture_writer *w = synth_capture_of(paths[file], "gamma", 3, edge.host_ns);
	struct braid_peer_crossing c[2] = { { .flags = BRAID_CROSSING_TO } };

	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
	synth_host(w, 1, 100, third_at(SYNTH_START_NS + 1000000), SECONDS * 10000000ULL);
	for (ns = SYNTH_START_NS; contact && ns < end_ns; ns += 100000000) {
		c[0].own_ns = third_at(ns);
		c[0].peer_ns = other_at(ns + DELAY_NS);
		c[1].own_ns = third_at(ns + 2 * DELAY_NS);
		c[1].peer_ns = other_at(ns + DELAY_NS);
		synth_peer(w, 2, c, 2);
	}
	edge = (struct braid_chunk_window){
		.edge = BRAID_WINDOW_STOP, .host_ns = third_at(end_ns),
	};
	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
	NEED(!braid_capture_finish(w));
}

static int try_open(size_t nr, const struct braid_source_options *options)
{
	struct braid_source *source;
	int err = braid_source_open_captures(&source, both, nr, options);

	if (!err)
		braid_source_free(source);
	return err;
}

static void refused(void)
{
	const struct braid_source_options unordered = { .unordered = true };

	make(0, true, 1, false, 0);
	make(1, false, 2, false, 0);
	CHECK_EQ(try_open(2, NULL), -EXDEV);
	CHECK(strstr(braid_failure(), "beta cannot be merged with alpha: they exchanged no times"));
	check_merged(2, &unordered);
	CHECK_EQ(events, 2 * TICKS + 200);
	CHECK(widest_ns < DELAY_NS / 2);	/* the other host's have no bound */
	/* A liar is named. */
	make(0, true, 1, true, 3000000);
	CHECK_EQ(try_open(2, NULL), -EXDEV);
	CHECK(strstr(braid_failure(), "beta cannot be merged with alpha: its times contradict"));
	check_merged(2, &unordered);
}

/* Two that have no contact, and a third one that has it with both: bounds add up. */
static void chained(void)
{
	struct braid_source *source;

	make(0, true, 1, true, 0);
	make(1, false, 2, true, 0);
	make_third(2, true);
	check_hosts(3, 3, NULL);
	CHECK_EQ(events, 2 * TICKS + 300);
	CHECK_EQ(third_events, 100);
	CHECK(third_widest_ns >= DELAY_NS && third_widest_ns < 6 * DELAY_NS);
	CHECK(third_widest_ns > widest_ns);
	/* Whichever is named first. */
	make(2, false, 2, true, 0);
	make_third(1, true);
	check_hosts(3, 3, NULL);
	CHECK(third_widest_ns >= DELAY_NS && third_widest_ns < 6 * DELAY_NS);
	NEED(!braid_source_open_captures(&source, both, 3, NULL));
	CHECK(strstr(source->hosts[1]->tie.reason, ", by way of beta"));
	CHECK(!strstr(source->hosts[2]->tie.reason, "by way of"));
	braid_source_free(source);
	/* The contact of one is not that of the other. */
	make_third(1, false);
	CHECK_EQ(try_open(3, NULL), -EXDEV);
	CHECK(strstr(braid_failure(), "gamma cannot be merged with alpha: they exchanged no times"));
	/* A liar between them is named. */
	make(0, true, 1, true, 3000000);
	make(2, false, 2, true, 3000000);
	make_third(1, true);
	CHECK_EQ(try_open(3, NULL), -EXDEV);
	CHECK(strstr(braid_failure(), "cannot be merged with alpha"));
}

/* Without messages for a part of the time that both have, or only before. */
static void in_part(void)
{
	struct braid_capture_writer *w;
	struct braid_chunk_window edge = { .edge = BRAID_WINDOW_START };
	u64 end_ns = SYNTH_START_NS + SECONDS * 1000000000ULL;
	u32 k;

	for (k = 0; k < 2; k++) {
		bool early = k;		/* or both */

		make(0, true, 1, true, 0);
		edge.edge = BRAID_WINDOW_START;
		edge.host_ns = other_at(SYNTH_START_NS) - 90000000000ULL;
		w = synth_capture_of(paths[1], "beta", 2, edge.host_ns);
		NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
		synth_host(w, 1, 100, edge.host_ns + 1000000, 900000000);
		edge.edge = BRAID_WINDOW_STOP;
		edge.host_ns = other_at(end_ns);
		NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
		NEED(!braid_capture_finish(w));
		if (early) {
			check_merged(2, NULL);
			CHECK(widest_ns < 40 * DELAY_NS);
			continue;
		}
		/* The first one was recorded then, too. */
		w = synth_capture_of(paths[2], "alpha", 1, SYNTH_START_NS - 90000000000ULL);
		edge.edge = BRAID_WINDOW_START;
		edge.host_ns = SYNTH_START_NS - 90000000000ULL;
		NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
		edge.edge = BRAID_WINDOW_STOP;
		edge.host_ns = SYNTH_START_NS;
		NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
		NEED(!braid_capture_finish(w));
		CHECK_EQ(try_open(3, NULL), -EXDEV);
		CHECK(strstr(braid_failure(), "for a part of the time in which both were"));
	}
}

int main(void)
{
	u32 k;

	for (k = 0; k < 3; k++)
		snprintf(paths[k], sizeof(paths[k]), "/tmp/test_hosts.%d.%u", (int)getpid(), k);
	RUN(merged);
	RUN(told_apart);
	RUN(refused);
	RUN(chained);
	RUN(in_part);
	for (k = 0; k < 3; k++)
		unlink(paths[k]);
	return VERDICT();
}
