/* SPDX-License-Identifier: GPL-2.0 */
/* When tasks began what is to end: a table of fixed size, used in any context. */
#ifndef BRAID_EVENT_DURATION_H
#define BRAID_EVENT_DURATION_H

#include <linux/types.h>

/*
 * A key is used by one CPU at a time: that of a task, where the task runs. Contexts that interrupt
 * the task there may use the same key.
 */
struct braid_durations;

/** braid_durations_make - an empty table, or NULL. May sleep */
struct braid_durations *braid_durations_make(void);
void braid_durations_free(struct braid_durations *d);

/**
 * braid_duration_begin - note when a key began; a second time replaces the first
 * @d: the table
 * @key: not 0
 * @now: not 0
 *
 * Return: false: no room.
 */
bool braid_duration_begin(struct braid_durations *d, u64 key, u64 now);

/** braid_duration_end - when it began, and forget it; 0: unknown */
u64 braid_duration_end(struct braid_durations *d, u64 key);

#endif /* BRAID_EVENT_DURATION_H */
