// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest that moves between hosts: one stream in any order of their captures, each event once,
 * with the truth within its bound; and guests that look like one, but are several.
 */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/trace/merge.h"
#include "host_agent/trace/source.h"
#include "host_agent/trace/vcpu.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tracebraid/tracebraid.h"

#define HOSTS		3u
#define MOST_STAYS	3u
#define TICK_NS		10000000u
#define TICKS		100u		/* of a stay */
#define DOWN_NS		30000000u	/* for which a guest that moves stands still */
#define DELAY_NS	30000u		/* of a message */
#define UNSURE		10u		/* ticks of a stay before its first sample */

static const char *const names[HOSTS] = { "alpha", "beta", "gamma" };
static const s64 ahead_ns[HOSTS] = { 0, 777000000000LL, -300000000000LL };
static const double drift[HOSTS] = { 0, 35e-6, -18e-6 };
static char paths[HOSTS][64];

/* A host's clock at a time of the first one's, which is the truth. */
static u64 clock_of(u32 host, double ns)
{
	return (u64)(ns + (double)ahead_ns[host] + (ns - SYNTH_START_NS) * drift[host]);
}

/* What a guest does. */
struct plan {
	u32 hosts[MOST_STAYS];	/* where it is, one after the other */
	u32 nr;
	u32 unread;		/* ticks before it moves that only the next host reads */
	u32 both;		/* ticks before those that both read */
	bool overwrite;		/* the rings have room for some of them only */
	bool lies;		/* each host's latest count is of a time before all others */
};

static struct braid_capture_writer *writers[HOSTS];
static struct synth_guest guest;
static u32 streams[HOSTS];	/* of its file, so far */
static double off_ns;		/* of the truth, beyond the counter */
static u32 ticks;
static struct {
	u64 counter;		/* when the stay began */
	double off_ns;
	u32 host;
} truths[MOST_STAYS];
static u32 nr_truths;

static void put_edge(u32 host, u32 edge, double ns)
{
	struct braid_chunk_window window = { .edge = edge, .host_ns = clock_of(host, ns) };

	NEED(!braid_capture_put(writers[host], BRAID_CHUNK_WINDOW, 0, &window, sizeof(window), NULL,
				0));
}

/* The first host exchanges times with the others. */
static void put_crossings(double until_ns)
{
	u32 host;
	double ns;

	for (host = 1; host < HOSTS; host++) {
		for (ns = SYNTH_START_NS; ns < until_ns; ns += 100000000) {
			struct braid_peer_crossing c[2] = {
				{ .flags = BRAID_CROSSING_TO, .own_ns = clock_of(0, ns),
				  .peer_ns = clock_of(host, ns + DELAY_NS) },
				{ .peer_ns = clock_of(host, ns + DELAY_NS),
				  .own_ns = clock_of(0, ns + 2 * DELAY_NS) },
			};

			synth_peer(writers[0], host + 1, c, 2);
		}
	}
}

/* The guest's counter goes on on a host, at the true time that the offset says. */
static void run_on(u32 host)
{
	guest.start_ns = clock_of(host, SYNTH_START_NS + off_ns);
	guest.ppm = drift[host] * 1e6;
}

static double now_ns(void)
{
	return SYNTH_START_NS + off_ns + (double)guest.now;
}

static void tick(void)
{
	guest.now += TICK_NS;
	NEED(synth_tick(&guest, ticks & 1, ticks, "x"));
	ticks++;
}

static void arrive(const struct plan *plan, u32 stay)
{
	u32 host = plan->hosts[stay];

	run_on(host);
	truths[nr_truths].counter = guest.now;
	truths[nr_truths].off_ns = off_ns;
	truths[nr_truths++].host = host;
}

/* The next host's recorder finds it there. */
static void find_next(const struct plan *plan, u32 host, u32 next)
{
	double now = now_ns();

	off_ns += DOWN_NS;
	run_on(next);
	synth_begin(writers[next], &guest, ++streams[next]);
	off_ns -= DOWN_NS;
	run_on(host);
	guest.stream = streams[host];
	if (plan->both)
		synth_also(&guest, writers[next], streams[next], clock_of(next, now + 1e9));
}

