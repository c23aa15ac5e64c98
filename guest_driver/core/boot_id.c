// SPDX-License-Identifier: GPL-2.0
/* Reads the boot id from procfs: the kernel exports it to modules in no other way. */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/path.h>
#include <linux/string.h>
#include <linux/uuid.h>

#include "guest_driver/core/boot_id.h"

/* From a private mount: the guest may have none, or a different one at /proc. */
static struct file *braid_boot_id_open(struct vfsmount *proc)
{
	const struct path root = { .mnt = proc, .dentry = proc->mnt_root };

	return file_open_root(&root, "sys/kernel/random/boot_id", O_RDONLY, 0);
}

void braid_boot_id(u8 id[16])
{
	struct file_system_type *type = get_fs_type("proc");	/* built in: no module to put */
	struct vfsmount *proc = type ? kern_mount(type) : ERR_PTR(-ENODEV);
	char text[UUID_STRING_LEN + 2] = "";
	loff_t at = 0;
	struct file *file;
	uuid_t uuid;

	memset(id, 0, 16);
	if (IS_ERR(proc))
		return;
	file = braid_boot_id_open(proc);
	if (!IS_ERR(file)) {
		if (kernel_read(file, text, sizeof(text) - 1, &at) >= UUID_STRING_LEN &&
		    !uuid_parse(text, &uuid))
			memcpy(id, uuid.b, 16);
		filp_close(file, NULL);
	}
	kern_unmount(proc);
}
