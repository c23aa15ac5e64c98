// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the segments of a packed capture, by its index or chunk by chunk. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/capture/segments.h"
#include "host_agent/capture/shuffle.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define SCAN_BYTES	4096u		/* read at a time to find the next chunk */
#define HEADER_BYTES	sizeof(struct braid_chunk)
#define PACKED_HEAD_BYTES	(HEADER_BYTES + sizeof(struct braid_chunk_packed))

u64 braid_segments_unpacks_to(const struct braid_packed_head *h)
{
	const struct braid_chunk_packed *packed = &h->small.packed;

	if (h->chunk.type == BRAID_CHUNK_PACKED_SMALL)
		return BRAID_PACKED_SMALL_BYTES((u64)h->small.nr, packed->bytes);
	return packed->codec & BRAID_PACKED_SHUFFLED ? braid_shuffled_bytes(packed->bytes) : packed->bytes;
}

bool braid_segments_is_head(const struct braid_segments *s, const struct braid_packed_head *h,
			    u16 type, u64 offset)
{
	u64 payload = h->chunk.payload_bytes;
	bool small = type == BRAID_CHUNK_PACKED_SMALL;

	return h->chunk.magic == BRAID_CHUNK_MAGIC && h->chunk.type == type &&
	       payload > (small ? sizeof(h->small) : sizeof(h->small.packed)) &&
	       payload <= BRAID_CHUNK_MAX_BYTES &&
	       offset + HEADER_BYTES + payload <= s->file_bytes && h->small.packed.bytes &&
	       h->small.packed.bytes <= BRAID_PACKED_SEGMENT_BYTES &&
	       (!small || (h->small.nr && h->small.nr <= BRAID_PACKED_MOST_RANGES)) &&
	       braid_segments_unpacks_to(h) / BRAID_PACKED_RATIO <= payload;
}

/*
 * Adds the place of a segment. The capture before it, missing segments included, may be at most
 * BRAID_PACKED_RATIO times as large as the file before it.
 */
static int add_segment(struct braid_segments *s, u64 at, u32 bytes, u64 offset)
{
	struct braid_chunk_packed_place place = { .offset = offset, .at = at };

	if (place.at < s->bytes || place.at > BRAID_PACKED_RATIO * offset)
		return 0;
	s->damaged += place.at > s->bytes;
	s->bytes = place.at + bytes;
	return braid_array_push(s->places, s->nr, s->capacity, place) ? braid_out_of_memory() : 0;
}

/* Return: the offset of what may be the next chunk after @at, or where the search continues; -errno. */
static s64 next_magic(const struct braid_segments *s, u64 at)
{
	u32 words[SCAN_BYTES / 4];
	ssize_t n = braid_pread_all(s->fd, words, sizeof(words), at + 8);
	size_t k;

	for (k = 0; n > 0 && k < (size_t)n / 4; k += 2)
		if (words[k] == BRAID_CHUNK_MAGIC &&
		    (k + 2 >= (size_t)n / 4 || words[k + 2] <= BRAID_CHUNK_MAX_BYTES))
			break;
	return n < 0 ? n : (s64)(at + 8 + 4 * k);
}

/* Takes the chunk at @at, of which @h has @bytes. Return: 0, or -ENOMEM. */
static int take_chunk(struct braid_segments *s, const struct braid_packed_head *h, size_t bytes,
		      u64 at)
{
	const struct braid_chunk_packed *packed = &h->small.packed;
	u64 sum;

	if (bytes == sizeof(*h) && braid_segments_is_head(s, h, BRAID_CHUNK_PACKED_SMALL, at)) {
		s->small = (struct braid_small_chunk){
			at, at + braid_chunk_bytes(h->chunk.payload_bytes), *packed,
		};
		return 0;
	}
	if (bytes < PACKED_HEAD_BYTES || !braid_segments_is_head(s, h, BRAID_CHUNK_PACKED, at))
		return 0;
	if (!(packed->codec & BRAID_PACKED_REST))
		return add_segment(s, packed->at, packed->bytes, at);
	sum = (u64)s->small.packed.bytes + packed->bytes;
	return s->small.end == at && s->small.packed.at == packed->at && sum <= BRAID_PACKED_SEGMENT_BYTES ?
	       add_segment(s, packed->at, sum, s->small.offset) : 0;
}

/*
 * Goes on from chunk to chunk, and from damage to the next magic, up to a chunk that the file lacks
 * the end of.
 */
