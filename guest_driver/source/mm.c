// SPDX-License-Identifier: GPL-2.0
/*
 * Probes of the events of memory management.
 */
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>

#include "guest_driver/source/group.h"
#include "guest_driver/source/layout.h"

/*
 * Only lets the header compile: the layout is private to compaction. source/leave_out.c omits the
 * events that read it.
 */
struct compact_control {
	unsigned int nr_migratepages;
	unsigned long migrate_pfn;
	unsigned long free_pfn;
};

/* Likewise, because the kernel's lookup is not exported. */
#undef get_pageblock_migratetype
#define get_pageblock_migratetype(page)	((void)(page), MIGRATE_UNMOVABLE)

/* rss_stat names an mm by a hash; any function that distinguishes them will do. */
static int braid_ptr_to_hashval(const void *ptr, unsigned long *hashval)
{
	*hashval = hash_ptr(ptr, 32);
	return 0;
}

#define ptr_to_hashval(ptr, hashval)	braid_ptr_to_hashval(ptr, hashval)

#define BRAID_GROUP	mm
#define BRAID_HEADERS	"guest_driver/source/mm_headers.h"
#include "guest_driver/source/generate.h"
