// SPDX-License-Identifier: GPL-2.0-or-later
/* A thread that runs the ping-pong exchange with all guests in turn. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/burst.h"
#include "host_agent/clock_sync/exchange.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/transport/guard.h"
#include "host_agent/util/error.h"
#include "host_agent/util/thread.h"
#include "shared/platform.h"

#define READY_STEP_NS		500000ULL	/* times MAX_ASKED shorter than a guest spins without a ping */
#define READY_FINE_NS		120000000ULL	/* a guest without an agent polls every 50 ms */
#define READY_COARSE_NS		10000000ULL
#define SILENT_NS		10000000ULL	/* time for a preempted vCPU to run again */
#define SILENT_SHORT_NS		1000000ULL	/* others wait; or we are late, and it may have gone */
#define LATE_NS			3000000ULL
#define MAX_ASKED		4		/* guests that spin, or are about to */
#define STILL_NS		100000000ULL	/* a live guest has polled by then */
#define STOOD_FIRST_NS		25000000ULL	/* one that has not is checked again after this,
						   ... */
#define STOOD_MAX_NS		1000000000ULL	/* ... with growing delays, up to this */
#define READY_LIMIT_NS		400000000ULL	/* a live guest polls more often */
#define FIRST_BURSTS		6		/* back to back, each with full length */
#define PINGS_FIRST		64
#define PINGS_LATER		32
#define PINGS_TOUR		8
#define INTERVAL_NS		1000000000ULL
#define INTERVAL_EMULATED_NS	2000000000ULL	/* at rest: such a counter does not keep its line */
#define INTERVAL_MAX_NS		8000000000ULL	/* at rest: a good one, or no answer */
#define AGAIN_NS		250000000ULL	/* after a poor burst ... */
#define MAX_AGAIN		8		/* ... but not indefinitely */
#define AGAIN_FIRST_NS		50000000ULL	/* while none was good yet: one suffices for long */
#define MAX_FIRST		100
#define MAX_TOUR_TRIES		4		/* times that a vCPU is asked */
#define MAX_SOON		12		/* a recording's end waits for a good one, but not
						   indefinitely */
#define WIDE_NS			20000ULL
#define SHARE			9		/* minimum gap between a guest's bursts, in
						   durations of a burst */
#define MANY			10		/* bounds the spinning for many guests at rest */
#define SUSPECT_NS		500000000ULL	/* all its vCPUs are visited no oftener */
#define QUEUE_ROUND_TRIPS	256

struct braid_exchange_peer {
	struct braid_exchange_peer *next;
	u64 due_ns;		/* when to request; after a request, when to check */
	u64 asked_ns;		/* 0: not asked */
	u64 not_before_ns;	/* for what it made us spin */
	bool leaving;		/* read by a burst without the lock */
	bool busy;		/* the thread is in its region */
	u32 poll_seq;		/* the guest's own, as last seen ... */
	u64 seen_ns;		/* ... and when */
	u64 stood_ns;		/* how long it is left alone when it has not moved; 0: it did */
	u64 looked_ns;		/* requested: last time without a response */
	u64 interval_ns;
	struct braid_exchange_guest guest;
	struct braid_burst burst;
	u32 tour;		/* bursts done of the tour, one vCPU after another */
	u32 tour_end;		/* of them in all */
	u32 asked_vcpu;		/* on tour: + 1; else 0: any */
	u32 poor;		/* poor bursts in a row */
	bool good;		/* since something happened to its time, one was not poor */
	u32 tries_first, tries_soon, tries_tour;
	u64 suspected_ns;	/* when something happened to its time, last */
	bool soon;		/* a burst was asked for, and is not over */
	bool soon_asked;	/* the one under way is it */
	u64 bursts_good;
	u32 nr_queued;		/* also read without the lock */
	struct braid_round_trip queue[QUEUE_ROUND_TRIPS];
};

struct braid_exchange {
	pthread_t thread;
	pthread_mutex_t lock;	/* peers, their queues, stopping */
	pthread_cond_t changed;
	struct braid_exchange_peer *peers;
	u32 nr_peers;
	u64 rest_due_ns;	/* guests at rest are asked no sooner */
	struct braid_exchange_peer *asked[MAX_ASKED];
	u32 nr_asked;
	struct braid_exchange_peer *first;	/* of those without a request; NULL: to be
						   searched */
	bool stopping;
};

