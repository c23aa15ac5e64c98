// SPDX-License-Identifier: GPL-2.0-or-later
/* Appends chunks to a file: buffered, checksummed, cut back to whole chunks on failure. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/capture/output.h"
#include "host_agent/capture/sink.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define BUFFER_BYTES	(1u << 20)
#define SLACK_BYTES	4096u		/* so that 1 MiB of body fits with its headers */

struct capture_file {
	struct braid_capture_writer base;
	int fd;
	bool is_stdout;
	u64 number;		/* of the next chunk */
	u64 written;		/* bytes in the file, whole chunks */
	size_t used;		/* bytes in the buffer, whole chunks */
	char path[256];		/* for messages */
	struct braid_output output;	/* of braid_capture_create() */
	u8 *buffer;
};

static struct capture_file *of(struct braid_capture_writer *w)
{
	return (struct capture_file *)w;
}

/* Bytes of whole chunks in the first @bytes of the buffer. */
static size_t whole_chunks(const struct capture_file *f, size_t bytes)
{
	const struct braid_chunk *chunk;
	size_t at = 0, next;

	while (at < bytes) {
		chunk = (const struct braid_chunk *)(f->buffer + at);
		next = at + sizeof(*chunk) + ((size_t)chunk->payload_bytes + 7) / 8 * 8;
		if (next > bytes)
			break;
		at = next;
	}
	return at;
}

/* A write failed: leave nothing but whole chunks behind. */
static int fail_write(struct capture_file *f, int err, u64 whole)
{
	f->base.error = err;
	f->used = 0;
	f->written = whole;
	/* Standard output may hold more than ours. */
	if (!f->is_stdout && ftruncate(f->fd, whole) == 0)
		(void)lseek(f->fd, whole, SEEK_SET);
	return braid_fail(err, "cannot write '%s': %s; it is valid up to byte %llu", f->path,
			  err == -ENOSPC ? "the disk is full" : strerror(-err),
			  (unsigned long long)whole);
}

