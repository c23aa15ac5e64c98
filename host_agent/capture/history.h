/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chunks that a recording without a file keeps in memory for later files. */
#ifndef BRAID_CAPTURE_HISTORY_H
#define BRAID_CAPTURE_HISTORY_H

#include "host_agent/capture/capture.h"

/*
 * Per stream it keeps the chunks with time, names and notes, within bounds for any duration: the
 * newest samples and some of all earlier ones; of everything else the newest.
 */
struct braid_history;

/** braid_history_new - NULL when memory is out */
struct braid_history *braid_history_new(void);

/** braid_history_free - NULL is fine */
void braid_history_free(struct braid_history *history);

/**
 * braid_history_put - handle one chunk
 * @history: keeps or discards it; a STREAM_END discards all of its stream Other parameters as in
 * braid_capture_put().
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