/* A sample of the guest's counter as it is now, long ago. */
static void put_lie(u32 host)
{
	u64 ns = clock_of(host, SYNTH_START_NS + 1000);
	struct braid_clock_sample lie = { .h1_ns = ns, .counter = guest.now, .h2_ns = ns + 1000 };

	NEED(!braid_capture_put(writers[host], BRAID_CHUNK_CLOCK, streams[host], &lie, sizeof(lie),
				NULL, 0));
}

static void stay_there(const struct plan *plan, u32 stay)
{
	u32 host = plan->hosts[stay], next = stay + 1 < plan->nr ? plan->hosts[stay + 1] : host, k;
	bool moves = stay + 1 < plan->nr;

	for (k = 0; k < TICKS; k++) {
		u32 left = TICKS - k;

		if (moves && left == plan->unread + plan->both)
			find_next(plan, host, next);
		tick();
		if (k >= UNSURE && !(k % 10) && left > 8)
			synth_sample(writers[host], &guest, 300, 500);
		if (plan->lies && left == 9)
			put_lie(host);
		if (!moves || left > plan->unread)
			synth_drain(writers[host], &guest, 0);
	}
	synth_end(writers[host], &guest, moves ? BRAID_END_GONE : BRAID_END_STOPPED);
	if (!moves)
		return;
	if (!plan->unread && !plan->both)
		find_next(plan, host, next);
	if (plan->both)
		synth_also(&guest, NULL, 0, 0);
	else
		synth_next_file(&guest);
	guest.stream = streams[next];
	off_ns += DOWN_NS;
}

static void make(const struct plan *plan)
{
	struct synth_guest_params params = {
		.name = "web", .incarnation = 77, .boot = 7, .start_ns = SYNTH_START_NS,
		.nr_slots = plan->overwrite ? 4 : 64, .subbuf_bytes = plan->overwrite ? 256 : 4096,
		.flags = plan->overwrite ? BRAID_BUFFER_OVERWRITE : 0,
	};
	u32 k;

	off_ns = 0;
	ticks = nr_truths = 0;
	memset(streams, 0, sizeof(streams));
	synth_guest_init(&guest, &params);
	for (k = 0; k < HOSTS; k++) {
		writers[k] = synth_capture_of(paths[k], names[k], k + 1,
					      clock_of(k, SYNTH_START_NS));
		put_edge(k, BRAID_WINDOW_START, SYNTH_START_NS);
	}
	synth_begin(writers[plan->hosts[0]], &guest, ++streams[plan->hosts[0]]);
	for (k = 0; k < plan->nr; k++) {
		arrive(plan, k);
		stay_there(plan, k);
	}
	put_crossings(now_ns());
	for (k = 0; k < HOSTS; k++) {
		put_edge(k, BRAID_WINDOW_STOP, now_ns());
		NEED(!braid_capture_finish(writers[k]));
	}
	synth_guest_free(&guest);
}

/* Where the guest was at a counter, and when that was. */
static u32 truth_of(u64 counter, double *ns)
{
	u32 k = nr_truths - 1;

	while (k && counter <= truths[k].counter)
		k--;
	*ns = SYNTH_START_NS + truths[k].off_ns + (double)counter;
	return truths[k].host;
}

static u32 seen[MOST_STAYS * TICKS], nr_seen, elsewhere, unsure, bounded;
static u64 lost;

/* @first: the host of the timeline. */
static void check_item(const struct braid_item *item, u32 first)
{
	const struct braid_stream *part = braid_item_part(item);
	u32 number, host;
	double ns;

	lost += item->lost_before;
	if (item->kind != BRAID_ITEM_EVENT)
		return;
	memcpy(&number, item->payload + 8, sizeof(number));
	NEED(number < ticks);
	CHECK_EQ(seen[number]++, 0);
	nr_seen++;
	host = truth_of(item->counter, &ns);
	if (item->sure)
		CHECK(!strcmp(part->host->name, names[host]));
	else
		unsure++;
	elsewhere += host != first;
	if (item->bound_ns == BRAID_BOUND_UNKNOWN)
		return;
	bounded++;
	CHECK(fabs((double)clock_of(first, ns) - (double)item->host_ns) <=
	      (double)item->bound_ns + 3);
}

