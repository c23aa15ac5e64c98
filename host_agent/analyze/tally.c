// SPDX-License-Identifier: GPL-2.0-or-later
/* Adds up what each culprit took of a vCPU's open time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "host_agent/analyze/tally.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define FIRST_BUCKETS	256u

int braid_tally_begin(struct braid_tally *t, u32 nr_vcpus)
{
	*t = (struct braid_tally){ 0 };
	/* Without the seed, times are still right. */
	if (getrandom(&t->seed, sizeof(t->seed), GRND_NONBLOCK) != sizeof(t->seed))
		t->seed = (uintptr_t)t;
	t->lanes = calloc((size_t)nr_vcpus + 1, sizeof(*t->lanes));
	t->buckets = calloc(FIRST_BUCKETS, sizeof(*t->buckets));
	if (!t->lanes || !t->buckets)
		return braid_out_of_memory();
	t->nr_buckets = FIRST_BUCKETS;
	return 0;
}

static u64 mix(u64 hash, u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

static u32 *bucket_of(const struct braid_tally *t, u32 vcpu, const struct braid_culprit *c)
{
	u64 hash = mix(t->seed, (u64)vcpu << 32 | (u32)c->id);

	hash = mix(hash ^ t->seed >> 7, (u64)c->vcpu << 32 | (u32)c->task);
	hash = mix(hash ^ t->seed >> 13, c->kind);
	return &t->buckets[hash >> 32 & (t->nr_buckets - 1)];
}

static struct braid_tally_cell *find(const struct braid_tally *t, u32 vcpu,
				     const struct braid_culprit *culprit)
{
	u32 at = *bucket_of(t, vcpu, culprit);
	struct braid_tally_cell *cell;

	for (; at; at = cell->in_bucket) {
		cell = &t->cells[at - 1];
		if (cell->lane == vcpu && braid_culprit_same(&cell->share.culprit, culprit))
			return cell;
	}
	return NULL;
}

static void into_bucket(struct braid_tally *t, u32 number)
{
	struct braid_tally_cell *cell = &t->cells[number - 1];
	u32 *bucket = bucket_of(t, cell->lane, &cell->share.culprit);

	cell->in_bucket = *bucket;
	*bucket = number;
}

static void out_of_bucket(struct braid_tally *t, u32 number)
{
	struct braid_tally_cell *cell = &t->cells[number - 1];
	u32 *at = bucket_of(t, cell->lane, &cell->share.culprit);

	while (*at != number)
		at = &t->cells[*at - 1].in_bucket;
	*at = cell->in_bucket;
}

/* Twice as many buckets; all cells are in use. */
static int grow(struct braid_tally *t)
{
	u32 *buckets = calloc(2 * (size_t)t->nr_buckets, sizeof(*buckets));
	u32 k;

	if (!buckets)
		return -ENOMEM;
	free(t->buckets);
	t->buckets = buckets;
	t->nr_buckets *= 2;
	for (k = 1; k <= t->nr_cells; k++)
		into_bucket(t, k);
	return 0;
}

/* A cell that is in no bucket; *number 0: there are too many. Return: 0 or -ENOMEM. */
static int take_cell(struct braid_tally *t, u32 *number)
{
	*number = t->first_free;
	if (*number) {
		t->first_free = t->cells[*number - 1].next;
		return 0;
	}
	if (t->nr_cells == BRAID_TALLY_MOST)
		return 0;
	if ((t->nr_cells >= t->nr_buckets && grow(t)) ||
	    braid_array_push(t->cells, t->nr_cells, t->capacity, (struct braid_tally_cell){ 0 }))
		return -ENOMEM;
	*number = t->nr_cells;
	return 0;
}

int braid_tally_add(struct braid_tally *t, u32 vcpu, const struct braid_culprit *culprit, u64 ns)
{
	struct braid_tally_lane *lane = &t->lanes[vcpu];
	struct braid_tally_cell *cell = find(t, vcpu, culprit);
	u32 number;

	if (cell) {
		cell->share.ns += ns;
		return 0;
	}
	if (take_cell(t, &number))
		return braid_out_of_memory();
	if (!number) {
		lane->others_ns += ns;
		return 0;
	}
	t->cells[number - 1] = (struct braid_tally_cell){
		.share = { .culprit = *culprit, .ns = ns }, .lane = vcpu, .next = lane->first,
	};
	lane->first = number;
	into_bucket(t, number);
	return 0;
}

const struct braid_share *braid_tally_next(const struct braid_tally *t, u32 vcpu, u32 *at)
{
	*at = *at ? t->cells[*at - 1].next : t->lanes[vcpu].first;
	return *at ? &t->cells[*at - 1].share : NULL;
}

u64 braid_tally_others(const struct braid_tally *t, u32 vcpu)
{
	return t->lanes[vcpu].others_ns;
}

void braid_tally_shares(const struct braid_tally *t, u32 vcpu, struct braid_shares *out)
{
	const struct braid_share *share;
	u32 at = 0;

	*out = (struct braid_shares){
		.others = !!t->lanes[vcpu].others_ns, .others_ns = t->lanes[vcpu].others_ns,
	};
	while ((share = braid_tally_next(t, vcpu, &at)))
		braid_shares_keep(out, share);
}

void braid_tally_clear(struct braid_tally *t, u32 vcpu)
{
	struct braid_tally_lane *lane = &t->lanes[vcpu];
	u32 number, next;

	for (number = lane->first; number; number = next) {
		next = t->cells[number - 1].next;
		out_of_bucket(t, number);
		t->cells[number - 1].next = t->first_free;
		t->first_free = number;
	}
	*lane = (struct braid_tally_lane){ 0 };
}

void braid_tally_free(struct braid_tally *t)
{
	free(t->lanes);
	free(t->cells);
	free(t->buckets);
	*t = (struct braid_tally){ 0 };
}
