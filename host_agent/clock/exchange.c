// SPDX-License-Identifier: GPL-2.0-or-later
/* A thread that plays ping-pong with all guests in turn. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock/exchange.h"
#include "host_agent/clock/host.h"
#include "host_agent/transport/guard.h"
#include "host_agent/util/error.h"
#include "shared/platform.h"

#define READY_STEP_NS		100000ULL
#define READY_LIMIT_NS		300000000ULL	/* a guest looks at least every 250 ms */
#define PONG_LIMIT_MIN_NS	200000ULL
#define PONG_LIMIT_MAX_NS	2000000ULL	/* an emulated vCPU may not even be running */
#define PONG_POLITE_NS		20000ULL	/* the guest may need the CPU that we spin on */
#define PONG_SPIN_NS		200000ULL	/* no longer: what comes later is wide anyway */
#define PONG_STEP_NS		50000ULL
#define MAX_TIMEOUTS		4		/* of a burst */
#define INTERVAL_NS		1000000000ULL
#define AGAIN_NS		250000000ULL	/* after a poor burst ... */
#define MAX_AGAIN		8		/* ... but not for ever */
#define WIDE_NS			20000ULL
#define INTERVAL_MAX_NS		8000000000ULL
#define QUEUE_SAMPLES		256

struct braid_exchange_peer {
	struct braid_exchange_peer *next;
	const void *base;
	u64 bytes;
	struct braid_clock_cells *cells;
	u64 due_ns;
	u64 interval_ns;
	u32 poor;		/* poor bursts in a row */
	bool leaving;		/* read by a burst without the lock */
	bool busy;		/* a burst is under way */
	bool soon;		/* one was asked for, and is not over */
	u64 bursts_good;
	u32 nr_queued;
	struct braid_clock_sample queue[QUEUE_SAMPLES];
};

struct braid_exchange {
	pthread_t thread;
	pthread_mutex_t lock;	/* peers, their queues, stopping */
	pthread_cond_t changed;
	struct braid_exchange_peer *peers;
	bool stopping;
};

/* One burst; what it found is its own until the lock is taken. */
struct burst {
	struct braid_exchange_peer *peer;
	struct braid_clock_sample best[BRAID_EXCHANGE_BEST];
	u32 nr;
	bool ready;		/* the guest came */
	cpu_set_t allowed;	/* CPUs of this thread, but for hops */
	bool hopped;
};

static u64 width(const struct braid_clock_sample *s)
{
	return s->h2_ns - s->h1_ns;
}

static void keep(struct burst *b, const struct braid_clock_sample *s)
{
	u32 k;

	if (b->nr == BRAID_EXCHANGE_BEST) {
		if (width(s) >= width(&b->best[b->nr - 1]))
			return;
		b->nr--;
	}
	for (k = b->nr++; k && width(s) < width(&b->best[k - 1]); k--)
		b->best[k] = b->best[k - 1];
	b->best[k] = *s;
}

static inline void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

/* Waits for the guest to spin: it looks now and then, so we sleep in between. */
static bool wait_ready(const struct braid_exchange_peer *p, u64 burst)
{
	u64 start_ns = braid_host_clock_ns();

	do {
		if (braid_load_acquire(&p->cells->ready) == burst)	/* (K4) */
			return true;
		braid_sleep_ns(READY_STEP_NS);
	} while (!braid_load(&p->leaving) && braid_host_clock_ns() - start_ns < READY_LIMIT_NS);
	return false;
}

/* One ping. Whatever happens in between, h1 <= the moment of counter <= h2. */
static bool ping(struct braid_clock_cells *cells, u64 number, u64 limit_ns,
		 struct braid_clock_sample *s)
{
	u64 waited_ns;

	s->h1_ns = braid_host_clock_ns();
	braid_store_release(&cells->ping, number);			/* (K1) */
	for (;;) {
		bool answered = braid_load_acquire(&cells->pong) == number;	/* (K2) */

		if (answered)
			s->counter = braid_load(&cells->pong_counter);
		braid_fence();		/* h2 is read after the pong was seen */
		s->h2_ns = braid_host_clock_ns();
		if (answered)
			return true;
		waited_ns = s->h2_ns - s->h1_ns;
		if (waited_ns > limit_ns)
			return false;
		if (waited_ns > PONG_SPIN_NS)
			braid_sleep_ns(PONG_STEP_NS);
		else if (waited_ns > PONG_POLITE_NS)
			sched_yield();
		else
			relax();
	}
}

