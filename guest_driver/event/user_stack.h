/* SPDX-License-Identifier: GPL-2.0 */
/* User stacks of the current task, by frame pointers. */
#ifndef BRAID_EVENT_USER_STACK_H
#define BRAID_EVENT_USER_STACK_H

#include "tracebraid/stack.h"

struct pt_regs;

/**
 * braid_user_regs - the registers that the current task has in user space
 * @interrupted: those of the interrupt
 *
 * Return: NULL: it has none, or is a 32-bit task.
 */
struct pt_regs *braid_user_regs(struct pt_regs *interrupted);

/**
 * braid_user_stack - the user stack of the current task
 * @regs: of braid_user_regs()
 * @frames: filled: the instruction, then return addresses
 * @most: of them, at least 1
 * @end: set: how it ends. An address may be any value where code has no frame pointers
 *
 * Context: any but NMI. Return: their number.
 */
u32 braid_user_stack(struct pt_regs *regs, unsigned long *frames, u32 most,
		     enum braid_stack_end *end);

#endif /* BRAID_EVENT_USER_STACK_H */
