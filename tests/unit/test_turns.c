// SPDX-License-Identifier: GPL-2.0-or-later
/* Effects of slow disks, broken guests and readers in the guest on the agent, and vice versa. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/live/region_private.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

#define LIMIT_NS	20000000000ULL	/* limit of a wait */

static char *region_path, *capture_path;

static const struct fake_params usual = {
	.name = "fake", .bytes = 16 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 512,
};

static void begin(struct session *s, const char *capture, const char *buffer)
{
	if (!s->guest)
		s->guest = fake_guest_new(region_path, &usual);
	session_begin(s, region_path, capture, buffer);
}

static void end(struct session *s)
{
	session_end(s);
	fake_guest_free(s->guest);
}

static struct braid_superblock *shared_of(struct session *s)
{
	return (struct braid_superblock *)s->guest->base;
}

/* A slow disk ------------------------------------------------------------------------------ */

struct slow_disk {
	struct session *s;
	int fifo;
	u32 paused, stop;
	u64 theirs;	/* events read in the guest */
};

static void *be_disk(void *arg)
{
	struct slow_disk *disk = arg;
	static char bytes[65536];

	while (!braid_load(&disk->stop))
		if (braid_load(&disk->paused) || read(disk->fifo, bytes, sizeof(bytes)) <= 0)
			braid_sleep_ns(1000000);
	return NULL;
}

/* A reader in the guest once the agent's heartbeat has stopped. */
static void *be_reader(void *arg)
{
	struct slow_disk *disk = arg;
	int waiting = 0, before = 0, still = 0;
	struct braid_ring_map map;
	u32 k;

	while (still < 50) {	/* the agent waits for the disk */
		braid_sleep_ns(5000000);
		NEED(!ioctl(disk->fifo, FIONREAD, &waiting));
		still = waiting && waiting == before ? still + 1 : 0;
		before = waiting;
	}
	for (k = 0; k < 2; k++) {
		fake_guest_ring(disk->s->guest, 0, k, &map);
		if (!__sync_bool_compare_and_swap(&map.priv->reader_owner, BRAID_READER_HOST,
						  BRAID_READER_GUEST))
			continue;
		disk->theirs += fake_guest_read(disk->s->guest, k);
		braid_store_release(&map.priv->reader_owner, BRAID_READER_NONE);
	}
	braid_store(&disk->paused, 0);
	return NULL;
}

/* Each event is read once, in the guest or on the host, for any delay of the disk. */
static void reader_takes_over_while_disk_is_slow(void)
{
	struct session s = { 0 };
	struct slow_disk disk = { .s = &s };
	struct braid_reader_block *block;
	struct braid_ring_map map;
	pthread_t threads[2];
	u64 accounted = 0, recorded;
	u32 k;

	NEED(!mkfifo(capture_path, 0600));
	disk.fifo = open(capture_path, O_RDONLY | O_NONBLOCK);
	NEED(disk.fifo >= 0);
	NEED(!pthread_create(&threads[0], NULL, be_disk, &disk));
	begin(&s, capture_path, NULL);
	session_settle(&s);
	for (k = 0; k < 2; k++)
		fake_guest_write(s.guest, k, 30000);
	braid_store(&disk.paused, 1);
	NEED(!pthread_create(&threads[1], NULL, be_reader, &disk));
	CHECK_EQ(braid_region_source_finish(s.source), 0);
	pthread_join(threads[1], NULL);
	s.status = braid_region_source_status(s.source);
	recorded = s.status.events;
	CHECK(disk.theirs > 0);
	for (k = 0; k < 2; k++) {
		fake_guest_ring(s.guest, 0, k, &map);
		accounted += fake_guest_read(s.guest, k);	/* unread events */
		block = &map.priv->reader_block[map.priv->reader_index & 1];
		CHECK_EQ(block->read + block->lost, s.guest->ctl->offered[k]);
		accounted += block->lost;
	}
	CHECK_EQ(recorded + disk.theirs + accounted,
		 s.guest->ctl->offered[0] + s.guest->ctl->offered[1]);
	braid_region_source_close(s.source);
	CHECK_EQ(braid_capture_finish(s.sink.capture), 0);
	braid_store(&disk.stop, 1);
	pthread_join(threads[0], NULL);
	close(disk.fifo);
	unlink(capture_path);
	fake_guest_free(s.guest);
}

