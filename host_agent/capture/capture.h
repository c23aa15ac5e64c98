/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writing a capture, and reading its chunks back. */
#ifndef BRAID_CAPTURE_CAPTURE_H
#define BRAID_CAPTURE_CAPTURE_H

#include "host_agent/capture/chunk.h"

struct braid_capture_writer;
struct braid_capture_reader;

/**
 * braid_capture_create - begin a capture
 * @out: set on success
 * @path: as for braid_output_open(); "-" is standard output
 * @head: FILE's payload, written as the first chunk
 *
 * A file that is there is replaced by braid_capture_publish() or braid_capture_finish().
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_capture_create(struct braid_capture_writer **out, const char *path,
			 const struct braid_chunk_file *head);

/**
 * braid_capture_create_at - likewise, in a file that is open
 * @fd: a regular file, emptied; taken over, whatever is returned
 * @path: for messages
 */
int braid_capture_create_at(struct braid_capture_writer **out, int fd, const char *path,
			    const struct braid_chunk_file *head);

/**
 * braid_capture_create_history - a capture without a file
 * @out: set on success
 *
 * What is put is kept as host_agent/capture/history.h says, or gone. Files are made of it by
 * braid_capture_tee(). It never fails but for memory.
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_capture_create_history(struct braid_capture_writer **out);

/**
 * braid_capture_tee - write to a file also, for a while
 * @w: a capture without a file
 * @also: where all that is put from here on goes, too; NULL: nowhere
 *
 * Return: 0, or the error of the one that was written to before, with braid_fail(): what it did
 * not take any more is in no file.
 */
int braid_capture_tee(struct braid_capture_writer *w, struct braid_capture_writer *also);

/** braid_capture_tee_failed - whether what is put goes to no file any more */
bool braid_capture_tee_failed(const struct braid_capture_writer *w);

/**
 * braid_capture_replay - what was kept of a stream goes to the file that is written to also
 * @w: a capture without a file; others have nothing to replay
 */
void braid_capture_replay(struct braid_capture_writer *w, u32 stream);

/**
 * braid_capture_put - append one chunk
 * @w: the capture
 * @type: enum braid_chunk_type
 * @stream: its stream, or 0
 * @head: the payload's first part; may be NULL with 0 bytes
 * @head_bytes: of it
 * @body: the payload's second part, private memory; may be NULL with 0 bytes
 * @body_bytes: of it
 *
 * Buffers; braid_capture_flush() hands all to the kernel. After a failed write the
 * file is cut back to its last whole chunk, and every later put fails alike.
 *
 * Return: 0, or -errno with braid_fail() (-ENOSPC: the disk is full).
 */
int braid_capture_put(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		      u32 head_bytes, const void *body, u32 body_bytes);

/** braid_capture_error - -errno of what failed it (-ENOSPC: the disk is full); -EIO: not told */
int braid_capture_error(const struct braid_capture_writer *w);

/**
 * braid_capture_room - the buffer's free end, for data that is copied once
 * @w: the capture
 * @bytes: wanted, at most 1 MiB
 *
 * Return: where a body of up to @bytes may be put that the next braid_capture_put() will
 * append without another copy when it is given as @body (with head_bytes as passed
 * here). NULL with braid_fail() when the capture has failed.
 */
void *braid_capture_room(struct braid_capture_writer *w, u32 head_bytes, u32 bytes);

/**
 * braid_capture_flush - write out what is buffered
 * Return: 0 or -errno with braid_fail().
 */
int braid_capture_flush(struct braid_capture_writer *w);

/**
 * braid_capture_publish - from here on the capture has its own name, in place of a former one
 * Return: 0 or -errno with braid_fail().
 */
int braid_capture_publish(struct braid_capture_writer *w);

/** braid_capture_sync_at_end - have braid_capture_finish() wait until the disk has all */
void braid_capture_sync_at_end(struct braid_capture_writer *w);

/** braid_capture_bytes - size of the capture so far, buffered bytes included */
u64 braid_capture_bytes(const struct braid_capture_writer *w);

/**
 * braid_capture_finish - put FILE_END, flush, close, free
 * Return: 0 or -errno with braid_fail(). @w is gone in either case.
 */
int braid_capture_finish(struct braid_capture_writer *w);

/**
 * braid_capture_abandon - close and free without FILE_END; nothing is reported
 *
 * One that was not published is removed, unless a write to it has failed.
 */
void braid_capture_abandon(struct braid_capture_writer *w);

/* A chunk that was read and found whole. */
struct braid_chunk_view {
	u64 offset;		/* of the chunk in the file */
	u16 type;
	u32 stream;
	u64 number;
	u32 bytes;
	const u8 *payload;	/* 8-byte aligned; good until the next call */
};

/**
 * braid_capture_open - open a capture for reading
 * @out: set on success
 * @path: the file; "-": standard input, which must be one
 * @head: filled from FILE
 *
 * Return: 0, or -errno with braid_fail() (not a capture, newer version, no permission).
 */
int braid_capture_open(struct braid_capture_reader **out, const char *path,
		       struct braid_chunk_file *head);

/**
 * braid_capture_next - the next whole chunk
 * @r: the capture
 * @view: filled when 1 is returned
 *
 * A damaged stretch is skipped up to the next chunk that is whole, and counted; a
 * cut-off end is an end.
 *
 * Return: 1, 0 at the end, -errno with braid_fail() (I/O).
 */
int braid_capture_next(struct braid_capture_reader *r, struct braid_chunk_view *view);

/**
 * braid_capture_load - read one chunk again
 * @r: the capture
 * @offset: of the chunk, from a view
 * @to: room for a struct braid_chunk and @bytes of payload behind it
 * @bytes: wanted; fails when the payload has fewer
 *
 * Return: 0, or -errno with braid_fail(). The file may have changed meanwhile: lengths
 * are checked again, content is the caller's to distrust.
 */
int braid_capture_load(struct braid_capture_reader *r, u64 offset, void *to, u32 bytes);

/* What reading found wrong, so far. */
struct braid_capture_damage {
	u64 stretches;		/* damaged stretches skipped */
	u64 bytes;		/* in them */
	u64 first_offset;	/* of the first one */
	bool cut_off;		/* ends inside a chunk */
	bool no_end;		/* ends without FILE_END */
};

/** braid_capture_damage - what was wrong up to here; final once the end was reached */
const struct braid_capture_damage *braid_capture_damage(const struct braid_capture_reader *r);

#define BRAID_CAPTURE_ALL	(~0ULL)

/**
 * braid_capture_grow - read on in a capture that is still being written
 * @r: the capture
 * @bytes: read up to here, where a chunk ends; less than was read already: no change.
 *	BRAID_CAPTURE_ALL: up to its end, as it is now
 *
 * What is damaged is told by braid_capture_damage() as ever.
 */
void braid_capture_grow(struct braid_capture_reader *r, u64 bytes);

/** braid_capture_size - bytes of the file when it was opened, or as it has grown since */
u64 braid_capture_size(const struct braid_capture_reader *r);

/** braid_capture_close - close and free */
void braid_capture_close(struct braid_capture_reader *r);

#endif /* BRAID_CAPTURE_CAPTURE_H */
