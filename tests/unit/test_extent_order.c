// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Extents in any order, empty and repeated ones among them, in a file whose index says that all is
 * in order: read in whole, by its index and while it grows, by the same rule.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/capture/capture.h"
#include "host_agent/capture/checksum.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/io.h"
#include "host_agent/walk/options.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

int main(void);

#define EVENTS		32u	/* in a sub-buffer */
#define EVENT_BYTES	12u
#define MOST_EXTENTS	24u
#define ROUNDS		400u

/* The words before an event: no valid size; the rest has no events. */
#define NO_EVENT	BRAID_TYPE_TIME_STAMP
#define PADDING		(BRAID_TYPE_PADDING | 1u << 5)

static char path[64], first[64];
static u64 random_state = 0x9e3779b97f4a7c15ULL;

struct extent {
	u64 position;
	u32 from, to;			/* events */
	u32 flags;			/* BRAID_PAGE_* */
	u32 head;			/* of its first event, if not 0 */
};

static u32 any(u32 nr)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 32) % nr;
}

static void put_extent(struct braid_capture_writer *w, const struct extent *e)
{
	struct {
		u32 head;
		struct braid_record record;
	} events[EVENTS];
	struct braid_chunk_page page = {
		.flags = e->flags, .position = e->position, .from_bytes = e->from * EVENT_BYTES,
		.to_bytes = e->to * EVENT_BYTES, .time_stamp = 1000 + e->position * 1000,
		.first_seq = e->position * EVENTS, .host_ns = SYNTH_START_NS + (1ULL << 40),
	};
	u32 k;

	static_assert(sizeof(events[0]) == EVENT_BYTES, "one event");
	for (k = e->from; k < e->to; k++) {
		events[k].head = BRAID_TYPE_DATA | 2 << 2 | 1 << 5;
		events[k].record = (struct braid_record){
			.common_type = 1, .common_pid = 1 + e->position * EVENTS + k,
		};
	}
	if (e->head)
		events[e->from].head = e->head;
	NEED(!braid_capture_put(w, BRAID_CHUNK_PAGE, 1, &page, sizeof(page), events + e->from,
				(e->to - e->from) * EVENT_BYTES));
}

/* The flags of all blocks of pages are cleared: "in order". */
static void claim_order(void)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct braid_index_block block;
	struct braid_chunk_end end;
	struct braid_chunk chunk;
	off_t at = lseek(fd, -(off_t)sizeof(end), SEEK_END);
	u8 *payload;
	u32 k;

	NEED(fd >= 0 && braid_pread_all(fd, &end, sizeof(end), at) == sizeof(end));
	NEED(braid_pread_all(fd, &chunk, sizeof(chunk), end.index_offset) == sizeof(chunk));
	NEED(chunk.type == BRAID_CHUNK_INDEX_BLOCKS);
	payload = malloc(chunk.payload_bytes);
	at = end.index_offset + sizeof(chunk);
	NEED(payload &&
	     braid_pread_all(fd, payload, chunk.payload_bytes, at) == chunk.payload_bytes);
	for (k = 0; k + sizeof(block) <= chunk.payload_bytes; k += sizeof(block)) {
		memcpy(&block, payload + k, sizeof(block));
		block.flags = 0;
		memcpy(payload + k, &block, sizeof(block));
	}
	chunk.checksum = braid_chunk_checksum(&chunk, payload, chunk.payload_bytes, NULL, 0);
	NEED(pwrite(fd, &chunk, sizeof(chunk), end.index_offset) == sizeof(chunk));
	NEED(pwrite(fd, payload, chunk.payload_bytes, at) == chunk.payload_bytes);
	free(payload);
	close(fd);
}

static void make(const struct extent *extents, u32 nr)
{
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest_params params = {
		.name = "one", .incarnation = 1, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 8, .subbuf_bytes = 4096,
	};
	struct synth_guest g;
	u32 k;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	synth_sample(w, &g, 200, 300);
	for (k = 0; k < nr; k++)
		put_extent(w, &extents[k]);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	claim_order();
}

