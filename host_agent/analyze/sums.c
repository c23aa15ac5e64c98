// SPDX-License-Identifier: GPL-2.0-or-later
/* Sums of durations by a key, in bounded memory. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/analyze/sums.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

static bool sums_same(const void *in, u32 number, const void *key)
{
	const struct braid_sum_key *a = &((struct braid_sum *const *)in)[number]->key, *b = key;

	return a->vcpu == b->vcpu && a->task == b->task && a->reason == b->reason &&
	       a->detail == b->detail && a->level == b->level &&
	       braid_culprit_same(&a->culprit, &b->culprit);
}

static u32 sums_hash_of(const struct braid_sum_key *key)
{
	const u64 parts[] = {
		(u64)key->vcpu << 32 | (u32)key->task, key->reason, key->detail,
		(u64)key->culprit.kind << 32 | key->level,
		(u64)key->culprit.vcpu << 32 | (u32)key->culprit.task, key->culprit.id,
	};

	return braid_hash_of(parts, sizeof(parts), 0);
}

static int sum_of(struct braid_sums *x, const struct braid_sum_key *key, struct braid_sum **out)
{
	static const struct braid_sum_key late = { .vcpu = BRAID_NO_VCPU };
	u32 hash = sums_hash_of(key), number = braid_hash_find(&x->by_key, hash, sums_same, x->all,
							       key);

	if (number == BRAID_HASH_NONE && x->nr >= BRAID_MAX_SUMS - 1) {
		key = &late;
		hash = sums_hash_of(key);
		number = braid_hash_find(&x->by_key, hash, sums_same, x->all, key);
	}
	if (number != BRAID_HASH_NONE) {
		*out = x->all[number];
		return 0;
	}
	*out = calloc(1, sizeof(**out));
	if (!*out || braid_hash_reserve(&x->by_key, BRAID_MAX_SUMS) ||
	    braid_array_push(x->all, x->nr, x->capacity, *out)) {
		free(*out);
		return braid_out_of_memory();
	}
	(*out)->key = *key;
	braid_hash_put(&x->by_key, hash, x->nr - 1);
	return 0;
}

int braid_sums_add(struct braid_sums *x, const struct braid_sum_key *key, u64 ns, s64 at_ns,
		   struct braid_sum **out)
{
	struct braid_sum *sum;
	int err = sum_of(x, key, &sum);

	if (err)
		return err;
	sum->count++;
	sum->total_ns += ns;
	braid_histogram_add(&sum->histogram, ns, at_ns);
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
}

void braid_sums_sort(struct braid_sums *x, int (*compare)(const void *a, const void *b))
{
	if (x->nr)
		qsort(x->all, x->nr, sizeof(*x->all), compare);
}

int braid_sum_by_total(const void *a, const void *b)
{
	const struct braid_sum *x = *(struct braid_sum *const *)a;
	const struct braid_sum *y = *(struct braid_sum *const *)b;

	return braid_compare(y->total_ns, x->total_ns) ?:
	       braid_compare(x->histogram.longest_at_ns, y->histogram.longest_at_ns);
}

void braid_sum_put(const struct braid_sum *sum, struct braid_table *t)
{
	braid_table_number(t, braid_histogram_percentile(&sum->histogram, 50));
	braid_table_number(t, braid_histogram_percentile(&sum->histogram, 99));
	braid_table_number(t, sum->histogram.longest_ns);
	braid_table_number(t, sum->histogram.longest_at_ns);
}

void braid_sums_free(struct braid_sums *x)
{
	size_t k;

	for (k = 0; k < x->nr; k++)
		free(x->all[k]);
	free(x->all);
	braid_hash_free(&x->by_key);
}
