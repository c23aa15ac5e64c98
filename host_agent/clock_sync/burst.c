// SPDX-License-Identifier: GPL-2.0-or-later
/* One burst of the exchange: pings until the guest or we have had enough. */
#include <sched.h>

#include "host_agent/clock_sync/burst.h"
#include "host_agent/clock_sync/host.h"

#define PONG_LIMIT_NS		400000ULL
#define SPIN_LIMIT_NS		4000000ULL	/* of a burst: a sleeping side may miss the
						   moment */
#define PONG_SPIN_NS		200000ULL	/* not longer: a later answer is wide anyway */
#define PONG_STEP_NS		50000ULL
#define BURST_LIMIT_NS		30000000ULL

static void burst_keep(struct braid_burst *b, const struct braid_round_trip *c)
{
	u32 k;

	if (b->nr == BRAID_EXCHANGE_BEST) {
		if (braid_round_trip_width(c) >= braid_round_trip_width(&b->best[b->nr - 1]))
			return;
		b->nr--;
	}
	for (k = b->nr++;
	     k && braid_round_trip_width(c) < braid_round_trip_width(&b->best[k - 1]); k--)
		b->best[k] = b->best[k - 1];
	b->best[k] = *c;
}

static inline void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

/* One ping. Whatever the delays, h1 <= host time of counter <= h2. */
static bool ping(struct braid_clock_cells *cells, u64 number, u64 spin_end_ns,
		 struct braid_round_trip *c)
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
		if (s->h2_ns < spin_end_ns && waited_ns > PONG_SPIN_NS)
			return false;
		if (waited_ns > PONG_LIMIT_NS)
			return false;
		if (waited_ns > PONG_SPIN_NS)
			braid_sleep_ns(PONG_STEP_NS);
		else
			relax();
	}
}

/*
 * The scheduler tends to place a woken task on its waker's CPU; a guest and this thread on one CPU
 * never spin at the same time. So after a timeout this thread moves to the next CPU, in turn.
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

void braid_burst_run(struct braid_burst *b, u32 pings, u64 silent_ns, const bool *leaving)
{
	struct braid_clock_cells *cells = b->cells;
	u64 number, start_ns = braid_host_clock_ns(), answered_ns = start_ns;
	struct braid_round_trip c;
	u32 nr = 0;

	if (sched_getaffinity(0, sizeof(b->allowed), &b->allowed))
		CPU_ZERO(&b->allowed);
	number = braid_load(&cells->pong);
	if ((s64)(braid_load(&cells->ping) - number) > 0)
		number = braid_load(&cells->ping);
	do {
		if (ping(cells, ++number, start_ns + SPIN_LIMIT_NS, &c)) {
			burst_keep(b, &c);
			answered_ns = c.s.h2_ns;
			nr++;
			/*
			 * Answered only after we slept: the guest waited for the CPU that we spun
			 * on.
			 */
			if (braid_round_trip_width(&c) < PONG_SPIN_NS)
				continue;
		}
		hop(&b->allowed);
		b->hopped = true;
	} while (nr < pings && !braid_load(leaving) && c.s.h2_ns - answered_ns < silent_ns &&
		 c.s.h2_ns - start_ns < BURST_LIMIT_NS);
	braid_store(&cells->burst_over, b->number);	/* the guest may stop spinning */
}

void braid_burst_end(struct braid_burst *b)
{
	if (b->hopped)
		sched_setaffinity(0, sizeof(b->allowed), &b->allowed);
	b->hopped = false;
}
