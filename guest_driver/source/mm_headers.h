/* SPDX-License-Identifier: GPL-2.0 */
/* Trace headers of the mm group: memory. No guard: read once per pass. */
#include <trace/events/kmem.h>
#include <trace/events/vmscan.h>
#include <trace/events/oom.h>
#include <trace/events/compaction.h>
#include <trace/events/migrate.h>
#include <trace/events/filemap.h>
#include <trace/events/pagemap.h>
#include <trace/events/page_isolation.h>
#include <trace/events/percpu.h>
#include <trace/events/mmap.h>
#include <trace/events/mmap_lock.h>
#include <trace/events/thp.h>
#include <trace/events/tlb.h>
#include <trace/events/maple_tree.h>
#if BRAID_HAVE_NEWER_TRACE_HEADERS
#include <trace/events/vmalloc.h>
#include <trace/events/ksm.h>
#endif
