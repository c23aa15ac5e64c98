// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Captures of two hosts that recorded packets of each other: these tie their clocks, alone or with
 * messages. What could be taken for another packet is not used.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define PACKETS		600u
#define STEP_NS		10000000ULL
#define AHEAD_NS	777000000000LL	/* of the other host's clock */
#define PPM		35.0
#define DELAY_NS	20000u
#define POINTS		20000u
#define SENT		901u
#define RECEIVED	902u
#define PAGE_BYTES	4096u

static char paths[2][64];
static char *both[2] = { paths[0], paths[1] };
static u64 state = 1;

static double uniform(void)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(state >> 11) / (double)(1ULL << 53);
}

/* A host's clock at ns after the start, of the first one's. */
static u64 clock_at(u32 host, double ns)
{
	return SYNTH_START_NS + (u64)(s64)ns + (host ? AHEAD_NS + (s64)(ns * PPM / 1e6) : 0);
}

/* How packets differ from what is usual. */
enum change {
	USUAL,
	SAME_ID,	/* each is sent again, as it is, later */
	FRAGMENTS,
	UDP,
	ONE_WAY,
	LIES,		/* some are received before they were sent */
};

struct event {
	u64 ns;
	u16 id;
	u32 packet;
};

static void put_format(struct braid_capture_writer *w, u32 stream, u16 id, const char *name,
		       const char *before, u32 at)
{
	struct braid_chunk_text head = { .kind = BRAID_TEXT_FORMAT };
	char text[1024];

	snprintf(text, sizeof(text),
		 "name: %s\nID: %u\nformat:\n"
		 "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
		 "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
		 "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
		 "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n%s"
		 "\tfield:u32 head[13];\toffset:%u;\tsize:52;\tsigned:0;\n\nprint fmt: \"\"\n",
		 name, id, before, at);
	strcpy(head.name, BRAID_PACKETS_SYSTEM "77");
	head.raw_bytes = strlen(text);
	NEED(!braid_capture_put(w, BRAID_CHUNK_TEXT, stream, &head, sizeof(head), text,
				strlen(text)));
}

static void make_head(u8 *head, u32 packet, enum change change)
{
	static const u8 usual[] = { 0x45, 0, 0, 200, 0, 0, 0x40, 0, 64, 6 };
	static const u8 options[] = { 1, 1, 8, 10 };

	memset(head, 0, 52);
	memcpy(head, usual, sizeof(usual));
	memcpy(head + 4, &packet, 2);
	memcpy(head + 24, &packet, 4);		/* sequence number */
	head[32] = 0x80;
	memcpy(head + 40, options, sizeof(options));
	memcpy(head + 44, &packet, 4);
	if (change == FRAGMENTS)
		head[6] = 0x20;
	if (change == UDP)
		head[9] = 17;
	head[8] -= (u8)(uniform() * 8);		/* routers change it */
}

/* One page with one event, as tracefs has it. */
static void put_event(struct braid_capture_writer *w, const struct event *e, enum change change)
{
	struct braid_chunk_host_page head = { .cpu = 0, .bytes = PAGE_BYTES };
	u32 at = e->id == SENT ? 16 : 8, words = (at + 52) / 4;
	u64 commit = 4 + words * 4;
	u8 page[PAGE_BYTES] = { 0 };

	memcpy(page, &e->ns, 8);
	memcpy(page + 8, &commit, 8);
	memcpy(page + 16, &words, 4);
	memcpy(page + 20, &e->id, 2);
	make_head(page + 20 + at, e->packet, change);
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_PAGE, 1, &head, sizeof(head), page,
				sizeof(page)));
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static void put_crossings(struct braid_capture_writer *w, u32 host)
{
	struct braid_peer_crossing c[2] = { { .flags = host ? 0 : BRAID_CROSSING_TO },
					    { .flags = host ? BRAID_CROSSING_TO : 0 } };
	u64 ns;

	for (ns = 0; ns < PACKETS * STEP_NS; ns += 100000000) {
		u64 there = ns + 300000, back = there + 350000;

		c[0].own_ns = clock_at(host, host ? there : ns);
		c[0].peer_ns = clock_at(!host, host ? ns : there);
		c[1].own_ns = clock_at(host, host ? there : back);
		c[1].peer_ns = clock_at(!host, host ? back : there);
		synth_peer(w, host ? 1 : 2, c, 2);
	}
}

