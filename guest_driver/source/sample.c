// SPDX-License-Identifier: GPL-2.0
/* Samples what each vCPU executes: an instruction, and stacks, by a timer. */
#include <linux/cpuhotplug.h>
#include <linux/hrtimer.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <asm/irq_regs.h>
#if defined(CONFIG_UNWINDER_ORC) && !defined(CONFIG_UML)
#include <asm/unwind.h>
#define FROM_INTERRUPTED	/* the unwinder can begin there */
#endif

#include "guest_driver/compat.h"
#include "guest_driver/event/event.h"
#include "guest_driver/event/mapping.h"
#include "guest_driver/event/user_stack.h"
#include "guest_driver/source/sample.h"

#define MOST_FRAMES	32u	/* recorded */
#define OWN_FRAMES	16u	/* of the interrupt, at most */

static unsigned int sample_hz = 99;
module_param(sample_hz, uint, 0644);
MODULE_PARM_DESC(sample_hz, "samples a second of each CPU while sample:cpu is enabled, from 1 to 10000 (default 99)");

struct sample_record {
	struct braid_record head;
	u64 ip;
	u32 missed;		/* periods before this one, without a sample */
	u16 user;		/* whether the CPU executed user code: ip is the task's */
	u16 ends;		/* enum braid_stack_end, of user_stack */
	u32 stack;		/* __data_loc: of the kernel's frames, from the caller of ip on */
	u32 user_stack;		/* __data_loc: of the task's, the first one an instruction */
	u64 space;		/* of user_stack: as in sample:mapping */
	u32 late_ns;		/* after the end of the last period */
	s32 tgid;
	u64 frames[];		/* of the kernel, then of the task */
};

/* What the interrupt found. */
struct found {
	unsigned long kernel[MOST_FRAMES + OWN_FRAMES];
	unsigned long user[MOST_FRAMES];
	u32 nr_kernel, nr_user;
	enum braid_stack_end ends;
	u64 space;		/* of user; 0: none */
};

static DEFINE_PER_CPU(struct hrtimer, timers);
static struct braid_event event;
static u64 period_ns;		/* while the event is on */
static u32 host_hz, host_flags;	/* as the host wants it; 0: as the guest */
static int hotplug_state;

/* The kernel's frames below the interrupt, the interrupted one first. Return: their number. */
#ifdef FROM_INTERRUPTED
static u32 braid_sample_stack(struct pt_regs *regs, unsigned long *frames, u32 nr)
{
	struct unwind_state state;
	u32 k = 0;

	frames[k++] = instruction_pointer(regs);
	unwind_start(&state, current, regs, NULL);
	for (; k <= MOST_FRAMES && !unwind_done(&state); unwind_next_frame(&state)) {
		if (state.regs && user_mode(state.regs))
			break;
		/* Only an address that was guessed may be no code; the check takes long. */
		if (state.error && !unwind_get_return_address(&state))
			break;
		frames[k++] = state.ip;
	}
	return k;
}
#else
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
#endif

static void braid_sample_find(struct pt_regs *regs, struct found *found)
{
	bool wanted = READ_ONCE(host_flags) & BRAID_SAMPLE_USER_STACKS;
	struct pt_regs *user = wanted ? braid_user_regs(regs) : NULL;

	found->nr_kernel = user_mode(regs) ? 0 :
			   braid_sample_stack(regs, found->kernel, ARRAY_SIZE(found->kernel));
	found->nr_user = 0;
	found->ends = BRAID_STACK_NONE;
	found->space = 0;
	if (!user)
		return;
	found->nr_user = braid_user_stack(user, found->user, MOST_FRAMES, &found->ends);
	found->space = braid_mapping_space(current->mm, current->tgid);
}

/* What the host needs to name the addresses. */
static void braid_sample_note(const struct found *found)
{
	u32 k;

	for (k = 0; k < found->nr_kernel; k++)
		braid_symbol_note(found->kernel[k]);
	braid_mapping_note(current->mm, found->space, found->user, found->nr_user);
}

