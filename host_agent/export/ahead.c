// SPDX-License-Identifier: GPL-2.0-or-later
/* Copies items into batches, so that the walk can go on while they are processed. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/ahead.h"
#include "host_agent/util/error.h"

/*
 * The approximate size of a batch: small enough for a CPU's cache, and so large that runners rarely
 * wait.
 */
#define BATCH_ITEMS	2048u		/* and the text of ->aside before the last one */
#define BATCH_BYTES	(256u << 10)

/* An item, and the walk's other values for it. */
struct braid_ahead_item {
	struct braid_item item;		/* ->payload is set on delivery, to ... */
	size_t payload_at;		/* ... this offset in the batch's payloads */
	int got;			/* enum braid_walk_got */
	const struct braid_event_type_info *info;
	s64 ns;
	u64 bound_ns;
	bool uncertain;
};

bool braid_ahead_can(const struct braid_walk *w)
{
	return w->options->two_cpus && !w->source->grows && braid_relay_can();
}

int braid_ahead_begin(struct braid_ahead *a, struct braid_walk *w)
{
	size_t k;

	memset(a, 0, sizeof(*a));
	a->shown = w;
	a->walk = *w;
	a->totals = *w->totals;
	a->walk.totals = &a->totals;
	for (k = 0; k < BRAID_RELAY_RUNNERS; k++) {
		a->batches[k].items = calloc(BATCH_ITEMS + 1, sizeof(*a->batches[k].items));
		if (!a->batches[k].items)
			return braid_out_of_memory();
	}
	return braid_walk_start(&a->walk);
}

void braid_ahead_end(struct braid_ahead *a)
{
	size_t k;

	braid_walk_stop(&a->walk);
	a->walk.totals = a->shown->totals;
	*a->walk.totals = a->totals;
	*a->shown = a->walk;
	for (k = 0; k < BRAID_RELAY_RUNNERS; k++) {
		free(a->batches[k].items);
		braid_text_free(&a->batches[k].payloads);
	}
}

/* Return: whether there was memory. */
static bool copy_payload(struct braid_ahead_batch *b, const void *payload, u32 bytes)
{
	char *at = braid_text_reserve(&b->payloads, bytes + sizeof(u64));

	if (!at)
		return false;
	if (bytes)
		memcpy(at, payload, bytes);
	/* Keep the next one aligned. */
	b->payloads.bytes += (bytes + sizeof(u64) - 1) & -sizeof(u64);
	return true;
}

/* Return: whether there was memory. */
static bool copy_item(struct braid_ahead_batch *b, const struct braid_walk *w, int got)
{
	b->items[b->nr++] = (struct braid_ahead_item){
		.item = *w->item, .payload_at = b->payloads.bytes, .got = got, .info = w->info,
		.ns = w->ns, .bound_ns = w->bound_ns, .uncertain = w->uncertain,
	};
	return copy_payload(b, w->item->payload, w->item->payload_bytes);
}

/* Return: whether there was memory. */
static bool copy_aside(struct braid_ahead_batch *b, struct braid_text *aside)
{
	u32 bytes = aside->bytes;

	b->items[b->nr++] = (struct braid_ahead_item){
		.item.payload_bytes = bytes, .payload_at = b->payloads.bytes, .got = BRAID_WALK_ASIDE,
	};
	aside->bytes = 0;
	return copy_payload(b, aside->data, bytes);
}

int braid_ahead_fill(struct braid_ahead *a, size_t runner)
{
	struct braid_ahead_batch *b = &a->batches[runner];
	int got;

	b->nr = b->payloads.bytes = 0;
	while (b->nr < BATCH_ITEMS && b->payloads.bytes < BATCH_BYTES) {
		got = braid_walk_next(&a->walk);
		if (got <= 0)
			return got;
		if (a->walk.aside && a->walk.aside->bytes && !copy_aside(b, a->walk.aside))
			return braid_out_of_memory();
		if (got != BRAID_WALK_ASIDE && !copy_item(b, &a->walk, got))
			return braid_out_of_memory();
	}
	return 1;
}

int braid_ahead_deliver(struct braid_ahead *a, size_t runner, struct braid_walk *w,
			const struct braid_walk_ops *ops, void *arg)
{
	struct braid_ahead_batch *b = &a->batches[runner];
	int err = 0;
	size_t k;

	for (k = 0; k < b->nr && !err; k++) {
		struct braid_ahead_item *i = &b->items[k];

		i->item.payload = (const u8 *)b->payloads.data + i->payload_at;
		if (i->got == BRAID_WALK_ASIDE) {
			err = ops->aside(arg, (const char *)i->item.payload, i->item.payload_bytes);
			continue;
		}
		w->item = &i->item;
		w->info = i->info;
		w->ns = i->ns;
		w->bound_ns = i->bound_ns;
		w->uncertain = i->uncertain;
		err = braid_walk_deliver(w, ops, arg, i->got);
	}
	return err;
}

/* One thread walks while the other one delivers ----------------------------------------------- */

struct run {
	struct braid_ahead ahead;
	const struct braid_walk_ops *ops;
	void *arg;
};

static int fill(void *arg, size_t runner)
{
	struct run *r = arg;

	return braid_ahead_fill(&r->ahead, runner);
}

static int deliver(void *arg, size_t runner)
{
	struct run *r = arg;

	return braid_ahead_deliver(&r->ahead, runner, r->ahead.shown, r->ops, r->arg);
}

int braid_ahead_run(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg)
{
	static const struct braid_relay_stage stages[] = {
		{ .run = fill }, { .run = deliver },
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
