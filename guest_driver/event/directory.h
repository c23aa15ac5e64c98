/* SPDX-License-Identifier: GPL-2.0 */
/* The directory of events in the region, below the registry and sub-events. */
#ifndef BRAID_EVENT_DIRECTORY_H
#define BRAID_EVENT_DIRECTORY_H

#include <linux/idr.h>

#include "guest_driver/event/event.h"

/* The events of one buffer. */
struct braid_event_space {
	struct list_head events;
	struct idr ids;
};

/* All below must hold braid_registry_lock(). */

/** braid_directory_takes - whether a buffer's events are listed now: it is in an attached region */
bool braid_directory_takes(const struct braid_buffer *buffer);

/**
 * braid_directory_list - list an event, in its former entry if it had one
 * @ev: its buffer is in the region
 *
 * Return: 0, -ENOMEM, -ENOSPC.
 */
int braid_directory_list(struct braid_event *ev);

/** braid_directory_set_flags - publish ev->flags */
void braid_directory_set_flags(struct braid_event *ev);

/** braid_directory_remove - note that the event of an entry is gone: it may return */
void braid_directory_remove(const struct braid_event *ev);

/**
 * braid_directory_former_id - the id that the same event had before
 *
 * A capture's records with that id are the same event's. Return: the id, or 0.
 */
u16 braid_directory_former_id(const struct braid_event *ev);

/** braid_directory_attach - a region is attached: its directory is empty */
void braid_directory_attach(struct braid_guest_region *region);

/** braid_directory_detach - the region is detached */
void braid_directory_detach(void);

#endif /* BRAID_EVENT_DIRECTORY_H */
