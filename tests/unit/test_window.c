// SPDX-License-Identifier: GPL-2.0-or-later
/* A capture has exactly the events from the recording's start to its stop. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/check.h"
#include "host_agent/cli/cli.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/export/stats/form.h"
#include "host_agent/export/text/form.h"
#include "host_agent/export/text/line.h"
#include "host_agent/live/region_private.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

static char *region_path, *capture_path, *next_path;

static const struct fake_params usual = {
	.name = "fake", .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 1024, .nr_slots = 16,
};

/* A capture, ring by ring. */
struct reading {
	struct braid_source *source;
	u64 before, read, lost, left, after;	/* by its accounting */
	u64 events, walk_lost;			/* by its pages */
	u64 first, last;			/* numbers of vCPU 0's events */
	u32 wrong;
};

static void print_fault(void *arg, const struct braid_stream *stream, const char *line)
{
	(void)stream;
	(void)arg;
	fprintf(stderr, "  %s\n", line);
}

static void walk_ring(struct reading *r, struct braid_ring *ring)
{
	struct braid_text why = { 0 };
	u64 number;

	while (braid_ring_next(ring) > 0) {
		if (ring->cpu || ring->item.kind != BRAID_ITEM_EVENT)
			continue;
		memcpy(&number, ring->item.payload + 8, sizeof(number));
		r->first = number < r->first ? number : r->first;
		r->last = number;
	}
	if (!braid_check_account(ring, &why)) {
		r->wrong++;
		braid_text_putc(&why, 0);
		fprintf(stderr, "  ring %u: %s\n", ring->cpu, why.data);
	}
	braid_text_free(&why);
	r->before += ring->report.before;
	r->read += ring->report.read;
	r->lost += ring->report.lost;
	r->left += ring->report.left;
	r->after += ring->report.after;
	r->events += ring->walk.events;
	r->walk_lost += ring->walk.lost;
}

static void read_back(struct reading *r, char *path)
{
	struct braid_source_options options = { .fault = print_fault };
	size_t k, j;

	memset(r, 0, sizeof(*r));
	r->first = UINT64_MAX;
	NEED(!braid_source_open_captures(&r->source, &path, 1, &options));
	for (k = 0; k < r->source->nr_streams; k++)
		for (j = 0; j < r->source->streams[k]->nr_rings; j++)
			if (r->source->streams[k]->rings[j]->cpu != BRAID_RING_NOTES)
				walk_ring(r, r->source->streams[k]->rings[j]);
	CHECK_EQ(r->wrong + r->source->faults, 0);
	CHECK_EQ(r->events, r->read);
	CHECK_EQ(r->walk_lost, r->lost);
}

static void begin(struct session *s, const struct fake_params *p)
{
	memset(s, 0, sizeof(*s));
	s->window = true;
	s->guest = fake_guest_new(region_path, p);
}

static void test_before_and_after(void)
{
	struct reading r;
	struct session s;

	begin(&s, &usual);
	fake_guest_write(s.guest, 0, 100);
	session_begin(&s, region_path, capture_path, NULL);
	session_settle(&s);
	fake_guest_write(s.guest, 0, 11);
	session_settle(&s);
	CHECK_EQ(s.status.events, 0);
	braid_region_source_start(s.source);
	fake_guest_write(s.guest, 0, 30);
	session_settle(&s);
	fake_guest_write(s.guest, 0, 3);
	braid_region_source_stop(s.source);
	fake_guest_write(s.guest, 0, 17);
	session_settle(&s);
	session_end(&s);
	CHECK_EQ(s.status.events, 33);
	CHECK_EQ(s.status.skipped, 111);
	read_back(&r, capture_path);
	CHECK_EQ(r.before, 111);
	CHECK_EQ(r.read, 33);
	CHECK_EQ(r.after, 17);
	CHECK_EQ(r.lost + r.left, 0);
	CHECK_EQ(r.first, 111);
	CHECK_EQ(r.last, 143);
	braid_source_free(r.source);

	/* The next recording reads the backlog, if requested. */
	s.backlog = true;
	session_begin(&s, region_path, next_path, NULL);
	session_settle(&s);
	braid_region_source_start(s.source);
	fake_guest_write(s.guest, 0, 5);
	session_settle(&s);
	session_end(&s);
	read_back(&r, next_path);
	CHECK_EQ(r.before, 144);
	CHECK_EQ(r.read, 22);
	CHECK_EQ(r.first, 144);
	braid_source_free(r.source);
	fake_guest_free(s.guest);
}

static u32 up_to(u64 *seed, u32 most)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*seed >> 33) % (most + 1);
}

