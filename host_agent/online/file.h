/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file of a recording, as far as it was taken.
 *
 * When a recording goes on to another file, the former one has events of times after its stop,
 * which the next one lacks: its rest. These are taken with the next file's events, as if they were
 * of its rings.
 */
#ifndef BRAID_ONLINE_FILE_H
#define BRAID_ONLINE_FILE_H

#include "host_agent/online/events.h"
#include "host_agent/online/sums.h"
#include "host_agent/walk/walk.h"

struct braid_online_file {
	char *path;
	struct braid_source *source;
	u64 faults;			/* of it, counted already */
	size_t nr_streams;		/* of it, when the last were counted */
	bool begun;			/* the sums, and the walk */
	struct braid_online_sums sums;
	struct braid_walk walk;
	struct braid_walk_options walk_options;
	struct braid_walk_totals walk_totals;
	struct braid_online_matches matches;	/* of the walk's formats */
	/* Of a rest: */
	int got;			/* what the walk has found, and nobody taken yet */
	struct braid_item item;		/* that, as if it were of the next file's ring */
	struct braid_ring *rings;	/* these, by the order of this file's rings */
	u32 nr_rings;
};

/**
 * braid_online_file_open - follow a file
 * @out: set on success
 * @path: has its head; copied
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_online_file_open(struct braid_online_file **out, const char *path);

/** braid_online_file_stop_ns - where the file states to stop; INT64_MAX: not, or not yet */
s64 braid_online_file_stop_ns(const struct braid_online_file *f);

/**
 * braid_online_file_rest - go on with the rest
 * @f: its walk has taken all up to its stop; a former rest of it is gone
 * @next: the next file
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_online_file_rest(struct braid_online_file *f, const struct braid_source *next);

/**
 * braid_online_file_next - go on to the rest's next item
 * @f: its ->got and ->item are set; ->got 0: that was all
 *
 * The item's ->stream is NULL if the next file does not have it.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_online_file_next(struct braid_online_file *f);

/** braid_online_file_free - free all; NULL is fine */
void braid_online_file_free(struct braid_online_file *f);

#endif /* BRAID_ONLINE_FILE_H */