/*
 * The scheduler likes to put who was woken where its waker ran; a guest and we on one
 * CPU never meet. So after a time-out we go elsewhere; after the next one, elsewhere
 * having been no better, where the scheduler likes.
 */
static void hop(const cpu_set_t *allowed)
{
	int here = sched_getcpu(), k, cpu;
	cpu_set_t one;

	for (k = 1; k < CPU_SETSIZE && here >= 0; k++) {
		cpu = (here + k) % CPU_SETSIZE;
		if (!CPU_ISSET(cpu, allowed))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

/* Under the guard: a burst of pings. */
static int run_burst(void *arg)
{
	struct burst *b = arg;
	struct braid_clock_cells *cells = b->peer->cells;
	u64 number, burst = braid_load(&cells->burst) + 1;
	u64 limit_ns = PONG_LIMIT_MIN_NS;
	struct braid_clock_sample s;
	int k, timeouts = 0;

	if (burst == braid_load(&cells->ready))
		burst++;	/* a former agent's, answered late */
	braid_store_release(&cells->burst, burst);
	b->ready = wait_ready(b->peer, burst);
	if (!b->ready)
		return 0;
	number = braid_load(&cells->pong);
	if ((s64)(braid_load(&cells->ping) - number) > 0)
		number = braid_load(&cells->ping);
	for (k = 0; k < BRAID_EXCHANGE_PINGS && !braid_load(&b->peer->leaving); k++) {
		if (ping(cells, ++number, limit_ns, &s)) {
			keep(b, &s);
			continue;
		}
		if (++timeouts >= MAX_TIMEOUTS)
			break;
		if (limit_ns < PONG_LIMIT_MAX_NS)
			limit_ns *= 2;
		if (timeouts & 1)
			hop(&b->allowed);
		else
			sched_setaffinity(0, sizeof(b->allowed), &b->allowed);
		b->hopped = true;
	}
	return 0;
}

/* Must hold the lock. The oldest go when nobody takes them. */
static void queue_samples(struct braid_exchange_peer *p, const struct burst *b)
{
	u32 over;

	if (p->nr_queued + b->nr > QUEUE_SAMPLES) {
		over = p->nr_queued + b->nr - QUEUE_SAMPLES;
		p->nr_queued -= over;
		memmove(p->queue, p->queue + over, p->nr_queued * sizeof(*p->queue));
	}
	memcpy(p->queue + p->nr_queued, b->best, b->nr * sizeof(*p->queue));
	p->nr_queued += b->nr;
}

/* Cut short, or never quick: the two threads did not run at the same time. */
static bool is_poor(const struct burst *b)
{
	return b->nr < BRAID_EXCHANGE_BEST || width(&b->best[0]) > WIDE_NS;
}

/* Must hold the lock. When the next burst is due. */
static void schedule(struct braid_exchange_peer *p, const struct burst *b)
{
	static const u64 first_ns[] = { 100000000, 200000000 };	/* at 0.1 and 0.3 s */
	u64 wait_ns;

	if (b->ready)
		p->interval_ns = INTERVAL_NS;
	else if (p->interval_ns < INTERVAL_MAX_NS)
		p->interval_ns *= 2;
	wait_ns = p->interval_ns;
	p->poor = b->ready && is_poor(b) ? p->poor + 1 : 0;
	if (p->poor && p->poor <= MAX_AGAIN)
		wait_ns = AGAIN_NS;
	else if (b->nr && p->bursts_good <= sizeof(first_ns) / sizeof(*first_ns))
		wait_ns = first_ns[p->bursts_good - 1];
	p->due_ns = braid_host_clock_ns() + (p->soon ? 0 : wait_ns);
}

/* Must hold the lock; it is dropped during the burst. */
static void serve(struct braid_exchange *x, struct braid_exchange_peer *p)
{
	struct burst b = { .peer = p };
	bool soon = p->soon;

	p->busy = true;
	pthread_mutex_unlock(&x->lock);
	if (sched_getaffinity(0, sizeof(b.allowed), &b.allowed))
		CPU_ZERO(&b.allowed);
	braid_guard_run(p->base, p->bytes, run_burst, &b);
	if (b.hopped)
		sched_setaffinity(0, sizeof(b.allowed), &b.allowed);
	pthread_mutex_lock(&x->lock);
	p->busy = false;
	p->soon &= !soon;
	p->bursts_good += !!b.nr;
	queue_samples(p, &b);
	schedule(p, &b);
	pthread_cond_broadcast(&x->changed);
}

/* Must hold the lock. The one that is due first, or NULL. */
static struct braid_exchange_peer *first_due(const struct braid_exchange *x)
{
	struct braid_exchange_peer *p, *first = NULL;

	for (p = x->peers; p; p = p->next)
		if (!p->leaving && (!first || (s64)(p->due_ns - first->due_ns) < 0))
			first = p;
	return first;
}

/* Must hold the lock; waits for a change, or until due_ns. */
static void wait_until(struct braid_exchange *x, u64 due_ns)
{
	u64 now_ns = braid_host_clock_ns(), end_ns;
	struct timespec end;

	if ((s64)(due_ns - now_ns) <= 0)
		return;
	end_ns = braid_clock_read_ns(CLOCK_MONOTONIC) + (due_ns - now_ns);
	end.tv_sec = end_ns / 1000000000;
	end.tv_nsec = end_ns % 1000000000;
	pthread_cond_timedwait(&x->changed, &x->lock, &end);
}

static void *exchange_thread(void *arg)
{
	struct braid_exchange *x = arg;
	struct braid_exchange_peer *p;

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

/* Signals belong to the main thread. */
static int create_thread(struct braid_exchange *x)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	err = pthread_create(&x->thread, NULL, exchange_thread, x);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

int braid_exchange_start(struct braid_exchange **out)
{
	struct braid_exchange *x = calloc(1, sizeof(*x));
	pthread_condattr_t attr;
	int err;

	if (!x)
		return braid_fail(-ENOMEM, "out of memory");
	pthread_mutex_init(&x->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&x->changed, &attr);
	pthread_condattr_destroy(&attr);
	err = create_thread(x);
	if (err) {
		pthread_cond_destroy(&x->changed);
		pthread_mutex_destroy(&x->lock);
		free(x);
		return braid_fail(-err, "no thread for the clock exchange: %s", strerror(err));
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

int braid_exchange_add(struct braid_exchange *x, const void *base, u64 bytes,
		       struct braid_clock_cells *cells, struct braid_exchange_peer **out)
{
	struct braid_exchange_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return braid_fail(-ENOMEM, "out of memory");
	p->base = base;
	p->bytes = bytes;
	p->cells = cells;
	p->due_ns = braid_host_clock_ns();
	p->interval_ns = INTERVAL_NS / 4;
	pthread_mutex_lock(&x->lock);
	p->next = x->peers;
	x->peers = p;
	pthread_cond_broadcast(&x->changed);
	pthread_mutex_unlock(&x->lock);
	*out = p;
	return 0;
}

void braid_exchange_soon(struct braid_exchange *x, struct braid_exchange_peer *p)
{
	pthread_mutex_lock(&x->lock);
	p->soon = true;
	p->due_ns = braid_host_clock_ns();
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
	while (p->busy)
		pthread_cond_wait(&x->changed, &x->lock);
	for (link = &x->peers; *link != p; link = &(*link)->next)
		;
	*link = p->next;
	pthread_mutex_unlock(&x->lock);
	free(p);
}

size_t braid_exchange_take(struct braid_exchange *x, struct braid_exchange_peer *p,
			   struct braid_clock_sample *to, size_t max)
{
	size_t n;

	pthread_mutex_lock(&x->lock);
	n = p->nr_queued < max ? p->nr_queued : max;
	memcpy(to, p->queue, n * sizeof(*to));
	p->nr_queued -= n;
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
