/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracebraid fleet: its requests. */
#ifndef BRAID_CLI_FLEET_COMMAND_H
#define BRAID_CLI_FLEET_COMMAND_H

#include "host_agent/fleet/client.h"

struct braid_fleet_command {
	const char *hosts, *on, *since, *server, *credentials, *ca, *inbox, *file;
	const char *space;	/* store: its size */
	double timeout, age, every;
	u64 top, rows, seconds, for_s, count;
	bool json, csv, all, folded;
	size_t watching;	/* hosts that wait for --on */
	bool fired;		/* and one has seen it */
	char since_s[32];	/* "-600.000"; "": all */
	struct braid_fleet_conf *conf;
	struct braid_fleet_client *client;
	bool lists;		/* hosts that do not answer are rows of the output ... */
	size_t lacks;		/* ... and so many */
};

extern volatile sig_atomic_t braid_fleet_stopped;	/* by a signal */

/** braid_fleet_confine - of a request that makes no files */
int braid_fleet_confine(void);

/** braid_fleet_command_open - connect, find the hosts. Return: 0, or -errno with braid_fail() */
int braid_fleet_command_open(const struct braid_fleet_command *f, int (*confine)(void));

/** braid_fleet_command_lacks - print hosts that have failed. Return: their number */
size_t braid_fleet_command_lacks(const struct braid_fleet_client *c);

/* Each prints its result. Return: 0, or -errno with braid_fail(). */
int braid_fleet_list(struct braid_fleet_command *f);
int braid_fleet_sql(struct braid_fleet_command *f, const char *statement);
int braid_fleet_snapshot(struct braid_fleet_command *f);
int braid_fleet_record(struct braid_fleet_command *f);
int braid_fleet_store(struct braid_fleet_command *f);
int braid_fleet_top(struct braid_fleet_command *f);
int braid_fleet_fetch(struct braid_fleet_command *f, const char *directory);
int braid_fleet_folded(struct braid_fleet_command *f, const char *analysis);
int braid_fleet_analyze(struct braid_fleet_command *f, const char *analysis);

#endif /* BRAID_CLI_FLEET_COMMAND_H */
