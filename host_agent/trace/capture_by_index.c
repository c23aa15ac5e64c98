// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The index that a capture has of itself. A reader of all chunks keeps what it finds there instead
 * of places of its own, if they agree. One that trusts it, after all its sums are right, reads the
 * pages only when their turn comes, and checks each of them then.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define HEAD_BYTES	sizeof(struct braid_chunk_index)

static bool is_page(u16 type)
{
	return type == BRAID_CHUNK_PAGE || type == BRAID_CHUNK_HOST_PAGE;
}

static bool is_index(u16 type)
{
	return type == BRAID_CHUNK_INDEX || type == BRAID_CHUNK_INDEX_BLOCKS;
}

/* Reading all chunks ------------------------------------------------------------------------- */

static bool is_indexed(const struct braid_capture_source *cs)
{
	return !cs->source.grows && cs->files[cs->file].minor >= 5;
}

int braid_capture_note_other(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_extent extent = { .offset = v->offset, .file = cs->file };

	if (!is_indexed(cs) || is_page(v->type) || is_index(v->type) ||
	    v->type == BRAID_CHUNK_FILE_END)
		return 0;
	return braid_extents_add(&cs->others, &extent, 0, true);
}

static void differs(struct braid_capture_source *cs, bool *agrees)
{
	*agrees = false;
	/* After damage, or of pages that are left out, it does not agree, which was reported. */
	if (!cs->source.faults && !braid_capture_damage(cs->files[cs->file].reader)->stretches)
		braid_source_faulty(&cs->source, NULL, "%s: its index does not match its chunks; it is not used",
				    cs->path);
}

int braid_capture_take_index(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_capture_stream *s = braid_capture_stream_of(cs, v->stream);
	struct braid_chunk_index head;
	struct braid_index_block block = { .offset = v->offset, .stream = v->stream };
	struct braid_index_place place = { .offset = v->offset, .file = cs->file };
	struct braid_capture_ring *ring = NULL;
	struct braid_extents *list = &cs->others;

	if (!is_indexed(cs) || v->bytes < HEAD_BYTES)
		return 0;
	memcpy(&head, v->payload, HEAD_BYTES);
	cs->types_at = v->stream ? v->offset + braid_chunk_bytes(v->bytes) : 0;
	cs->types_nr = head.nr;
	block.buffer = head.buffer;
	block.cpu = head.cpu;
	block.nr = place.nr = head.nr;
	block.ns = place.ns = head.ns;
	if (v->stream) {
		ring = s ? braid_capture_ring_at(s, head.buffer, head.cpu) : NULL;
		list = ring ? &ring->extents : NULL;
	}
	if (cs->index_agrees &&
	    (!list || !braid_extents_seal(list, &place, v->payload + HEAD_BYTES,
					  v->bytes - HEAD_BYTES)))
		differs(cs, &cs->index_agrees);
	return braid_array_push(cs->blocks, cs->nr_blocks, cs->blocks_capacity, block) ? -ENOMEM : 0;
}

void braid_capture_take_blocks(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_index_block block;
	size_t k;

	if (!is_indexed(cs) || !cs->index_agrees)
		return;
	for (k = 0; k < cs->nr_blocks && (k + 1) * sizeof(block) <= v->bytes; k++) {
		memcpy(&block, v->payload + k * sizeof(block), sizeof(block));
		block.flags = 0;
		if (memcmp(&block, &cs->blocks[k], sizeof(block)))
			break;
	}
	if (k != cs->nr_blocks || v->bytes != k * sizeof(block))
		differs(cs, &cs->index_agrees);
}

void braid_capture_end_index(struct braid_capture_source *cs)
{
	free(cs->blocks);
	cs->blocks = NULL;
	cs->nr_blocks = cs->blocks_capacity = 0;
	braid_extents_free(&cs->others);
	cs->index_agrees = true;
	cs->types_at = 0;
}

/* Trusting the index -------------------------------------------------------------------------- */

/* While it is looked at. */
struct index {
	struct braid_capture_reader *r;
	struct braid_index_block *blocks;
	struct braid_places *places;	/* of each block of pages */
	size_t nr;
	u64 end;			/* of all that it is about: its own place */
	u64 chunks;			/* as many must be in it */
	u64 bytes;			/* of them */
};

