// SPDX-License-Identifier: GPL-2.0-or-later
/* Divides a capture by its index: into parts of time, or groups of rings, of about one size. */
#include <stdlib.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define STEPS		16u	/* a block's pages are taken to be spread evenly over its time */

#define GROUP_BYTES	(256u << 10)	/* or more, of a group */

/* Up to a time, there are some more pages. */
struct point {
	s64 ns;
	u32 sixteenths;
};

struct points {
	struct point *all;
	size_t nr, capacity;
};

static int add_block(struct points *p, s64 from_ns, s64 to_ns, u32 pages)
{
	u32 k;

	/* No host time is negative; an index may say so. */
	for (k = 1; k <= STEPS && from_ns >= 0 && from_ns < to_ns; k++) {
		struct point point = { from_ns + (to_ns - from_ns) / STEPS * k, pages };

		if (braid_array_push(p->all, p->nr, p->capacity, point))
			return braid_out_of_memory();
	}
	return 0;
}

/* Blocks of a guest's ring have the time of their end, those of a host's that of their start. */
static int add_ring(struct points *p, const struct braid_capture_ring *ring, s64 start_ns,
		    s64 end_ns)
{
	const struct braid_extents *list = &ring->extents;
	const struct braid_index_place *place = braid_extents_block(list, NULL), *next;
	bool guest = ring->ring.stream->kind == BRAID_STREAM_GUEST;
	s64 from_ns = guest ? start_ns : 0, to_ns;
	int err = 0;

	for (; place && !err; place = next) {
		next = braid_extents_block(list, place);
		if (!guest)
			from_ns = (s64)place->ns;
		to_ns = guest ? (s64)place->ns : next ? (s64)next->ns : end_ns;
		err = add_block(p, from_ns, to_ns, place->nr);
		from_ns = to_ns;
	}
	return err;
}

static bool can_cut(const struct braid_capture_ring *ring)
{
	const struct braid_stream *s = ring->ring.stream;

	return braid_capture_can_skip(ring) &&
	       (s->kind == BRAID_STREAM_GUEST ? braid_capture_is_plain(s) :
						braid_capture_host_can_skip(ring));
}

/* Return: 1; 0: the capture cannot be cut; -ENOMEM with braid_fail(). */
static int add_rings(struct points *p, const struct braid_source *source)
{
	s64 start_ns = source->head.start_host_ns, end_ns = 0;
	size_t k, n;
	int err;

	for (k = 0; k < source->nr_streams; k++)
		if ((s64)source->streams[k]->end_ns > end_ns)
			end_ns = source->streams[k]->end_ns;
	for (k = 0; k < source->nr_streams; k++) {
		for (n = 0; n < source->streams[k]->nr_rings; n++) {
			struct braid_ring *ring = source->streams[k]->rings[n];

			if (ring->cpu == BRAID_RING_NOTES)
				continue;
			if (!can_cut((struct braid_capture_ring *)ring))
				return 0;
			err = add_ring(p, (struct braid_capture_ring *)ring, start_ns, end_ns);
			if (err)
				return err;
		}
	}
	return 1;
}

static int by_ns(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	return braid_compare(x->ns, y->ns);
}

int braid_source_cut(const struct braid_source *source, u32 pages, s64 from_ns, s64 to_ns,
		     s64 **cuts, size_t *nr)
{
	const struct braid_capture_source *cs = (const struct braid_capture_source *)source;
	struct points p = { .nr = 0 };
	u64 sum = 0;
	size_t k, capacity = 0;
	int ret;

	*cuts = NULL;
	*nr = 0;
	if (source->grows || cs->nr_files != 1 || !cs->files[0].by_index)
		return 0;
	ret = add_rings(&p, source);
	if (ret > 0 && p.nr)
		qsort(p.all, p.nr, sizeof(*p.all), by_ns);
	for (k = 0; k < p.nr && ret > 0; k++) {
		if (p.all[k].ns <= from_ns || p.all[k].ns > to_ns)
			continue;
		sum += p.all[k].sixteenths;
		if (sum < (u64)STEPS * pages)
			continue;
		sum = 0;
		if (!*nr || p.all[k].ns > (*cuts)[*nr - 1])
			ret = braid_array_push(*cuts, *nr, capacity, p.all[k].ns) ?
			      braid_out_of_memory() : 1;
	}
	free(p.all);
	return ret < 0 ? ret : 0;
}

/* Rings -------------------------------------------------------------------------------------- */

struct load {
	u64 bytes;
	u32 order;
};

static int most_first(const void *a, const void *b)
{
	const struct load *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* A load for each ring. Return: their bytes. */
static u64 find_loads(const struct braid_source *source, struct load *loads)
{
	size_t k, n, nr = 0;
	u64 sum = 0;

	for (k = 0; k < source->nr_streams; k++) {
		for (n = 0; n < source->streams[k]->nr_rings; n++) {
			const struct braid_ring *ring = source->streams[k]->rings[n];
			u64 bytes = ring->cpu == BRAID_RING_NOTES ? 0 :
				    ((const struct braid_capture_ring *)ring)->bytes;

			loads[nr++] = (struct load){ bytes, ring->order };
			sum += bytes;
		}
	}
	return sum;
}

static bool is_by_index(const struct braid_capture_source *cs)
{
	size_t k;

	for (k = 0; k < cs->nr_files; k++)
		if (!cs->files[k].by_index)
			return false;
	return !cs->source.grows;
}

/* Each ring, the largest first, gets into the group that has least. */
static void spread(const struct load *loads, size_t nr_loads, u32 *group_of, u64 *groups, u32 nr)
{
	u32 least, n;
	size_t k;

	for (k = 0; k < nr_loads; k++) {
		for (least = 0, n = 1; n < nr; n++)
			if (groups[n] < groups[least])
				least = n;
		groups[least] += loads[k].bytes;
		group_of[loads[k].order] = least;
	}
}

int braid_source_group(const struct braid_source *source, u32 most, u32 **group_of, u32 *nr)
{
	size_t k, nr_rings = 0;
	struct load *loads;
	u64 *groups, bytes;

	for (k = 0; k < source->nr_streams; k++)
		nr_rings += source->streams[k]->nr_rings;
	*nr = 1;
	*group_of = calloc(nr_rings + 1, sizeof(**group_of));
	loads = calloc(nr_rings + 1, sizeof(*loads));
	groups = calloc((size_t)most + 1, sizeof(*groups));
	if (*group_of && loads && groups &&
	    is_by_index((const struct braid_capture_source *)source)) {
		bytes = find_loads(source, loads);
		*nr = most < bytes / GROUP_BYTES ? most : bytes / GROUP_BYTES;
		*nr = *nr < nr_rings ? *nr : nr_rings;
		*nr = *nr ? *nr : 1;
		qsort(loads, nr_rings, sizeof(*loads), most_first);
		spread(loads, nr_rings, *group_of, groups, *nr);
	}
	free(loads);
	free(groups);
	return *group_of && loads && groups ? 0 : braid_out_of_memory();
}

bool braid_source_is_same(const struct braid_source *a, const struct braid_source *b)
{
	const struct braid_capture_source *x = (const struct braid_capture_source *)a;
	const struct braid_capture_source *y = (const struct braid_capture_source *)b;
	u32 k;

	if (x->nr_files != y->nr_files || a->nr_streams != b->nr_streams)
		return false;
	for (k = 0; k < x->nr_files; k++)
		if (x->files[k].device != y->files[k].device ||
		    x->files[k].inode != y->files[k].inode)
			return false;
	return true;
}