static const struct braid_stream *guest_of(const struct braid_source *source)
{
	const struct braid_stream *found = NULL;
	size_t k;

	for (k = 0; k < source->nr_streams; k++) {
		if (source->streams[k]->kind != BRAID_STREAM_GUEST)
			continue;
		CHECK(!found);
		found = source->streams[k];
	}
	NEED(found);
	return found;
}

/* Whatever samples say, a guest is on one host at a time. */
static void check_in_order(const struct braid_stream *s)
{
	const struct braid_stay *stay = s->stays;
	u32 k;

	for (k = 1; k < s->nr_stays; k++) {
		CHECK(stay[k].from_ns >= stay[k - 1].begun_ns);
		CHECK(stay[k].begun_ns >= stay[k].from_ns);
		/* An analysis takes it there just after that time. */
		CHECK(!braid_vcpu_part_on(s, braid_stream_host_number(stay[k].of),
					  stay[k].begun_ns));
		if (k + 1 == s->nr_stays || stay[k + 1].from_ns > stay[k].begun_ns)
			CHECK(braid_vcpu_part_on(s, braid_stream_host_number(stay[k].of),
						 stay[k].begun_ns + 1) == stay[k].of);
	}
}

static void check_stays(const struct braid_stream *s, const struct plan *plan, u32 first)
{
	double left, arrived;
	u32 k;

	NEED(s->nr_stays == plan->nr);
	check_in_order(s);
	for (k = 0; k < plan->nr; k++) {
		CHECK(!strcmp(s->stays[k].of->host->name, names[plan->hosts[k]]));
		if (!k)
			continue;
		truth_of(truths[k].counter, &left);
		truth_of(truths[k].counter + 1, &arrived);
		CHECK(s->stays[k].from_ns <= (s64)clock_of(first, left));
		CHECK(s->stays[k].begun_ns >= (s64)clock_of(first, arrived));
	}
}

static void check_order(const struct plan *plan, const u32 *order, const char *name)
{
	char *files[HOSTS];
	const struct braid_item *item;
	struct braid_source *source;
	const struct braid_stream *s;
	struct braid_merge *m;
	s64 last = INT64_MIN;
	u32 k;

	memset(seen, 0, sizeof(seen));
	nr_seen = elsewhere = unsure = bounded = 0;
	lost = 0;
	for (k = 0; k < HOSTS; k++)
		files[k] = paths[order[k]];
	NEED(!braid_source_open_captures(&source, files, HOSTS, NULL));
	s = guest_of(source);
	CHECK(!strcmp(s->name, name));
	check_stays(s, plan, order[0]);
	CHECK_EQ(s->end_reason, BRAID_END_STOPPED);
	NEED(!braid_merge_begin(&m, source, NULL, NULL));
	while (braid_merge_next(m, &item) > 0) {
		CHECK(item->host_ns >= last);
		last = item->host_ns;
		check_item(item, order[0]);
	}
	CHECK_EQ(source->faults, 0);
	CHECK_EQ(nr_seen + lost, ticks);
	for (k = 0; k + 1 < s->nr_rings; k++) {
		const struct braid_ring_walk *walk = &s->rings[k]->walk;

		CHECK_EQ(walk->events + walk->lost + walk->elsewhere,
			 walk->next_seq - walk->first_seq);
		CHECK_EQ(walk->elsewhere, 0);
	}
	CHECK_EQ(s->nr_rings, SYNTH_CPUS + 1);
	braid_merge_end(m);
	braid_source_free(source);
}

