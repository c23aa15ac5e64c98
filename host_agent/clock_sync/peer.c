// SPDX-License-Identifier: GPL-2.0-or-later
/* The thread that exchanges times with other hosts. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/clock_sync/peer.h"
#include "host_agent/clock_sync/peer_link.h"
#include "host_agent/clock_sync/peer_socket.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/thread.h"

#define SECOND_NS	1000000000ULL
#define FIRST_ASKS	8u		/* sooner one after another: a bound is known soon */
#define FIRST_STEP_NS	20000000ULL
#define BATCH		64u		/* messages between two rests */
#define REST_NS		1000000ULL	/* after a full batch: whoever sends so many can wait */
#define SILENT_NS	(10 * SECOND_NS)	/* a link that is not ours to ask may go then */
#define QUEUE_MOST	65536u		/* crossings; more are dropped, if none takes them */
#define PUT_NS		(SECOND_NS / 2)	/* so that a chunk has several */
#define SENT_IDS	256u		/* sent messages, whose stamps are awaited */

struct peer {
	struct braid_peer_address address;
	struct braid_peer_link link;
	char name[64];
	bool asked;			/* by us, from time to time: */
	u64 due_ns;
	u32 nr_asked;
	u64 last_ns;			/* when it was heard last */
	struct braid_peer_crossing *queue;
	size_t nr, capacity;
	u64 put_ns;			/* when it was put last */
};

struct braid_peers {
	u8 own[BRAID_HOST_ID_BYTES];
	bool listens;
	u64 step_ns;
	struct braid_peer_socket socket;
	int stop_fd;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;		/* peers and their queues */
	struct peer *peers;
	size_t nr, capacity;
	struct {
		u32 id;
		u32 peer;
		u64 nonce, number;	/* of the link, and the message */
	} ids[SENT_IDS];		/* by the socket's count of what was sent */
};

/* Peers ------------------------------------------------------------------------------------- */

static bool begin_link(struct peer *peer)
{
	u64 nonce = 0;

	while (!nonce)
		if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
			return false;
	peer->link = (struct braid_peer_link){ .nonce = nonce };
	return true;
}

/* One that may give way to another; those that were never proven first. NULL: none. */
static struct peer *peer_to_replace(struct braid_peers *p, u64 now_ns)
{
	struct peer *found = NULL;
	size_t k;

	for (k = 0; k < p->nr; k++) {
		struct peer *peer = &p->peers[k];

		if (peer->asked || peer->nr ||
		    (peer->link.proven && now_ns - peer->last_ns < SILENT_NS))
			continue;
		if (!found || peer->link.proven < found->link.proven ||
		    (peer->link.proven == found->link.proven && peer->last_ns < found->last_ns))
			found = peer;
	}
	return found;
}

/* Must hold the lock. NULL: not known, and there is no room, or strangers are not answered. */
static struct peer *peer_of(struct braid_peers *p, const struct braid_peer_address *from,
			    u64 now_ns)
{
	struct peer new = { .address = *from }, *there;
	size_t k;

	for (k = 0; k < p->nr; k++)
		if (braid_peer_address_same(&p->peers[k].address, from))
			return &p->peers[k];
	if (!p->listens || !begin_link(&new))
		return NULL;
	braid_peer_address_name(from, new.name);
	new.last_ns = now_ns;
	if (p->nr < BRAID_PEERS_MOST)
		return braid_array_push(p->peers, p->nr, p->capacity, new) ? NULL :
		       &p->peers[p->nr - 1];
	there = peer_to_replace(p, now_ns);
	if (!there)
		return NULL;
	free(there->queue);
	*there = new;
	return there;
}

/* Must hold the lock. */
static void peer_queue(struct peer *peer, const struct braid_peer_crossing *crossings, u32 nr)
{
	u32 k;

	for (k = 0; k < nr && peer->nr < QUEUE_MOST; k++)
		if (braid_array_push(peer->queue, peer->nr, peer->capacity, crossings[k]))
			return;
}

/* Sending and receiving --------------------------------------------------------------------- */

/* Must hold the lock. */
static void peer_send(struct braid_peers *p, struct peer *peer, const struct braid_peer_message *m)
{
	u32 id;

	if (!braid_peer_socket_send(&p->socket, &peer->address, m, sizeof(*m), &id))
		return;
	p->ids[id % SENT_IDS].id = id;
	p->ids[id % SENT_IDS].peer = peer - p->peers;
	p->ids[id % SENT_IDS].nonce = m->nonce;
	p->ids[id % SENT_IDS].number = m->number;
}

