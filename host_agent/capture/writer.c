// SPDX-License-Identifier: GPL-2.0-or-later
/* Appends chunks to a capture: buffered, checksummed, cut back to whole chunks on failure. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/capture/capture.h"
#include "host_agent/capture/checksum.h"
#include "host_agent/capture/keep.h"
#include "host_agent/capture/output.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define BUFFER_BYTES	(1u << 20)
#define SLACK_BYTES	4096u		/* so that 1 MiB of body fits with its headers */

struct braid_capture_writer {
	int fd;
	int error;		/* of the write that failed; all later ones fail alike */
	bool is_stdout;
	bool sync_at_end;
	u64 number;		/* of the next chunk */
	u64 written;		/* bytes in the file, whole chunks */
	size_t used;		/* bytes in the buffer, whole chunks */
	char path[256];		/* for messages */
	struct braid_output output;	/* of braid_capture_create() */
	u8 *buffer;
	struct braid_capture_keep *keep;	/* it has no file; or NULL */
	struct braid_capture_writer *also;	/* where all goes, too; or NULL */
	int also_error;
};

static struct braid_capture_writer *make_writer(const char *path)
{
	struct braid_capture_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->fd = -1;
	strncpy(w->path, path, sizeof(w->path) - 1);
	w->buffer = aligned_alloc(64, BUFFER_BYTES + SLACK_BYTES);
	if (w->buffer)
		return w;
	free(w);
	return NULL;
}

static int put_head(struct braid_capture_writer **out, struct braid_capture_writer *w,
		    const struct braid_chunk_file *head)
{
	int err = braid_capture_put(w, BRAID_CHUNK_FILE, 0, head, sizeof(*head), NULL, 0);

	if (err)
		braid_capture_abandon(w);
	else
		*out = w;
	return err;
}

int braid_capture_create(struct braid_capture_writer **out, const char *path,
			 const struct braid_chunk_file *head)
{
	bool is_stdout = !strcmp(path, "-");
	struct braid_capture_writer *w = make_writer(is_stdout ? "standard output" : path);
	int err;

	if (!w)
		return braid_fail(-ENOMEM, "cannot create '%s': %s", path, strerror(ENOMEM));
	w->is_stdout = is_stdout;
	w->fd = is_stdout ? STDOUT_FILENO : braid_output_open(&w->output, path);
	if (w->fd >= 0)
		return put_head(out, w, head);
	err = w->fd;
	braid_capture_abandon(w);
	return err;
}

int braid_capture_create_at(struct braid_capture_writer **out, int fd, const char *path,
			    const struct braid_chunk_file *head)
{
	struct braid_capture_writer *w = make_writer(path);

	if (!w) {
		close(fd);
		return braid_fail(-ENOMEM, "cannot write '%s': %s", path, strerror(ENOMEM));
	}
	w->fd = fd;
	return put_head(out, w, head);
}

int braid_capture_create_kept(struct braid_capture_writer **out)
{
	struct braid_capture_writer *w = make_writer("memory");

	if (w)
		w->keep = braid_keep_new();
	if (w && w->keep) {
		*out = w;
		return 0;
	}
	braid_capture_abandon(w);
	return braid_fail(-ENOMEM, "out of memory");
}

int braid_capture_tee(struct braid_capture_writer *w, struct braid_capture_writer *also)
{
	int err = w->also_error;

	w->also = also;
	w->also_error = 0;
	return err ? braid_fail(err, "the snapshot is incomplete: %s", strerror(-err)) : 0;
}

bool braid_capture_tee_failed(const struct braid_capture_writer *w)
{
	return w->also_error;
}

static int put_kept(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		    u32 head_bytes, const void *body, u32 body_bytes)
{
	if (w->also && !w->also_error)
		w->also_error = braid_capture_put(w->also, type, stream, head, head_bytes, body,
						  body_bytes);
	return braid_keep_put(w->keep, type, stream, head, head_bytes, body, body_bytes);
}