/* A full disk and a region that is removed at the same time. */
static void disk_full_while_the_region_is_removed(void)
{
	struct braid_chunk_note note = { 0 };
	static const char filler[64 << 10];
	struct session s = { 0 };
	u64 left;

	begin(&s, "/dev/full", NULL);
	session_settle(&s);
	/* One more chunk, and the buffer is written. */
	while ((left = (1u << 20) - braid_capture_bytes(s.sink.capture)) > 48) {
		left -= 48 + 8;
		NEED(!braid_capture_put(s.sink.capture, BRAID_CHUNK_NOTE, 1, &note, sizeof(note),
					filler,
					left < sizeof(filler) ? left & ~7ULL : sizeof(filler)));
	}
	NEED(!truncate(region_path, 4096));
	CHECK_EQ(session_turn(&s), -ENOSPC);
	CHECK(strstr(braid_failure(), "full"));
	CHECK_EQ(s.notes, 1);
	CHECK_EQ(s.status.phase, BRAID_PHASE_GONE);
	CHECK_EQ(braid_region_source_fill(s.source), 0);
	CHECK(braid_region_source_finish(s.source) < 0);
	braid_region_source_close(s.source);
	braid_capture_abandon(s.sink.capture);
	fake_guest_free(s.guest);
}

static void shrink(struct session *s)
{
	volatile u8 *end = s->source->stream.mapping->base + s->source->stream.mapping->bytes - 1;

	s->heard = NULL;	/* the next note reports the end */
	NEED(!truncate(region_path, 4096));
	CHECK(*end == 1);	/* not reached: a SIGBUS ends it, with the directory's copy
				   allocated */
}

/* The leak checker decides. */
static void shrinks_under_the_directory(void)
{
	struct session s = { .heard = shrink };
	struct braid_directory *dir;

	begin(&s, capture_path, NULL);
	session_settle(&s);
	dir = (void *)(s.guest->base + shared_of(&s)->sections[BRAID_SECTION_DIRECTORY].offset);
	memset(dir->data + dir->bytes_used, 0xff, 64);
	dir->bytes_used += 64;
	dir->generation++;
	while (s.status.phase != BRAID_PHASE_GONE)
		NEED(session_turn(&s) >= 0);
	CHECK(strstr(s.last_note, "truncated"));
	end(&s);
}

/* A script detects a full disk by its errno, also if it is a page that does not fit. */
static void disk_full(void)
{
	struct session s = { 0 };
	int ret = 0;

	begin(&s, "/dev/full", NULL);
	while (ret >= 0) {
		fake_guest_write(s.guest, 0, 1000);
		ret = session_turn(&s);
	}
	CHECK_EQ(ret, -ENOSPC);
	CHECK(strstr(braid_failure(), "full"));
	braid_region_source_close(s.source);
	braid_capture_abandon(s.sink.capture);
	fake_guest_free(s.guest);
}

/* Buffers that are not recorded may be full. */
static void fill_of_one_buffer(void)
{
	static const struct braid_buffer_params other = {
		.name = "other", .subbuf_bytes = 1024, .nr_slots = 8,
	};
	struct session s = { 0 };

	begin(&s, capture_path, "other");
	fake_guest_write(s.guest, 0, 30000);
	fake_guest_open_buffer(s.guest, &other);
	session_settle(&s);
	CHECK_EQ(braid_region_source_fill(s.source), 0);
	fake_guest_write_to(s.guest, 1, 0, 1000);
	CHECK(braid_region_source_fill(s.source) > 100);
	end(&s);
}

/* Sleeps ------------------------------------------------------------------------------------- */

static u32 naps;

