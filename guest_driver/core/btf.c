// SPDX-License-Identifier: GPL-2.0
/*
 * Reads the kernel's BTF as a file, because the kernel's own functions for it are not exported.
 */
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/vmalloc.h>

#include "guest_driver/core/btf.h"

#define BTF_DIRECTORY	"kernel/btf/"
#define BTF_BYTES_MOST	(64u << 20)

/*
 * The whole file, or NULL. kernel_read_file() is for what the kernel is going to execute or obey:
 * 6.12 warns when it reads anything else.
 */
static void *braid_btf_read_file(struct file *file, size_t *bytes)
{
	loff_t size = i_size_read(file_inode(file)), at = 0;
	void *data = size > 0 && size <= BTF_BYTES_MOST ? vmalloc(size) : NULL;
	ssize_t n = 1;

	while (data && at < size && n > 0) {
		n = kernel_read(file, data + at, size - at, &at);
		cond_resched();
	}
	if (data && at == size) {
		*bytes = size;
		return data;
	}
	vfree(data);
	return NULL;
}

/* From a private mount: the guest may have none, or a different one at /sys. */
void *braid_btf_read(const char *name, size_t *bytes)
{
	struct file_system_type *type = get_fs_type("sysfs");	/* built in: no module to put */
	struct vfsmount *sysfs = type ? kern_mount(type) : ERR_PTR(-ENODEV);
	char path[sizeof(BTF_DIRECTORY) + MODULE_NAME_LEN];
	struct path root = { };
	void *btf = NULL;
	struct file *file;

	if (IS_ERR(sysfs))
		return NULL;
	root = (struct path){ .mnt = sysfs, .dentry = sysfs->mnt_root };
	snprintf(path, sizeof(path), BTF_DIRECTORY "%s", name);
	file = file_open_root(&root, path, O_RDONLY, 0);
	if (!IS_ERR(file)) {
		btf = braid_btf_read_file(file, bytes);
		filp_close(file, NULL);
	}
	kern_unmount(sysfs);
	return btf;
}
