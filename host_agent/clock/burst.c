// SPDX-License-Identifier: GPL-2.0-or-later
/* One burst of the exchange: pings until the guest or we have had enough. */
#include <sched.h>

#include "host_agent/clock/burst.h"
#include "host_agent/clock/host.h"

#define PONG_LIMIT_MIN_NS	200000ULL
#define PONG_LIMIT_MAX_NS	2000000ULL	/* an emulated vCPU may not even be running */
#define PONG_POLITE_NS		20000ULL	/* the guest may need the CPU that we spin on */
#define PONG_SPIN_NS		200000ULL	/* no longer: what comes later is wide anyway */
#define PONG_STEP_NS		50000ULL
#define MAX_TIMEOUTS		4		/* of a burst */

static void keep(struct braid_burst *b, const struct braid_crossing *c)
{
	u32 k;

	if (b->nr == BRAID_EXCHANGE_BEST) {
		if (braid_crossing_width(c) >= braid_crossing_width(&b->best[b->nr - 1]))
			return;
		b->nr--;
	}
	for (k = b->nr++; k && braid_crossing_width(c) < braid_crossing_width(&b->best[k - 1]); k--)
		b->best[k] = b->best[k - 1];
	b->best[k] = *c;
}

static inline void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

/* One ping. Whatever happens in between, h1 <= the moment of counter <= h2. */
static bool ping(struct braid_clock_cells *cells, u64 number, u64 limit_ns,
		 struct braid_crossing *c)
{
	struct braid_clock_sample *s = &c->s;
	u64 waited_ns;

	s->h1_ns = braid_host_clock_ns();
	braid_store_release(&cells->ping, number);			/* (K1) */
	for (;;) {
		bool answered = braid_load_acquire(&cells->pong) == number;	/* (K2) */

		if (answered) {
			s->counter = braid_load(&cells->pong_counter);
			c->vcpu = braid_load(&cells->pong_vcpu);
		}
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

void braid_burst_ask(struct braid_burst *b, u32 vcpu)
{
	struct braid_clock_cells *cells = b->cells;

	b->number = braid_load(&cells->burst) + 1;
	if (b->number == braid_load(&cells->ready))
		b->number++;	/* a former agent's, answered late */
	braid_store(&cells->burst_vcpu, vcpu);
	braid_store_release(&cells->burst, b->number);			/* (K7) */
}

bool braid_burst_ready(const struct braid_burst *b)
{
	return braid_load_acquire(&b->cells->ready) == b->number;	/* (K4) */
}

void braid_burst_run(struct braid_burst *b, u32 pings, const bool *leaving)
{
	struct braid_clock_cells *cells = b->cells;
	u64 number, limit_ns = PONG_LIMIT_MIN_NS;
	struct braid_crossing c;
	u32 k, timeouts = 0;

	if (sched_getaffinity(0, sizeof(b->allowed), &b->allowed))
		CPU_ZERO(&b->allowed);
	number = braid_load(&cells->pong);
	if ((s64)(braid_load(&cells->ping) - number) > 0)
		number = braid_load(&cells->ping);
	for (k = 0; k < pings && !braid_load(leaving); k++) {
		if (ping(cells, ++number, limit_ns, &c)) {
			keep(b, &c);
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
	braid_store(&cells->burst_over, b->number);	/* the guest need not spin on */
}

void braid_burst_end(struct braid_burst *b)
{
	if (b->hopped)
		sched_setaffinity(0, sizeof(b->allowed), &b->allowed);
	b->hopped = false;
}
