// SPDX-License-Identifier: GPL-2.0
/*
 * Events that compile but must be omitted, each with its reason.
 *
 * Some headers are in no group at all:
 *
 * rseq          looks up cpu_to_node(__entry->cpu_id): a number that a host may have
 *               changed in between would index an array of the kernel.
 * dma           loops over as many elements as it has just stored in a field: the
 *               compiler may take the number from there.
 * irq_matrix, iocost, wbt, bridge, huge_memory
 *               need files or enumerators of which no header package has a copy.
 * the others    are of modules, of other machines, or of little use in a guest.
 *
 * No assignment may use a stored field as an address, an index, a length or a condition: the host
 * may change it in between. tests/lint/read_back.py checks this in all headers of every kernel that
 * the tests run, and names the few events that may read a number back.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "guest_driver/source/group.h"
#include "guest_driver/source/layout.h"

/*
 * struct braid_left_out - Events that may have to be omitted.
 * @system: Their system.
 * @name: Name of the event.
 * @checked: Whether they can be recorded on this kernel; NULL: never.
 */
struct braid_left_out {
	const char *system;
	const char *name;
	bool (*checked)(void);
};

static const struct braid_left_out braid_left_out[] __initconst = {
	/* These read a structure that layout.h declares. */
	{ "kmem", "kmem_cache_alloc", braid_layout_of_kmem_cache },
	{ "kmem", "kmem_cache_alloc_node", braid_layout_of_kmem_cache },
	{ "kmem", "kmem_cache_free", braid_layout_of_kmem_cache },
	{ "workqueue", "workqueue_queue_work", braid_layout_of_workqueue },

	/* These read struct compact_control, on some kernels at least. */
	{ "compaction", "mm_compaction_begin", NULL },
	{ "compaction", "mm_compaction_end", NULL },
	{ "compaction", "mm_compaction_migratepages", NULL },

	/* This looks up the type of a page's block by an unexported function. */
	{ "kmem", "mm_page_alloc_extfrag", NULL },

	/* These read struct wb_writeback_work. */
	{ "writeback", "writeback_exec", NULL },
	{ "writeback", "writeback_queue", NULL },
	{ "writeback", "writeback_queue_io", NULL },
	{ "writeback", "writeback_start", NULL },
	{ "writeback", "writeback_wait", NULL },
	{ "writeback", "writeback_written", NULL },

	/* These read the global writeback domain, which is not exported. */
	{ "writeback", "balance_dirty_pages", NULL },
	{ "writeback", "global_dirty_state", NULL },
};

/**
 * braid_leave_out() - Whether an event must be omitted.
 * @tp: The event.
 *
 * May sleep. Return: true if so.
 */
bool __init braid_leave_out(const struct braid_tracepoint *tp)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(braid_left_out); i++) {
		const struct braid_left_out *out = &braid_left_out[i];

		if (!strcmp(tp->name, out->name) && !strcmp(tp->system, out->system))
			return !out->checked || !out->checked();
	}
	return false;
}
