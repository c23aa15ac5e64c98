// SPDX-License-Identifier: GPL-2.0
/*
 * Times one 16-byte event in our ring and one in the kernel's own, alternately, and their
 * minimum: a counter read, a copy, a store. Reading the file runs it:
 *
 *   cat /sys/kernel/debug/guest_ring     one line for each: name, least counter steps
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/irqflags.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/ring_buffer.h>
#include <linux/seq_file.h>

#include "guest_driver/compat.h"
#include "guest_driver/core/buffer.h"
#include "shared/clock.c"		/* called by the slow paths */
#include "shared/ring_writer.c"		/* the slow paths, which the driver does not export */
#include "tracebraid/event.h"

#define EVENTS		64	/* of a batch: short, so that some batch is not interrupted */
#define BATCHES		2000
#define RING_BYTES	(256u << 10)

struct contestant {
	const char *name;
	void (*batch)(void);
	u64 least;
};

static unsigned int batches = BATCHES;
module_param(batches, uint, 0444);
MODULE_PARM_DESC(batches, "number of batches of each that are timed; the shortest counts");

static struct braid_buffer *raw;
static struct trace_buffer *kernel;
static struct dentry *file;
static int event_id;
static u64 source[2] = { 1, 2 };
static u64 plain[3 * EVENTS];
static u32 plain_at;
static u64 refused;		/* events that were not recorded, which would be too cheap */

static __always_inline void take_floor(void)
{
	u64 *at = plain + 3 * (plain_at++ % EVENTS);
	u64 now = braid_counter();

	barrier();
	at[1] = READ_ONCE(source[0]);
	at[2] = READ_ONCE(source[1]);
	WRITE_ONCE(*(u32 *)at, now);
}

/* As in the driver's own probes: no call on the fast path. */
static __always_inline void take_event(void)
{
	struct braid_writer *w;
	void *payload = NULL;
	u64 token;

	preempt_disable_notrace();
	w = READ_ONCE(raw->cpus[raw_smp_processor_id()].open);
	if (likely(w))
		payload = braid_ring_reserve(w, sizeof(source), braid_counter, &token);
	if (likely(payload)) {
		memcpy(payload, source, sizeof(source));
		braid_ring_commit(w, token);
	} else {
		refused++;
	}
	preempt_enable_notrace();
}

static __always_inline void take_reserve(void)
{
	struct braid_reservation res = braid_buffer_reserve(raw, sizeof(source));

	if (!res.payload) {
		refused++;
		return;
	}
	memcpy(res.payload, source, sizeof(source));
	braid_buffer_commit(raw, res);
}

static __always_inline void take_write(void)
{
	refused += !!braid_buffer_write(raw, sizeof(source), source);
}

static __always_inline void take_record(void)
{
	refused += !!braid_record_event(NULL, event_id, sizeof(source), source);
}

static u64 notrace kernel_clock(void)
{
	return braid_counter();
}

static __always_inline void take_kernel(void)
{
	struct ring_buffer_event *event = ring_buffer_lock_reserve(kernel, sizeof(source));

	if (!event) {
		refused++;
		return;
	}
	memcpy(ring_buffer_event_data(event), source, sizeof(source));
	braid_kernel_ring_commit(kernel, event);
}

/*
 * A loop for each: a call by pointer would add the same cost to all, which favours the slow ones.
 * All are in one page, because an emulator does not chain jumps between pages.
 */
asm(".pushsection .text.batches, \"ax\"; .p2align 12; .popsection");
#define BATCH(name)				\
static noinline __section(".text.batches") void name##_batch(void) \
{						\
	int k;					\
						\
	for (k = 0; k < EVENTS; k++)		\
		take_##name();			\
}
BATCH(floor)
BATCH(event)
BATCH(reserve)
BATCH(write)
BATCH(record)
BATCH(kernel)

static struct contestant contestants[] = {
	{ "floor", floor_batch },
	{ "event", event_batch },
	{ "reserve_commit", reserve_batch },
	{ "write", write_batch },
	{ "record_event", record_batch },
	{ "kernel_ring", kernel_batch },
};

static u64 timed(void (*batch)(void))
{
	unsigned long flags;
	u64 start, steps;

	local_irq_save(flags);
	start = braid_counter_ordered();
	batch();
	steps = braid_counter_ordered() - start;
	local_irq_restore(flags);
	return steps;
}

static int guest_ring_show(struct seq_file *seq, void *unused)
{
	unsigned int round;
	int k;

	refused = 0;
	for (k = 0; k < ARRAY_SIZE(contestants); k++)
		contestants[k].least = U64_MAX;
	for (round = 0; round < batches; round++) {
		for (k = 0; k < ARRAY_SIZE(contestants); k++) {
			struct contestant *c = &contestants[(k + round) % ARRAY_SIZE(contestants)];

			c->least = min(c->least, timed(c->batch));
		}
		cond_resched();
	}
	for (k = 0; k < ARRAY_SIZE(contestants); k++)
		seq_printf(seq, "%s %llu\n", contestants[k].name, contestants[k].least / EVENTS);
	seq_printf(seq, "refused %llu\n", refused);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(guest_ring);

/* ring_buffer_set_clock() is not exported to modules; a kprobe finds its address. */
static int set_clock(void)
{
	struct kprobe probe = { .symbol_name = "ring_buffer_set_clock" };
	void (*set)(struct trace_buffer *ring, u64 (*clock)(void));
	int err = register_kprobe(&probe);

	if (err)
		return err;
	set = (void *)probe.addr;
	unregister_kprobe(&probe);
	set(kernel, kernel_clock);
	return 0;
}

static void unmake(void)
{
	debugfs_remove(file);
	if (kernel)
		ring_buffer_free(kernel);
	if (event_id > 0)
		braid_unregister_event(NULL, event_id);
	braid_buffer_free(raw);
}

static int __init guest_ring_init(void)
{
	static const struct braid_event_desc desc = { .system = "bench", .name = "bench" };
	int err;

	raw = braid_buffer_alloc("guest_ring", RING_BYTES,
				 BRAID_ALLOC_RAW | BRAID_ALLOC_OVERWRITE, NULL);
	if (IS_ERR(raw))
		return PTR_ERR(raw);
	event_id = braid_register_event(NULL, 0, &desc);
	kernel = ring_buffer_alloc(RING_BYTES, RB_FL_OVERWRITE);
	err = event_id < 0 ? event_id : kernel ? set_clock() : -ENOMEM;
	if (err) {
		unmake();
		return err;
	}
	file = debugfs_create_file("guest_ring", 0400, NULL, NULL, &guest_ring_fops);
	return 0;
}

module_init(guest_ring_init);
module_exit(unmake);
MODULE_DESCRIPTION("Times our ring against the kernel's");
MODULE_LICENSE("GPL");
