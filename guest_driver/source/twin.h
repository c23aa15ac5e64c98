/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Structures that the kernel keeps to itself and whose members its events record.
 *
 * They have the kernel's layout as far as events look into them. It is
 * compared with the running kernel's at load, on an object of our own of known
 * content: where they differ, the events are left out.
 */
#ifndef BRAID_SOURCE_TWIN_H
#define BRAID_SOURCE_TWIN_H

#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "guest_driver/compat.h"

struct kmem_cache {
	void __percpu *cpu_slab;
	slab_flags_t flags;
	unsigned long min_partial;
	unsigned int size;
	unsigned int object_size;
	u32 reciprocal_size[2];
	unsigned int offset;
#ifdef CONFIG_SLUB_CPU_PARTIAL
	unsigned int cpu_partial[2];
#endif
	unsigned int orders[2];
	gfp_t allocflags;
	int refcount;
	void (*ctor)(void *object);
	unsigned int inuse;
	unsigned int align;
	unsigned int red_left_pad;
	const char *name;
};

struct worker_pool {
	raw_spinlock_t lock;
	int cpu;
};

/* No size for the name: those of the kernels differ, and a fortified strlen() would believe it. */
struct workqueue_struct {
	u8 before_name[BRAID_WORKQUEUE_NAME_OFFSET];
	char name[];
};

struct pool_workqueue {
	struct worker_pool *pool;
	struct workqueue_struct *wq;
};

bool braid_twin_of_kmem_cache(void);
bool braid_twin_of_workqueue(void);

#endif /* BRAID_SOURCE_TWIN_H */
