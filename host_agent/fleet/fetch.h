/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads captures from the fleet's store into files.
 *
 * Invariants:
 * - A file has the bytes that its host has stored, from the first one on, without a gap: messages
 *   are taken in the order of their numbers, each once.
 * - What a capture lacks is said: what its host has lost, a message that is missing, an end that is
 *   not stored yet.
 */
#ifndef BRAID_FLEET_FETCH_H
#define BRAID_FLEET_FETCH_H

#include <signal.h>

#include "host_agent/fleet/link.h"

struct braid_fetch_options {
	const struct braid_fleet_conf *conf;
	const char *folder;	/* for the files: HOST.CAPTURE.braid */
	int (*confine)(void);
	void (*say)(const char *line);	/* what is lacking */
	const volatile sig_atomic_t *stop;
};

/**
 * braid_fetch_captures - fetch
 * @o: how
 * @name: of a mark, of all hosts; or "HOST/NAME": of a mark or a capture of one
 *
 * Return: the number of captures that are there, or -errno with braid_fail().
 */
int braid_fetch_captures(const struct braid_fetch_options *o, const char *name);

/**
 * braid_fetch_make_store - make the store, or find it
 * @bytes: that it may have; 0: it is not made
 * @seconds: after which a message is removed; 0: never
 * @state: set to what the server says of it, JSON; freed by the caller
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_fetch_make_store(const struct braid_fetch_options *o, u64 bytes, u64 seconds,
			   struct braid_text *state);

#endif /* BRAID_FLEET_FETCH_H */
