// SPDX-License-Identifier: GPL-2.0
/* Finds, checks and reads the vmclock page. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/ktime.h>
#include <linux/printk.h>

#include "guest_driver/clock/vmclock.h"
#include "guest_driver/core/counter.h"
#include "shared/platform.h"

#define TRIES		3	/* a hypervisor changes the page rarely and quickly */

static const struct braid_vmclock_page *page;	/* the hypervisor's: each load is checked */
static u32 page_bytes;				/* as it states, and at least LEAST_BYTES */
static u8 own_counter;				/* of this guest: to find it takes 256 CPUIDs, each
						   an exit */

/* The counter that events are stamped with, as vmclock numbers them. */
static u8 braid_vmclock_counter_id(void)
{
	switch (braid_counter_type()) {
	case BRAID_COUNTER_TSC:
	case BRAID_COUNTER_TSC_EMULATED:
		return BRAID_VMCLOCK_TSC;
	case BRAID_COUNTER_CNTVCT:
		return BRAID_VMCLOCK_CNTVCT;
	default:
		return BRAID_VMCLOCK_NONE;
	}
}

/* Reading ------------------------------------------------------------------------------------ */

int braid_vmclock_use(const void *memory, u64 bytes)
{
	const struct braid_vmclock_page *p = memory;
	u32 size = braid_vmclock_check(p, bytes);

	WRITE_ONCE(page, NULL);
	if (!p)
		return 0;
	if (!size)
		return -EINVAL;
	page_bytes = size;
	own_counter = braid_vmclock_counter_id();
	smp_store_release(&page, p);
	return 0;
}

bool braid_vmclock_is_there(void)
{
	return READ_ONCE(page);
}

bool braid_vmclock_begin(u32 *seq, u64 *marker)
{
	const struct braid_vmclock_page *p = smp_load_acquire(&page);

	if (!p)
		return false;
	*seq = braid_load_acquire(&p->seq_count);			/* (V1) */
	if (*seq & 1)
		return false;
	*marker = braid_load(&p->disruption_marker);
	return true;
}

bool braid_vmclock_held(u32 seq)
{
	const struct braid_vmclock_page *p = smp_load_acquire(&page);

	braid_fence();							/* (V1) */
	return p && braid_load(&p->seq_count) == seq;
}

bool braid_vmclock_take(struct braid_vmclock *now)
{
	struct braid_vmclock_page copy;
	u64 marker, counter;
	int tries;
	u32 seq;

	for (tries = 0; tries < TRIES; tries++) {
		if (!braid_vmclock_begin(&seq, &marker))
			continue;
		braid_vmclock_copy(&copy, smp_load_acquire(&page), page_bytes);
		counter = braid_counter_ordered();
		if (!braid_vmclock_held(seq))
			continue;
		braid_vmclock_evaluate(&copy, own_counter, counter, now);
		return true;
	}
	return false;
}

/* Finding ------------------------------------------------------------------------------------ */

#ifdef CONFIG_HAS_IOMEM
#include <linux/acpi.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/of.h>
#include <linux/of_address.h>

static void *mapped;

#ifdef CONFIG_ACPI
/* The first range of memory. */
static acpi_status braid_vmclock_see_resource(struct acpi_resource *from, void *arg)
{
	struct resource_win win = { 0 };
	struct resource *found = arg;

	if (resource_type(found) == IORESOURCE_MEM)
		return AE_OK;
	if ((acpi_dev_resource_memory(from, &win.res) ||
	     acpi_dev_resource_address_space(from, &win)) &&
	    resource_type(&win.res) == IORESOURCE_MEM)
		*found = win.res;
	return AE_OK;
}

static bool braid_vmclock_find_acpi(struct resource *found)
{
	static const char *const ids[] = { "AMZNC10C", "VMCLOCK" };
	struct acpi_device *device;
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(ids); k++) {
		device = acpi_dev_get_first_match_dev(ids[k], NULL, -1);
		if (!device)
			continue;
		acpi_walk_resources(device->handle, METHOD_NAME__CRS, braid_vmclock_see_resource,
				    found);
		acpi_dev_put(device);
		if (resource_type(found) == IORESOURCE_MEM)
			return true;
	}
	return false;
}
#else
static bool braid_vmclock_find_acpi(struct resource *found)
{
	return false;
}
#endif

static bool braid_vmclock_find_tree(struct resource *found)
{
	struct device_node *node = of_find_compatible_node(NULL, NULL, "amazon,vmclock");
	bool is = node && !of_address_to_resource(node, 0, found);

	of_node_put(node);
	return is;
}

void braid_vmclock_start(void)
{
	struct resource found = { 0 };

	if (!braid_vmclock_find_acpi(&found) && !braid_vmclock_find_tree(&found))
		return;
	/* The type and attributes of the kernel's own mapping. */
	mapped = memremap(found.start, resource_size(&found), MEMREMAP_WB | MEMREMAP_DEC);
	if (!mapped || braid_vmclock_use(mapped, resource_size(&found)))
		pr_notice_once("the vmclock page at %pR cannot be %s: disruptions of the counter are known only by its value\n",
			       &found, mapped ? "read: unknown format" : "mapped");
}

void braid_vmclock_stop(void)
{
	braid_vmclock_use(NULL, 0);
	if (mapped)
		memunmap(mapped);
	mapped = NULL;
}
#else
void braid_vmclock_start(void)
{
}

void braid_vmclock_stop(void)
{
	braid_vmclock_use(NULL, 0);
}
#endif
