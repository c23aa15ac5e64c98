// SPDX-License-Identifier: GPL-2.0-or-later
/* Buffers that are added and removed while they are recorded, and readers in the guest. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/check.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

#define LIMIT_NS	20000000000ULL	/* limit of a wait */

static char *region_path, *capture_path;

static const struct fake_params usual = {
	.name = "fake", .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 16,
};

static const struct braid_buffer_params more = {
	.name = "more", .subbuf_bytes = 1024, .nr_slots = 8,
};

static void begin_one(struct session *s, const char *buffer)
{
	if (!s->guest)
		s->guest = fake_guest_new(region_path, &usual);
	session_begin(s, region_path, capture_path, buffer);
}

static void begin(struct session *s)
{
	begin_one(s, NULL);
}

#define POLL_UNTIL(s, condition)						\
	do {									\
		u64 poll_start = braid_host_clock_ns();				\
		while (session_settle(s), !(condition) &&				\
		       braid_host_clock_ns() - poll_start < LIMIT_NS)		\
			braid_sleep_ns(500000);					\
		CHECK(condition);						\
	} while (0)

static void end(struct session *s)
{
	struct braid_ring_map map;
	u32 b, k;

	session_end(s);
	for (b = 0; b < s->guest->sb.nr_buffers; b++)
		for (k = 0; k < s->guest->sb.buffers[b].nr_rings; k++) {
			fake_guest_ring(s->guest, b, k, &map);
			CHECK(map.priv->reader_owner != BRAID_READER_HOST);
		}
}

/* The content of a capture, ring by ring. */
struct reading {
	struct braid_source *source;
	u64 faults;
	u64 events[BRAID_MAX_BUFFERS];
	u64 lost, elsewhere, skipped;
	u32 wrong;
};

static void print_fault(void *arg, const struct braid_stream *stream, const char *line)
{
	(void)stream;
	(void)arg;
	fprintf(stderr, "  %s\n", line);
}

static void read_back(struct reading *r)
{
	struct braid_source_options options = { .fault = print_fault };
	char *paths[] = { capture_path };
	struct braid_text why = { 0 };
	size_t k;

	memset(r, 0, sizeof(*r));
	NEED(!braid_source_open_captures(&r->source, paths, 1, &options));
	CHECK_EQ(r->source->nr_streams, 1);
	NEED(!braid_walk_rings(r->source));
	for (k = 0; k < r->source->streams[0]->nr_rings; k++) {
		const struct braid_ring *ring = r->source->streams[0]->rings[k];

		if (ring->cpu == BRAID_RING_NOTES)
			continue;
		r->events[ring->buffer] += ring->walk.events;
		r->lost += ring->walk.lost;
		r->elsewhere += ring->walk.elsewhere;
		r->skipped += ring->walk.skipped;
		if (!braid_check_account(ring, &why)) {
			r->wrong++;
			braid_text_putc(&why, 0);
			fprintf(stderr, "  ring %u of %u: %s\n", ring->cpu, ring->buffer, why.data);
			why.bytes = 0;
		}
	}
	r->faults = r->source->faults;
	braid_text_free(&why);
}

/* The accounting of one ring in the capture. */
static const struct braid_chunk_ring_end *account_of(const struct reading *r, u32 buffer, u32 cpu)
{
	static const struct braid_chunk_ring_end none;
	size_t k;

	for (k = 0; k < r->source->streams[0]->nr_rings; k++) {
		const struct braid_ring *ring = r->source->streams[0]->rings[k];

		if (ring->buffer == buffer && ring->cpu == cpu)
			return &ring->report.last;
	}
	return &none;
}

static void finish_reading(struct session *s, struct reading *r)
{
	CHECK_EQ(r->faults, 0);
	CHECK_EQ(r->wrong, 0);
	braid_source_free(r->source);
	fake_guest_free(s->guest);
}

