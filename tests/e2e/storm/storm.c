// SPDX-License-Identifier: GPL-2.0
/*
 * Records numbered events from task, hrtimer, softirq and NMI context on every CPU at once, by the
 * module API, and reports how many: the host must find each event, or find it counted as lost.
 *
 *   echo N > /sys/kernel/debug/storm/run      N events from a thread on each CPU, and bursts
 *                                             of the other contexts until they are done
 *   echo N T > /sys/kernel/debug/storm/run    the same, but 64 in each T ticks of the hrtimer
 *   echo N > /sys/kernel/debug/storm/hang     N events on this CPU, which then spins with
 *                                             interrupts off until the guest is reset
 *   echo N > /sys/kernel/debug/storm/off      N times the same loop: 3 parts with interrupts off,
 *                                             in spends_off(), and 7 in spends_on()
 *   cat /sys/kernel/debug/storm/off           the counter's steps in the former, and in both
 *   cat /sys/kernel/debug/storm/offered       events offered while on, since insmod
 *   cat /sys/kernel/debug/storm/nested        how often each context recorded inside each other
 *   cat /sys/kernel/debug/storm/interrupted   how often a CPU went offline during its part
 *
 * A CPU that goes offline interrupts its part, and continues it when it is online again.
 */
#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/smpboot.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#ifdef CONFIG_X86_LOCAL_APIC
#include <asm/apic.h>
#include <asm/nmi.h>
#endif

#include "guest_driver/compat.h"
#include "guest_driver/core/counter.h"
#include "tracebraid/event.h"

#define TIMER_NS	50000
#define BURST		4	/* events of an interrupt */
#define BATCH		64	/* events of a thread between checks for other work */
#define NMI_EVERY	16	/* events of a thread, after which the next CPU gets an NMI */
#define MAX_TAIL	5

enum context { TASK, HRTIMER, SOFTIRQ, NMI, NR_CONTEXTS };

static const char * const names[NR_CONTEXTS] = { "task", "hrtimer", "softirq", "nmi" };

struct payload {
	u32 cpu;
	u32 context;
	u64 number;
	u64 check;		/* number * PRIME + cpu * 4 + context */
	u64 tail[MAX_TAIL];	/* number % (MAX_TAIL + 1) of them, so that lengths differ */
};

#define PRIME	0x9e3779b97f4a7c15ULL

static const struct braid_event_desc desc = {
	.system = "storm",
	.name = "storm",
	.fields = "\tfield:u32 cpu;\toffset:8;\tsize:4;\tsigned:0;\n"
		  "\tfield:u32 context;\toffset:12;\tsize:4;\tsigned:0;\n"
		  "\tfield:u64 number;\toffset:16;\tsize:8;\tsigned:0;\n"
		  "\tfield:u64 check;\toffset:24;\tsize:8;\tsigned:0;\n",
	.print_fmt = "\"cpu=%u context=%u number=%llu check=%llx\", REC->cpu, REC->context, REC->number, REC->check",
};

struct storm {
	struct hrtimer timer;
	struct tasklet_struct tasklet;
	struct task_struct *thread;
	u64 number[NR_CONTEXTS];
	u64 nested[NR_CONTEXTS][NR_CONTEXTS];	/* [inner][outer] */
	u64 offered;
	u64 wanted;
	u64 done;
	u64 interrupted;
	u32 ticks;		/* of the timer, since the thread's last turn */
	int inside;		/* the context that is recording, plus 1; 0: none */
	bool running;
	atomic_t nmi;		/* 1: an NMI of ours is pending for this CPU */
};

static DEFINE_PER_CPU(struct storm, storms);
static DEFINE_MUTEX(run_lock);
static DECLARE_WAIT_QUEUE_HEAD(finished);
static struct dentry *dir;
static u32 ticks_wanted;
static int event_id;

static void record(enum context context)
{
	struct payload payload = { .context = context };
	struct storm *storm;
	int outer, err;
	u32 k, tail;

	preempt_disable();	/* a real-time kernel would let tasks in between */
	storm = this_cpu_ptr(&storms);
	payload.cpu = smp_processor_id();
	payload.number = ++storm->number[context];
	payload.check = payload.number * PRIME + payload.cpu * 4 + context;
	tail = payload.number % (MAX_TAIL + 1);
	for (k = 0; k < tail; k++)
		payload.tail[k] = payload.check;

	outer = READ_ONCE(storm->inside);
	if (outer)
		storm->nested[context][outer - 1]++;
	WRITE_ONCE(storm->inside, context + 1);
	err = braid_record_event(NULL, event_id, offsetof(struct payload, tail[tail]), &payload);
	WRITE_ONCE(storm->inside, outer);
	if (!err || err == -ENOSPC)
		this_cpu_inc(storms.offered);
	preempt_enable();
}

