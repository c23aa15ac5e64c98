// SPDX-License-Identifier: GPL-2.0-or-later
/* Indexes each ring's extents, and sorts them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/host_event.h"
#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "shared/ring.h"

#define LEAF_RINGS	64u
#define NR_LEAVES	(BRAID_MAX_CPUS / LEAF_RINGS)

/*
 * The rings of some consecutive CPUs. A two-level table stays small when only few CPUs have rings.
 */
struct braid_ring_leaf {
	struct braid_capture_ring *rings[LEAF_RINGS];
};

/* The place of a ring in its stream's table. NULL: out of memory. */
static struct braid_capture_ring **ring_place(struct braid_capture_stream *s, u32 buffer, u32 cpu)
{
	struct braid_ring_leaf ***leaves = &s->ring_leaves[buffer], **leaf;

	if (!*leaves)
		*leaves = calloc(NR_LEAVES, sizeof(**leaves));
	if (!*leaves)
		return NULL;
	leaf = &(*leaves)[cpu / LEAF_RINGS];
	if (!*leaf)
		*leaf = calloc(1, sizeof(**leaf));
	return *leaf ? &(*leaf)->rings[cpu % LEAF_RINGS] : NULL;
}

void braid_capture_free_leaves(struct braid_capture_stream *s)
{
	u32 buffer, k;

	for (buffer = 0; buffer < BRAID_MAX_BUFFERS; buffer++) {
		for (k = 0; s->ring_leaves[buffer] && k < NR_LEAVES; k++)
			free(s->ring_leaves[buffer][k]);
		free(s->ring_leaves[buffer]);
	}
}

struct braid_capture_ring *braid_capture_ring_at(const struct braid_capture_stream *s, u32 buffer,
						 u32 cpu)
{
	struct braid_ring_leaf **leaves;

	if (buffer >= BRAID_MAX_BUFFERS || cpu >= BRAID_MAX_CPUS)
		return NULL;
	leaves = s->ring_leaves[buffer];
	return leaves && leaves[cpu / LEAF_RINGS] ?
	       leaves[cpu / LEAF_RINGS]->rings[cpu % LEAF_RINGS] : NULL;
}

bool braid_capture_has_ring(const struct braid_capture_stream *s, u32 buffer, u32 cpu)
{
	const struct braid_superblock *sb = &s->superblock;

	if (s->stream.kind == BRAID_STREAM_HOST)
		return !buffer && cpu < BRAID_MAX_CPUS;
	if (s->stream.kind == BRAID_STREAM_VM)
		return false;
	return buffer < sb->nr_buffers && buffer < BRAID_MAX_BUFFERS &&
	       cpu < sb->buffers[buffer].nr_rings;
}

struct braid_capture_ring *braid_capture_ring_of(struct braid_capture_stream *s, u32 buffer, u32 cpu)
{
	struct braid_capture_ring **place = ring_place(s, buffer, cpu);

	static_assert(offsetof(struct braid_capture_ring, ring) == 0, "cast");
	if (place && !*place)
		*place = s->stream.kind == BRAID_STREAM_HOST ? braid_capture_host_ring(s, cpu) :
			 braid_capture_guest_ring(s, buffer, cpu);
	if (!place || !*place)
		return NULL;
	(*place)->extents.read = braid_capture_read_places;
	(*place)->extents.arg = *place;
	return *place;
}

void braid_capture_note_file(struct braid_capture_ring *ring)
{
	const struct braid_capture_source *cs = ring->source;

	/* The order of extents of two files is unknown if those of either were not read. */
	if (ring->extents.nr && ring->file != cs->file)
		ring->unordered |= cs->files[ring->file].by_index || cs->files[cs->file].by_index;
	ring->file = cs->file;
}

static int add_guest_extent(struct braid_capture_ring *ring, const struct braid_extent *extent,
			    u64 host_ns)
{
	struct braid_extents *extents = &ring->extents;

	braid_capture_note_file(ring);
	ring->unordered |= extents->nr && !braid_capture_in_order(&extents->latest, extent);
	return braid_extents_add(extents, extent, host_ns, true);
}