static void added_and_removed(void)
{
	struct braid_buffer_params again = more;
	struct session s = { 0 };
	struct reading r;
	u32 index;

	begin(&s);
	fake_guest_write(s.guest, 0, 100);
	session_settle(&s);
	CHECK(fake_guest_followed(s.guest));
	index = fake_guest_open_buffer(s.guest, &more);
	CHECK_EQ(index, 1);
	CHECK(!fake_guest_followed(s.guest));
	fake_guest_write_to(s.guest, 1, 0, 50);
	fake_guest_write_to(s.guest, 1, 1, 7);
	session_settle(&s);
	CHECK(fake_guest_followed(s.guest));
	fake_guest_write_to(s.guest, 1, 1, 3);	/* in an unfinished sub-buffer */
	fake_guest_closing(s.guest, 1);
	session_settle(&s);
	CHECK(fake_guest_followed(s.guest));
	CHECK_EQ(s.status.events, 160);
	fake_guest_close_buffer(s.guest, 1, true);
	session_settle(&s);
	CHECK(fake_guest_followed(s.guest));
	again.subbuf_bytes = 8192;
	again.nr_slots = 4;
	again.flags = BRAID_BUFFER_ABSOLUTE | BRAID_BUFFER_OVERWRITE;
	CHECK_EQ(fake_guest_open_buffer(s.guest, &again), 1);
	CHECK_EQ(s.guest->sb.buffers[1].layout, 2);
	fake_guest_write_to(s.guest, 1, 0, 500);
	fake_guest_write(s.guest, 1, 20);
	session_settle(&s);
	end(&s);
	read_back(&r);
	CHECK_EQ(r.events[0], 120);
	CHECK_EQ(r.events[1], 560);
	CHECK_EQ(r.lost + r.elsewhere, 0);
	CHECK_EQ(account_of(&r, 1, 0)->written, 550);
	CHECK_EQ(account_of(&r, 1, 0)->read, 550);
	CHECK_EQ(account_of(&r, 1, 1)->read, 10);
	CHECK(!strcmp(r.source->streams[0]->buffers[1].name, "more"));
	finish_reading(&s, &r);
}

/* Unread events of a removed ring count as lost, exactly, whichever reader follows. */
static void removed_unread(void)
{
	struct session s = { 0 };
	struct reading r;

	s.guest = fake_guest_new(region_path, &usual);
	fake_guest_open_buffer(s.guest, &more);
	fake_guest_write_to(s.guest, 1, 0, 30);
	fake_guest_close_buffer(s.guest, 1, true);
	fake_guest_open_buffer(s.guest, &more);
	fake_guest_write_to(s.guest, 1, 0, 5);
	begin(&s);
	session_settle(&s);
	fake_guest_write_to(s.guest, 1, 0, 10);
	end(&s);
	read_back(&r);
	CHECK_EQ(r.events[1], 15);
	CHECK_EQ(r.lost, 30);
	CHECK_EQ(account_of(&r, 1, 0)->written, 45);
	CHECK_EQ(account_of(&r, 1, 0)->lost, 30);
	CHECK_EQ(s.status.lost, 30);
	finish_reading(&s, &r);
}

/* A guest that does not wait: it reuses the memory at once. */
static void removed_without_notice(void)
{
	struct session s = { 0 };
	struct reading r;
	u32 turn;

	begin(&s);
	for (turn = 0; turn < 4; turn++) {
		fake_guest_open_buffer(s.guest, &more);
		fake_guest_write_to(s.guest, 1, 0, 40);
		if (turn != 1)
			session_settle(&s);
		fake_guest_write_to(s.guest, 1, 0, 2);
		fake_guest_close_buffer(s.guest, 1, true);
		if (turn & 1)
			session_settle(&s);
	}
	fake_guest_open_buffer(s.guest, &more);
	fake_guest_write(s.guest, 0, 11);
	session_settle(&s);
	end(&s);
	read_back(&r);
	CHECK_EQ(r.events[0], 11);
	CHECK_EQ(r.events[1] + account_of(&r, 1, 0)->lost, 4 * 42);
	CHECK(r.events[1] >= 3 * 40);
	CHECK(r.events[1] < 4 * 42);
	finish_reading(&s, &r);
}

/* A closing buffer whose removal is cancelled. */
static void removal_is_cancelled(void)
{
	struct session s = { 0 };
	struct reading r;

	begin(&s);
	fake_guest_write(s.guest, 0, 9);
	fake_guest_closing(s.guest, 0);
	session_settle(&s);
	CHECK(fake_guest_followed(s.guest));
	s.guest->sb.buffers[0].flags = 0;
	fake_guest_open_buffer(s.guest, &more);
	fake_guest_write(s.guest, 0, 4);
	session_settle(&s);
	end(&s);
	read_back(&r);
	CHECK_EQ(r.events[0], 13);
	CHECK_EQ(account_of(&r, 0, 0)->read, 13);
	finish_reading(&s, &r);
}