static void burst(enum context context)
{
	int k;

	for (k = 0; k < BURST; k++)
		record(context);
}

static void on_tasklet(struct tasklet_struct *tasklet)
{
	burst(SOFTIRQ);
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct storm *storm = container_of(timer, struct storm, timer);

	burst(HRTIMER);
	if (!READ_ONCE(storm->running))
		return HRTIMER_NORESTART;
	tasklet_hi_schedule(&storm->tasklet);
	storm->ticks++;
	if (storm->ticks == READ_ONCE(ticks_wanted))
		wake_up_process(storm->thread);
	hrtimer_forward_now(timer, ns_to_ktime(TIMER_NS));
	return HRTIMER_RESTART;
}

/* User-mode Linux has neither NMIs nor another CPU. */
#ifdef CONFIG_X86_LOCAL_APIC
static int on_nmi(unsigned int type, struct pt_regs *regs)
{
	if (!atomic_xchg(&this_cpu_ptr(&storms)->nmi, 0))
		return NMI_DONE;	/* not one of ours */
	burst(NMI);
	return NMI_HANDLED;
}

/* One at a time: a CPU handles two pending NMIs as one. */
static void send_nmi(void)
{
	unsigned int cpu;

	preempt_disable();	/* keeps all CPUs online that are */
	cpu = cpumask_next(smp_processor_id(), cpu_online_mask);
	if (cpu >= nr_cpu_ids)
		cpu = cpumask_first(cpu_online_mask);
	if (cpu != smp_processor_id() && READ_ONCE(per_cpu(storms, cpu).running) &&
	    !atomic_cmpxchg(&per_cpu(storms, cpu).nmi, 0, 1))
		apic->send_IPI_mask(cpumask_of(cpu), NMI_VECTOR);
	preempt_enable();
}

static int take_nmis(void)
{
	return register_nmi_handler(NMI_LOCAL, on_nmi, 0, "storm");
}

static void leave_nmis(void)
{
	unregister_nmi_handler(NMI_LOCAL, "storm");
}
#else
static void send_nmi(void)
{
}

static int take_nmis(void)
{
	return 0;
}

static void leave_nmis(void)
{
}
#endif

/* The thread of each CPU ------------------------------------------------------------ */

static int should_run(unsigned int cpu)
{
	struct storm *storm = &per_cpu(storms, cpu);

	if (storm->running)
		return READ_ONCE(storm->ticks) >= READ_ONCE(ticks_wanted);
	return storm->done < READ_ONCE(storm->wanted);
}

/*
 * This CPU's timer records no more after return; its tasklet still runs, here or, if the CPU
 * goes offline, on another: a real-time kernel runs it in a thread, which may be parked first.
 */
static void calm(unsigned int cpu)
{
	struct storm *storm = &per_cpu(storms, cpu);

	WRITE_ONCE(storm->running, false);
	hrtimer_cancel(&storm->timer);
}

static void park(unsigned int cpu)
{
	struct storm *storm = &per_cpu(storms, cpu);

	if (storm->running)
		storm->interrupted++;
	calm(cpu);
}

static void blow(unsigned int cpu)
{
	struct storm *storm = &per_cpu(storms, cpu);
	int k;

	if (!storm->running) {
		WRITE_ONCE(storm->running, true);
		hrtimer_start(&storm->timer, ns_to_ktime(TIMER_NS), HRTIMER_MODE_REL_PINNED_HARD);
	}
	WRITE_ONCE(storm->ticks, 0);
	for (k = 0; k < BATCH && storm->done < storm->wanted; k++) {
		record(TASK);
		WRITE_ONCE(storm->done, storm->done + 1);
		if (!(storm->done % NMI_EVERY))
			send_nmi();
	}
	if (storm->done >= storm->wanted) {
		calm(cpu);
		wake_up_all(&finished);
	}
	cond_resched();
}

/* An NMI may have been lost while the CPU went offline. */
static void wake(unsigned int cpu)
{
	atomic_set(&per_cpu(storms, cpu).nmi, 0);
}

static void end(unsigned int cpu, bool online)
{
	calm(cpu);
}

static struct smp_hotplug_thread threads = {
	.store = &storms.thread,
	.thread_should_run = should_run,
	.thread_fn = blow,
	.park = park,
	.unpark = wake,
	.cleanup = end,
	.thread_comm = "storm/%u",
};

/* Files ----------------------------------------------------------------------------- */

