// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages, and places of pages, that others say are there: whether they can be. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "shared/ring.h"

#define HEAD_BYTES	sizeof(struct braid_chunk_index)

const char *braid_capture_page_fault(const struct braid_capture_stream *s,
				     const struct braid_chunk_page *page, u32 bytes)
{
	const struct braid_superblock *sb = &s->superblock;
	const struct braid_buffer_desc *desc;

	if (s->stream.kind != BRAID_STREAM_GUEST)
		return "it is not of a guest";
	if (page->buffer >= sb->nr_buffers || page->buffer >= BRAID_MAX_BUFFERS)
		return "it refers to a buffer that the guest doesn't have";
	desc = &sb->buffers[page->buffer];
	if (page->vcpu >= desc->nr_rings)
		return "it refers to a vCPU that the buffer doesn't have";
	if (page->from_bytes > page->to_bytes || (page->from_bytes | page->to_bytes) & 3 ||
	    page->to_bytes > desc->subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES)
		return "its byte range is invalid";
	if (bytes - sizeof(*page) < page->to_bytes - page->from_bytes)
		return "it is shorter than its size";
	if (page->position > BRAID_POS_MASK)
		return "invalid position";
	return NULL;
}

const char *braid_capture_host_page_fault(const struct braid_capture_stream *s,
					  const struct braid_chunk_host_page *page, u32 bytes)
{
	if (s->stream.kind != BRAID_STREAM_HOST)
		return "it is not of a host";
	if (page->cpu >= BRAID_MAX_CPUS)
		return "it refers to a CPU that no host has";
	if (page->bytes < BRAID_SUBBUF_HEADER_BYTES || page->bytes > bytes - sizeof(*page) ||
	    page->bytes > BRAID_MAX_HOST_BYTES)
		return "its size is wrong";
	return NULL;
}

/* Positions are compared on their circle, seen from @arg. */
int braid_capture_by_position(const void *a, const void *b, void *arg)
{
	const struct braid_extent *x = a, *y = b;
	u64 origin = *(u64 *)arg;
	s64 dx = braid_position_diff(x->position, origin);
	s64 dy = braid_position_diff(y->position, origin);

	return braid_compare(dx, dy) ?:
	       braid_compare(x->from_bytes, y->from_bytes) ?:
	       braid_compare(x->to_bytes, y->to_bytes) ?:
	       braid_compare(x->first_seq, y->first_seq) ?:
	       braid_compare(x->file, y->file) ?:
	       braid_compare(x->offset, y->offset);
}

bool braid_capture_in_order(const struct braid_extent *before, const struct braid_extent *extent)
{
	u64 origin = before->position;

	return braid_capture_by_position(before, extent, &origin) <= 0;
}

bool braid_capture_check_places(const char *data, u32 n, u32 nr, enum braid_stream_kind kind,
				u64 limit, u64 *bytes, struct braid_places *places)
{
	const char *at = data, *end = data + n;
	struct braid_extent e = { 0 };
	u64 after = 0;
	u32 k;

	*places = (struct braid_places){ 0 };
	for (k = 0; k < nr; k++) {
		at = braid_extent_take(at, end, &e);
		if (!at || e.file || e.offset < after || e.offset >= limit ||
		    e.to_bytes > BRAID_CHUNK_MAX_BYTES || e.from_bytes > e.to_bytes ||
		    (kind == BRAID_STREAM_GUEST && (e.from_bytes | e.to_bytes) & 3))
			return false;
		after = e.offset + (kind == BRAID_STREAM_HOST ?
			braid_chunk_bytes(sizeof(struct braid_chunk_host_page) + e.to_bytes) :
			braid_chunk_bytes(sizeof(struct braid_chunk_page) + e.to_bytes - e.from_bytes));
		places->bytes += after - e.offset;
		if (!k)
			places->first = e;
		else if (!braid_capture_in_order(&places->last, &e))
			places->unordered = true;
		places->last = e;
	}
	*bytes += places->bytes;
	return at == end;
}

