/* SPDX-License-Identifier: GPL-2.0 */
/* What a test sees and decides of the transport "memory". */
#ifndef BRAID_TESTS_KUNIT_FAKE_MEMORY_H
#define BRAID_TESTS_KUNIT_FAKE_MEMORY_H

#include <linux/mm_types.h>

/* Set by the test before it starts the transport. */
struct braid_fake_guest_memory {
	u32 most_chunks;	/* that can be allocated */
	u32 most_order;		/* of all but the first */
	bool encrypted;
	u32 nr_allocated;	/* counts */
};

extern struct braid_fake_guest_memory braid_fake_guest_memory;

/** braid_fake_set_memory_mb - set the parameter memory_mb */
void braid_fake_set_memory_mb(u32 mb);

/** braid_fake_nr_chunks - chunks that the transport holds */
u32 braid_fake_nr_chunks(void);

/** braid_fake_chunk - the page of a chunk's beacon */
struct page *braid_fake_chunk(u32 chunk);

/** braid_fake_memory_region - the region in it; NULL: none */
void *braid_fake_memory_region(void);

/** braid_fake_reboot - tell the transport that the guest reboots */
void braid_fake_reboot(void);

/** braid_fake_sleep - tell it that the guest goes to sleep, or has woken */
void braid_fake_sleep(bool asleep);

/** braid_fake_settle - wait until it has freed what it was told to */
void braid_fake_settle(void);

#endif /* BRAID_TESTS_KUNIT_FAKE_MEMORY_H */
