/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the suites: sets the driver's rooms up for one case, with buffers that end with it, and
 * checks.
 */
#ifndef BRAID_TESTS_KUNIT_ROOMS_H
#define BRAID_TESTS_KUNIT_ROOMS_H

#include <kunit/test.h>

#include "guest_driver/event/output.h"
#include "tests/kunit/fake_transport.h"

#define BRAID_TEST_BYTES	(4u << 20)	/* of shared memory */
#define BRAID_FAKE_TEXTS	"0xffffffff82000000 : \"a constant text\"\n"

extern bool braid_fake_looks_up;	/* braid_export_settle() returns false */

/**
 * braid_rooms_up - initialize the driver as its main.c does, with the fake transport. 0 or -errno
 */
int braid_rooms_up(void);

/** braid_rooms_down - the reverse */
void braid_rooms_down(void);

/**
 * braid_case_init - init of struct kunit_suite: rooms up, memory plugged, this thread on CPU 0
 * @test: the case
 */
int braid_case_init(struct kunit *test);

/** braid_case_init_unplugged - the same without memory */
int braid_case_init_unplugged(struct kunit *test);

/** braid_case_exit - free what the case left, rooms down; a case may end at any point */
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
 * braid_case_register - register and enable an event "kunit:@name"
 * @test: the case
 * @buffer: of the event, or NULL
 * @name: of the event
 * @outputs: its outputs, or NULL
 *
 * Return: its id. Freeing its buffer or braid_unregister_event() removes it.
 */
u16 braid_case_register(struct kunit *test, struct braid_buffer *buffer, const char *name,
			const struct braid_outputs *outputs);

/** braid_case_turn - enable or disable an event for the guest's user; must succeed */
void braid_case_turn(struct kunit *test, struct braid_buffer *buffer, u16 id, bool on);

/** braid_case_send - send a command for events of "kunit", as the host does. Return: its number */
u32 braid_case_send(u32 code, u64 arg0, const char *event);

/** braid_case_answer - wait for a command's answer. Return: the result in it */
int braid_case_answer(struct kunit *test, u32 seq, u32 *matched);

/** braid_case_command - send a command, and wait for its answer. Return: the result in it */
int braid_case_command(struct kunit *test, u32 code, u64 arg0, const char *event, u32 *matched);

/**
 * braid_case_drain - consume all events of CPU 0's ring; returns their number, and in @lost those
 * lost between
 */
u64 braid_case_drain(struct kunit *test, struct braid_buffer *buffer, u64 *lost);

/**
 * braid_case_print - record an event, and print it
 * @test: the case
 * @id: of an enabled event of the buffer "trace"
 * @bytes: of @payload
 * @payload: recorded
 * @kind: which output
 *
 * Return: the text, NUL-terminated, valid until the next call.
 */
const char *braid_case_print(struct kunit *test, u16 id, u32 bytes, const void *payload,
			     enum braid_output kind);

#endif /* BRAID_TESTS_KUNIT_ROOMS_H */