static void take_message(struct braid_peers *p, const struct braid_peer_received *r)
{
	struct braid_peer_crossing crossings[BRAID_PEER_CROSSINGS];
	struct braid_peer_message m;
	struct peer *peer;
	u64 other;
	u32 nr;

	if (!braid_peer_message_check(&m, r->data, r->bytes, p->own))
		return;
	pthread_mutex_lock(&p->lock);
	peer = peer_of(p, &r->from, r->ns);
	if (peer) {
		other = peer->link.other;
		nr = braid_peer_link_take(&peer->link, &m, r->ns, crossings);
		if (peer->link.other != other)
			peer->nr = 0;	/* of the recorder before */
		peer_queue(peer, crossings, nr);
		if (peer->link.other == m.nonce)
			peer->last_ns = r->ns;
	}
	if (peer && m.flags & BRAID_PEER_ASKS) {
		braid_peer_link_answer(&peer->link, &m, p->own, &m, r->ns, braid_host_clock_ns());
		peer_send(p, peer, &m);
	}
	pthread_mutex_unlock(&p->lock);
}

/* When messages left, by the kernel. */
static void take_stamps(struct braid_peers *p)
{
	struct braid_peer_stamp stamps[BATCH];
	u32 nr = braid_peer_socket_stamps(&p->socket, stamps, BATCH), k;

	pthread_mutex_lock(&p->lock);
	for (k = 0; k < nr; k++) {
		u32 at = stamps[k].id % SENT_IDS;
		struct peer *peer = &p->peers[p->ids[at].peer];

		if (p->ids[at].id == stamps[k].id && p->ids[at].peer < p->nr &&
		    peer->link.nonce == p->ids[at].nonce)
			braid_peer_link_stamp(&peer->link, p->ids[at].number, stamps[k].ns);
	}
	pthread_mutex_unlock(&p->lock);
}

/* Return: how many there were; BATCH: perhaps more. */
static u32 take_messages(struct braid_peers *p)
{
	struct braid_peer_received received[BATCH];
	u32 nr = braid_peer_socket_receive(&p->socket, received, BATCH), k;

	for (k = 0; k < nr; k++)
		take_message(p, &received[k]);
	return nr;
}

/* Asks those that are due. Return: when the next one is; ~0: none. */
static u64 ask(struct braid_peers *p)
{
	u64 next_ns = ~0ULL, now_ns;
	struct braid_peer_message m;
	size_t k;

	pthread_mutex_lock(&p->lock);
	for (k = 0; k < p->nr; k++) {
		struct peer *peer = &p->peers[k];

		now_ns = braid_host_clock_ns();
		if (peer->asked && peer->due_ns <= now_ns) {
			u64 step_ns = peer->nr_asked++ < FIRST_ASKS &&
				      p->step_ns > FIRST_STEP_NS ? FIRST_STEP_NS : p->step_ns;

			braid_peer_link_ask(&peer->link, &m, p->own, now_ns);
			peer_send(p, peer, &m);
			/* Late ones are not made up for. */
			peer->due_ns = peer->due_ns + step_ns > now_ns ? peer->due_ns + step_ns :
									 now_ns + step_ns;
		}
		if (peer->asked && peer->due_ns < next_ns)
			next_ns = peer->due_ns;
	}
	pthread_mutex_unlock(&p->lock);
	return next_ns;
}

static void *peer_thread(void *arg)
{
	struct braid_peers *p = arg;
	struct pollfd fds[] = {
		{ .fd = p->socket.fd, .events = POLLIN }, { .fd = p->stop_fd, .events = POLLIN },
	};
	struct timespec wait;
	u64 due_ns, now_ns;

	for (;;) {
		due_ns = ask(p);
		now_ns = braid_host_clock_ns();
		wait = braid_clock_timespec(due_ns <= now_ns ? 0 : due_ns - now_ns);
		if (ppoll(fds, 2, due_ns == ~0ULL ? NULL : &wait, NULL) < 0 && errno != EINTR)
			return NULL;
		if (fds[1].revents)
			return NULL;
		take_stamps(p);		/* first: of what is answered now */
		if (take_messages(p) == BATCH)
			braid_sleep_ns(REST_NS);
	}
}

/* Opening ----------------------------------------------------------------------------------- */

