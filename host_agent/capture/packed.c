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
#define CHUNK_BYTES(payload)	(HEADER_BYTES + (((u64)(payload) + 7) & ~7ULL))
#define NR_UNPACKED	16u
#define NR_SMALL	16u
#define SCAN_BYTES	(64u << 10)	/* read at a time to find the next chunk */
#define LEAST_WORK	4096u		/* counted for each small part, besides its bytes */

/*
 * The limit of all bytes unpacked. If chunks that follow in time are far apart in the capture, each
 * of them may need its segment to be unpacked again.
 */
#define MOST_UNPACKED(bytes)	((4ULL << 30) + 64 * (bytes))

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
};

/* Of a segment, at most: every other chunk is a page. */
#define MOST_RANGES	(BRAID_PACKED_SEGMENT_BYTES / HEADER_BYTES / 2 + 2)
#define SMALL_BYTES(nr, bytes)	((nr) * sizeof(struct braid_packed_range) + (bytes))

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
	struct unpacked small[NR_SMALL];
	u8 *rest;				/* of a segment, before join() */
	u8 *chunk;				/* the payload that was read last */
	size_t chunk_bytes;
	ZSTD_DCtx *zstd;
};

/* The head of PACKED_SMALL; that of PACKED is its beginning. */
struct head {
	struct braid_chunk chunk;
	struct braid_chunk_packed_small small;
};

#define PACKED_HEAD_BYTES	(HEADER_BYTES + sizeof(struct braid_chunk_packed))

/* Bytes that the chunk unpacks to. */
static u64 unpacks_to(const struct head *h)
{
	return h->chunk.type == BRAID_CHUNK_PACKED_SMALL ?
	       SMALL_BYTES((u64)h->small.nr, h->small.packed.bytes) : h->small.packed.bytes;
}

/* Whether these bytes may be the start of a chunk of that type at @offset. */
static bool is_head(const struct braid_packed *p, const struct head *h, u16 type, u64 offset)
{
	u64 payload = h->chunk.payload_bytes;
	bool small = type == BRAID_CHUNK_PACKED_SMALL;

	return h->chunk.magic == BRAID_CHUNK_MAGIC && h->chunk.type == type &&
	       payload > (small ? sizeof(h->small) : sizeof(h->small.packed)) &&
	       payload <= BRAID_CHUNK_MAX_BYTES &&
	       offset + HEADER_BYTES + payload <= p->file_bytes && h->small.packed.bytes &&
	       h->small.packed.bytes <= BRAID_PACKED_SEGMENT_BYTES &&
	       (!small || (h->small.nr && h->small.nr <= MOST_RANGES)) &&
	       unpacks_to(h) / BRAID_PACKED_RATIO <= payload;
}

/*
 * Adds the place of a segment. The capture before it, missing segments included, may be at most
 * BRAID_PACKED_RATIO times as large as the file before it.
 */
static int add_segment(struct braid_packed *p, u64 at, u32 bytes, u64 offset)
{
	struct braid_chunk_packed_place place = { .offset = offset, .at = at };

	if (place.at < p->bytes || place.at > BRAID_PACKED_RATIO * offset)
		return 0;
	p->damaged += place.at > p->bytes;
	p->bytes = place.at + bytes;
	return braid_array_push(p->places, p->nr, p->capacity, place) ? braid_out_of_memory() : 0;
}

/* Return: the offset of the next magic after @at, or where the search continues; -errno. */
static s64 next_magic(const struct braid_packed *p, u64 at)
{
	u32 words[SCAN_BYTES / 4];
	ssize_t n = braid_pread_all(p->fd, words, sizeof(words), at + 8);
	size_t k;

	for (k = 0; n > 0 && k < (size_t)n / 4; k += 2)
		if (words[k] == BRAID_CHUNK_MAGIC)
			break;
	return n < 0 ? n : (s64)(at + 8 + 4 * k);
}

/* A PACKED_SMALL chunk. PACKED with the rest must follow, or there is no segment. */
struct small_chunk {
	u64 offset, end;	/* in the file */
	struct braid_chunk_packed packed;
};

/*
 * Takes the chunk at @at, of which @h has @bytes. *@small: the last PACKED_SMALL.
 * Return: 0, or -ENOMEM.
 */