/* An invalid list of buffers, or one that keeps changing, harms only its guest. */
static void invalid_lists(void)
{
	struct session s = { 0 };
	struct braid_superblock *shared;
	struct reading r;
	u32 turn;

	begin(&s);
	shared = (struct braid_superblock *)s.guest->base;
	fake_guest_write(s.guest, 0, 20);
	session_settle(&s);
	s.guest->sb.buffers[3].nr_rings = 1000;
	s.guest->sb.nr_buffers = 4;
	fake_guest_open_buffer(s.guest, &more);
	fake_guest_write(s.guest, 0, 5);
	session_settle(&s);
	CHECK(!fake_guest_followed(s.guest));
	CHECK_EQ(s.notes, 1);
	CHECK(strstr(s.last_note, "changes of its buffers are not followed"));
	for (turn = 0; turn < 50; turn++) {
		braid_store(&shared->buffers_seq, shared->buffers_seq + 1);
		CHECK(braid_region_source_poll(s.source) >= 0);
	}
	shared->buffers[3].nr_rings = 0;
	s.guest->sb.buffers[3].nr_rings = 0;
	braid_store(&shared->buffers_seq, 1001);	/* and it stops in the middle of a change */
	CHECK_EQ(braid_region_source_poll(s.source), BRAID_POLL_BUSY);
	end(&s);
	read_back(&r);
	CHECK(r.events[0] >= 20);
	braid_source_free(r.source);
	fake_guest_free(s.guest);
}

/* Readers in the guest ---------------------------------------------------------------- */

/* Valid until the next call. */
static struct braid_ring_map *ring_of(struct session *s, u32 buffer, u32 vcpu)
{
	static struct braid_ring_map map;

	fake_guest_ring(s->guest, buffer, vcpu, &map);
	return &map;
}

static u64 *owner_of(struct session *s, u32 vcpu)
{
	return &ring_of(s, 0, vcpu)->priv->reader_owner;
}

static void read_in_the_guest(u32 flags)
{
	struct fake_params p = usual;
	struct session s = { 0 };
	struct reading r;
	u64 theirs;
	u32 turn;

	p.flags = flags;
	s.guest = fake_guest_new(region_path, &p);
	fake_guest_write(s.guest, 0, 300);
	*owner_of(&s, 0) = BRAID_READER_GUEST;
	theirs = fake_guest_read(s.guest, 0);
	CHECK_EQ(theirs, 300);
	begin(&s);
	fake_guest_write(s.guest, 0, 40);
	fake_guest_write(s.guest, 1, 60);
	POLL_UNTIL(&s, s.status.events == 60);
	CHECK_EQ(s.notes, 1);
	CHECK(strstr(s.last_note, "ring 0 of buffer main is being read in the guest"));
	for (turn = 0; turn < 5; turn++) {
		u64 before = s.status.events, lent;

		lent = fake_guest_read(s.guest, 0);
		theirs += lent;
		CHECK(lent > 0);
		braid_store(owner_of(&s, 0), BRAID_READER_NONE);
		fake_guest_write(s.guest, 0, 25);
		POLL_UNTIL(&s, s.status.events == before + 25);
		CHECK_EQ(*owner_of(&s, 0), BRAID_READER_HOST);
		/* A guest's reader that saw the agent's heartbeat stop. */
		braid_store(owner_of(&s, 0), BRAID_READER_GUEST);
		fake_guest_write(s.guest, 0, 11);
		session_settle(&s);
		CHECK_EQ(s.status.events, before + 25);
		CHECK_EQ(*owner_of(&s, 0), BRAID_READER_GUEST);
	}
	CHECK_EQ(s.notes, 2);
	end(&s);
	CHECK_EQ(*owner_of(&s, 0), BRAID_READER_GUEST);
	CHECK_EQ(*owner_of(&s, 1), BRAID_READER_NONE);
	read_back(&r);
	CHECK_EQ(r.events[0], 60 + 5 * 25);
	CHECK_EQ(r.skipped + r.lost, 0);
	CHECK_EQ(r.elsewhere, 4 * 11);
	CHECK_EQ(account_of(&r, 0, 0)->written, 300 + 40 + 5 * 36);
	CHECK_EQ(account_of(&r, 0, 0)->read, theirs + 5 * 25);
	CHECK_EQ(account_of(&r, 0, 0)->left, 11);
	finish_reading(&s, &r);
}