/* INDEX_BLOCKS, by the capture's last chunk. Return: 1, 0: none, -errno. */
static int capture_by_index_find(struct index *ix)
{
	const u64 last = sizeof(struct braid_chunk) + sizeof(struct braid_chunk_end);
	u64 size = braid_capture_size(ix->r), number;
	struct braid_chunk_end end;
	struct braid_chunk_view v;
	int ret = size < last ? 0 : braid_capture_at(ix->r, size - last, &v);

	if (ret <= 0 || v.type != BRAID_CHUNK_FILE_END || v.bytes != sizeof(end))
		return ret < 0 ? ret : 0;
	memcpy(&end, v.payload, sizeof(end));
	number = v.number;
	ret = end.index_offset < size ? braid_capture_at(ix->r, end.index_offset, &v) : 0;
	if (ret <= 0 || v.type != BRAID_CHUNK_INDEX_BLOCKS || v.number + 1 != number ||
	    v.bytes % sizeof(*ix->blocks) || end.index_offset + braid_chunk_bytes(v.bytes) != size - last)
		return ret < 0 ? ret : 0;
	ix->nr = v.bytes / sizeof(*ix->blocks);
	ix->end = end.index_offset;
	ix->chunks = v.number;		/* before it; each counts down */
	ix->blocks = malloc(v.bytes + 1);
	ix->places = calloc(ix->nr + 1, sizeof(*ix->places));
	if (!ix->blocks || !ix->places)
		return braid_out_of_memory();
	memcpy(ix->blocks, v.payload, v.bytes);
	return 1;
}

/* An INDEX chunk's content. Return: 1, 0: not as it should be; -errno. */
static int view_block(struct index *ix, const struct braid_index_block *block,
		      struct braid_chunk_view *v)
{
	struct braid_chunk_index head;
	int ret = braid_capture_at(ix->r, block->offset, v);

	if (ret <= 0 || v->type != BRAID_CHUNK_INDEX || v->stream != block->stream ||
	    v->bytes < HEAD_BYTES)
		return ret < 0 ? ret : 0;
	memcpy(&head, v->payload, HEAD_BYTES);
	return head.buffer == block->buffer && head.cpu == block->cpu && head.nr == block->nr &&
	       head.ns == block->ns;
}

/* Announces to the kernel the offsets of chunks that will be read. */
static void fetch_all(const struct index *ix, const char *at, const char *end, u32 nr)
{
	struct braid_extent e = { 0 };

	while (nr-- && (at = braid_extent_take(at, end, &e)))
		braid_capture_soon(ix->r, e.offset);
}

/* Chunks other than pages: each is looked at, and, unless @take is NULL, taken. Return: as view_block(). */
static int others(struct braid_capture_source *cs, struct index *ix,
		  const struct braid_index_block *block, braid_take_chunk_fn *take)
{
	struct braid_extent e = { 0 };
	struct braid_chunk_view v;
	const char *at, *end;
	char *places;
	u64 after = 0;
	int ret = view_block(ix, block, &v);
	u32 k;

	if (ret <= 0)
		return ret;
	places = malloc(v.bytes);
	if (!places)
		return braid_out_of_memory();
	memcpy(places, v.payload + HEAD_BYTES, v.bytes - HEAD_BYTES);
	ix->bytes += braid_chunk_bytes(v.bytes);
	at = places;
	end = places + v.bytes - HEAD_BYTES;
	if (!take)
		fetch_all(ix, at, end, block->nr);
	for (k = 0; k < block->nr && ret > 0; k++) {
		at = braid_extent_take(at, end, &e);
		ret = at && e.offset >= after && e.offset < ix->end && ix->bytes <= ix->end ?
		      braid_capture_at(ix->r, e.offset, &v) : 0;
		after = e.offset + braid_chunk_bytes(ret > 0 ? v.bytes : 0);
		if (ret > 0 && (is_page(v.type) || is_index(v.type)))
			ret = 0;
		if (ret > 0 && take)
			ret = take(cs, &v) ? braid_out_of_memory() : 1;
		ix->bytes += ret > 0 ? braid_chunk_bytes(v.bytes) : 0;
	}
	free(places);
	return ret;
}

static int pages(struct index *ix, const struct braid_index_block *block,
		 struct braid_places *places)
{
	struct braid_chunk_view v;
	int ret = view_block(ix, block, &v);

	if (ret <= 0)
		return ret;
	ix->bytes += braid_chunk_bytes(v.bytes);
	return braid_capture_check_places((const char *)v.payload + HEAD_BYTES, v.bytes - HEAD_BYTES, block->nr,
			    block->flags & BRAID_INDEX_HOST ? BRAID_STREAM_HOST : BRAID_STREAM_GUEST,
			    ix->end, &ix->bytes, places);
}

/*
 * Whether the index has places of as many chunks and bytes as the file has. No more than that is
 * read, even if it names a large chunk again and again. The author of a file can get this right and
 * still hide pages: braid_capture_take_index(), which reads all, finds that.
 */
static int capture_by_index_check(struct braid_capture_source *cs, struct index *ix)
{
	u64 chunks = ix->nr;
	size_t k;
	int ret = 1;

	for (k = 0; k < ix->nr; k++)
		braid_capture_soon(ix->r, ix->blocks[k].offset);
	for (k = 0; k < ix->nr && ret > 0; k++) {
		const struct braid_index_block *block = &ix->blocks[k];

		if (!block->nr || block->offset >= ix->end || ix->bytes > ix->end ||
		    (k && block->offset <= block[-1].offset))
			return 0;
		chunks += block->nr;
		ret = block->stream ? pages(ix, block, &ix->places[k]) :
				      others(cs, ix, block, NULL);
	}
	return ret <= 0 ? ret : chunks == ix->chunks && ix->bytes == ix->end;
}

