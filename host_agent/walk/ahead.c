// SPDX-License-Identifier: GPL-2.0-or-later
/* Copies items into batches, so that the merge can go on while they are selected and delivered. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/states.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/ahead.h"

/*
 * The approximate size of a batch: small enough for a CPU's cache, and so large that runners rarely
 * wait.
 */
#define BATCH_ITEMS	1024u
#define BATCH_BYTES	(256u << 10)

/* An item, and the walk's other values for it. */
struct braid_ahead_item {
	struct braid_item item;		/* ->payload is set when the batch is full, to ... */
	size_t payload_at;		/* ... this offset in the batch's payloads */
	size_t aside_end;		/* up to there, the batch's asides precede it */
	bool lost;			/* its loss is selected */
	int got;			/* BRAID_WALK_EVENT or _NOTE; 0: not selected, or a loss alone */
	const struct braid_event_type_info *info;
	s64 ns;
	u64 bound_ns;
	bool uncertain;
};

/* By ring: its last item in the batch. */
struct braid_ahead_last {
	u64 batch;			/* its number, from 1; an older one: the ring has no item yet */
	struct braid_ahead_item *item;
	const u8 *payload;		/* where the ring has it */
};

bool braid_ahead_can(const struct braid_walk *w)
{
	return w->options->two_cpus && !w->source->grows && braid_relay_can();
}

/* The items of the batch, for the walk. */
static int take_item(void *arg, const struct braid_item **item)
{
	struct braid_ahead *a = arg;

	if (a->at == a->taken->nr)
		return 0;
	*item = &a->taken->items[a->at++].item;
	return 1;
}

/* Begins the merge, and skips what is before the selected time. Return: 0, or -errno. */
static int ahead_start(struct braid_ahead *a)
{
	int ret = braid_walk_start(&a->walk);

	if (!ret && !a->walk.states)	/* they need all */
		ret = braid_walk_first(&a->walk, &a->pending);
	if (ret < 0)
		return ret;
	a->ended = !a->walk.states && !ret;
	a->merging = a->walk;
	a->walk.take = take_item;
	a->walk.take_arg = a;
	return 0;
}

static size_t count_rings(const struct braid_source *source)
{
	size_t nr = 0, k, n;

	for (k = 0; k < source->nr_streams; k++)
		for (n = 0; n < source->streams[k]->nr_rings; n++)
			if (source->streams[k]->rings[n]->order >= nr)
				nr = source->streams[k]->rings[n]->order + (size_t)1;
	return nr;
}

int braid_ahead_begin(struct braid_ahead *a, struct braid_walk *w)
{
	size_t nr_rings = w->states ? count_rings(w->source) : 0, k;

	memset(a, 0, sizeof(*a));
	a->shown = w;
	a->walk = *w;
	a->totals = *w->totals;
	a->walk.totals = &a->totals;
	a->last = calloc(nr_rings + 1, sizeof(*a->last));
	a->met = calloc(nr_rings + 1, sizeof(*a->met));
	if (!a->last || !a->met)
		return braid_out_of_memory();
	for (k = 0; k < BRAID_RELAY_RUNNERS; k++) {
		a->batches[k].items = calloc(BATCH_ITEMS + nr_rings, sizeof(*a->batches[k].items));
		if (!a->batches[k].items)
			return braid_out_of_memory();
	}
	return ahead_start(a);
}

void braid_ahead_end(struct braid_ahead *a)
{
	size_t k;

	braid_walk_stop(&a->walk);
	a->walk.take = NULL;
	a->walk.totals = a->shown->totals;
	*a->walk.totals = a->totals;
	*a->shown = a->walk;
	free(a->last);
	free(a->met);
	for (k = 0; k < BRAID_RELAY_RUNNERS; k++) {
		free(a->batches[k].items);
		braid_text_free(&a->batches[k].payloads);
		braid_text_free(&a->batches[k].asides);
	}
}