static void read_in_the_guest_delta(void)
{
	read_in_the_guest(0);
}

static void read_in_the_guest_absolute(void)
{
	read_in_the_guest(BRAID_BUFFER_ABSOLUTE | BRAID_BUFFER_OVERWRITE);
}

/* A position that the agent held while nothing was written does not set the capture's start. */
static void idle_before_a_guest_reads(void)
{
	struct session s = { 0 };
	struct reading r;

	begin(&s);
	session_settle(&s);
	CHECK_EQ(*owner_of(&s, 0), BRAID_READER_HOST);
	braid_store(owner_of(&s, 0), BRAID_READER_GUEST);
	fake_guest_write(s.guest, 0, 50);
	session_settle(&s);
	CHECK_EQ(fake_guest_read(s.guest, 0), 50);
	braid_store(owner_of(&s, 0), BRAID_READER_NONE);
	fake_guest_write(s.guest, 0, 25);
	POLL_UNTIL(&s, s.status.events == 25);
	end(&s);
	read_back(&r);
	CHECK_EQ(r.events[0], 25);
	finish_reading(&s, &r);
}

/* The role of a dead agent can be taken over, that of a live guest cannot, whatever the word. */
static void role_is_taken_over(void)
{
	struct session s = { 0 };
	struct reading r;

	s.guest = fake_guest_new(region_path, &usual);
	*owner_of(&s, 0) = BRAID_READER_HOST;
	*owner_of(&s, 1) = 0x123456789;
	fake_guest_write(s.guest, 0, 10);
	fake_guest_write(s.guest, 1, 20);
	begin(&s);
	session_settle(&s);
	POLL_UNTIL(&s, s.status.events == 10);
	CHECK(strstr(s.last_note, "has invalid reader id"));
	POLL_UNTIL(&s, s.status.silent && s.status.events == 30);
	CHECK_EQ(*owner_of(&s, 1), BRAID_READER_HOST);
	end(&s);
	read_back(&r);
	CHECK_EQ(r.events[0], 30);
	finish_reading(&s, &r);
}

/* A guest's reader that ended with its driver. */
static void role_of_a_stopped_driver(void)
{
	struct session s = { 0 };
	struct reading r;

	begin(&s);
	*owner_of(&s, 1) = BRAID_READER_GUEST;
	fake_guest_write(s.guest, 1, 20);
	session_settle(&s);
	CHECK_EQ(s.status.events, 0);
	((struct braid_superblock *)s.guest->base)->state = BRAID_STATE_DOWN;
	POLL_UNTIL(&s, s.status.phase == BRAID_PHASE_DOWN);
	CHECK_EQ(s.status.events, 20);
	end(&s);
	read_back(&r);
	CHECK_EQ(r.events[0], 20);
	finish_reading(&s, &r);
}

/* -B: other buffers are not recorded, and a buffer of that name may be created later. */
static void records_one_buffer(void)
{
	struct braid_buffer_params other = more;
	struct session s = { 0 };
	struct reading r;

	begin(&s);
	braid_region_source_close(s.source);
	braid_capture_abandon(s.sink.capture);
	begin_one(&s, "more");
	other.name = "other";
	fake_guest_open_buffer(s.guest, &other);
	fake_guest_open_buffer(s.guest, &more);
	fake_guest_write(s.guest, 0, 5);
	fake_guest_write_to(s.guest, 1, 0, 6);
	fake_guest_write_to(s.guest, 2, 0, 7);
	session_settle(&s);
	CHECK_EQ(*owner_of(&s, 0), BRAID_READER_NONE);
	fake_guest_closing(s.guest, 1);
	session_settle(&s);
	CHECK(fake_guest_followed(s.guest));
	end(&s);
	read_back(&r);
	CHECK_EQ(r.events[0] + r.events[1], 0);
	CHECK_EQ(r.events[2], 7);
	finish_reading(&s, &r);
}

