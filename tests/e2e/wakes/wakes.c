// SPDX-License-Identifier: GPL-2.0
/*
 * Wakes its thread on CPU 1 from an interrupt, at moments that it records with the guest's own
 * clock: an analysis of the wake-up must agree with them.
 *
 *   echo DELAY BEFORE AFTER > /sys/kernel/debug/wakes/timer   by an hrtimer of CPU 1
 *   echo DELAY BEFORE AFTER > /sys/kernel/debug/wakes/ipi     by a function call from another CPU
 *
 * All are in us: from the thread's sleep to the cause, and how long the interrupt's handler spins
 * before it wakes the thread, and after that. Returns when the thread has run.
 */
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "guest_driver/compat.h"
#include "tracebraid/event.h"

#define TARGET	1	/* the thread's CPU */

enum cause { TIMER, IPI };

/* In this order; all but the first one are recorded on the thread's CPU. */
enum moment { CAUSED, FIRED, WAKES, WOKEN, LEAVES, RUNS };

struct payload {
	u32 moment;
	u32 number;		/* of the wake-up */
	u64 ns;			/* the guest's monotonic raw clock */
};

static const struct braid_event_desc desc = {
	.system = "wakes",
	.name = "moment",
	.fields = "\tfield:u32 moment;\toffset:8;\tsize:4;\tsigned:0;\n"
		  "\tfield:u32 number;\toffset:12;\tsize:4;\tsigned:0;\n"
		  "\tfield:u64 own_ns;\toffset:16;\tsize:8;\tsigned:0;\n",
	.print_fmt = "\"moment=%u number=%u own_ns=%llu\", REC->moment, REC->number, REC->own_ns",
};

static int event_id;
static struct dentry *dir;
static struct task_struct *thread;
static struct hrtimer timer;
static DEFINE_MUTEX(run_lock);
static DECLARE_WAIT_QUEUE_HEAD(requests);
static DECLARE_COMPLETION(asleep);
static DECLARE_COMPLETION(done);

/* The wake-up that is requested. */
static enum cause cause;
static u64 delay_us, before_us, after_us;
static u32 number;
static bool requested, fired;

static void record(enum moment moment)
{
	struct payload payload = {
		.moment = moment, .number = number, .ns = ktime_get_raw_ns(),
	};

	braid_record_event(NULL, event_id, sizeof(payload), &payload);
}

static void spin(u64 us)
{
	u64 until = ktime_get_raw_ns() + us * NSEC_PER_USEC;

	while (ktime_get_raw_ns() < until)
		cpu_relax();
}

/* In the handler of an interrupt. Returns false if the thread does not sleep yet. */
static bool fire(void)
{
	if (current == thread)
		return false;
	record(FIRED);
	spin(before_us);
	record(WAKES);
	WRITE_ONCE(fired, true);
	wake_up_process(thread);
	record(WOKEN);
	spin(after_us);
	record(LEAVES);
	return true;
}

static enum hrtimer_restart on_timer(struct hrtimer *unused)
{
	if (fire())
		return HRTIMER_NORESTART;
	hrtimer_forward_now(&timer, ns_to_ktime(delay_us * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static void on_call(void *unused)
{
	fire();
}

static int thread_fn(void *unused)
{
	sched_set_fifo(current);
	while (!kthread_should_stop()) {
		wait_event_interruptible(requests, READ_ONCE(requested) || kthread_should_stop());
		if (!READ_ONCE(requested))
			continue;
		set_current_state(TASK_UNINTERRUPTIBLE);
		WRITE_ONCE(requested, false);
		if (cause == TIMER) {
			record(CAUSED);
			hrtimer_start(&timer, ns_to_ktime(delay_us * NSEC_PER_USEC), HRTIMER_MODE_REL_PINNED_HARD);
		} else {
			complete(&asleep);
		}
		while (!READ_ONCE(fired)) {
			schedule();
			set_current_state(TASK_UNINTERRUPTIBLE);
		}
		__set_current_state(TASK_RUNNING);
		record(RUNS);
		complete(&done);
	}
	return 0;
}

/* Until the thread sleeps each call is in vain. */
static void send_calls(void)
{
	wait_for_completion(&asleep);
	while (!READ_ONCE(fired)) {
		usleep_range(delay_us, delay_us + 1);
		record(CAUSED);
		smp_call_function_single(TARGET, on_call, NULL, 1);
	}
}

static ssize_t run_write(struct file *file, const char __user *from, size_t bytes, loff_t *at)
{
	char text[64] = "";

	if (bytes >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, bytes))
		return -EFAULT;
	mutex_lock(&run_lock);
	if (sscanf(text, "%llu %llu %llu", &delay_us, &before_us, &after_us) != 3 || !delay_us) {
		mutex_unlock(&run_lock);
		return -EINVAL;
	}
	cause = (uintptr_t)file->private_data;
	number++;
	fired = false;
	WRITE_ONCE(requested, true);
	wake_up(&requests);
	if (cause == IPI)
		send_calls();
	wait_for_completion(&done);
	mutex_unlock(&run_lock);
	return bytes;
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = run_write,
};

static int __init wakes_init(void)
{
	event_id = braid_register_event(NULL, 0, &desc);
	if (event_id < 0)
		return event_id;
	braid_hrtimer_setup(&timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	thread = kthread_create_on_cpu(thread_fn, NULL, TARGET, "wakes/%u");
	if (IS_ERR(thread)) {
		braid_unregister_event(NULL, event_id);
		return PTR_ERR(thread);
	}
	wake_up_process(thread);
	dir = debugfs_create_dir("wakes", NULL);
	debugfs_create_file("timer", 0200, dir, (void *)TIMER, &run_fops);
	debugfs_create_file("ipi", 0200, dir, (void *)IPI, &run_fops);
	return 0;
}

static void __exit wakes_exit(void)
{
	debugfs_remove(dir);
	kthread_stop(thread);
	braid_unregister_event(NULL, event_id);
}

module_init(wakes_init);
module_exit(wakes_exit);
MODULE_DESCRIPTION("Wake-ups of known moments, for tests");
MODULE_LICENSE("GPL");