/* Some events, or many times more than fit in a ring; drained meanwhile or not. */
static u64 write_some(struct session *s, u64 *seed, bool turns)
{
	u64 sum = 0;
	u32 k, nr = up_to(seed, 4);

	for (k = 0; k < nr; k++) {
		u32 events = up_to(seed, up_to(seed, 3) ? 60 : 3000);

		fake_guest_write(s->guest, up_to(seed, 1), events);
		sum += events;
		if (turns && up_to(seed, 1))
			session_turn(s);
	}
	return sum;
}

/* At any time of writing, each event is before, read, lost, left or after. */
static void test_random(void)
{
	static const u32 flags[] = { 0, BRAID_BUFFER_OVERWRITE, BRAID_BUFFER_ABSOLUTE,
				     BRAID_BUFFER_OVERWRITE | BRAID_BUFFER_ABSOLUTE };
	u64 seed, turn, before, within, after;
	struct fake_params p = usual;
	struct reading r;
	struct session s;

	for (turn = 0; turn < 200; turn++) {
		seed = turn + 1;
		p.flags = flags[turn % 4];
		begin(&s, &p);
		before = write_some(&s, &seed, false);
		session_begin(&s, region_path, capture_path, NULL);
		session_settle(&s);
		before += write_some(&s, &seed, true);
		braid_region_source_start(s.source);
		within = write_some(&s, &seed, true);
		braid_region_source_stop(s.source);
		after = write_some(&s, &seed, true);
		session_end(&s);
		read_back(&r, capture_path);
		CHECK_EQ(r.before, before);
		CHECK_EQ(r.read + r.lost + r.left, within);
		CHECK_EQ(r.after, after);
		braid_source_free(r.source);
		fake_guest_free(s.guest);
		if (check_failures) {
			fprintf(stderr, "  turn %llu\n", (unsigned long long)turn);
			return;
		}
	}
}

static bool is_restarted(struct session *s)
{
	return braid_load(&s->guest->ctl->nr_inits) == 2;
}

static bool has_second(struct session *s)
{
	return s->status.nr_streams == 2;
}

static void test_driver_comes_later(void)
{
	struct fake_params p = usual;
	struct reading r;
	struct session s;

	p.always = true;
	begin(&s, &p);
	fake_guest_write(s.guest, 0, 40);
	session_begin(&s, region_path, capture_path, NULL);
	session_settle(&s);
	braid_region_source_start(s.source);
	session_settle(&s);
	braid_store(&s.guest->ctl->begin_anew, 1);
	fake_guest_start_thread(s.guest);
	session_until(&s, is_restarted);
	braid_store(&s.guest->ctl->burst, 9);
	while (braid_load_acquire(&s.guest->ctl->burst_done) != 9)
		braid_sleep_ns(500000);
	session_until(&s, has_second);
	fake_guest_stop(s.guest);
	session_settle(&s);
	braid_region_source_stop(s.source);
	session_end(&s);
	read_back(&r, capture_path);
	CHECK_EQ(r.source->nr_streams, 2);
	CHECK_EQ(r.before, 40);
	CHECK_EQ(r.read, 18);
	CHECK_EQ(r.left + r.lost + r.after, 0);
	braid_source_free(r.source);
	fake_guest_free(s.guest);
}

static bool is_silent(struct session *s)
{
	return s->status.silent;
}

/* A dead guest's last events are read on request. */
static void test_silent(void)
{
	struct reading r;
	struct session s;

	begin(&s, &usual);
	fake_guest_write(s.guest, 0, 50);
	session_begin(&s, region_path, capture_path, NULL);
	session_until(&s, is_silent);
	braid_region_source_start(s.source);
	session_settle(&s);
	braid_region_source_stop(s.source);
	session_end(&s);
	read_back(&r, capture_path);
	CHECK_EQ(r.before, 50);
	CHECK_EQ(r.read + r.lost + r.left + r.after, 0);
	braid_source_free(r.source);
	s.backlog = true;
	session_begin(&s, region_path, next_path, NULL);
	session_settle(&s);
	session_end(&s);
	read_back(&r, next_path);
	CHECK_EQ(r.read, 50);
	CHECK_EQ(r.before, 0);
	braid_source_free(r.source);
	fake_guest_free(s.guest);
}

static char *text_of(struct braid_source *source,
		     int (*run)(FILE *to, struct braid_source *source,
				const struct braid_walk_options *options,
				struct braid_walk_totals *totals))
{
	static const struct braid_walk_options plain;
	struct braid_walk_totals totals;
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	NEED(to && !run(to, source, &plain, &totals));
	fclose(to);
	return text;
}

