/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files that are put into the fleet's store, and how much of each is stored. */
#ifndef BRAID_FLEET_FEED_ITEM_H
#define BRAID_FLEET_FEED_ITEM_H

#include "host_agent/fleet/feed.h"
#include "host_agent/fleet/store.h"

struct braid_feed_item {
	char name[BRAID_FLEET_NAME];
	enum { BRAID_FEED_IS_CAPTURE, BRAID_FEED_IS_MARK, BRAID_FEED_IS_LOST } kind;
	enum {
		BRAID_FEED_ASK,		/* what is stored is not known */
		BRAID_FEED_ASKED,
		BRAID_FEED_READY,
		BRAID_FEED_SENT,
		BRAID_FEED_STORED,	/* with its end */
	} state;
	u64 bytes;
	bool complete;
	bool shared;		/* the recording's window has it, too */
	u64 number, from;	/* of the next message */
	u64 after;		/* the sequence of the last one */
	u64 token;		/* of the answer that is awaited */
	u64 sent_ns;		/* or, READY: when the last one was stored */
	size_t sent;		/* bytes that are under way; 0: the end */
	u64 retry_ns;		/* nothing is sent before */
	u64 stored_ns;
};

struct braid_feed_items {
	struct braid_feed_item *items;	/* the oldest ones first, and marks after them */
	size_t nr, capacity;
	int folder;
	u64 lost;			/* bytes, so far */
};

/** braid_feed_items_look - see which files there are. Return: 0, or -errno with braid_fail() */
int braid_feed_items_look(struct braid_feed_items *s);

/** braid_feed_item_read - read a file's bytes. Return: how many, or -errno with braid_fail() */
ssize_t braid_feed_item_read(const struct braid_feed_items *s, const struct braid_feed_item *i,
			     u64 from, void *to, size_t bytes);

/** braid_feed_item_end - fill what the last message says. Return: 0, or -errno with braid_fail() */
int braid_feed_item_end(const struct braid_feed_items *s, const struct braid_feed_item *i,
			struct braid_store_piece *piece);

/** braid_feed_item_waits - whether a mark lists captures that are not stored yet */
bool braid_feed_item_waits(const struct braid_feed_items *s, const struct braid_feed_item *i);

/**
 * braid_feed_item_remove - its file is not needed any more; forgotten at the next look
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_feed_item_remove(const struct braid_feed_items *s, const struct braid_feed_item *i);

/** braid_feed_item_lose - remove one that is not stored. Return: the most bytes lost, or -errno */
s64 braid_feed_item_lose(struct braid_feed_items *s, struct braid_feed_item *i);

#endif /* BRAID_FLEET_FEED_ITEM_H */
