// SPDX-License-Identifier: GPL-2.0-or-later
/* Collects a capture's bytes in segments, each compressed by itself. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/capture/chunk.h"
#include "host_agent/capture/packer.h"
#include "host_agent/util/array.h"

/* Unpacked, of each segment. Larger ones cost more where a reader goes from ring to ring. */
#define SEGMENT_BYTES	(1u << 20)
#define HEAD_BYTES	(sizeof(struct braid_chunk) + sizeof(struct braid_chunk_packed))
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
	bool no_index;			/* of so many segments, or without memory: readers look for them */
	ZSTD_CCtx *zstd;
	size_t room;			/* of what zstd makes of a segment */
	u8 *chunk;			/* that is made: HEAD_BYTES, room, padding */
	u8 plain[SEGMENT_BYTES];
};

struct braid_packer *braid_packer_new(const struct braid_packer_options *options)
{
	struct braid_packer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->o = *options;
	if (!p->o.segment_bytes || p->o.segment_bytes > SEGMENT_BYTES)
		p->o.segment_bytes = SEGMENT_BYTES;
	p->room = ZSTD_compressBound(SEGMENT_BYTES);
	p->chunk = malloc(HEAD_BYTES + p->room + 8);
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

/* @payload: NULL: it is in its place in ->chunk. */
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

/* The next segment's place. The index has those of all segments; otherwise no index is written. */
static void add_place(struct braid_packer *p)
{
	struct braid_chunk_packed_place place = { .offset = p->written, .at = p->at };

	if (!p->no_index && (p->nr == MOST_PLACES ||
			     braid_array_push(p->places, p->nr, p->capacity, place)))
		drop_index(p);
}

static int put_segment(struct braid_packer *p)
{
	struct braid_chunk_packed packed = {
		.at = p->at, .bytes = p->used, .codec = BRAID_PACKED_ZSTD,
	};
	u8 *body = p->chunk + HEAD_BYTES;
	size_t n = ZSTD_compressCCtx(p->zstd, body, p->room, p->plain, p->used, p->o.level);

	/* What compresses better than any trace is kept as it is: readers refuse it otherwise. */
	if (ZSTD_isError(n) || n >= p->used || p->used / BRAID_PACKED_RATIO > n) {
		packed.codec = BRAID_PACKED_PLAIN;
		memcpy(body, p->plain, p->used);
		n = p->used;
	}
	memcpy(p->chunk + sizeof(struct braid_chunk), &packed, sizeof(packed));
	add_place(p);
	p->at += p->used;
	p->used = 0;
	return put_chunk(p, BRAID_CHUNK_PACKED, NULL, sizeof(packed) + n);
}

/* The capture's FILE chunk, as one of a packed capture. */
static int put_head(struct braid_packer *p, const struct first *first)
{
	struct braid_chunk_file file = first->file;

	if (first->chunk.magic != BRAID_CHUNK_MAGIC || first->chunk.type != BRAID_CHUNK_FILE ||
	    file.version_major == BRAID_PACKED_MAJOR)
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
		/* Parts may be smaller than what the head is made of. */
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

/* It may be larger than any segment. */
static int put_index(struct braid_packer *p)
{
	size_t bytes = p->nr * sizeof(*p->places);
	u8 *grown = bytes > p->room ? realloc(p->chunk, HEAD_BYTES + bytes + 8) : p->chunk;

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
	err = p->used ? put_segment(p) : 0;
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
