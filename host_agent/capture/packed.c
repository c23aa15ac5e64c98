// SPDX-License-Identifier: GPL-2.0-or-later
/* Unpacks the segments that are read; keeps the last ones unpacked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "host_agent/capture/packed.h"
#include "host_agent/capture/segments.h"
#include "host_agent/capture/shuffle.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define NR_UNPACKED	16u
#define NR_SMALL	16u
#define LEAST_WORK	4096u		/* counted for each chunk, besides its bytes */

/*
 * The limit of all bytes read and unpacked. If chunks that follow in time are far apart in the
 * capture, each of them may need its segment to be unpacked again.
 */
#define MOST_WORK(bytes, segments)	((4ULL << 30) + 64 * (bytes) + 16ULL * LEAST_WORK * (segments))

/*
 * An unpacked segment; or its *small part*, what its PACKED_SMALL has: ranges, then their bytes,
 * which are those of chunks other than pages.
 */
struct unpacked {
	u64 used;		/* ->turns at the last use; 0: never */
	size_t segment;
	u32 bytes;		/* of a small part: of its ranges. 0: damaged, or no small part */
	u32 nr;			/* of a small part: number of ranges */
	u32 chunk_bytes;	/* of a small part: size of PACKED_SMALL in the file */
	u8 *data;
	u32 *starts;		/* of a small part: where each range's bytes begin, after the ranges */
};

struct braid_packed {
	struct braid_segments segments;
	u64 damaged;				/* those that could not be unpacked */
	u64 work;				/* bytes read and unpacked */
	u64 turns;
	struct unpacked unpacked[NR_UNPACKED];
	struct unpacked small[NR_SMALL];
	u8 *rest;				/* of a segment, before join() */
	u8 *shuffled;				/* likewise */
	u32 *words;				/* for braid_unshuffle() */
	ZSTD_DCtx *zstd;
};

int braid_packed_is(int fd, struct braid_chunk_file *head)
{
	struct {
		struct braid_chunk chunk;
		struct braid_chunk_file file;
	} first;
	ssize_t n = braid_pread_all(fd, &first, sizeof(first), 0);

	if (n < 0)
		return n;
	*head = first.file;
	head->version_major = BRAID_CAPTURE_MAJOR;
	return (size_t)n == sizeof(first) && first.chunk.magic == BRAID_CHUNK_MAGIC &&
	       first.chunk.type == BRAID_CHUNK_FILE &&
	       braid_packed_is_major(first.file.version_major);
}

int braid_packed_open(struct braid_packed **out, int fd, u64 file_bytes)
{
	struct braid_packed *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return braid_out_of_memory();
	p->zstd = ZSTD_createDCtx();
	err = p->zstd ? braid_segments_open(&p->segments, fd, file_bytes) : braid_out_of_memory();
	if (err) {
		braid_packed_free(p);
		return err;
	}
	*out = p;
	return 0;
}

int braid_packed_grow(struct braid_packed *p, u64 file_bytes)
{
	return braid_segments_grow(&p->segments, file_bytes);
}

u64 braid_packed_bytes(const struct braid_packed *p)
{
	return p->segments.bytes;
}

u64 braid_packed_damaged(const struct braid_packed *p)
{
	return p->segments.damaged + p->damaged;
}

bool braid_packed_no_end(const struct braid_packed *p)
{
	return p->segments.no_end;
}

void braid_packed_free(struct braid_packed *p)
{
	size_t k;

	if (!p)
		return;
	for (k = 0; k < NR_UNPACKED; k++)
		free(p->unpacked[k].data);
	for (k = 0; k < NR_SMALL; k++) {
		free(p->small[k].data);
		free(p->small[k].starts);
	}
	free(p->rest);
	free(p->shuffled);
	free(p->words);
	ZSTD_freeDCtx(p->zstd);
	braid_segments_free(&p->segments);
	free(p);
}

/* Reading ------------------------------------------------------------------------------------ */

