// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds a packed capture's segments, and unpacks those that are read; keeps the last ones unpacked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/capture/packed.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define HEADER_BYTES	sizeof(struct braid_chunk)
#define NR_UNPACKED	16u
#define LOOK_BYTES	(64u << 10)	/* read at once where chunks are looked for */

/*
 * Bytes unpacked in all: a capture whose chunks are far apart in time order would have each segment
 * unpacked for each of them.
 */
#define MOST_UNPACKED(bytes)	((4ULL << 30) + 64 * (bytes))

/* A segment that is unpacked. */
struct unpacked {
	u64 used;		/* when, by ->turns; 0: never */
	size_t segment;
	u32 bytes;
	u8 *data;
};

struct braid_packed {
	int fd;
	u64 file_bytes;
	u64 bytes;				/* of the capture */
	struct braid_chunk_packed_place *places;	/* by ->at */
	size_t nr, capacity;
	u64 damaged;
	u64 unpacked_bytes;
	bool no_end;
	u64 turns;
	struct unpacked unpacked[NR_UNPACKED];
	u8 *chunk;				/* that is read */
	size_t chunk_room;
	ZSTD_DCtx *zstd;
};

/* What precedes a segment in the file. */
struct head {
	struct braid_chunk chunk;
	struct braid_chunk_packed packed;
};

/* Whether these bytes may be the start of a PACKED chunk at @offset. */
static bool is_head(const struct braid_packed *p, const struct head *h, u64 offset)
{
	u64 payload = h->chunk.payload_bytes;

	return h->chunk.magic == BRAID_CHUNK_MAGIC && h->chunk.type == BRAID_CHUNK_PACKED &&
	       payload > sizeof(h->packed) &&
	       payload <= sizeof(h->packed) + ZSTD_COMPRESSBOUND(BRAID_PACKED_SEGMENT_BYTES) &&
	       offset + HEADER_BYTES + payload <= p->file_bytes && h->packed.bytes &&
	       h->packed.bytes <= BRAID_PACKED_SEGMENT_BYTES &&
	       h->packed.bytes / BRAID_PACKED_RATIO <= payload;
}

/*
 * A segment follows: its place. What precedes it, missing segments included, has the limit of one
 * segment.
 */
static int add_segment(struct braid_packed *p, const struct head *h, u64 offset)
{
	struct braid_chunk_packed_place place = { .offset = offset, .at = h->packed.at };

	if (place.at < p->bytes || place.at > BRAID_PACKED_RATIO * offset)
		return 0;
	p->damaged += place.at > p->bytes;
	p->bytes = place.at + h->packed.bytes;
	return braid_array_push(p->places, p->nr, p->capacity, place) ? braid_out_of_memory() : 0;
}

/* Return: the place of the next magic after @at, or where to look for it; -errno. */
static s64 next_magic(const struct braid_packed *p, u64 at)
{
	u32 words[LOOK_BYTES / 4];
	ssize_t n = braid_pread_all(p->fd, words, sizeof(words), at + 8);
	size_t k;

	for (k = 0; n > 0 && k < (size_t)n / 4; k += 2)
		if (words[k] == BRAID_CHUNK_MAGIC)
			break;
	return n < 0 ? n : (s64)(at + 8 + 4 * k);
}

/* Without an index: from chunk to chunk; damage is skipped up to the next one. */
static int find_segments(struct braid_packed *p)
{
	struct head head;
	u64 at = 0;
	s64 next;
	ssize_t n;
	int err;

	p->no_end = true;
	while ((n = braid_pread_all(p->fd, &head, sizeof(head), at)) >= (ssize_t)HEADER_BYTES) {
		bool chunk = head.chunk.magic == BRAID_CHUNK_MAGIC &&
			     head.chunk.payload_bytes <= BRAID_CHUNK_MAX_BYTES;

		if ((size_t)n == sizeof(head) && is_head(p, &head, at)) {
			err = add_segment(p, &head, at);
			if (err)
				return err;
		}
		if (chunk && head.chunk.type == BRAID_CHUNK_FILE_END &&
		    at + HEADER_BYTES + head.chunk.payload_bytes <= p->file_bytes)
			p->no_end = false;
		next = chunk ? (s64)(at + HEADER_BYTES +
				     (((u64)head.chunk.payload_bytes + 7) & ~7ULL)) : next_magic(p, at);
		if (next < 0)
			return next;
		at = next;
	}
	return n < 0 ? n : 0;
}