void braid_capture_replay(struct braid_capture_writer *w, u32 stream)
{
	if (w->keep && w->also && !w->also_error)
		w->also_error = braid_keep_replay(w->keep, stream, w->also);
}

/* Bytes of whole chunks in the first @bytes of the buffer. */
static size_t whole_chunks(const struct braid_capture_writer *w, size_t bytes)
{
	const struct braid_chunk *chunk;
	size_t at = 0, next;

	while (at < bytes) {
		chunk = (const struct braid_chunk *)(w->buffer + at);
		next = at + sizeof(*chunk) + ((size_t)chunk->payload_bytes + 7) / 8 * 8;
		if (next > bytes)
			break;
		at = next;
	}
	return at;
}

/* A write failed: leave nothing but whole chunks behind. */
static int fail_write(struct braid_capture_writer *w, int err, u64 whole)
{
	w->error = err;
	w->used = 0;
	w->written = whole;
	/* Standard output may hold more than ours. */
	if (!w->is_stdout && ftruncate(w->fd, whole) == 0)
		(void)lseek(w->fd, whole, SEEK_SET);
	return braid_fail(err, "cannot write '%s': %s; it is valid up to byte %llu", w->path,
			  err == -ENOSPC ? "the disk is full" : strerror(-err),
			  (unsigned long long)whole);
}

