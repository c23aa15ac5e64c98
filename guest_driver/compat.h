/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between kernel versions: the only place that asks for one.
 */
#ifndef BRAID_COMPAT_H
#define BRAID_COMPAT_H

#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/version.h>

/*
 * Where struct workqueue_struct has its name, which only a load-time check
 * can confirm (source/twin.c).
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
#define BRAID_WORKQUEUE_NAME_OFFSET	192
#else
#define BRAID_WORKQUEUE_NAME_OFFSET	176
#endif

/* Trace headers that came after 6.1: csd, ksm, notifier and vmalloc, all there by then. */
#define BRAID_HAVE_NEWER_TRACE_HEADERS	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0))

/* virtio_find_vqs() takes names and callbacks together. */
#define BRAID_HAVE_VIRTQUEUE_INFO	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0))

/* File locks moved from <linux/fs.h> to <linux/filelock.h>. */
#define BRAID_HAVE_FILELOCK_H	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0))

/* The numbers of the system calls, as __SYSCALL(number, function). */
#ifdef CONFIG_X86_64
#define BRAID_SYSCALL_TABLE	<asm/syscalls_64.h>
#endif

/*
 * What a tracepoint holds off while it calls its probes: preemption, or with PREEMPT_RT since
 * 7.0 migration alone. Kernels without kernel preemption don't count the former.
 */
#if defined(CONFIG_PREEMPT_RT) && LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define BRAID_TRACEPOINT_PREEMPTION	0
#define BRAID_TRACEPOINT_MIGRATION	1
#else
#define BRAID_TRACEPOINT_PREEMPTION	(IS_ENABLED(CONFIG_PREEMPTION) ? 1 : 0)
#define BRAID_TRACEPOINT_MIGRATION	0
#endif

/* How often the current task has disabled migration; one CPU alone has no such thing. */
static inline unsigned int braid_migration_depth(void)
{
#ifdef CONFIG_SMP
	return current->migration_disabled;
#else
	return 0;
#endif
}

/* Whether the scheduler is wanted, but not at once: an RT kernel's flag, later all kernels'. */
static inline bool braid_need_resched_lazy(void)
{
#ifdef CONFIG_ARCH_HAS_PREEMPT_LAZY
	return test_thread_flag(TIF_NEED_RESCHED_LAZY);
#else
	return false;
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

/* A splice that copies what read_iter() gives: another helper does it since 6.5. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#define braid_splice_copy		copy_splice_read
#else
#define braid_splice_copy		generic_file_splice_read
#endif

/* The kernel's ring buffer, which the bench measures beside ours, no longer wants the event. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#define braid_kernel_ring_commit(ring, event)	ring_buffer_unlock_commit(ring)
#else
#define braid_kernel_ring_commit(ring, event)	ring_buffer_unlock_commit(ring, event)
#endif

#endif /* BRAID_COMPAT_H */
