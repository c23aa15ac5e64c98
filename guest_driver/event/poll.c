// SPDX-License-Identifier: GPL-2.0
/* Looks at the host's wishes from a thread: nothing on the data path waits for them. */
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/sched.h>

#include "guest_driver/clock/exchange.h"
#include "guest_driver/core/reader.h"
#include "guest_driver/core/symbol.h"
#include "guest_driver/event/mailbox.h"
#include "guest_driver/event/poll.h"

static struct task_struct *thread;
static void (*more)(void);

static int poll_loop(void *arg)
{
	struct braid_guest_region *region = arg;

	/* A busy guest must not keep the clocks apart; a turn takes microseconds, a burst a few ms. */
	sched_set_fifo_low(current);
	while (!kthread_should_stop()) {
		bool active = braid_mailbox_poll(region);

		if (braid_reader_poll())
			active = true;
		braid_exchange_poll(region);
		braid_symbol_flush();
		more();
		set_current_state(TASK_INTERRUPTIBLE);
		if (!kthread_should_stop())
			schedule_timeout(msecs_to_jiffies(active ? BRAID_POLL_ACTIVE_MS :
							  BRAID_POLL_MS));
		__set_current_state(TASK_RUNNING);
	}
	braid_symbol_flush();
	return 0;
}

int braid_poll_start(struct braid_guest_region *region, void (*each_turn)(void))
{
	more = each_turn;
	braid_exchange_start(region);
	thread = kthread_run(poll_loop, region, "tracebraid");
	if (IS_ERR(thread))
		braid_exchange_stop();
	return PTR_ERR_OR_ZERO(thread);
}

void braid_poll_stop(void)
{
	kthread_stop(thread);
	thread = NULL;
	braid_exchange_stop();
}
