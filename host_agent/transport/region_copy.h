/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A private copy of a region that its guest, and any reader, may be using. */
#ifndef BRAID_TRANSPORT_REGION_COPY_H
#define BRAID_TRANSPORT_REGION_COPY_H

#include "host_agent/transport/transport.h"

/**
 * braid_region_copy - copy a region without changing it
 * @out: set on success: private, as the region of a guest that stopped
 * @from: the region; readable is enough
 * @running: set on success: the guest polled its mailbox after the copy was taken
 *
 * Events that are unread and committed at that time are in the copy, those that are overwritten
 * meanwhile are missing, and count as lost. Sleeps for at most half a second.
 *
 * Return: 0; -EAGAIN with braid_fail(): the guest or a reader changed the region during all
 * attempts; or as braid_mapping_probe().
 */
int braid_region_copy(struct braid_mapping **out, const struct braid_mapping *from, bool *running);

#endif /* BRAID_TRANSPORT_REGION_COPY_H */
