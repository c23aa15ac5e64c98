/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fetches files of snapshots from hosts of the fleet, in chunks that are numbered and verified. */
#ifndef BRAID_FLEET_PULL_H
#define BRAID_FLEET_PULL_H

#include "host_agent/fleet/client.h"

#define BRAID_FLEET_FILE	256u	/* bytes of "SNAPSHOT/FILE" */

struct braid_fleet_file {
	size_t host;			/* its number */
	char name[BRAID_FLEET_FILE];
	u64 bytes;
	u64 stored;			/* of them */
	u32 tries;
	bool complete;
};

struct braid_fleet_pull {
	struct braid_fleet_client *client;
	int folder;			/* DIRECTORY: HOST/SNAPSHOT/FILE is made there */
	struct braid_fleet_file *files;
	size_t nr, capacity;
	bool all;			/* else of each host the last snapshot */
	u32 resumed;			/* transfers that were continued */
};

/** braid_fleet_pull_list - ask which files there are. Return: 0, or -errno with braid_fail() */
int braid_fleet_pull_list(struct braid_fleet_pull *p);

/**
 * braid_fleet_pull_files - fetch them
 *
 * A transfer that breaks is continued after the last byte that was stored. A file that is there
 * has the size and the checksum that its host says; others are left as NAME.part.
 *
 * Return: 0: see the files and hosts; or -errno with braid_fail().
 */
int braid_fleet_pull_files(struct braid_fleet_pull *p);

/** braid_fleet_pull_free - free the list */
void braid_fleet_pull_free(struct braid_fleet_pull *p);

#endif /* BRAID_FLEET_PULL_H */
