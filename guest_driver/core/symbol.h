/* SPDX-License-Identifier: GPL-2.0 */
/* Names of the kernel addresses that events mention. */
#ifndef BRAID_CORE_SYMBOL_H
#define BRAID_CORE_SYMBOL_H

#include "guest_driver/core/region.h"

/**
 * braid_symbol_note - remember that an event mentions an address
 * @address: any number; nothing is dereferenced
 *
 * Context: any, NMI included, with preemption off. Cheap once it is known.
 */
void braid_symbol_note(unsigned long address);

/** braid_symbol_start - begin with an empty table; all events are off. May sleep. 0 or -ENOMEM */
int braid_symbol_start(struct braid_guest_region *region);

/** braid_symbol_stop - forget all notes; all events are off and no flush runs. May sleep */
void braid_symbol_stop(void);

/**
 * braid_symbol_flush - write the names of new addresses to the region
 *
 * Context: may sleep; callers serialize.
 */
void braid_symbol_flush(void);

#endif /* BRAID_CORE_SYMBOL_H */