/* Must hold the lock. The oldest are dropped when they are not taken. */
static void queue_round_trips(struct braid_exchange_peer *p, const struct braid_burst *b)
{
	u32 over;

	if (p->nr_queued + b->nr > QUEUE_ROUND_TRIPS) {
		over = p->nr_queued + b->nr - QUEUE_ROUND_TRIPS;
		braid_store(&p->nr_queued, p->nr_queued - over);
		memmove(p->queue, p->queue + over, p->nr_queued * sizeof(*p->queue));
	}
	memcpy(p->queue + p->nr_queued, b->best, b->nr * sizeof(*p->queue));
	braid_store(&p->nr_queued, p->nr_queued + b->nr);
}

/* Cut short, or never quick: the two threads did not run at the same time. */
static bool is_poor(const struct braid_burst *b)
{
	return b->nr < BRAID_EXCHANGE_BEST || braid_round_trip_width(&b->best[0]) > WIDE_NS;
}

static bool on_tour(const struct braid_exchange_peer *p)
{
	return p->bursts_good && p->tour < p->tour_end;
}

/* Whether the vCPU that was asked for is the one that answered. */
static bool came(const struct braid_exchange_peer *p)
{
	return p->burst.nr && p->burst.best[0].vcpu == p->asked_vcpu;
}

/* How long until the next burst, after one that was answered. */
static u64 wait_of(struct braid_exchange_peer *p)
{
	static const u64 first_ns[] = { 100000000, 200000000 };	/* at 0.1 and 0.3 s */
	u64 rest_ns = p->guest.emulated ? INTERVAL_EMULATED_NS : INTERVAL_MAX_NS;

	if (on_tour(p))
		return 0;
	if (!p->good && p->tries_first++ < MAX_FIRST)
		return AGAIN_FIRST_NS;
	p->poor = is_poor(&p->burst) ? p->poor + 1 : 0;
	if (p->poor && p->poor <= MAX_AGAIN)
		return AGAIN_NS;
	if (!p->poor && p->bursts_good <= sizeof(first_ns) / sizeof(*first_ns))
		return first_ns[p->bursts_good - 1];
	if (!p->poor && p->bursts_good < FIRST_BURSTS)
		p->interval_ns = INTERVAL_NS;
	else if (p->interval_ns < rest_ns)
		p->interval_ns *= 2;
	return p->interval_ns;
}

/*
 * Must hold the lock. Guests with a request are few, and checked often: they have a separate list.
 */
static void set_asked(struct braid_exchange *x, struct braid_exchange_peer *p, u64 ns)
{
	u32 k;

	if (ns && !p->asked_ns) {
		x->asked[x->nr_asked++] = p;
	} else if (!ns && p->asked_ns) {
		for (k = 0; x->asked[k] != p; k++)
			;
		x->asked[k] = x->asked[--x->nr_asked];
	}
	p->asked_ns = ns;
}

/* Must hold the lock. What a burst brought is queued, and the next one planned. */
static void end_burst(struct braid_exchange *x, struct braid_exchange_peer *p, bool answered)
{
	bool tour = p->asked_vcpu;

	set_asked(x, p, 0);
	p->good |= !tour && !is_poor(&p->burst);
	if (p->soon_asked && (!answered || !is_poor(&p->burst) || ++p->tries_soon >= MAX_SOON))
		p->soon = false;
	/* A vCPU that did not respond is asked again, but not indefinitely: it may be offline. */
	if (tour && (came(p) || ++p->tries_tour >= MAX_TOUR_TRIES)) {
		p->tries_tour = 0;
		p->tour++;
	}
	if (p->burst.nr) {
		p->bursts_good += !tour;
		if (!p->burst.best[0].vcpu)
			p->tour = p->tour_end;	/* a guest that does not report its vCPU */
		queue_round_trips(p, &p->burst);
	}
	if (!answered && p->interval_ns < INTERVAL_MAX_NS)
		p->interval_ns *= 2;
	p->due_ns = braid_host_clock_ns() + (answered ? wait_of(p) : p->interval_ns);
	if (p->soon)
		p->due_ns = 0;
}

