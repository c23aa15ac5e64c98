// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes chunks to a sink. */
#include <errno.h>

#include "host_agent/capture/sink.h"

int braid_capture_put(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		      u32 head_bytes, const void *body, u32 body_bytes)
{
	return w->ops->put(w, type, stream, head, head_bytes, body, body_bytes);
}

void *braid_capture_reserve(struct braid_capture_writer *w, u32 head_bytes, u32 bytes)
{
	return w->ops->reserve(w, head_bytes, bytes);
}

int braid_capture_flush(struct braid_capture_writer *w)
{
	return w->ops->flush(w);
}

int braid_capture_settle(struct braid_capture_writer *w)
{
	return w->ops->settle(w);
}

bool braid_capture_full(const struct braid_capture_writer *w)
{
	return w->ops->full(w);
}

int braid_capture_publish(struct braid_capture_writer *w)
{
	return w->ops->publish(w);
}

u64 braid_capture_bytes(const struct braid_capture_writer *w)
{
	return w->ops->bytes(w);
}

u64 braid_capture_written(const struct braid_capture_writer *w)
{
	return w->ops->written(w);
}

int braid_capture_error(const struct braid_capture_writer *w)
{
	return w->error ? w->error : -EIO;
}

void braid_capture_sync_at_end(struct braid_capture_writer *w)
{
	w->sync_at_end = true;
}

int braid_capture_finish(struct braid_capture_writer *w)
{
	int err = braid_capture_put(w, BRAID_CHUNK_FILE_END, 0, NULL, 0, NULL, 0);

	if (!err)
		err = braid_capture_flush(w);
	if (!err)
		err = w->ops->close(w);
	braid_capture_abandon(w);
	return err;
}

void braid_capture_abandon(struct braid_capture_writer *w)
{
	if (w)
		w->ops->free(w);
}
