// SPDX-License-Identifier: GPL-2.0-or-later
/* Collects a capture's bytes in segments, and compresses each separately. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/capture/chunk.h"
#include "host_agent/capture/packer.h"
#include "host_agent/capture/shuffle.h"
#include "host_agent/util/array.h"

/* Unpacked, of each segment. Larger ones cost more where a reader goes from ring to ring. */
#define SEGMENT_BYTES	(1u << 20)
#define HEAD_BYTES	(sizeof(struct braid_chunk) + sizeof(struct braid_chunk_packed_small))
/* Of a segment, at most: every other chunk is a page. */
#define MOST_RANGES	(SEGMENT_BYTES / sizeof(struct braid_chunk) / 2 + 2)
#define SMALL_BYTES	(SEGMENT_BYTES + MOST_RANGES * sizeof(struct braid_packed_range))
#define MOST_PLACES	(BRAID_CHUNK_MAX_BYTES / sizeof(struct braid_chunk_packed_place))

static_assert(SEGMENT_BYTES <= BRAID_PACKED_SEGMENT_BYTES, "segment");

/* How a capture begins. */
struct first {
	struct braid_chunk chunk;
	struct braid_chunk_file file;
};

struct braid_packer {
	struct braid_packer_options o;
	bool begun;			/* the head is written */
	u64 number;			/* of the next chunk */
	u64 at;				/* in the capture: where the segment that is collected begins */
	u32 used;			/* bytes of it */
	u64 written;
	struct braid_chunk_packed_place *places;
	size_t nr, capacity;
	bool no_index;			/* too many segments, or no memory: readers scan the file */
	ZSTD_CCtx *zstd;
	size_t body_bytes;		/* of what zstd makes of a segment */
	u8 *chunk;			/* that is made: HEAD_BYTES, body_bytes, padding */
	u8 plain[SEGMENT_BYTES];

	/* The segment's bytes that are not of pages: */
	struct braid_chunk head;	/* of the capture's current chunk */
	u32 head_bytes;			/* of it, from earlier segments, while it is incomplete */
	u64 next;			/* in the capture: where the next chunk begins */
	bool small;			/* the current chunk is not a page */
	struct braid_packed_range ranges[MOST_RANGES];
	u32 nr_ranges;
	u32 small_bytes;		/* in these ranges */
	u8 small_data[SMALL_BYTES];
	u8 rest[SEGMENT_BYTES];
	u8 shuffled[sizeof(struct braid_packed_shuffle) + SEGMENT_BYTES];
	u32 words[SEGMENT_BYTES / sizeof(u32)];
};

struct braid_packer *braid_packer_new(const struct braid_packer_options *options)
{
	struct braid_packer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->o = *options;
	if (!p->o.segment_bytes || p->o.segment_bytes > SEGMENT_BYTES)
		p->o.segment_bytes = SEGMENT_BYTES;
	p->body_bytes = ZSTD_compressBound(SMALL_BYTES);
	p->chunk = malloc(HEAD_BYTES + p->body_bytes + 8);
	p->zstd = ZSTD_createCCtx();
	if (p->chunk && p->zstd)
		return p;
	braid_packer_free(p);
	return NULL;
}

void braid_packer_free(struct braid_packer *p)
{
	if (!p)
		return;
	ZSTD_freeCCtx(p->zstd);
	free(p->places);
	free(p->chunk);
	free(p);
}

/* @payload: NULL if it is in its place in ->chunk already. */
static int put_chunk(struct braid_packer *p, u16 type, const void *payload, u32 bytes)
{
	struct braid_chunk chunk = {
		.magic = BRAID_CHUNK_MAGIC, .type = type, .payload_bytes = bytes,
		.number = p->number++,
	};
	u32 padding = -bytes & 7;
	u8 *body = p->chunk + sizeof(chunk);
	int err;

	if (payload && bytes)
		memcpy(body, payload, bytes);
	chunk.checksum = braid_chunk_checksum(&chunk, body, bytes, NULL, 0);
	memcpy(p->chunk, &chunk, sizeof(chunk));
	memset(body + bytes, 0, padding);
	err = p->o.write(p->o.arg, p->chunk, sizeof(chunk) + bytes + padding);
	if (!err)
		p->written += sizeof(chunk) + bytes + padding;
	return err;
}

