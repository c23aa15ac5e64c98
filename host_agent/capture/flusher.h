/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A process that writes a capture, so that a slow disk does not delay the reading of guests. */
#ifndef BRAID_CAPTURE_FLUSHER_H
#define BRAID_CAPTURE_FLUSHER_H

#include <stdbool.h>
#include <sys/types.h>

#include "tracebraid/types.h"

/*
 * A process, not a thread: if the agent is killed, its threads end with it, and what they have not
 * written is lost, although the guests' rings count it as read. The process outlives the agent
 * until its queue is written.
 */
struct braid_flusher;

/* Writes as write(2) does. Return: bytes written, or -1 with errno. */
typedef ssize_t (*braid_flusher_write_fn)(int fd, const void *data, size_t bytes);

/**
 * braid_flusher_start - fork the process
 * @out: set on success
 * @level: of zstd, 1 to 19: the file is packed (packer.h), a segment at a time; 0: it is not
 * @confine: called in the process; 0 or -errno. NULL: none
 *
 * Call while there is one thread, and while signals that end the agent are blocked.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_flusher_start(struct braid_flusher **out, int level, int (*confine)(void));

/** braid_flusher_take - hand the file over, once; the caller keeps @fd. 0 or -errno */
int braid_flusher_take(struct braid_flusher *b, int fd);

/**
 * braid_flusher_place - where the next bytes go
 * @bytes: at most BRAID_QUEUE_SLOT_BYTES
 *
 * Waits while the queue is full.
 *
 * Return: the place, or NULL after an error: braid_flusher_error().
 */
u8 *braid_flusher_place(struct braid_flusher *b, u32 bytes);

/** braid_flusher_commit - the first @bytes of the place are to be written, even if we are killed */
void braid_flusher_commit(struct braid_flusher *b, u32 bytes);

/** braid_flusher_wake - have it write now. 0, or braid_flusher_error() */
int braid_flusher_wake(struct braid_flusher *b);

/**
 * braid_flusher_end_segment - have a packed file get all bytes so far, after the next wake
 *
 * Otherwise they wait until a segment is full. Smaller segments compress less.
 */
void braid_flusher_end_segment(struct braid_flusher *b);

/**
 * braid_flusher_settle - wait until all is written. 0, or braid_flusher_error()
 *
 * In a packed file that is its head and all whole segments; the process has the rest.
 */
int braid_flusher_settle(struct braid_flusher *b);

/**
 * braid_flusher_finish - the same, after the last bytes: with the end of a packed file
 *
 * If it is never called, the process writes that end when the agent has ended.
 */
int braid_flusher_finish(struct braid_flusher *b);

/** braid_flusher_packs - whether the file is packed */
bool braid_flusher_packs(const struct braid_flusher *b);

/** braid_flusher_packed - bytes of a packed file, whole chunks */
u64 braid_flusher_packed(const struct braid_flusher *b);

/** braid_flusher_error - 0, or the -errno of its write; -EIO: it has died */
int braid_flusher_error(const struct braid_flusher *b);

/** braid_flusher_full - whether data that can wait elsewhere should wait there */
bool braid_flusher_full(const struct braid_flusher *b);

/** braid_flusher_bytes - committed */
u64 braid_flusher_bytes(const struct braid_flusher *b);

/** braid_flusher_written - of them, written, or taken to be packed */
u64 braid_flusher_written(const struct braid_flusher *b);

/**
 * braid_flusher_failed - after an error: the slot whose write failed
 * @data: set to its first byte
 *
 * Return: bytes of it that were written.
 */
u64 braid_flusher_failed(const struct braid_flusher *b, const u8 **data);

/** braid_flusher_stop - wait until all is written, as far as possible, and free; NULL is fine */
void braid_flusher_stop(struct braid_flusher *b);

/* For tests: both sides in one process. */
struct braid_flusher *braid_flusher_new(int fds[2], int level);

/** braid_flusher_run - the process: write until the other end of @socket is closed */
void braid_flusher_run(struct braid_flusher *b, int socket, braid_flusher_write_fn write);

#endif /* BRAID_CAPTURE_FLUSHER_H */