/* Both replace libc's, for the whole program. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	naps++;
	return syscall(SYS_clock_nanosleep, clock, flags, time, left) ? errno : 0;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left) ? -1 : 0;
}

/* Makes the region another incarnation, with the state of buffers given. */
static void restart(struct session *s, u64 incarnation, u32 seq, u32 nr_rings)
{
	struct braid_superblock *shared = shared_of(s);

	braid_store(&shared->state, BRAID_STATE_INIT);
	braid_fence();
	braid_store(&shared->incarnation, incarnation);
	braid_store(&shared->buffers_seq, seq);
	braid_store(&shared->buffers[0].nr_rings, nr_rings);
	braid_store_release(&shared->state, BRAID_STATE_LIVE);
}

static void turns_until(struct session *s, u64 ns)
{
	u64 start_ns = braid_host_clock_ns();

	do
		NEED(session_turn(s) >= 0);
	while (braid_host_clock_ns() - start_ns < ns &&
	       (s->status.phase != BRAID_PHASE_RECORDING || s->status.nr_streams == 1));
}

static bool in_capture(const char *text)
{
	static char bytes[1 << 20];
	FILE *file = fopen(capture_path, "r");
	size_t n;

	NEED(file);
	n = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	return memmem(bytes, n, text, strlen(text));
}

/* A guest that died while it changed its buffers is waited for, without delaying others. */
static void never_sleeps_in_a_turn(void)
{
	struct session s = { 0 };
	u64 incarnation;

	begin(&s, capture_path, NULL);
	session_settle(&s);
	incarnation = s.guest->sb.incarnation;
	naps = 0;
	restart(&s, incarnation + 2, 7, 2);
	turns_until(&s, LIMIT_NS);
	CHECK_EQ(s.status.nr_streams, 2);
	CHECK_EQ(s.status.phase, BRAID_PHASE_RECORDING);
	CHECK_EQ(naps, 0);
	end(&s);
	/* A report says it by the next stream, so the capture has no note that says it again. */
	CHECK(!in_capture("the driver restarted"));
}

/* An invalid region is checked once per second. */
static void checks_invalid_regions_rarely(void)
{
	struct session s = { 0 };
	u64 incarnation, start_ns;

	begin(&s, capture_path, NULL);
	session_settle(&s);
	incarnation = s.guest->sb.incarnation;
	naps = 0;
	start_ns = braid_host_clock_ns();
	restart(&s, incarnation + 2, 8, 1000);
	do
		NEED(session_turn(&s) >= 0);
	while (s.status.phase != BRAID_PHASE_WAITING &&
	       braid_host_clock_ns() - start_ns < LIMIT_NS);
	turns_until(&s, 100000000);
	CHECK_EQ(s.status.phase, BRAID_PHASE_WAITING);
	restart(&s, incarnation + 4, 8, 2);
	turns_until(&s, 300000000);
	if (braid_host_clock_ns() - start_ns < 900000000)
		CHECK_EQ(s.status.phase, BRAID_PHASE_WAITING);
	turns_until(&s, LIMIT_NS);
	CHECK_EQ(s.status.phase, BRAID_PHASE_RECORDING);
	CHECK_EQ(naps, 0);
	end(&s);
}

/* Buffers that close ----------------------------------------------------------------------- */

