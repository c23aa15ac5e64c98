// SPDX-License-Identifier: GPL-2.0
/*
 * Registers and unregisters the sub-events of an event while it is being recorded, and
 * while others print it.
 *
 *   echo N > /sys/kernel/debug/subevents/flip     registers and unregisters N times; ends
 *                                                 registered
 *   echo N > /sys/kernel/debug/subevents/record   N events, numbers 0, 7, 14, ...
 *   cat /sys/kernel/debug/subevents/printed       records printed by the event's function, by
 *                                                 sub-events', and by unregistered ones': 0
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "tracebraid/event.h"

#define STEP	7
#define NR	16	/* sub-events; records have numbers up to twice as many */

struct payload {
	u32 unused;
	u32 number;
};

struct record {
	u64 common;
	struct payload payload;
};

static struct braid_subevent subevents[NR];
static char names[NR][16];
static atomic_t by_event, by_subevent, too_late;
static bool registered;
static struct dentry *dir;
static int event_id;

static int print_event(struct seq_file *out, const struct braid_item *item)
{
	const struct record *record = item->payload;

	atomic_inc(&by_event);
	seq_printf(out, "whole: number=%u", record->payload.number);
	return 0;
}

static int print_subevent(struct seq_file *out, const struct braid_item *item)
{
	const struct record *record = item->payload;

	atomic_inc(&by_subevent);
	usleep_range(100, 200);		/* it may sleep; the table must stay registered meanwhile */
	if (!READ_ONCE(registered))
		atomic_inc(&too_late);
	seq_printf(out, "part: number=%u", record->payload.number);
	return 0;
}

static const struct braid_event_desc desc = {
	.system = "subevents",
	.name = "event",
	.fields = "\tfield:u32 unused;\toffset:8;\tsize:4;\tsigned:0;\n"
		  "\tfield:u32 number;\toffset:12;\tsize:4;\tsigned:0;\n",
	.print_fmt = "\"number=%u\", REC->number",
	.outputs.trace = print_event,
};

static const struct braid_subevent_table table = {
	.subevents = subevents,
	.nr = NR,
	.number_offset = offsetof(struct payload, number),
	.number_bytes = 4,
};

static int register_all(void)
{
	WRITE_ONCE(registered, true);
	return braid_register_subevents(NULL, event_id, &table);
}

static int unregister_all(void)
{
	int err = braid_unregister_subevents(NULL, event_id);

	WRITE_ONCE(registered, false);
	return err;
}

/* Also tries operations that must be refused. */
static int flip(void)
{
	struct braid_subevent_table twice = { .subevents = subevents, .nr = 2, .number_bytes = 3 };
	int err = unregister_all();

	if (err)
		return err;
	if (braid_register_subevents(NULL, event_id, &twice) != -EINVAL ||
	    braid_unregister_subevents(NULL, event_id) != -ENOENT)
		return -EPROTO;
	msleep(2);		/* detects a print by an unregistered one */
	err = register_all();
	if (!err && braid_register_subevents(NULL, event_id, &table) != -EBUSY)
		err = -EPROTO;
	return err;
}

static ssize_t flip_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	u32 wanted;
	int err = kstrtou32_from_user(from, count, 0, &wanted);

	while (!err && wanted--) {
		err = flip();
		cond_resched();
	}
	return err ?: count;
}

static const struct file_operations flip_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = flip_write,
};

static ssize_t record_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	struct payload payload = { };
	u32 wanted, k;
	int err = kstrtou32_from_user(from, count, 0, &wanted);

	for (k = 0; k < wanted && !err; k++) {
		payload.number = k % (2 * NR) * STEP;
		err = braid_record_event(NULL, event_id, sizeof(payload), &payload);
		if (err == -ENOSPC || err == -EAGAIN)	/* full, or being read */
			err = 0;
	}
	return err ?: count;
}

static const struct file_operations record_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = record_write,
};

static int printed_show(struct seq_file *seq, void *unused)
{
	seq_printf(seq, "%d %d %d\n", atomic_read(&by_event), atomic_read(&by_subevent),
		   atomic_read(&too_late));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(printed);

static int __init subevents_init(void)
{
	int k, err;

	for (k = 0; k < NR; k++) {
		snprintf(names[k], sizeof(names[k]), "part_%d", k * STEP);
		subevents[k].number = k * STEP;
		subevents[k].name = names[k];
		subevents[k].fields = desc.fields;
		subevents[k].print_fmt = "\"part: number=%u\", REC->number";
		subevents[k].outputs.trace = print_subevent;
	}
	event_id = braid_register_event(NULL, 0, &desc);
	if (event_id < 0)
		return event_id;
	err = register_all();
	if (err) {
		braid_unregister_event(NULL, event_id);
		return err;
	}
	dir = debugfs_create_dir("subevents", NULL);
	debugfs_create_file("flip", 0200, dir, NULL, &flip_fops);
	debugfs_create_file("record", 0200, dir, NULL, &record_fops);
	debugfs_create_file("printed", 0400, dir, NULL, &printed_fops);
	return 0;
}

static void __exit subevents_exit(void)
{
	debugfs_remove(dir);
	braid_unregister_event(NULL, event_id);
}

module_init(subevents_init);
module_exit(subevents_exit);
MODULE_DESCRIPTION("Registers and unregisters sub-events for tests");
MODULE_LICENSE("GPL");
