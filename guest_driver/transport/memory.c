// SPDX-License-Identifier: GPL-2.0
/* memory: the guest's own pages, which the host finds by their beacons and only reads. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/cc_platform.h>
#include <linux/crash_dump.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/reboot.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "guest_driver/transport/transport.h"
#include "shared/platform.h"
#include "tracebraid/beacon.h"

#define SMALLEST_ORDER	ilog2(BRAID_BEACON_MIN_PAGES)
#define MOST_BYTES	((u64)BRAID_BEACON_CHUNKS * BRAID_BEACON_STEP)

static uint memory_mb = 16;
module_param(memory_mb, uint, 0444);
MODULE_PARM_DESC(memory_mb, "MiB of this guest's own memory to use when no device provides memory (default 16)");

static const struct braid_transport_client *client;
static struct braid_range range;
static struct page *first[BRAID_BEACON_CHUNKS];
static u8 order[BRAID_BEACON_CHUNKS];
static u32 nr_chunks;
static DEFINE_MUTEX(lock);	/* of the above; taken before the client's own */

/* Pages ------------------------------------------------------------------------------ */

static u64 braid_memory_chunk_bytes(u32 chunk)
{
	return (u64)PAGE_SIZE << order[chunk];
}

static void braid_memory_free_chunks(void)
{
	u32 chunk, k;

	vunmap(range.base);
	range.base = NULL;
	for (chunk = 0; chunk < nr_chunks; chunk++)
		for (k = 0; k < 1u << order[chunk]; k++)
			__free_page(first[chunk] + k);
	nr_chunks = 0;
}

/*
 * Chunks of BRAID_BEACON_STEP, and smaller ones where there are no more of these: chunk 0 has to be
 * one. Return: bytes.
 */
static u64 braid_memory_alloc_chunks(u64 bytes)
{
	const gfp_t flags = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN | __GFP_RETRY_MAYFAIL;
	int o = get_order(BRAID_BEACON_STEP);
	u64 got = 0;

	while (got < bytes && nr_chunks < BRAID_BEACON_CHUNKS) {
		struct page *page = alloc_pages(flags, o);

		if (!page) {
			if (!nr_chunks || o-- == SMALLEST_ORDER)
				break;
			continue;
		}
		/* Each has a reference count: a user of a mapping can hold one of them. */
		split_page(page, o);
		first[nr_chunks] = page;
		order[nr_chunks++] = o;
		got += (u64)PAGE_SIZE << o;
	}
	return got;
}

/* All pages but those of the beacons. */
static int braid_memory_map_chunks(u64 bytes)
{
	u32 nr = (bytes >> PAGE_SHIFT) - nr_chunks, chunk, k, n = 0;
	struct page **all = kvmalloc_array(nr, sizeof(*all), GFP_KERNEL);

	if (!all)
		return -ENOMEM;
	for (chunk = 0; chunk < nr_chunks; chunk++)
		for (k = 1; k < 1u << order[chunk]; k++)
			all[n++] = first[chunk] + k;
	range.base = vmap(all, nr, VM_MAP, PAGE_KERNEL);
	range.bytes = (u64)nr << PAGE_SHIFT;
	kvfree(all);
	return range.base ? 0 : -ENOMEM;
}

static int braid_memory_make_chunks(void)
{
	u64 bytes = max_t(u64, (u64)memory_mb << 20, BRAID_BEACON_STEP), got;
	u64 most = min_t(u64, (u64)totalram_pages() << PAGE_SHIFT >> 2, MOST_BYTES);

	if (bytes > most) {
		pr_err("memory: memory_mb=%u is too large: %llu are allowed (a quarter of this guest's memory, 496 at most); load with less, or with transport=device to use none\n",
		       memory_mb, most >> 20);
		return -ENOMEM;
	}
	got = braid_memory_alloc_chunks(bytes);
	if (got >= bytes && !braid_memory_map_chunks(got))
		return 0;
	pr_err("memory: only %llu of %u MiB are available in contiguous pieces; load with a smaller memory_mb=, or with transport=device to use none\n",
	       got >> 20, memory_mb);
	braid_memory_free_chunks();
	return -ENOMEM;
}

/* Beacons ------------------------------------------------------------------------------ */

static struct braid_beacon *braid_memory_beacon(u32 chunk)
{
	return page_address(first[chunk]);
}