/* The segment that contains an offset of the capture, or precedes it. */
static size_t segment_of(const struct braid_packed *p, u64 offset)
{
	size_t after;

	braid_array_first(after, p->segments.nr, p->segments.places[after].at > offset);
	return after ? after - 1 : 0;
}

static int count_work(struct braid_packed *p, u64 bytes)
{
	if (p->work > MOST_WORK(p->segments.bytes, p->segments.nr))
		return -EOVERFLOW;
	p->work += bytes;
	return 0;
}

/*
 * Unpacks the chunk that was read into *@to, which is allocated again. *@h: set to its head.
 * Return: 1; 0: the head is not valid, not of that segment, or gives a wrong size; -errno.
 */
static int packed_unpack(struct braid_packed *p, const struct braid_chunk *chunk, u64 offset,
			 size_t segment,
		   struct braid_packed_head *h, u8 **to)
{
	bool small = chunk->type == BRAID_CHUNK_PACKED_SMALL;
	size_t bytes, total, head_bytes = small ? sizeof(h->small) : sizeof(h->small.packed);
	u32 codec;
	u8 *grown;

	*h = (struct braid_packed_head){ .chunk = *chunk };
	if (chunk->payload_bytes <= head_bytes)
		return 0;
	memcpy(&h->small, p->segments.chunk, head_bytes);
	if (!braid_segments_is_head(&p->segments, h, chunk->type, offset) ||
	    h->small.packed.at != p->segments.places[segment].at)
		return 0;
	bytes = chunk->payload_bytes - head_bytes;
	total = braid_segments_unpacks_to(h);
	if (count_work(p, total))
		return -EOVERFLOW;
	grown = realloc(*to, total);
	if (!grown)
		return braid_out_of_memory();
	*to = grown;
	codec = h->small.packed.codec & ~(BRAID_PACKED_REST | BRAID_PACKED_SHUFFLED);
	if (codec == BRAID_PACKED_PLAIN && bytes == total)
		memcpy(*to, p->segments.chunk + head_bytes, bytes);
	else if (codec != BRAID_PACKED_ZSTD ||
		 ZSTD_decompressDCtx(p->zstd, *to, total, p->segments.chunk + head_bytes, bytes) != total)
		return 0;
	return 1;
}

/* As packed_unpack(), and restores what was shuffled. */
static int restore(struct braid_packed *p, const struct braid_chunk *chunk, u64 offset, size_t segment,
		   struct braid_packed_head *h, u8 **to)
{
	u32 bytes;
	u8 *grown;
	int ret = packed_unpack(p, chunk, offset, segment, h, to);

	if (ret <= 0 || !(h->small.packed.codec & BRAID_PACKED_SHUFFLED))
		return ret;
	if (chunk->type != BRAID_CHUNK_PACKED)
		return 0;
	bytes = h->small.packed.bytes;
	if (!p->words)
		p->words = malloc(BRAID_PACKED_SEGMENT_BYTES);
	grown = p->words ? realloc(p->shuffled, bytes) : NULL;
	if (!grown)
		return braid_out_of_memory();
	p->shuffled = *to;
	*to = grown;
	return braid_unshuffle(*to, p->shuffled, bytes, p->words);
}

/* Reads and unpacks a chunk of a segment; as packed_unpack(). 0: also if no such chunk is there. */
static int read_chunk(struct braid_packed *p, u64 offset, u16 type, size_t segment,
		      struct braid_packed_head *h, u8 **to)
{
	struct braid_chunk chunk;
	int ret = braid_segments_read(&p->segments, offset, type, &chunk);

	if (ret >= 0 && count_work(p, LEAST_WORK + chunk.payload_bytes))
		return -EOVERFLOW;
	return ret > 0 ? restore(p, &chunk, offset, segment, h, to) : ret;
}

