// SPDX-License-Identifier: GPL-2.0
/*
 * Operates on buffers by a test's commands:
 *
 *   echo WORD... > /sys/kernel/debug/buffers/do
 *     alloc NAME KIB FLAGS     a buffer with one event, which is enabled
 *     backup NAME KIB FLAGS    another, for swap to exchange rings with
 *     record N                 N numbered events on CPU 0
 *     resize KIB | reset | swap | free | freebackup | off | on
 *     peek | done              CPU 0's next event; release the reader role
 *
 * A write returns the driver's errno.
 *
 *   cat /sys/kernel/debug/buffers/look     CPU 0's numbers, by an iterator, twice
 *   cat /sys/kernel/debug/buffers/take     the same, each peeked at and then consumed
 *   cat /sys/kernel/debug/buffers/counts   entries, overruns, dropped, empty
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "tracebraid/abi.h"
#include "tracebraid/event.h"

#define RAW_WORDS	2

static const struct braid_event_desc desc = {
	.system = "numbers",
	.name = "number",
	.fields = "\tfield:u64 n;\toffset:8;\tsize:8;\tsigned:0;\n",
	.print_fmt = "\"n=%llu\", REC->n",
};

static struct braid_buffer *buffer, *backup;
static int event_id;
static u64 number;
static bool raw;
static struct dentry *dir;

static int do_alloc(const char *name, u64 kib, u32 flags)
{
	struct braid_buffer *made;

	if (buffer)
		return -EEXIST;
	made = braid_buffer_alloc(name, kib << 10, flags, NULL);
	if (IS_ERR(made))
		return PTR_ERR(made);
	raw = flags & BRAID_ALLOC_RAW;
	event_id = raw ? 0 : braid_register_event(made, 0, &desc);
	if (event_id < 0) {
		braid_buffer_free(made);
		return event_id;
	}
	buffer = made;
	return 0;
}

static int do_backup(const char *name, u64 kib, u32 flags)
{
	struct braid_buffer *made;

	if (!buffer || backup)
		return -EINVAL;
	made = braid_buffer_alloc(name, kib << 10, flags, buffer);
	if (IS_ERR(made))
		return PTR_ERR(made);
	backup = made;
	return 0;
}

struct work {
	struct work_struct work;
	u64 nr;
	int err;
};

/* Varies the length. */
static u32 raw_bytes(u64 n)
{
	return (n & 1 ? RAW_WORDS : 1) * sizeof(n);
}

static void record(struct work_struct *work)
{
	struct work *w = container_of(work, struct work, work);
	u64 payload[RAW_WORDS] = { 0, ~0ULL };
	u64 k;

	for (k = 0; k < w->nr; k++) {
		payload[0] = ++number;
		w->err = raw ? braid_buffer_write(buffer, raw_bytes(number), payload) :
			       braid_record_event(buffer, event_id, sizeof(*payload), payload);
		if (w->err == -EAGAIN)
			return;
	}
}

static void swap_rings(struct work_struct *work)
{
	container_of(work, struct work, work)->err = braid_buffer_swap_cpu(buffer, backup, 0);
}

static int on_cpu_0(work_func_t what, u64 nr)
{
	struct work w = { .nr = nr };

	INIT_WORK_ONSTACK(&w.work, what);
	schedule_work_on(0, &w.work);
	flush_work(&w.work);
	destroy_work_on_stack(&w.work);
	return w.err;
}

static int do_free(struct braid_buffer **which)
{
	int err = *which ? braid_buffer_free(*which) : -ENOENT;

	if (!err)
		*which = NULL;
	return err;
}

static int do_peek(void)
{
	struct braid_item item;
	int ret = braid_buffer_peek(buffer, 0, &item);

	return min(ret, 0);
}

/* The number, if the item is valid; else 0. */
static u64 number_of(const struct braid_item *item)
{
	u32 head = raw ? 0 : sizeof(struct braid_record);
	u32 bytes;
	u64 n;

	memcpy(&n, item->payload + head, sizeof(n));
	bytes = raw ? raw_bytes(n) : head + sizeof(n);
	if (item->buffer != buffer || item->cpu || item->payload_bytes != bytes ||
	    braid_ring_event_length(item->event) != bytes + 4 ||
	    braid_ring_event_data(item->event) != item->payload ||
	    memchr_inv(item->payload + bytes, 0, 4096))
		return 0;
	return n;
}

static void show(struct seq_file *seq, const struct braid_item *item)
{
	if (item->lost_before)
		seq_printf(seq, "lost %llu\n", item->lost_before);
	seq_printf(seq, "%llu\n", number_of(item));
}

