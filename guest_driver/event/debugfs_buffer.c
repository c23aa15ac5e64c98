// SPDX-License-Identifier: GPL-2.0
/*
 * A buffer's own files:
 *   buffers/enabled         0 or 1: whether the rings take events
 *   mode                    "[consume] overwrite" and "[delta] absolute"; write a word to change it
 *   buffer_size_kb          of each CPU's ring; write to change it
 *   subbuf_size             bytes of a sub-buffer
 *   stats                   per CPU: written, read, lost, left
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "guest_driver/core/reader.h"
#include "guest_driver/event/debugfs.h"

static ssize_t braid_debugfs_enabled_read(struct file *file, char __user *to, size_t count,
					  loff_t *at)
{
	struct braid_buffer *buffer = file_inode(file)->i_private;
	const char *text = braid_buffer_is_on(buffer) ? "1\n" : "0\n";

	return simple_read_from_buffer(to, count, at, text, 2);
}

static ssize_t braid_debugfs_enabled_write(struct file *file, const char __user *from, size_t count,
					   loff_t *at)
{
	bool on;
	int err = kstrtobool_from_user(from, count, &on);

	if (!err)
		braid_buffer_set_on(file_inode(file)->i_private, on);
	return err ?: count;
}

static const struct file_operations enabled_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = braid_debugfs_enabled_read,
	.write = braid_debugfs_enabled_write,
	.llseek = default_llseek,
};

static int braid_debugfs_mode_show(struct seq_file *seq, void *unused)
{
	u32 flags = READ_ONCE(((struct braid_buffer *)seq->private)->flags);

	seq_puts(seq, flags & BRAID_BUFFER_OVERWRITE ? "consume [overwrite]\n" :
						       "[consume] overwrite\n");
	seq_puts(seq, flags & BRAID_BUFFER_ABSOLUTE ? "delta [absolute]\n" :
						      "[delta] absolute\n");
	return 0;
}

static int braid_debugfs_mode_open(struct inode *inode, struct file *file)
{
	return single_open(file, braid_debugfs_mode_show, inode->i_private);
}

static ssize_t braid_debugfs_mode_write(struct file *file, const char __user *from, size_t count,
					loff_t *at)
{
	struct braid_buffer *buffer = file_inode(file)->i_private;
	u32 set = 0, clear = 0;
	char word[16] = "";
	int err;

	if (count >= sizeof(word))
		return -EINVAL;
	if (copy_from_user(word, from, count))
		return -EFAULT;
	if (sysfs_streq(word, "consume"))
		clear = BRAID_BUFFER_OVERWRITE;
	else if (sysfs_streq(word, "overwrite"))
		set = BRAID_BUFFER_OVERWRITE;
	else if (sysfs_streq(word, "delta"))
		clear = BRAID_BUFFER_ABSOLUTE;
	else if (sysfs_streq(word, "absolute"))
		set = BRAID_BUFFER_ABSOLUTE;
	else
		return -EINVAL;
	err = braid_buffer_reshape(buffer, 0, set, clear);
	return err ?: count;
}

static const struct file_operations mode_fops = {
	.owner = THIS_MODULE,
	.open = braid_debugfs_mode_open,
	.read = seq_read,
	.write = braid_debugfs_mode_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int braid_debugfs_size_show(struct seq_file *seq, void *unused)
{
	seq_printf(seq, "%llu\n", braid_buffer_size(seq->private) >> 10);
	return 0;
}

static int braid_debugfs_size_open(struct inode *inode, struct file *file)
{
	return single_open(file, braid_debugfs_size_show, inode->i_private);
}

static ssize_t braid_debugfs_size_write(struct file *file, const char __user *from, size_t count,
					loff_t *at)
{
	u64 kib;
	int err = kstrtou64_from_user(from, count, 0, &kib);

	if (!err && kib > U64_MAX >> 10)
		err = -EINVAL;
	if (!err)
		err = braid_buffer_resize(file_inode(file)->i_private, kib << 10);
	return err ?: count;
}

static const struct file_operations size_fops = {
	.owner = THIS_MODULE,
	.open = braid_debugfs_size_open,
	.read = seq_read,
	.write = braid_debugfs_size_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int braid_debugfs_subbuf_size_show(struct seq_file *seq, void *unused)
{
	seq_printf(seq, "%u\n", ((struct braid_buffer *)seq->private)->subbuf_bytes);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(braid_debugfs_subbuf_size);

/* Each ring's counts are of one moment: written = read + lost + left. */
static int braid_debugfs_stats_show(struct seq_file *seq, void *unused)
{
	struct braid_buffer *buffer = seq->private;
	struct braid_ring_counts counts;
	bool any = false;
	int cpu, err;

	for (cpu = 0; cpu < buffer->nr_cpus; cpu++) {
		err = braid_reader_counts(buffer, cpu, &counts);
		if (err && err != -EBADMSG)
			continue;
		any = true;
		if (err)
			seq_printf(seq, "cpu%d: invalid ring state", cpu);
		else
			seq_printf(seq, "cpu%d: written %llu read %llu lost %llu left %llu", cpu,
				   counts.written, counts.read, counts.overruns + counts.dropped,
				   counts.entries);
		seq_puts(seq, counts.broken ? " BROKEN BY THE HOST\n" : "\n");
	}
	if (!any)
		seq_puts(seq, "no shared memory\n");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(braid_debugfs_stats);

void braid_debugfs_files(struct braid_buffer *buffer, struct dentry *dir)
{
	debugfs_create_file("enabled", 0600, debugfs_create_dir("buffers", dir), buffer,
			    &enabled_fops);
	debugfs_create_file("mode", 0600, dir, buffer, &mode_fops);
	debugfs_create_file("buffer_size_kb", 0600, dir, buffer, &size_fops);
	debugfs_create_file("subbuf_size", 0400, dir, buffer, &braid_debugfs_subbuf_size_fops);
	debugfs_create_file("stats", 0400, dir, buffer, &braid_debugfs_stats_fops);
}
