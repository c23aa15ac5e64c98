// SPDX-License-Identifier: GPL-2.0
/*
 * Compares the twins of private structures with the running kernel's.
 */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "guest_driver/source/twin.h"

#define BRAID_TWIN_NAME		"braid_twin"
#define BRAID_TWIN_OBJECT_SIZE	1160

/* With a constructor, the cache is not merged with another one of like size. */
static void braid_twin_construct(void *object)
{
}

/* Whether there is a readable string at @at that equals the twin's name. */
static bool __init braid_twin_has_name(const void *at)
{
	char name[sizeof(BRAID_TWIN_NAME)];

	return !copy_from_kernel_nofault(name, at, sizeof(name)) &&
		!memcmp(name, BRAID_TWIN_NAME, sizeof(name));
}

static bool __init braid_twin_check_cache(const struct kmem_cache *cache)
{
	struct kmem_cache twin;

	if (copy_from_kernel_nofault(&twin, cache, sizeof(twin)))
		return false;
	return twin.object_size == BRAID_TWIN_OBJECT_SIZE &&
		twin.size >= twin.object_size && twin.size <= 4 * twin.object_size &&
		(twin.flags & SLAB_HWCACHE_ALIGN) &&
		(twin.flags & SLAB_ACCOUNT) == SLAB_ACCOUNT &&
		twin.ctor == braid_twin_construct && braid_twin_has_name(twin.name);
}

/**
 * braid_twin_of_kmem_cache() - Whether struct kmem_cache is as its twin has it.
 *
 * May sleep. Return: true if so.
 */
bool __init braid_twin_of_kmem_cache(void)
{
	static enum { UNKNOWN, DIFFERS, EQUAL } verdict __initdata;
	struct kmem_cache *cache;

	if (verdict != UNKNOWN)
		return verdict == EQUAL;
	verdict = DIFFERS;
	cache = kmem_cache_create(BRAID_TWIN_NAME, BRAID_TWIN_OBJECT_SIZE, 0,
				  SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT, braid_twin_construct);
	if (!cache)
		return false;
	if (braid_twin_check_cache(cache))
		verdict = EQUAL;
	kmem_cache_destroy(cache);
	return verdict == EQUAL;
}

/*
 * struct braid_twin_work - A work of ours on its way through a workqueue of ours.
 * @tracepoint: workqueue_queue_work.
 * @wq: The workqueue.
 * @cpu: Where the work is queued.
 * @equal: Whether the tracepoint's structures were found to be as their twins.
 */
struct braid_twin_work {
	struct work_struct work;
	struct tracepoint *tracepoint;
	struct workqueue_struct *wq;
	int cpu;
	bool equal;
};

static void braid_twin_run(struct work_struct *work)
{
}

/* A probe of workqueue_queue_work: looks only, and only without trust. */
static void braid_twin_probe(void *data, int req_cpu, struct pool_workqueue *pwq,
			     struct work_struct *work)
{
	struct braid_twin_work *twin = data;
	struct pool_workqueue pool_wq;
	struct worker_pool pool;

	if (work != &twin->work)
		return;
	twin->equal = !copy_from_kernel_nofault(&pool_wq, pwq, sizeof(pool_wq)) &&
		pool_wq.wq == twin->wq &&
		!copy_from_kernel_nofault(&pool, pool_wq.pool, sizeof(pool)) &&
		pool.cpu == twin->cpu;
}

static void __init braid_twin_find(struct tracepoint *tracepoint, void *data)
{
	struct braid_twin_work *twin = data;

	if (!strcmp(tracepoint->name, "workqueue_queue_work"))
		twin->tracepoint = tracepoint;
}

/* Queue on the last CPU online: its number is the least likely to be found by chance. */
static bool __init braid_twin_check_queue(struct braid_twin_work *twin)
{
	if (tracepoint_probe_register(twin->tracepoint, braid_twin_probe, twin))
		return false;
	cpus_read_lock();
	twin->cpu = cpumask_last(cpu_online_mask);
	queue_work_on(twin->cpu, twin->wq, &twin->work);
	cpus_read_unlock();
	flush_work(&twin->work);
	tracepoint_probe_unregister(twin->tracepoint, braid_twin_probe, twin);
	tracepoint_synchronize_unregister();
	return twin->equal;
}

/**
 * braid_twin_of_workqueue() - Whether struct pool_workqueue and what it leads to are as the twins.
 *
 * May sleep. Return: true if so.
 */
bool __init braid_twin_of_workqueue(void)
{
	struct braid_twin_work twin = { };
	bool equal;

	for_each_kernel_tracepoint(braid_twin_find, &twin);
	if (!twin.tracepoint)
		return false;
	twin.wq = alloc_workqueue(BRAID_TWIN_NAME, 0, 0);
	if (!twin.wq)
		return false;
	INIT_WORK_ONSTACK(&twin.work, braid_twin_run);
	equal = braid_twin_has_name(twin.wq->name) && braid_twin_check_queue(&twin);
	destroy_work_on_stack(&twin.work);
	destroy_workqueue(twin.wq);
	return equal;
}
