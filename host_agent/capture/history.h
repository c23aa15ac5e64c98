/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a recording that writes no file yet keeps in memory, for the files to come. */
#ifndef BRAID_CAPTURE_HISTORY_H
#define BRAID_CAPTURE_HISTORY_H

#include "host_agent/capture/capture.h"

/*
 * Keeps the clock samples, names and notes of each stream, within a bound however long a recording
 * takes: of samples the newest and some of all the time before, of all else the newest.
 */
struct braid_history;

/** braid_history_new - NULL when memory is out */
struct braid_history *braid_history_new(void);

/** braid_history_free - NULL is fine */
void braid_history_free(struct braid_history *history);

/**
 * braid_history_put - a chunk passes by
 * @history: keeps it, or not; a STREAM_END forgets all of its stream
 * Other parameters as in braid_capture_put().
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_history_put(struct braid_history *history, u16 type, u32 stream, const void *head,
		      u32 head_bytes, const void *body, u32 body_bytes);

/** braid_history_bytes - of memory, kept now */
u64 braid_history_bytes(const struct braid_history *history);

/**
 * braid_history_replay - put all that is kept of a stream
 * @to: where
 *
 * Return: 0, or -errno with braid_fail() of braid_capture_put().
 */
int braid_history_replay(const struct braid_history *history, u32 stream,
			 struct braid_capture_writer *to);

#endif /* BRAID_CAPTURE_HISTORY_H */