/* All events of a source: a sum of each byte and number. Return: how many. */
static u64 take_all(struct braid_source *source, u64 *sum, u64 *lost)
{
	u64 nr = 0;
	size_t k, j;
	u32 b;

	*sum = *lost = 0;
	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->nr_rings; j++) {
			struct braid_ring *ring = source->streams[k]->rings[j];

			while (braid_ring_next(ring) > 0) {
				*lost += ring->item.lost_before;
				for (nr += ring->item.kind == BRAID_ITEM_EVENT, b = 0;
				     b < ring->item.payload_bytes; b++)
					*sum = *sum * 31 + ring->item.payload[b] + ring->item.seq;
			}
		}
	return nr;
}

static u64 read_by(bool by_index, u64 *sum, u64 *faults)
{
	const struct braid_source_options how = { .by_index = by_index };
	struct braid_source *source;
	char *paths[] = { path };
	u64 nr, lost;

	NEED(!braid_source_open_captures(&source, paths, 1, &how));
	nr = take_all(source, sum, &lost);
	*faults = source->faults;
	braid_source_free(source);
	return nr;
}

/* *@faults: and losses. */
static u64 read_growing(u64 *faults)
{
	struct braid_source *source;
	u64 nr, sum, lost;

	NEED(!braid_source_follow(&source, path, NULL));
	NEED(braid_source_grow_alone(source, true) >= 0);
	nr = take_all(source, &sum, &lost);
	*faults = source->faults + lost;
	braid_source_free(source);
	return nr;
}

/*
 * The same by each way; one that can't sort says what is missing, as does one that meets a damaged
 * copy first.
 */
static void compare(void)
{
	u64 whole, indexed, growing, sum, other, faults, faults_of_index, more;

	whole = read_by(false, &sum, &faults);
	indexed = read_by(true, &other, &faults_of_index);
	growing = read_growing(&more);
	CHECK_EQ(indexed, whole);
	CHECK_EQ(other, sum);
	CHECK_EQ(faults_of_index, faults);
	CHECK(growing == whole || (growing < whole ? more : faults));
}

/* An index can't make its reader believe in an order. */
static void any_order(void)
{
	struct extent extents[MOST_EXTENTS] = { 0 };
	u32 round, nr, k;

	for (round = 0; round < ROUNDS; round++) {
		nr = 1 + any(MOST_EXTENTS);
		for (k = 0; k < nr; k++) {
			extents[k].position = 4 + any(3);
			extents[k].from = any(3) ? 0 : any(EVENTS);
			extents[k].to = extents[k].from + any(EVENTS + 1 - extents[k].from);
			if (!any(6))
				extents[k].from = extents[k].to = 0;
			extents[k].flags = any(4) ? 0 :
					   any(2) ? BRAID_PAGE_FINAL : BRAID_PAGE_PLACED;
			extents[k].head = any(12) || extents[k].from == extents[k].to ? 0 :
					  any(2) ? NO_EVENT : PADDING;
		}
		make(extents, nr);
		compare();
	}
}

/* Nothing is read after the bytes of an extent. */
static void an_empty_one_comes_last(void)
{
	static const struct extent extents[] = {
		{ .position = 4, .to = EVENTS }, { .position = 5, .to = 1 }, { .position = 5 },
	};
	u64 sum, faults;

	make(extents, 3);
	CHECK_EQ(read_by(false, &sum, &faults), EVENTS + 1);
	CHECK_EQ(faults, 1);
	CHECK_EQ(read_by(true, &sum, &faults), EVENTS + 1);
	CHECK_EQ(faults, 1);
	CHECK_EQ(read_growing(&faults), EVENTS + 1);
	CHECK_EQ(faults, 1);
}

/* A growing capture's events are in the order of the ring, or missing with a fault. */
static void a_position_goes_back(void)
{
	static const struct extent extents[] = {
		{ .position = 5, .to = 2 },
		{ .position = 4, .to = EVENTS },
		{ .position = 5, .to = 3 },
	};
	u64 sum, faults;

	make(extents, 3);
	CHECK_EQ(read_by(true, &sum, &faults), EVENTS + 3);
	CHECK_EQ(faults, 0);
	CHECK_EQ(read_growing(&faults), 3);
	CHECK_EQ(faults, 1);
}