/* The access to the region in one turn. */
struct turn {
	struct braid_exchange_peer *p;
	bool asking;
	bool still;	/* it had the time to poll since it was last seen */
	bool stands;	/* and did not: it is not asked, that others may be */
	u32 poll_seq;
	u32 pings;
	u64 silent_ns;
	bool ready;
};

static int take_turn(void *arg)
{
	struct turn *t = arg;
	struct braid_exchange_peer *p = t->p;

	t->poll_seq = braid_load(&p->guest.cells->poll_seq);
	if (t->asking) {
		t->stands = t->still && t->poll_seq == p->poll_seq;
		if (!t->stands)
			braid_burst_ask(&p->burst, p->asked_vcpu);
		return 0;
	}
	t->ready = braid_burst_ready(&p->burst);
	if (t->ready)
		braid_burst_run(&p->burst, t->pings, t->silent_ns, &p->leaving);
	return 0;
}

/* Must hold the lock. A guest that does not poll would not answer, and must not delay others. */
static void leave_alone(struct braid_exchange_peer *p, u64 now_ns)
{
	p->stood_ns = p->stood_ns ? 2 * p->stood_ns : STOOD_FIRST_NS;
	if (p->stood_ns > STOOD_MAX_NS)
		p->stood_ns = STOOD_MAX_NS;
	p->due_ns = now_ns + p->stood_ns;
	p->soon = false;
}

/*
 * Must hold the lock. A turn's duration counts against the share of time for all guests at rest:
 * five hundred of them with poor bursts, on a busy host, must not add load.
 */
static void share(struct braid_exchange *x, struct braid_exchange_peer *p, u64 now_ns, u64 spent_ns)
{
	if (x->rest_due_ns < now_ns)
		x->rest_due_ns = now_ns;
	x->rest_due_ns += x->nr_peers / MANY * spent_ns;
	if (!p->asked_ns && p->bursts_good >= FIRST_BURSTS && !p->soon && !on_tour(p) &&
	    p->due_ns < x->rest_due_ns)
		p->due_ns = x->rest_due_ns;
}

/* Must hold the lock. Accounts for the result of a turn. */
static void exchange_settle(struct braid_exchange *x, const struct turn *t, int err, u64 start_ns)
{
	struct braid_exchange_peer *p = t->p;
	u64 now_ns = braid_host_clock_ns(), spent_ns = now_ns - start_ns;

	if (t->stands) {
		leave_alone(p, now_ns);
		return;
	}
	if (!err && t->poll_seq != p->poll_seq) {
		p->poll_seq = t->poll_seq;
		p->stood_ns = 0;
	}
	p->seen_ns = p->looked_ns = now_ns;
	if (t->asking)
		set_asked(x, p, now_ns);
	if (t->ready || err || now_ns - p->asked_ns > READY_LIMIT_NS)
		end_burst(x, p, t->ready);
	else	/* a hanging guest is checked with growing delays; many, no more often than one */
		p->due_ns = now_ns + (now_ns - p->asked_ns < READY_FINE_NS ?
				      x->nr_asked * READY_STEP_NS : READY_COARSE_NS);
	/*
	 * A guest that makes us spin repeatedly waits longer, in favor of other guests and the
	 * host.
	 */
	if (t->ready)
		p->not_before_ns = now_ns + SHARE * spent_ns;
	if (t->ready && p->due_ns < p->not_before_ns)
		p->due_ns = p->not_before_ns;
	share(x, p, now_ns, spent_ns);
}

/*
 * Must hold the lock; it is dropped meanwhile. Sends a request, or checks for the guest's response.
 */