static void braid_sample_write(struct pt_regs *regs, u32 missed, u32 late_ns)
{
	unsigned long pc = preempt_count();
	u32 nr, at = offsetof(struct sample_record, frames), k;
	struct sample_record *record;
	struct braid_slot slot;
	struct found found;

	braid_sample_find(regs, &found);
	nr = found.nr_kernel - !!found.nr_kernel;	/* the first one is ip */
	record = braid_event_reserve(&event, &slot,
				     at + (nr + found.nr_user) * (u32)sizeof(u64), pc, false);
	if (!record)
		return;
	record->ip = instruction_pointer(regs);
	record->missed = missed;
	record->late_ns = late_ns;
	record->user = user_mode(regs);
	record->stack = braid_data_loc(at, nr * sizeof(u64));
	record->user_stack = braid_data_loc(at + nr * sizeof(u64),
					    found.nr_user * sizeof(u64));
	record->space = found.space;
	record->ends = found.ends;
	record->tgid = current->tgid;
	for (k = 0; k < nr; k++)
		record->frames[k] = found.kernel[k + 1];
	for (k = 0; k < found.nr_user; k++)
		record->frames[nr + k] = found.user[k];
	braid_event_commit(&slot);
	braid_sample_note(&found);
}

static enum hrtimer_restart braid_sample_expired(struct hrtimer *timer)
{
	struct pt_regs *regs = get_irq_regs();
	u64 period = READ_ONCE(period_ns), periods = hrtimer_forward_now(timer, ns_to_ktime(period));
	/* Of the next period, what is over: less than a period. */
	s64 late_ns = period - ktime_to_ns(ktime_sub(hrtimer_get_expires(timer), ktime_get()));

	if (regs)
		braid_sample_write(regs, min_t(u64, periods ? periods - 1 : 0, U32_MAX),
				   clamp_t(s64, late_ns, 0, period));
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
	u32 hz = host_hz ?: clamp(READ_ONCE(sample_hz), 1u, BRAID_SAMPLE_MAX_HZ);
	int state;

	WRITE_ONCE(period_ns, NSEC_PER_SEC / hz);
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
	host_hz = host_flags = 0;
}

static int braid_sample_set(struct braid_event *ev, u64 arg0)
{
	u32 hz = arg0 & U32_MAX, flags = arg0 >> BRAID_SAMPLE_FLAGS_SHIFT & BRAID_SAMPLE_FLAGS_MASK;

	if (arg0 >> BRAID_SAMPLE_VERSION_SHIFT != BRAID_SAMPLE_VERSION)
		return -EOPNOTSUPP;
	if (!hz || hz > BRAID_SAMPLE_MAX_HZ)
		return -EINVAL;
	if (hz == host_hz && flags == host_flags)
		return 0;
	if (ev->flags & (BRAID_EVENT_GUEST_ON | BRAID_EVENT_HOST_ON))
		return -EBUSY;
	host_hz = hz;
	host_flags = flags;
	return 0;
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
			   "\tfield:unsigned short user;\toffset:20;\tsize:2;\tsigned:0;\n"
			   "\tfield:unsigned short ends;\toffset:22;\tsize:2;\tsigned:0;\n"
			   "\tfield:__data_loc unsigned long[] stack;\toffset:24;\tsize:4;\tsigned:0;\n"
			   "\tfield:__data_loc unsigned long[] user_stack;\toffset:28;\tsize:4;\tsigned:0;\n"
			   "\tfield:unsigned long space;\toffset:32;\tsize:8;\tsigned:0;\n"
			   "\tfield:unsigned int late_ns;\toffset:40;\tsize:4;\tsigned:0;\n"
			   "\tfield:pid_t tgid;\toffset:44;\tsize:4;\tsigned:1;\n"
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
	.set_sampling = braid_sample_set,
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
