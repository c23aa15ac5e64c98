// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The barriers of shared/platform.h between two threads, as tests/model/order.pml has them: many
 * cells, which both threads pass at the same time, and no bad outcome in any. On x86-64, and on
 * arm64 emulated there, this shows what the compiler moves and stores that loads overtake, no more.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "host_agent/clock_sync/host.h"
#include "shared/platform.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

int main(void);

#define CELLS	4096u
#define ROUNDS	50u
#define PING_ROUNDS	3u	/* of threads that wait for each other in each cell */
#define GROUP	8u		/* cells between two meetings */
#define LINE	128u

struct cell {
	u64 word __attribute__((__aligned__(LINE)));
	u64 a __attribute__((__aligned__(LINE)));
	u64 b __attribute__((__aligned__(LINE)));
	u64 a_of_odd __attribute__((__aligned__(LINE)));	/* the copies that an odd word
								   selects */
	u64 b_of_odd __attribute__((__aligned__(LINE)));
	u64 got_word __attribute__((__aligned__(LINE)));
	u64 got_a, got_b, got_last;
	u64 first_got;		/* by the thread that writes */
};

struct sides {
	void (*first)(struct cell *c), (*second)(struct cell *c);
	struct cell *cells;
	u32 arrived;		/* at the current meeting, or later */
};

/* Waits for the other thread, so that both pass a group together even if one was preempted. */
static void meet(struct sides *s, u32 number)
{
	u32 spins = 0;

	__atomic_fetch_add(&s->arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&s->arrived, __ATOMIC_SEQ_CST) < 2 * number)
		if (++spins % 1024 == 0)
			sched_yield();
}

static void walk(struct sides *s, void (*step)(struct cell *c))
{
	u32 k;

	for (k = 0; k < CELLS; k++) {
		if (k % GROUP == 0)
			meet(s, k / GROUP + 1);
		step(&s->cells[k]);
	}
}

static void *run_first(void *arg)
{
	struct sides *s = arg;

	walk(s, s->first);
	return NULL;
}

/* Return: cells with a bad outcome. */
static u32 pass(void (*first)(struct cell *), void (*second)(struct cell *),
		bool (*bad)(const struct cell *), u32 rounds)
{
	struct sides s = { .first = first, .second = second };
	u32 round, k, found = 0;
	pthread_t thread;

	s.cells = aligned_alloc(LINE, CELLS * sizeof(*s.cells));
	NEED(s.cells);

	for (round = 0; round < rounds; round++) {
		memset(s.cells, 0, CELLS * sizeof(*s.cells));
		s.arrived = 0;
		NEED(!pthread_create(&thread, NULL, run_first, &s));
		walk(&s, s.second);
		pthread_join(thread, NULL);
		for (k = 0; k < CELLS; k++)
			found += bad(&s.cells[k]);
	}
	free(s.cells);
	return found;
}

static void publish(struct cell *c)
{
	braid_store(&c->a, 1);
	braid_store_release(&c->word, 1);
}

static void look(struct cell *c)
{
	c->got_word = braid_load_acquire(&c->word);
	c->got_a = braid_load(&c->a);
}

static bool word_without_data(const struct cell *c)
{
	return c->got_word && !c->got_a;
}

static void change(struct cell *c)
{
	braid_store(&c->word, 1);
	braid_fence();
	braid_store(&c->a, 1);
	braid_store(&c->b, 1);
	braid_store_release(&c->word, 2);
}

static void copy(struct cell *c)
{
	c->got_word = braid_load_acquire(&c->word);
	c->got_a = braid_load(&c->a);
	c->got_b = braid_load(&c->b);
	braid_fence();
	c->got_last = braid_load(&c->word);
}

static bool torn(const struct cell *c)
{
	return c->got_word == c->got_last && !(c->got_word & 1) &&
	       (c->got_a != c->got_b || c->got_a != c->got_word / 2);
}

static void open_slot(struct cell *c)
{
	braid_shared_cmpxchg(&c->a, 0, 1);
	braid_fence();		/* the guest's compare-and-swap is a full one */
	c->first_got = braid_load_acquire(&c->b);
}

static void ask(struct cell *c)
{
	braid_store_release(&c->b, 1);
	braid_fence();
	c->got_b = braid_load(&c->a);
}

static bool both_missed(const struct cell *c)
{
	return !c->first_got && !c->got_b;
}