/* Returns when the thread of each CPU that was online has recorded its events. */
static ssize_t run_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	char text[32] = "";
	u64 wanted;
	u32 ticks = 0;
	int cpu, err = 0;

	if (count >= sizeof(text) || copy_from_user(text, from, count) ||
	    sscanf(text, "%llu %u", &wanted, &ticks) < 1)
		return -EINVAL;
	if (mutex_lock_interruptible(&run_lock))
		return -ERESTARTSYS;
	WRITE_ONCE(ticks_wanted, ticks);
	cpus_read_lock();
	for_each_online_cpu(cpu) {
		struct storm *storm = &per_cpu(storms, cpu);

		WRITE_ONCE(storm->wanted, storm->wanted + wanted);
		wake_up_process(storm->thread);
	}
	cpus_read_unlock();
	for_each_possible_cpu(cpu) {
		struct storm *storm = &per_cpu(storms, cpu);

		err = err ?: wait_event_interruptible(finished,
				READ_ONCE(storm->done) >= READ_ONCE(storm->wanted) &&
				!READ_ONCE(storm->running));
		tasklet_kill(&storm->tasklet);
	}
	mutex_unlock(&run_lock);
	return err ?: count;
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = run_write,
};

static ssize_t hang_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	u32 events;
	int err = kstrtou32_from_user(from, count, 0, &events);

	if (err)
		return err;
	local_irq_disable();
	for (; events; events--)
		record(TASK);
	while (true)
		cpu_relax();
}

static const struct file_operations hang_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = hang_write,
};

#define PART_STEPS	10000000u

static void spend(u32 parts)
{
	u32 k;

	for (k = 0; k < parts * PART_STEPS; k++)
		barrier();
}

static noinline void spends_off(void)
{
	unsigned long flags;

	local_irq_save(flags);
	spend(3);
	local_irq_restore(flags);
}

static noinline void spends_on(void)
{
	spend(7);
}

static u64 off_steps, both_steps;

static ssize_t off_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	u32 rounds;
	int err = kstrtou32_from_user(from, count, 0, &rounds);

	if (err)
		return err;
	for (; rounds; rounds--) {
		u64 begin = braid_counter(), between;

		spends_off();
		between = braid_counter();
		spends_on();
		off_steps += between - begin;
		both_steps += braid_counter() - begin;
		cond_resched();
	}
	return count;
}

static ssize_t off_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	char text[48];
	int bytes = scnprintf(text, sizeof(text), "%llu %llu\n", off_steps, both_steps);

	return simple_read_from_buffer(to, count, at, text, bytes);
}

static const struct file_operations off_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = off_read,
	.write = off_write,
};

static int offered_show(struct seq_file *seq, void *unused)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(storms, cpu).offered;
	seq_printf(seq, "%llu\n", sum);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(offered);

static int nested_show(struct seq_file *seq, void *unused)
{
	int inner, outer, cpu;

	for (inner = HRTIMER; inner < NR_CONTEXTS; inner++)
		for (outer = TASK; outer < inner; outer++) {
			u64 sum = 0;

			for_each_possible_cpu(cpu)
				sum += per_cpu(storms, cpu).nested[inner][outer];
			seq_printf(seq, "%s in %s %llu\n", names[inner], names[outer], sum);
		}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(nested);

static int interrupted_show(struct seq_file *seq, void *unused)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(storms, cpu).interrupted;
	seq_printf(seq, "%llu\n", sum);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(interrupted);

static void prepare(struct storm *storm)
{
	braid_hrtimer_setup(&storm->timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	tasklet_setup(&storm->tasklet, on_tasklet);
}

static int __init storm_init(void)
{
	int cpu, err;

	for_each_possible_cpu(cpu)
		prepare(&per_cpu(storms, cpu));
	event_id = braid_register_event(NULL, 0, &desc);
	if (event_id < 0)
		return event_id;
	err = take_nmis();
	if (err)
		goto err_event;
	err = smpboot_register_percpu_thread(&threads);
	if (err)
		goto err_nmi;
	dir = debugfs_create_dir("storm", NULL);
	debugfs_create_file("run", 0200, dir, NULL, &run_fops);
	debugfs_create_file("hang", 0200, dir, NULL, &hang_fops);
	debugfs_create_file("off", 0600, dir, NULL, &off_fops);
	debugfs_create_file("offered", 0400, dir, NULL, &offered_fops);
	debugfs_create_file("nested", 0400, dir, NULL, &nested_fops);
	debugfs_create_file("interrupted", 0400, dir, NULL, &interrupted_fops);
	return 0;

err_nmi:
	leave_nmis();
err_event:
	braid_unregister_event(NULL, event_id);
	return err;
}

static void __exit storm_exit(void)
{
	int cpu;

	debugfs_remove(dir);
	smpboot_unregister_percpu_thread(&threads);
	for_each_possible_cpu(cpu)
		tasklet_kill(&per_cpu(storms, cpu).tasklet);
	for_each_online_cpu(cpu)
		while (atomic_read(&per_cpu(storms, cpu).nmi))
			msleep(1);	/* its handler must still be there */
	leave_nmis();
	braid_unregister_event(NULL, event_id);
}

module_init(storm_init);
module_exit(storm_exit);
MODULE_DESCRIPTION("Offers counted events for tests");
MODULE_LICENSE("GPL");
