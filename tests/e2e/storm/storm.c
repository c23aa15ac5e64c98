// SPDX-License-Identifier: GPL-2.0
/*
 * Records numbered events from task and hrtimer context on every CPU at once, by the
 * module API, and tells how many: what the host must find, or find counted as lost.
 *
 *   echo N > /sys/kernel/debug/storm/run      N events from a thread on each CPU, and
 *                                             bursts of its hrtimer until they are done
 *   cat /sys/kernel/debug/storm/offered       events offered while on, since insmod
 */
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "tracebraid/event.h"

#define TIMER_NS	200000
#define BURST		5
#define MAX_CPUS	64

/* context: 0 task, 1 hrtimer */
struct payload {
	u32 cpu;
	u32 context;
	u64 number;
	u64 check;		/* number * PRIME + cpu * 2 + context */
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
	u64 number[2];
	u64 offered;
	u64 wanted;
	bool running;
	struct completion done;
};

static DEFINE_PER_CPU(struct storm, storms);
static struct dentry *dir;
static int event_id;

static void record(struct storm *storm, u32 context)
{
	struct payload payload = {
		.cpu = raw_smp_processor_id(),
		.context = context,
		.number = ++storm->number[context],
	};
	int err;

	payload.check = payload.number * PRIME + payload.cpu * 2 + context;
	err = braid_record_event(NULL, event_id, sizeof(payload), &payload);
	if (!err || err == -ENOSPC)
		this_cpu_inc(storms.offered);
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct storm *storm = container_of(timer, struct storm, timer);
	int k;

	for (k = 0; k < BURST; k++)
		record(storm, 1);
	if (!READ_ONCE(storm->running))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(TIMER_NS));
	return HRTIMER_RESTART;
}

static void prepare_timer(struct hrtimer *timer)
{
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	timer->function = on_timer;
}

static int blow(void *arg)
{
	struct storm *storm = arg;
	u64 k;

	WRITE_ONCE(storm->running, true);
	hrtimer_start(&storm->timer, ns_to_ktime(TIMER_NS), HRTIMER_MODE_REL_PINNED);
	for (k = 0; k < storm->wanted; k++) {
		record(storm, 0);
		if (!(k & 255))
			cond_resched();
	}
	WRITE_ONCE(storm->running, false);
	hrtimer_cancel(&storm->timer);
	complete(&storm->done);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/* Returns when every CPU's thread has recorded its events. */
static ssize_t run_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	struct task_struct *threads[MAX_CPUS] = { };
	u64 wanted;
	int cpu, err = kstrtoull_from_user(from, count, 0, &wanted);

	if (err)
		return err;
	for_each_online_cpu(cpu) {
		if (cpu >= ARRAY_SIZE(threads))
			break;
		per_cpu(storms, cpu).wanted = wanted;
		init_completion(&per_cpu(storms, cpu).done);
		threads[cpu] = kthread_create_on_cpu(blow, per_cpu_ptr(&storms, cpu), cpu,
						     "storm/%u");
		if (IS_ERR(threads[cpu]))
			return PTR_ERR(threads[cpu]);
		wake_up_process(threads[cpu]);
	}
	for (cpu = 0; cpu < ARRAY_SIZE(threads); cpu++) {
		if (!threads[cpu])
			continue;
		wait_for_completion(&per_cpu(storms, cpu).done);
		kthread_stop(threads[cpu]);
	}
	return count;
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = run_write,
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

static int __init storm_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		prepare_timer(&per_cpu(storms, cpu).timer);
	event_id = braid_register_event(NULL, 0, &desc);
	if (event_id < 0)
		return event_id;
	dir = debugfs_create_dir("storm", NULL);
	debugfs_create_file("run", 0200, dir, NULL, &run_fops);
	debugfs_create_file("offered", 0400, dir, NULL, &offered_fops);
	return 0;
}

static void __exit storm_exit(void)
{
	debugfs_remove(dir);
	braid_unregister_event(NULL, event_id);
}

module_init(storm_init);
module_exit(storm_exit);
MODULE_DESCRIPTION("Offers counted events for tests");
MODULE_LICENSE("GPL");
