// SPDX-License-Identifier: GPL-2.0
/* Sets up tracing over a memory range, and tears it down. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/err.h>
#include <linux/export.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "guest_driver/attach.h"
#include "guest_driver/core/comm.h"
#include "guest_driver/core/stack.h"
#include "guest_driver/core/symbol.h"
#include "guest_driver/event/debugfs.h"
#include "guest_driver/event/poll.h"
#include "guest_driver/event/probe.h"
#include "guest_driver/event/stacks.h"
#include "guest_driver/event/trigger.h"
#include "guest_driver/event/who.h"
#include "guest_driver/source/export.h"
#include "guest_driver/source/tracefs.h"
#include "shared/asked.h"

static unsigned int subbuf_size = PAGE_SIZE;
module_param(subbuf_size, uint, 0444);
MODULE_PARM_DESC(subbuf_size, "bytes of a sub-buffer, 256 to 65536 (default: a page)");

static unsigned int ring_size_kb;
module_param(ring_size_kb, uint, 0444);
MODULE_PARM_DESC(ring_size_kb, "KiB of sub-buffers per vCPU; the number of sub-buffers is rounded up to a power of two (default: five eighths of the shared memory, for all vCPUs)");

static bool overwrite;
module_param(overwrite, bool, 0444);
MODULE_PARM_DESC(overwrite, "1: overwrite mode (flight recorder), keeps the newest events, always so in this guest's own memory; 0: keeps the oldest (default)");

static bool absolute;
module_param(absolute, bool, 0444);
MODULE_PARM_DESC(absolute, "1: events store the counter's low bits; 0: deltas (default)");

static char *events = "";
module_param(events, charp, 0444);
MODULE_PARM_DESC(events, "events to enable at load: system[:event],...; * and ? are wildcards");

static char *event_stacks = "";
module_param(event_stacks, charp, 0444);
MODULE_PARM_DESC(event_stacks, "events to record with their kernel stack: system[:event],...; * and ? are wildcards");

#define FTRACE_SIZE_KB	512

static int ftrace_size_kb = -1;
module_param(ftrace_size_kb, int, 0444);
MODULE_PARM_DESC(ftrace_size_kb, "KiB per vCPU of the buffer for tracefs events; 0: no buffer (default -1: 512, or an eighth of the shared memory if that is less)");

static DEFINE_MUTEX(lock);
static struct braid_guest_region region;
static bool in_use;
static struct braid_buffer *ftrace_buffer;
static bool overwrites;		/* as the memory in use requires, against the parameter */

static struct braid_buffer *braid_attach_make_buffer(const char *name, u32 flags)
{
	const struct braid_buffer_shape shape = {
		.name = name,
		.flags = flags,
		.subbuf_bytes = subbuf_size,
	};
	struct braid_buffer *buffer;
	int err;

	braid_buffers_lock();
	buffer = braid_registry_new_buffer(&shape);
	braid_buffers_unlock();
	if (IS_ERR(buffer))
		return buffer;
	err = braid_debugfs_add_buffer(buffer);
	if (!err)
		return buffer;
	braid_registry_free_buffer(buffer);
	return ERR_PTR(err);
}

static void braid_attach_unmake_buffer(struct braid_buffer *buffer)
{
	if (!buffer)
		return;
	braid_debugfs_remove_buffer(buffer);
	braid_registry_free_buffer(buffer);
}

int __init braid_attach_init(void)
{
	u32 flags = (overwrite ? BRAID_BUFFER_OVERWRITE : 0) |
		    (absolute ? BRAID_BUFFER_ABSOLUTE : 0);
	struct braid_buffer *buffer = braid_attach_make_buffer("trace", flags);

	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	braid_set_trace_buffer(buffer);
	if (!ftrace_size_kb)
		return 0;
	buffer = braid_attach_make_buffer("ftrace", flags);
	if (IS_ERR(buffer)) {
		braid_attach_unmake_buffer(braid_trace_buffer());
		return PTR_ERR(buffer);
	}
	ftrace_buffer = buffer;
	return 0;
}

void braid_attach_exit(void)
{
	braid_attach_unmake_buffer(ftrace_buffer);
	braid_attach_unmake_buffer(braid_trace_buffer());
}

/* The slots that a parameter requests; 0: as many as fit. braid_buffer_place() reports too many. */
static u32 braid_attach_slots_for(int size_kb)
{
	if (size_kb <= 0 || !subbuf_size)
		return 0;
	return braid_slots_of((u64)size_kb << 10, subbuf_size) ?: 2 * BRAID_MAX_SLOTS;
}

