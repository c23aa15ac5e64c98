// SPDX-License-Identifier: GPL-2.0
/*
 * tracebraid/<buffer>/                  the other files: debugfs_buffer.c, trace_text.c, pipe.c
 *   events/enable                       write 0 or 1: all events
 *   events/<system>/enable              likewise: a system's
 *   events/<system>/<event>/enable      0 or 1; "1*": enabled by the host too
 *   events/<system>/<event>/{id,format}
 */
#include <linux/debugfs.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "guest_driver/event/debugfs.h"
#include "guest_driver/event/read_files.h"

#define FORMAT_ROOM	16384

static struct dentry *root;

/* A buffer's part of debugfs. */
struct braid_buffer_files {
	struct dentry *dir;
	struct dentry *events;
	struct list_head systems;
};

/* A directory for each system, made with its first event. */
struct system_dir {
	struct list_head list;
	struct braid_buffer *buffer;
	struct dentry *dir;
	char name[];		/* its own: the event's goes with the module that registered it */
};

static DEFINE_MUTEX(systems_lock);

static ssize_t braid_debugfs_event_enable_read(struct file *file, char __user *to, size_t count,
					       loff_t *at)
{
	struct braid_event *ev = file_inode(file)->i_private;
	u32 flags = READ_ONCE(ev->flags);
	char text[4];
	int len;

	len = scnprintf(text, sizeof(text), "%d%s\n", !!(flags & BRAID_EVENT_GUEST_ON),
			flags & BRAID_EVENT_HOST_ON ? "*" : "");
	return simple_read_from_buffer(to, count, at, text, len);
}

static ssize_t braid_debugfs_event_enable_write(struct file *file, const char __user *from,
						size_t count, loff_t *at)
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
	.read = braid_debugfs_event_enable_read,
	.write = braid_debugfs_event_enable_write,
	.llseek = default_llseek,
};

static ssize_t braid_debugfs_enable_group(struct braid_buffer *buffer, const char *system,
					  const char __user *from, size_t count)
{
	u32 matched;
	bool on;
	int err = kstrtobool_from_user(from, count, &on);

	if (!err)
		err = braid_event_set_matching(buffer, system, NULL, BRAID_EVENT_GUEST_ON, on, NULL,
					       &matched);
	return err ?: count;
}

static ssize_t braid_debugfs_all_enable_write(struct file *file, const char __user *from,
					      size_t count, loff_t *at)
{
	return braid_debugfs_enable_group(file_inode(file)->i_private, NULL, from, count);
}

static const struct file_operations all_enable_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = braid_debugfs_all_enable_write,
	.llseek = default_llseek,
};

static ssize_t braid_debugfs_system_enable_write(struct file *file, const char __user *from,
						 size_t count, loff_t *at)
{
	struct system_dir *sys = file_inode(file)->i_private;

	return braid_debugfs_enable_group(sys->buffer, sys->name, from, count);
}

static const struct file_operations system_enable_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = braid_debugfs_system_enable_write,
	.llseek = default_llseek,
};

static int braid_debugfs_format_show(struct seq_file *seq, void *unused)
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
DEFINE_SHOW_ATTRIBUTE(braid_debugfs_format);

static int braid_debugfs_id_show(struct seq_file *seq, void *unused)
{
	seq_printf(seq, "%u\n", ((struct braid_event *)seq->private)->id);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(braid_debugfs_id);

void braid_debugfs_exit(void)
{
	debugfs_remove(root);
}

void braid_debugfs_remove_buffer(struct braid_buffer *buffer)
{
	struct braid_buffer_files *files = buffer->files;
	struct system_dir *sys, *next;
	struct braid_event *ev = NULL;

	if (!files)
		return;
	braid_read_files_remove(buffer);
	debugfs_remove(files->dir);
	while (buffer->events && (ev = braid_registry_next(buffer, ev)))
		ev->dir = NULL;		/* went with it */
	list_for_each_entry_safe(sys, next, &files->systems, list)
		kfree(sys);
	kfree(files);
	buffer->files = NULL;
}

/* Must hold systems_lock. */
static struct dentry *braid_debugfs_system_dir(struct braid_buffer *buffer, const char *name)
{
	struct braid_buffer_files *files = buffer->files;
	struct system_dir *sys;

	list_for_each_entry(sys, &files->systems, list)
		if (!strcmp(sys->name, name))
			return sys->dir;
	sys = kzalloc(struct_size(sys, name, strlen(name) + 1), GFP_KERNEL);
	if (!sys)
		return ERR_PTR(-ENOMEM);
	strcpy(sys->name, name);
	sys->buffer = buffer;
	sys->dir = debugfs_create_dir(name, files->events);
	debugfs_create_file("enable", 0200, sys->dir, sys, &system_enable_fops);
	list_add_tail(&sys->list, &files->systems);
	return sys->dir;
}

static void braid_debugfs_add_event(struct braid_event *ev)
{
	if (!ev->buffer->files)
		return;
	mutex_lock(&systems_lock);
	ev->dir = debugfs_create_dir(ev->name, braid_debugfs_system_dir(ev->buffer, ev->system));
	mutex_unlock(&systems_lock);
	debugfs_create_file("enable", 0600, ev->dir, ev, &event_enable_fops);
	debugfs_create_file("id", 0400, ev->dir, ev, &braid_debugfs_id_fops);
	debugfs_create_file("format", 0400, ev->dir, ev, &braid_debugfs_format_fops);
}

static void braid_debugfs_remove_event(struct braid_event *ev)
{
	debugfs_remove(ev->dir);
	ev->dir = NULL;
}

int braid_debugfs_add_buffer(struct braid_buffer *buffer)
{
	struct braid_buffer_files *files = kzalloc(sizeof(*files), GFP_KERNEL);
	struct braid_event *ev = NULL;
	int err;

	if (!files)
		return -ENOMEM;
	INIT_LIST_HEAD(&files->systems);
	files->dir = debugfs_create_dir(buffer->name, root);
	braid_debugfs_files(buffer, files->dir);
	buffer->files = files;
	err = braid_read_files_add(buffer, files->dir);
	if (err) {
		braid_debugfs_remove_buffer(buffer);
		return err;
	}
	if (!buffer->events)
		return 0;
	files->events = debugfs_create_dir("events", files->dir);
	debugfs_create_file("enable", 0200, files->events, buffer, &all_enable_fops);
	while ((ev = braid_registry_next(buffer, ev)))
		braid_debugfs_add_event(ev);
	return 0;
}

void braid_debugfs_init(void)
{
	static const struct braid_event_listener listener = {
		.added = braid_debugfs_add_event,
		.removing = braid_debugfs_remove_event,
	};

	root = debugfs_create_dir("tracebraid", NULL);
	braid_registry_listen(&listener);
}