/* What has no place is counted up to the damage, which is said: it may hide all of the extent. */
static void damage_without_a_place(void)
{
	static const struct extent extents[] = {
		{ .position = 4, .from = 8, .to = 16, .head = NO_EVENT },
		{ .position = 4, .from = 8, .to = 13, .flags = BRAID_PAGE_PLACED },
	};
	u64 sum, faults;

	make(extents, 2);
	CHECK_EQ(read_by(false, &sum, &faults), 8);
	CHECK_EQ(faults, 0);
	CHECK_EQ(read_by(true, &sum, &faults), 8);
	CHECK_EQ(faults, 0);
	CHECK_EQ(read_growing(&faults), 0);
	CHECK_EQ(faults, 2);
	make(extents, 1);
	CHECK_EQ(read_by(false, &sum, &faults), 0);
	CHECK_EQ(faults, 1);
	CHECK_EQ(read_by(true, &sum, &faults), 0);
	CHECK_EQ(faults, 1);
}

/* While the file grows, they come too late; what they alone have is not left out in silence. */
static void others_come_too_late(void)
{
	static const struct extent begun[] = {
		{ .position = 4, .from = 8, .to = 10, .flags = BRAID_PAGE_PLACED },
		{ .position = 4, .to = 16 },
	};
	static const struct extent extents[] = {
		{ .position = 4, .from = 8, .to = 16, .head = PADDING },
		{ .position = 4, .from = 8, .to = 13, .flags = BRAID_PAGE_PLACED },
	};
	u64 sum, faults;

	make(extents, 2);
	CHECK_EQ(read_by(false, &sum, &faults), 8);
	CHECK_EQ(faults, 0);
	CHECK_EQ(read_by(true, &sum, &faults), 8);
	CHECK_EQ(read_growing(&faults), 0);
	CHECK_EQ(faults, 1);
	make(begun, 2);
	CHECK_EQ(read_by(false, &sum, &faults), 16);
	CHECK_EQ(faults, 0);
	read_growing(&faults);
	CHECK(faults);
}

/* The file, up to the second chunk of a type, and then all of it. */
static void grow_at_second(u16 type, u64 *events, u64 *lost, u64 *faults)
{
	int from = open(path, O_RDONLY | O_CLOEXEC);
	int to = open(first, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	u8 bytes[16384];
	ssize_t n = from < 0 ? -1 : read(from, bytes, sizeof(bytes)), at = 0;
	struct braid_source *source;
	struct braid_chunk chunk;
	u64 sum, more;
	u32 nr = 0;

	NEED(n > 0 && n < (ssize_t)sizeof(bytes) && to >= 0);
	for (;; at += braid_chunk_bytes(chunk.payload_bytes)) {
		NEED(at + (ssize_t)sizeof(chunk) <= n);
		memcpy(&chunk, bytes + at, sizeof(chunk));
		if (chunk.type == type && nr++)
			break;
	}
	NEED(write(to, bytes, at) == at && !braid_source_follow(&source, first, NULL));
	NEED(braid_source_grow_alone(source, false) > 0);
	*events = take_all(source, &sum, lost);
	NEED(write(to, bytes + at, n - at) == n - at && braid_source_grow_alone(source, true) > 0);
	*events += take_all(source, &sum, &more);
	*lost += more;
	*faults = source->faults;
	braid_source_free(source);
	close(from);
	close(to);
	unlink(first);
}

/* What has no place is placed by what comes after it, not by the end of what there is so far. */
static void a_pause_without_a_place(void)
{
	static const struct extent extents[] = {
		{ .position = 4, .from = 8, .to = 16 }, { .position = 5, .to = EVENTS },
	};
	u64 events, lost, faults;

	make(extents, 2);
	CHECK_EQ(read_by(false, &lost, &faults), EVENTS);
	CHECK_EQ(faults, 0);
	grow_at_second(BRAID_CHUNK_PAGE, &events, &lost, &faults);
	CHECK_EQ(events, EVENTS);
	CHECK_EQ(lost, 8);
	CHECK_EQ(faults, 0);
}

/* By its index, a host's page without room for its header, too, is refused before it is read. */
static void a_host_page_without_header(void)
{
	struct braid_capture_writer *w = synth_capture(path);
	struct braid_chunk_host_page page = { .bytes = 0 };
	u64 sum, faults;

	synth_host(w, 1, 3, SYNTH_START_NS, 1000);
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_PAGE, 1, &page, sizeof(page), NULL, 0));
	NEED(!braid_capture_finish(w));
	CHECK_EQ(read_by(false, &sum, &faults), 3);
	CHECK_EQ(faults, 1);
	CHECK_EQ(read_by(true, &sum, &faults), 3);
	CHECK_EQ(faults, 1);
}

