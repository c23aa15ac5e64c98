/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writing a capture, and reading its chunks back.
 *
 * Invariants:
 * - A put that succeeds has copied or written its data. With a flusher, the file gets it even if the agent is killed.
 * - After a failed write the file is truncated to its last whole chunk, and every later put fails with the same
 *   error. braid_capture_finish() alone puts FILE_END, and not after a failed write.
 * - A file that is read is untrusted and may change meanwhile: it is never mapped. braid_capture_next() and
 *   braid_capture_at() return only whole chunks with a correct checksum; braid_capture_load() checks lengths only.
 * - A checksum does not make a payload valid: its user checks the content.
 * - A payload has at most BRAID_CHUNK_MAX_BYTES, written or read. The search for chunks in a damaged file takes time
 *   linear in its size.
 * - Writers and readers have no lock: one thread at a time uses each.
 */
#ifndef BRAID_CAPTURE_CAPTURE_H
#define BRAID_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <string.h>

#include "host_agent/capture/chunk.h"

struct braid_capture_writer;
struct braid_capture_reader;
struct braid_flusher;

/**
 * braid_capture_create - begin a capture
 * @out: set on success
 * @path: as for braid_output_open(); "-" is standard output
 * @head: FILE's payload, written as the first chunk
 *
 * An existing file is replaced by braid_capture_publish() or braid_capture_finish().
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_capture_create(struct braid_capture_writer **out, const char *path,
			 const struct braid_chunk_file *head);

/**
 * braid_capture_create_at - likewise, in an open file
 * @fd: a regular file, emptied; taken over in any case
 * @path: for messages
 */
int braid_capture_create_at(struct braid_capture_writer **out, int fd, const char *path,
			    const struct braid_chunk_file *head);

/**
 * braid_capture_create_queued - likewise, written by another process
 * @path: as for braid_capture_create()
 * @flusher: writes the file, and packs it if it is to; it must outlive the capture, and has no other
 *
 * All sizes below are of the capture, even if its file is packed.
 */
int braid_capture_create_queued(struct braid_capture_writer **out, const char *path,
				const struct braid_chunk_file *head, struct braid_flusher *flusher);

/**
 * braid_capture_create_history - a capture without a file
 * @out: set on success
 * @brief: files follow each other without a gap: the last samples are kept; no names, which each
 *	file gets again, and no notes, which are in the file of their time
 *
 * Chunks with time, names and notes are kept, within bounds, for braid_capture_replay(); others are
 * discarded. braid_capture_tee() writes them to files. Fails only without memory.
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_capture_create_history(struct braid_capture_writer **out, bool brief);

/**
 * braid_capture_tee - temporarily write to a file too
 * @w: a capture without a file
 * @also: a second destination of all further chunks; NULL: none
 *
 * Return: 0, or the error of the former destination, with braid_fail(): chunks after its error are
 * in no file.
 */
int braid_capture_tee(struct braid_capture_writer *w, struct braid_capture_writer *also);

/** braid_capture_tee_failed - whether chunks no longer reach a file */
bool braid_capture_tee_failed(const struct braid_capture_writer *w);

/**
 * braid_capture_replay - write the kept chunks of a stream to the second destination
 * @w: a capture without a file; no effect on others
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
 * Buffers; braid_capture_flush() writes all of it.
 *
 * Return: 0, or -errno with braid_fail() (-ENOSPC: the disk is full).
 */
int braid_capture_put(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		      u32 head_bytes, const void *body, u32 body_bytes);

/** braid_capture_error - -errno of the failure (-ENOSPC: the disk is full); -EIO: unknown */
int braid_capture_error(const struct braid_capture_writer *w);

/**
 * braid_capture_reserve - the buffer's free end, for data that is copied once
 * @w: the capture
 * @bytes: wanted, at most 1 MiB
 *
 * Return: the place for a body of up to @bytes. The next braid_capture_put() appends it without
 * another copy if it is passed as @body (with head_bytes as passed here). NULL with braid_fail()
 * when the capture has failed.
 */
void *braid_capture_reserve(struct braid_capture_writer *w, u32 head_bytes, u32 bytes);

/**
 * braid_capture_flush - write out what is buffered
 *
 * Afterwards a process that is killed loses none of it. With a process that writes
 * (host_agent/capture/flusher.h) it does not wait, and reports an earlier failure.
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_capture_flush(struct braid_capture_writer *w);

/** braid_capture_settle - the same, and wait until the file has it */
int braid_capture_settle(struct braid_capture_writer *w);

/**
 * braid_capture_full - whether what can wait elsewhere should
 *
 * The file is slower than the guests: sub-buffers stay in their rings, which count what they lose.
 * A put waits instead, when no room is left at all.
 */
bool braid_capture_full(const struct braid_capture_writer *w);