static void serve(struct braid_exchange *x, struct braid_exchange_peer *p)
{
	u64 start_ns = braid_host_clock_ns();
	bool late = p->asked_ns && start_ns - p->looked_ns > LATE_NS;
	struct turn t = {
		.p = p,
		.asking = !p->asked_ns,
		.still = start_ns - p->seen_ns > STILL_NS,
		.pings = p->asked_vcpu ? PINGS_TOUR :
			 p->bursts_good < FIRST_BURSTS ? PINGS_FIRST : PINGS_LATER,
		.silent_ns = late || x->nr_asked > 1 ? SILENT_SHORT_NS : SILENT_NS,
	};
	int err;

	p->busy = true;
	if (t.asking) {
		p->asked_vcpu = on_tour(p) ? p->tour % p->guest.nr_vcpus + 1 : 0;
		p->burst = (struct braid_burst){ .cells = p->guest.cells };
		p->soon_asked = p->soon;
	}
	pthread_mutex_unlock(&x->lock);
	err = braid_guard_run(p->guest.base, p->guest.bytes, take_turn, &t);
	braid_burst_end(&p->burst);
	pthread_mutex_lock(&x->lock);
	p->busy = false;
	exchange_settle(x, &t, err, start_ns);
	if (t.asking || !p->asked_ns)	/* a guest without a request was added, removed or
					   rescheduled */
		x->first = NULL;
	pthread_cond_broadcast(&x->changed);
}

/* Must hold the lock. The guest without a request that is due first, or NULL. */
static struct braid_exchange_peer *first_to_ask(struct braid_exchange *x)
{
	struct braid_exchange_peer *p;

	if (x->nr_asked == MAX_ASKED)
		return NULL;
	for (p = x->first ? NULL : x->peers; p; p = p->next)
		if (!p->leaving && !p->asked_ns &&
		    (!x->first || (s64)(p->due_ns - x->first->due_ns) < 0))
			x->first = p;
	return x->first;
}

/* Must hold the lock. The one that is due first, or NULL. */
static struct braid_exchange_peer *first_due(struct braid_exchange *x)
{
	struct braid_exchange_peer *first = first_to_ask(x);
	u32 k;

	for (k = 0; k < x->nr_asked; k++)
		if (!x->asked[k]->leaving &&
		    (!first || (s64)(x->asked[k]->due_ns - first->due_ns) < 0))
			first = x->asked[k];
	return first;
}

/* Must hold the lock; waits for a change, or until due_ns. */
static void wait_until(struct braid_exchange *x, u64 due_ns)
{
	u64 now_ns = braid_host_clock_ns();
	struct timespec end;

	if ((s64)(due_ns - now_ns) <= 0)
		return;
	end = braid_clock_timespec(braid_monotonic_ns() + (due_ns - now_ns));
	pthread_cond_timedwait(&x->changed, &x->lock, &end);
}

static void *exchange_thread(void *arg)
{
	struct sched_param priority = { .sched_priority = sched_get_priority_min(SCHED_FIFO) };
	struct braid_exchange *x = arg;
	struct braid_exchange_peer *p;

	/*
	 * A busy host must not degrade the exchange: the guest spins until this thread responds. A
	 * burst takes some hundred microseconds. Without the privilege bounds are slightly worse.
	 */
	sched_setscheduler(0, SCHED_FIFO, &priority);
	pthread_mutex_lock(&x->lock);
	while (!x->stopping) {
		p = first_due(x);
		if (!p)
			pthread_cond_wait(&x->changed, &x->lock);
		else if ((s64)(p->due_ns - braid_host_clock_ns()) > 0)
			wait_until(x, p->due_ns);
		else
			serve(x, p);
	}
	pthread_mutex_unlock(&x->lock);
	return NULL;
}

int braid_exchange_start(struct braid_exchange **out)
{
	struct braid_exchange *x = calloc(1, sizeof(*x));
	pthread_condattr_t attr;
	int err;

	if (!x)
		return braid_out_of_memory();
	pthread_mutex_init(&x->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&x->changed, &attr);
	pthread_condattr_destroy(&attr);
	err = braid_thread_begin(&x->thread, exchange_thread, x);
	if (err) {
		pthread_cond_destroy(&x->changed);
		pthread_mutex_destroy(&x->lock);
		free(x);
		return braid_fail(-err, "cannot create the thread of the clock exchange: %s", strerror(err));
	}
	*out = x;
	return 0;
}

