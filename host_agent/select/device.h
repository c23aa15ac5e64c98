/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The driver of this guest: its tables, and an endpoint that takes commands. */
#ifndef BRAID_SELECT_DEVICE_H
#define BRAID_SELECT_DEVICE_H

#include "host_agent/transport/endpoint.h"

#define BRAID_SELECT_DEVICE	"/dev/tracebraid-select"

struct braid_select_device {
	struct braid_endpoint endpoint;	/* its ring() sends the command in the mailbox */
	struct braid_mapping *mapping;	/* a copy of the region, up to its rings */
	struct braid_superblock sb;
	int fd;
	int error;			/* of the last command that was sent: 0 or -errno */
};

/**
 * braid_select_open - open it, and read the region's tables
 * @d: filled on success
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_select_open(struct braid_select_device *d);

/** braid_select_close - close it; @d may be all zeros */
void braid_select_close(struct braid_select_device *d);

/** braid_select_renew - read the tables again. Return: 0, or -errno with braid_fail() */
int braid_select_renew(struct braid_select_device *d);

#endif /* BRAID_SELECT_DEVICE_H */
