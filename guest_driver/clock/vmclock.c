// SPDX-License-Identifier: GPL-2.0
/* Finds, checks and reads the vmclock page. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/printk.h>

#include "guest_driver/clock/vmclock.h"
#include "guest_driver/core/counter.h"
#include "shared/platform.h"

#define TRIES		3	/* a hypervisor changes the page rarely and quickly */
#define LEAST_BYTES	offsetof(struct braid_vmclock_page, generation)
#define MOST_SECONDS	(S64_MAX / NSEC_PER_SEC)
#define WORDS		(sizeof(struct braid_vmclock_page) / sizeof(u64))

static_assert(LEAST_BYTES == 104, "vmclock_abi");
static_assert(sizeof(struct braid_vmclock_page) == 112, "vmclock_abi");

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
	u32 size;

	WRITE_ONCE(page, NULL);
	if (!p)
		return 0;
	if (bytes < LEAST_BYTES)
		return -EINVAL;
	size = braid_load(&p->size);
	if (braid_load(&p->magic) != BRAID_VMCLOCK_MAGIC || size < LEAST_BYTES || size > bytes ||
	    braid_load(&p->version) != BRAID_VMCLOCK_VERSION)
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

static void braid_vmclock_copy(struct braid_vmclock_page *to)
{
	const u64 *from = (const u64 *)smp_load_acquire(&page);
	unsigned int k, nr = page_bytes < sizeof(*to) ? LEAST_BYTES / sizeof(u64) : WORDS;

	for (k = 0; k < nr; k++)
		((u64 *)to)[k] = braid_load(&from[k]);
	for (; k < WORDS; k++)
		((u64 *)to)[k] = 0;
	if (page_bytes < sizeof(*to))
		to->flags &= ~(u64)BRAID_VMCLOCK_GENERATION;
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
		braid_vmclock_copy(&copy);
		counter = braid_counter_ordered();
		if (!braid_vmclock_held(seq))
			continue;
		braid_vmclock_evaluate(&copy, own_counter, counter, now);
		return true;
	}
	return false;
}

/* Time --------------------------------------------------------------------------------------- */

/* steps * rate / 2^shift, in s / 2^64: seconds and the rest. Return: false on overflow. */
static bool braid_vmclock_scale(u64 steps, u64 rate, u8 shift, u64 *sec, u64 *frac)
{
	u64 high = mul_u64_u64_shr(steps, rate, 64), low = steps * rate;

	if (shift >= 64)
		return false;
	*sec = high >> shift;
	*frac = shift ? high << (64 - shift) | low >> shift : low;
	return true;
}

/* Rounded down. Return: false on overflow. */
static bool braid_vmclock_to_ns(u64 sec, u64 frac, u64 *ns)
{
	if (sec >= MOST_SECONDS)
		return false;
	*ns = sec * NSEC_PER_SEC + mul_u64_u64_shr(frac, NSEC_PER_SEC, 64);
	return true;
}

/* The time at a counter value. Return: false when the page gives none. */
static bool braid_vmclock_time(const struct braid_vmclock_page *copy, u8 counter_id, u64 counter,
			       u64 *ns)
{
	u64 sec, frac;

	if (counter_id == BRAID_VMCLOCK_NONE || copy->counter_id != counter_id ||
	    copy->time_type >= BRAID_VM_TIME_TYPES || !copy->period ||
	    copy->clock_status == BRAID_VM_INITIALIZING ||
	    copy->clock_status >= BRAID_VM_UNRELIABLE)
		return false;
	/* Not before the page's own pair: the counter went back, or the page is wrong. */
	if ((s64)(counter - copy->counter_value) < 0 ||
	    !braid_vmclock_scale(counter - copy->counter_value, copy->period, copy->period_shift,
				 &sec, &frac))
		return false;
	frac += copy->time_frac;
	if (sec >= MOST_SECONDS || copy->time_sec >= MOST_SECONDS)
		return false;
	return braid_vmclock_to_ns(sec + copy->time_sec + (frac < copy->time_frac), frac, ns);
}

/* The maximum error of that time. Return: false when the page states none. */
static bool braid_vmclock_bound(const struct braid_vmclock_page *copy, u64 counter, u64 *ns)
{
	const u64 needed = BRAID_VMCLOCK_TIME_MAXERROR | BRAID_VMCLOCK_PERIOD_MAXERROR;
	u64 sec, frac;

	if ((copy->flags & needed) != needed ||
	    !braid_vmclock_scale(counter - copy->counter_value, copy->period_maxerror,
				 copy->period_shift, &sec, &frac) ||
	    !braid_vmclock_to_ns(sec, frac, ns) || copy->time_maxerror_ns > S64_MAX - *ns - 2)
		return false;
	*ns += copy->time_maxerror_ns + 2;	/* both conversions round down */
	return true;
}

void braid_vmclock_evaluate(const struct braid_vmclock_page *copy, u8 counter_id, u64 counter,
			    struct braid_vmclock *out)
{
	*out = (struct braid_vmclock){
		.marker = copy->disruption_marker,
		.counter = counter,
		.time_type = copy->time_type,
		.status = copy->clock_status,
	};
	if (copy->flags & BRAID_VMCLOCK_GENERATION) {
		out->flags |= BRAID_VM_GENERATION;
		out->generation = copy->generation;
	}
	if (!braid_vmclock_time(copy, counter_id, counter, &out->time_ns))
		return;
	out->flags |= BRAID_VM_TIME;
	if (braid_vmclock_bound(copy, counter, &out->bound_ns))
		out->flags |= BRAID_VM_BOUND;
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
