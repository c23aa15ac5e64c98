// SPDX-License-Identifier: GPL-2.0
/* Handles the host's requests in a thread: the data path never waits for them. */
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

#include "guest_driver/clock/exchange.h"
#include "guest_driver/core/buffer.h"
#include "guest_driver/core/reader.h"
#include "guest_driver/core/stack.h"
#include "guest_driver/core/symbol.h"
#include "guest_driver/event/mailbox.h"
#include "guest_driver/event/online.h"
#include "guest_driver/event/poll.h"

static DEFINE_SPINLOCK(thread_lock);	/* a transport's interrupts are independent of the thread's
					   lifetime */
static struct task_struct *thread;
static bool poll_wanted;
static void (*more)(void);
static bool (*settle_events)(bool first);

/*
 * While an agent is there, a busy guest must not delay its clock samples; a turn takes microseconds,
 * a burst 30 ms at most. Without one nothing is urgent.
 */
static void braid_poll_set_urgent(bool urgent)
{
	if (urgent == (current->policy == SCHED_FIFO))
		return;
	if (urgent)
		sched_set_fifo_low(current);
	else
		sched_set_normal(current, 0);
}

/* Whether the tables have all that was recorded before the first call for a command. */
static bool braid_poll_settle(bool first)
{
	braid_symbol_flush();
	braid_stack_flush();
	return settle_events(first);
}

static int braid_poll_loop(void *arg)
{
	struct braid_guest_region *region = arg;

	while (!kthread_should_stop()) {
		bool active;

		WRITE_ONCE(poll_wanted, false);
		braid_buffers_publish_off();
		active = braid_mailbox_poll(region, braid_poll_settle);
		braid_poll_set_urgent(active);
		braid_online_poll(braid_mailbox_tidy(active));
		if (braid_reader_poll())
			active = true;
		braid_exchange_poll(region);
		braid_symbol_flush();
		braid_stack_flush();
		more();
		set_current_state(TASK_INTERRUPTIBLE);
		if (!kthread_should_stop() && !READ_ONCE(poll_wanted))
			schedule_timeout(msecs_to_jiffies(active ? BRAID_POLL_ACTIVE_MS :
							  BRAID_POLL_MS));
		__set_current_state(TASK_RUNNING);
	}
	braid_symbol_flush();
	braid_stack_flush();
	return 0;
}

static void braid_poll_set_thread(struct task_struct *task)
{
	spin_lock_irq(&thread_lock);
	thread = task;
	spin_unlock_irq(&thread_lock);
}

void braid_poll_now(void)
{
	unsigned long flags;

	spin_lock_irqsave(&thread_lock, flags);
	WRITE_ONCE(poll_wanted, true);
	if (thread)
		wake_up_process(thread);
	spin_unlock_irqrestore(&thread_lock, flags);
}

int braid_poll_start(struct braid_guest_region *region, void (*each_turn)(void),
		     bool (*settle)(bool first))
{
	struct task_struct *task;

	more = each_turn;
	settle_events = settle;
	braid_exchange_start(region);
	braid_mailbox_open(region);
	task = kthread_run(braid_poll_loop, region, "tracebraid");
	if (IS_ERR(task)) {
		braid_mailbox_close();
		braid_exchange_stop();
		return PTR_ERR(task);
	}
	braid_poll_set_thread(task);
	return 0;
}

void braid_poll_stop(void)
{
	struct task_struct *task = thread;

	braid_poll_set_thread(NULL);
	kthread_stop(task);
	braid_mailbox_close();	/* after the thread, which would refuse the host's last command */
	braid_exchange_stop();
}
