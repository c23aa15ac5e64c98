// SPDX-License-Identifier: GPL-2.0
/* Holds events while they are printed. */
#include <linux/preempt.h>
#include <linux/srcu.h>

#include "guest_driver/event/output.h"

/* Printing may sleep: removal of an event or its functions waits for this. */
DEFINE_STATIC_SRCU(printing);

int braid_output_lock(void) __acquires(&printing)
{
	return srcu_read_lock(&printing);
}

void braid_output_unlock(int index) __releases(&printing)
{
	srcu_read_unlock(&printing, index);
}

void braid_output_synchronize(void)
{
	synchronize_srcu(&printing);
}

struct braid_event *braid_output_event(const struct braid_item *item)
{
	const struct braid_record *record = item->payload;
	struct braid_event *ev;

	if (item->payload_bytes < sizeof(*record) || item->buffer->flags & BRAID_BUFFER_RAW)
		return NULL;
	preempt_disable();	/* for the tree's nodes; the event lives longer */
	ev = braid_event_find(item->buffer, record->common_type);
	preempt_enable();
	return ev;
}
