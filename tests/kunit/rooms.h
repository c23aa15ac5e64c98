/* SPDX-License-Identifier: GPL-2.0 */
/* What suites share: the driver's rooms brought up for one case, buffers that go with it, and checks. */
#ifndef BRAID_TESTS_KUNIT_ROOMS_H
#define BRAID_TESTS_KUNIT_ROOMS_H

#include <kunit/test.h>

#include "guest_driver/event/output.h"
#include "tests/kunit/fake_transport.h"

#define BRAID_TEST_BYTES	(4u << 20)	/* of shared memory */

/** braid_rooms_up - bring the driver up as its main.c does, with the fake transport. 0 or -errno */
int braid_rooms_up(void);

/** braid_rooms_down - the reverse */
void braid_rooms_down(void);

/**
 * braid_case_init - for struct kunit_suite's init: rooms up, memory plugged, this thread on CPU 0
 * @test: the case
 */
int braid_case_init(struct kunit *test);

/** braid_case_init_unplugged - the same without memory */
int braid_case_init_unplugged(struct kunit *test);

/** braid_case_exit - free what the case left, rooms down: a case may end anywhere */
void braid_case_exit(struct kunit *test);

/**
 * braid_case_alloc - braid_buffer_alloc() that must succeed; freed with the case
 * @test: the case
 * @name: as there
 * @size: as there
 * @flags: as there
 * @events_of: as there
 */
struct braid_buffer *braid_case_alloc(struct kunit *test, const char *name, u64 size, u32 flags,
				      struct braid_buffer *events_of);

/** braid_case_free - braid_buffer_free() that must succeed, of such a buffer */
void braid_case_free(struct kunit *test, struct braid_buffer *buffer);

/**
 * braid_case_register - register an event "kunit:@name" that is on
 * @test: the case
 * @buffer: of the event, or NULL
 * @name: of the event
 * @outputs: its outputs, or NULL
 *
 * Return: its id. It goes with its buffer, or by braid_unregister_event().
 */
u16 braid_case_register(struct kunit *test, struct braid_buffer *buffer, const char *name,
			const struct braid_outputs *outputs);

/** braid_case_turn - turn an event on or off for the guest's user; must succeed */
void braid_case_turn(struct kunit *test, struct braid_buffer *buffer, u16 id, bool on);

/** braid_case_drain - consume all that CPU 0's ring holds; events, and in @lost those lost between */
u64 braid_case_drain(struct kunit *test, struct braid_buffer *buffer, u64 *lost);

/**
 * braid_case_print - record an event, and print it
 * @test: the case
 * @id: of an event of the buffer "trace" that is on
 * @bytes: of @payload
 * @payload: recorded
 * @kind: which output
 *
 * Return: the text, with a NUL behind it, good until the next call.
 */
const char *braid_case_print(struct kunit *test, u16 id, u32 bytes, const void *payload,
			     enum braid_output kind);

#endif /* BRAID_TESTS_KUNIT_ROOMS_H */
