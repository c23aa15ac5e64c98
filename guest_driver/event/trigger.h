/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The host's triggers: tests of records that are written. One that is true freezes all rings, at
 * once, in whatever context the record is.
 *
 * - A trigger's tests are in lists of events, which change under the registry's lock; tests are
 *   freed after all writers have left.
 * - Firing takes no lock. What the host is to know of it is published by the poll thread's next
 *   turn: the rings do not change meanwhile.
 * - Nothing is frozen, and no test is left, once the host has disabled all events, or is silent.
 */
#ifndef BRAID_EVENT_TRIGGER_H
#define BRAID_EVENT_TRIGGER_H

#include "guest_driver/event/event.h"
#include "shared/filter.h"

/**
 * braid_trigger_set_matching - add a test to events
 * @buffer: as of braid_filter_set_matching()
 * @system: likewise
 * @name: likewise
 * @program: a private copy, not yet checked; without instructions: true of all records
 * @trigger: likewise
 * @matched: how many matched, set on success and on failure
 *
 * Context: may sleep. Return: 0 or the first error: -EINVAL, -EOPNOTSUPP (as there), -ENOMEM.
 */
int braid_trigger_set_matching(u64 buffer, const char *system, const char *name,
			       const struct braid_filter_program *program,
			       const struct braid_trigger *trigger, u32 *matched);

/** braid_trigger_resume - write the rings again; @arm: triggers may fire again. May sleep */
void braid_trigger_resume(bool arm);

/** braid_trigger_clear - remove all tests, and write the rings again. May sleep */
void braid_trigger_clear(void);

/**
 * braid_trigger_test - test a record that was written, or found no room
 * @tests: of its event
 * @record: what a program sees
 *
 * Context: any, with preemption off.
 */
void braid_trigger_test(const struct braid_trigger_test *tests,
			const struct braid_filter_record *record);

/** braid_trigger_pass - count a record that cannot be tested. Context: any */
void braid_trigger_pass(const struct braid_trigger_test *tests);

/**
 * braid_trigger_poll - tell the host what happened
 * @mailbox: where
 * @wanted: somebody wants the triggers: else all tests are removed
 *
 * Context: may sleep; as the next one, under the lock of commands.
 */
void braid_trigger_poll(struct braid_mailbox *mailbox, bool wanted);

/** braid_trigger_publish - tell it, and remove nothing. Likewise */
void braid_trigger_publish(struct braid_mailbox *mailbox);

/** braid_trigger_init - register the event that says what fired. 0 or -errno */
int braid_trigger_init(void);
void braid_trigger_exit(void);

#endif /* BRAID_EVENT_TRIGGER_H */
