/* SPDX-License-Identifier: GPL-2.0 */
/* A transport for tests: its "shared memory" is kernel memory, so a test can act as the host. */
#ifndef BRAID_TESTS_KUNIT_FAKE_TRANSPORT_H
#define BRAID_TESTS_KUNIT_FAKE_TRANSPORT_H

#include "guest_driver/transport/transport.h"

extern const struct braid_transport_ops braid_fake_ops;

/**
 * braid_fake_make - allocate memory, as a host does before a guest sees it
 * @bytes: of it, zeroed
 *
 * Return: 0 or -ENOMEM.
 */
int braid_fake_make(u64 bytes);

/** braid_fake_unmark - remove the host's mark from the memory until the next make */
void braid_fake_unmark(void);

/** braid_fake_free - free the memory; unplugs it first if necessary */
void braid_fake_free(void);

/** braid_fake_plug - deliver the memory to the client. Return: the client's result */
int braid_fake_plug(void);

/** braid_fake_unplug - take the memory from the client; its contents stay */
void braid_fake_unplug(void);

/** braid_fake_memory - the memory as the host sees it */
void *braid_fake_memory(void);

/**
 * braid_fake_rung - how often the host's doorbell was rung
 * @value: set to the value of the last ring
 */
int braid_fake_rung(u32 *value);

/** braid_fake_ring - ring the guest's doorbell; in any context, hard interrupts included */
void braid_fake_ring(void);

#endif /* BRAID_TESTS_KUNIT_FAKE_TRANSPORT_H */
