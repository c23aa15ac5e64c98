/* SPDX-License-Identifier: GPL-2.0-or-later */
/* braid_ring_copy() with a hook, in which a test lets others act between any two of its loads. */
#ifndef BRAID_TESTS_HOOKED_RING_COPY_H
#define BRAID_TESTS_HOOKED_RING_COPY_H

#include "shared/ring.h"

/* Called before each load of a shared word, and in the middle of each copy of a sub-buffer. */
extern void (*hooked_ring_copy_others)(void);

int hooked_ring_copy(const struct braid_ring_map *to, const struct braid_ring_map *from,
		     u64 incarnation);

#endif /* BRAID_TESTS_HOOKED_RING_COPY_H */