static void drop_index(struct braid_packer *p)
{
	p->no_index = true;
	free(p->places);
	p->places = NULL;
	p->nr = p->capacity = 0;
}

/* Adds the next segment's place. An index that would not have all segments is not written. */
static void add_place(struct braid_packer *p)
{
	struct braid_chunk_packed_place place = { .offset = p->written, .at = p->at };

	if (!p->no_index && (p->nr == MOST_PLACES ||
			     braid_array_push(p->places, p->nr, p->capacity, place)))
		drop_index(p);
}

/* Adds bytes of the segment that are not of pages. @from, @to: in the capture. */
static void add_range(struct braid_packer *p, u64 from, u64 to)
{
	struct braid_packed_range *last = p->nr_ranges ? &p->ranges[p->nr_ranges - 1] : NULL;
	u32 at = from - p->at, bytes = to - from;

	p->small_bytes += bytes;
	if (last && last->at + last->bytes == at)
		last->bytes += bytes;
	else
		p->ranges[p->nr_ranges++] = (struct braid_packed_range){ .at = at, .bytes = bytes };
}

/*
 * Takes the head of the chunk at @at. If the segment ends within the head, ->head_bytes is set, and
 * the next segment has the rest. Return: the end of what was added to a range, or @at.
 */
static u64 take_head(struct braid_packer *p, u64 at, u64 end)
{
	u64 n = sizeof(p->head) - p->head_bytes;
	u64 begin = at - p->head_bytes;

	n = n < end - at ? n : end - at;
	memcpy((u8 *)&p->head + p->head_bytes, p->plain + (at - p->at), n);
	p->head_bytes += n;
	if (p->head_bytes < sizeof(p->head)) {
		add_range(p, at, at + n);
		return at + n;
	}
	p->head_bytes = 0;
	p->next = ~0ULL;	/* unless it is a chunk, all that follows counts as pages */
	p->small = p->head.magic == BRAID_CHUNK_MAGIC &&
		   p->head.payload_bytes <= BRAID_CHUNK_MAX_BYTES;
	if (p->small)
		p->next = begin + braid_chunk_bytes(p->head.payload_bytes);
	p->small &= p->head.type != BRAID_CHUNK_PAGE && p->head.type != BRAID_CHUNK_HOST_PAGE;
	return at;
}

static void find_small(struct braid_packer *p)
{
	u64 at = p->at, end = p->at + p->used, to;

	p->nr_ranges = p->small_bytes = 0;
	while (at < end) {
		if (at >= p->next) {
			at = take_head(p, at, end);
			if (p->head_bytes)
				break;
		}
		to = p->next < end ? p->next : end;
		if (p->small)
			add_range(p, at, to);
		at = to;
	}
}

/* Splits the segment into ->small_data and ->rest. */
static void split(struct braid_packer *p)
{
	u8 *small = p->small_data + p->nr_ranges * sizeof(*p->ranges), *rest = p->rest;
	u32 k, at = 0;

	memcpy(p->small_data, p->ranges, p->nr_ranges * sizeof(*p->ranges));
	for (k = 0; k < p->nr_ranges; k++) {
		const struct braid_packed_range *range = &p->ranges[k];

		memcpy(rest, p->plain + at, range->at - at);
		rest += range->at - at;
		memcpy(small, p->plain + range->at, range->bytes);
		small += range->bytes;
		at = range->at + range->bytes;
	}
	memcpy(rest, p->plain + at, p->used - at);
}

/* @head: @head_bytes, which begin with struct braid_chunk_packed. Sets its codec. */
static int put_packed(struct braid_packer *p, u16 type, struct braid_chunk_packed *head,
		      u32 head_bytes, const u8 *data, u32 bytes)
{
	u8 *body = p->chunk + sizeof(struct braid_chunk) + head_bytes;
	size_t n = ZSTD_compressCCtx(p->zstd, body, p->body_bytes, data, bytes, p->o.level);

	/* Readers refuse higher ratios than BRAID_PACKED_RATIO; no trace has them. */
	if (ZSTD_isError(n) || n >= bytes || bytes / BRAID_PACKED_RATIO > n) {
		memcpy(body, data, bytes);
		n = bytes;
	} else {
		head->codec |= BRAID_PACKED_ZSTD;
	}
	memcpy(p->chunk + sizeof(struct braid_chunk), head, head_bytes);
	return put_chunk(p, type, NULL, head_bytes + n);
}

