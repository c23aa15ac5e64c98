// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Appends chunks to a file, by itself or through a process that writes: buffered, checksummed, cut
 * back to whole chunks on failure.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/capture/flusher.h"
#include "host_agent/capture/indexer.h"
#include "host_agent/capture/output.h"
#include "host_agent/capture/queue.h"
#include "host_agent/capture/sink.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define BUFFER_BYTES	(1u << 20)
#define SLACK_BYTES	(BRAID_QUEUE_SLOT_BYTES - BUFFER_BYTES)	/* so that 1 MiB of body fits with
								   its headers */

struct capture_file {
	struct braid_capture_writer base;
	int fd;
	bool is_stdout;
	u64 number;		/* of the next chunk */
	u64 written;		/* bytes that we wrote to the file, whole chunks */
	size_t used;		/* bytes in the buffer, whole chunks */
	char path[256];		/* for messages */
	struct braid_output output;	/* of braid_capture_create() */
	u8 *buffer;
	struct braid_flusher *flusher;	/* the process that writes; NULL: we do */
	struct braid_indexer *indexer;
	bool reserved;		/* the buffer's free end is in use: nothing may go there before it */
};

static struct capture_file *file_of(struct braid_capture_writer *w)
{
	return (struct capture_file *)w;
}

/* Bytes of whole chunks in the first @bytes of @data. */
static size_t whole_chunks(const u8 *data, size_t bytes)
{
	const struct braid_chunk *chunk;
	size_t at = 0, next;

	while (at < bytes) {
		chunk = (const struct braid_chunk *)(data + at);
		next = at + sizeof(*chunk) + ((size_t)chunk->payload_bytes + 7) / 8 * 8;
		if (next > bytes)
			break;
		at = next;
	}
	return at;
}

/* A write failed: truncate to whole chunks. */
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

static int failed_before(const struct capture_file *f)
{
	return braid_fail(f->base.error, "cannot write '%s': an earlier write failed: %s", f->path,
			  strerror(-f->base.error));
}

/* The process that writes has failed with @err, if not 0. */
static int check_flusher(struct capture_file *f, int err)
{
	const u8 *data;
	u64 bytes, whole;

	if (f->base.error)
		return failed_before(f);
	if (!err)
		return 0;
	if (braid_flusher_packs(f->flusher))
		return fail_write(f, err, braid_flusher_packed(f->flusher));
	bytes = braid_flusher_failed(f->flusher, &data);
	whole = f->written + braid_flusher_written(f->flusher) - bytes;
	return fail_write(f, err, whole + whole_chunks(data, bytes));
}

/* Waits until all is in the file. */
static int file_settle(struct braid_capture_writer *w)
{
	struct capture_file *f = file_of(w);

	return f->flusher ? check_flusher(f, braid_flusher_settle(f->flusher)) : w->ops->flush(w);
}