/* Reads a whole chunk of a type into ->chunk. Return: 1; 0: no such chunk there; -errno. */
static int read_chunk(struct braid_packed *p, u64 offset, u16 type, struct braid_chunk *chunk)
{
	ssize_t n = braid_pread_all(p->fd, chunk, sizeof(*chunk), offset);
	u8 *grown;

	if (n < 0)
		return n;
	if ((size_t)n < sizeof(*chunk) || chunk->magic != BRAID_CHUNK_MAGIC || chunk->type != type ||
	    chunk->payload_bytes > BRAID_CHUNK_MAX_BYTES)
		return 0;
	if (chunk->payload_bytes > p->chunk_room) {
		grown = realloc(p->chunk, chunk->payload_bytes);
		if (!grown)
			return braid_out_of_memory();
		p->chunk = grown;
		p->chunk_room = chunk->payload_bytes;
	}
	n = braid_pread_all(p->fd, p->chunk, chunk->payload_bytes, offset + sizeof(*chunk));
	if (n < 0)
		return n;
	return (size_t)n == chunk->payload_bytes &&
	       braid_chunk_checksum(chunk, p->chunk, n, NULL, 0) == chunk->checksum;
}

/* Takes the index as it is: the segments' own heads are checked when they are read. */
static int take_index(struct braid_packed *p, const struct braid_chunk *chunk, u64 bytes)
{
	size_t k, nr = chunk->payload_bytes / sizeof(*p->places);
	u64 at = 0, offset = 0;

	p->places = malloc(nr * sizeof(*p->places) + 1);
	if (!p->places)
		return braid_out_of_memory();
	memcpy(p->places, p->chunk, nr * sizeof(*p->places));
	p->nr = p->capacity = nr;
	p->bytes = bytes;
	for (k = 0; k < nr; k++) {
		if (p->places[k].at < at || p->places[k].at >= bytes ||
		    p->places[k].offset < offset || p->places[k].offset >= p->file_bytes)
			break;
		at = p->places[k].at + 1;
		offset = p->places[k].offset + HEADER_BYTES;
	}
	if (k == nr && nr && !p->places[0].at && bytes / BRAID_PACKED_RATIO <= p->file_bytes)
		return 1;
	free(p->places);
	p->places = NULL;
	p->nr = p->capacity = p->bytes = 0;
	return 0;
}

/* By the file's last chunk. Return: 1; 0: it has no index; -errno. */
static int find_index(struct braid_packed *p)
{
	struct braid_chunk_packed_end end;
	struct braid_chunk chunk;
	const u64 last = sizeof(chunk) + sizeof(end);
	int ret;

	ret = p->file_bytes < last ? 0 :
	      read_chunk(p, p->file_bytes - last, BRAID_CHUNK_FILE_END, &chunk);
	if (ret <= 0 || chunk.payload_bytes != sizeof(end))
		return ret < 0 ? ret : 0;
	memcpy(&end, p->chunk, sizeof(end));
	ret = end.index_offset ? read_chunk(p, end.index_offset, BRAID_CHUNK_PACKED_INDEX, &chunk) : 0;
	return ret <= 0 ? ret : take_index(p, &chunk, end.bytes);
}

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
	       first.chunk.type == BRAID_CHUNK_FILE && first.file.version_major == BRAID_PACKED_MAJOR;
}

int braid_packed_open(struct braid_packed **out, int fd, u64 file_bytes)
{
	struct braid_packed *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return braid_out_of_memory();
	p->fd = fd;
	p->file_bytes = file_bytes;
	p->zstd = ZSTD_createDCtx();
	ret = p->zstd ? find_index(p) : braid_out_of_memory();
	if (!ret)
		ret = find_segments(p);
	if (ret < 0) {
		braid_packed_free(p);
		return ret;
	}
	*out = p;
	return 0;
}

