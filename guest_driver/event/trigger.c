// SPDX-License-Identifier: GPL-2.0
/* Tests records, and freezes the rings at one that the host waits for. */
#include <linux/irqflags.h>
#include <linux/mutex.h>

#include "guest_driver/event/duration.h"
#include "guest_driver/event/filter.h"
#include "guest_driver/event/tests.h"
#include "guest_driver/event/trigger.h"
#include "shared/asked.h"
#include "shared/clock.h"

#define IDLE_KEY	(1ULL << 32)	/* and the CPU: each CPU's idle task has the number 0 */

static struct trigger {
	struct braid_durations *durations;	/* with the first BEGIN or END */
	u64 after, more_than;
	atomic64_t met, fired, unjudged, full, unpaired;
	/* When it fired last: written by the context that took the state from ARMED. */
	u64 counter, steps;
	u32 vcpu;
	s32 pid;
} triggers[BRAID_TRIGGERS];

static atomic_t state = ATOMIC_INIT(BRAID_TRIGGER_NONE);
static u32 last;			/* that fired; as the words above */
static bool wants_poll;			/* there is something to publish */
static DEFINE_MUTEX(state_lock);	/* those who may sleep and change the state */

/* The event ------------------------------------------------------------------------------ */

struct trigger_record {
	struct braid_record head;
	u32 trigger;
	u32 pad;
	u64 duration_ns;
};

static int braid_trigger_format(const struct braid_event *ev, u16 id, char *text, size_t bytes)
{
	int len = snprintf(text, bytes,
			   "name: %s\nID: %u\nformat:\n" BRAID_COMMON_FIELDS
			   "\tfield:unsigned int trigger;\toffset:8;\tsize:4;\tsigned:0;\n"
			   "\tfield:unsigned long duration_ns;\toffset:16;\tsize:8;\tsigned:0;\n"
			   "\nprint fmt: \"trigger=%%u duration_ns=%%lu\", REC->trigger, REC->duration_ns\n",
			   ev->name, id);

	return len < bytes ? len : -ENOSPC;
}

static const struct braid_event_ops trigger_ops = {
	.synchronize = braid_synchronize_writers,
	.format = braid_trigger_format,
};

static struct braid_event event;

static notrace void braid_trigger_write(u32 index, u64 steps)
{
	const struct braid_clock_map map = {
		.mult = braid_clock_nominal_mult(braid_counter_hz()),
	};
	struct trigger_record *record;
	struct braid_slot slot;

	if (!READ_ONCE(event.listed))	/* the directory is full: the host has the words alone */
		return;
	record = braid_record_reserve(event.buffer, event.id, sizeof(*record), preempt_count(),
				      false, &slot);
	if (!record)
		return;
	record->trigger = index;
	record->pad = 0;
	record->duration_ns = braid_clock_to_ns(&map, steps);
	braid_record_commit(&slot);
}

/* Firing --------------------------------------------------------------------------------- */

static notrace void braid_trigger_fire(u32 index, u64 steps)
{
	struct trigger *t = &triggers[index];
	unsigned long flags;

	atomic64_inc(&t->met);
	if (atomic_cmpxchg(&state, BRAID_TRIGGER_ARMED, BRAID_TRIGGER_COUNTING) !=
	    BRAID_TRIGGER_ARMED)
		return;
	raw_local_irq_save(flags);	/* interrupts would write what comes after */
	atomic64_inc(&t->fired);
	WRITE_ONCE(t->counter, braid_counter());
	WRITE_ONCE(t->steps, steps);
	WRITE_ONCE(t->vcpu, raw_smp_processor_id());
	WRITE_ONCE(t->pid, current->pid);
	WRITE_ONCE(last, index);
	braid_trigger_write(index, steps);
	braid_buffers_freeze(READ_ONCE(t->after));
	raw_local_irq_restore(flags);
	WRITE_ONCE(wants_poll, true);
}

static u64 braid_trigger_key(void)
{
	return current->pid ?: IDLE_KEY | raw_smp_processor_id();
}