static void check_plan(const struct plan *plan, const char *name)
{
	static const u32 orders[][HOSTS] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
	};
	u32 k, most;

	make(plan);
	for (k = 0; k < sizeof(orders) / sizeof(*orders); k++) {
		check_order(plan, orders[k], name);
		CHECK_EQ(bounded, nr_seen);
		CHECK(elsewhere > TICKS / 2);
		/* Of what both read it is known where it was, if that is the one that is used. */
		most = plan->unread + UNSURE + (plan->both ? UNSURE : 0);
		CHECK(unsure >= (plan->unread + UNSURE) * (plan->nr - 1));
		CHECK(unsure <= most * (plan->nr - 1));
		CHECK_EQ(lost, 0);
	}
}

static void once(void)
{
	const struct plan plan = { .hosts = { 0, 1 }, .nr = 2 };
	const struct plan back = { .hosts = { 2, 1 }, .nr = 2 };

	check_plan(&plan, "web@alpha+beta");
	check_plan(&back, "web@gamma+beta");
}

static void over_three(void)
{
	const struct plan plan = { .hosts = { 0, 1, 2 }, .nr = 3, .unread = 4 };

	check_plan(&plan, "web@alpha+beta+gamma");
}

static void there_and_back(void)
{
	const struct plan plan = { .hosts = { 1, 0, 1 }, .nr = 3, .unread = 3 };

	check_plan(&plan, "web@beta+alpha");
}

static void lied_to(void)
{
	const struct plan plan = { .hosts = { 0, 1, 2 }, .nr = 3, .lies = true };
	char *files[] = { paths[0], paths[1], paths[2] };
	struct braid_source *source;

	make(&plan);
	NEED(!braid_source_open_captures(&source, files, HOSTS, NULL));
	NEED(guest_of(source)->nr_stays == plan.nr);
	check_in_order(guest_of(source));
	braid_source_free(source);
}

/* The next host reads what the one before has read, and more. */
static void read_twice(void)
{
	const struct plan all = { .hosts = { 0, 1 }, .nr = 2, .both = TICKS };
	const struct plan some = { .hosts = { 1, 0, 2 }, .nr = 3, .both = 37, .unread = 5 };

	check_plan(&all, "web@alpha+beta");
	check_plan(&some, "web@beta+alpha+gamma");
}

/* What was overwritten before the next host read it is counted. */
static void overwritten(void)
{
	const struct plan plan = {
		.hosts = { 0, 1 }, .nr = 2, .unread = 80, .overwrite = true,
	};
	static const u32 order[HOSTS] = { 0, 1, 2 }, turned[HOSTS] = { 1, 0, 2 };

	make(&plan);
	check_order(&plan, order, "web@alpha+beta");
	CHECK(lost > 5 && lost < plan.unread);
	check_order(&plan, turned, "web@alpha+beta");
	CHECK(lost > 5 && lost < plan.unread);
}

/* A VM that was started from a snapshot on another host, @later after the other one by both. */
static void put_twin(u32 host, double later_ns, u64 counter_ns)
{
	struct synth_guest_params params = {
		.name = "web", .incarnation = 77, .boot = 7, .nr_slots = 64, .subbuf_bytes = 4096,
	};
	u32 k;

	synth_guest_init(&guest, &params);
	guest.now += counter_ns;
	off_ns = later_ns - (double)counter_ns;
	run_on(host);
	synth_begin(writers[host], &guest, 1);
	for (k = 0; k < TICKS; k++) {
		tick();
		if (!(k % 10))
			synth_sample(writers[host], &guest, 300, 500);
		synth_drain(writers[host], &guest, 0);
	}
	synth_end(writers[host], &guest, BRAID_END_STOPPED);
	synth_guest_free(&guest);
}

