/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Exchanges times with other hosts over UDP, so that captures of several hosts can be merged.
 *
 * Invariants:
 * - One socket, and one thread, which waits for nothing but them and its own turns. Whatever others
 *   send, it uses no more than one CPU, BRAID_PEERS_MOST links and a bounded queue.
 * - Kernel time stamps are used where they are converted without doubt; else times that are read
 *   before a message is sent, and after it has come. Either way what a crossing says is true.
 */
#ifndef BRAID_CLOCK_SYNC_PEER_H
#define BRAID_CLOCK_SYNC_PEER_H

#include "host_agent/capture/capture.h"

#define BRAID_PEER_PORT		"7273"
#define BRAID_PEERS_MOST	128u

struct braid_peers;

struct braid_peers_options {
	const char *const *hosts;	/* HOST[:PORT], to be asked */
	size_t nr_hosts;
	const char *listen;		/* [ADDRESS:]PORT; NULL: others are not answered first */
	u64 rate;			/* questions in a second, to each */
};

/**
 * braid_peers_open - open the socket, before privileges are dropped
 * @out: set on success; NULL if there is nothing to do
 * @o: what to do
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_peers_open(struct braid_peers **out, const struct braid_peers_options *o);

/** braid_peers_start - begin. Return: 0, or -errno with braid_fail(); NULL is fine */
int braid_peers_start(struct braid_peers *p);

/**
 * braid_peers_turn - put what has crossed, as PEER
 * @p: started; NULL is fine
 * @capture: the output
 * @last: also what waits for a better time
 *
 * Return: 0, or -errno with braid_fail() (the capture's).
 */
int braid_peers_turn(struct braid_peers *p, struct braid_capture_writer *capture, bool last);

/** braid_peers_close - end; NULL is fine */
void braid_peers_close(struct braid_peers *p);

#endif /* BRAID_CLOCK_SYNC_PEER_H */
