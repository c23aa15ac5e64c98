/* SPDX-License-Identifier: GPL-2.0 */
/* Trace headers of the cpu group: tasks, interrupts, time. No guard: read once per pass. */
#include <trace/events/sched.h>
#include <trace/events/syscalls.h>
#include <trace/events/signal.h>
#include <trace/events/task.h>
#include <trace/events/irq.h>
#include <trace/events/timer.h>
#include <trace/events/alarmtimer.h>
#include <trace/events/workqueue.h>
#include <trace/events/ipi.h>
#include <trace/events/nmi.h>
#include <trace/events/rcu.h>
#include <trace/events/context_tracking.h>
#include <trace/events/cpuhp.h>
#include <trace/events/power.h>
#include <trace/events/rpm.h>
#if BRAID_HAVE_NEWER_TRACE_HEADERS
#include <trace/events/csd.h>
#endif
#ifdef CONFIG_X86
#include BRAID_FAULT_TRACE_HEADER
#include <asm/trace/irq_vectors.h>
#include <asm/trace/fpu.h>
#include <asm/msr-trace.h>
#endif