/* The types of a block, by the chunk after its own. Return: 0 or -errno. */
static int read_types(struct braid_capture_reader *r, u64 offset, u32 nr,
		      struct braid_extents_types **types)
{
	struct braid_types_ids ids;
	struct braid_chunk_view v;
	const char *numbers;
	size_t bytes;
	int ret = braid_capture_at(r, offset, &v);

	if (ret <= 0 || v.type != BRAID_CHUNK_TYPES)
		return ret < 0 ? ret : 0;
	numbers = braid_types_open(v.payload, v.bytes, nr, &ids);
	if (!numbers)
		return 0;	/* verify reports it */
	bytes = (const char *)v.payload + v.bytes - numbers;
	*types = malloc(sizeof(**types) + bytes);
	if (!*types)
		return braid_out_of_memory();
	(*types)->ids = ids;
	memcpy((*types)->numbers, numbers, bytes);
	return 0;
}

s64 braid_capture_read_places(void *arg, const struct braid_index_place *place, char **to,
			      struct braid_extents_types **types)
{
	struct braid_capture_ring *ring = arg;
	struct braid_capture_reader *r = ring->source->files[place->file].reader;
	const struct braid_stream *s = ring->ring.stream;
	struct braid_chunk_index head;
	struct braid_places places;
	struct braid_chunk_view v;
	int ret = braid_capture_at(r, place->offset, &v);
	u64 bytes = 0;

	if (ret < 0)
		return ret;
	if (ret && v.type == BRAID_CHUNK_INDEX && v.bytes >= HEAD_BYTES) {
		memcpy(&head, v.payload, HEAD_BYTES);
		ret = head.nr == place->nr &&
		      braid_capture_check_places((const char *)v.payload + HEAD_BYTES, v.bytes - HEAD_BYTES, head.nr,
				   s->kind, ~0ULL, &bytes, &places);
	}
	if (!ret)
		return braid_fail(-EBADMSG, "the capture changed while it was read");
	*to = malloc(v.bytes);
	if (!*to)
		return braid_out_of_memory();
	memcpy(*to, v.payload + HEAD_BYTES, v.bytes - HEAD_BYTES);
	bytes = v.bytes;
	ret = ring->source->files[place->file].minor < 7 ? 0 :
	      read_types(r, place->offset + braid_chunk_bytes(bytes), place->nr, types);
	return ret ? ret : (s64)(bytes - HEAD_BYTES);
}

int braid_capture_check_page(const struct braid_capture_ring *ring, u32 file, const void *to, u32 bytes)
{
	const struct braid_capture_file *streams = &ring->source->files[file];
	const struct braid_capture_stream *s = (const struct braid_capture_stream *)ring->ring.stream;
	struct braid_chunk_host_page host;
	struct braid_chunk_page page;
	struct braid_chunk chunk;
	const u8 *payload = (const u8 *)to + sizeof(chunk);
	const char *why;

	memcpy(&chunk, to, sizeof(chunk));
	if (chunk.payload_bytes != bytes ||
	    braid_chunk_checksum(&chunk, payload, bytes, NULL, 0) != chunk.checksum)
		return braid_fail(-EBADMSG, "the page in chunk %llu is damaged",
				  (unsigned long long)chunk.number);
	why = chunk.stream >= streams->nr || streams->by_number[chunk.stream] != s ?
	      "it is of another stream" : NULL;
	if (!why && s->stream.kind == BRAID_STREAM_GUEST) {
		memcpy(&page, payload, sizeof(page));
		why = chunk.type != BRAID_CHUNK_PAGE || page.buffer != ring->ring.buffer ||
		      page.vcpu != ring->ring.cpu ? "it is of another ring" :
		      braid_capture_page_fault(s, &page, bytes);
	} else if (!why) {
		memcpy(&host, payload, sizeof(host));
		why = chunk.type != BRAID_CHUNK_HOST_PAGE || host.cpu != ring->ring.cpu ?
		      "it is of another CPU" : host.bytes != bytes - sizeof(host) ?
		      "its size is wrong" :
		      braid_capture_host_page_fault(s, &host, bytes);
	}
	return why ? braid_fail(-EBADMSG, "chunk %llu does not match the index: %s",
				(unsigned long long)chunk.number, why) : 0;
}
