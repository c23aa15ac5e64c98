// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Messages of other hosts: any bytes, and messages with any words, between our own. Nothing follows
 * from one that does not echo our nonce; and an honest host gets through afterwards.
 */
#include "host_agent/clock_sync/peer_link.h"
#include "tests/fuzz/fuzz.h"

#define MAX_STEPS	200

static const u8 own[BRAID_HOST_ID_BYTES] = { 1 }, honest_id[BRAID_HOST_ID_BYTES] = { 3 };

static struct braid_peer_link link;
static u64 now_ns;

static void take(const void *data, size_t bytes)
{
	struct braid_peer_crossing crossings[BRAID_PEER_CROSSINGS];
	struct braid_peer_link before = link;
	struct braid_peer_message m;
	u32 nr;

	if (!braid_peer_message_check(&m, data, bytes, own)) {
		MUST(!memcmp(&before, &link, sizeof(link)));
		return;
	}
	nr = braid_peer_link_take(&link, &m, ++now_ns, crossings);
	MUST(nr <= BRAID_PEER_CROSSINGS);
	MUST(!nr || m.echo == link.nonce);
	MUST(link.nonce == before.nonce);
	MUST(!before.proven || link.proven);
	if (before.proven && m.echo != link.nonce && m.nonce != before.other)
		MUST(!memcmp(&before, &link, sizeof(link)));
	if (m.flags & BRAID_PEER_ASKS) {
		braid_peer_link_answer(&link, &m, own, &m, now_ns, now_ns);
		MUST(!(m.flags & BRAID_PEER_ASKS) && m.number == link.number);
	}
}

static void take_words(struct fuzz_input *in)
{
	struct braid_peer_message m = {
		.magic = BRAID_PEER_MAGIC, .version = BRAID_PEER_VERSION,
		.flags = fuzz_take(in, 1) & BRAID_PEER_ASKS, .host = { 2 },
		.nonce = fuzz_take(in, 1), .number = fuzz_take(in, 1), .heard = fuzz_take(in, 1),
		.stamped = fuzz_take(in, 1), .sent_ns = fuzz_take(in, 8),
		.heard_ns = fuzz_take(in, 8),
		.stamped_ns = fuzz_take(in, 8),
	};

	m.echo = fuzz_take(in, 1) & 1 ? link.nonce : m.nonce;
	take(&m, sizeof(m));
}

static void take_bytes(struct fuzz_input *in)
{
	size_t n = fuzz_take(in, 1);
	u8 *bytes = calloc(1, n + 1);
	size_t k;

	for (k = 0; k < n; k++)
		bytes[k] = fuzz_take(in, 1);
	take(bytes, n);
	free(bytes);
}

/* An exchange with a host that says nothing wrong. */
static void exchange(struct braid_peer_link *other)
{
	struct braid_peer_crossing crossings[BRAID_PEER_CROSSINGS];
	struct braid_peer_message m;

	braid_peer_link_ask(other, &m, honest_id, now_ns);
	MUST(braid_peer_message_check(&m, &m, sizeof(m), own));
	braid_peer_link_take(&link, &m, now_ns, crossings);
	braid_peer_link_answer(&link, &m, own, &m, now_ns, now_ns);
	MUST(braid_peer_message_check(&m, &m, sizeof(m), honest_id));
	braid_peer_link_take(other, &m, now_ns, crossings);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct braid_peer_link other = { .nonce = ~1ULL };
	struct fuzz_input in = { data, bytes };
	struct braid_peer_message m;
	u32 k;

	link = (struct braid_peer_link){ .nonce = 1ULL << 40 | 7 };
	now_ns = 1000;
	for (k = 0; k < MAX_STEPS && in.left; k++) {
		switch (fuzz_take(&in, 1) & 3) {
		case 0:
			take_bytes(&in);
			break;
		case 1:
			take_words(&in);
			break;
		case 2:
			braid_peer_link_ask(&link, &m, own, ++now_ns);
			break;
		default:
			braid_peer_link_stamp(&link, fuzz_take(&in, 1), fuzz_take(&in, 8));
		}
	}
	for (k = 0; k < 3; k++)
		exchange(&other);
	MUST(link.proven && other.proven && link.other == other.nonce);
	MUST(!memcmp(link.host, honest_id, sizeof(honest_id)));
	return 0;
}
