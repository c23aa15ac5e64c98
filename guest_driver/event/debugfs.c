// SPDX-License-Identifier: GPL-2.0
/*
 * tracebraid/trace/
 *   buffers/enabled                     0 or 1: whether the rings take events
 *   stats                               per vCPU: written, read, lost, left
 *   events/enable                       write 0 or 1: all events
 *   events/<system>/enable              likewise: a system's
 *   events/<system>/<event>/enable      0 or 1; "1*" also when the host wants it
 *   events/<system>/<event>/{id,format}
 */
#include <linux/debugfs.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "guest_driver/event/debugfs.h"

#define FORMAT_ROOM	16384

static struct dentry *root, *trace_dir, *events_dir, *buffers_dir, *stats_file;

/* A directory for each system, made with its first event. */
struct system_dir {
	struct list_head list;
	struct dentry *dir;
	char name[];		/* its own: the event's goes with the module that registered it */
};

static LIST_HEAD(systems);
static DEFINE_MUTEX(systems_lock);

static ssize_t event_enable_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	struct braid_event *ev = file_inode(file)->i_private;
	u32 flags = READ_ONCE(ev->flags);
	char text[4];
	int len;

	len = scnprintf(text, sizeof(text), "%d%s\n", !!(flags & BRAID_EVENT_GUEST_ON),
			flags & BRAID_EVENT_HOST_ON ? "*" : "");
	return simple_read_from_buffer(to, count, at, text, len);
}

static ssize_t event_enable_write(struct file *file, const char __user *from, size_t count,
				  loff_t *at)
{
	bool on;
	int err = kstrtobool_from_user(from, count, &on);

	if (!err)
		err = braid_event_set(file_inode(file)->i_private, BRAID_EVENT_GUEST_ON, on);
	return err ?: count;
}

static const struct file_operations event_enable_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = event_enable_read,
	.write = event_enable_write,
	.llseek = default_llseek,
};

/* i_private: the system's name, or NULL for all */
static ssize_t group_enable_write(struct file *file, const char __user *from, size_t count,
				  loff_t *at)
{
	u32 matched;
	bool on;
	int err = kstrtobool_from_user(from, count, &on);

	if (!err)
		err = braid_event_set_matching(file_inode(file)->i_private, NULL,
					       BRAID_EVENT_GUEST_ON, on, &matched);
	return err ?: count;
}

static const struct file_operations group_enable_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = group_enable_write,
	.llseek = default_llseek,
};

static int format_show(struct seq_file *seq, void *unused)
{
	char *text = kvmalloc(FORMAT_ROOM, GFP_KERNEL);
	int len;

	if (!text)
		return -ENOMEM;
	len = braid_event_format_text(seq->private, text, FORMAT_ROOM);
	if (len > 0)
		seq_write(seq, text, len);
	kvfree(text);
	return len < 0 ? len : 0;
}
DEFINE_SHOW_ATTRIBUTE(format);

static int id_show(struct seq_file *seq, void *unused)
{
	seq_printf(seq, "%u\n", ((struct braid_event *)seq->private)->id);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(id);

static ssize_t enabled_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	struct braid_buffer *buffer = file_inode(file)->i_private;
	const char *text = READ_ONCE(buffer->disabled) ? "0\n" : "1\n";

	return simple_read_from_buffer(to, count, at, text, 2);
}

static ssize_t enabled_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	struct braid_buffer *buffer = file_inode(file)->i_private;
	bool on;
	int err = kstrtobool_from_user(from, count, &on);

	if (!err)
		WRITE_ONCE(buffer->disabled, !on);
	return err ?: count;
}

static const struct file_operations enabled_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = enabled_read,
	.write = enabled_write,
	.llseek = default_llseek,
};

/* Numbers as the reader last published them; the current sub-buffer is not counted yet. */
static int stats_show(struct seq_file *seq, void *unused)
{
	struct braid_buffer *buffer = seq->private;
	u32 cpu;

	for (cpu = 0; cpu < buffer->nr_rings; cpu++) {
		const struct braid_writer *w = buffer->writers[cpu];
		u64 read = READ_ONCE(w->map.meta->read), lost = READ_ONCE(w->map.meta->overrun);
		u64 written = READ_ONCE(w->seq_base);

		seq_printf(seq, "cpu%u: written %llu read %llu lost %llu left %lld%s\n", cpu,
			   written, read, lost, (s64)(written - read - lost) > 0 ?
			   (s64)(written - read - lost) : 0,
			   READ_ONCE(w->broken) ? " BROKEN BY THE HOST" : "");
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

void braid_debugfs_init(void)
{
	root = debugfs_create_dir("tracebraid", NULL);
	trace_dir = debugfs_create_dir("trace", root);
	events_dir = debugfs_create_dir("events", trace_dir);
	debugfs_create_file("enable", 0200, events_dir, NULL, &group_enable_fops);
}

void braid_debugfs_exit(void)
{
	struct system_dir *sys, *next;

	debugfs_remove(root);
	list_for_each_entry_safe(sys, next, &systems, list)
		kfree(sys);
	INIT_LIST_HEAD(&systems);
}

void braid_debugfs_attach(struct braid_buffer *buffer)
{
	buffers_dir = debugfs_create_dir("buffers", trace_dir);
	debugfs_create_file("enabled", 0600, buffers_dir, buffer, &enabled_fops);
	stats_file = debugfs_create_file("stats", 0400, trace_dir, buffer, &stats_fops);
}

void braid_debugfs_detach(void)
{
	debugfs_remove(stats_file);
	debugfs_remove(buffers_dir);
}

static struct dentry *system_dir(const char *name)
{
	struct system_dir *sys;

	list_for_each_entry(sys, &systems, list)
		if (!strcmp(sys->name, name))
			return sys->dir;
	sys = kzalloc(struct_size(sys, name, strlen(name) + 1), GFP_KERNEL);
	if (!sys)
		return ERR_PTR(-ENOMEM);
	strcpy(sys->name, name);
	sys->dir = debugfs_create_dir(name, events_dir);
	debugfs_create_file("enable", 0200, sys->dir, sys->name, &group_enable_fops);
	list_add_tail(&sys->list, &systems);
	return sys->dir;
}

void braid_debugfs_add(struct braid_event *ev)
{
	mutex_lock(&systems_lock);
	ev->dir = debugfs_create_dir(ev->name, system_dir(ev->system));
	mutex_unlock(&systems_lock);
	debugfs_create_file("enable", 0600, ev->dir, ev, &event_enable_fops);
	debugfs_create_file("id", 0400, ev->dir, ev, &id_fops);
	debugfs_create_file("format", 0400, ev->dir, ev, &format_fops);
}

void braid_debugfs_remove(struct braid_event *ev)
{
	debugfs_remove(ev->dir);
}