/* Return: how many guests there are. */
static u32 twins(double later_ns, u64 counter_ns, bool samples)
{
	char *files[] = { paths[0], paths[1] };
	struct braid_source *source;
	u32 k, guests = 0, stays = 0;

	ticks = 0;
	for (k = 0; k < 2; k++)
		writers[k] = synth_capture_of(paths[k], names[k], k + 1,
					      clock_of(k, SYNTH_START_NS));
	writers[2] = synth_capture_of(paths[2], names[2], 3, clock_of(2, SYNTH_START_NS));
	put_twin(0, 0, 0);
	if (samples)
		put_twin(1, later_ns, counter_ns);
	else
		synth_begin(writers[1], &guest, 1);
	put_crossings(SYNTH_START_NS + 4e9);
	for (k = 0; k < HOSTS; k++)
		NEED(!braid_capture_finish(writers[k]));
	NEED(!braid_source_open_captures(&source, files, 2, NULL));
	for (k = 0; k < source->nr_streams; k++) {
		CHECK(!strcmp(source->streams[k]->name, guests ? "web@beta" : "web@alpha") ||
		      source->streams[k]->nr_stays);
		guests += source->streams[k]->kind == BRAID_STREAM_GUEST;
		stays += source->streams[k]->nr_stays;
	}
	CHECK_EQ(stays, guests == 1 ? 2 : 0);
	CHECK_EQ(source->faults, 0);
	braid_source_free(source);
	return guests;
}

static void told_apart(void)
{
	const u64 all_ns = (u64)TICKS * TICK_NS;

	/* It goes on there, later. */
	CHECK_EQ(twins(2e9, all_ns, true), 1);
	/* At the same time; later, but the counter began anew; before the counter was so far. */
	CHECK_EQ(twins(0, 0, true), 2);
	CHECK_EQ(twins(2e9, 0, true), 2);
	CHECK_EQ(twins(2e9, all_ns / 2, true), 2);
	CHECK_EQ(twins(5e8, all_ns, true), 2);
	/* It is not known. */
	CHECK_EQ(twins(0, 0, false), 2);
}

#define CROWD	2100u	/* on each host: more than a source has streams for, if they are apart */

/* Guests of which nothing is known, and between them one that is known by its last stream only. */
static void put_crowd(u32 host, u32 again)
{
	u32 k;

	guest.sb.incarnation = 77;
	synth_begin(writers[host], &guest, 1);
	for (k = 2; k < CROWD; k++) {
		guest.sb.incarnation = 1000 + k;
		synth_begin(writers[host], &guest, k);
	}
	guest.sb.incarnation = 77;
	if (again)
		synth_begin(writers[host], &guest, again);
	else
		guest.stream = 1;
	run_on(host);
	for (k = 0; k < 3; k++) {
		guest.now += TICK_NS;
		synth_sample(writers[host], &guest, 300, 500);
	}
}

static void too_many(void)
{
	struct synth_guest_params params = {
		.name = "web", .boot = 7, .nr_slots = 64, .subbuf_bytes = 4096,
	};
	char *files[] = { paths[0], paths[1] };
	struct braid_source *source;
	u32 k, moved = 0;

	off_ns = 0;
	for (k = 0; k < HOSTS; k++)
		writers[k] = synth_capture_of(paths[k], names[k], k + 1,
					      clock_of(k, SYNTH_START_NS));
	synth_guest_init(&guest, &params);
	put_crowd(0, 0);
	off_ns += DOWN_NS;
	put_crowd(1, CROWD);
	put_crossings(SYNTH_START_NS + 4e9);
	for (k = 0; k < HOSTS; k++)
		NEED(!braid_capture_finish(writers[k]));
	synth_guest_free(&guest);
	NEED(!braid_source_open_captures(&source, files, 2, NULL));
	for (k = 0; k < source->nr_streams; k++)
		moved += source->streams[k]->nr_stays > 0;
	CHECK_EQ(moved, 0);
	CHECK(source->faults);
	braid_source_free(source);
}

int main(void)
{
	u32 k;

	for (k = 0; k < HOSTS; k++)
		snprintf(paths[k], sizeof(paths[k]), "/tmp/test_moved.%d.%u", (int)getpid(), k);
	RUN(once);
	RUN(over_three);
	RUN(there_and_back);
	RUN(lied_to);
	RUN(read_twice);
	RUN(overwritten);
	RUN(told_apart);
	RUN(too_many);
	for (k = 0; k < HOSTS; k++)
		unlink(paths[k]);
	return VERDICT();
}
