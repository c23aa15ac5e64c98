/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between kernel versions: the only place that tests for one.
 */
#ifndef BRAID_COMPAT_H
#define BRAID_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>
#include <linux/version.h>

/*
 * Offset of the name in struct workqueue_struct, which source/layout.c
 * compares with the running kernel's BTF.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
#define BRAID_WORKQUEUE_NAME_OFFSET	(160 + sizeof(struct mutex))
#else
#define BRAID_WORKQUEUE_NAME_OFFSET	(144 + sizeof(struct mutex))
#endif

/* In struct kmem_cache, the capacity of a sheaf took the place of partial slabs of a CPU. */
#define BRAID_SLAB_HAS_SHEAVES	(LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0))

/* Trace headers added after 6.1: csd, ksm, notifier and vmalloc; all exist from then on. */
#define BRAID_HAVE_NEWER_TRACE_HEADERS	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0))

/* Page faults: a trace header of x86 became one of all architectures. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define BRAID_FAULT_TRACE_HEADER	<trace/events/exceptions.h>
#else
#define BRAID_FAULT_TRACE_HEADER	<asm/trace/exceptions.h>
#endif

/* hex_asc_lo() and others moved from <linux/kernel.h> to <linux/hex.h>. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#include <linux/hex.h>
#endif

/* The leaf of a hypervisor, and writes of 64 bits to an MSR, have other names since 6.16. */
#ifdef CONFIG_X86
#include <asm/msr.h>
#include <asm/processor.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#include <asm/cpuid/api.h>
#define braid_cpuid_base_hypervisor	cpuid_base_hypervisor
#define braid_wrmsrq			wrmsrq
#else
#define braid_cpuid_base_hypervisor	hypervisor_cpuid_base
#define braid_wrmsrq			wrmsrl
#endif
#endif

/* The workqueue without a CPU has another name: a kernel that keeps the old one warns. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define braid_unbound_wq	system_dfl_wq
#else
#define braid_unbound_wq	system_unbound_wq
#endif

/* virtio_find_vqs() takes names and callbacks together. */
#define BRAID_HAVE_VIRTQUEUE_INFO	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0))

/* File locks moved from <linux/fs.h> to <linux/filelock.h>. */
#define BRAID_HAVE_FILELOCK_H	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0))

/* The numbers of the system calls, as __SYSCALL(number, function). */
#ifdef CONFIG_X86_64
#define BRAID_SYSCALL_TABLE	<asm/syscalls_64.h>
#elif defined(CONFIG_ARM64) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define BRAID_SYSCALL_TABLE	<asm/syscall_table_64.h>
#define __SYSCALL_WITH_COMPAT(number, function, compat)	__SYSCALL(number, function)
#elif defined(CONFIG_ARM64)
#define BRAID_SYSCALL_TABLE	<asm/unistd.h>
#endif

/*
 * What a tracepoint holds off while it calls its probes: preemption, or with PREEMPT_RT since
 * 7.0 migration alone; since 7.2 neither. Kernels without kernel preemption don't count the former.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
#define BRAID_TRACEPOINT_PREEMPTION	0
#define BRAID_TRACEPOINT_MIGRATION	0
#elif defined(CONFIG_PREEMPT_RT) && LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define BRAID_TRACEPOINT_PREEMPTION	0
#define BRAID_TRACEPOINT_MIGRATION	1
#else
#define BRAID_TRACEPOINT_PREEMPTION	(IS_ENABLED(CONFIG_PREEMPTION) ? 1 : 0)
#define BRAID_TRACEPOINT_MIGRATION	0
#endif

/* How often the current task has disabled migration; not counted without SMP. */
static inline unsigned int braid_migration_depth(void)
{
#ifdef CONFIG_SMP
	return current->migration_disabled;
#else
	return 0;
#endif
}

/* Whether rescheduling is requested lazily: a flag of RT kernels, later of all. */
static inline bool braid_need_resched_lazy(void)
{
#ifdef CONFIG_ARCH_HAS_PREEMPT_LAZY
	return test_thread_flag(TIF_NEED_RESCHED_LAZY);
#else
	return false;
#endif
}

/* A timer and its function are set up by one call since 6.13. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define braid_hrtimer_setup		hrtimer_setup
#define braid_hrtimer_setup_on_stack	hrtimer_setup_on_stack
#else
typedef enum hrtimer_restart braid_hrtimer_fn(struct hrtimer *timer);

static inline void braid_hrtimer_setup(struct hrtimer *timer, braid_hrtimer_fn *fn,
				       clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
}

static inline void braid_hrtimer_setup_on_stack(struct hrtimer *timer, braid_hrtimer_fn *fn,
						clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init_on_stack(timer, clock, mode);
	timer->function = fn;
}
#endif

/* The caller's stack. Kernels without CONFIG_STACKTRACE, as in user mode, have none. */
static inline unsigned int braid_stack_save(unsigned long *frames, unsigned int nr)
{
#ifdef CONFIG_STACKTRACE
	return stack_trace_save(frames, nr, 0);
#else
	return 0;
#endif
}

/* Flags of a vma go through helpers since 6.3. */
static inline void braid_vma_flags(struct vm_area_struct *vma, unsigned long set,
				   unsigned long clear)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
}

/* A splice that copies what read_iter() returns: another helper since 6.5. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#define braid_splice_copy		copy_splice_read
#else
#define braid_splice_copy		generic_file_splice_read
#endif

/*
 * The kernel's ring buffer, which the bench measures beside ours, no longer takes the event
 * argument.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#define braid_kernel_ring_commit(ring, event)	ring_buffer_unlock_commit(ring)
#else
#define braid_kernel_ring_commit(ring, event)	ring_buffer_unlock_commit(ring, event)
#endif

/* A path as the first process sees it: since 7.x kernel threads have a root of their own. */
#include <linux/fs_struct.h>
#include <linux/namei.h>

static inline int braid_path(const char *name, struct path *path)
{
	int err = -ENOENT;

#ifdef scoped_with_init_fs
	scoped_with_init_fs()
		err = kern_path(name, LOOKUP_FOLLOW, path);
#else
	err = kern_path(name, LOOKUP_FOLLOW, path);
#endif
	return err;
}

/* Probes of user code: since 6.12 by a handle, since 6.13 handlers get a word more. */
#ifdef CONFIG_UPROBES
#include <linux/err.h>
#include <linux/uprobes.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define BRAID_UPROBE_DATA	, __u64 *data
#else
#define BRAID_UPROBE_DATA
#endif

static inline int braid_uprobe_register(struct inode *inode, loff_t offset,
					struct uprobe_consumer *consumer, void **handle)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	*handle = uprobe_register(inode, offset, 0, consumer);
	return PTR_ERR_OR_ZERO(*handle);
#else
	return uprobe_register(inode, offset, consumer);
#endif
}

/* A handler may run until braid_uprobe_synchronize(). */
static inline void braid_uprobe_unregister(struct inode *inode, loff_t offset,
					   struct uprobe_consumer *consumer, void *handle)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	uprobe_unregister_nosync(handle, consumer);
#else
	uprobe_unregister(inode, offset, consumer);
#endif
}

static inline void braid_uprobe_synchronize(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	uprobe_unregister_sync();
#endif
}
#endif

#endif /* BRAID_COMPAT_H */
