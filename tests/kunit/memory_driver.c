// SPDX-License-Identifier: GPL-2.0
/* The transport "memory", in a guest that has as much memory in one piece as a test says. */
#include <linux/cc_platform.h>
#include <linux/gfp.h>
#include <linux/mm.h>

#include "tests/kunit/fake_memory.h"

struct braid_fake_guest_memory braid_fake_guest_memory;

/* Chunk 0 always succeeds, unless none may. */
static struct page *fake_alloc_pages(gfp_t flags, unsigned int order)
{
	struct braid_fake_guest_memory *fake = &braid_fake_guest_memory;

	if (fake->nr_allocated >= fake->most_chunks ||
	    (fake->nr_allocated && order > fake->most_order))
		return NULL;
	fake->nr_allocated++;
	return alloc_pages(flags, order);
}

#undef alloc_pages
#define alloc_pages	fake_alloc_pages
#define cc_platform_has(attribute) \
	((attribute) == CC_ATTR_GUEST_MEM_ENCRYPT && braid_fake_guest_memory.encrypted)

#undef pr_fmt
#include "guest_driver/transport/memory.c"

void braid_fake_set_memory_mb(u32 mb)
{
	memory_mb = mb;
}

u32 braid_fake_nr_chunks(void)
{
	return nr_chunks;
}

struct page *braid_fake_chunk(u32 chunk)
{
	return first[chunk];
}

void *braid_fake_memory_region(void)
{
	return range.base;
}

void braid_fake_reboot(void)
{
	braid_memory_reboots(&reboot_block, SYS_RESTART, NULL);
}

void braid_fake_sleep(bool asleep)
{
	braid_memory_sleeps(&sleep_block, asleep ? PM_SUSPEND_PREPARE : PM_POST_SUSPEND, NULL);
}

void braid_fake_settle(void)
{
	flush_work(&let_go_work);
}
