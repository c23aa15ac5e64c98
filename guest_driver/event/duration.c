// SPDX-License-Identifier: GPL-2.0
/* Pairs the begin and the end of what tasks do. */
#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "guest_driver/event/duration.h"

#define TABLE_BITS	10
#define PROBES		8u	/* a key is in one of so many slots; others of them may be free */

struct duration {
	atomic64_t key;		/* 0: free */
	u64 began;		/* 0: not stored yet */
};

struct braid_durations {
	struct duration at[1 << TABLE_BITS];
};

struct braid_durations *braid_durations_make(void)
{
	return kvzalloc(sizeof(struct braid_durations), GFP_KERNEL);
}

void braid_durations_free(struct braid_durations *d)
{
	kvfree(d);
}

static struct duration *braid_duration_slot(struct braid_durations *d, u64 key, u32 probe)
{
	return &d->at[(hash_64(key, TABLE_BITS) + probe) & ((1 << TABLE_BITS) - 1)];
}

notrace bool braid_duration_begin(struct braid_durations *d, u64 key, u64 now)
{
	struct duration *slot;
	u32 k;

	for (k = 0; k < PROBES; k++) {
		slot = braid_duration_slot(d, key, k);
		if (atomic64_read(&slot->key) == key) {
			WRITE_ONCE(slot->began, now);
			return true;
		}
	}
	for (k = 0; k < PROBES; k++) {
		slot = braid_duration_slot(d, key, k);
		if (atomic64_read(&slot->key) || atomic64_cmpxchg(&slot->key, 0, key))
			continue;
		WRITE_ONCE(slot->began, now);
		return true;
	}
	return false;
}

/* An interrupt between the two loops above may have taken a slot of its own: all are freed. */
notrace u64 braid_duration_end(struct braid_durations *d, u64 key)
{
	u64 began, found = 0;
	struct duration *slot;
	u32 k;

	for (k = 0; k < PROBES; k++) {
		slot = braid_duration_slot(d, key, k);
		if (atomic64_read(&slot->key) != key)
			continue;
		began = READ_ONCE(slot->began);
		found = found ?: began;
		WRITE_ONCE(slot->began, 0);
		atomic64_set_release(&slot->key, 0);
	}
	return found;
}
