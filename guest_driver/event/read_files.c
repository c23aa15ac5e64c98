// SPDX-License-Identifier: GPL-2.0
/*
 * tracebraid/<buffer>/
 *   trace                        text; writing empties the buffer
 *   output                       how the text shows events: trace, latency, raw, hex, binary
 *   per_cpu/cpuN/trace_pipe_raw  sub-buffers, by read, splice and mmap
 *   per_cpu/cpuN/stats
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "guest_driver/event/read_files.h"

static LIST_HEAD(all_files);
static DEFINE_MUTEX(all_lock);

static const char *const kinds[BRAID_NR_OUTPUTS] = {
	[BRAID_OUTPUT_TRACE] = "trace",
	[BRAID_OUTPUT_LATENCY] = "latency",
	[BRAID_OUTPUT_RAW] = "raw",
	[BRAID_OUTPUT_HEX] = "hex",
	[BRAID_OUTPUT_BINARY] = "binary",
};

static int braid_read_files_output_show(struct seq_file *seq, void *unused)
{
	struct braid_read_files *files = seq->private;
	u32 k, now = READ_ONCE(files->kind);

	for (k = 0; k < ARRAY_SIZE(kinds); k++)
		seq_printf(seq, k == now ? "%s[%s]" : "%s%s", k ? " " : "", kinds[k]);
	seq_putc(seq, '\n');
	return 0;
}

static int braid_read_files_output_open(struct inode *inode, struct file *file)
{
	return single_open(file, braid_read_files_output_show, inode->i_private);
}

static ssize_t braid_read_files_output_write(struct file *file, const char __user *from,
					     size_t count, loff_t *at)
{
	struct braid_read_files *files = file_inode(file)->i_private;
	char text[16];
	int kind;

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, count))
		return -EFAULT;
	text[count] = 0;
	kind = sysfs_match_string(kinds, text);
	if (kind < 0)
		return kind;
	WRITE_ONCE(files->kind, kind);
	return count;
}

static const struct file_operations output_fops = {
	.owner = THIS_MODULE,
	.open = braid_read_files_output_open,
	.read = seq_read,
	.write = braid_read_files_output_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static void braid_read_files_show_time(struct seq_file *seq, const char *name,
				       struct braid_buffer *buffer, int cpu, u64 stamp)
{
	u32 rest;

	if (stamp)
		braid_buffer_normalize_time_stamp(buffer, cpu, &stamp);
	stamp = div_u64_rem(stamp, NSEC_PER_SEC, &rest);
	seq_printf(seq, "%s: %5llu.%06u\n", name, stamp, rest / 1000);
}

static int braid_read_files_stats_show(struct seq_file *seq, void *unused)
{
	static const char *const owners[] = { "none", "host", "guest" };
	const struct braid_read_cpu *c = seq->private;
	struct braid_buffer *buffer = c->files->buffer;	/* the file goes before it does */
	struct braid_ring_counts counts;
	int err = braid_reader_counts(buffer, c->cpu, &counts);

	if (err)
		return err;
	seq_printf(seq, "entries: %llu\n", counts.entries);
	seq_printf(seq, "overrun: %llu\n", counts.overruns);
	seq_printf(seq, "bytes: %llu\n", counts.bytes);
	braid_read_files_show_time(seq, "oldest event ts", buffer, c->cpu, counts.oldest);
	braid_read_files_show_time(seq, "now ts", buffer, c->cpu,
				   braid_buffer_time_stamp(buffer, c->cpu));
	seq_printf(seq, "dropped events: %llu\n", counts.dropped);
	seq_printf(seq, "read events: %llu\n", counts.read);
	seq_printf(seq, "written events: %llu\n", counts.written);
	seq_printf(seq, "reader: %s\n",
		   counts.owner < ARRAY_SIZE(owners) ? owners[counts.owner] : "?");
	if (counts.broken)
		seq_puts(seq, "BROKEN BY THE HOST\n");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(braid_read_files_stats);

static void braid_read_files_add_cpu(struct braid_read_files *files, int cpu)
{
	struct braid_read_cpu *c = &files->cpus[cpu];
	struct dentry *dir;
	char name[16];

	c->files = files;
	c->cpu = cpu;
	snprintf(name, sizeof(name), "cpu%d", cpu);
	dir = debugfs_create_dir(name, files->per_cpu);
	/* These wait and map: they detect by themselves that the buffer is gone. */
	debugfs_create_file_unsafe("trace_pipe_raw", 0400, dir, c, &braid_pipe_fops);
	debugfs_create_file("stats", 0400, dir, c, &braid_read_files_stats_fops);
}

int braid_read_files_add(struct braid_buffer *buffer, struct dentry *dir)
{
	struct braid_read_files *files;
	int cpu, err;

	files = kzalloc(struct_size(files, cpus, buffer->nr_cpus), GFP_KERNEL);
	if (!files)
		return -ENOMEM;
	err = init_srcu_struct(&files->users);
	if (err) {
		kfree(files);
		return err;
	}
	kref_init(&files->kref);
	mutex_init(&files->lock);
	INIT_LIST_HEAD(&files->traces);
	files->buffer = buffer;
	files->nr_cpus = buffer->nr_cpus;
	files->trace = debugfs_create_file_unsafe("trace", 0600, dir, files, &braid_trace_fops);
	files->output = debugfs_create_file("output", 0600, dir, files, &output_fops);
	files->per_cpu = debugfs_create_dir("per_cpu", dir);
	for_each_possible_cpu(cpu)
		if (cpu < files->nr_cpus)
			braid_read_files_add_cpu(files, cpu);
	mutex_lock(&all_lock);
	list_add(&files->list, &all_files);
	mutex_unlock(&all_lock);
	return 0;
}

static struct braid_read_files *braid_read_files_unlist(const struct braid_buffer *buffer)
{
	struct braid_read_files *files, *found = NULL;

	mutex_lock(&all_lock);
	list_for_each_entry(files, &all_files, list)
		if (files->buffer == buffer)
			found = files;
	if (found)
		list_del(&found->list);
	mutex_unlock(&all_lock);
	return found;
}

static void braid_read_files_wake_all(struct braid_buffer *buffer)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct braid_guest_reader *r = braid_reader_get(buffer, cpu);

		if (!r)
			continue;
		braid_reader_wake(r);
		braid_reader_put(r);
	}
}

void braid_read_files_remove(struct braid_buffer *buffer)
{
	struct braid_read_files *files = braid_read_files_unlist(buffer);

	if (!files)
		return;
	/* On return none can be opened, and no call is inside of those that don't wait. */
	debugfs_remove(files->trace);
	debugfs_remove(files->output);
	debugfs_remove(files->per_cpu);
	WRITE_ONCE(files->buffer, NULL);
	braid_read_files_wake_all(buffer);
	synchronize_srcu(&files->users);
	braid_trace_close_all(files);
	braid_read_files_put(files);
}