/* Copying ------------------------------------------------------------------------------------- */

/* Return: the copy, which is not counted yet; NULL: out of memory. */
static struct braid_ahead_item *copy_item(struct braid_ahead_batch *b, size_t index,
					  const struct braid_item *item)
{
	struct braid_ahead_item *copy = &b->items[index];
	char *at = braid_text_reserve(&b->payloads, item->payload_bytes + sizeof(u64));

	if (!at)
		return NULL;
	if (item->payload_bytes)
		memcpy(at, item->payload, item->payload_bytes);
	copy->item = *item;
	copy->item.next = &copy->item;	/* none known */
	copy->payload_at = b->payloads.bytes;
	copy->lost = false;
	copy->got = 0;
	/* Keep the next one aligned. */
	b->payloads.bytes += (item->payload_bytes + sizeof(u64) - 1) & -sizeof(u64);
	return copy;
}

/* Links the ring's item before to this one, if the batch has it. */
static void link_item(struct braid_ahead *a, struct braid_ahead_item *copy, const u8 *payload)
{
	struct braid_ahead_last *last = &a->last[copy->item.ring->order];

	if (last->batch == a->batch)
		last->item->item.next = &copy->item;
	else
		a->met[a->nr_met++] = last;
	*last = (struct braid_ahead_last){ a->batch, copy, payload };
}

/*
 * The merge has moved all rings on. Copies what follows each ring's last item, for states alone.
 * Return: whether there was memory.
 */
static bool link_last(struct braid_ahead *a, struct braid_ahead_batch *b)
{
	size_t k;

	for (k = 0; k < a->nr_met; k++) {
		struct braid_item *before = &a->met[k]->item->item;
		const struct braid_item *next = &before->ring->item;
		struct braid_ahead_item *copy;

		if (next->host_ns == before->host_ns && next->seq == before->seq &&
		    next->payload == a->met[k]->payload && next->kind == before->kind)
			continue;	/* the ring's end */
		copy = copy_item(b, b->nr + b->nr_next, next);
		if (!copy)
			return false;
		before->next = &copy->item;
		b->nr_next++;
	}
	return true;
}

/* Return: 1, 0 at the end, -errno. */
static int fill_items(struct braid_ahead *a, struct braid_ahead_batch *b)
{
	struct braid_ahead_item *copy;
	int ret = 1;

	while (b->nr < BATCH_ITEMS && b->payloads.bytes < BATCH_BYTES) {
		if (!a->pending)
			ret = braid_walk_merge(&a->merging, &a->pending);
		if (ret <= 0)
			return ret;
		copy = copy_item(b, b->nr, a->pending);
		if (!copy)
			return braid_out_of_memory();
		if (a->merging.states)
			link_item(a, copy, a->pending->payload);
		b->nr++;
		a->pending = NULL;
	}
	return a->merging.states ? braid_walk_merge(&a->merging, &a->pending) : 1;
}

int braid_ahead_fill(struct braid_ahead *a, size_t runner)
{
	struct braid_ahead_batch *b = &a->batches[runner];
	int ret = 0;
	size_t k;

	b->nr = b->nr_next = b->payloads.bytes = a->nr_met = 0;
	a->batch++;
	if (!a->ended && !__atomic_load_n(&a->over, __ATOMIC_RELAXED))
		ret = fill_items(a, b);
	if (!link_last(a, b))
		ret = braid_out_of_memory();
	for (k = 0; k < b->nr + b->nr_next; k++)
		b->items[k].item.payload = (const u8 *)b->payloads.data + b->items[k].payload_at;
	return ret;
}

/* Selecting ----------------------------------------------------------------------------------- */

static void take_aside(struct braid_ahead_batch *b, struct braid_text *aside)
{
	if (!aside || !aside->bytes)
		return;
	braid_text_put(&b->asides, aside->data, aside->bytes);
	aside->bytes = 0;
}

