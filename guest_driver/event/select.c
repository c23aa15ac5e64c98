// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/tracebraid-select: the guest's own user sends the commands of the mailbox through it.
 *
 * A write is a mailbox with a command. A read returns the region up to its rings, with the answer
 * in place of the shared mailbox, so the program reads the region's tables as the host does.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "guest_driver/event/mailbox.h"
#include "guest_driver/event/select.h"

#define READ_BYTES	65536u	/* at once */

/* An open file. */
struct select_file {
	struct mutex lock;
	struct braid_mailbox box;	/* the last command, and its answer */
};

static ssize_t braid_select_write(struct file *filp, const char __user *from, size_t count,
				  loff_t *at)
{
	struct select_file *file = filp->private_data;
	int err = -EFAULT;

	if (count < offsetof(struct braid_mailbox, done_seq) || count > sizeof(file->box))
		return -EINVAL;
	if (mutex_lock_interruptible(&file->lock))
		return -EINTR;
	memset(&file->box, 0, sizeof(file->box));
	if (!copy_from_user(&file->box, from, count))
		err = braid_mailbox_ask(&file->box);
	mutex_unlock(&file->lock);
	return err ?: count;
}

static ssize_t braid_select_read(struct file *filp, char __user *to, size_t count, loff_t *at)
{
	struct select_file *file = filp->private_data;
	size_t bytes = min_t(size_t, count, READ_BYTES);
	void *copy = kvmalloc(bytes, GFP_KERNEL);
	ssize_t ret;

	if (!copy)
		return -ENOMEM;
	mutex_lock(&file->lock);
	ret = *at < 0 ? -EINVAL : braid_mailbox_copy_tables(copy, bytes, *at, &file->box);
	mutex_unlock(&file->lock);
	if (ret > 0 && copy_to_user(to, copy, ret))
		ret = -EFAULT;
	if (ret > 0)
		*at += ret;
	kvfree(copy);
	return ret;
}

/* A probe can record any of the kernel's memory, as with tracefs' kprobe_events. */
static int braid_select_open(struct inode *inode, struct file *filp)
{
	struct select_file *file;
	int err = capable(CAP_SYS_ADMIN) ? security_locked_down(LOCKDOWN_TRACEFS) : -EPERM;

	if (err)
		return err;
	file = kvzalloc(sizeof(*file), GFP_KERNEL);
	if (!file)
		return -ENOMEM;
	mutex_init(&file->lock);
	filp->private_data = file;
	return 0;
}

static int braid_select_release(struct inode *inode, struct file *filp)
{
	kvfree(filp->private_data);
	return 0;
}

static const struct file_operations select_fops = {
	.owner = THIS_MODULE,
	.open = braid_select_open,
	.release = braid_select_release,
	.read = braid_select_read,
	.write = braid_select_write,
	.llseek = default_llseek,
};

static struct miscdevice select_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "tracebraid-select",
	.mode = 0600,
	.fops = &select_fops,
};

int braid_select_init(void)
{
	return misc_register(&select_device);
}

void braid_select_exit(void)
{
	misc_deregister(&select_device);
}
