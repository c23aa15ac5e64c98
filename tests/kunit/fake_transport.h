/* SPDX-License-Identifier: GPL-2.0 */
/* A transport for tests: its "shared memory" is the kernel's own, so that a test can play the host. */
#ifndef BRAID_TESTS_KUNIT_FAKE_TRANSPORT_H
#define BRAID_TESTS_KUNIT_FAKE_TRANSPORT_H

#include "guest_driver/transport/transport.h"

extern const struct braid_transport_ops braid_fake_ops;

/**
 * braid_fake_make - make memory, as a host does before a guest sees it
 * @bytes: of it, zeroed
 *
 * Return: 0 or -ENOMEM.
 */
int braid_fake_make(u64 bytes);

/** braid_fake_disinvite - the memory is as a host's that has not marked it, until the next make */
void braid_fake_disinvite(void);

/** braid_fake_free - the memory is gone, unplugged first if need be */
void braid_fake_free(void);

/** braid_fake_plug - deliver the memory to the client. Return: what the client said */
int braid_fake_plug(void);

/** braid_fake_unplug - take it away from the client; what is in it stays */
void braid_fake_unplug(void);

/** braid_fake_memory - the memory, as its host sees it */
void *braid_fake_memory(void);

/**
 * braid_fake_rung - how often the host's doorbell was rung
 * @value: what it was rung with the last time
 */
int braid_fake_rung(u32 *value);

/** braid_fake_look - ring the guest's doorbell, in a hard interrupt or anywhere */
void braid_fake_look(void);

#endif /* BRAID_TESTS_KUNIT_FAKE_TRANSPORT_H */