/* The first chunk of a type, changed by a lie, gets the right checksum. */
static void change(u16 type, void (*lie)(struct braid_chunk *chunk, u8 *payload))
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct braid_chunk chunk;
	u8 payload[4096];
	off_t at = 0;

	NEED(fd >= 0);
	while (braid_pread_all(fd, &chunk, sizeof(chunk), at) == sizeof(chunk) &&
	       chunk.type != type)
		at += braid_chunk_bytes(chunk.payload_bytes);
	NEED(chunk.type == type && chunk.payload_bytes <= sizeof(payload));
	NEED(braid_pread_all(fd, payload, chunk.payload_bytes, at + sizeof(chunk)) ==
	     chunk.payload_bytes);
	lie(&chunk, payload);
	chunk.checksum = braid_chunk_checksum(&chunk, payload, chunk.payload_bytes, NULL, 0);
	NEED(pwrite(fd, &chunk, sizeof(chunk), at) == sizeof(chunk));
	NEED(pwrite(fd, payload, chunk.payload_bytes, at + sizeof(chunk)) == chunk.payload_bytes);
	close(fd);
}

static void of_no_stream(struct braid_chunk *chunk, u8 *payload)
{
	(void)payload;
	chunk->stream = 2;
}

static void a_page_of_no_stream(void)
{
	static const struct extent extents[] = {
		{ .position = 4, .to = 2 }, { .position = 5, .to = 2 },
	};
	u64 sum, faults;

	make(extents, 2);
	change(BRAID_CHUNK_PAGE, of_no_stream);
	read_by(true, &sum, &faults);
	CHECK_EQ(faults, 1);
}

static void far_number(struct braid_chunk *chunk, u8 *payload)
{
	struct braid_chunk_page page;

	(void)chunk;
	memcpy(&page, payload, sizeof(page));
	page.first_seq = 5 * EVENTS - 2 + (1ULL << 63);	/* the farthest from the next one's */
	memcpy(payload, &page, sizeof(page));
}

static void numbers_far_apart(void)
{
	static const struct extent extents[] = {
		{ .position = 4, .to = 2 }, { .position = 5, .to = 2 },
	};
	u64 sum, faults;

	make(extents, 2);
	change(BRAID_CHUNK_PAGE, far_number);
	CHECK_EQ(read_by(false, &sum, &faults), 4);
	CHECK_EQ(faults, 2);		/* and the index is not of these chunks */
}

static void far_times(struct braid_chunk *chunk, u8 *payload)
{
	struct braid_chunk_file file;

	(void)chunk;
	memcpy(&file, payload, sizeof(file));
	file.start_host_ns += 1ULL << 63;
	file.start_realtime_ns = 1;
	memcpy(payload, &file, sizeof(file));
}

static void hosts_far_apart(void)
{
	static const struct extent extents[] = { { .position = 4, .to = 2 } };
	struct braid_source *source;
	char *paths[] = { first, path };

	make(extents, 1);
	NEED(!rename(path, first));
	make(extents, 1);
	change(BRAID_CHUNK_FILE, far_times);
	CHECK_EQ(braid_source_open_captures(&source, paths, 2, NULL), -EXDEV);
	unlink(first);
}

int main(void)
{
	snprintf(first, sizeof(first), "/tmp/test_extent_order.%d.first", getpid());
	snprintf(path, sizeof(path), "/tmp/test_extent_order.%d", getpid());
	RUN(an_empty_one_comes_last);
	RUN(a_position_goes_back);
	RUN(damage_without_a_place);
	RUN(others_come_too_late);
	RUN(a_pause_without_a_place);
	RUN(a_host_page_without_header);
	RUN(a_page_of_no_stream);
	RUN(numbers_far_apart);
	RUN(hosts_far_apart);
	RUN(any_order);
	unlink(path);
	return VERDICT();
}