static notrace void braid_trigger_pair(const struct braid_trigger_test *test)
{
	struct trigger *t = &triggers[test->trigger];
	u64 now = braid_counter(), began;

	if (test->role == BRAID_TRIGGER_BEGIN) {
		if (!braid_duration_begin(t->durations, braid_trigger_key(), now))
			atomic64_inc(&t->full);
		return;
	}
	began = braid_duration_end(t->durations, braid_trigger_key());
	if (!began)
		atomic64_inc(&t->unpaired);
	else if ((s64)(now - began) > 0 && now - began > READ_ONCE(t->more_than))
		braid_trigger_fire(test->trigger, now - began);
}

notrace void braid_trigger_test(const struct braid_trigger_test *test,
				const struct braid_filter_record *record)
{
	enum braid_filter_verdict verdict;

	for (; test; test = READ_ONCE(test->next)) {
		verdict = test->program.nr_insns ? braid_filter_run(&test->program, record) :
						   BRAID_FILTER_PASS;
		if (verdict == BRAID_FILTER_UNJUDGED)
			atomic64_inc(&triggers[test->trigger].unjudged);
		if (verdict != BRAID_FILTER_PASS)
			continue;
		if (test->role == BRAID_TRIGGER_AT)
			braid_trigger_fire(test->trigger, 0);
		else
			braid_trigger_pair(test);
	}
}

notrace void braid_trigger_pass(const struct braid_trigger_test *test)
{
	for (; test; test = READ_ONCE(test->next))
		atomic64_inc(&triggers[test->trigger].unjudged);
}

/* Setting -------------------------------------------------------------------------------- */

/* Must hold state_lock. What it counted before is void. */
static int braid_trigger_prepare(const struct braid_trigger *trigger)
{
	struct trigger *t = &triggers[braid_index_nospec(trigger->index, BRAID_TRIGGERS)];

	if (atomic_read(&state) == BRAID_TRIGGER_NONE)	/* no test is left */
		memset(triggers, 0, sizeof(triggers));
	if (trigger->role != BRAID_TRIGGER_AT && !t->durations) {
		t->durations = braid_durations_make();
		if (!t->durations)
			return -ENOMEM;
	}
	WRITE_ONCE(t->after, trigger->after);
	WRITE_ONCE(t->more_than, trigger->more_than);
	return 0;
}

/* Ends what a trigger that has fired does; none fires meanwhile. Must hold state_lock. */
static void braid_trigger_settle(u32 next)
{
	int was = atomic_read(&state);

	while (was == BRAID_TRIGGER_ARMED &&
	       !atomic_try_cmpxchg(&state, &was, BRAID_TRIGGER_HELD))
		;
	braid_synchronize_writers();	/* who fired has frozen the rings, or has them count down */
	braid_buffers_thaw();
	atomic_set(&state, next);
	WRITE_ONCE(wants_poll, true);
}

/* The tests of all events, also of buffers that have lost their rings. */
static struct braid_trigger_test *braid_trigger_take_tests(void)
{
	struct braid_trigger_test *gone = NULL;
	struct braid_buffer *buffer = NULL;
	struct braid_event *ev;

	braid_buffers_lock();
	braid_registry_lock();
	while ((buffer = braid_buffer_next(buffer))) {
		ev = NULL;
		while (buffer->events && (ev = braid_registry_next(buffer, ev)))
			gone = braid_tests_take(ev, gone);
	}
	braid_registry_unlock();
	braid_buffers_unlock();
	return gone;
}

/* No test and no durations are left. Must hold state_lock. */
static void braid_trigger_clear_locked(void)
{
	struct braid_trigger_test *gone = braid_trigger_take_tests();
	u32 k;

	braid_trigger_settle(BRAID_TRIGGER_NONE);
	braid_tests_free(gone);
	for (k = 0; k < BRAID_TRIGGERS; k++) {
		braid_durations_free(triggers[k].durations);
		triggers[k].durations = NULL;
	}
}

