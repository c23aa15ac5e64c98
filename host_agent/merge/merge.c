// SPDX-License-Identifier: GPL-2.0-or-later
/* A heap of ring cursors, the earliest on top. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/merge/merge.h"
#include "host_agent/util/error.h"

/* What decides the order, beside the heap's other keys so that a sift stays in cache. */
struct entry {
	s64 host_ns;
	u32 order;
	struct braid_ring *ring;
};

struct braid_merge {
	struct entry *heap;
	size_t nr;
	bool top_used;		/* the top was handed out: move it before the next look */
};

static bool earlier(const struct entry *a, const struct entry *b)
{
	if (a->host_ns != b->host_ns)
		return a->host_ns < b->host_ns;
	return a->order < b->order;
}

static void sift_down(struct braid_merge *m, size_t at)
{
	struct entry moving = m->heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= m->nr)
			break;
		if (child + 1 < m->nr && earlier(&m->heap[child + 1], &m->heap[child]))
			child++;
		if (!earlier(&m->heap[child], &moving))
			break;
		m->heap[at] = m->heap[child];
		at = child;
	}
	m->heap[at] = moving;
}

static int prime(struct braid_merge *m, struct braid_ring *ring)
{
	int ret = braid_ring_next(ring);

	if (ret <= 0)
		return ret;
	m->heap[m->nr].host_ns = ring->item.host_ns;
	m->heap[m->nr].order = ring->order;
	m->heap[m->nr++].ring = ring;
	return 0;
}

int braid_merge_begin(struct braid_merge **out, struct braid_source *source,
		      bool (*want)(void *arg, const struct braid_ring *ring), void *arg)
{
	struct braid_merge *m = calloc(1, sizeof(*m));
	size_t k, j, rings = 1;
	int err;

	for (k = 0; k < source->nr_streams; k++)
		rings += source->streams[k]->nr_rings;
	if (m)
		m->heap = calloc(rings, sizeof(*m->heap));
	if (!m || !m->heap) {
		free(m);
		return braid_fail(-ENOMEM, "out of memory");
	}
	for (k = 0; k < source->nr_streams; k++) {
		struct braid_stream *s = source->streams[k];

		for (j = 0; j < s->nr_rings; j++) {
			if (want && !want(arg, s->rings[j]))
				continue;
			err = prime(m, s->rings[j]);
			if (err) {
				braid_merge_end(m);
				return err;
			}
		}
	}
	for (k = m->nr / 2; k-- > 0;)
		sift_down(m, k);
	*out = m;
	return 0;
}

/* Moves the cursor on top, and lets it sink or go. */
static int advance(struct braid_merge *m)
{
	int ret = braid_ring_next(m->heap[0].ring);

	if (ret < 0)
		return ret;
	if (ret)
		m->heap[0].host_ns = m->heap[0].ring->item.host_ns;
	else
		m->heap[0] = m->heap[--m->nr];
	if (m->nr)
		sift_down(m, 0);
	return 0;
}

int braid_merge_next(struct braid_merge *m, const struct braid_item **item)
{
	int err;

	if (m->top_used) {
		m->top_used = false;
		err = advance(m);
		if (err)
			return err;
	}
	if (!m->nr)
		return 0;
	m->top_used = true;
	*item = &m->heap[0].ring->item;
	return 1;
}

void braid_merge_end(struct braid_merge *m)
{
	if (!m)
		return;
	free(m->heap);
	free(m);
}