static int flush(struct braid_capture_writer *w)
{
	struct capture_file *f = of(w);
	size_t done = 0;
	ssize_t n;

	if (w->error)
		return braid_fail(w->error, "cannot write '%s': an earlier write failed: %s",
				  f->path, strerror(-w->error));
	while (done < f->used) {
		n = write(f->fd, f->buffer + done, f->used - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail_write(f, n ? -errno : -EIO, f->written + whole_chunks(f, done));
		done += n;
	}
	f->written += f->used;
	f->used = 0;
	return 0;
}

/* A chunk larger than the buffer goes past it. */
static int put_large(struct capture_file *f, const struct braid_chunk *chunk,
		     const void *head, u32 head_bytes, const void *body, u32 body_bytes)
{
	static const u8 zero[8];
	u32 padding = -chunk->payload_bytes & 7;
	int err = flush(&f->base);

	if (err)
		return err;
	err = braid_write_all(f->fd, chunk, sizeof(*chunk));
	if (!err)
		err = braid_write_all(f->fd, head, head_bytes);
	if (!err)
		err = braid_write_all(f->fd, body, body_bytes);
	if (!err)
		err = braid_write_all(f->fd, zero, padding);
	if (err)
		return fail_write(f, err, f->written);
	f->written += sizeof(*chunk) + chunk->payload_bytes + padding;
	f->number++;
	return 0;
}

static int put(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
	       u32 head_bytes, const void *body, u32 body_bytes)
{
	struct capture_file *f = of(w);
	struct braid_chunk chunk = {
		.magic = BRAID_CHUNK_MAGIC,
		.type = type,
		.payload_bytes = head_bytes + body_bytes,
		.stream = stream,
		.number = f->number,
	};
	size_t total = sizeof(chunk) + (((size_t)chunk.payload_bytes + 7) & ~(size_t)7);
	bool in_place = body && body == f->buffer + f->used + sizeof(chunk) + head_bytes;
	u8 *at;
	int err;

	if (w->error)
		return flush(w);
	if (head_bytes > BRAID_CHUNK_MAX_BYTES || body_bytes > BRAID_CHUNK_MAX_BYTES - head_bytes)
		return braid_fail(-EMSGSIZE, "a chunk of %llu bytes is too large for a capture",
				  (unsigned long long)head_bytes + body_bytes);
	chunk.checksum = braid_chunk_checksum(&chunk, head, head_bytes, body, body_bytes);
	if (total > BUFFER_BYTES + SLACK_BYTES)
		return put_large(f, &chunk, head, head_bytes, body, body_bytes);
	if (total > BUFFER_BYTES + SLACK_BYTES - f->used) {
		err = flush(w);
		if (err)
			return err;
	}
	at = f->buffer + f->used;
	memcpy(at, &chunk, sizeof(chunk));
	if (head_bytes)
		memcpy(at + sizeof(chunk), head, head_bytes);
	if (body_bytes && !in_place)
		memcpy(at + sizeof(chunk) + head_bytes, body, body_bytes);
	memset(at + sizeof(chunk) + chunk.payload_bytes, 0, -chunk.payload_bytes & 7);
	f->used += total;
	f->number++;
	/* A body in place may be needed by the caller still: the next call flushes. */
	return f->used >= BUFFER_BYTES && !in_place ? flush(w) : 0;
}

static void *room(struct braid_capture_writer *w, u32 head_bytes, u32 bytes)
{
	struct capture_file *f = of(w);
	size_t total = sizeof(struct braid_chunk) + (size_t)head_bytes + bytes + 8;

	if (total > BUFFER_BYTES + SLACK_BYTES) {
		braid_fail(-EMSGSIZE, "no room for a chunk of %zu bytes at once", total);
		return NULL;
	}
	if (w->error || (f->used && f->used + total >= BUFFER_BYTES)) {
		if (flush(w))
			return NULL;
	}
	return f->buffer + f->used + sizeof(struct braid_chunk) + head_bytes;
}

static u64 bytes(const struct braid_capture_writer *w)
{
	const struct capture_file *f = (const struct capture_file *)w;

	return f->written + f->used;
}

static int publish(struct braid_capture_writer *w)
{
	struct capture_file *f = of(w);
	int err;

	if (f->is_stdout)
		return 0;
	/* A file that gets its name has its head: a device, such as /dev/full, had its name before. */
	err = w->error || !*f->output.part ? 0 : flush(w);
	return err ? err : braid_output_publish(&f->output, f->fd);
}

static int sync_at_end(const struct capture_file *f)
{
	/* Pipes and devices have nothing to be synchronized. */
	if (!f->base.sync_at_end || !fsync(f->fd) || errno == EINVAL || errno == EROFS)
		return 0;
	return braid_fail(-errno, "cannot write '%s': %s", f->path, strerror(errno));
}

static int close_file(struct braid_capture_writer *w)
{
	struct capture_file *f = of(w);
	int err = sync_at_end(f);

	if (!err)
		err = publish(w);
	if (err || f->is_stdout)
		return err;
	if (close(f->fd))
		err = braid_fail(-errno, "cannot write '%s': %s", f->path, strerror(errno));
	f->fd = -1;
	return err;
}

static void release(struct braid_capture_writer *w)
{
	struct capture_file *f = of(w);

	if (w->error)	/* it was said that it is good up to there */
		publish(w);
	braid_output_discard(&f->output, f->fd);
	if (f->fd >= 0 && !f->is_stdout)
		close(f->fd);
	free(f->buffer);
	free(f);
}

static struct capture_file *make_file(const char *path)
{
	static const struct braid_capture_ops ops = {
		.put = put,
		.room = room,
		.flush = flush,
		.publish = publish,
		.close = close_file,
		.bytes = bytes,
		.free = release,
	};
	struct capture_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->base.ops = &ops;
	f->fd = -1;
	strncpy(f->path, path, sizeof(f->path) - 1);
	f->buffer = aligned_alloc(64, BUFFER_BYTES + SLACK_BYTES);
	if (f->buffer)
		return f;
	free(f);
	return NULL;
}

static int put_head(struct braid_capture_writer **out, struct capture_file *f,
		    const struct braid_chunk_file *head)
{
	int err = put(&f->base, BRAID_CHUNK_FILE, 0, head, sizeof(*head), NULL, 0);

	if (err)
		release(&f->base);
	else
		*out = &f->base;
	return err;
}

int braid_capture_create(struct braid_capture_writer **out, const char *path,
			 const struct braid_chunk_file *head)
{
	bool is_stdout = !strcmp(path, "-");
	struct capture_file *f = make_file(is_stdout ? "standard output" : path);
	int err;

	if (!f)
		return braid_fail(-ENOMEM, "cannot create '%s': %s", path, strerror(ENOMEM));
	f->is_stdout = is_stdout;
	f->fd = is_stdout ? STDOUT_FILENO : braid_output_open(&f->output, path);
	if (f->fd >= 0)
		return put_head(out, f, head);
	err = f->fd;
	release(&f->base);
	return err;
}

int braid_capture_create_at(struct braid_capture_writer **out, int fd, const char *path,
			    const struct braid_chunk_file *head)
{
	struct capture_file *f = make_file(path);

	if (!f) {
		close(fd);
		return braid_fail(-ENOMEM, "cannot write '%s': %s", path, strerror(ENOMEM));
	}
	f->fd = fd;
	return put_head(out, f, head);
}