static int look_show(struct seq_file *seq, void *unused)
{
	struct braid_buffer_iter *iter;
	struct braid_item item, before;
	u64 sum = 0, again = 0;
	int ret;

	iter = buffer ? braid_buffer_read_start(buffer, 0) : ERR_PTR(-ENOENT);
	if (IS_ERR(iter))
		return PTR_ERR(iter);
	while (!braid_buffer_iter_empty(iter) && braid_buffer_iter_peek(iter, &before) > 0) {
		ret = braid_buffer_read(iter, &item);
		if (ret <= 0 || item.stamp != before.stamp ||
		    item.lost_before != before.lost_before)
			seq_puts(seq, "read differs from peek\n");
		show(seq, &item);
		sum += number_of(&item);
	}
	ret = braid_buffer_iter_reset(iter);
	while (!ret && braid_buffer_read(iter, &item) > 0)
		again += number_of(&item);
	if (ret || again != sum || !braid_buffer_iter_empty(iter))
		seq_puts(seq, "second iteration differs\n");
	braid_buffer_read_finish(iter);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(look);

/* All at once: a second call, for a longer text, would find no events. */
static int take_show(struct seq_file *seq, void *unused)
{
	struct braid_item item;
	u64 stamp = 0, n;
	int ret;

	while (buffer && seq->size - seq->count > 64) {
		ret = braid_buffer_peek(buffer, 0, &item);
		if (ret <= 0)
			break;
		n = number_of(&item);
		if (item.stamp < stamp)
			seq_puts(seq, "times decrease\n");
		stamp = item.stamp;
		ret = braid_buffer_consume(buffer, 0, &item);
		if (ret <= 0 || number_of(&item) != n || item.stamp != stamp)
			seq_puts(seq, "consume differs from peek\n");
		show(seq, &item);
	}
	if (buffer)
		braid_buffer_read_done(buffer, 0);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(take);

static int counts_show(struct seq_file *seq, void *unused)
{
	if (buffer)
		seq_printf(seq, "%llu %llu %llu %d\n", braid_buffer_entries(buffer),
			   braid_buffer_overruns(buffer), braid_buffer_dropped(buffer),
			   braid_buffer_empty(buffer) && braid_buffer_empty_cpu(buffer, 0));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counts);

static int carry_out(char *line)
{
	char *word = strsep(&line, " "), *name = line ? strsep(&line, " ") : NULL;
	u64 a = 0, b = 0;

	if (name && kstrtou64(name, 0, &a))
		a = 0;
	if (line && sscanf(line, "%llu %llu", &a, &b) < 1)
		return -EINVAL;
	if (!strcmp(word, "alloc"))
		return name ? do_alloc(name, a, b) : -EINVAL;
	if (!strcmp(word, "backup"))
		return name ? do_backup(name, a, b) : -EINVAL;
	if (!buffer)
		return -ENOENT;
	if (!strcmp(word, "record"))
		return on_cpu_0(record, a);
	if (!strcmp(word, "resize"))
		return braid_buffer_resize(buffer, a << 10);
	if (!strcmp(word, "reset"))
		return braid_buffer_reset(buffer);
	if (!strcmp(word, "swap"))
		return backup ? on_cpu_0(swap_rings, 0) : -ENOENT;
	if (!strcmp(word, "peek"))
		return do_peek();
	if (!strcmp(word, "free"))
		return do_free(&buffer);
	if (!strcmp(word, "freebackup"))
		return do_free(&backup);
	if (!strcmp(word, "off"))
		braid_buffer_record_disable(buffer);
	else if (!strcmp(word, "on"))
		braid_buffer_record_enable(buffer);
	else if (!strcmp(word, "done"))
		braid_buffer_read_done(buffer, 0);
	else
		return -EINVAL;
	return 0;
}

static ssize_t do_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	char line[80];
	int err;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;
	line[count] = 0;
	err = carry_out(strim(line));
	return err ?: count;
}

static const struct file_operations do_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = do_write,
};

static int __init buffers_init(void)
{
	dir = debugfs_create_dir("buffers", NULL);
	debugfs_create_file("do", 0200, dir, NULL, &do_fops);
	debugfs_create_file("look", 0400, dir, NULL, &look_fops);
	debugfs_create_file("take", 0400, dir, NULL, &take_fops);
	debugfs_create_file("counts", 0400, dir, NULL, &counts_fops);
	return 0;
}

static void __exit buffers_exit(void)
{
	debugfs_remove(dir);
	do_free(&backup);
	do_free(&buffer);
}

module_init(buffers_init);
module_exit(buffers_exit);
MODULE_DESCRIPTION("Creates and changes buffers for tests");
MODULE_LICENSE("GPL");