/* Return: the segment's entry; or NULL, with the least recently used entry in *@oldest. */
static struct unpacked *cached(struct braid_packed *p, struct unpacked *of, u32 nr, size_t segment,
			       struct unpacked **oldest)
{
	struct unpacked *u;

	*oldest = of;
	for (u = of; u < of + nr; u++) {
		if (u->used && u->segment == segment) {
			u->used = ++p->turns;
			return u;
		}
		if (u->used < (*oldest)->used)
			*oldest = u;
	}
	return NULL;
}

/* Whether a small part's ranges are valid; sets where their bytes begin. */
static bool take_ranges(struct unpacked *u)
{
	const struct braid_packed_range *range = (const struct braid_packed_range *)u->data;
	u64 after = 0, sum = 0;
	u32 k;

	for (k = 0; k < u->nr; k++, range++) {
		if (range->at < after || range->bytes > BRAID_PACKED_SEGMENT_BYTES)
			return false;
		after = (u64)range->at + range->bytes;
		u->starts[k] = sum;
		sum += range->bytes;
	}
	return after <= BRAID_PACKED_SEGMENT_BYTES && sum == u->bytes;
}

/* Takes the small part that was unpacked, or nothing of one that is not valid. Return: 0 or -errno. */
static int take_small(struct unpacked *u, const struct braid_packed_head *head)
{
	u32 *grown = reallocarray(u->starts, head->small.nr, sizeof(*grown));

	if (!grown)
		return braid_out_of_memory();
	u->starts = grown;
	u->bytes = head->small.packed.bytes;
	u->nr = head->small.nr;
	u->chunk_bytes = braid_chunk_bytes(head->chunk.payload_bytes);
	if (!take_ranges(u))
		u->bytes = u->nr = u->chunk_bytes = 0;
	return 0;
}

/* Return: a segment's small part, with ->nr 0 if it has none that is valid; NULL with *@err set. */
static const struct unpacked *load_small(struct braid_packed *p, size_t segment, int *err)
{
	u64 offset = p->segments.places[segment].offset;
	struct braid_packed_head head;
	struct unpacked *u, *oldest;

	u = cached(p, p->small, NR_SMALL, segment, &oldest);
	if (u)
		return u;
	oldest->used = 0;
	oldest->bytes = oldest->nr = oldest->chunk_bytes = 0;
	*err = read_chunk(p, offset, BRAID_CHUNK_PACKED_SMALL, segment, &head, &oldest->data);
	if (*err > 0)
		*err = take_small(oldest, &head);
	if (*err < 0)
		return NULL;
	oldest->used = ++p->turns;
	oldest->segment = segment;
	return oldest;
}

/* Joins a segment's small part and ->rest, each range in its place. Return: whether they fit. */
static bool join(const struct braid_packed *p, const struct unpacked *small, u32 rest_bytes,
		 struct unpacked *to)
{
	const struct braid_packed_range *range = (const struct braid_packed_range *)small->data;
	const u8 *from = small->data + BRAID_PACKED_SMALL_BYTES(small->nr, 0), *rest = p->rest;
	const u8 *end = rest + rest_bytes;
	u8 *at = to->data;
	u32 k, gap;

	for (k = 0; k < small->nr; k++, range++) {
		gap = range->at - (at - to->data);
		if (gap > end - rest)
			return false;
		memcpy(at, rest, gap);
		memcpy(at + gap, from, range->bytes);
		rest += gap;
		from += range->bytes;
		at += gap + range->bytes;
	}
	memcpy(at, rest, end - rest);
	to->bytes = small->bytes + rest_bytes;
	return true;
}