void braid_exchange_stop(struct braid_exchange *x)
{
	struct braid_exchange_peer *p;

	if (!x)
		return;
	pthread_mutex_lock(&x->lock);
	x->stopping = true;
	for (p = x->peers; p; p = p->next)
		braid_store(&p->leaving, true);
	pthread_cond_broadcast(&x->changed);
	pthread_mutex_unlock(&x->lock);
	pthread_join(x->thread, NULL);
	while ((p = x->peers)) {
		x->peers = p->next;
		free(p);
	}
	pthread_cond_destroy(&x->changed);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

int braid_exchange_add(struct braid_exchange *x, const struct braid_exchange_guest *guest,
		       struct braid_exchange_peer **out)
{
	struct braid_exchange_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return braid_out_of_memory();
	p->guest = *guest;
	p->due_ns = p->seen_ns = braid_host_clock_ns();
	p->interval_ns = INTERVAL_NS / 4;
	p->tour_end = guest->nr_vcpus;
	braid_guard_copy(guest->base, guest->bytes, &p->poll_seq, &guest->cells->poll_seq,
			 sizeof(p->poll_seq));
	pthread_mutex_lock(&x->lock);
	p->next = x->peers;
	x->peers = p;
	x->nr_peers++;
	x->first = NULL;
	pthread_cond_broadcast(&x->changed);
	pthread_mutex_unlock(&x->lock);
	*out = p;
	return 0;
}

void braid_exchange_soon(struct braid_exchange *x, struct braid_exchange_peer *p, bool all_vcpus)
{
	pthread_mutex_lock(&x->lock);
	p->soon = true;
	p->soon_asked = false;
	p->tries_soon = 0;
	if (all_vcpus && braid_host_clock_ns() - p->suspected_ns >= SUSPECT_NS) {
		p->suspected_ns = braid_host_clock_ns();
		/* Twice, to distinguish a step of all vCPUs from one of a single vCPU. */
		p->tour = 0;
		p->tour_end = 2 * p->guest.nr_vcpus;
		p->good = false;
		p->tries_first = 0;
	}
	if (!p->asked_ns)
		p->due_ns = p->not_before_ns;	/* whatever a guest does to get another request */
	x->first = NULL;
	pthread_cond_broadcast(&x->changed);
	pthread_mutex_unlock(&x->lock);
}

bool braid_exchange_pending(struct braid_exchange *x, struct braid_exchange_peer *p)
{
	bool pending;

	pthread_mutex_lock(&x->lock);
	pending = p->soon;
	pthread_mutex_unlock(&x->lock);
	return pending;
}

void braid_exchange_remove(struct braid_exchange *x, struct braid_exchange_peer *p)
{
	struct braid_exchange_peer **link;

	if (!p)
		return;
	pthread_mutex_lock(&x->lock);
	braid_store(&p->leaving, true);
	x->first = NULL;
	while (p->busy)
		pthread_cond_wait(&x->changed, &x->lock);
	for (link = &x->peers; *link != p; link = &(*link)->next)
		;
	*link = p->next;
	x->nr_peers--;
	set_asked(x, p, 0);
	x->first = NULL;
	pthread_mutex_unlock(&x->lock);
	free(p);
}

size_t braid_exchange_take(struct braid_exchange *x, struct braid_exchange_peer *p,
			   struct braid_round_trip *to, size_t max)
{
	size_t n;

	if (!braid_load(&p->nr_queued))	/* a later arrival is found the next time */
		return 0;
	pthread_mutex_lock(&x->lock);
	n = p->nr_queued < max ? p->nr_queued : max;
	memcpy(to, p->queue, n * sizeof(*to));
	braid_store(&p->nr_queued, p->nr_queued - n);
	memmove(p->queue, p->queue + n, p->nr_queued * sizeof(*to));
	pthread_mutex_unlock(&x->lock);
	return n;
}

u64 braid_exchange_bursts(struct braid_exchange *x, struct braid_exchange_peer *p)
{
	u64 n;

	pthread_mutex_lock(&x->lock);
	n = p->bursts_good;
	pthread_mutex_unlock(&x->lock);
	return n;
}
