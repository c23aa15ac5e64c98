// SPDX-License-Identifier: GPL-2.0
/* Samples what each vCPU executes: an instruction and the kernel's stack, by a timer. */
#include <linux/cpuhotplug.h>
#include <linux/hrtimer.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <asm/irq_regs.h>

#include "guest_driver/compat.h"
#include "guest_driver/event/event.h"
#include "guest_driver/source/sample.h"

#define MOST_FRAMES	32u	/* recorded */
#define OWN_FRAMES	16u	/* of the interrupt, at most */
#define MOST_HZ		10000u
#define DATA_LOC_SHIFT	16

static unsigned int sample_hz = 99;
module_param(sample_hz, uint, 0644);
MODULE_PARM_DESC(sample_hz, "samples a second of each CPU while sample:cpu is enabled, from 1 to 10000 (default 99)");

struct sample_record {
	struct braid_record head;
	u64 ip;
	u32 missed;		/* periods before this one, without a sample */
	u32 user;		/* whether the CPU executed user code: ip is the task's */
	u32 stack;		/* __data_loc: of the frames */
	u32 pad;
	u64 frames[];		/* from the caller of ip on; of the kernel alone */
};

static DEFINE_PER_CPU(struct hrtimer, timers);
static struct braid_event event;
static u64 period_ns;		/* while the event is on */
static int hotplug_state;

/* The kernel's frames below the interrupt, the interrupted one first. Return: their number. */
static u32 braid_sample_stack(struct pt_regs *regs, unsigned long *frames, u32 nr)
{
	u32 k, all = braid_stack_save(frames, nr);

	for (k = 0; k < all && frames[k] != instruction_pointer(regs); k++)
		;
	if (k >= all)		/* the unwinder did not get so far */
		return 0;
	all = min(all - k, MOST_FRAMES + 1);
	memmove(frames, frames + k, all * sizeof(*frames));
	return all;
}

static void braid_sample_write(struct pt_regs *regs, u32 missed)
{
	unsigned long frames[MOST_FRAMES + OWN_FRAMES], pc = preempt_count();
	bool user = user_mode(regs);
	u32 nr = user ? 0 : braid_sample_stack(regs, frames, ARRAY_SIZE(frames)), bytes, k;
	struct sample_record *record;
	struct braid_slot slot;

	nr -= !!nr;		/* the first one is ip */
	bytes = nr * sizeof(u64);
	record = braid_event_reserve(&event, &slot, sizeof(*record) + bytes, pc, false);
	if (!record)
		return;
	record->ip = instruction_pointer(regs);
	record->missed = missed;
	record->user = user;
	record->stack = bytes << DATA_LOC_SHIFT | offsetof(struct sample_record, frames);
	record->pad = 0;
	for (k = 0; k < nr; k++)
		record->frames[k] = frames[k + 1];
	braid_event_commit(&slot);
	if (user)
		return;
	braid_symbol_note(instruction_pointer(regs));
	for (k = 0; k < nr; k++)
		braid_symbol_note(frames[k + 1]);
}

static enum hrtimer_restart braid_sample_expired(struct hrtimer *timer)
{
	struct pt_regs *regs = get_irq_regs();
	u64 periods = hrtimer_forward_now(timer, ns_to_ktime(READ_ONCE(period_ns)));

	if (regs)
		braid_sample_write(regs, min_t(u64, periods ? periods - 1 : 0, U32_MAX));
	return HRTIMER_RESTART;
}

/* On the CPU itself. */
static int braid_sample_begin(unsigned int cpu)
{
	struct hrtimer *timer = per_cpu_ptr(&timers, cpu);

	braid_hrtimer_setup(timer, braid_sample_expired, CLOCK_MONOTONIC,
			    HRTIMER_MODE_REL_PINNED_HARD);
	hrtimer_start(timer, ns_to_ktime(period_ns), HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

static int braid_sample_end(unsigned int cpu)
{
	hrtimer_cancel(per_cpu_ptr(&timers, cpu));
	return 0;
}

static int braid_sample_enable(struct braid_event *ev)
{
	int state;

	WRITE_ONCE(period_ns, NSEC_PER_SEC / clamp(READ_ONCE(sample_hz), 1u, MOST_HZ));
	state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "tracebraid:sample", braid_sample_begin,
				  braid_sample_end);
	if (state < 0)
		return state;
	hotplug_state = state;
	return 0;
}

/* No timer is left on return. */
static void braid_sample_disable(struct braid_event *ev)
{
	cpuhp_remove_state(hotplug_state);
}

static void braid_sample_synchronize(void)
{
}

static int braid_sample_format(const struct braid_event *ev, u16 id, char *text, size_t bytes)
{
	int len = snprintf(text, bytes,
			   "name: %s\nID: %u\nformat:\n" BRAID_COMMON_FIELDS
			   "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
			   "\tfield:unsigned int missed;\toffset:16;\tsize:4;\tsigned:0;\n"
			   "\tfield:unsigned int user;\toffset:20;\tsize:4;\tsigned:0;\n"
			   "\tfield:__data_loc unsigned long[] stack;\toffset:24;\tsize:4;\tsigned:0;\n"
			   "\nprint fmt: \"ip=%%pS%%s missed=%%u\", (void *)REC->ip, REC->user ? \" user\" : \"\", REC->missed\n",
			   ev->name, id);

	return len < bytes ? len : -ENOSPC;
}

static const struct braid_event_ops sample_ops = {
	.enable = braid_sample_enable,
	.disable = braid_sample_disable,
	.synchronize = braid_sample_synchronize,
	.format = braid_sample_format,
	.filters = true,
};

int braid_sample_init(void)
{
	int id;

	event = (struct braid_event){
		.buffer = braid_trace_buffer(), .system = "sample", .name = "cpu",
		.ops = &sample_ops,
	};
	id = braid_event_add(&event, 0);
	return id < 0 ? id : 0;
}

void braid_sample_exit(void)
{
	braid_event_remove_all(&event, 1);
}