/* A ring that is full goes on where nothing is taken out of it. Must hold braid_buffers_lock(). */
static void braid_attach_set_mode(struct braid_buffer *buffer)
{
	if (region.range.only_read)
		buffer->flags |= BRAID_BUFFER_OVERWRITE;
	else if (overwrites && !overwrite)
		buffer->flags &= ~BRAID_BUFFER_OVERWRITE;
}

/* The module's own buffers, as its parameters ask. Must hold braid_buffers_lock(). */
static int braid_attach_place_own(void)
{
	u64 eighth = region.layout.sections[BRAID_SECTION_RINGS].bytes / 8;
	int err;

	braid_trace_buffer()->nr_slots =
		braid_attach_slots_for(min_t(unsigned int, ring_size_kb, INT_MAX));
	braid_trace_buffer()->max_bytes = 5 * eighth;
	braid_attach_set_mode(braid_trace_buffer());
	err = braid_buffer_place(braid_trace_buffer(), &region);
	if (!err && ftrace_buffer) {
		braid_attach_set_mode(ftrace_buffer);
		ftrace_buffer->nr_slots = braid_attach_slots_for(ftrace_size_kb);
		/* An eighth more, for meta pages and private parts. */
		ftrace_buffer->max_bytes = min(eighth, ((u64)FTRACE_SIZE_KB << 10) *
						       region.layout.nr_vcpus * 9 / 8);
		braid_buffer_place(ftrace_buffer, &region);	/* optional: everything else works
								   without it */
	}
	overwrites = region.range.only_read;
	return err;
}

/* No writer is inside any buffer on return. Must hold braid_buffers_lock(). */
static void braid_attach_displace_all(void)
{
	struct braid_buffer *buffer = NULL;

	while ((buffer = braid_buffer_next(buffer)))
		braid_buffer_displace(buffer, BRAID_DISPLACE_REGION);
}

/* Must hold braid_buffers_lock(): no buffer is added or removed. */
static void braid_attach_give_up(void)
{
	braid_attach_displace_all();
	braid_region_stop(&region);
	braid_region_free(&region);
}

/* Without it %s prints addresses of constant texts: everything else works. */
static void braid_attach_put_texts(const char *texts)
{
	int err = IS_ERR(texts) ? PTR_ERR(texts) :
				  braid_directory_put_text(BRAID_TEXT_PRINTK_NAME, texts);

	if (err)
		pr_info("constant texts in events are shown as addresses: no list of them (%d)\n", err);
}

/*
 * Under one lock: a buffer that changed in the midst of it would be placed, and never laid
 * out. Must hold braid_buffers_lock().
 */
static int braid_attach_go_live(const char *texts)
{
	struct braid_buffer *buffer = NULL;
	int err = braid_attach_place_own();

	if (err) {
		braid_region_free(&region);
		return err;
	}
	braid_region_start(&region);
	braid_buffers_start(&region);
	err = braid_comm_start(&region);
	if (err) {
		braid_attach_give_up();
		return err;
	}
	err = braid_symbol_start(&region);
	if (err)
		goto err_comm;
	err = braid_stack_start(&region);
	if (err)
		goto err_symbol;
	braid_registry_attach(&region);
	braid_attach_put_texts(texts);
	braid_region_go_live(&region);
	/* From here on other modules may add and remove buffers; place the existing ones: */
	while ((buffer = braid_buffer_next(buffer)))
		if (buffer != braid_trace_buffer() && buffer != ftrace_buffer && !buffer->dying &&
		    !braid_buffer_place(buffer, &region))
			braid_registry_list_buffer(buffer);
	return 0;

err_symbol:
	braid_symbol_stop();
err_comm:
	braid_comm_stop();
	braid_attach_give_up();
	return err;
}

static void braid_attach_stop(void)
{
	braid_comm_stop();
	braid_stacks_clear();
	braid_trigger_clear();
	braid_trigger_publish(region.mailbox);
	braid_buffers_lock();
	braid_registry_detach();
	braid_symbol_flush();
	braid_symbol_stop();
	braid_stack_flush();
	braid_stack_stop();
	braid_attach_give_up();
	braid_buffers_unlock();
	in_use = false;
}

static void braid_attach_enable(const char *system, const char *name, u32 *matched)
{
	braid_event_set_matching(NULL, system, name, BRAID_EVENT_GUEST_ON, true, NULL, matched);
}

static void braid_attach_give_stacks(const char *system, const char *name, u32 *matched)
{
	braid_stacks_set_matching(system, name, BRAID_STACKS_KERNEL, matched);
}

