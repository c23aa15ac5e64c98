// SPDX-License-Identifier: GPL-2.0-or-later
/* Sums of durations by a key, in bounded memory. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/analyze/sums.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define NR_SLOTS	(2u * BRAID_MAX_SUMS)

int braid_sums_begin(struct braid_sums *x)
{
	x->slots = calloc(NR_SLOTS, sizeof(*x->slots));
	return x->slots ? 0 : braid_out_of_memory();
}

static bool same(const struct braid_sum_key *a, const struct braid_sum_key *b)
{
	return a->vcpu == b->vcpu && a->task == b->task && a->reason == b->reason &&
	       a->detail == b->detail && a->level == b->level &&
	       braid_culprit_same(&a->culprit, &b->culprit);
}

static u64 mix(u64 hash, u64 value)
{
	return (hash ^ value) * 0x9e3779b97f4a7c15ULL;
}

static u32 *slot_of(const struct braid_sums *x, const struct braid_sum_key *key)
{
	u64 hash = mix(0, (u64)key->vcpu << 32 | (u32)key->task);
	u32 at, *slot;

	hash = mix(hash >> 7 ^ hash, key->reason ^ (u64)key->culprit.kind << 56);
	hash = mix(hash >> 7 ^ hash, (u64)(u32)key->culprit.id << 32 | key->culprit.vcpu);
	hash = mix(hash >> 7 ^ hash, (u32)key->culprit.task);
	hash = mix(hash >> 7 ^ hash, key->detail << 2 ^ key->level);
	/* Half of the slots stay free. */
	for (at = hash >> 40; ; at++) {
		slot = &x->slots[at & (NR_SLOTS - 1)];
		if (!*slot || same(&x->all[*slot - 1]->key, key))
			return slot;
	}
}

static struct braid_sum *sum_of(struct braid_sums *x, const struct braid_sum_key *key)
{
	static const struct braid_sum_key late = { .vcpu = BRAID_NO_VCPU };
	u32 *slot = slot_of(x, key);
	struct braid_sum *sum;

	if (!*slot && x->nr >= BRAID_MAX_SUMS - 1) {
		key = &late;
		slot = slot_of(x, key);
	}
	if (*slot)
		return x->all[*slot - 1];
	sum = calloc(1, sizeof(*sum));
	if (!sum || braid_array_push(x->all, x->nr, x->capacity, sum)) {
		free(sum);
		return NULL;
	}
	sum->key = *key;
	*slot = x->nr;
	return sum;
}

int braid_sums_add(struct braid_sums *x, const struct braid_sum_key *key, u64 ns, s64 at_ns,
		   struct braid_sum **out)
{
	struct braid_sum *sum = sum_of(x, key);

	if (!sum)
		return braid_out_of_memory();
	sum->count++;
	sum->total_ns += ns;
	braid_histogram_add(&sum->histogram, ns);
	if (ns > sum->worst_ns) {
		sum->worst_ns = ns;
		sum->worst_at_ns = at_ns;
	}
	x->count++;
	x->total_ns += ns;
	if (out)
		*out = sum;
	return 0;
}

void braid_sums_merge(struct braid_sum *to, const struct braid_sum *from)
{
	u32 k;

	to->count += from->count;
	to->total_ns += from->total_ns;
	for (k = 0; k < BRAID_NR_VCPU_STATES; k++)
		to->ns[k] += from->ns[k];
	braid_histogram_merge(&to->histogram, &from->histogram);
	if (from->worst_ns > to->worst_ns) {
		to->worst_ns = from->worst_ns;
		to->worst_at_ns = from->worst_at_ns;
	}
}

void braid_sums_sort(struct braid_sums *x, int (*compare)(const void *a, const void *b))
{
	if (x->nr)
		qsort(x->all, x->nr, sizeof(*x->all), compare);
}

void braid_sums_free(struct braid_sums *x)
{
	size_t k;

	for (k = 0; k < x->nr; k++)
		free(x->all[k]);
	free(x->all);
	free(x->slots);
}