static void braid_memory_fill_beacon(u32 chunk, u64 nonce)
{
	struct braid_beacon *beacon = braid_memory_beacon(chunk);
	u32 k;

	beacon->version_major = BRAID_BEACON_VERSION_MAJOR;
	beacon->version_minor = BRAID_BEACON_VERSION_MINOR;
	beacon->page_bytes = PAGE_SIZE;
	beacon->nonce = nonce;
	beacon->index = chunk;
	beacon->nr_chunks = nr_chunks;
	beacon->address = page_to_phys(first[chunk]);
	beacon->bytes = braid_memory_chunk_bytes(chunk);
	beacon->region_bytes = range.bytes;
	for (k = 0; !chunk && k < nr_chunks; k++) {
		beacon->chunks[k].address = page_to_phys(first[k]);
		beacon->chunks[k].bytes = braid_memory_chunk_bytes(k);
	}
	braid_store_release(&beacon->magic, BRAID_BEACON_MAGIC);	/* (N1) */
}

static void braid_memory_light_beacons(void)
{
	u32 chunk = nr_chunks;
	u64 nonce;

	do
		nonce = get_random_u64();
	while (!nonce);
	while (chunk--)
		braid_memory_fill_beacon(chunk, nonce);
}

/* No page is reused before its host can see that. */
static void braid_memory_clear_beacons(void)
{
	u32 chunk;

	for (chunk = 0; chunk < nr_chunks; chunk++)
		braid_store(&braid_memory_beacon(chunk)->magic, 0);
	braid_fence();							/* (N1) */
}

/* The region is DOWN: a host has the time to copy the last of it. Must hold lock. */
static void braid_memory_let_go(void)
{
	if (!range.base)
		return;
	msleep(BRAID_BEACON_LINGER_MS);
	braid_memory_clear_beacons();
	memset(range.base, 0, PAGE_SIZE);	/* what is freed looks like no region */
	braid_memory_free_chunks();
}

/* Life ------------------------------------------------------------------------------------ */

static void braid_memory_let_go_later(struct work_struct *work)
{
	mutex_lock(&lock);
	braid_memory_let_go();
	mutex_unlock(&lock);
}

static DECLARE_WORK(let_go_work, braid_memory_let_go_later);

/* A device's memory has taken over. Called by the client, with its lock held. */
static void braid_memory_give_way(void)
{
	schedule_work(&let_go_work);
}

/* The kernel that comes next reuses the pages: what they have now is complete. */
static int braid_memory_reboots(struct notifier_block *block, unsigned long action, void *unused)
{
	client->withdraw(&range);
	return NOTIFY_DONE;
}

static void braid_memory_wake(void)
{
	mutex_lock(&lock);
	if (range.base && client->attach(&range) && !client->in_use())
		pr_err("memory: not used after sleep; reload the driver\n");
	mutex_unlock(&lock);
}

/* As for a device: the guest may resume on another host, where its counter starts again. */
static int braid_memory_sleeps(struct notifier_block *block, unsigned long action, void *unused)
{
	switch (action) {
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
	case PM_SUSPEND_PREPARE:
		client->withdraw(&range);
		break;
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
	case PM_POST_SUSPEND:
		braid_memory_wake();
	}
	return NOTIFY_DONE;
}

static struct notifier_block reboot_block = { .notifier_call = braid_memory_reboots };
static struct notifier_block sleep_block = { .notifier_call = braid_memory_sleeps };

static int braid_memory_start(bool until_device)
{
	int err = braid_memory_make_chunks();

	if (err)
		return err;
	range.name = "memory";
	range.invited = true;
	range.has_pages = true;
	range.only_read = true;
	range.give_way = until_device ? braid_memory_give_way : NULL;
	err = client->attach(&range);
	if (err) {
		braid_memory_free_chunks();
		return until_device && client->in_use() ? 0 : err;	/* a device was faster */
	}
	braid_memory_light_beacons();
	register_reboot_notifier(&reboot_block);
	register_pm_notifier(&sleep_block);
	return 0;
}

/* Why these pages can't be used, or NULL. */
static const char *braid_memory_objection(void)
{
	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return "it is encrypted, so the host could not read the trace; use ivshmem";
	if (is_kdump_kernel())
		return "this kernel has little, and saves that of the one that crashed";
	return NULL;
}

int braid_memory_init(const struct braid_transport_client *who, bool until_device)
{
	const char *objection = braid_memory_objection();
	int err;

	client = who;
	if (objection) {
		pr_info("the guest's own memory is not used: %s\n", objection);
		return until_device ? 0 : -ENODEV;
	}
	mutex_lock(&lock);
	err = braid_memory_start(until_device);
	mutex_unlock(&lock);
	return err;
}

void braid_memory_exit(void)
{
	if (!client)
		return;		/* a device's memory was there first */
	unregister_pm_notifier(&sleep_block);
	unregister_reboot_notifier(&reboot_block);
	client->withdraw(&range);
	cancel_work_sync(&let_go_work);
	mutex_lock(&lock);
	braid_memory_let_go();
	mutex_unlock(&lock);
}