int braid_capture_flush(struct braid_capture_writer *w)
{
	size_t done = 0;
	ssize_t n;

	if (w->keep) {
		if (w->also && !w->also_error)
			w->also_error = braid_capture_flush(w->also);
		return 0;
	}
	if (w->error)
		return braid_fail(w->error, "cannot write '%s': an earlier write failed: %s",
				  w->path, strerror(-w->error));
	while (done < w->used) {
		n = write(w->fd, w->buffer + done, w->used - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail_write(w, n ? -errno : -EIO, w->written + whole_chunks(w, done));
		done += n;
	}
	w->written += w->used;
	w->used = 0;
	return 0;
}

/* A chunk larger than the buffer goes past it. */
static int put_large(struct braid_capture_writer *w, const struct braid_chunk *chunk,
		     const void *head, u32 head_bytes, const void *body, u32 body_bytes)
{
	static const u8 zero[8];
	u32 padding = -chunk->payload_bytes & 7;
	int err = braid_capture_flush(w);

	if (err)
		return err;
	err = braid_write_all(w->fd, chunk, sizeof(*chunk));
	if (!err)
		err = braid_write_all(w->fd, head, head_bytes);
	if (!err)
		err = braid_write_all(w->fd, body, body_bytes);
	if (!err)
		err = braid_write_all(w->fd, zero, padding);
	if (err)
		return fail_write(w, err, w->written);
	w->written += sizeof(*chunk) + chunk->payload_bytes + padding;
	w->number++;
	return 0;
}

int braid_capture_put(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		      u32 head_bytes, const void *body, u32 body_bytes)
{
	struct braid_chunk chunk = {
		.magic = BRAID_CHUNK_MAGIC,
		.type = type,
		.payload_bytes = head_bytes + body_bytes,
		.stream = stream,
		.number = w->number,
	};
	size_t total = sizeof(chunk) + (((size_t)chunk.payload_bytes + 7) & ~(size_t)7);
	bool in_place = body && body == w->buffer + w->used + sizeof(chunk) + head_bytes;
	u8 *at;
	int err;

	if (w->keep)
		return put_kept(w, type, stream, head, head_bytes, body, body_bytes);
	if (w->error)
		return braid_capture_flush(w);
	if (head_bytes > BRAID_CHUNK_MAX_BYTES || body_bytes > BRAID_CHUNK_MAX_BYTES - head_bytes)
		return braid_fail(-EMSGSIZE, "a chunk of %llu bytes is too large for a capture",
				  (unsigned long long)head_bytes + body_bytes);
	chunk.checksum = braid_chunk_checksum(&chunk, head, head_bytes, body, body_bytes);
	if (total > BUFFER_BYTES + SLACK_BYTES)
		return put_large(w, &chunk, head, head_bytes, body, body_bytes);
	if (total > BUFFER_BYTES + SLACK_BYTES - w->used) {
		err = braid_capture_flush(w);
		if (err)
			return err;
	}
	at = w->buffer + w->used;
	memcpy(at, &chunk, sizeof(chunk));
	if (head_bytes)
		memcpy(at + sizeof(chunk), head, head_bytes);
	if (body_bytes && !in_place)
		memcpy(at + sizeof(chunk) + head_bytes, body, body_bytes);
	memset(at + sizeof(chunk) + chunk.payload_bytes, 0, -chunk.payload_bytes & 7);
	w->used += total;
	w->number++;
	/* A body in place may be needed by the caller still: the next call flushes. */
	return w->used >= BUFFER_BYTES && !in_place ? braid_capture_flush(w) : 0;
}

void *braid_capture_room(struct braid_capture_writer *w, u32 head_bytes, u32 bytes)
{
	size_t total = sizeof(struct braid_chunk) + (size_t)head_bytes + bytes + 8;

	if (total > BUFFER_BYTES + SLACK_BYTES) {
		braid_fail(-EMSGSIZE, "no room for a chunk of %zu bytes at once", total);
		return NULL;
	}
	if (w->keep && w->also && !w->also_error) {
		void *room = braid_capture_room(w->also, head_bytes, bytes);

		if (room)
			return room;
		/* From here on what is taken is in no file. */
		w->also_error = w->also->error ? w->also->error : -EIO;
	}
	if (w->error || (w->used && w->used + total >= BUFFER_BYTES)) {
		if (braid_capture_flush(w))
			return NULL;
	}
	return w->buffer + w->used + sizeof(struct braid_chunk) + head_bytes;
}

int braid_capture_error(const struct braid_capture_writer *w)
{
	return w->error ? w->error : -EIO;
}

u64 braid_capture_bytes(const struct braid_capture_writer *w)
{
	return w->keep ? braid_keep_bytes(w->keep) : w->written + w->used;
}

int braid_capture_publish(struct braid_capture_writer *w)
{
	int err;

	if (w->is_stdout || w->keep)
		return 0;
	/* A file that gets its name has its head: a device, such as /dev/full, had its name before. */
	err = w->error || !*w->output.part ? 0 : braid_capture_flush(w);
	return err ? err : braid_output_publish(&w->output, w->fd);
}

void braid_capture_sync_at_end(struct braid_capture_writer *w)
{
	w->sync_at_end = true;
}

static int sync_at_end(struct braid_capture_writer *w)
{
	/* Pipes and devices have nothing to be synchronized. */
	if (!w->sync_at_end || w->keep || !fsync(w->fd) || errno == EINVAL || errno == EROFS)
		return 0;
	return braid_fail(-errno, "cannot write '%s': %s", w->path, strerror(errno));
}

void braid_capture_abandon(struct braid_capture_writer *w)
{
	if (!w)
		return;
	if (w->error)	/* it was said that it is good up to there */
		braid_capture_publish(w);
	braid_output_discard(&w->output, w->fd);
	if (w->fd >= 0 && !w->is_stdout)
		close(w->fd);
	braid_keep_free(w->keep);
	free(w->buffer);
	free(w);
}

int braid_capture_finish(struct braid_capture_writer *w)
{
	int err = braid_capture_put(w, BRAID_CHUNK_FILE_END, 0, NULL, 0, NULL, 0);

	if (!err)
		err = braid_capture_flush(w);
	if (!err)
		err = sync_at_end(w);
	if (!err)
		err = braid_capture_publish(w);
	if (!err && !w->is_stdout && !w->keep) {
		if (close(w->fd))
			err = braid_fail(-errno, "cannot write '%s': %s", w->path,
					 strerror(errno));
		w->fd = -1;
	}
	braid_capture_abandon(w);
	return err;
}
