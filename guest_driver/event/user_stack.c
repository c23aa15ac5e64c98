// SPDX-License-Identifier: GPL-2.0
/* Walks user stacks by frame pointers, from an interrupt: reads that would fault fail instead. */
#include <linux/kernel.h>
#include <linux/mm_types.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>

#include "guest_driver/event/user_stack.h"

/* Frames of 32-bit tasks have another layout; user-mode Linux has no frame pointer here. */
static bool braid_user_stack_is_known(struct pt_regs *regs)
{
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
	return user_64bit_mode(regs);
#elif defined(CONFIG_ARM64)
	return !compat_user_mode(regs);
#else
	return false;
#endif
}

static unsigned long braid_user_stack_pointer(struct pt_regs *regs)
{
#ifdef CONFIG_UML
	return 0;
#else
	return frame_pointer(regs);
#endif
}

struct pt_regs *braid_user_regs(struct pt_regs *interrupted)
{
	struct pt_regs *regs = interrupted;

	if (!current->mm || current->flags & (PF_KTHREAD | PF_EXITING))
		return NULL;
	if (!user_mode(regs))
		regs = task_pt_regs(current);
	return user_mode(regs) && braid_user_stack_is_known(regs) ? regs : NULL;
}

/*
 * The first frame is read by copy_from_user_nofault(), which also knows when the task's memory is
 * not the one that is mapped; that does not change before this context ends. Of the others only the
 * bounds are to be checked.
 */
static bool braid_user_stack_read(unsigned long frame[2], unsigned long at, bool first)
{
	const unsigned long __user *from = (void __user *)at;

	if (first)
		return !copy_from_user_nofault(frame, from, 2 * sizeof(*frame));
	if (!user_access_begin(from, 2 * sizeof(*frame)))
		return false;
	unsafe_get_user(frame[0], from, failed);
	unsafe_get_user(frame[1], from + 1, failed);
	user_access_end();
	return true;
failed:
	user_access_end();
	return false;
}

u32 braid_user_stack(struct pt_regs *regs, unsigned long *frames, u32 most,
		     enum braid_stack_end *end)
{
	unsigned long at = braid_user_stack_pointer(regs), frame[2];
	u32 nr = 0;

	frames[nr++] = instruction_pointer(regs);
	pagefault_disable();
	for (;;) {
		*end = BRAID_STACK_WHOLE;
		if (!at)
			break;
		*end = BRAID_STACK_BROKEN;
		if (at & (sizeof(long) - 1) || !braid_user_stack_read(frame, at, nr == 1))
			break;
		*end = BRAID_STACK_WHOLE;
		if (!frame[1])
			break;
		*end = BRAID_STACK_DEEP;
		if (nr == most)
			break;
		frames[nr++] = frame[1];
		*end = BRAID_STACK_BROKEN;
		if (frame[0] && frame[0] <= at)		/* a caller's frame is above */
			break;
		at = frame[0];
	}
	pagefault_enable();
	return nr;
}
