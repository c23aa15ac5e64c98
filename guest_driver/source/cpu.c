// SPDX-License-Identifier: GPL-2.0
/*
 * Probes of the events of tasks, interrupts and time.
 */
#include <linux/bits.h>
#include <linux/init.h>
#include <linux/sched.h>
#include <linux/tick.h>

#include "guest_driver/source/group.h"
#include "guest_driver/source/layout.h"

/*
 * The header shows this only to the file that creates its tracepoints. A
 * preempted task is still running: the bit above all that can be reported says so.
 */
static __always_inline long __trace_sched_switch_state(bool preempt, unsigned int prev_state,
						       struct task_struct *task)
{
	unsigned int index;

	if (preempt)
		return TASK_REPORT_MAX;
	index = __task_state_index(prev_state, task->exit_state);
	return index ? BIT(index - 1) : 0;
}

#ifdef CONFIG_NUMA_BALANCING
/*
 * The scheduler keeps a task's NUMA group to itself: the ngid fields of the
 * NUMA balancing events say "unknown". Kernels without balancing have it in a header.
 */
static __always_inline pid_t braid_numa_group_unknown(struct task_struct *task)
{
	return -1;
}

#define task_numa_group_id(task)	braid_numa_group_unknown(task)
#endif

#define BRAID_GROUP	cpu
#define BRAID_HEADERS	"guest_driver/source/cpu_headers.h"
#include "guest_driver/source/generate.h"