/* Losses not in a page when the role or the ring was lost are reported by the next page. */
static void loss_unreported_when_the_role_is_lost(void)
{
	struct session s = { 0 };
	struct reading r;
	u64 before;

	begin(&s);
	session_settle(&s);
	fake_guest_write(s.guest, 0, 5000);
	session_settle(&s);
	/* the full sub-buffer is final now, and all taken */
	fake_guest_write(s.guest, 0, 1);
	session_settle(&s);
	CHECK(s.status.lost > 0);
	before = s.status.events;
	braid_store(owner_of(&s, 0), BRAID_READER_GUEST);
	session_settle(&s);
	fake_guest_write(s.guest, 0, 5);	/* the agent may have taken the one event before */
	CHECK(fake_guest_read(s.guest, 0) > 0);
	braid_store(owner_of(&s, 0), BRAID_READER_NONE);
	fake_guest_write(s.guest, 0, 25);
	POLL_UNTIL(&s, s.status.events == before + 25);
	end(&s);
	read_back(&r);
	CHECK_EQ(r.lost, s.status.lost);
	finish_reading(&s, &r);
}

static void loss_unreported_when_the_ring_is_removed(void)
{
	struct session s = { 0 };
	struct reading r;
	u64 before;

	begin(&s);
	fake_guest_open_buffer(s.guest, &more);
	session_settle(&s);
	fake_guest_write_to(s.guest, 1, 0, 5000);
	session_settle(&s);
	fake_guest_write_to(s.guest, 1, 0, 1);
	session_settle(&s);
	CHECK(s.status.lost > 0);
	before = s.status.events;
	braid_store(&ring_of(&s, 1, 0)->priv->reader_owner, BRAID_READER_GUEST);
	session_settle(&s);
	fake_guest_closing(s.guest, 1);
	session_settle(&s);
	CHECK(fake_guest_followed(s.guest));
	fake_guest_close_buffer(s.guest, 1, true);
	session_settle(&s);
	fake_guest_open_buffer(s.guest, &more);
	fake_guest_write_to(s.guest, 1, 0, 25);
	POLL_UNTIL(&s, s.status.events == before + 25);
	end(&s);
	read_back(&r);
	finish_reading(&s, &r);
}

/* A re-registered event reuses its directory entry, but is disabled. */
static void event_is_registered_again(void)
{
	struct braid_pattern pattern;
	struct braid_schema_event event;
	struct session s = { .pattern = &pattern };
	struct braid_directory *directory;
	u32 at = 0;

	CHECK_EQ(braid_pattern_parse(&pattern, "all"), 0);
	begin(&s);
	POLL_UNTIL(&s, (fake_guest_look(s.guest), s.guest->ctl->commands == 1));
	directory = (void *)(s.guest->base + s.guest->sb.sections[BRAID_SECTION_DIRECTORY].offset);
	CHECK_EQ(braid_schema_next(directory->data, directory->bytes_used, &at, &event), 1);
	braid_schema_set_flags(directory, event.offset, BRAID_EVENT_GONE);
	session_settle(&s);
	fake_guest_look(s.guest);
	session_settle(&s);
	CHECK_EQ(s.guest->ctl->commands, 1);
	event.flags = 0;
	braid_schema_reuse(directory, event.offset, event.bytes, &event);
	POLL_UNTIL(&s, (fake_guest_look(s.guest), s.guest->ctl->commands == 2));
	end(&s);
	fake_guest_free(s.guest);
	unlink(region_path);
}

int main(void)
{
	region_path = scratch("region");
	capture_path = scratch("capture");
	RUN(added_and_removed);
	RUN(removed_unread);
	RUN(removed_without_notice);
	RUN(removal_is_cancelled);
	RUN(invalid_lists);
	RUN(read_in_the_guest_delta);
	RUN(read_in_the_guest_absolute);
	RUN(idle_before_a_guest_reads);
	RUN(role_is_taken_over);
	RUN(records_one_buffer);
	RUN(role_of_a_stopped_driver);
	RUN(loss_unreported_when_the_role_is_lost);
	RUN(loss_unreported_when_the_ring_is_removed);
	RUN(event_is_registered_again);
	return VERDICT();
}
