/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace headers of the kernel group: the kernel's own housekeeping. No guard: read once per pass.
 */
#include <trace/events/printk.h>
/* This one names its system only where the kernel creates its tracepoints. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM module
#include <trace/events/module.h>
#include <trace/events/initcall.h>
#include <trace/events/cgroup.h>
#include <trace/events/error_report.h>
#if BRAID_HAVE_NEWER_TRACE_HEADERS
#include <trace/events/notifier.h>
#endif
#ifdef CONFIG_X86_MCE
#include <trace/events/mce.h>
#endif
