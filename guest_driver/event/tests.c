// SPDX-License-Identifier: GPL-2.0
/* Keeps the tests of events. */
#include <linux/slab.h>

#include "guest_driver/event/filter.h"
#include "guest_driver/event/tests.h"

#define MOST_TESTS	(4 * BRAID_TRIGGERS)	/* of an event: each takes time in any context */

/* Return: how many tests an event has; MOST_TESTS + 1: this one, too. */
static u32 braid_tests_count(const struct braid_event *ev,
			     const struct braid_filter_program *program,
			     const struct braid_trigger *trigger)
{
	const struct braid_trigger_test *test;
	u32 nr = 0;

	for (test = ev->tests; test; test = test->next, nr++)
		if (test->trigger == trigger->index && test->role == trigger->role &&
		    !memcmp(&test->program, program, sizeof(*program)))
			return MOST_TESTS + 1;
	return nr;
}

int braid_tests_add(struct braid_event *ev, const struct braid_filter_program *program,
		    const struct braid_trigger *trigger)
{
	struct braid_trigger_test *test;
	u32 nr;

	if (!ev->ops->filters)
		return -EOPNOTSUPP;
	nr = braid_tests_count(ev, program, trigger);
	if (nr >= MOST_TESTS)
		return nr == MOST_TESTS ? -ENOSPC : 0;
	test = kzalloc(sizeof(*test), GFP_KERNEL);
	if (!test)
		return -ENOMEM;
	test->trigger = trigger->index;
	test->role = trigger->role;
	test->program = *program;
	test->next = ev->tests;
	smp_store_release(&ev->tests, test);
	braid_event_divert(ev);
	return 0;
}

struct braid_trigger_test *braid_tests_take(struct braid_event *ev,
					    struct braid_trigger_test *gone)
{
	struct braid_trigger_test *test = ev->tests;

	WRITE_ONCE(ev->tests, NULL);
	braid_event_divert(ev);
	for (; test; test = test->next) {
		test->gone = gone;
		gone = test;
	}
	return gone;
}

void braid_tests_free(struct braid_trigger_test *test)
{
	struct braid_trigger_test *next;

	for (; test; test = next) {
		next = test->gone;
		kfree(test);
	}
}