/* "sched:*,irq" the syntax of the module parameters. */
static void braid_attach_take_patterns(const char *patterns,
				       void (*take)(const char *system, const char *name,
						    u32 *matched))
{
	char *copy = kstrdup(patterns, GFP_KERNEL), *rest = copy, *system, *name;
	u32 matched;

	while (copy && (system = strsep(&rest, ",")) != NULL) {
		if (!*system)
			continue;
		name = system;
		strsep(&name, ":");
		take(system, name ?: "", &matched);
		if (!matched)
			pr_warn("no event matches %s%s%s\n", system, name ? ":" : "",
				name ? name : "");
	}
	kfree(copy);
}

/* Later the guest's user has decided. */
static void braid_attach_enable_first(void)
{
	static bool done;

	braid_attach_take_patterns(event_stacks, braid_attach_give_stacks);
	if (!done)
		braid_attach_take_patterns(events, braid_attach_enable);
	done = true;
}

static void braid_attach_report(void)
{
	const struct braid_buffer_desc *desc = &region.layout.buffers[braid_trace_buffer()->index];

	pr_info("%s: %u rings of %u x %u bytes, %s, in %llu KiB of shared memory\n",
		region.range.name, desc->nr_rings, desc->nr_slots, desc->subbuf_bytes,
		desc->flags & BRAID_BUFFER_OVERWRITE ? "overwrite" : "producer/consumer",
		region.range.bytes >> 10);
}

/* tracefs' events are optional: everything else works without them. */
static void braid_attach_start_export(void)
{
	int err;

	if (!ftrace_buffer || !ftrace_buffer->region)
		return;
	err = braid_export_start(ftrace_buffer);
	if (err)
		pr_info("tracefs events are not recorded: the ftrace export failed (%d)\n", err);
}

static int braid_attach_locked(const struct braid_range *range)
{
	int err = braid_region_plan(&region, range);
	char *texts;

	if (err)
		return err;
	texts = braid_tracefs_printk_formats();
	braid_buffers_lock();
	err = braid_attach_go_live(texts);
	braid_buffers_unlock();
	if (!IS_ERR(texts))
		kvfree(texts);
	if (err)
		return err;
	in_use = true;
	err = braid_poll_start(&region, braid_export_flush, braid_export_settle);
	if (err) {
		braid_attach_stop();
		return err;
	}
	braid_attach_enable_first();
	braid_registry_restore();
	braid_attach_start_export();
	braid_attach_report();
	return 0;
}

/* Must hold lock. */
static void braid_attach_release(void)
{
	braid_poll_stop();
	braid_probe_remove_all();
	braid_who_choose_none();
	braid_export_stop();
	braid_attach_stop();
}

/* Whether a region could be laid out there. Must hold lock. */
static int braid_attach_try(const struct braid_range *range)
{
	struct braid_guest_region *trial = kmalloc(sizeof(*trial), GFP_KERNEL);
	int err = trial ? braid_region_plan(trial, range) : -ENOMEM;

	kfree(trial);
	return err;
}

/* Must hold lock. */
static int braid_attach_replace(const struct braid_range *range)
{
	struct braid_range former = region.range;
	int err = braid_attach_try(range);

	if (err)
		return err;
	braid_attach_release();
	err = braid_attach_locked(range);
	if (err && !braid_attach_locked(&former))
		return err;
	pr_info("%s: released%s%s\n", former.name, err ? "" : " in favor of ",
		err ? "" : range->name);
	former.give_way();
	return err;
}

static int braid_attach_range(const struct braid_range *range)
{
	int err = -ENODEV;	/* quiet: the ivshmem device may serve another purpose */

	mutex_lock(&lock);
	if (!in_use)
		err = braid_attach_locked(range);
	else if (region.range.give_way)
		err = braid_attach_replace(range);
	else
		pr_info("%s: not used: the driver already uses the memory of %s\n", range->name,
			region.range.name);
	mutex_unlock(&lock);
	return err;
}

static void braid_detach_range(void)
{
	mutex_lock(&lock);
	braid_attach_release();
	pr_info("%s: released; recorded events stay in the shared memory\n", region.range.name);
	mutex_unlock(&lock);
}

static void braid_withdraw_range(const struct braid_range *range)
{
	mutex_lock(&lock);
	if (in_use && region.range.base == range->base) {
		braid_attach_release();
		pr_info("%s: released\n", region.range.name);
	}
	mutex_unlock(&lock);
}

static bool braid_attach_in_use(void)
{
	bool used;

	mutex_lock(&lock);
	used = in_use;
	mutex_unlock(&lock);
	return used;
}

const struct braid_transport_client braid_attach_client = {
	.attach = braid_attach_range,
	.detach = braid_detach_range,
	.withdraw = braid_withdraw_range,
	.in_use = braid_attach_in_use,
	.rang = braid_poll_now,
};
EXPORT_SYMBOL_GPL(braid_attach_client);	/* for transports that are modules of their own */