static int take_chunk(struct braid_packed *p, const struct head *h, size_t bytes, u64 at,
		      struct small_chunk *small)
{
	const struct braid_chunk_packed *packed = &h->small.packed;
	u64 sum;

	if (bytes == sizeof(*h) && is_head(p, h, BRAID_CHUNK_PACKED_SMALL, at)) {
		*small = (struct small_chunk){ at, at + CHUNK_BYTES(h->chunk.payload_bytes), *packed };
		return 0;
	}
	if (bytes < PACKED_HEAD_BYTES || !is_head(p, h, BRAID_CHUNK_PACKED, at))
		return 0;
	if (!(packed->codec & BRAID_PACKED_REST))
		return add_segment(p, packed->at, packed->bytes, at);
	sum = (u64)small->packed.bytes + packed->bytes;
	return small->end == at && small->packed.at == packed->at && sum <= BRAID_PACKED_SEGMENT_BYTES ?
	       add_segment(p, packed->at, sum, small->offset) : 0;
}

/* Without an index: goes from chunk to chunk, and from damage to the next magic. */
static int find_segments(struct braid_packed *p)
{
	struct small_chunk small = { 0 };
	struct head head;
	u64 at = 0;
	s64 next;
	ssize_t n;
	int err;

	p->no_end = true;
	while ((n = braid_pread_all(p->fd, &head, sizeof(head), at)) >= (ssize_t)HEADER_BYTES) {
		bool chunk = head.chunk.magic == BRAID_CHUNK_MAGIC &&
			     head.chunk.payload_bytes <= BRAID_CHUNK_MAX_BYTES;

		err = take_chunk(p, &head, n, at, &small);
		if (err)
			return err;
		if (chunk && head.chunk.type == BRAID_CHUNK_FILE_END &&
		    at + HEADER_BYTES + head.chunk.payload_bytes <= p->file_bytes)
			p->no_end = false;
		next = chunk ? (s64)(at + CHUNK_BYTES(head.chunk.payload_bytes)) : next_magic(p, at);
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
	if (chunk->payload_bytes > p->chunk_bytes) {
		grown = realloc(p->chunk, chunk->payload_bytes);
		if (!grown)
			return braid_out_of_memory();
		p->chunk = grown;
		p->chunk_bytes = chunk->payload_bytes;
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
	       first.chunk.type == BRAID_CHUNK_FILE &&
	       (first.file.version_major == BRAID_PACKED_MAJOR ||
		first.file.version_major == BRAID_PACKED_MAJOR_WHOLE);
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
	for (k = 0; k < NR_SMALL; k++)
		free(p->small[k].data);
	free(p->rest);
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

/*
 * Unpacks ->chunk into *@to, which is allocated again. *@h: set to its head.
 * Return: 1; 0: the head is not valid, not of that segment, or gives a wrong size; -ENOMEM.
 */
static int unpack(struct braid_packed *p, const struct braid_chunk *chunk, u64 offset, size_t segment,
		   struct head *h, u8 **to)
{
	bool small = chunk->type == BRAID_CHUNK_PACKED_SMALL;
	size_t bytes, head_bytes = small ? sizeof(h->small) : sizeof(h->small.packed);
	u32 codec;
	u8 *grown;

	*h = (struct head){ .chunk = *chunk };
	if (chunk->payload_bytes <= head_bytes)
		return 0;
	memcpy(&h->small, p->chunk, head_bytes);
	if (!is_head(p, h, chunk->type, offset) || h->small.packed.at != p->places[segment].at)
		return 0;
	bytes = chunk->payload_bytes - head_bytes;
	grown = realloc(*to, unpacks_to(h));
	if (!grown)
		return braid_out_of_memory();
	*to = grown;
	codec = h->small.packed.codec & ~BRAID_PACKED_REST;
	if (codec == BRAID_PACKED_PLAIN && bytes == unpacks_to(h)) {
		memcpy(*to, p->chunk + head_bytes, bytes);
		return 1;
	}
	return codec == BRAID_PACKED_ZSTD &&
	       ZSTD_decompressDCtx(p->zstd, *to, unpacks_to(h), p->chunk + head_bytes, bytes) ==
	       unpacks_to(h);
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

static int count_work(struct braid_packed *p, u64 bytes)
{
	if (p->unpacked_bytes > MOST_UNPACKED(p->bytes))
		return -EOVERFLOW;
	p->unpacked_bytes += bytes;
	return 0;
}

static bool ranges_are_valid(const struct unpacked *u)
{
	const struct braid_packed_range *range = (const struct braid_packed_range *)u->data;
	u64 after = 0, sum = 0;
	u32 k;

	for (k = 0; k < u->nr; k++, range++) {
		if (range->at < after || range->bytes > BRAID_PACKED_SEGMENT_BYTES)
			return false;
		after = (u64)range->at + range->bytes;
		sum += range->bytes;
	}
	return after <= BRAID_PACKED_SEGMENT_BYTES && sum == u->bytes;
}

/* Return: a segment's small part, with ->nr 0 if it has none that is valid; NULL with *@err set. */
static const struct unpacked *load_small(struct braid_packed *p, size_t segment, int *err)
{
	u64 offset = p->places[segment].offset;
	struct unpacked *u, *oldest;
	struct braid_chunk chunk;
	struct head head;

	u = cached(p, p->small, NR_SMALL, segment, &oldest);
	if (u)
		return u;
	oldest->used = 0;
	oldest->bytes = oldest->nr = oldest->chunk_bytes = 0;
	*err = read_chunk(p, offset, BRAID_CHUNK_PACKED_SMALL, &chunk);
	if (*err > 0)
		*err = unpack(p, &chunk, offset, segment, &head, &oldest->data);
	if (*err < 0)
		return NULL;
	if (*err) {
		oldest->bytes = head.small.packed.bytes;
		oldest->nr = head.small.nr;
		oldest->chunk_bytes = CHUNK_BYTES(chunk.payload_bytes);
		if (!ranges_are_valid(oldest))
			oldest->bytes = oldest->nr = oldest->chunk_bytes = 0;
	}
	oldest->used = ++p->turns;
	oldest->segment = segment;
	*err = count_work(p, LEAST_WORK + SMALL_BYTES((u64)oldest->nr, oldest->bytes));
	return *err ? NULL : oldest;
}

/* Joins a segment's small part and ->rest, each range in its place. Return: whether they fit. */
static bool join(const struct braid_packed *p, const struct unpacked *small, u32 rest_bytes,
		 struct unpacked *to)
{
	const struct braid_packed_range *range = (const struct braid_packed_range *)small->data;
	const u8 *from = small->data + SMALL_BYTES(small->nr, 0), *rest = p->rest;
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
	struct braid_chunk chunk;
	struct head head;
	u64 offset;
	bool rest;
	int ret;

	small = load_small(p, segment, &ret);
	if (!small)
		return ret;
	offset = p->places[segment].offset + small->chunk_bytes;
	ret = read_chunk(p, offset, BRAID_CHUNK_PACKED, &chunk);
	if (ret <= 0)
		return ret;
	ret = unpack(p, &chunk, offset, segment, &head, small->nr ? &p->rest : &to->data);
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
	*err = count_work(p, BRAID_PACKED_SEGMENT_BYTES);
	if (!*err)
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
	const struct braid_packed_range *range = (const struct braid_packed_range *)small->data;
	const u8 *data;
	u32 k;

	if (!small->nr)
		return NULL;
	data = small->data + SMALL_BYTES(small->nr, 0);
	for (k = 0; k < small->nr && range->at <= at; k++, range++) {
		if (at - range->at < range->bytes)
			return bytes <= range->bytes - (at - range->at) ? data + (at - range->at) : NULL;
		data += range->bytes;
	}
	return NULL;
}

/* Reads from one segment, up to its end. Return: bytes, or -errno. */
static ssize_t read_segment(struct braid_packed *p, u8 *to, size_t bytes, u64 offset)
{
	size_t segment = segment_of(p, offset), there;
	u64 at = p->places[segment].at, end = segment + 1 < p->nr ? p->places[segment + 1].at : p->bytes;
	struct unpacked *oldest, *u = cached(p, p->unpacked, NR_UNPACKED, segment, &oldest);
	const struct unpacked *small;
	const u8 *data;
	int err;

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
