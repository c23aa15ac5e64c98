// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Indexed captures, packed or not, whose extents have any order, size and number, while the index
 * may say that all is in order. Checksums are always right: the real writer makes the file. It is
 * read in whole, by its index, and while it grows, in steps that the input chooses: with the same
 * events, or with a fault. Files are in memory.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/capture/pack.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/io.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/make_capture.h"

#define MOST_EXTENTS	48u
#define EVENTS		16u	/* in a sub-buffer */
#define EVENT_BYTES	12u

#define MOST_STEPS	16u
#define MOST_TURNS	64u	/* to take what a step has added */

/* The first byte of an input. To pack takes as long as all else: one in eight does. */
enum {
	HOW_FLAGS = 1, HOW_PACKED = 2, HOW_ABSOLUTE = 4, HOW_NOT_PACKED = 8 | 16, HOW_STEPS = 32,
};

/* A file in memory. */
struct memory {
	int fd;
	char path[32];
};

/* Places in the file at which it had ended for a while, as parts of 65536. */
struct steps {
	u32 nr;
	u16 at[MOST_STEPS];
};

static struct memory make_memory(void)
{
	struct memory m = { .fd = memfd_create("fuzz", MFD_CLOEXEC) };

	MUST(m.fd >= 0);
	snprintf(m.path, sizeof(m.path), "/proc/self/fd/%d", m.fd);
	return m;
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
		.lost_before = how & 64 ? fuzz_take(in, 1) : 0,
		.dropped = how & 128 ? fuzz_take(in, 1) : 0,
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
static void change_flags(int fd, struct fuzz_input *in)
{
	struct braid_index_block block;
	struct braid_chunk_end end;
	struct braid_chunk chunk;
	u8 payload[4096];
	off_t at = lseek(fd, -(off_t)sizeof(end), SEEK_END);
	u32 k;

	MUST(braid_pread_all(fd, &end, sizeof(end), at) == sizeof(end));
	MUST(braid_pread_all(fd, &chunk, sizeof(chunk), end.index_offset) == sizeof(chunk));
	MUST(chunk.type == BRAID_CHUNK_INDEX_BLOCKS && chunk.payload_bytes <= sizeof(payload));
	at = end.index_offset + sizeof(chunk);
	MUST(braid_pread_all(fd, payload, chunk.payload_bytes, at) == chunk.payload_bytes);
	for (k = 0; k + sizeof(block) <= chunk.payload_bytes; k += sizeof(block)) {
		memcpy(&block, payload + k, sizeof(block));
		block.flags = (block.flags & BRAID_INDEX_HOST) |
			      (fuzz_take(in, 1) & BRAID_INDEX_BACK);
		memcpy(payload + k, &block, sizeof(block));
	}
	chunk.checksum = braid_chunk_checksum(&chunk, payload, chunk.payload_bytes, NULL, 0);
	MUST(pwrite(fd, &chunk, sizeof(chunk), end.index_offset) == sizeof(chunk));
	MUST(pwrite(fd, payload, chunk.payload_bytes, at) == chunk.payload_bytes);
}

/* Packs a file in place of itself. */
static void pack(struct memory *m)
{
	struct memory packed = make_memory();
	struct braid_pack_run run = { 0 };

	MUST(!lseek(m->fd, 0, SEEK_SET));
	MUST(!braid_pack(packed.fd, m->fd, m->path, &run));
	close(m->fd);
	*m = packed;
}

static void make(int fd, struct fuzz_input *in, u8 how)
{
	struct synth_guest_params params = {
		.name = "one", .incarnation = 1, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 8, .subbuf_bytes = 4096,
		.flags = how & HOW_ABSOLUTE ? BRAID_BUFFER_ABSOLUTE : 0,
	};
	struct braid_capture_writer *w = synth_capture_at(fcntl(fd, F_DUPFD_CLOEXEC, 0));
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

/* Adds what there is now. */
static void take_all(struct braid_source *source, struct found *f)
{
	size_t k, j;
	u32 b;

	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->nr_rings; j++) {
			struct braid_ring *ring = source->streams[k]->rings[j];

			while (braid_ring_next(ring) > 0) {
				f->events += ring->item.kind == BRAID_ITEM_EVENT;
				f->lost += ring->item.lost_before;
				for (b = 0; b < ring->item.payload_bytes; b++)
					f->sum = f->sum * 31 + ring->item.payload[b] +
						 ring->item.seq;
			}
		}
	f->faults = source->faults;
}

static struct found read_by(const char *path, bool by_index)
{
	const struct braid_source_options how = { .by_index = by_index };
	struct braid_source *source;
	char *paths[] = { (char *)path };
	struct found f = { 0 };

