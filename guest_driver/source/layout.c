// SPDX-License-Identifier: GPL-2.0
/*
 * Compares the layouts of private structures with the running kernel's BTF.
 */
#include <linux/kernel.h>
#include <linux/vmalloc.h>

#include "guest_driver/core/btf.h"
#include "guest_driver/source/layout.h"
#include "shared/btf.h"

#define MEMBER(type, name)	\
	{ #type, #name, offsetof(struct type, name), sizeof_field(struct type, name) }

/* All members that events read. */
static const struct braid_btf_member braid_kmem_cache_members[] __initconst = {
	MEMBER(kmem_cache, flags),
	MEMBER(kmem_cache, size),
	MEMBER(kmem_cache, object_size),
	MEMBER(kmem_cache, name),
};

static const struct braid_btf_member braid_workqueue_members[] __initconst = {
	MEMBER(pool_workqueue, pool),
	MEMBER(pool_workqueue, wq),
	MEMBER(worker_pool, cpu),
	{ "workqueue_struct", "name", offsetof(struct workqueue_struct, name), 0 },
};

static struct {
	bool checked, kmem_cache, workqueue;
} matches __initdata;

static bool __init braid_layout_matches(const void *btf, size_t bytes,
					const struct braid_btf_member *members, unsigned int nr)
{
	while (nr--)
		if (!braid_btf_has(btf, bytes, &members[nr]))
			return false;
	return true;
}

/* Reads the BTF once, because it has several MiB. */
static void __init braid_layout_check(void)
{
	size_t bytes = 0;
	void *btf = braid_btf_read("vmlinux", &bytes);

	matches.checked = true;
	if (!btf)
		return;
	matches.kmem_cache = braid_layout_matches(btf, bytes, braid_kmem_cache_members,
						  ARRAY_SIZE(braid_kmem_cache_members));
	matches.workqueue = braid_layout_matches(btf, bytes, braid_workqueue_members,
						 ARRAY_SIZE(braid_workqueue_members));
	vfree(btf);
}

bool __init braid_layout_of_kmem_cache(void)
{
	if (!matches.checked)
		braid_layout_check();
	return matches.kmem_cache;
}

bool __init braid_layout_of_workqueue(void)
{
	if (!matches.checked)
		braid_layout_check();
	return matches.workqueue;
}
