// SPDX-License-Identifier: GPL-2.0-or-later
/* A capture without a file: its chunks go to a history, and for a while to a file too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/history.h"
#include "host_agent/capture/sink.h"
#include "host_agent/util/error.h"

#define ROOM_BYTES	((1u << 20) + 4096u)	/* a body of 1 MiB, its head, and padding */

struct history_writer {
	struct braid_capture_writer base;
	struct braid_history *history;
	struct braid_capture_writer *also;	/* or NULL */
	u8 *scratch;				/* for bodies that go to no file */
};

static struct history_writer *history_writer_of(struct braid_capture_writer *w)
{
	return (struct history_writer *)w;
}

/* The file that is written to also; NULL without one, or after one failed. */
static struct braid_capture_writer *tee_of(struct braid_capture_writer *w)
{
	return w->tee_error ? NULL : history_writer_of(w)->also;
}

static int history_writer_put(struct braid_capture_writer *w, u16 type, u32 stream,
			      const void *head,
			      u32 head_bytes, const void *body, u32 body_bytes)
{
	struct braid_capture_writer *also = tee_of(w);

	if (also)
		w->tee_error = braid_capture_put(also, type, stream, head, head_bytes, body,
						 body_bytes);
	return braid_history_put(history_writer_of(w)->history, type, stream, head, head_bytes,
				 body, body_bytes);
}

static void *history_writer_reserve(struct braid_capture_writer *w, u32 head_bytes, u32 bytes)
{
	struct braid_capture_writer *also = tee_of(w);
	size_t total = (size_t)head_bytes + bytes;
	void *there;

	if (also) {
		there = braid_capture_reserve(also, head_bytes, bytes);
		if (there)
			return there;
		/* From here on recorded data is in no file. */
		w->tee_error = braid_capture_error(also);
	}
	if (total <= ROOM_BYTES)
		return history_writer_of(w)->scratch;
	braid_fail(-EMSGSIZE, "no room for a chunk of %zu bytes at once", total);
	return NULL;
}

static int history_writer_flush(struct braid_capture_writer *w)
{
	struct braid_capture_writer *also = tee_of(w);

	if (also)
		w->tee_error = braid_capture_flush(also);
	return 0;
}

static int nothing(struct braid_capture_writer *w)
{
	(void)w;
	return 0;
}

static u64 bytes(const struct braid_capture_writer *w)
{
	return braid_history_bytes(((const struct history_writer *)w)->history);
}

static bool never_full(const struct braid_capture_writer *w)
{
	(void)w;
	return false;
}

static int tee(struct braid_capture_writer *w, struct braid_capture_writer *also)
{
	int err = w->tee_error;

	history_writer_of(w)->also = also;
	w->tee_error = 0;
	return err ? braid_fail(err, "the snapshot is incomplete: %s", strerror(-err)) : 0;
}

static void replay(struct braid_capture_writer *w, u32 stream)
{
	struct braid_capture_writer *also = tee_of(w);

	if (also)
		w->tee_error = braid_history_replay(history_writer_of(w)->history, stream, also);
}

static void history_writer_release(struct braid_capture_writer *w)
{
	braid_history_free(history_writer_of(w)->history);
	free(history_writer_of(w)->scratch);
	free(w);
}

int braid_capture_create_history(struct braid_capture_writer **out)
{
	static const struct braid_capture_ops ops = {
		.put = history_writer_put,
		.reserve = history_writer_reserve,
		.flush = history_writer_flush,
		.settle = history_writer_flush,
		.publish = nothing,
		.close = nothing,
		.bytes = bytes,
		.written = bytes,
		.full = never_full,
		.tee = tee,
		.replay = replay,
		.free = history_writer_release,
	};
	struct history_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return braid_out_of_memory();
	w->base.ops = &ops;
	w->history = braid_history_new();
	w->scratch = aligned_alloc(64, ROOM_BYTES);
	*out = &w->base;
	if (w->history && w->scratch)
		return 0;
	history_writer_release(&w->base);
	return braid_out_of_memory();
}
