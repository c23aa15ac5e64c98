// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts fill a ring, and would lap it, while a task has a reservation open: events that
 * do not fit must be dropped and counted, and the reservation must not be overwritten.
 *
 *   echo N > /sys/kernel/debug/lap/run   repeats this until N events were dropped
 *   cat /sys/kernel/debug/lap/result     "written N dropped N", since insmod
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "guest_driver/compat.h"
#include "tracebraid/event.h"

#define TIMER_NS	20000
#define BURST		32
#define RING_BYTES	16384
#define PATTERN		0x5a

static bool overwrite;
module_param(overwrite, bool, 0444);
MODULE_PARM_DESC(overwrite, "1: the ring keeps the newest events");

static struct braid_buffer *buffer;
static struct dentry *dir;
static struct hrtimer timer;
static DEFINE_MUTEX(lock);
static u64 written, dropped;
static bool running;

static void write_one(void)
{
	u64 payload[3] = { written, dropped, ~written };
	int err = braid_buffer_write(buffer, sizeof(payload), payload);

	if (!err)
		WRITE_ONCE(written, written + 1);
	else if (err == -ENOSPC)
		WRITE_ONCE(dropped, dropped + 1);
}

static enum hrtimer_restart on_timer(struct hrtimer *unused)
{
	int k;

	for (k = 0; k < BURST; k++)
		write_one();
	if (!READ_ONCE(running))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(&timer, ns_to_ktime(TIMER_NS));
	return HRTIMER_RESTART;
}

/* The reservation is in memory that the host may write; reading it is fine in a test. */
static bool is_whole(const u8 *data, u32 bytes)
{
	u32 k;

	for (k = 0; k < bytes; k++)
		if (READ_ONCE(data[k]) != PATTERN)
			return false;
	return true;
}

/* Returns with the timer stopped and the reservation committed. */
static int lap(u64 drops)
{
	struct braid_reservation res;
	u64 wanted, before;
	int err = 0;

	preempt_disable();	/* the timer's CPU is this one */
	res = braid_buffer_reserve(buffer, 64);
	if (!res.payload) {
		dropped++;
		preempt_enable();
		return -ENOSPC;
	}
	memset(res.payload, PATTERN, 64);
	wanted = dropped + drops;
	before = written;
	WRITE_ONCE(running, true);
	hrtimer_start(&timer, ns_to_ktime(TIMER_NS), HRTIMER_MODE_REL_PINNED_HARD);
	while (READ_ONCE(dropped) < wanted && !err) {
		cpu_relax();
		if (READ_ONCE(written) - before > RING_BYTES / 12)
			err = -EOVERFLOW;	/* more than fit */
	}
	WRITE_ONCE(running, false);
	hrtimer_cancel(&timer);
	if (!is_whole(res.payload, 64))
		err = -EBADMSG;
	braid_buffer_commit(buffer, res);
	written++;
	preempt_enable();
	return err;
}

static ssize_t run_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	u64 drops;
	int err = kstrtoull_from_user(from, count, 0, &drops);

	if (err)
		return err;
	mutex_lock(&lock);
	err = lap(drops);
	mutex_unlock(&lock);
	return err ?: count;
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = run_write,
};

static int result_show(struct seq_file *seq, void *unused)
{
	seq_printf(seq, "written %llu dropped %llu\n", written, dropped);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(result);

static int __init lap_init(void)
{
	buffer = braid_buffer_alloc("lap", RING_BYTES, BRAID_ALLOC_RAW |
				    (overwrite ? BRAID_ALLOC_OVERWRITE : 0), NULL);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	braid_hrtimer_setup(&timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	dir = debugfs_create_dir("lap", NULL);
	debugfs_create_file("run", 0200, dir, NULL, &run_fops);
	debugfs_create_file("result", 0400, dir, NULL, &result_fops);
	return 0;
}

static void __exit lap_exit(void)
{
	debugfs_remove(dir);
	hrtimer_cancel(&timer);
	if (braid_buffer_free(buffer))
		pr_warn("lap: the buffer is still in use\n");
}

module_init(lap_init);
module_exit(lap_exit);
MODULE_DESCRIPTION("Laps a ring over an open reservation, for tests");
MODULE_LICENSE("GPL");
