// SPDX-License-Identifier: GPL-2.0
/* Walks tracefs in a private mount, so that the guest's user need not have mounted it. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uio.h>

#include "guest_driver/source/tracefs.h"

#define FORMAT_ROOM	16384
#define TEXTS_ROOM	65536	/* several times what kernels have without trace_printk() */
#define HEAD_ROOM	160	/* holds the lines "name:" and "ID:" of all but strange names */
#define PATH_ROOM	256

static struct vfsmount *mount;

int braid_tracefs_open(void)
{
	struct file_system_type *type = get_fs_type("tracefs");

	if (!type)
		return -ENODEV;
	mount = kern_mount(type);
	if (!IS_ERR(mount))
		return 0;
	return PTR_ERR(mount);
}

void braid_tracefs_close(void)
{
	kern_unmount(mount);
	mount = NULL;
}

static struct file *braid_tracefs_open_at(const char *path, int flags)
{
	struct path root = { .mnt = mount, .dentry = mount->mnt_root };

	return file_open_root(&root, path, O_RDONLY | flags, 0);
}

/* Files -------------------------------------------------------------------------------------- */

/*
 * kernel_read() refuses files whose operations accept only user memory. Format files are seq_files,
 * which can be read into any memory.
 */
static ssize_t braid_tracefs_read_some(struct file *file, char *text, size_t bytes, loff_t *at)
{
	struct kvec vec = { .iov_base = text, .iov_len = bytes };
	struct iov_iter iter;
	struct kiocb kiocb;
	ssize_t got;

	if (file->f_op->read != seq_read)
		return -EINVAL;
	iov_iter_kvec(&iter, READ, &vec, 1, bytes);
	init_sync_kiocb(&kiocb, file);
	kiocb.ki_pos = *at;
	got = seq_read_iter(&kiocb, &iter);
	*at = kiocb.ki_pos;
	return got;
}

/* Reads a file until its end or until the buffer is full, and appends a NUL. Return: its length. */
static ssize_t braid_tracefs_read(const char *path, char *text, size_t room)
{
	struct file *file = braid_tracefs_open_at(path, 0);
	ssize_t got, used = 0;
	loff_t at = 0;

	if (IS_ERR(file))
		return PTR_ERR(file);
	while (used < room - 1) {
		got = braid_tracefs_read_some(file, text + used, room - 1 - used, &at);
		if (got <= 0)
			break;
		used += got;
	}
	fput(file);
	text[used] = '\0';
	return used ?: got < 0 ? got : -ENODATA;
}

static ssize_t braid_tracefs_read_format(const char *system, const char *name, char *text,
					 size_t room)
{
	char path[PATH_ROOM];

	if (snprintf(path, sizeof(path), "events/%s/%s/format", system, name) >= sizeof(path))
		return -ENAMETOOLONG;
	return braid_tracefs_read(path, text, room);
}

char *braid_tracefs_format(const char *system, const char *name)
{
	char *text = kmalloc(FORMAT_ROOM, GFP_KERNEL), *exact;
	ssize_t length;

	if (!text)
		return ERR_PTR(-ENOMEM);
	length = braid_tracefs_read_format(system, name, text, FORMAT_ROOM);
	if (length == FORMAT_ROOM - 1)
		length = -EFBIG;
	exact = length < 0 ? ERR_PTR(length) : kstrdup(text, GFP_KERNEL) ?: ERR_PTR(-ENOMEM);
	kfree(text);
	return exact;
}

/* Ends a text after its last whole line. */
static void braid_tracefs_cut(char *text)
{
	unsigned int lines = 0;
	char *at = text, *next;

	for (; (next = strchr(at, '\n')) != NULL; at = next + 1)
		lines++;
	*at = '\0';
	pr_info("printk_formats is too long: only its first %u texts are known to readers\n", lines);
}

char *braid_tracefs_printk_formats(void)
{
	char *text = kvmalloc(TEXTS_ROOM, GFP_KERNEL);
	ssize_t length;

	if (!text)
		return ERR_PTR(-ENOMEM);
	length = braid_tracefs_open();
	if (!length) {
		length = braid_tracefs_read("printk_formats", text, TEXTS_ROOM);
		braid_tracefs_close();
	}
	if (length == TEXTS_ROOM - 1)
		braid_tracefs_cut(text);
	if (length >= 0)
		return text;
	kvfree(text);
	return ERR_PTR(length);
}

int braid_tracefs_id(const char *format)
{
	const char *at = strstr(format, "\nID: ");
	int id = 0;

	if (!at || sscanf(at, "\nID: %d\n", &id) != 1 || id <= 0 || id > U16_MAX)
		return -EINVAL;
	return id;
}

/* Directories -------------------------------------------------------------------------------- */

struct name {
	struct list_head list;
	char text[];
};

struct names {
	struct dir_context context;
	struct list_head list;
};

static bool braid_tracefs_take_name(struct dir_context *context, const char *text, int length,
				    loff_t offset, u64 inode, unsigned int type)
{
	struct names *names = container_of(context, struct names, context);
	struct name *name;

	if (type != DT_DIR || *text == '.')
		return true;
	name = kzalloc(struct_size(name, text, length + 1), GFP_KERNEL);
	if (!name)
		return false;
	memcpy(name->text, text, length);
	list_add_tail(&name->list, &names->list);
	return true;
}

static void braid_tracefs_free_names(struct list_head *names)
{
	struct name *name, *next;

	list_for_each_entry_safe(name, next, names, list)
		kfree(name);
	INIT_LIST_HEAD(names);
}

/* The directories in a directory. Concurrent changes may or may not be seen. */
static int braid_tracefs_read_names(const char *path, struct list_head *list)
{
	struct names names = { .context.actor = braid_tracefs_take_name };
	struct file *file = braid_tracefs_open_at(path, O_DIRECTORY);
	int err;

	if (IS_ERR(file))
		return PTR_ERR(file);
	INIT_LIST_HEAD(&names.list);
	err = min(iterate_dir(file, &names.context), 0);	/* some return 1 */
	fput(file);
	list_splice(&names.list, list);
	return err;
}

static int braid_tracefs_walk_system(const char *system,
				     int (*found)(const char *system, const char *name, int id,
						  void *arg),
				     void *arg)
{
	char path[PATH_ROOM], head[HEAD_ROOM];
	struct name *name;
	LIST_HEAD(names);
	int id, err;

	snprintf(path, sizeof(path), "events/%s", system);
	err = braid_tracefs_read_names(path, &names);
	list_for_each_entry(name, &names, list) {
		if (err)
			break;
		/* It may have been removed since: then skip it. */
		id = braid_tracefs_read_format(system, name->text, head, sizeof(head)) < 0 ?
			     -ENOENT : braid_tracefs_id(head);
		if (id > 0)
			err = found(system, name->text, id, arg);
		cond_resched();
	}
	braid_tracefs_free_names(&names);
	return err == -ENOENT ? 0 : err;
}

int braid_tracefs_walk(int (*found)(const char *system, const char *name, int id, void *arg),
		       void *arg)
{
	struct name *system;
	LIST_HEAD(systems);
	int err = braid_tracefs_read_names("events", &systems);

	list_for_each_entry(system, &systems, list) {
		if (err)
			break;
		err = braid_tracefs_walk_system(system->text, found, arg);
	}
	braid_tracefs_free_names(&systems);
	return err;
}