/* Closing a buffer takes no more of a turn than other work; all of it is read. */
static void closes_within_its_turns(void)
{
	static const struct braid_buffer_params other = {
		.name = "other", .subbuf_bytes = 1024, .nr_slots = 8,
	};
	struct session s = { 0 };
	u64 bytes = 0, most = 0;
	u32 turns = 0;

	begin(&s, capture_path, NULL);
	session_settle(&s);
	fake_guest_write(s.guest, 0, 30000);
	fake_guest_write(s.guest, 1, 30000);
	fake_guest_closing(s.guest, 0);
	while (!fake_guest_followed(s.guest) && turns++ < 1000) {
		NEED(session_turn(&s) >= 0);
		if (s.status.bytes - bytes > most)
			most = s.status.bytes - bytes;
		bytes = s.status.bytes;
	}
	CHECK(fake_guest_followed(s.guest));
	CHECK(most <= BRAID_TURN_BYTES + 2 * 4096);
	CHECK(turns > 5);
	CHECK_EQ(s.status.events, 60000);
	/* Again, and the removal is cancelled when it is half emptied. */
	s.guest->sb.buffers[0].flags = 0;
	fake_guest_open_buffer(s.guest, &other);
	session_settle(&s);
	fake_guest_write(s.guest, 0, 30000);
	fake_guest_closing(s.guest, 0);
	NEED(session_turn(&s) >= 0);
	CHECK(!fake_guest_followed(s.guest));
	s.guest->sb.buffers[0].flags = 0;
	fake_guest_closing(s.guest, 1);
	NEED(session_turn(&s) >= 0);
	session_settle(&s);
	CHECK(fake_guest_followed(s.guest));
	CHECK_EQ(s.status.events, 90000);
	/* The end of the recording releases it too. */
	fake_guest_write(s.guest, 1, 30000);
	fake_guest_closing(s.guest, 0);
	NEED(session_turn(&s) >= 0);
	CHECK(!fake_guest_followed(s.guest));
	CHECK_EQ(braid_region_source_finish(s.source), 0);
	CHECK(fake_guest_followed(s.guest));
	end(&s);
	CHECK_EQ(s.status.events, 120000);
}

/* Broken rings ----------------------------------------------------------------------------- */

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

static void settle_until_note(struct session *s, const char *words)
{
	u64 start_ns = braid_host_clock_ns();

	do
		session_settle(s);
	while (!strstr(s->last_note, words) && braid_host_clock_ns() - start_ns < LIMIT_NS);
	CHECK(strstr(s->last_note, words));
}

/* The last two accounts of a ring in a capture. */
static u32 last_accounts(struct braid_chunk_ring_end ends[2], u32 vcpu)
{
	struct braid_capture_reader *c;
	struct braid_chunk_ring_end end;
	struct braid_chunk_file head;
	struct braid_chunk_view view;
	u32 nr = 0;

	NEED(!braid_capture_open(&c, capture_path, &head));
	while (braid_capture_next(c, &view) > 0) {
		if (view.type != BRAID_CHUNK_RING_END)
			continue;
		memcpy(&end, view.payload, sizeof(end));
		if (end.vcpu != vcpu)
			continue;
		ends[0] = ends[1];
		ends[1] = end;
		nr++;
	}
	braid_capture_close(c);
	return nr;
}

/* A ring that is found broken when its role returns: a separate, empty part with a fault. */
static void broken_when_the_role_returns(bool slots)
{
	struct braid_chunk_ring_end ends[2];
	struct session s = { 0 };
	u64 lost;

	begin(&s, capture_path, NULL);
	fake_guest_write(s.guest, 0, 60000);
	session_settle(&s);
	fake_guest_write(s.guest, 0, 60000);
	session_settle(&s);
	lost = s.status.lost;
	CHECK(lost > 0);
	braid_store(owner_of(&s, 0), BRAID_READER_GUEST);
	session_settle(&s);
	fake_guest_write(s.guest, 0, 1000);	/* the agent may have read all events */
	CHECK(fake_guest_read(s.guest, 0) > 0);
	if (slots)
		ring_of(&s, 0, 0)->slots[0] |= 0xffff;
	else
		ring_of(&s, 0, 0)->priv->vcpu = 9;
	braid_store(owner_of(&s, 0), BRAID_READER_NONE);
	settle_until_note(&s, "violated the protocol");
	CHECK_EQ(s.status.lost, lost);
	CHECK(*owner_of(&s, 0) != BRAID_READER_HOST);
	end(&s);
	CHECK_EQ(last_accounts(ends, 0), 2);
	CHECK(ends[0].read > 0 && ends[0].lost > 0 && !ends[0].fault);
	CHECK_EQ(ends[1].fault, BRAID_READER_BAD_SLOT);
	CHECK_EQ(ends[1].read, ends[1].read_before);
	CHECK_EQ(ends[1].lost, ends[1].lost_before);
	CHECK_EQ(ends[1].first_seq, ends[0].first_seq + ends[0].read + ends[0].lost);
}

