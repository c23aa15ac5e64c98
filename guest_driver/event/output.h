/* SPDX-License-Identifier: GPL-2.0 */
/* Prints events in the guest: by their own functions, or by defaults. */
#ifndef BRAID_EVENT_OUTPUT_H
#define BRAID_EVENT_OUTPUT_H

#include "guest_driver/core/reader.h"
#include "guest_driver/event/event.h"

/* The five outputs of an event, in the order of struct braid_outputs. */
enum braid_output {
	BRAID_OUTPUT_TRACE = 0,
	BRAID_OUTPUT_LATENCY,
	BRAID_OUTPUT_RAW,
	BRAID_OUTPUT_HEX,
	BRAID_OUTPUT_BINARY,
	BRAID_NR_OUTPUTS,
};

/**
 * braid_output_item - print an event
 * @out: extended; text has no newline at its end
 * @item: the event; its payload is a private copy, followed by BRAID_ITEM_PAD zeros
 * @kind: which output
 *
 * Uses the sub-event's function, if the item has one, else its event's, else the default. In a RAW
 * buffer: hex.
 *
 * Context: may sleep.
 */
void braid_output_item(struct seq_file *out, const struct braid_item *item,
		       enum braid_output kind);

/**
 * braid_output_event - the event of an item that is being printed
 * @item: as passed to a print function; or, between braid_output_lock() and _unlock(), any
 *
 * Return: the event, which stays until the print function returned or the unlock; or NULL.
 */
struct braid_event *braid_output_event(const struct braid_item *item);

/** braid_output_lock - keep the events being printed; nests. May sleep, any number at once */
int braid_output_lock(void);

/** braid_output_unlock - with what braid_output_lock() returned */
void braid_output_unlock(int index);

/**
 * braid_output_synchronize - wait for active printers of events found before
 *
 * To remove events or sub-events: first unpublish, then call this, then free.
 * Context: may sleep; not from a print function, nor with a lock that one takes.
 */
void braid_output_synchronize(void);

#endif /* BRAID_EVENT_OUTPUT_H */