/*
 * A ring's pages, unread. Their order is that of the places, whatever the block says.
 * Return: 0 or -ENOMEM.
 */
static int take_block(struct braid_capture_source *cs, const struct braid_index_block *block,
		      const struct braid_places *places)
{
	struct braid_capture_stream *s = braid_capture_stream_of(cs, block->stream);
	struct braid_index_place place = {
		.offset = block->offset, .file = cs->file, .nr = block->nr, .ns = block->ns,
	};
	struct braid_capture_ring *ring = NULL;

	if (s && !(block->flags & BRAID_INDEX_HOST) == (s->stream.kind == BRAID_STREAM_GUEST) &&
	    braid_capture_has_ring(s, block->buffer, block->cpu)) {
		ring = braid_capture_ring_of(s, block->buffer, block->cpu);
		if (!ring)
			return -ENOMEM;
		braid_capture_note_file(ring);
	}
	if (!ring) {
		braid_source_faulty(&cs->source, s ? &s->stream : NULL,
				    "ignored %u page%s of an undefined ring", block->nr,
				    block->nr == 1 ? "" : "s");
		return 0;
	}
	if (s->stream.kind == BRAID_STREAM_GUEST)
		ring->unordered |= places->unordered ||
				   (ring->extents.nr &&
				    !braid_capture_in_order(&ring->extents.latest, &places->first));
	ring->back |= block->flags & BRAID_INDEX_BACK;
	ring->bytes += places->bytes;
	ring->extents.latest = places->last;
	ring->extents.latest.file = cs->file;
	return braid_extents_add_block(&ring->extents, &place);
}

/* As the first page of each stream has it. */
static int take_first_pages(struct braid_capture_source *cs)
{
	struct braid_chunk_page page;
	struct braid_chunk_view v;
	size_t k, j;
	int ret;

	for (k = 0; k < cs->source.nr_streams; k++) {
		struct braid_stream *s = cs->source.streams[k];
		u64 first = ~0ULL;

		if (((struct braid_capture_stream *)s)->taken_ns)
			continue;	/* an earlier file has the stream's first page */
		for (j = 0; j < s->nr_rings && s->kind == BRAID_STREAM_GUEST; j++) {
			struct braid_extent_cursor c = { 0 };

			ret = braid_extents_next(&((struct braid_capture_ring *)s->rings[j])->extents, &c);
			if (ret < 0)
				return ret;
			if (ret && c.extent.file == cs->file && c.extent.offset < first)
				first = c.extent.offset;
		}
		ret = first == ~0ULL ? 0 : braid_capture_at(cs->files[cs->file].reader, first, &v);
		if (ret < 0)
			return ret;
		if (!ret || v.type != BRAID_CHUNK_PAGE || v.bytes < sizeof(page))
			continue;
		memcpy(&page, v.payload, sizeof(page));
		((struct braid_capture_stream *)s)->taken_ns = page.host_ns;
		((struct braid_capture_stream *)s)->taken_counter = page.time_stamp;
	}
	return 0;
}

static int take(struct braid_capture_source *cs, struct index *ix, braid_take_chunk_fn *take_chunk)
{
	size_t k;
	int ret = 1;

	ix->bytes = 0;
	for (k = 0; k < ix->nr && ret > 0; k++)
		if (!ix->blocks[k].stream)
			ret = others(cs, ix, &ix->blocks[k], take_chunk);
	for (k = 0; k < ix->nr && ret > 0; k++)
		if (ix->blocks[k].stream && take_block(cs, &ix->blocks[k], &ix->places[k]))
			return braid_out_of_memory();
	if (!ret)
		return braid_fail(-EBADMSG, "'%s' changed while it was read", cs->path);
	return ret < 0 ? ret : take_first_pages(cs) ?: 1;
}

int braid_capture_by_index(struct braid_capture_source *cs, braid_take_chunk_fn *take_chunk)
{
	struct index ix = { .r = cs->files[cs->file].reader };
	int ret = cs->files[cs->file].minor < 5 ? 0 : capture_by_index_find(&ix);

	if (ret > 0) {
		ret = capture_by_index_check(cs, &ix);
		if (!ret && cs->say)
			cs->say(cs->say_arg, "the capture's index is damaged: reading the whole file");
		cs->files[cs->file].by_index = ret > 0;
	}
	if (ret > 0)
		ret = take(cs, &ix, take_chunk);
	free(ix.blocks);
	free(ix.places);
	return ret;
}
