// SPDX-License-Identifier: GPL-2.0
/*
 * Compares the layouts of private structures with the running kernel's BTF.
 */
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mount.h>
#include <linux/vmalloc.h>

#include "guest_driver/source/layout.h"
#include "shared/btf.h"

#define BTF_PATH	"kernel/btf/vmlinux"
#define BTF_BYTES_MOST	(64u << 20)

#define MEMBER(type, name)	\
	{ #type, #name, offsetof(struct type, name), sizeof_field(struct type, name) }

/* All members that events read. */
static const struct braid_btf_member braid_kmem_cache_members[] __initconst = {
	MEMBER(kmem_cache, flags),
	MEMBER(kmem_cache, size),
	MEMBER(kmem_cache, object_size),
	MEMBER(kmem_cache, name),
};

static const struct braid_btf_member braid_workqueue_members[] __initconst = {
	MEMBER(pool_workqueue, pool),
	MEMBER(pool_workqueue, wq),
	MEMBER(worker_pool, cpu),
	{ "workqueue_struct", "name", offsetof(struct workqueue_struct, name), 0 },
};

static struct {
	bool checked, kmem_cache, workqueue;
} matches __initdata;

/*
 * The whole file, or NULL. kernel_read_file() is for what the kernel is going to execute or obey:
 * 6.12 warns when it reads anything else.
 */
static void *__init braid_layout_read_file(struct file *file, size_t *bytes)
{
	loff_t size = i_size_read(file_inode(file)), at = 0;
	void *data = size > 0 && size <= BTF_BYTES_MOST ? vmalloc(size) : NULL;
	ssize_t n = 1;

	while (data && at < size && n > 0)
		n = kernel_read(file, data + at, size - at, &at);
	if (data && at == size) {
		*bytes = size;
		return data;
	}
	vfree(data);
	return NULL;
}

/* From a private mount: the guest may have none, or a different one at /sys. */
static void *__init braid_layout_read_btf(size_t *bytes)
{
	struct file_system_type *type = get_fs_type("sysfs");	/* built in: no module to put */
	struct vfsmount *sysfs = type ? kern_mount(type) : ERR_PTR(-ENODEV);
	struct path root = { };
	void *btf = NULL;
	struct file *file;

	if (IS_ERR(sysfs))
		return NULL;
	root = (struct path){ .mnt = sysfs, .dentry = sysfs->mnt_root };
	file = file_open_root(&root, BTF_PATH, O_RDONLY, 0);
	if (!IS_ERR(file)) {
		btf = braid_layout_read_file(file, bytes);
		filp_close(file, NULL);
	}
	kern_unmount(sysfs);
	return btf;
}

static bool __init braid_layout_matches(const void *btf, size_t bytes,
					const struct braid_btf_member *members, unsigned int nr)
{
	while (nr--)
		if (!braid_btf_has(btf, bytes, &members[nr]))
			return false;
	return true;
}

/* Reads the BTF once, because it has several MiB. */
static void __init braid_layout_check(void)
{
	size_t bytes = 0;
	void *btf = braid_layout_read_btf(&bytes);

	matches.checked = true;
	if (!btf)
		return;
	matches.kmem_cache = braid_layout_matches(btf, bytes, braid_kmem_cache_members,
						  ARRAY_SIZE(braid_kmem_cache_members));
	matches.workqueue = braid_layout_matches(btf, bytes, braid_workqueue_members,
						 ARRAY_SIZE(braid_workqueue_members));
	vfree(btf);
}

bool __init braid_layout_of_kmem_cache(void)
{
	if (!matches.checked)
		braid_layout_check();
	return matches.kmem_cache;
}

bool __init braid_layout_of_workqueue(void)
{
	if (!matches.checked)
		braid_layout_check();
	return matches.workqueue;
}
