/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recording's files that go into the fleet's store: links to them in a folder of their own,
 * which the process that stores them empties.
 *
 * Invariants:
 * - The name of a file's link follows from the service's run and the file's number, so it is linked
 *   once, whoever does it.
 * - A link is not writable once its file is complete.
 * - A file that was removed before it was linked is a note of that in the folder, and so in the
 *   store.
 */
#ifndef BRAID_SERVE_STREAM_H
#define BRAID_SERVE_STREAM_H

#include "host_agent/fleet/feed.h"
#include "host_agent/serve/conf.h"

struct braid_serve_stream {
	const struct braid_fleet_conf *conf;
	const char *window;		/* the folder of the recording's files */
	int (*confine)(const char *folder);
	char run[40];			/* of this service: how names begin */
	u32 last;			/* the last file that was linked */
	pid_t pid;			/* the process; 0: none */
	int fd;				/* to it; -1 */
	int watch_fd;			/* is readable when the recorder has begun a file; -1 */
	struct braid_feed_news news;	/* the last that it said */
};

/** braid_stream_keep - keep what a former service has left. Call before the window is emptied */
int braid_stream_keep(struct braid_serve_stream *s);

/**
 * braid_stream_open - begin a run
 * @s: the stream
 *
 * Call when the window is empty: a file that it has from now on is of this run, also if this
 * service is killed at once.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_stream_open(struct braid_serve_stream *s);

/**
 * braid_stream_link - link files
 * @s: the stream
 * @from: the first one's number
 * @to: the last one's; 0: all that there are
 * @last: the last one that was linked; 0: none was. Moved on; those between are missed
 */
void braid_stream_link(const struct braid_serve_stream *s, u32 from, u32 to, u32 *last);

/** braid_stream_newest - the number of the file that is written. Return: 0: there is none */
u32 braid_stream_newest(const struct braid_serve_stream *s);

/**
 * braid_stream_mark - list files under one name
 * @s: the stream
 * @name: of the mark
 * @from: the first file's number; 0: the first one that there is
 * @to: the last one's, which is complete
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_stream_mark(const struct braid_serve_stream *s, const char *name, u32 from, u32 to);

/** braid_stream_start - start the process. Return: 0, or -errno with braid_fail() */
int braid_stream_start(struct braid_serve_stream *s);

/** braid_stream_turn - link files, if all are to be stored; take what the process says */
void braid_stream_turn(struct braid_serve_stream *s);

/** braid_stream_news - what is stored. Return: NULL: this host stores nothing */
const struct braid_feed_news *braid_stream_news(const struct braid_serve_stream *s);

/** braid_stream_stop - end the process */
void braid_stream_stop(struct braid_serve_stream *s);

/** braid_stream_finish - the recording has ended: wait a while until all is stored */
void braid_stream_finish(struct braid_serve_stream *s);

#endif /* BRAID_SERVE_STREAM_H */