static void note_got(struct braid_ahead_item *i, const struct braid_walk *w, int got)
{
	i->ns = w->ns;
	i->bound_ns = w->bound_ns;
	if (got == BRAID_WALK_LOST) {
		i->lost = true;
		return;
	}
	i->got = got;
	i->info = w->info;
	i->uncertain = w->uncertain;
}

int braid_ahead_select(struct braid_ahead *a, size_t runner)
{
	struct braid_ahead_batch *b = &a->batches[runner];
	struct braid_walk *w = &a->walk;
	int got;

	b->asides.bytes = 0;
	a->taken = b;
	a->at = 0;
	while ((got = braid_walk_next(w)) > 0) {
		take_aside(b, w->aside);
		if (got == BRAID_WALK_ASIDE)
			continue;
		note_got(&b->items[a->at - 1], w, got);
		b->items[a->at - 1].aside_end = b->asides.bytes;
	}
	if (!got && w->states)
		got = braid_states_release(w->states);
	if (!got && b->asides.failed)
		got = braid_out_of_memory();
	if (a->at < b->nr)
		__atomic_store_n(&a->over, true, __ATOMIC_RELAXED);
	return got;
}

/* Delivering ---------------------------------------------------------------------------------- */

static int deliver_item(const struct braid_ahead_item *i, struct braid_walk *w,
			const struct braid_walk_ops *ops, void *arg)
{
	int err = 0;

	w->item = &i->item;
	w->ns = i->ns;
	w->bound_ns = i->bound_ns;
	w->uncertain = false;
	if (i->lost)
		err = braid_walk_deliver(w, ops, arg, BRAID_WALK_LOST);
	w->info = i->info;
	w->uncertain = i->uncertain;
	return err ? err : braid_walk_deliver(w, ops, arg, i->got);
}

int braid_ahead_deliver(struct braid_ahead *a, size_t runner, struct braid_walk *w,
			const struct braid_walk_ops *ops, void *arg)
{
	struct braid_ahead_batch *b = &a->batches[runner];
	size_t done = 0, k;
	int err = 0;

	for (k = 0; k < b->nr && !err; k++) {
		const struct braid_ahead_item *i = &b->items[k];

		if (!i->lost && !i->got)
			continue;
		if (i->aside_end > done)
			err = ops->aside(arg, b->asides.data + done, i->aside_end - done);
		done = i->aside_end;
		if (!err)
			err = deliver_item(i, w, ops, arg);
	}
	if (!err && b->asides.bytes > done)
		err = ops->aside(arg, b->asides.data + done, b->asides.bytes - done);
	return err;
}

/* For forms with no further stage ----------------------------------------------- */

struct run {
	struct braid_ahead ahead;
	const struct braid_walk_ops *ops;
	void *arg;
};

static int ahead_fill(void *arg, size_t runner)
{
	struct run *r = arg;

	return braid_ahead_fill(&r->ahead, runner);
}

static int select_items(void *arg, size_t runner)
{
	struct run *r = arg;

	return braid_ahead_select(&r->ahead, runner);
}

static int ahead_deliver(void *arg, size_t runner)
{
	struct run *r = arg;

	return braid_ahead_deliver(&r->ahead, runner, r->ahead.shown, r->ops, r->arg);
}

int braid_ahead_run(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg)
{
	static const struct braid_relay_stage stages[] = {
		{ .run = ahead_fill }, { .run = select_items }, { .run = ahead_deliver },
	};
	struct run r = { .ops = ops, .arg = arg };
	int err;

	if (!braid_ahead_can(w))
		return braid_walk_run(w, ops, arg);
	err = braid_ahead_begin(&r.ahead, w);
	if (!err)
		err = braid_relay_run(stages, sizeof(stages) / sizeof(*stages), &r);
	braid_ahead_end(&r.ahead);
	return err;
}
