// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes messages between hosts, and inequalities of those that come. */
#include <string.h>

#include "host_agent/clock_sync/peer_link.h"

bool braid_peer_message_check(struct braid_peer_message *m, const void *data, size_t bytes,
			      const u8 own[BRAID_HOST_ID_BYTES])
{
	static const u8 none[BRAID_HOST_ID_BYTES];

	if (bytes != sizeof(*m))
		return false;
	memcpy(m, data, sizeof(*m));
	return m->magic == BRAID_PEER_MAGIC && m->version == BRAID_PEER_VERSION &&
	       !(m->flags & ~BRAID_PEER_ASKS) && m->nonce && m->number &&
	       memcmp(m->host, own, BRAID_HOST_ID_BYTES) && memcmp(m->host, none, sizeof(none));
}

static void peer_link_put(struct braid_peer_crossing *crossings, u32 *nr, u64 own_ns, u64 peer_ns,
			  u32 flags)
{
	crossings[(*nr)++] = (struct braid_peer_crossing){
		.own_ns = own_ns, .peer_ns = peer_ns, .flags = flags,
	};
}

u32 braid_peer_link_rest(struct braid_peer_link *l, struct braid_peer_crossing *crossings)
{
	u32 nr = 0;

	if (l->last.number)
		peer_link_put(crossings, &nr, l->last.received_ns, l->last.sent_ns, 0);
	l->last.number = 0;
	return nr;
}

/* Another recorder, or the same one started again: nothing of before is of its messages. */
static void peer_link_begin(struct braid_peer_link *l, const struct braid_peer_message *m)
{
	l->other = m->nonce;
	l->proven = false;
	l->heard = l->last.number = 0;
}

u32 braid_peer_link_take(struct braid_peer_link *l, const struct braid_peer_message *m,
			 u64 received_ns, struct braid_peer_crossing *crossings)
{
	u64 sent = m->heard % BRAID_PEER_SENT;
	u32 nr = 0;

	if (m->nonce != l->other) {
		if (l->proven && m->echo != l->nonce)
			return 0;	/* anybody may say so */
		peer_link_begin(l, m);
	}
	l->heard = m->number;
	l->heard_ns = received_ns;
	if (m->echo != l->nonce)
		return 0;
	l->proven = true;
	memcpy(l->host, m->host, sizeof(l->host));
	if (l->last.number && m->stamped == l->last.number && m->stamped_ns > l->last.sent_ns)
		l->last.sent_ns = m->stamped_ns;
	nr = braid_peer_link_rest(l, crossings);
	l->last.number = m->number;
	l->last.sent_ns = m->sent_ns;
	l->last.received_ns = received_ns;
	if (m->heard && m->heard != l->acknowledged && l->sent[sent].number == m->heard) {
		l->acknowledged = m->heard;
		peer_link_put(crossings, &nr, l->sent[sent].ns, m->heard_ns, BRAID_CROSSING_TO);
	}
	return nr;
}

void braid_peer_link_ask(struct braid_peer_link *l, struct braid_peer_message *m,
			 const u8 own[BRAID_HOST_ID_BYTES], u64 now_ns)
{
	u64 number = ++l->number;

	*m = (struct braid_peer_message){
		.magic = BRAID_PEER_MAGIC, .version = BRAID_PEER_VERSION, .flags = BRAID_PEER_ASKS,
		.nonce = l->nonce, .echo = l->other, .number = number, .sent_ns = now_ns,
		.heard = l->heard, .heard_ns = l->heard ? l->heard_ns : 0, .stamped = l->stamped,
		.stamped_ns = l->stamped ? l->stamped_ns : 0,
	};
	memcpy(m->host, own, sizeof(m->host));
	l->sent[number % BRAID_PEER_SENT].number = number;
	l->sent[number % BRAID_PEER_SENT].ns = now_ns;
}

void braid_peer_link_answer(struct braid_peer_link *l, struct braid_peer_message *m,
			    const u8 own[BRAID_HOST_ID_BYTES], const struct braid_peer_message *to,
			    u64 received_ns, u64 now_ns)
{
	const struct braid_peer_message asked = *to;

	braid_peer_link_ask(l, m, own, now_ns);
	m->flags = 0;
	m->echo = asked.nonce;	/* also of one that does not count yet: so it can prove itself */
	m->heard = asked.number;
	m->heard_ns = received_ns;
}

void braid_peer_link_stamp(struct braid_peer_link *l, u64 number, u64 ns)
{
	u64 at = number % BRAID_PEER_SENT;

	if (l->sent[at].number != number || ns <= l->sent[at].ns)
		return;
	l->sent[at].ns = ns;
	l->stamped = number;
	l->stamped_ns = ns;
}
