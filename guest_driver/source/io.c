// SPDX-License-Identifier: GPL-2.0
/*
 * Probes of the events of block devices and files.
 */
#include <linux/backing-dev.h>
#include <linux/cgroup.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/io_uring.h>
#include <linux/memcontrol.h>
#include <linux/swiotlb.h>
#include <linux/writeback.h>

#include "guest_driver/compat.h"
#if BRAID_HAVE_FILELOCK_H
#include <linux/filelock.h>
#endif
#include "guest_driver/source/group.h"

/*
 * Only lets the header compile: the layout is private to fs-writeback. source/leave_out.c omits the
 * events that read it.
 */
struct wb_writeback_work {
	long nr_pages;
	struct super_block *sb;
	enum writeback_sync_modes sync_mode;
	unsigned int for_kupdate;
	unsigned int range_cyclic;
	unsigned int for_background;
	enum wb_reason reason;
};

/* Likewise, because the kernel's is not exported. */
static struct wb_domain braid_no_domain;
#define global_wb_domain	braid_no_domain

/* The opcode is a separate field; the table of names is not exported. */
#define io_uring_get_opcode(opcode)	((void)(opcode), "?")

/* The header shows these two only to the file that creates its tracepoints. */
static __always_inline ino_t __trace_wb_assign_cgroup(struct bdi_writeback *wb)
{
#ifdef CONFIG_CGROUP_WRITEBACK
	return cgroup_ino(wb->memcg_css->cgroup);
#else
	return 1;
#endif
}

static __always_inline ino_t __trace_wbc_assign_cgroup(struct writeback_control *wbc)
{
#ifdef CONFIG_CGROUP_WRITEBACK
	if (wbc->wb)
		return __trace_wb_assign_cgroup(wbc->wb);
#endif
	return 1;
}

#define BRAID_GROUP	io
#define BRAID_HEADERS	"guest_driver/source/io_headers.h"
#include "guest_driver/source/generate.h"
