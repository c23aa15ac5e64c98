// SPDX-License-Identifier: GPL-2.0-or-later
/* Records fake guests in this process, by the sources themselves, with exact counts. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/account.h"
#include "host_agent/live/region.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_guest.h"

#define LIMIT_NS	20000000000ULL	/* limit of a wait */

static char dir[] = "/tmp/test_record.XXXXXX";
static char region_path[64], capture_path[64];

static const struct fake_params usual = {
	.name = "fake", .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 64,
};

/* A recording of one guest. */
struct session {
	struct braid_live_sink sink;
	struct braid_exchange *exchange;
	struct braid_region_source *source;
	struct braid_pattern pattern;
	struct braid_region_status status;
};

static void session_open(struct session *s, const char *events)
{
	struct braid_chunk_file head = { .version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw" };
	struct braid_region_options o = { .path = region_path, .name = "fake", .sink = &s->sink };

	memset(s, 0, sizeof(*s));
	s->sink.next_stream = 1;
	CHECK_EQ(braid_exchange_start(&s->exchange), 0);
	CHECK_EQ(braid_capture_create(&s->sink.capture, capture_path, &head), 0);
	if (events)
		CHECK_EQ(braid_pattern_parse(&s->pattern, events), 0);
	o.exchange = s->exchange;
	o.patterns = &s->pattern;
	o.nr_patterns = !!events;
	CHECK_EQ(braid_region_source_open(&s->source, &o), 0);
}

static int session_poll(struct session *s)
{
	int ret = braid_region_source_poll(s->source);

	s->status = braid_region_source_status(s->source);
	if (ret == BRAID_POLL_IDLE)
		braid_sleep_ns(500000);
	return ret;
}

static void session_close(struct session *s)
{
	CHECK_EQ(braid_region_source_finish(s->source), 0);
	s->status = braid_region_source_status(s->source);
	braid_region_source_close(s->source);
	braid_exchange_stop(s->exchange);
	CHECK_EQ(braid_capture_finish(s->sink.capture), 0);
}

/* Polls until a condition holds; each wait is for an event that must occur. */
#define POLL_UNTIL(s, condition)						\
	do {									\
		u64 poll_start = braid_host_clock_ns();				\
		while (session_poll(s) >= 0 && !(condition) &&			\
		       braid_host_clock_ns() - poll_start < LIMIT_NS)		\
			;							\
		CHECK(condition);						\
	} while (0)

/* The content of a capture, added up. */
struct tally {
	u32 streams;
	u32 pages;
	u32 ends;
	u32 last_reason;
	u32 notes;
	u32 samples;
	u32 bad_samples;		/* that contradict the fake guest's true offset */
	u64 events;			/* decoded from the pages */
	u64 gaps;			/* by the numbers in the events: lost */
	u64 reported_lost;			/* by lost_before and dropped */
	u64 written, read, lost, left;	/* by RING_END */
	u64 read_before;
	u32 unequal;			/* RING_ENDs that do not add up */
	u32 disorder;			/* numbers or times that decrease */
	u32 entries;			/* of the directory */
	u32 comms;
	u64 next_number[FAKE_MAX_VCPUS];
	u64 last_time[FAKE_MAX_VCPUS];
};

static void tally_page(struct tally *t, const u8 *payload, u32 bytes)
{
	static u64 copy[BRAID_MAX_SUBBUF_BYTES / 8];
	struct braid_event_view view;
	struct braid_chunk_page page;
	struct braid_cursor c;
	u64 number;

	memcpy(&page, payload, sizeof(page));
	memcpy(copy, payload + sizeof(page), bytes - sizeof(page));
	CHECK_EQ(bytes - sizeof(page), page.to_bytes - page.from_bytes);
	t->pages++;
	t->reported_lost += page.lost_before + page.dropped;
	braid_cursor_init(&c, copy, page.to_bytes - page.from_bytes, page.time_stamp, 0);
	while (braid_page_next(&c, &view) > 0) {
		if (view.type != BRAID_TYPE_DATA)
			continue;
		memcpy(&number, (const u8 *)view.payload + 8, sizeof(number));
		if (number < t->next_number[page.vcpu])
			t->disorder++;
		t->gaps += number - t->next_number[page.vcpu];
		t->next_number[page.vcpu] = number + 1;
		t->events++;
		if (page.from_bytes)
			continue;	/* its times depend on earlier events */
		if (view.time < t->last_time[page.vcpu] ||
		    view.time - FAKE_COUNTER_OFFSET > page.host_ns)
			t->disorder++;
		t->last_time[page.vcpu] = view.time;
	}
}

static void tally_end(struct tally *t, const u8 *payload)
{
	struct braid_chunk_ring_end end;

	memcpy(&end, payload, sizeof(end));
	t->written += end.written;
	t->read += end.read;
	t->lost += end.lost;
	t->left += end.left;
	t->read_before += end.read_before;
	t->unequal += end.written != end.read + end.lost + end.left;
}

static void tally_samples(struct tally *t, const u8 *payload, u32 bytes)
{
	struct braid_clock_sample s;
	u32 at;

	for (at = 0; at < bytes; at += sizeof(s)) {
		memcpy(&s, payload + at, sizeof(s));
		t->samples++;
		t->bad_samples += s.counter - FAKE_COUNTER_OFFSET < s.h1_ns ||
				  s.counter - FAKE_COUNTER_OFFSET > s.h2_ns;
	}
}

static void tally_chunk(struct tally *t, const struct braid_chunk_view *v)
{
	struct braid_schema_event event;
	u32 at = 0;

	switch (v->type) {
	case BRAID_CHUNK_STREAM:
		t->streams++;
		memset(t->next_number, 0, sizeof(t->next_number));
		memset(t->last_time, 0, sizeof(t->last_time));
		break;
	case BRAID_CHUNK_STREAM_END:
		t->ends++;
		memcpy(&t->last_reason, v->payload, sizeof(t->last_reason));
		break;
	case BRAID_CHUNK_PAGE:
		tally_page(t, v->payload, v->bytes);
		break;
	case BRAID_CHUNK_RING_END:
		tally_end(t, v->payload);
		break;
	case BRAID_CHUNK_CLOCK:
		tally_samples(t, v->payload, v->bytes);
		break;
	case BRAID_CHUNK_CLOCK_VCPU:
		tally_samples(t, v->payload + sizeof(struct braid_chunk_clock_vcpu),
			      v->bytes - sizeof(struct braid_chunk_clock_vcpu));
		break;
	case BRAID_CHUNK_EVENTS:
		while (braid_schema_next(v->payload, v->bytes, &at, &event) > 0)
			t->entries++;
		break;
	case BRAID_CHUNK_COMMS:
		t->comms += v->bytes / sizeof(struct braid_comm);
		break;
	case BRAID_CHUNK_NOTE:
		t->notes++;
		break;
	}
}

static void tally_capture(struct tally *t, const char *path)
{
	struct braid_capture_reader *r;
	struct braid_chunk_file head;
	struct braid_chunk_view v;

	memset(t, 0, sizeof(*t));
	if (braid_capture_open(&r, path, &head)) {
		CHECK(!"the capture can be read");
		return;
	}
	while (braid_capture_next(r, &v) > 0)
		tally_chunk(t, &v);
	CHECK_EQ(braid_capture_damage(r)->stretches, 0);
	braid_capture_close(r);
}

static u64 offered(const struct fake_guest *g)
{
	u64 sum = 0;
	u32 k;

	for (k = 0; k < g->p.nr_vcpus; k++)
		sum += braid_load(&g->ctl->offered[k]);
	return sum;
}

static void test_everything_arrives(void)
{
	struct fake_params p = usual;
	struct fake_guest *g;
	struct session s;
	struct tally t;

	p.rate = 50000;
	p.bytes = 32 << 20;	/* seconds of events: either side may get no CPU for so long */
	p.nr_slots = 2048;
	g = fake_guest_new(region_path, &p);
	fake_guest_start_thread(g);
	session_open(&s, "sched");
	POLL_UNTIL(&s, s.status.armed && s.status.phase == BRAID_PHASE_RECORDING);
	POLL_UNTIL(&s, s.status.events > 20000);
	braid_region_source_disarm(s.source);
	POLL_UNTIL(&s, s.status.disarmed);
	fake_guest_stop(g);
	session_close(&s);
	tally_capture(&t, capture_path);
	CHECK_EQ(t.streams, 1);
	CHECK_EQ(t.ends, 1);
	CHECK_EQ(t.last_reason, BRAID_END_STOPPED);
	CHECK_EQ(t.events, offered(g));
	CHECK_EQ(t.read, offered(g));
	CHECK_EQ(t.events, s.status.events);
	CHECK_EQ(t.lost + t.gaps + t.reported_lost + t.left, 0);
	CHECK_EQ(t.unequal, 0);
	CHECK_EQ(t.disorder, 0);
	CHECK_EQ(t.entries, FAKE_NR_EVENTS);
	CHECK_EQ(t.comms, 1);
	CHECK_EQ(t.bad_samples, 0);
	fake_guest_free(g);
}

/* Not drained meanwhile: losses are counted exactly, in both modes. */
static void overflow(u32 flags)
{
	struct fake_params p = usual;
	struct fake_guest *g;
	struct session s;
	struct tally t;
	u64 before;

	p.flags = flags;
	g = fake_guest_new(region_path, &p);
	fake_guest_write(g, 0, 3);
	session_open(&s, NULL);
	POLL_UNTIL(&s, s.status.events == 3);
	fake_guest_write(g, 0, 50000);
	fake_guest_write(g, 1, 7);
	before = s.status.events;
	POLL_UNTIL(&s, session_poll(&s) == BRAID_POLL_IDLE && s.status.events > before);
	fake_guest_write(g, 0, 100);
	session_close(&s);
	tally_capture(&t, capture_path);
	CHECK_EQ(t.written, 3 + 50000 + 7 + 100);
	CHECK_EQ(t.events, t.read);
	CHECK(t.lost > 40000);
	CHECK_EQ(t.reported_lost, t.lost);
	CHECK_EQ(t.unequal + t.disorder, 0);
	if (!t.left)	/* the other gaps are after the last event */
		CHECK(t.gaps <= t.lost);
	fake_guest_free(g);
}

static void test_overflow_consumer(void)
{
	overflow(0);
}

static void test_overflow_overwrite(void)
{
	overflow(BRAID_BUFFER_OVERWRITE);
}

static void test_reload_under_the_reader(void)
{
	struct fake_params p = usual;
	struct fake_guest *g;
	struct session s;
	struct tally t;
	int turn;

	p.rate = 20000;
	g = fake_guest_new(region_path, &p);
	fake_guest_start_thread(g);
	session_open(&s, "sched:*");
	for (turn = 1; turn <= 3; turn++) {
		u64 goal;

		POLL_UNTIL(&s, s.status.nr_streams == (u32)turn && s.status.armed &&
			       s.status.phase == BRAID_PHASE_RECORDING);
		goal = s.status.events + 2000;
		POLL_UNTIL(&s, s.status.events > goal);
		if (turn < 3)
			braid_store(&g->ctl->begin_anew, 1);
	}
	fake_guest_stop(g);
	session_close(&s);
	tally_capture(&t, capture_path);
	CHECK_EQ(t.streams, 3);
	CHECK_EQ(t.ends, 3);
	CHECK_EQ(t.events, s.status.events);
	CHECK_EQ(t.read, t.events);
	CHECK_EQ(t.unequal + t.disorder, 0);
	CHECK(t.notes >= 2);
	fake_guest_free(g);
}

static void test_unloaded_and_loaded_again(void)
{
	struct fake_params p = usual;
	struct braid_mailbox *box;
	struct fake_guest *g;
	struct session s;
	struct tally t;
	u64 first;

	p.rate = 20000;
	g = fake_guest_new(region_path, &p);
	box = (void *)(g->base + g->sb.sections[BRAID_SECTION_MAILBOX].offset);
	fake_guest_start_thread(g);
	session_open(&s, "sched");
	POLL_UNTIL(&s, s.status.events > 1000);
	braid_store(&g->ctl->go_down, 1);
	POLL_UNTIL(&s, s.status.phase == BRAID_PHASE_DOWN);
	first = offered(g);
	CHECK_EQ(s.status.events, first);
	CHECK_EQ(box->agent_drained, g->ctl->incarnation);
	braid_store(&g->ctl->begin_anew, 1);
	POLL_UNTIL(&s, s.status.nr_streams == 2 && s.status.events > first + 1000);
	fake_guest_stop(g);
	session_close(&s);
	tally_capture(&t, capture_path);
	CHECK_EQ(t.streams, 2);
	CHECK_EQ(t.events, first + offered(g));
	CHECK_EQ(t.written, t.read);
	CHECK_EQ(t.unequal + t.disorder, 0);
	fake_guest_free(g);
}

/* The file loses its pages while it is drained: this ends only that guest. */
static void test_shrunk_file(void)
{
	struct fake_guest *g;
	struct session s;
	struct tally t;

	g = fake_guest_new(region_path, &usual);
	fake_guest_write(g, 0, 100);
	session_open(&s, NULL);
	POLL_UNTIL(&s, s.status.events == 100);
	CHECK_EQ(ftruncate(g->fd, 8192), 0);
	POLL_UNTIL(&s, s.status.phase == BRAID_PHASE_GONE);
	CHECK_EQ(ftruncate(g->fd, 0), 0);
	CHECK(session_poll(&s) >= 0);
	session_close(&s);
	tally_capture(&t, capture_path);
	CHECK_EQ(t.events, 100);
	CHECK_EQ(t.last_reason, BRAID_END_GONE);
	fake_guest_free(g);
}

static void test_removed_file(void)
{
	struct fake_guest *g;
	struct session s;

	g = fake_guest_new(region_path, &usual);
	fake_guest_write(g, 0, 10);
	session_open(&s, NULL);
	POLL_UNTIL(&s, s.status.events == 10);
	unlink(region_path);
	POLL_UNTIL(&s, s.status.phase == BRAID_PHASE_GONE);
	session_close(&s);
	fake_guest_free(g);
}

/* Records until it is killed. */
static void agent_until_killed(int capture)
{
	struct session s;

	snprintf(capture_path, sizeof(capture_path), "%s/capture%d", dir, capture);
	session_open(&s, "sched");
	while (session_poll(&s) >= 0)
		braid_capture_flush(s.sink.capture);
	_exit(1);
}

static void test_killed_and_attached_again(void)
{
	struct fake_params p = usual;
	struct fake_guest *g;
	struct session s;
	struct tally t;
	u64 goal;
	int turn;

	p.rate = 50000;
	g = fake_guest_new(region_path, &p);
	fake_guest_start_process(g);
	for (turn = 0; turn < 5; turn++) {
		pid_t pid = fork();
		u64 start = braid_host_clock_ns();

		if (!pid)
			agent_until_killed(turn);
		goal = offered(g) + 5000;
		while (offered(g) < goal && braid_host_clock_ns() - start < LIMIT_NS)
			braid_sleep_ns(1000000);
		CHECK(offered(g) >= goal);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	session_open(&s, "sched");
	POLL_UNTIL(&s, s.status.armed && s.status.events > 1000);
	braid_region_source_disarm(s.source);
	POLL_UNTIL(&s, s.status.disarmed);
	fake_guest_stop(g);
	session_close(&s);
	tally_capture(&t, capture_path);
	CHECK_EQ(t.written, offered(g));
	CHECK_EQ(t.events, t.read - t.read_before);
	CHECK(t.read_before > 0);
	CHECK_EQ(t.unequal, 0);
	CHECK_EQ(t.left, 0);
	fake_guest_free(g);
}

static void test_one_agent_at_a_time(void)
{
	struct braid_region_options o = { .path = region_path };
	struct braid_region_source *other;
	struct fake_guest *g;
	struct session s;
	char pid[32];

	g = fake_guest_new(region_path, &usual);
	session_open(&s, NULL);
	o.sink = &s.sink;
	CHECK_EQ(braid_region_source_open(&other, &o), -EBUSY);
	snprintf(pid, sizeof(pid), "process %d", (int)getpid());
	CHECK(strstr(braid_failure(), pid));
	session_close(&s);
	fake_guest_free(g);
}

static void test_hung_guest(void)
{
	struct fake_params p = usual;
	struct fake_guest *g;
	struct session s;
	struct tally t;

	p.rate = 10000;
	g = fake_guest_new(region_path, &p);
	fake_guest_start_thread(g);
	session_open(&s, "sched");
	POLL_UNTIL(&s, s.status.events > 100);
	braid_store(&g->ctl->frozen, 1);
	POLL_UNTIL(&s, s.status.silent);
	CHECK_EQ(s.status.phase, BRAID_PHASE_RECORDING);
	braid_region_source_disarm(s.source);
	POLL_UNTIL(&s, s.status.disarmed);
	session_close(&s);
	fake_guest_stop(g);
	tally_capture(&t, capture_path);
	CHECK_EQ(t.events, offered(g));
	CHECK_EQ(t.written, t.read);
	CHECK(t.notes >= 1);
	fake_guest_free(g);
}

/* An entry that the guest adds before it answers at the stop is in the capture. */
static void last_entry(const char *events, u32 command)
{
	struct fake_guest *g = fake_guest_new(region_path, &usual);
	const struct braid_section *at = &g->sb.sections[BRAID_SECTION_DIRECTORY];
	const struct braid_mailbox *box = (void *)(g->base + BRAID_PAGE_BYTES);
	struct braid_directory *directory = (void *)(g->base + at->offset);
	struct braid_schema_event event;
	u32 used = directory->bytes_used, first = 0, seq;
	struct session s;
	struct tally t;

	CHECK_EQ(braid_schema_next(directory->data, used, &first, &event), 1);
	session_open(&s, events);
	POLL_UNTIL(&s, (fake_guest_look(g), s.status.armed &&
			s.status.phase == BRAID_PHASE_RECORDING));
	seq = box->command_seq;
	braid_region_source_disarm(s.source);
	POLL_UNTIL(&s, box->command_seq == seq + 1);
	CHECK(!s.status.disarmed);
	CHECK_EQ(box->command, command);
	CHECK_EQ(box->arg0, BRAID_CONFIRM_TABLES);
	event.id = 1000;
	CHECK_EQ(braid_schema_append(directory, at->bytes - sizeof(*directory), &used, &event), 0);
	POLL_UNTIL(&s, (fake_guest_look(g), s.status.disarmed));
	session_close(&s);
	tally_capture(&t, capture_path);
	CHECK_EQ(t.entries, FAKE_NR_EVENTS + 1);
	fake_guest_free(g);
}

static void test_last_entry(void)
{
	last_entry("sched", BRAID_CMD_DISABLE);
	last_entry(NULL, BRAID_CMD_NONE);
}

static void test_waits_for_the_driver(void)
{
	struct fake_guest *g;
	struct session s;
	u8 page[4096];

	g = fake_guest_new(region_path, &usual);
	memcpy(page, g->base, sizeof(page));
	memset(g->base, 0, sizeof(page));
	session_open(&s, NULL);
	session_poll(&s);
	CHECK_EQ(s.status.phase, BRAID_PHASE_WAITING);
	memcpy(g->base, page, sizeof(page));
	fake_guest_write(g, 1, 5);
	POLL_UNTIL(&s, s.status.events == 5);
	session_close(&s);
	fake_guest_free(g);
}

static void remove_files(void)
{
	char path[64];
	int k;

	unlink(region_path);
	for (k = 0; k < 5; k++) {
		snprintf(path, sizeof(path), "%s/capture%d", dir, k);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/capture", dir);
	unlink(path);
	rmdir(dir);
}

int main(void)
{
	if (!mkdtemp(dir))
		return EXIT_FAILURE;
	snprintf(region_path, sizeof(region_path), "%s/region", dir);
	snprintf(capture_path, sizeof(capture_path), "%s/capture", dir);
	RUN(test_everything_arrives);
	RUN(test_overflow_consumer);
	RUN(test_overflow_overwrite);
	RUN(test_reload_under_the_reader);
	RUN(test_unloaded_and_loaded_again);
	RUN(test_shrunk_file);
	RUN(test_removed_file);
	RUN(test_one_agent_at_a_time);
	RUN(test_hung_guest);
	RUN(test_last_entry);
	RUN(test_waits_for_the_driver);
	RUN(test_killed_and_attached_again);
	remove_files();
	return VERDICT();
}