/**
 * braid_capture_publish - give the capture its final name, replacing a former file
 * Return: 0 or -errno with braid_fail().
 */
int braid_capture_publish(struct braid_capture_writer *w);

/** braid_capture_sync_at_end - have braid_capture_finish() wait until the disk has all */
void braid_capture_sync_at_end(struct braid_capture_writer *w);

/** braid_capture_keep_former - have an existing file renamed to PATH.old, not replaced. Of a file */
void braid_capture_keep_former(struct braid_capture_writer *w);

/** braid_capture_bytes - current size of the capture, buffered bytes included */
u64 braid_capture_bytes(const struct braid_capture_writer *w);

/** braid_capture_written - bytes in the file by now; of a packed one also what is being packed */
u64 braid_capture_written(const struct braid_capture_writer *w);

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
 * braid_view_take - copy the next bytes of a payload
 * @view: the chunk
 * @at: where they are in the payload; moved past them
 * @to: room for @bytes
 * @bytes: wanted
 *
 * Return: whether there are as many; else nothing is copied.
 */
static inline bool braid_view_take(const struct braid_chunk_view *view, u32 *at, void *to,
				   u32 bytes)
{
	if (bytes > view->bytes - *at)
		return false;
	memcpy(to, view->payload + *at, bytes);
	*at += bytes;
	return true;
}

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

/* Sent by a recorder to a process that follows its capture. Of several, the last one applies. */
struct braid_capture_mark {
	u64 file;		/* of a recording of several: its number, from 0 */
	u64 bytes;		/* of the capture, that may be read: whole chunks */
	s64 until_ns;		/* all that was before is in them, as far as can be known */
};

/** braid_capture_follow - the same, of a capture that grows. A packed one may have no segment yet */
int braid_capture_follow(struct braid_capture_reader **out, const char *path,
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
 * braid_capture_at - the chunk at an offset
 * @r: the capture
 * @offset: from its index
 * @view: filled when 1 is returned
 *
 * braid_capture_next() is not affected.
 *
 * Return: 1; 0: there is no whole chunk; -errno with braid_fail() (I/O).
 */
int braid_capture_at(struct braid_capture_reader *r, u64 offset, struct braid_chunk_view *view);

/** braid_capture_soon - announce that a chunk will be read; the kernel may read many at once */
void braid_capture_soon(const struct braid_capture_reader *r, u64 offset);

/**
 * braid_capture_load - re-read one chunk
 * @r: the capture
 * @offset: of the chunk, from a view
 * @to: a struct braid_chunk followed by @bytes of payload
 * @bytes: wanted; fails when the payload has fewer
 * @alone: what is near it is not to be read soon
 *
 * Return: 0, or -errno with braid_fail(). The file may have changed meanwhile: lengths are checked
 * again; the caller must not trust the content.
 */
int braid_capture_load(struct braid_capture_reader *r, u64 offset, void *to, u32 bytes, bool alone);

/* Damage found up to now. */
struct braid_capture_damage {
	u64 stretches;		/* damaged stretches skipped */
	u64 bytes;		/* in them */
	u64 first_offset;	/* of the first one */
	bool cut_off;		/* ends inside a chunk */
	bool no_end;		/* ends without FILE_END */
};

/** braid_capture_damage - damage up to here; final at the end */
const struct braid_capture_damage *braid_capture_damage(const struct braid_capture_reader *r);

#define BRAID_CAPTURE_ALL	(~0ULL)

/**
 * braid_capture_grow - continue reading a capture that is still being written
 * @r: the capture
 * @bytes: read up to here, the end of a chunk; less than already read: no change.
 *	BRAID_CAPTURE_ALL: up to its end, as it is now. Of a packed capture, bytes of its file
 *
 * braid_capture_damage() reports damage as usual.
 *
 * Return: 0, or -errno with braid_fail() (I/O).
 */
int braid_capture_grow(struct braid_capture_reader *r, u64 bytes);

/** braid_capture_unfinished - whether it is packed and its file has no end: it is still being written, or was cut off */
bool braid_capture_unfinished(const struct braid_capture_reader *r);

/**
 * braid_capture_wait - whether a chunk that goes past the file's end is being written
 * @r: the capture
 * @waits: it is: braid_capture_next() returns 0 before it, until the file has grown. By default it
 *	is damage, and what its bytes contain is searched for whole chunks
 */
void braid_capture_wait(struct braid_capture_reader *r, bool waits);

/** braid_capture_size - bytes of the file when it was opened, or as it has grown since */
u64 braid_capture_size(const struct braid_capture_reader *r);

/** braid_capture_close - close and free */
void braid_capture_close(struct braid_capture_reader *r);

#endif /* BRAID_CAPTURE_CAPTURE_H */
