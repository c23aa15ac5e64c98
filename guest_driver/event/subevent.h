/* SPDX-License-Identifier: GPL-2.0 */
/* Sub-events: an event's records distinguished by a number in them. */
#ifndef BRAID_EVENT_SUBEVENT_H
#define BRAID_EVENT_SUBEVENT_H

#include "guest_driver/event/event.h"

/**
 * braid_subevents_add - split an event into sub-events
 * @ev: registered, owned by the caller
 * @table: copied; its pointers must stay valid until braid_subevents_remove()
 *
 * Context: may sleep. Return: as braid_register_subevents(), except -ENOENT.
 */
int braid_subevents_add(struct braid_event *ev, const struct braid_subevent_table *table);

/**
 * braid_subevents_remove - remove an event's sub-events
 * @ev: the event, with or without sub-events
 *
 * No print function or finder of the table runs on return.
 * Context: may sleep. Return: 0 or -ENOENT (there were none).
 */
int braid_subevents_remove(struct braid_event *ev);

/**
 * braid_subevents_relist - list an event's sub-events after it in the directory
 * @ev: just listed there
 *
 * Must hold braid_registry_lock().
 */
void braid_subevents_relist(struct braid_event *ev);

/**
 * braid_subevent_of - the sub-event that a record is
 * @ev: its event
 * @item: the record
 *
 * Must hold braid_output_lock(), until it is done with. Return: it, or NULL.
 */
const struct braid_subevent *braid_subevent_of(const struct braid_event *ev,
					       const struct braid_item *item);

#endif /* BRAID_EVENT_SUBEVENT_H */