static int file_flush(struct braid_capture_writer *w)
{
	struct capture_file *f = file_of(w);
	size_t done = 0;
	ssize_t n;

	if (f->flusher)
		return check_flusher(f, braid_flusher_wake(f->flusher));
	if (w->error)
		return failed_before(f);
	while (done < f->used) {
		n = write(f->fd, f->buffer + done, f->used - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail_write(f, n ? -errno : -EIO,
					  f->written + whole_chunks(f->buffer, done));
		done += n;
	}
	f->written += f->used;
	f->used = 0;
	return 0;
}

static u64 bytes_written(const struct braid_capture_writer *w)
{
	const struct capture_file *f = (const struct capture_file *)w;

	return f->written + (f->flusher ? braid_flusher_written(f->flusher) : 0);
}

/* Where the next chunk, of @total bytes, goes; NULL with braid_fail(). */
static u8 *file_place(struct capture_file *f, size_t total)
{
	u8 *at;

	if (f->flusher) {
		at = braid_flusher_place(f->flusher, total);
		if (!at)
			check_flusher(f, braid_flusher_error(f->flusher));
		return at;
	}
	if (total > BUFFER_BYTES + SLACK_BYTES - f->used && file_flush(&f->base))
		return NULL;
	return f->buffer + f->used;
}

/* Bytes of a chunk that is larger than what is contiguous in the queue. */
static int put_piece(struct capture_file *f, const void *data, u32 bytes)
{
	const u8 *from = data;
	u32 n;
	u8 *at;

	for (; bytes; bytes -= n, from += n) {
		n = bytes < BUFFER_BYTES ? bytes : BUFFER_BYTES;
		at = file_place(f, n);
		if (!at)
			return f->base.error;
		memcpy(at, from, n);
		braid_flusher_commit(f->flusher, n);
	}
	return 0;
}

/*
 * A chunk larger than the buffer goes past it, once all before it is written; or in order to the
 * process that packs the file.
 */
static int put_large(struct capture_file *f, const struct braid_chunk *chunk,
		     const void *head, u32 head_bytes, const void *body, u32 body_bytes)
{
	static const u8 zero[8];
	const struct iovec pieces[] = {
		{ (void *)chunk, sizeof(*chunk) }, { (void *)head, head_bytes },
		{ (void *)body, body_bytes }, { (void *)zero, -chunk->payload_bytes & 7 },
	};
	bool packs = f->flusher && braid_flusher_packs(f->flusher);
	int err = packs ? 0 : file_settle(&f->base);
	u32 k;

	if (err)
		return err;
	for (k = 0; k < 4 && !err; k++)
		err = packs ? put_piece(f, pieces[k].iov_base, pieces[k].iov_len) :
			      braid_write_all(f->fd, pieces[k].iov_base, pieces[k].iov_len);
	if (err)
		return packs ? err : fail_write(f, err, bytes_written(&f->base));
	f->number++;
	if (!packs)
		f->written += braid_chunk_bytes(chunk->payload_bytes);
	return 0;
}

static u64 bytes(const struct braid_capture_writer *w)
{
	const struct capture_file *f = (const struct capture_file *)w;

	return f->written + (f->flusher ? braid_flusher_bytes(f->flusher) : f->used);
}

static bool is_index(u16 type)
{
	return type == BRAID_CHUNK_INDEX || type == BRAID_CHUNK_INDEX_BLOCKS ||
	       type == BRAID_CHUNK_FILE_END;
}

/*
 * A page chunk's data. Its struct is the head or, without a head, the start of @body.
 * Return: NULL if the chunk is not a page.
 */
static const u8 *page_data(u16 type, u32 head_bytes, const void *body, u32 body_bytes, u32 *bytes)
{
	u32 size = type == BRAID_CHUNK_PAGE ? sizeof(struct braid_chunk_page) :
		   type == BRAID_CHUNK_HOST_PAGE ? sizeof(struct braid_chunk_host_page) : 0;
	bool whole = !head_bytes && body_bytes >= size;

	*bytes = whole ? body_bytes - size : body_bytes;
	return !size || (!whole && head_bytes != size) ? NULL :
	       whole ? (const u8 *)body + size : body;
}

/* A chunk goes to the end of the capture. */
static void index_chunk(struct capture_file *f, const struct braid_chunk *chunk, const void *head,
			u32 head_bytes, const void *body, u32 body_bytes)
{
	u8 first[BRAID_INDEXER_HEAD] = { 0 };
	u32 n = head_bytes < sizeof(first) ? head_bytes : sizeof(first), bytes_of_page;
	u32 more = body_bytes < sizeof(first) - n ? body_bytes : sizeof(first) - n;
	const u8 *page;

	if (is_index(chunk->type))
		return;
	if (n)
		memcpy(first, head, n);
	if (more)
		memcpy(first + n, body, more);
	page = page_data(chunk->type, head_bytes, body, body_bytes, &bytes_of_page);
	braid_indexer_add(f->indexer, bytes(&f->base), chunk, first, page, bytes_of_page);
}

static int put_chunk(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		     u32 head_bytes, const void *body, u32 body_bytes)
{
	struct capture_file *f = file_of(w);
	struct braid_chunk chunk = {
		.magic = BRAID_CHUNK_MAGIC,
		.type = type,
		.payload_bytes = head_bytes + body_bytes,
		.stream = stream,
		.number = f->number,
	};
	size_t total = sizeof(chunk) + (((size_t)chunk.payload_bytes + 7) & ~(size_t)7);
	bool in_place;
	u8 *at;

	if (head_bytes > BRAID_CHUNK_MAX_BYTES || body_bytes > BRAID_CHUNK_MAX_BYTES - head_bytes)
		return braid_fail(-EMSGSIZE, "a chunk of %llu bytes is too large for a capture",
				  (unsigned long long)head_bytes + body_bytes);
	chunk.checksum = braid_chunk_checksum(&chunk, head, head_bytes, body, body_bytes);
	index_chunk(f, &chunk, head, head_bytes, body, body_bytes);
	if (total > BUFFER_BYTES + SLACK_BYTES)
		return put_large(f, &chunk, head, head_bytes, body, body_bytes);
	at = file_place(f, total);
	if (!at)
		return w->error;
	in_place = body && body == at + sizeof(chunk) + head_bytes;
	memcpy(at, &chunk, sizeof(chunk));
	if (head_bytes)
		memcpy(at + sizeof(chunk), head, head_bytes);
	if (body_bytes && !in_place)
		memcpy(at + sizeof(chunk) + head_bytes, body, body_bytes);
	memset(at + sizeof(chunk) + chunk.payload_bytes, 0, -chunk.payload_bytes & 7);
	f->number++;
	if (f->flusher) {
		braid_flusher_commit(f->flusher, total);
		return 0;
	}
	f->used += total;
	/* A body in place may be needed by the caller still: the next call flushes. */
	return f->used >= BUFFER_BYTES && !in_place ? file_flush(w) : 0;
}

static int put_types(struct capture_file *f, const struct braid_indexer_due *due)
{
	struct {
		struct braid_chunk_types head;
		u16 ids[BRAID_TYPES_IDS];
	} types = { .head = { .nr = due->head.nr, .nr_ids = due->ids->nr } };

	memcpy(types.ids, due->ids->ids, due->ids->nr * sizeof(*types.ids));
	return put_chunk(&f->base, BRAID_CHUNK_TYPES, due->stream, &types,
			 sizeof(types.head) + due->ids->nr * sizeof(*types.ids), due->types,
			 due->types_bytes);
}

/* The INDEX chunks that are due, each with its TYPES; @all: what there is. */
static int put_index(struct capture_file *f, bool all)
{
	struct braid_indexer_due due;
	u64 offset;
	int err = 0;

	while (!err && braid_indexer_take(f->indexer, all, &due)) {
		offset = bytes(&f->base);
		err = put_chunk(&f->base, BRAID_CHUNK_INDEX, due.stream, &due.head, sizeof(due.head),
				due.places, due.bytes);
		if (!err && due.stream)
			err = put_types(f, &due);
		braid_indexer_wrote(f->indexer, offset);
	}
	return err;
}

static int file_put_end(struct capture_file *f)
{
	struct braid_chunk_end end = { 0 };
	const struct braid_index_block *blocks;
	u32 n;
	int err = put_index(f, true);

	if (err)
		return err;
	blocks = braid_indexer_blocks(f->indexer, &n);
	end.index_offset = bytes(&f->base);
	if (blocks)
		err = put_chunk(&f->base, BRAID_CHUNK_INDEX_BLOCKS, 0, NULL, 0, blocks, n);
	return err ? err : put_chunk(&f->base, BRAID_CHUNK_FILE_END, 0, &end,
				     blocks ? sizeof(end) : 0, NULL, 0);
}

static int file_put(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		    u32 head_bytes, const void *body, u32 body_bytes)
{
	struct capture_file *f = file_of(w);
	int err;

	if (w->error)
		return file_flush(w);
	if (type == BRAID_CHUNK_FILE_END)
		return file_put_end(f);
	err = f->reserved ? 0 : put_index(f, false);
	f->reserved = false;
	return err ? err : put_chunk(w, type, stream, head, head_bytes, body, body_bytes);
}

static void *file_reserve(struct braid_capture_writer *w, u32 head_bytes, u32 bytes)
{
	struct capture_file *f = file_of(w);
	size_t total = sizeof(struct braid_chunk) + (size_t)head_bytes + bytes + 8;
	u8 *at;

	if (total > BUFFER_BYTES + SLACK_BYTES) {
		braid_fail(-EMSGSIZE, "no room for a chunk of %zu bytes at once", total);
		return NULL;
	}
	if (w->error || (f->used && f->used + total >= BUFFER_BYTES)) {
		if (file_flush(w))
			return NULL;
	}
	if (!f->reserved && put_index(f, false))
		return NULL;
	at = file_place(f, total);
	f->reserved = at;
	return at ? at + sizeof(struct braid_chunk) + head_bytes : NULL;
}

static bool full(const struct braid_capture_writer *w)
{
	const struct capture_file *f = (const struct capture_file *)w;

	return f->flusher && braid_flusher_full(f->flusher);
}

static int publish(struct braid_capture_writer *w)
{
	struct capture_file *f = file_of(w);
	int err;

	if (f->is_stdout)
		return 0;
	/*
	 * A file that is renamed has its first chunk; a device such as /dev/full had its name
	 * before.
	 */
	err = w->error || !*f->output.part ? 0 : file_settle(w);
	return err ? err : braid_output_publish(&f->output);
}

static int sync_at_end(const struct capture_file *f)
{
	/* Pipes and devices cannot be synchronized. */
	if (!f->base.sync_at_end || !fsync(f->fd) || errno == EINVAL || errno == EROFS)
		return 0;
	return braid_fail(-errno, "cannot write '%s': %s", f->path, strerror(errno));
}

static int close_file(struct braid_capture_writer *w)
{
	struct capture_file *f = file_of(w);
	int err = f->flusher ? check_flusher(f, braid_flusher_finish(f->flusher)) : file_settle(w);

	if (!err)
		err = sync_at_end(f);
	if (!err)
		err = publish(w);
	if (err || f->is_stdout)
		return err;
	if (close(f->fd))
		err = braid_fail(-errno, "cannot write '%s': %s", f->path, strerror(errno));
	f->fd = -1;
	return err;
}

static void file_release(struct braid_capture_writer *w)
{
	struct capture_file *f = file_of(w);

	if (w->error)	/* data up to there was reported as good */
		publish(w);
	braid_output_discard(&f->output);
	if (f->fd >= 0 && !f->is_stdout)
		close(f->fd);
	braid_indexer_free(f->indexer);
	free(f->buffer);
	free(f);
}

static struct capture_file *file_make_file(const char *path)
{
	static const struct braid_capture_ops ops = {
		.put = file_put,
		.reserve = file_reserve,
		.flush = file_flush,
		.settle = file_settle,
		.publish = publish,
		.close = close_file,
		.bytes = bytes,
		.written = bytes_written,
		.full = full,
		.free = file_release,
	};
	struct capture_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->base.ops = &ops;
	f->fd = -1;
	strncpy(f->path, path, sizeof(f->path) - 1);
	f->indexer = braid_indexer_new();	/* NULL: without one */
	f->buffer = aligned_alloc(64, BUFFER_BYTES + SLACK_BYTES);
	if (f->buffer)
		return f;
	braid_indexer_free(f->indexer);
	free(f);
	return NULL;
}

static int put_head(struct braid_capture_writer **out, struct capture_file *f,
		    const struct braid_chunk_file *head)
{
	int err = file_put(&f->base, BRAID_CHUNK_FILE, 0, head, sizeof(*head), NULL, 0);

	if (err)
		file_release(&f->base);
	else
		*out = &f->base;
	return err;
}

int braid_capture_create_queued(struct braid_capture_writer **out, const char *path,
				const struct braid_chunk_file *head, struct braid_flusher *flusher)
{
	bool is_stdout = !strcmp(path, "-");
	struct capture_file *f = file_make_file(is_stdout ? "standard output" : path);
	int err;

	if (!f)
		return braid_out_of_memory();
	f->is_stdout = is_stdout;
	f->fd = is_stdout ? STDOUT_FILENO : braid_output_open(&f->output, path);
	err = f->fd < 0 ? f->fd : 0;
	if (!err && flusher) {
		err = braid_flusher_take(flusher, f->fd);
		if (err)
			braid_fail(err, "cannot write '%s': %s", path, strerror(-err));
	}
	f->flusher = flusher;
	if (!err)
		return put_head(out, f, head);
	file_release(&f->base);
	return err;
}

void braid_capture_keep_former(struct braid_capture_writer *w)
{
	file_of(w)->output.keep_former = true;
}

int braid_capture_create(struct braid_capture_writer **out, const char *path,
			 const struct braid_chunk_file *head)
{
	return braid_capture_create_queued(out, path, head, NULL);
}

int braid_capture_create_at(struct braid_capture_writer **out, int fd, const char *path,
			    const struct braid_chunk_file *head)
{
	struct capture_file *f = file_make_file(path);

	if (!f) {
		close(fd);
		return braid_out_of_memory();
	}
	f->fd = fd;
	return put_head(out, f, head);
}
