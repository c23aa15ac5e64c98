/* SPDX-License-Identifier: GPL-2.0 */
/* The tests that triggers have of an event. */
#ifndef BRAID_EVENT_TESTS_H
#define BRAID_EVENT_TESTS_H

#include "guest_driver/event/event.h"
#include "shared/filter.h"

struct braid_trigger_test {
	struct braid_trigger_test *next;	/* of the event */
	struct braid_trigger_test *gone;	/* of those to be freed */
	u32 trigger;
	u32 role;
	struct braid_filter_program program;
};

/**
 * braid_tests_add - add a test to an event, unless it has it
 * @ev: the event
 * @program: checked
 * @trigger: likewise
 *
 * Must hold braid_registry_lock(). Return: 0, -EOPNOTSUPP or -ENOMEM.
 */
int braid_tests_add(struct braid_event *ev, const struct braid_filter_program *program,
		    const struct braid_trigger *trigger);

/**
 * braid_tests_take - take an event's tests from it
 * @ev: the event
 * @gone: what was taken from others; NULL: nothing
 *
 * Must hold braid_registry_lock(). Return: all of them, for braid_tests_free().
 */
struct braid_trigger_test *braid_tests_take(struct braid_event *ev,
					    struct braid_trigger_test *gone);

/** braid_tests_free - free what was taken; the writers have left since */
void braid_tests_free(struct braid_trigger_test *gone);

#endif /* BRAID_EVENT_TESTS_H */