u64 braid_packed_bytes(const struct braid_packed *p)
{
	return p->bytes;
}

u64 braid_packed_damaged(const struct braid_packed *p)
{
	return p->damaged;
}

bool braid_packed_no_end(const struct braid_packed *p)
{
	return p->no_end;
}

void braid_packed_free(struct braid_packed *p)
{
	size_t k;

	if (!p)
		return;
	for (k = 0; k < NR_UNPACKED; k++)
		free(p->unpacked[k].data);
	ZSTD_freeDCtx(p->zstd);
	free(p->places);
	free(p->chunk);
	free(p);
}

/* Reading ------------------------------------------------------------------------------------ */

/* The segment that contains an offset of the capture, or precedes it. */
static size_t segment_of(const struct braid_packed *p, u64 offset)
{
	size_t low = 0, high = p->nr;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (p->places[middle].at <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Unpacks ->chunk. Return: whether it was what its head says. */
static bool unpack(struct braid_packed *p, const struct braid_chunk *chunk, struct unpacked *to)
{
	struct head head = { .chunk = *chunk };
	const u8 *from = p->chunk + sizeof(head.packed);
	size_t bytes;

	if (chunk->payload_bytes <= sizeof(head.packed))
		return false;
	memcpy(&head.packed, p->chunk, sizeof(head.packed));
	bytes = chunk->payload_bytes - sizeof(head.packed);
	if (!is_head(p, &head, p->places[to->segment].offset) ||
	    head.packed.at != p->places[to->segment].at)
		return false;
	to->bytes = head.packed.bytes;
	if (head.packed.codec == BRAID_PACKED_PLAIN && bytes == to->bytes) {
		memcpy(to->data, from, bytes);
		return true;
	}
	return head.packed.codec == BRAID_PACKED_ZSTD &&
	       ZSTD_decompressDCtx(p->zstd, to->data, BRAID_PACKED_SEGMENT_BYTES, from, bytes) ==
	       to->bytes;
}

/* Return: a segment, unpacked, of 0 bytes if it is damaged; NULL with *err set. */
static const struct unpacked *load(struct braid_packed *p, size_t segment, int *err)
{
	struct unpacked *oldest = p->unpacked, *u;
	struct braid_chunk chunk;

	for (u = p->unpacked; u < p->unpacked + NR_UNPACKED; u++) {
		if (u->used && u->segment == segment) {
			u->used = ++p->turns;
			return u;
		}
		if (u->used < oldest->used)
			oldest = u;
	}
	if (!oldest->data)
		oldest->data = malloc(BRAID_PACKED_SEGMENT_BYTES);
	*err = oldest->data ? 0 : braid_out_of_memory();
	if (!*err && p->unpacked_bytes > MOST_UNPACKED(p->bytes))
		*err = -EOVERFLOW;
	if (!*err)
		*err = read_chunk(p, p->places[segment].offset, BRAID_CHUNK_PACKED, &chunk);
	p->unpacked_bytes += BRAID_PACKED_SEGMENT_BYTES;
	if (*err < 0)
		return NULL;
	oldest->used = ++p->turns;
	oldest->segment = segment;
	if (!*err || !unpack(p, &chunk, oldest)) {
		oldest->bytes = 0;
		p->damaged++;
	}
	return oldest;
}

/* What one segment has from @offset on, up to its end. Return: bytes, or -errno. */
static ssize_t read_segment(struct braid_packed *p, u8 *to, size_t bytes, u64 offset)
{
	size_t segment = segment_of(p, offset);
	u64 at = p->places[segment].at;
	u64 end = segment + 1 < p->nr ? p->places[segment + 1].at : p->bytes;
	const struct unpacked *u;
	size_t there;
	int err;

	if (bytes > end - offset)
		bytes = end - offset;
	u = load(p, segment, &err);
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

	if (offset >= p->bytes)
		return 0;
	if (bytes > p->bytes - offset)
		bytes = p->bytes - offset;
	while (done < bytes) {
		n = read_segment(p, (u8 *)to + done, bytes - done, offset + done);
		if (n < 0)
			return n;
		done += n;
	}
	return done;
}