int braid_capture_take_page(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	const char *why = "it has no head";
	struct braid_capture_ring *ring;
	struct braid_chunk_page page;

	if (v->bytes >= sizeof(page)) {
		memcpy(&page, v->payload, sizeof(page));
		why = braid_capture_page_fault(s, &page, v->bytes);
	}
	if (why) {
		braid_source_faulty(&s->source->source, &s->stream,
				    "the page in chunk %llu is left out: %s",
				    (unsigned long long)v->number, why);
		return 0;
	}
	ring = braid_capture_ring_of(s, page.buffer, page.vcpu);
	if (!ring)
		return -ENOMEM;
	braid_capture_note_recorded(s->source, s->source->file, page.host_ns);
	if (!s->taken_ns) {
		s->taken_ns = page.host_ns;
		s->taken_counter = page.time_stamp;
	}
	return add_guest_extent(ring, &(struct braid_extent){
		.offset = v->offset, .file = s->source->file, .final = page.flags & BRAID_PAGE_FINAL,
		.position = page.position, .first_seq = page.first_seq,
		.from_bytes = page.from_bytes, .to_bytes = page.to_bytes,
	}, page.host_ns);
}

int braid_capture_take_host_page(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	const char *why = "it has no head";
	struct braid_chunk_host_page page;
	struct braid_capture_ring *ring;
	u64 stamp, number;

	if (v->bytes >= sizeof(page)) {
		memcpy(&page, v->payload, sizeof(page));
		why = braid_capture_host_page_fault(s, &page, v->bytes);
	}
	if (why) {
		braid_source_faulty(&s->source->source, &s->stream,
				    "the host page in chunk %llu is left out: %s",
				    (unsigned long long)v->number, why);
		return 0;
	}
	ring = braid_capture_ring_of(s, 0, page.cpu);
	if (!ring)
		return -ENOMEM;
	braid_capture_note_file(ring);
	memcpy(&stamp, v->payload + sizeof(page), sizeof(stamp));
	number = ring->numbers;
	if (braid_capture_numbers_hosts(s->source, s->source->file))
		ring->numbers += braid_host_numbers(v->payload + sizeof(page), page.bytes,
						    page.lost_before, NULL);
	return braid_extents_add(&ring->extents, &(struct braid_extent){
		.offset = v->offset, .file = s->source->file, .position = number,
		.first_seq = page.lost_before, .to_bytes = page.bytes,
	}, stamp, false);
}

static int add_part(struct braid_capture_ring *ring, const struct braid_chunk_ring_end *end)
{
	struct braid_ring_part part = {
		.from_seq = end->first_seq,
		.to_seq = end->first_seq + end->read - end->read_before + end->lost_within,
		.end = *end,
	};

	return braid_array_push(ring->parts, ring->nr_parts, ring->parts_capacity, part);
}

int braid_capture_take_ring_end(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_chunk_ring_end end = { 0 };
	struct braid_capture_ring *ring;

	memcpy(&end, v->payload, v->bytes < sizeof(end) ? v->bytes : sizeof(end));
	if (v->bytes < sizeof(end)) {	/* minor 2: recorded till the end of the ring */
		end.before = end.read_before + end.lost_before;
		end.after = 0;
		end.lost_within = end.lost - end.lost_before;
		end.left_within = end.left;
	}
	if (v->bytes < offsetof(struct braid_chunk_ring_end, read_before) ||
	    !braid_capture_has_ring(s, end.buffer, end.vcpu)) {
		braid_source_faulty(&s->source->source, &s->stream,
				    "the accounting in chunk %llu refers to a nonexistent ring",
				    (unsigned long long)v->number);
		return 0;
	}
	ring = braid_capture_ring_of(s, end.buffer, end.vcpu);
	return ring ? add_part(ring, &end) : -ENOMEM;
}

/* Order ----------------------------------------------------------------------------------- */

static int sort_ring(struct braid_capture_ring *ring)
{
	struct braid_extent_cursor first = { 0 };
	int ret = ring->unordered ? braid_extents_next(&ring->extents, &first) : 0;

	if (ret > 0)
		ret = braid_extents_sort(&ring->extents, braid_capture_by_position,
					 &first.extent.position);
	return ret == -ENOMEM ? braid_out_of_memory() : ret;
}

