/* SPDX-License-Identifier: GPL-2.0 */
/* What happens when shared memory comes and goes. */
#ifndef BRAID_GUEST_ATTACH_H
#define BRAID_GUEST_ATTACH_H

#include "guest_driver/transport/transport.h"

extern const struct braid_transport_client braid_attach_client;

#endif /* BRAID_GUEST_ATTACH_H */
