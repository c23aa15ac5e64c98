// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Indexed captures, packed or not, whose extents have any order, size and number, while the index may
 * say that all is in order. Checksums are always right: the real writer makes the file. It is read in
 * whole, by its index, and while it grows: with the same events, or with a fault.
 */
#include <fcntl.h>
#include <unistd.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/capture/pack.h"
#include "host_agent/store/source.h"
#include "host_agent/util/io.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/make_capture.h"

#define MOST_EXTENTS	48u
#define EVENTS		16u	/* in a sub-buffer */
#define EVENT_BYTES	12u

static char path[64], packed[64];

static void remove_files(void)
{
	unlink(path);
	unlink(packed);
}

/* An extent as the input says; its events are right, unless the input has some bytes for them. */
static void put_extent(struct braid_capture_writer *w, struct fuzz_input *in)
{
	u8 how = fuzz_take(in, 1), place = fuzz_take(in, 1), range = fuzz_take(in, 1);
	u32 from = range & 15, to = (how & 8) ? range >> 4 : EVENTS, k;
	u32 events[3 * EVENTS];
	struct braid_chunk_page page = {
		.vcpu = place >> 7, .flags = how & 7 ? how & 1 : how >> 4, .position = place & 7,
		.time_stamp = 1000 + (place & 7) * 1000, .first_seq = (u64)(place & 7) * EVENTS,
		.lost_before = how & 64 ? fuzz_take(in, 1) : 0, .dropped = how & 128 ? fuzz_take(in, 1) : 0,
		.host_ns = SYNTH_START_NS + (1ULL << 40),
	};

	from = from < to ? from : to;
	page.from_bytes = from * EVENT_BYTES;
	page.to_bytes = to * EVENT_BYTES;
	if ((how & 0x70) == 0x70)
		page.first_seq = fuzz_take(in, 8);
	if ((place & 0x70) == 0x70)
		page.position = fuzz_take(in, 8) & BRAID_POS_MASK;
	for (k = from; k < to; k++) {
		events[3 * k] = BRAID_TYPE_DATA | 2 << 2 | 1 << 5;
		events[3 * k + 1] = 1;
		events[3 * k + 2] = k;
	}
	if ((place & 0x18) == 0x18 && from < to)
		events[3 * from + fuzz_take(in, 1) % (3 * (to - from))] = fuzz_take(in, 4);
	MUST(!braid_capture_put(w, BRAID_CHUNK_PAGE, 1, &page, sizeof(page), events + 3 * from,
				(to - from) * EVENT_BYTES));
}

/* The blocks of the index get the flags that the input has for them. */
static void change_flags(struct fuzz_input *in)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct braid_index_block block;
	struct braid_chunk_end end;
	struct braid_chunk chunk;
	u8 payload[4096];
	off_t at = lseek(fd, -(off_t)sizeof(end), SEEK_END);
	u32 k;

	MUST(fd >= 0 && braid_pread_all(fd, &end, sizeof(end), at) == sizeof(end));
	MUST(braid_pread_all(fd, &chunk, sizeof(chunk), end.index_offset) == sizeof(chunk));
	MUST(chunk.type == BRAID_CHUNK_INDEX_BLOCKS && chunk.payload_bytes <= sizeof(payload));
	at = end.index_offset + sizeof(chunk);
	MUST(braid_pread_all(fd, payload, chunk.payload_bytes, at) == chunk.payload_bytes);
	for (k = 0; k + sizeof(block) <= chunk.payload_bytes; k += sizeof(block)) {
		memcpy(&block, payload + k, sizeof(block));
		block.flags = (block.flags & BRAID_INDEX_HOST) | (fuzz_take(in, 1) & BRAID_INDEX_BACK);
		memcpy(payload + k, &block, sizeof(block));
	}
	chunk.checksum = braid_chunk_checksum(&chunk, payload, chunk.payload_bytes, NULL, 0);
	MUST(pwrite(fd, &chunk, sizeof(chunk), end.index_offset) == sizeof(chunk));
	MUST(pwrite(fd, payload, chunk.payload_bytes, at) == chunk.payload_bytes);
	close(fd);
}

static void pack(void)
{
	struct braid_pack_run run = { 0 };
	int from = open(path, O_RDONLY | O_CLOEXEC);
	int to = open(packed, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	MUST(from >= 0 && to >= 0 && !braid_pack(to, from, path, &run));
	close(from);
	close(to);
	MUST(!rename(packed, path));
}

static void make(struct fuzz_input *in, u8 how)
{
	struct synth_guest_params params = {
		.name = "one", .incarnation = 1, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 8, .subbuf_bytes = 4096, .flags = how & 4 ? BRAID_BUFFER_ABSOLUTE : 0,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;
	u32 k;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	synth_sample(w, &g, 200, 300);
	for (k = 0; k < MOST_EXTENTS && in->left; k++)
		put_extent(w, in);
	MUST(!braid_capture_finish(w));
	synth_guest_free(&g);
}

struct found {
	u64 events, lost, sum, faults;
};

static struct found take_all(struct braid_source *source)
{
	struct found f = { 0 };
	size_t k, j;
	u32 b;

	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->nr_rings; j++) {
			struct braid_ring *ring = source->streams[k]->rings[j];

			while (braid_ring_next(ring) > 0) {
				f.events += ring->item.kind == BRAID_ITEM_EVENT;
				f.lost += ring->item.lost_before;
				for (b = 0; b < ring->item.payload_bytes; b++)
					f.sum = f.sum * 31 + ring->item.payload[b] + ring->item.seq;
			}
		}
	f.faults = source->faults;
	return f;
}

static struct found read_by(bool by_index)
{
	const struct braid_source_options how = { .by_index = by_index };
	struct braid_source *source;
	char *paths[] = { path };
	struct found f;

	MUST(!braid_source_open_captures(&source, paths, 1, &how));
	f = take_all(source);
	braid_source_free(source);
	return f;
}

static struct found read_growing(void)
{
	struct braid_source *source;
	struct found f;

	MUST(!braid_source_follow(&source, path, NULL));
	MUST(braid_source_grow_alone(source, true) >= 0);
	f = take_all(source);
	braid_source_free(source);
	return f;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };
	u8 how = fuzz_take(&in, 1);
	struct found whole, indexed, growing;

	if (!*path) {
		snprintf(path, sizeof(path), "/dev/shm/fuzz_extents.%d", getpid());
		snprintf(packed, sizeof(packed), "/dev/shm/fuzz_extents.%d.packed", getpid());
		atexit(remove_files);
	}
	make(&in, how);
	if (how & 1)
		change_flags(&in);
	if (how & 2)
		pack();
	whole = read_by(false);
	indexed = read_by(true);
	growing = read_growing();
	MUST_EQ(indexed.events, whole.events);
	MUST_EQ(indexed.sum, whole.sum);
	MUST_EQ(indexed.lost, whole.lost);
	MUST(growing.events == whole.events || growing.faults || growing.lost || whole.faults);
	return 0;
}
