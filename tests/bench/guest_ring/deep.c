// SPDX-License-Identifier: GPL-2.0
/*
 * Spends time at a known depth of the kernel's stack, in a page fault within a system call:
 *
 *   deep DEPTH STEPS     the program tests/bench/deep.c, by /dev/deep
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/stacktrace.h>
#include <linux/uaccess.h>

#define MOST	64u

/* What the task that writes asks for. */
struct wish {
	u32 depth;
	u32 steps;
};

static struct wish wish;

static noinline void deep_spend(u32 more)
{
	u32 k;

	if (more)
		deep_spend(more - 1);
	for (k = 0; !more && k < wish.steps; k++)
		barrier();
	barrier();		/* no tail call */
}

/* Nothing is mapped, so that the copy fails. */
static vm_fault_t deep_fault(struct vm_fault *vmf)
{
	unsigned long frames[MOST];
	u32 depth = stack_trace_save(frames, MOST, 0) + 1;	/* that of deep_spend(0) */

	if (depth > wish.depth) {
		pr_err("deep: the stack has %u frames already\n", depth);
		return VM_FAULT_SIGBUS;
	}
	deep_spend(wish.depth - depth);
	return VM_FAULT_SIGBUS;
}

static const struct vm_operations_struct deep_vm_ops = { .fault = deep_fault };

static int deep_mmap(struct file *file, struct vm_area_struct *vma)
{
	vma->vm_ops = &deep_vm_ops;
	return 0;
}

/* @count: the depth; @from: in the mapping */
static ssize_t deep_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	u8 byte;

	wish.depth = count;
	return copy_from_user(&byte, from, 1) ? -EFAULT : 1;
}

/* @count: the number of steps */
static ssize_t deep_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	wish.steps = count;
	return 0;
}

static const struct file_operations deep_fops = {
	.owner = THIS_MODULE,
	.mmap = deep_mmap,
	.read = deep_read,
	.write = deep_write,
};

static struct miscdevice deep = {
	.minor = MISC_DYNAMIC_MINOR, .name = "deep", .fops = &deep_fops, .mode = 0600,
};
module_misc_device(deep);
MODULE_DESCRIPTION("spends time at a known depth of the stack");
MODULE_LICENSE("GPL");
