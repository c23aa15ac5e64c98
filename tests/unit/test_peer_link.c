// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Messages between two hosts over a network that loses, delays, repeats and reorders them, and with
 * a stranger on it: what follows from them is true, by clocks that are known.
 */
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/peer_link.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define IN_FLIGHT	32u
#define AHEAD_NS	5000000000ULL	/* of the second host's clock */

static const u8 ids[2][BRAID_HOST_ID_BYTES] = { { 1 }, { 2 } };

static struct braid_peer_link links[2];	/* of either host, to the other one */
static struct {
	struct braid_peer_message m;
	u32 to;
	u64 due_ns;			/* 0: free */
} flying[IN_FLIGHT];
static u64 now_ns, state, nr_crossings, nr_stamped;

static u32 random_below(u32 n)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(state >> 33) % n;
}

static u64 clock_of(u32 host)
{
	return now_ns + host * AHEAD_NS;
}

static void post(u32 to, const struct braid_peer_message *m)
{
	u32 copies = random_below(20) ? 1 : random_below(3), k;

	for (k = 0; k < IN_FLIGHT && copies; k++) {
		if (flying[k].due_ns)
			continue;
		flying[k].m = *m;
		flying[k].to = to;
		flying[k].due_ns = now_ns + 1000 + random_below(random_below(10) ? 20000 : 400000);
		copies--;
	}
}

/* The kernel says later that the message left later than its time. */
static void stamp(u32 host, u64 number)
{
	if (random_below(3))
		return;
	braid_peer_link_stamp(&links[host], number, clock_of(host) + 200);
	nr_stamped++;
}

static void check_crossing(u32 host, const struct braid_peer_crossing *c)
{
	u64 own = c->own_ns - host * AHEAD_NS, peer = c->peer_ns - !host * AHEAD_NS;

	if (c->flags & BRAID_CROSSING_TO)
		CHECK(own <= peer);
	else
		CHECK(peer <= own);
	nr_crossings++;
}

static void take(u32 host, const struct braid_peer_message *sent)
{
	struct braid_peer_crossing crossings[BRAID_PEER_CROSSINGS];
	struct braid_peer_message m;
	u32 nr, k;

	NEED(braid_peer_message_check(&m, sent, sizeof(*sent), ids[host]));
	nr = braid_peer_link_take(&links[host], &m, clock_of(host), crossings);
	for (k = 0; k < nr; k++)
		check_crossing(host, &crossings[k]);
	if (!(m.flags & BRAID_PEER_ASKS))
		return;
	braid_peer_link_answer(&links[host], &m, ids[host], &m, clock_of(host), clock_of(host));
	post(!host, &m);
	stamp(host, m.number);
}

static void ask(u32 host)
{
	struct braid_peer_message m;

	braid_peer_link_ask(&links[host], &m, ids[host], clock_of(host));
	post(!host, &m);
	stamp(host, m.number);
}

/* A message of a stranger, who has the other host's address, but not what was sent to it. */
static void intrude(u32 host)
{
	struct braid_peer_message m = {
		.magic = BRAID_PEER_MAGIC, .version = BRAID_PEER_VERSION, .flags = random_below(2),
		.nonce = 1 + random_below(5), .echo = random_below(5),
		.number = 1 + random_below(200),
		.sent_ns = clock_of(!host) + 1000000000, .heard = random_below(200),
		.heard_ns = clock_of(!host) - 1000000000, .stamped = random_below(200),
		.stamped_ns = clock_of(!host) + 1000000000,
	};

	memcpy(m.host, ids[!host], sizeof(m.host));
	take(host, &m);
}

static void deliver(void)
{
	u32 k;

	for (k = 0; k < IN_FLIGHT; k++) {
		if (!flying[k].due_ns || flying[k].due_ns > now_ns)
			continue;
		flying[k].due_ns = 0;
		take(flying[k].to, &flying[k].m);
	}
}

static void begin(u64 seed)
{
	u32 k;

	memset(flying, 0, sizeof(flying));
	now_ns = 1000000000;
	state = seed;
	nr_crossings = nr_stamped = 0;
	for (k = 0; k < 2; k++)
		links[k] = (struct braid_peer_link){ .nonce = 1000000007ULL * (seed + k + 1) };
}

static void run(u32 steps, bool both, bool strangers)
{
	u32 k;

	for (k = 0; k < steps; k++) {
		now_ns += 500;
		deliver();
		if (!(k % 40))
			ask(0);
		if (both && !(k % 60))
			ask(1);
		if (strangers && !random_below(30))
			intrude(random_below(2));
	}
}

static void true_crossings(void)
{
	u64 seed;

	for (seed = 1; seed <= 40; seed++) {
		begin(seed);
		run(20000, seed & 1, seed & 2);
		CHECK(links[0].proven && links[1].proven);
		CHECK(!memcmp(links[0].host, ids[1], sizeof(ids[1])));
		CHECK(nr_crossings > 500 && nr_stamped > 100);
	}
}

/* Its nonce is another one; what was known of the former recorder's messages is not used. */
static void restarted(void)
{
	u32 host;

	for (host = 0; host < 2; host++) {
		begin(5);
		run(5000, false, false);
		links[host] = (struct braid_peer_link){ .nonce = 99 };
		nr_crossings = 0;
		run(5000, false, false);
		CHECK_EQ(links[!host].other, 99);
		CHECK(links[0].proven && links[1].proven);
		CHECK(nr_crossings > 100);
	}
}

static void checked(void)
{
	struct braid_peer_message good, m;
	struct braid_peer_link l = { .nonce = 1 };

	braid_peer_link_ask(&l, &good, ids[0], 1);
	CHECK(braid_peer_message_check(&m, &good, sizeof(good), ids[1]));
	CHECK(!braid_peer_message_check(&m, &good, sizeof(good), ids[0]));	/* our own */
	CHECK(!braid_peer_message_check(&m, &good, sizeof(good) - 1, ids[1]));
	CHECK(!braid_peer_message_check(&m, &good, sizeof(good) + 1, ids[1]));
#define REFUSED(member, value) do {						\
		struct braid_peer_message bad = good;				\
		bad.member = value;						\
		CHECK(!braid_peer_message_check(&m, &bad, sizeof(bad), ids[1]));	\
	} while (0)
	REFUSED(magic, 1);
	REFUSED(version, BRAID_PEER_VERSION + 1);
	REFUSED(flags, 2);
	REFUSED(nonce, 0);
	REFUSED(number, 0);
	REFUSED(host[0], 0);
}

int main(void)
{
	RUN(true_crossings);
	RUN(restarted);
	RUN(checked);
	return VERDICT();
}
