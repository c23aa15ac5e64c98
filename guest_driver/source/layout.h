/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Private structures of the kernel whose members its events record.
 *
 * They have the kernel's layout as far as events read them. At load the layout is compared with the
 * running kernel's BTF. Where it differs, or the kernel has no BTF, the events are omitted.
 */
#ifndef BRAID_SOURCE_LAYOUT_H
#define BRAID_SOURCE_LAYOUT_H

#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "guest_driver/compat.h"

struct kmem_cache {
	void __percpu *of_cpus;
	slab_flags_t flags;
	unsigned long min_partial;
	unsigned int size;
	unsigned int object_size;
	u32 reciprocal_size[2];
	unsigned int offset;
#if BRAID_SLAB_HAS_SHEAVES
	unsigned int sheaf_capacity;
#elif defined(CONFIG_SLUB_CPU_PARTIAL)
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

/* Whether struct kmem_cache has the kernel's layout. At init; may sleep. */
bool braid_layout_of_kmem_cache(void);

/*
 * Whether struct pool_workqueue and what it points to have the kernel's layout. At init; may sleep.
 */
bool braid_layout_of_workqueue(void);

#endif /* BRAID_SOURCE_LAYOUT_H */