static int put_small(struct braid_packer *p)
{
	struct braid_chunk_packed_small head = {
		.packed = { .at = p->at, .bytes = p->small_bytes }, .nr = p->nr_ranges,
	};

	return put_packed(p, BRAID_CHUNK_PACKED_SMALL, &head.packed, sizeof(head), p->small_data,
			  p->nr_ranges * sizeof(*p->ranges) + p->small_bytes);
}

/* @data: head->bytes, of whole pages but at both ends. */
static int put_pages(struct braid_packer *p, struct braid_chunk_packed *head, const u8 *data)
{
	u32 bytes = head->bytes;

	if (braid_shuffle(p->shuffled, data, bytes, p->words)) {
		head->codec |= BRAID_PACKED_SHUFFLED;
		data = p->shuffled;
		bytes = braid_shuffled_bytes(bytes);
	}
	return put_packed(p, BRAID_CHUNK_PACKED, head, sizeof(*head), data, bytes);
}

static int put_segment(struct braid_packer *p)
{
	struct braid_chunk_packed head = { .at = p->at, .bytes = p->used };
	const u8 *data = p->plain;
	int err = 0;

	add_place(p);
	find_small(p);
	if (p->small_bytes && p->small_bytes < p->used) {
		split(p);
		head.bytes -= p->small_bytes;
		head.codec = BRAID_PACKED_REST;
		data = p->rest;
		err = put_small(p);
	}
	if (!err)
		err = put_pages(p, &head, data);
	p->at += p->used;
	p->used = 0;
	return err;
}

/* Writes the capture's FILE chunk, with the version of packed captures. */
static int put_head(struct braid_packer *p, const struct first *first)
{
	struct braid_chunk_file file = first->file;

	if (first->chunk.magic != BRAID_CHUNK_MAGIC || first->chunk.type != BRAID_CHUNK_FILE ||
	    braid_packed_is_major(file.version_major))
		return -EBADMSG;
	file.version_major = BRAID_PACKED_MAJOR;
	p->begun = true;
	return put_chunk(p, BRAID_CHUNK_FILE, &file, sizeof(file));
}

int braid_packer_add(struct braid_packer *p, const void *data, size_t bytes)
{
	const u8 *from = data;
	struct first first;
	int err = 0;

	while (bytes && !err) {
		/* Segments may be smaller than the capture's FILE chunk. */
		size_t most = p->begun ? p->o.segment_bytes : sizeof(first);
		size_t n = most - p->used < bytes ? most - p->used : bytes;

		memcpy(p->plain + p->used, from, n);
		p->used += n;
		from += n;
		bytes -= n;
		if (p->used < most)
			break;
		if (p->begun) {
			err = put_segment(p);
			continue;
		}
		memcpy(&first, p->plain, sizeof(first));
		err = put_head(p, &first);
		if (!err && p->used >= p->o.segment_bytes)
			err = put_segment(p);
	}
	return err;
}

int braid_packer_end_segment(struct braid_packer *p)
{
	return p->begun && p->used ? put_segment(p) : 0;
}

/* The index may be larger than a segment. */
static int put_index(struct braid_packer *p)
{
	size_t bytes = p->nr * sizeof(*p->places);
	u8 *grown = bytes > p->body_bytes ? realloc(p->chunk, HEAD_BYTES + bytes + 8) : p->chunk;

	if (!grown)
		drop_index(p);
	else
		p->chunk = grown;
	return p->no_index ? 0 : put_chunk(p, BRAID_CHUNK_PACKED_INDEX, p->places, bytes);
}

int braid_packer_finish(struct braid_packer *p)
{
	struct braid_chunk_packed_end end = { 0 };
	int err;

	if (!p->begun)
		return -EBADMSG;
	err = braid_packer_end_segment(p);
	end.bytes = p->at;
	end.index_offset = p->written;
	if (!err)
		err = put_index(p);
	if (p->no_index)
		end.index_offset = 0;
	return err ? err : put_chunk(p, BRAID_CHUNK_FILE_END, &end, sizeof(end));
}

u64 braid_packer_written(const struct braid_packer *p)
{
	return p->written;
}
