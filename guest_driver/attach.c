// SPDX-License-Identifier: GPL-2.0
/* Builds the trace over a range, and takes it down again. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/err.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/mutex.h>

#include "guest_driver/attach.h"
#include "guest_driver/core/comm.h"
#include "guest_driver/core/symbol.h"
#include "guest_driver/event/debugfs.h"
#include "guest_driver/event/poll.h"

static unsigned int subbuf_size = BRAID_PAGE_BYTES;
module_param(subbuf_size, uint, 0444);
MODULE_PARM_DESC(subbuf_size, "bytes of a sub-buffer, 256 to 65536 (default 4096)");

static unsigned int ring_size_kb;
module_param(ring_size_kb, uint, 0444);
MODULE_PARM_DESC(ring_size_kb, "KiB of sub-buffers for each vCPU, rounded up to a power of two of them (default: three quarters of the shared memory for all)");

static bool overwrite;
module_param(overwrite, bool, 0444);
MODULE_PARM_DESC(overwrite, "1: flight recorder, the newest events stay; 0: the oldest stay (default)");

static bool absolute;
module_param(absolute, bool, 0444);
MODULE_PARM_DESC(absolute, "1: events carry the counter's low bits; 0: deltas (default)");

static char *events = "";
module_param(events, charp, 0444);
MODULE_PARM_DESC(events, "events to turn on at once: system[:event],... with * and ?");

static DEFINE_MUTEX(lock);
static struct braid_guest_region region;
static struct braid_buffer *buffer;

static struct braid_buffer *create_buffer(void)
{
	const struct braid_section *rings = &region.layout.sections[BRAID_SECTION_RINGS];
	struct braid_buffer_params params = {
		.name = "trace",
		.flags = (overwrite ? BRAID_BUFFER_OVERWRITE : 0) |
			 (absolute ? BRAID_BUFFER_ABSOLUTE : 0),
		.subbuf_bytes = subbuf_size,
		.max_bytes = rings->bytes / 4 * 3,
	};

	if (ring_size_kb && subbuf_size)
		params.nr_slots = roundup_pow_of_two(clamp_t(u64,
				DIV_ROUND_UP_ULL((u64)ring_size_kb << 10, subbuf_size),
				BRAID_MIN_SLOTS, 2 * BRAID_MAX_SLOTS));	/* too many is told */
	return braid_buffer_create(&region, &params);
}

static void say_hello(void)
{
	const struct braid_buffer_desc *desc = &region.layout.buffers[buffer->index];

	pr_info("%s: %u rings of %u x %u bytes, %s, in %llu KiB of shared memory\n",
		region.range.name, desc->nr_rings, desc->nr_slots, desc->subbuf_bytes,
		overwrite ? "overwrite" : "producer/consumer", region.range.bytes >> 10);
}

static int attach_locked(const struct braid_range *range)
{
	int err = braid_region_plan(&region, range);

	if (err)
		return err;
	buffer = create_buffer();
	if (IS_ERR(buffer)) {
		err = PTR_ERR(buffer);
		buffer = NULL;
		return err;
	}
	braid_region_start(&region);
	braid_buffer_start(buffer);
	err = braid_comm_start(&region);
	if (err)
		goto err_buffer;
	braid_symbol_start(&region);
	braid_registry_attach(buffer, events);
	braid_region_go_live(&region);
	err = braid_poll_start(buffer);
	if (err)
		goto err_registry;
	braid_debugfs_attach(buffer);
	say_hello();
	return 0;

err_registry:
	braid_registry_detach();
	braid_comm_stop();
err_buffer:
	braid_region_stop(&region);
	braid_buffer_destroy(buffer);
	buffer = NULL;
	return err;
}

static int attach(const struct braid_range *range)
{
	int err = -ENODEV;	/* quiet: an ivshmem device may be somebody else's */

	mutex_lock(&lock);
	if (buffer)
		pr_info("%s: not used, one shared memory is in use already\n", range->name);
	else
		err = attach_locked(range);
	mutex_unlock(&lock);
	return err;
}

static void detach(void)
{
	mutex_lock(&lock);
	braid_debugfs_detach();
	braid_poll_stop();
	braid_registry_detach();
	braid_comm_stop();
	braid_symbol_flush();
	braid_region_stop(&region);
	braid_buffer_destroy(buffer);
	buffer = NULL;
	pr_info("%s: released; what was traced stays in the shared memory\n", region.range.name);
	mutex_unlock(&lock);
}

const struct braid_transport_client braid_attach_client = {
	.attach = attach,
	.detach = detach,
};
