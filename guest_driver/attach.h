/* SPDX-License-Identifier: GPL-2.0 */
/* Handles shared memory that becomes available or is removed. */
#ifndef BRAID_GUEST_ATTACH_H
#define BRAID_GUEST_ATTACH_H

#include "guest_driver/transport/transport.h"

/**
 * braid_attach_init - create the module's own buffers; they get rings when memory is available. 0
 * or -ENOMEM
 */
int braid_attach_init(void);

/** braid_attach_exit - destroy them; no memory is in use */
void braid_attach_exit(void);

extern const struct braid_transport_client braid_attach_client;

#endif /* BRAID_GUEST_ATTACH_H */
