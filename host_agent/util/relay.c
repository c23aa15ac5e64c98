// SPDX-License-Identifier: GPL-2.0-or-later
/* Two runners take one batch each through all stages. At most stages they wait for their turn. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "host_agent/util/error.h"
#include "host_agent/util/relay.h"
#include "host_agent/util/thread.h"
#include "tracebraid/types.h"

#define SPINS	2000u	/* some 50 us */

struct relay {
	const struct braid_relay_stage *stages;
	size_t nr;
	void *arg;
	pthread_mutex_t lock;		/* protects all that follows */
	pthread_cond_t moved;
	u32 moves;			/* how often it was signalled; read without the lock, too */
	u64 next[BRAID_RELAY_STAGES];	/* by stage: the batch whose turn it is; counts from 0 */
	bool filling;			/* a runner is in the first stage */
	bool last;			/* no more batches are filled */
	u64 limit;			/* batches from this one on go no further */
	int err;			/* the reason */
	char failure[1024];
};

bool braid_relay_can(void)
{
	cpu_set_t set;

	/* The call fails if the machine has more CPUs than the set. */
	return sched_getaffinity(0, sizeof(set), &set) || CPU_COUNT(&set) >= (int)BRAID_RELAY_RUNNERS;
}

/* The caller holds the lock. */
static void tell(struct relay *r)
{
	__atomic_store_n(&r->moves, r->moves + 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&r->moved);
}

/*
 * The caller holds the lock, which is released meanwhile. At first without sleeping: the other runner
 * mostly moves on sooner than a sleeping thread wakes up, in a virtual machine above all.
 */
static void relay_await(struct relay *r)
{
	u32 moves = r->moves, k;

	pthread_mutex_unlock(&r->lock);
	for (k = 0; k < SPINS && __atomic_load_n(&r->moves, __ATOMIC_RELAXED) == moves; k++)
		braid_thread_relax();
	pthread_mutex_lock(&r->lock);
	if (r->moves == moves)
		pthread_cond_wait(&r->moved, &r->lock);
}

/* The caller holds the lock. Keeps the failure of the earliest batch that failed. */
static void note_failure(struct relay *r, u64 limit, int err)
{
	r->last = true;
	if (limit >= r->limit)
		return;
	r->limit = limit;
	r->err = err;
	snprintf(r->failure, sizeof(r->failure), "%s", braid_failure());
}

/* Return: whether the runner has a batch. */
static bool relay_fill(struct relay *r, size_t runner, u64 *batch)
{
	bool more;
	int ret;

	pthread_mutex_lock(&r->lock);
	while (r->filling && !r->last)
		relay_await(r);
	more = !r->last;
	r->filling = true;
	*batch = r->next[0];
	pthread_mutex_unlock(&r->lock);
	if (!more)
		return false;
	ret = r->stages[0].run(r->arg, runner);
	pthread_mutex_lock(&r->lock);
	r->filling = false;
	r->next[0]++;
	if (ret < 0)
		note_failure(r, *batch + 1, ret);
	r->last |= !ret;
	tell(r);
	pthread_mutex_unlock(&r->lock);
	return true;
}

/* Takes the runner's batch through a stage after the first one. */
static void pass(struct relay *r, size_t runner, size_t stage, u64 batch)
{
	const struct braid_relay_stage *s = &r->stages[stage];
	bool runs;
	int err = 0;

	pthread_mutex_lock(&r->lock);
	while (!s->at_once && r->next[stage] != batch)
		relay_await(r);
	runs = batch < r->limit;
	pthread_mutex_unlock(&r->lock);
	if (runs)
		err = s->run(r->arg, runner);
	pthread_mutex_lock(&r->lock);
	r->next[stage]++;
	if (err)
		note_failure(r, batch, err);
	if (!s->at_once || err)
		tell(r);
	pthread_mutex_unlock(&r->lock);
}

static void relay_run(struct relay *r, size_t runner)
{
	size_t stage;
	u64 batch;

	while (relay_fill(r, runner, &batch))
		for (stage = 1; stage < r->nr; stage++)
			pass(r, runner, stage, batch);
}

static void *run_second(void *arg)
{
	relay_run(arg, 1);
	return NULL;
}

int braid_relay_run(const struct braid_relay_stage *stages, size_t nr, void *arg)
{
	struct relay r = {
		.stages = stages, .nr = nr, .arg = arg, .limit = ~0ULL,
		.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER,
	};
	pthread_t thread;
	/* If the thread cannot be created, this one takes all batches. */
	bool both = !braid_thread_begin(&thread, run_second, &r);

	relay_run(&r, 0);
	if (both)
		pthread_join(thread, NULL);
	return r.err ? braid_fail(r.err, "%s", r.failure) : 0;
}