static int add_host(struct braid_peers *p, const char *host)
{
	struct peer peer = { .asked = true };
	size_t k;
	int err = braid_peer_address_find(&peer.address, &p->socket, host);

	if (err)
		return err;
	for (k = 0; k < p->nr; k++)
		if (braid_peer_address_same(&p->peers[k].address, &peer.address))
			return braid_fail(-EINVAL, "--peer=%s: has the same address as --peer=%s",
					  host, p->peers[k].name);
	snprintf(peer.name, sizeof(peer.name), "%s", host);
	if (!begin_link(&peer))
		return braid_fail(-EIO, "no random numbers: %s", strerror(errno));
	if (braid_array_push(p->peers, p->nr, p->capacity, peer))
		return braid_out_of_memory();
	return 0;
}

int braid_peers_open(struct braid_peers **out, const struct braid_peers_options *o)
{
	struct braid_peers *p;
	size_t k;
	int err;

	*out = NULL;
	if (!o->nr_hosts && !o->listen)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return braid_out_of_memory();
	pthread_mutex_init(&p->lock, NULL);
	p->socket.fd = p->stop_fd = -1;
	p->listens = o->listen;
	p->step_ns = SECOND_NS / (o->rate ? o->rate : 1);
	err = braid_host_id(p->own) ? 0 :
	      braid_fail(-ENOENT, "/proc/sys/kernel/random/boot_id cannot be read, "
			 "which identifies this host to its peers");
	if (!err)
		err = braid_peer_socket_open(&p->socket, o->listen);
	for (k = 0; k < o->nr_hosts && !err; k++)
		err = add_host(p, o->hosts[k]);
	if (!err) {
		p->stop_fd = eventfd(0, EFD_CLOEXEC);
		err = p->stop_fd < 0 ? braid_fail(-errno, "eventfd: %s", strerror(errno)) : 0;
	}
	if (err)
		braid_peers_close(p);
	else
		*out = p;
	return err;
}

int braid_peers_start(struct braid_peers *p)
{
	int err = p ? braid_thread_begin(&p->thread, peer_thread, p) : 0;

	if (err)
		return braid_fail(-err, "cannot create the thread for other hosts: %s",
				  strerror(err));
	if (p)
		p->started = true;
	return 0;
}

/* Must hold the lock. Takes a peer's queue, so that nothing is written under the lock. */
static size_t take_queue(struct peer *peer, struct braid_chunk_peer *head,
			 struct braid_peer_crossing **crossings, u64 now_ns, bool last)
{
	struct braid_peer_crossing rest[BRAID_PEER_CROSSINGS];
	size_t nr;

	if (last)
		peer_queue(peer, rest, braid_peer_link_rest(&peer->link, rest));
	else if (peer->nr < BATCH && now_ns - peer->put_ns < PUT_NS)
		return 0;
	peer->put_ns = now_ns;
	*head = (struct braid_chunk_peer){ .nonce = peer->link.other };
	memcpy(head->id, peer->link.host, sizeof(head->id));
	memcpy(head->name, peer->name, sizeof(head->name));
	nr = peer->nr;
	*crossings = peer->queue;
	peer->queue = NULL;
	peer->nr = peer->capacity = 0;
	return nr;
}

int braid_peers_turn(struct braid_peers *p, struct braid_capture_writer *capture, bool last)
{
	struct braid_peer_crossing *crossings;
	struct braid_chunk_peer head;
	size_t k, nr, all = p ? BRAID_PEERS_MOST : 0;
	u64 now_ns = braid_host_clock_ns();
	int err = 0;

	for (k = 0; k < all && !err; k++) {
		nr = 0;
		crossings = NULL;
		pthread_mutex_lock(&p->lock);
		if (k < p->nr)
			nr = take_queue(&p->peers[k], &head, &crossings, now_ns, last);
		all = p->nr;
		pthread_mutex_unlock(&p->lock);
		if (nr)
			err = braid_capture_put(capture, BRAID_CHUNK_PEER, 0, &head, sizeof(head),
						crossings, nr * sizeof(*crossings));
		free(crossings);
	}
	return err;
}

void braid_peers_close(struct braid_peers *p)
{
	u64 one = 1;
	size_t k;

	if (!p)
		return;
	if (p->started && write(p->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(p->thread, NULL);
	braid_peer_socket_close(&p->socket);
	if (p->stop_fd >= 0)
		close(p->stop_fd);
	for (k = 0; k < p->nr; k++)
		free(p->peers[k].queue);
	free(p->peers);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