/* The counts of report, --stats and the HTML page, of a stream with a former incarnation. */
static void test_all_agree(void)
{
	static const char account[] = "written 33 = read 33 + lost 0 + left 0";
	struct braid_chunk_window edge = { .edge = BRAID_WINDOW_START, .host_ns = 5000000000 };
	char *path = capture_path, *text, *stats;
	struct braid_source *source;
	struct session s;

	begin(&s, &usual);
	fake_guest_write(s.guest, 0, 20000);	/* most of them are lost */
	session_begin(&s, region_path, capture_path, NULL);
	session_settle(&s);
	edge.host_ns = braid_host_clock_ns();
	NEED(!braid_capture_put(s.sink.capture, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
	braid_region_source_start(s.source);
	session_settle(&s);
	fake_guest_write(s.guest, 0, 33);
	braid_region_source_stop(s.source);
	edge.edge = BRAID_WINDOW_STOP;
	edge.host_ns = braid_host_clock_ns();
	NEED(!braid_capture_put(s.sink.capture, BRAID_CHUNK_WINDOW, 0, &edge, sizeof(edge), NULL, 0));
	session_end(&s);
	CHECK_EQ(s.status.lost, 0);
	NEED(!braid_source_open_captures(&source, &path, 1, NULL));
	CHECK_EQ(source->nr_windows, 1);
	CHECK_EQ(source->windows[0].stop_ns, (s64)edge.host_ns);
	text = text_of(source, braid_export_text);
	CHECK(strstr(text, account) && strstr(text, "# recorded from "));
	CHECK(strstr(text, "NOTE the recording starts") && strstr(text, "NOTE the recording stops"));
	CHECK(strstr(text, "# 33 events, 0 lost, "));
	free(text);
	braid_source_rewind(source);
	stats = text_of(source, braid_export_stats);
	CHECK(strstr(stats, account) && strstr(stats, "# recorded from "));
	CHECK(strstr(stats, "# 33 events, 0 lost, "));
	free(stats);
	braid_source_rewind(source);
	stats = text_of(source, braid_export_stats_json);
	CHECK(strstr(stats, "\"written\":33,\"read\":33,\"lost\":0,\"left\":0"));
	CHECK(strstr(stats, "\"recorded\":[{\"start_ns\":"));
	free(stats);
	braid_source_free(source);
	fake_guest_free(s.guest);
}

static int record(char *seconds)
{
	char *argv[] = { "record", "-r", region_path, "-e", "sched", "-t", seconds, "-q", "-o",
			 capture_path, NULL };

	return braid_cmd_record(sizeof(argv) / sizeof(*argv) - 1, argv);
}

/* The exit status, the header and the statistics report a guest that does not confirm. */
static void test_unconfirmed(void)
{
	static const char what[] = "did not confirm the event change";
	struct fake_guest *guest = fake_guest_new(region_path, &usual);
	char *path = capture_path, *text;
	struct braid_source *source;

	CHECK_EQ(record("100ms"), 3);
	fake_guest_free(guest);
	NEED(!braid_source_open_captures(&source, &path, 1, NULL));
	NEED(source->nr_streams == 1);
	CHECK(source->streams[0]->unconfirmed);
	text = text_of(source, braid_export_text);
	CHECK(strstr(text, "NOTE the guest did not confirm the event change"));
	CHECK(!strstr(text, "NOTE events enabled"));
	free(text);
	braid_source_rewind(source);
	text = text_of(source, braid_export_stats);
	CHECK(strstr(text, what));
	free(text);
	braid_source_free(source);
}

/* Whether the agent has sent a command; if not, the guest polls, for the clock. */
static bool has_sent(struct session *s)
{
	const struct braid_mailbox *box = (void *)(s->guest->base +
		s->guest->sb.sections[BRAID_SECTION_MAILBOX].offset);

	if (braid_load(&box->command_seq) != braid_load(&box->done_seq))
		return true;
	fake_guest_look(s->guest);
	return false;
}

/* A session whose guest has not answered the first command yet. */
static void begin_command(struct session *s)
{
	static const struct braid_pattern pattern = { .system = "sched" };

	begin(s, &usual);
	s->pattern = &pattern;
	session_begin(s, region_path, capture_path, NULL);
	session_until(s, has_sent);
}

static bool has_confirmed(struct session *s)
{
	fake_guest_look(s->guest);
	return strstr(s->last_note, "has now confirmed the event change, late");
}

/* A guest that has not confirmed at the start is reported then, and again when it has. */
static void test_confirmed_late(void)
{
	struct session s;

	begin_command(&s);
	braid_region_source_start(s.source);
	CHECK(strstr(s.last_note, "did not confirm the event change"));
	session_until(&s, has_confirmed);
	session_end(&s);
	CHECK(!s.status.unconfirmed);
	fake_guest_free(s.guest);
}

static bool is_gone(struct session *s)
{
	return s->status.phase == BRAID_PHASE_GONE;
}

/* The region is truncated while a command is in flight, and then the recording starts. */
static void test_truncated_at_start(void)
{
	struct session s;

	begin_command(&s);
	NEED(!truncate(region_path, 4096));
	braid_region_source_start(s.source);
	session_until(&s, is_gone);
	CHECK(strstr(s.last_note, "truncated"));
	session_end(&s);
	fake_guest_free(s.guest);
}

/* The guest confirms after the agent's last turn, and before the stop. */
static void test_confirmed_last(void)
{
	const struct braid_pattern pattern = { .system = "sched" };
	struct reading r;
	struct session s;

	begin(&s, &usual);
	s.pattern = &pattern;
	session_begin(&s, region_path, capture_path, NULL);
	braid_region_source_start(s.source);
	session_until(&s, has_sent);
	fake_guest_look(s.guest);
	braid_region_source_stop(s.source);
	session_end(&s);
	CHECK(!s.status.unconfirmed);
	read_back(&r, capture_path);
	CHECK(!r.source->streams[0]->unconfirmed);
	braid_source_free(r.source);
	fake_guest_free(s.guest);
}

static bool now_unconfirmed(struct session *s)
{
	return s->status.unconfirmed;
}

static bool answers(struct session *s)
{
	fake_guest_look(s->guest);
	return !s->status.unconfirmed;
}

/* A guest with a new module confirms its events again, late: then it is not one that never did. */
static void test_confirmed_again(void)
{
	const struct braid_pattern pattern = { .system = "sched" };
	struct session s;

	begin(&s, &usual);
	s.pattern = &pattern;
	session_begin(&s, region_path, capture_path, NULL);
	session_until(&s, has_sent);
	fake_guest_look(s.guest);
	session_settle(&s);
	CHECK(!s.status.unconfirmed);
	s.source->control.more_events = true;
	session_until(&s, now_unconfirmed);
	session_until(&s, answers);
	CHECK(strstr(s.last_note, "has now confirmed the event change, late"));
	session_end(&s);
	CHECK(!s.status.unconfirmed);
	fake_guest_free(s.guest);
}

static void test_no_driver(void)
{
	FILE *region = fopen(region_path, "w");

	NEED(region && !ftruncate(fileno(region), 1 << 20));
	fclose(region);
	CHECK_EQ(record("0.1"), 3);
	CHECK_EQ(record("0.1x"), EXIT_FAILURE);
	CHECK(strstr(braid_failure(), "--time=0.1x: expected a duration"));
	unlink(region_path);
}

/* Of a guest that writes all the time, by the command itself. */
static void test_command(void)
{
	const struct braid_window *window;
	struct fake_params p = usual;
	char *path = capture_path;
	struct braid_source *source;
	struct fake_guest *guest;
	struct braid_ring *ring;
	u64 events = 0;
	size_t k;

	p.always = true;
	p.rate = 20000;
	guest = fake_guest_new(region_path, &p);
	fake_guest_start_thread(guest);
	CHECK_EQ(record("0.3s"), EXIT_SUCCESS);
	fake_guest_free(guest);
	NEED(!braid_source_open_captures(&source, &path, 1, NULL));
	NEED(source->nr_windows == 1 && source->nr_streams == 1);
	window = &source->windows[0];
	CHECK(!source->streams[0]->unconfirmed);
	CHECK(window->stop_ns - window->start_ns >= 300000000);
	for (k = 0; k < source->streams[0]->nr_rings; k++) {
		ring = source->streams[0]->rings[k];
		while (ring->cpu != BRAID_RING_NOTES && braid_ring_next(ring) > 0) {
			events++;
			CHECK(ring->item.host_ns + (s64)ring->item.bound_ns >= window->start_ns);
			CHECK(ring->item.host_ns - (s64)ring->item.bound_ns <= window->stop_ns);
		}
	}
	CHECK(events > 0);
	braid_source_free(source);
}

int main(void)
{
	region_path = scratch("region");
	capture_path = scratch("x.braid");
	next_path = scratch("y.braid");
	RUN(test_before_and_after);
	RUN(test_random);
	RUN(test_driver_comes_later);
	RUN(test_silent);
	RUN(test_all_agree);
	RUN(test_command);
	RUN(test_unconfirmed);
	RUN(test_confirmed_late);
	RUN(test_truncated_at_start);
	RUN(test_confirmed_last);
	RUN(test_confirmed_again);
	RUN(test_no_driver);
	return VERDICT();
}
