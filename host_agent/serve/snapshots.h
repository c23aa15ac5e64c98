/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A directory of snapshots: each is a folder with copies of the recording's files, why it was
 * taken, and what `analyze` says of it.
 */
#ifndef BRAID_SERVE_SNAPSHOTS_H
#define BRAID_SERVE_SNAPSHOTS_H

#include <sys/types.h>

#include "host_agent/serve/analyst.h"
#include "host_agent/serve/stream.h"

struct braid_snapshot {
	const struct braid_conf *conf;
	const char *window;		/* the directory of the recording's files */
	pid_t recorder;			/* is asked for a new file */
	const struct braid_analyst_message *why;
	const char *program;		/* tracebraid */
	int out;			/* its folder's name is written there; -1: nowhere */
	/* Its files are put into the fleet's store, under this name. NULL: they are not. */
	const struct braid_serve_stream *stream;
	const char *name;
};

/**
 * braid_snapshot_take - take one, and run the hook; then remove old ones
 * @s: what of; without a directory only the hook is run
 *
 * Waits for the recorder and for programs: call it in a process of its own.
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_snapshot_take(const struct braid_snapshot *s);

/**
 * braid_snapshot_record - put what is recorded for some time into the fleet's store
 * @s: ->stream and ->name; ->conf and ->why are not used
 * @seconds: how long
 *
 * Waits for so long. Return: 0 or -errno with braid_fail().
 */
int braid_snapshot_record(const struct braid_snapshot *s, u64 seconds);

/** braid_snapshots_list - write a line "SNAPSHOT/FILE BYTES" of each file. Return: 0, or -errno with braid_fail() */
int braid_snapshots_list(const struct braid_conf *conf, int out);

/**
 * braid_snapshots_open - open a file of a snapshot
 * @name: "SNAPSHOT/FILE", not trusted
 *
 * Return: a descriptor, or -errno with braid_fail().
 */
int braid_snapshots_open(const struct braid_conf *conf, const char *name);

#define BRAID_SNAPSHOTS_CHECK	16u	/* bytes: */

/**
 * braid_snapshots_send - write a file's bytes, and then the file's XXH3 checksum in hexadecimal
 * @from: the first byte that is written
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_snapshots_send(int fd, u64 from, int out);

#endif /* BRAID_SERVE_SNAPSHOTS_H */