	MUST(!braid_source_open_captures(&source, paths, 1, &how));
	take_all(source, &f);
	braid_source_free(source);
	return f;
}

static int by_value(const void *a, const void *b)
{
	return *(const u16 *)a - *(const u16 *)b;
}

static struct steps take_steps(struct fuzz_input *in)
{
	struct steps s = { .nr = fuzz_take(in, 1) % (MOST_STEPS + 1) };
	u32 k;

	for (k = 0; k < s.nr; k++)
		s.at[k] = fuzz_take(in, 2);
	qsort(s.at, s.nr, sizeof(s.at[0]), by_value);
	return s;
}

/* The file in memory that has @bytes of a file gets those up to @to. */
static void copy(const struct memory *from, const struct memory *m, off_t bytes, off_t to)
{
	u8 part[4096];
	ssize_t n;

	for (; bytes < to; bytes += n) {
		n = to - bytes < (off_t)sizeof(part) ? to - bytes : (off_t)sizeof(part);
		MUST(braid_pread_all(from->fd, part, n, bytes) == n);
		MUST(pwrite(m->fd, part, n, bytes) == n);
	}
}

/* Reads what a step has added; @last: the file is complete. */
static void read_step(struct braid_source *source, bool last, struct found *f)
{
	u32 turns = 0;
	int ret;

	do {
		MUST(turns++ < MOST_TURNS);
		ret = braid_source_grow_alone(source, last);
		MUST(ret >= 0);
		take_all(source, f);
	} while (ret);
}

static struct found read_growing(const struct memory *whole, const struct steps *steps)
{
	struct memory growing = make_memory();
	struct braid_source *source = NULL;
	struct found f = { 0 };
	off_t had = 0, to;
	struct stat st;
	u32 k;

	MUST(!fstat(whole->fd, &st));
	for (k = 0; k <= steps->nr; k++, had = to) {
		to = k < steps->nr ? st.st_size * steps->at[k] >> 16 : st.st_size;
		copy(whole, &growing, had, to);
		/* It can't be followed before it has its head. */
		if (!source && braid_source_follow(&source, growing.path, NULL))
			source = NULL;
		MUST(source || k < steps->nr);
		if (source)
			read_step(source, k == steps->nr, &f);
	}
	braid_source_free(source);
	close(growing.fd);
	return f;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };
	u8 how = fuzz_take(&in, 1);
	struct found whole, indexed, growing;
	struct memory file = make_memory();
	struct steps steps = { 0 };

	if (how & HOW_STEPS)
		steps = take_steps(&in);
	make(file.fd, &in, how);
	if (how & HOW_FLAGS)
		change_flags(file.fd, &in);
	if ((how & (HOW_PACKED | HOW_NOT_PACKED)) == HOW_PACKED)
		pack(&file);
	whole = read_by(file.path, false);
	indexed = read_by(file.path, true);
	growing = read_growing(&file, &steps);
	close(file.fd);
	MUST_EQ(indexed.events, whole.events);
	MUST_EQ(indexed.sum, whole.sum);
	MUST_EQ(indexed.lost, whole.lost);
	MUST(growing.events == whole.events || growing.faults || growing.lost || whole.faults);
	return 0;
}