static int find_segments(struct braid_segments *s)
{
	struct braid_packed_head head;
	bool chunk;
	u64 after;
	s64 next;
	ssize_t n;
	int err;

	while ((n = braid_pread_all(s->fd, &head, sizeof(head), s->scanned)) >=
	       (ssize_t)HEADER_BYTES) {
		chunk = head.chunk.magic == BRAID_CHUNK_MAGIC &&
			head.chunk.payload_bytes <= BRAID_CHUNK_MAX_BYTES;
		after = s->scanned + HEADER_BYTES + head.chunk.payload_bytes;
		if (chunk && after > s->file_bytes)
			return 0;
		err = take_chunk(s, &head, n, s->scanned);
		if (err)
			return err;
		if (chunk && head.chunk.type == BRAID_CHUNK_FILE_END)
			s->no_end = false;
		next = chunk ? (s64)(s->scanned + braid_chunk_bytes(head.chunk.payload_bytes)) :
			       next_magic(s, s->scanned);
		if (next < 0)
			return next;
		s->scanned = next;
	}
	return n < 0 ? n : 0;
}

int braid_segments_read(struct braid_segments *s, u64 offset, u16 type, struct braid_chunk *chunk)
{
	ssize_t n = braid_pread_all(s->fd, chunk, sizeof(*chunk), offset);
	u8 *grown;

	if (n < 0)
		return n;
	if ((size_t)n < sizeof(*chunk) || chunk->magic != BRAID_CHUNK_MAGIC || chunk->type != type ||
	    chunk->payload_bytes > BRAID_CHUNK_MAX_BYTES) {
		chunk->payload_bytes = 0;
		return 0;
	}
	if (chunk->payload_bytes > s->chunk_bytes) {
		grown = realloc(s->chunk, chunk->payload_bytes);
		if (!grown)
			return braid_out_of_memory();
		s->chunk = grown;
		s->chunk_bytes = chunk->payload_bytes;
	}
	n = braid_pread_all(s->fd, s->chunk, chunk->payload_bytes, offset + sizeof(*chunk));
	if (n < 0)
		return n;
	return (size_t)n == chunk->payload_bytes &&
	       braid_chunk_checksum(chunk, s->chunk, n, NULL, 0) == chunk->checksum;
}

/* Takes the index as it is: the segments' own heads are checked when they are read. */
static int take_index(struct braid_segments *s, const struct braid_chunk *chunk, u64 bytes)
{
	size_t k, nr = chunk->payload_bytes / sizeof(*s->places);
	u64 at = 0, offset = 0;

	s->places = malloc(nr * sizeof(*s->places) + 1);
	if (!s->places)
		return braid_out_of_memory();
	memcpy(s->places, s->chunk, nr * sizeof(*s->places));
	s->nr = s->capacity = nr;
	s->bytes = bytes;
	for (k = 0; k < nr; k++) {
		if (s->places[k].at < at || s->places[k].at >= bytes ||
		    s->places[k].offset < offset || s->places[k].offset >= s->file_bytes)
			break;
		at = s->places[k].at + 1;
		offset = s->places[k].offset + HEADER_BYTES;
	}
	if (k == nr && nr && !s->places[0].at && bytes / BRAID_PACKED_RATIO <= s->file_bytes)
		return 1;
	free(s->places);
	s->places = NULL;
	s->nr = s->capacity = s->bytes = 0;
	return 0;
}

/* By the file's last chunk. Return: 1; 0: it has no index; -errno. */
static int find_index(struct braid_segments *s)
{
	struct braid_chunk_packed_end end;
	struct braid_chunk chunk;
	const u64 last = sizeof(chunk) + sizeof(end);
	int ret;

	ret = s->file_bytes < last ? 0 :
	      braid_segments_read(s, s->file_bytes - last, BRAID_CHUNK_FILE_END, &chunk);
	if (ret <= 0 || chunk.payload_bytes != sizeof(end))
		return ret < 0 ? ret : 0;
	memcpy(&end, s->chunk, sizeof(end));
	ret = end.index_offset ? braid_segments_read(s, end.index_offset, BRAID_CHUNK_PACKED_INDEX, &chunk) : 0;
	return ret <= 0 ? ret : take_index(s, &chunk, end.bytes);
}

int braid_segments_open(struct braid_segments *s, int fd, u64 file_bytes)
{
	int ret;

	*s = (struct braid_segments){ .fd = fd, .file_bytes = file_bytes };
	ret = find_index(s);
	if (ret)
		return ret < 0 ? ret : 0;
	s->no_end = true;
	return find_segments(s);
}

int braid_segments_grow(struct braid_segments *s, u64 file_bytes)
{
	if (!s->no_end || file_bytes <= s->file_bytes)
		return 0;
	s->file_bytes = file_bytes;
	return find_segments(s);
}

void braid_segments_free(struct braid_segments *s)
{
	free(s->places);
	free(s->chunk);
}
