/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that announces this host to the fleet, and answers requests.
 *
 * Invariants:
 * - It opens no file of this host but what names are resolved by, starts no process, and does not
 *   interpret what a guest has written: a question is passed to the service, and what its process
 *   writes is passed on.
 * - Each request is bounded in time, rows and batches under way; so is their number.
 * - A batch is sent once. One that was lost is missed by its number, and never replaced.
 */
#ifndef BRAID_FLEET_AGENT_H
#define BRAID_FLEET_AGENT_H

#include "host_agent/fleet/link.h"

struct braid_fleet_agent_options {
	const struct braid_fleet_conf *conf;
	int fd;			/* to the service: ask.h. Its end ends this process */
	int (*confine)(void);	/* 0 or -errno with braid_fail() */
};

/**
 * braid_fleet_agent_run - until the service ends
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_fleet_agent_run(const struct braid_fleet_agent_options *o);

#endif /* BRAID_FLEET_AGENT_H */
