/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The messages that two hosts send each other, and the inequalities that they give. It knows no
 * socket, and reads no clock.
 *
 * Invariants:
 * - Every bit of a message is the peer's, or anybody's: it is checked once, and then copied. What
 *   a peer states is about its own clock, and bounds nothing else.
 * - Messages count only from who answered to our nonce: so its address is its own.
 * - A crossing is true if the peer's words are: whatever is lost, late, repeated or out of order.
 * - An answer is as long as what it answers.
 */
#ifndef BRAID_CLOCK_SYNC_PEER_LINK_H
#define BRAID_CLOCK_SYNC_PEER_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "host_agent/capture/chunk.h"

#define BRAID_PEER_MAGIC	0x50425254u	/* the bytes "TRBP" */
#define BRAID_PEER_VERSION	1u

#define BRAID_PEER_ASKS		(1u << 0)	/* an answer is wanted */

/* All words are little endian. Other sizes, versions and flags are ignored. */
struct braid_peer_message {
	u32 magic;
	u16 version;
	u16 flags;			/* BRAID_PEER_* */
	u8 host[BRAID_HOST_ID_BYTES];	/* the sender */
	u64 nonce;			/* the sender's for this receiver; not 0 */
	u64 echo;			/* the receiver's nonce, as last heard; 0: none */
	u64 number;			/* of this message; not 0, ascending */
	u64 sent_ns;			/* by the sender's clock, read before it was sent */
	u64 heard;			/* number of the receiver's last message; 0: none */
	u64 heard_ns;			/* when it had come */
	u64 stamped;			/* number of a message sent earlier; 0: none */
	u64 stamped_ns;			/* when that was sent: not before its sent_ns */
};

static_assert(sizeof(struct braid_peer_message) == 88, "peer message");

#define BRAID_PEER_SENT	64u	/* messages sent last, whose times are known */

/* One peer, from one address. Zeroed but for ->nonce at the beginning. */
struct braid_peer_link {
	u64 nonce;			/* ours for it; not 0 */
	u8 host[BRAID_HOST_ID_BYTES];	/* its id, once ... */
	bool proven;			/* ... it has answered to our nonce */
	u64 other;			/* its nonce, as last heard; 0: none */
	u64 number;			/* of our last message */
	struct {
		u64 number, ns;
	} sent[BRAID_PEER_SENT];
	u64 acknowledged;		/* number of our last message whose arrival it reported */
	u64 heard, heard_ns;		/* its last message */
	u64 stamped, stamped_ns;	/* of our last message, to be sent */
	struct {			/* its last message; it may yet state a better time */
		u64 number, sent_ns, received_ns;
	} last;
};

/* At most so many crossings by a message. */
#define BRAID_PEER_CROSSINGS	2u

/** braid_peer_message_check - whether bytes are a message that another host may have sent to us */
bool braid_peer_message_check(struct braid_peer_message *m, const void *data, size_t bytes,
			      const u8 own[BRAID_HOST_ID_BYTES]);

/**
 * braid_peer_link_take - take a message
 * @l: the link; it has the address that the message came from
 * @m: checked
 * @received_ns: our clock, not before it had come
 * @crossings: filled, with at most BRAID_PEER_CROSSINGS
 *
 * Return: number of crossings.
 */
u32 braid_peer_link_take(struct braid_peer_link *l, const struct braid_peer_message *m,
			 u64 received_ns, struct braid_peer_crossing *crossings);

/**
 * braid_peer_link_ask - make a message that wants an answer
 * @l: the link
 * @m: filled
 * @own: id of this host
 * @now_ns: our clock, read before it is sent
 */
void braid_peer_link_ask(struct braid_peer_link *l, struct braid_peer_message *m,
			 const u8 own[BRAID_HOST_ID_BYTES], u64 now_ns);

/**
 * braid_peer_link_answer - make the answer to a message
 * @l: the link
 * @m: filled; may be @to
 * @own: id of this host
 * @to: the message, which was taken
 * @received_ns: as it was taken with
 * @now_ns: our clock, read before it is sent
 */
void braid_peer_link_answer(struct braid_peer_link *l, struct braid_peer_message *m,
			    const u8 own[BRAID_HOST_ID_BYTES], const struct braid_peer_message *to,
			    u64 received_ns, u64 now_ns);

/** braid_peer_link_stamp - a message was not sent before this, which is later than it was made */
void braid_peer_link_stamp(struct braid_peer_link *l, u64 number, u64 ns);

/** braid_peer_link_rest - the crossing of its last message, if there is one. Return: how many */
u32 braid_peer_link_rest(struct braid_peer_link *l, struct braid_peer_crossing *crossings);

#endif /* BRAID_CLOCK_SYNC_PEER_LINK_H */