static int by_ring(const void *a, const void *b)
{
	const struct braid_ring *x = *(struct braid_ring *const *)a;
	const struct braid_ring *y = *(struct braid_ring *const *)b;

	if (x->cpu != y->cpu)
		return x->cpu < y->cpu ? -1 : 1;
	return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static int by_seq(const void *a, const void *b, void *arg)
{
	const struct braid_ring_part *x = a, *y = b;
	u64 origin = *(u64 *)arg;
	s64 dx = (s64)(x->from_seq - origin), dy = (s64)(y->from_seq - origin);

	if (dx == dy) {
		dx = (s64)(x->to_seq - origin);
		dy = (s64)(y->to_seq - origin);
	}
	return dx < dy ? -1 : dx > dy;
}

/* Captures may be given in any order, and one of them twice. A ring's end counts once. */
static bool is_reported(const struct braid_ring_part *before, const struct braid_ring_part *part)
{
	const struct braid_chunk_ring_end *end = &part->end;

	if (!memcmp(&before->end, end, sizeof(*end)))
		return true;
	return before->from_seq == part->from_seq && before->to_seq == part->to_seq &&
	       part->from_seq != part->to_seq && !end->fault && !end->broken;
}

/* @again: events at its beginning that are of a part before it */
static void report_part(struct braid_ring_report *report, const struct braid_ring_part *part,
			u64 again, bool *any)
{
	const struct braid_chunk_ring_end *end = &part->end;
	u64 read = end->read - end->read_before, lost = end->lost_within;
	bool full = read || lost;	/* the capture's first event is in no empty part */
	u64 fault, broken, known = again < lost ? again : lost;

	if (!report->nr_parts++ || (full && !*any) ||
	    (full == *any && end->before < report->first.before))
		report->first = *end;
	*any |= full;
	/* What it had not come to see is lost first. */
	report->read += read - (again - known < read ? again - known : read);
	report->lost += lost - known;
	/* The one that has read more is the later one; a fault is kept. */
	fault = end->fault ?: report->last.fault;
	broken = end->broken ?: report->last.broken;
	if (end->read + end->lost >= report->last.read + report->last.lost) {
		report->last = *end;
		report->left = end->left_within;
		report->after = end->after;
		report->end_seq = part->to_seq;
	}
	report->before = report->first.before;
	report->last.fault = fault;
	report->last.broken = broken;
}

/* The end of a part and of those before it, and the gaps between them. */
static void reach_on(struct braid_ring_part *parts, size_t at)
{
	struct braid_ring_part *part = &parts[at], *before = part - 1;

	part->reach = part->to_seq;
	part->gaps = 0;
	if (!at)
		return;
	part->gaps = before->gaps;
	if ((s64)(part->from_seq - before->reach) > 0)
		part->gaps += part->from_seq - before->reach;
	if ((s64)(before->reach - part->reach) > 0)
		part->reach = before->reach;
}

/*
 * How many events at its beginning the parts before have, too: the host that a guest moved to has
 * read what was left in its rings.
 */
static u64 read_again(const struct braid_capture_ring *ring, const struct braid_ring_part *part,
		      size_t nr)
{
	u64 again = nr ? ring->parts[nr - 1].reach - part->from_seq : 0;

	if (!ring->ring.stream->nr_parts || (s64)again <= 0)
		return 0;
	return again < part->to_seq - part->from_seq ? again : part->to_seq - part->from_seq;
}

/* Puts the parts in order, and adds them up. */
static void settle_parts(struct braid_capture_ring *ring)
{
	struct braid_ring_part *parts = ring->parts;
	size_t k, nr = 0;
	bool any = false;
	u64 origin, again;

	if (!ring->nr_parts)
		return;
	origin = parts[0].from_seq;
	qsort_r(parts, ring->nr_parts, sizeof(*parts), by_seq, &origin);
	for (k = 0; k < ring->nr_parts; k++) {
		if (nr && is_reported(&parts[nr - 1], &parts[k]))
			continue;
		again = read_again(ring, &parts[k], nr);
		parts[nr] = parts[k];
		reach_on(parts, nr);
		report_part(&ring->ring.report, &parts[nr++], again, &any);
	}
	ring->nr_parts = nr;
}

int braid_capture_sort_extents(struct braid_capture_source *cs)
{
	size_t k, j;
	int err = 0;

	for (k = 0; k < cs->source.nr_streams; k++) {
		struct braid_stream *s = cs->source.streams[k];

		if (s->nr_rings)
			qsort(s->rings, s->nr_rings, sizeof(*s->rings), by_ring);
		for (j = 0; j < s->nr_rings; j++) {
			struct braid_capture_ring *ring = (struct braid_capture_ring *)s->rings[j];

			settle_parts(ring);
			/*
			 * One that grows is of one recording, and its cursors are on their way; a
			 * trace.dat is in order.
			 */
			if (s->kind == BRAID_STREAM_GUEST && !cs->source.grows &&
			    !cs->files[ring->file].is_dat)
				err = sort_ring(ring);
			if (err)
				return err;
		}
	}
	return 0;
}