int braid_trigger_set_matching(u64 index, const char *system, const char *name,
			       const struct braid_filter_program *program,
			       const struct braid_trigger *trigger, u32 *matched)
{
	int err, first = braid_trigger_check(program, trigger);
	struct braid_buffer *buffer = NULL;
	struct braid_event *ev = NULL;

	*matched = 0;
	if (first)
		return first;
	mutex_lock(&state_lock);
	first = braid_trigger_prepare(trigger);
	braid_buffers_lock();
	braid_registry_lock();
	if (!first)
		first = braid_filter_make_scratch();
	while (!first && (ev = braid_filter_next(&buffer, ev, index, system, name))) {
		err = braid_tests_add(ev, program, trigger);
		first = first ?: err;
		(*matched)++;
	}
	braid_registry_unlock();
	braid_buffers_unlock();
	if (*matched && !first)
		atomic_cmpxchg(&state, BRAID_TRIGGER_NONE, BRAID_TRIGGER_ARMED);
	else if (atomic_read(&state) == BRAID_TRIGGER_NONE)
		braid_trigger_clear_locked();	/* of those that were set before the error */
	WRITE_ONCE(wants_poll, true);
	mutex_unlock(&state_lock);
	return first;
}

void braid_trigger_resume(bool arm)
{
	mutex_lock(&state_lock);
	if (atomic_read(&state) != BRAID_TRIGGER_NONE)
		braid_trigger_settle(arm ? BRAID_TRIGGER_ARMED : BRAID_TRIGGER_HELD);
	mutex_unlock(&state_lock);
}

void braid_trigger_clear(void)
{
	mutex_lock(&state_lock);
	if (atomic_read(&state) != BRAID_TRIGGER_NONE)
		braid_trigger_clear_locked();
	mutex_unlock(&state_lock);
}

/* For the host --------------------------------------------------------------------------- */

static void braid_trigger_publish_one(struct braid_trigger_count *to, const struct trigger *t)
{
	braid_store(&to->unjudged, atomic64_read(&t->unjudged));
	braid_store(&to->full, atomic64_read(&t->full));
	braid_store(&to->unpaired, atomic64_read(&t->unpaired));
	braid_store(&to->counter, READ_ONCE(t->counter));
	braid_store(&to->vcpu, READ_ONCE(t->vcpu));
	braid_store(&to->pid, READ_ONCE(t->pid));
	braid_store(&to->steps, READ_ONCE(t->steps));
	braid_store(&to->met, atomic64_read(&t->met));
	braid_store(&to->fired, atomic64_read(&t->fired));
}

void braid_trigger_publish(struct braid_mailbox *mailbox)
{
	u32 now = atomic_read(&state), k;

	if (now == BRAID_TRIGGER_NONE && !READ_ONCE(wants_poll))
		return;
	WRITE_ONCE(wants_poll, false);
	if (now == BRAID_TRIGGER_COUNTING && braid_buffers_are_frozen())
		now = BRAID_TRIGGER_FROZEN;
	for (k = 0; k < BRAID_TRIGGERS; k++)
		braid_trigger_publish_one(&mailbox->trigger_counts[k], &triggers[k]);
	braid_store(&mailbox->trigger_last, READ_ONCE(last));
	braid_store_release(&mailbox->trigger_state, now);	/* (T1) */
}

void braid_trigger_poll(struct braid_mailbox *mailbox, bool wanted)
{
	if (!wanted)
		braid_trigger_clear();
	braid_trigger_publish(mailbox);
}

/* ---------------------------------------------------------------------------------------- */

int braid_trigger_init(void)
{
	int id;

	event = (struct braid_event){
		.buffer = braid_trace_buffer(), .system = "tracebraid", .name = "trigger",
		.ops = &trigger_ops,
	};
	id = braid_event_add(&event, 0);
	return id < 0 ? id : 0;
}

void braid_trigger_exit(void)
{
	braid_event_remove_all(&event, 1);
}