static u32 make_events(struct event *events, u32 host, enum change change)
{
	u32 k, nr = 0;

	for (k = 0; k < PACKETS; k++) {
		u32 from = change == ONE_WAY ? 0 : k & 1;
		double at = k * (double)STEP_NS, way = DELAY_NS - log(uniform() + 1e-9) * 100000;

		if (change == LIES && k % 50 == 7)
			way = -5e6;
		events[nr++] = (struct event){
			clock_at(host, from == host ? at : at + way),
			from == host ? SENT : RECEIVED, k,
		};
		if (change == SAME_ID && from == host)
			events[nr++] = (struct event){ clock_at(host, at + 1e6), SENT, k };
	}
	qsort(events, nr, sizeof(*events), by_time);
	return nr;
}

static void make(u32 host, enum change change, bool contact)
{
	static struct event events[2 * PACKETS];
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = 1, .subbuf_bytes = PAGE_BYTES,
		.host_ns = clock_at(host, 0), .name = "host",
	};
	struct braid_chunk_window edge = {
		.edge = BRAID_WINDOW_START, .host_ns = clock_at(host, 0),
	};
	struct braid_capture_writer *w = synth_capture_of(paths[host], host ? "beta" : "alpha",
							  host ? 2 : 1, edge.host_ns);
	struct braid_chunk_stream_end stop = { .reason = BRAID_END_STOPPED };
	struct braid_chunk_ring_end end = { .vcpu = 0 };
	u32 nr, k;

	state = 1;	/* delays are the same on both hosts */
	nr = make_events(events, host, change);
	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, 1, &head, sizeof(head), NULL, 0));
	put_format(w, 1, SENT, "sent", "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;"
		   "\tsigned:0;\n", 16);
	put_format(w, 1, RECEIVED, "received", "", 8);
	for (k = 0; k < nr; k++)
		put_event(w, &events[k], change);
	if (contact)
		put_crossings(w, host);
	end.written = end.read = nr;
	NEED(!braid_capture_put(w, BRAID_CHUNK_RING_END, 1, &end, sizeof(end), NULL, 0));
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM_END, 1, &stop, sizeof(stop), NULL, 0));
	edge.edge = BRAID_WINDOW_STOP;
	edge.host_ns = clock_at(host, PACKETS * (double)STEP_NS);
	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
	NEED(!braid_capture_finish(w));
}

static void make_both(enum change change, bool contact)
{
	make(0, change, contact);
	make(1, change, contact);
}

/* Return: the worst bound. */
static u64 check_tied(const char *reason)
{
	struct braid_source *source;
	const struct braid_host *host;
	u64 worst = 0;
	u32 k;

	NEED(!braid_source_open_captures(&source, both, 2, NULL));
	host = source->hosts[1];
	CHECK(!strcmp(host->tie.reason, reason));
	CHECK_EQ(source->faults, 0);
	for (k = 0; k < POINTS; k++) {
		double at = PACKETS * (double)STEP_NS * uniform();
		struct braid_clock_time t = braid_clock_convert(&host->tie, 0, clock_at(1, at),
								BRAID_TAKEN_UNKNOWN, 0);

		CHECK(fabs((double)(t.ns - (s64)clock_at(0, at))) <= (double)t.bound_ns + 2);
		worst = t.bound_ns > worst ? t.bound_ns : worst;
	}
	braid_source_free(source);
	return worst;
}

static void refuse(const char *why)
{
	struct braid_source *source;

	CHECK_EQ(braid_source_open_captures(&source, both, 2, NULL), -EXDEV);
	CHECK(strstr(braid_failure(), why));
}

static void tied(void)
{
	static const char also[] = "proven given wander 30 µs/s, also by packets";
	u64 messages, packets, all;

	make_both(UDP, true);
	messages = check_tied("proven given wander 30 µs/s");
	make_both(USUAL, false);
	packets = check_tied(also);
	make_both(USUAL, true);
	all = check_tied(also);
	printf("worst bound by messages %llu ns, packets %llu ns, both %llu ns\n",
	       (unsigned long long)messages, (unsigned long long)packets, (unsigned long long)all);
	CHECK(packets >= DELAY_NS / 2 && packets < messages && all <= packets);
	/* In one direction they make the bound smaller, too. */
	make_both(ONE_WAY, true);
	CHECK(check_tied(also) < messages);
}

static void refused(void)
{
	make_both(ONE_WAY, false);
	refuse("they exchanged no times");
	make_both(SAME_ID, false);
	refuse("they exchanged no times");
	make_both(FRAGMENTS, false);
	refuse("they exchanged no times");
	make_both(UDP, false);
	refuse("they exchanged no times");
	make_both(LIES, false);
	refuse("its times contradict each other");
}

int main(void)
{
	u32 k;

	for (k = 0; k < 2; k++)
		snprintf(paths[k], sizeof(paths[k]), "/tmp/test_packets.%d.%u", (int)getpid(), k);
	RUN(tied);
	RUN(refused);
	for (k = 0; k < 2; k++)
		unlink(paths[k]);
	return VERDICT();
}