static void broken_slot_when_the_role_returns(void)
{
	broken_when_the_role_returns(true);
}

static void another_ring_when_the_role_returns(void)
{
	broken_when_the_role_returns(false);
}

/* Invalid events are a fault of the guest, and reported as one. */
static void invalid_events(void)
{
	struct braid_chunk_ring_end ends[2];
	struct session s = { 0 };
	struct braid_ring_map *map;

	begin(&s, capture_path, NULL);
	session_settle(&s);
	fake_guest_write(s.guest, 0, 20);
	map = ring_of(&s, 0, 0);
	/* In all of them, because the reader holds one. */
	memset(map->subbufs, 0xff, (map->nr_slots + 1) * map->subbuf_bytes);
	settle_until_note(&s, "invalid event bytes");
	CHECK(*owner_of(&s, 0) != BRAID_READER_HOST);
	end(&s);
	CHECK_EQ(last_accounts(ends, 0), 1);
	CHECK_EQ(ends[1].fault, BRAID_READER_BAD_COUNT);
	CHECK_EQ(ends[1].read, 0);
}

/* A missing buffer ---------------------------------------------------------------- */

static void a_buffer_that_is_created_late(void)
{
	static const struct braid_buffer_params other = {
		.name = "other", .subbuf_bytes = 1024, .nr_slots = 8,
	};
	struct session s = { 0 };

	begin(&s, capture_path, "other");
	session_settle(&s);
	CHECK_EQ(s.notes, 1);
	CHECK(strstr(s.last_note, "buffer 'other' does not exist yet"));
	CHECK(s.status.no_buffer);
	restart(&s, s.guest->sb.incarnation + 2, 8, 2);	/* a driver without it is loaded */
	turns_until(&s, LIMIT_NS);
	CHECK_EQ(s.status.nr_streams, 2);
	CHECK_EQ(s.notes, 2);
	CHECK(strstr(s.last_note, "restarted"));
	s.guest->sb.incarnation += 2;
	s.guest->sb.buffers_seq = 8;
	fake_guest_open_buffer(s.guest, &other);
	session_settle(&s);
	CHECK(!s.status.no_buffer);
	end(&s);
}

static int record(const char *buffer)
{
	char *argv[] = { "record", "-r", region_path, "-B", (char *)buffer, "-t", "0.1",
			 "-q", "-o", capture_path, NULL };

	return braid_cmd_record(sizeof(argv) / sizeof(*argv) - 1, argv);
}

/* An hour's recording of a misspelt name is not a success. */
static void a_buffer_that_is_never_created(void)
{
	struct fake_guest *guest = fake_guest_new(region_path, &usual);

	fake_guest_start_thread(guest);
	CHECK_EQ(record("main"), EXIT_SUCCESS);
	CHECK_EQ(record("mian"), EXIT_FAILURE);
	CHECK(strstr(braid_failure(), "no buffer 'mian'"));
	fake_guest_free(guest);
}

int main(void)
{
	region_path = scratch("region");
	capture_path = scratch("capture");
	RUN(reader_takes_over_while_disk_is_slow);
	RUN(disk_full_while_the_region_is_removed);
	RUN(disk_full);
	RUN(shrinks_under_the_directory);
	RUN(fill_of_one_buffer);
	RUN(never_sleeps_in_a_turn);
	RUN(checks_invalid_regions_rarely);
	RUN(closes_within_its_turns);
	RUN(broken_slot_when_the_role_returns);
	RUN(another_ring_when_the_role_returns);
	RUN(invalid_events);
	RUN(a_buffer_that_is_created_late);
	RUN(a_buffer_that_is_never_created);
	return VERDICT();
}
