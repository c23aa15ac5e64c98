// SPDX-License-Identifier: GPL-2.0-or-later
/* A heap of ring cursors, the earliest on top. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/trace/merge.h"
#include "host_agent/util/error.h"

/* The sort key, next to the heap's other keys so that a sift stays in cache. */
struct entry {
	s64 host_ns;
	u32 order;
	struct braid_ring *ring;
};

struct braid_merge {
	struct braid_source *source;
	bool (*want)(void *arg, const struct braid_ring *ring);
	void *arg;
	struct entry *heap;
	size_t nr;
	struct braid_ring **ended;	/* cursors at their current end */
	size_t nr_ended;
	size_t allocated;		/* in heap, and in ended */
	bool top_used;		/* the top was returned: advance it before the next compare */
	s64 last_ns;		/* no later item is returned */
};

/* Of another host than the first one: its clock is finer than the timeline. Notes come first. */
static s64 own_ns(const struct braid_ring *ring)
{
	return ring->tie ? ring->item.own_ns : INT64_MIN;
}

static bool earlier(const struct entry *a, const struct entry *b)
{
	u32 host_a, host_b;

	if (a->host_ns != b->host_ns)
		return a->host_ns < b->host_ns;
	host_a = braid_stream_host_number(braid_item_part(&a->ring->item));
	host_b = braid_stream_host_number(braid_item_part(&b->ring->item));
	if (host_a != host_b)
		return host_a < host_b;
	if (own_ns(a->ring) != own_ns(b->ring))
		return own_ns(a->ring) < own_ns(b->ring);
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

static void sift_up(struct braid_merge *m, size_t at)
{
	struct entry moving = m->heap[at];

	for (; at && earlier(&moving, &m->heap[(at - 1) / 2]); at = (at - 1) / 2)
		m->heap[at] = m->heap[(at - 1) / 2];
	m->heap[at] = moving;
}

/* A ring takes part from here on: as ended, until it is read. */
static int merge_add_ring(struct braid_merge *m, struct braid_ring *ring)
{
	size_t allocated = 2 * m->allocated + 16;
	struct braid_ring **ended;
	struct entry *heap;

	if (m->nr + m->nr_ended == m->allocated) {
		heap = reallocarray(m->heap, allocated, sizeof(*heap));
		m->heap = heap ? heap : m->heap;
		ended = reallocarray(m->ended, allocated, sizeof(*ended));
		m->ended = ended ? ended : m->ended;
		if (!heap || !ended)
			return braid_out_of_memory();
		m->allocated = allocated;
	}
	ring->merging = true;
	m->ended[m->nr_ended++] = ring;
	return 0;
}

int braid_merge_more(struct braid_merge *m)
{
	size_t k, j, nr = 0;
	int ret = 0;

	for (k = 0; k < m->source->nr_streams; k++) {
		struct braid_stream *s = m->source->streams[k];

		for (j = 0; j < s->nr_rings && !ret; j++)
			if (!s->rings[j]->merging && (!m->want || m->want(m->arg, s->rings[j])))
				ret = merge_add_ring(m, s->rings[j]);
	}
	for (k = 0; k < m->nr_ended && ret >= 0; k++) {
		struct braid_ring *ring = m->ended[k];

		ret = braid_ring_next(ring);
		if (ret <= 0) {
			m->ended[nr++] = ring;
			continue;
		}
		m->heap[m->nr] = (struct entry){ ring->item.host_ns, ring->order, ring };
		sift_up(m, m->nr++);
	}
	for (; k < m->nr_ended; k++)
		m->ended[nr++] = m->ended[k];
	m->nr_ended = nr;
	return ret < 0 ? ret : 0;
}

int braid_merge_begin(struct braid_merge **out, struct braid_source *source,
		      bool (*want)(void *arg, const struct braid_ring *ring), void *arg)
{
	struct braid_merge *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return braid_out_of_memory();
	m->source = source;
	m->want = want;
	m->arg = arg;
	m->last_ns = INT64_MAX;
	err = braid_merge_more(m);
	if (err) {
		braid_merge_end(m);
		return err;
	}
	*out = m;
	return 0;
}

/* Moves the cursor on top, and lets it sink or go. */
static int advance(struct braid_merge *m)
{
	int ret = braid_ring_next(m->heap[0].ring);

	if (ret < 0)
		return ret;
	if (ret) {
		m->heap[0].host_ns = m->heap[0].ring->item.host_ns;
	} else {
		m->ended[m->nr_ended++] = m->heap[0].ring;
		m->heap[0] = m->heap[--m->nr];
	}
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
	if (!m->nr || m->heap[0].host_ns > m->last_ns ||
	    (m->source->grows && m->heap[0].host_ns > m->source->until_ns))
		return 0;
	m->top_used = true;
	*item = &m->heap[0].ring->item;
	return 1;
}

int braid_merge_skip(struct braid_merge *m, s64 ns)
{
	int ret = m->top_used ? advance(m) : 0;
	size_t k, nr = m->nr;

	m->top_used = false;
	m->nr = 0;
	for (k = 0; k < nr; k++) {
		struct entry e = m->heap[k];

		if (ret >= 0 && e.host_ns < ns && braid_ring_skip(e.ring, ns)) {
			ret = braid_ring_next(e.ring);
			e.host_ns = e.ring->item.host_ns;
			if (ret <= 0) {
				m->ended[m->nr_ended++] = e.ring;
				continue;
			}
		}
		m->heap[m->nr] = e;
		sift_up(m, m->nr++);
	}
	return ret < 0 ? ret : 0;
}

void braid_merge_stop_before(struct braid_merge *m, s64 ns)
{
	m->last_ns = ns == INT64_MAX ? ns : ns - 1;
}

void braid_merge_end(struct braid_merge *m)
{
	size_t k;

	if (!m)
		return;
	for (k = 0; k < m->nr; k++)
		m->heap[k].ring->merging = false;
	for (k = 0; k < m->nr_ended; k++)
		m->ended[k]->merging = false;
	free(m->heap);
	free(m->ended);
	free(m);
}