static void take_back(struct cell *c)
{
	if (braid_load_acquire(&c->word))
		braid_store(&c->a, 1);
}

static void give_back(struct cell *c)
{
	c->got_a = braid_load(&c->a);
	braid_shared_cmpxchg(&c->word, 0, 1);
}

static bool next_lap(const struct cell *c)
{
	return c->got_a;
}

static void change_latch(struct cell *c)
{
	braid_store(&c->word, 1);
	braid_fence();
	braid_store(&c->a, 1);
	braid_store(&c->b, 1);
	braid_store_release(&c->word, 2);
	braid_fence();
	braid_store(&c->a_of_odd, 1);
	braid_store(&c->b_of_odd, 1);
}

static void read_latch(struct cell *c)
{
	bool odd;

	c->got_word = braid_load(&c->word);
	odd = c->got_word & 1;
	c->got_a = braid_load_acquire(odd ? &c->a_of_odd : &c->a);
	c->got_b = braid_load_acquire(odd ? &c->b_of_odd : &c->b);
	c->got_last = braid_load(&c->word);
}

static bool halves(const struct cell *c)
{
	return c->got_word == c->got_last && c->got_a != c->got_b;
}

/* The word is the state, 0 as long as a region lives; a is the incarnation, b any of its bytes. */
static void begin_again(struct cell *c)
{
	braid_store(&c->word, 1);
	braid_fence();
	braid_store(&c->a, 1);
	braid_fence();
	braid_store(&c->b, 1);
	braid_store_release(&c->word, 0);
}

static void copy_of_incarnation(struct cell *c)
{
	c->got_b = braid_load(&c->b);
	braid_fence();
	c->got_word = braid_load(&c->word);
	c->got_a = braid_load(&c->a);
}

static bool of_the_next(const struct cell *c)
{
	return c->got_b && !c->got_word && !c->got_a;
}

/* The word is the ping, a the pong, b the counter between two times of the other side. */
static void answer(struct cell *c)
{
	while (!braid_load_acquire(&c->word))
		sched_yield();
	braid_store(&c->b, braid_host_clock_ns());
	braid_store_release(&c->a, 1);
}

static void measure(struct cell *c)
{
	c->got_a = braid_host_clock_ns();
	braid_store_release(&c->word, 1);
	while (!braid_load_acquire(&c->a))
		sched_yield();
	c->got_last = braid_host_clock_ns();
	c->got_b = braid_load(&c->b);
}

static bool outside(const struct cell *c)
{
	return c->got_b < c->got_a || c->got_b > c->got_last;
}

static void note_time(struct cell *c)
{
	braid_store_release(&c->word, braid_host_clock_ns());
}

static void poll_time(struct cell *c)
{
	c->got_word = braid_load_acquire(&c->word);
	c->got_last = braid_host_clock_ns();
}

static bool before_what_it_saw(const struct cell *c)
{
	return c->got_last < c->got_word;
}

static void what_precedes_a_word(void)
{
	CHECK(!pass(publish, look, word_without_data, ROUNDS));
}

static void odd_while_changed(void)
{
	CHECK(!pass(change, copy, torn, ROUNDS));
}

static void requests_and_slots(void)
{
	CHECK(!pass(open_slot, ask, both_missed, ROUNDS));
}

static void given_back_after_reading(void)
{
	CHECK(!pass(take_back, give_back, next_lap, ROUNDS));
}

static void the_copy_that_does_not_change(void)
{
	CHECK(!pass(change_latch, read_latch, halves, ROUNDS));
}

static void bytes_of_one_incarnation(void)
{
	CHECK(!pass(begin_again, copy_of_incarnation, of_the_next, ROUNDS));
}

static void counter_between_two_times(void)
{
	CHECK(!pass(answer, measure, outside, PING_ROUNDS));
}

static void counter_after_the_time_seen(void)
{
	CHECK(!pass(note_time, poll_time, before_what_it_saw, ROUNDS));
}

int main(void)
{
	RUN(what_precedes_a_word);
	RUN(odd_while_changed);
	RUN(requests_and_slots);
	RUN(given_back_after_reading);
	RUN(the_copy_that_does_not_change);
	RUN(bytes_of_one_incarnation);
	RUN(counter_between_two_times);
	RUN(counter_after_the_time_seen);
	return VERDICT();
}