/* Reads a segment into @to. Return: 1; 0: it is damaged; -errno. */
static int read_whole(struct braid_packed *p, size_t segment, struct unpacked *to)
{
	const struct unpacked *small;
	struct braid_packed_head head;
	u64 offset;
	bool rest;
	int ret;

	small = load_small(p, segment, &ret);
	if (!small)
		return ret;
	offset = p->segments.places[segment].offset + small->chunk_bytes;
	ret = read_chunk(p, offset, BRAID_CHUNK_PACKED, segment, &head,
			 small->nr ? &p->rest : &to->data);
	if (ret <= 0)
		return ret;
	rest = head.small.packed.codec & BRAID_PACKED_REST;
	to->bytes = head.small.packed.bytes;
	if (rest != (small->nr > 0) || small->bytes + to->bytes > BRAID_PACKED_SEGMENT_BYTES)
		return 0;
	if (!small->nr)
		return 1;
	free(to->data);
	to->data = malloc(small->bytes + to->bytes);
	return to->data ? join(p, small, to->bytes, to) : braid_out_of_memory();
}

/* Return: an unpacked segment, of 0 bytes if it is damaged; NULL with *@err set. */
static const struct unpacked *load(struct braid_packed *p, size_t segment, int *err)
{
	struct unpacked *oldest, *u = cached(p, p->unpacked, NR_UNPACKED, segment, &oldest);

	if (u)
		return u;
	*err = read_whole(p, segment, oldest);
	if (*err < 0) {
		oldest->used = 0;
		return NULL;
	}
	oldest->used = ++p->turns;
	oldest->segment = segment;
	if (!*err) {
		oldest->bytes = 0;
		p->damaged++;
	}
	return oldest;
}

/* Return: the bytes at @at of the segment, if its small part has all of them; else NULL. */
static const u8 *find_small(const struct unpacked *small, u32 at, size_t bytes)
{
	const struct braid_packed_range *ranges = (const struct braid_packed_range *)small->data;
	u32 k;

	braid_array_first(k, small->nr, ranges[k].at > at);
	if (!k)
		return NULL;
	at -= ranges[--k].at;
	return at < ranges[k].bytes && bytes <= ranges[k].bytes - at ?
	       small->data + BRAID_PACKED_SMALL_BYTES(small->nr, 0) + small->starts[k] + at : NULL;
}

/* Reads from one segment, up to its end. Return: bytes, or -errno. */
static ssize_t read_segment(struct braid_packed *p, u8 *to, size_t bytes, u64 offset)
{
	size_t segment = segment_of(p, offset), there;
	const struct braid_chunk_packed_place *place = &p->segments.places[segment];
	u64 at = place->at, end = segment + 1 < p->segments.nr ? place[1].at : p->segments.bytes;
	struct unpacked *oldest, *u = cached(p, p->unpacked, NR_UNPACKED, segment, &oldest);
	const struct unpacked *small;
	const u8 *data;
	int err;

	if (offset < at) {	/* the first segments are missing */
		bytes = bytes < at - offset ? bytes : at - offset;
		memset(to, 0, bytes);
		return bytes;
	}
	if (bytes > end - offset)
		bytes = end - offset;
	/* The small part may have the bytes, even of a damaged segment. */
	if (!u || !u->bytes) {
		small = load_small(p, segment, &err);
		if (!small)
			return err;
		data = find_small(small, offset - at, bytes);
		if (data) {
			memcpy(to, data, bytes);
			return bytes;
		}
	}
	u = u ? u : (struct unpacked *)load(p, segment, &err);
	if (!u)
		return err;
	there = offset - at < u->bytes ? u->bytes - (offset - at) : 0;
	there = there < bytes ? there : bytes;
	if (there)
		memcpy(to, u->data + (offset - at), there);
	memset(to + there, 0, bytes - there);
	return bytes;
}

ssize_t braid_packed_read(struct braid_packed *p, void *to, size_t bytes, u64 offset)
{
	size_t done = 0;
	ssize_t n;

	if (offset >= p->segments.bytes)
		return 0;
	if (bytes > p->segments.bytes - offset)
		bytes = p->segments.bytes - offset;
	while (done < bytes) {
		n = read_segment(p, (u8 *)to + done, bytes - done, offset + done);
		if (n < 0)
			return n;
		done += n;
	}
	return done;
}
