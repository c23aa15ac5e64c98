/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that puts a folder's captures and marks into the fleet's store, while they are
 * written.
 *
 * Invariants:
 * - A message is stored once: each says which one precedes it, and the store refuses it otherwise.
 *   After anything else than a good answer the store is asked for the last message, and the next
 *   one follows that.
 * - A file is removed only if all of it is stored, for as long as the server needs to write that to
 *   its disk, and no other link to it exists; or if the folder has no more space. What is not
 *   stored then is counted, and the count is stored in its place.
 * - It opens no other file of this host but what names are resolved by, and does not interpret what
 *   a guest has written.
 */
#ifndef BRAID_FLEET_FEED_H
#define BRAID_FLEET_FEED_H

#include "host_agent/fleet/link.h"

/* Names in the folder: of a capture; of a list of captures; of what is known to be lost of one. */
#define BRAID_FEED_CAPTURE	".braid"	/* complete if it is not writable, or has no other link */
#define BRAID_FEED_MARK		".mark"
#define BRAID_FEED_LOST		".lost"
#define BRAID_FEED_FILE		(BRAID_FLEET_NAME + 8u)

#define BRAID_FEED_LINE		512u

/* From it to the service. */
struct braid_feed_news {
	u64 stored;		/* bytes */
	u64 waiting;		/* likewise, that are not stored yet */
	u64 lost;
	char line[BRAID_FEED_LINE];	/* for the journal; "": none */
};

struct braid_feed_options {
	const struct braid_fleet_conf *conf;
	const char *folder;
	/* To the service; a byte: end when all is stored; its end: end now. */
	int fd;
	int (*confine)(void);	/* 0 or -errno with braid_fail() */
};

/** braid_feed_run - until the service ends. Return: 0, or -errno with braid_fail() */
int braid_feed_run(const struct braid_feed_options *o);

#endif /* BRAID_FLEET_FEED_H */
