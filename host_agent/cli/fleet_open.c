// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid fleet: what all its requests do first and last. */
#include <stdio.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/fleet_command.h"

volatile sig_atomic_t braid_fleet_stopped;

int braid_fleet_command_open(const struct braid_fleet_command *f, int (*confine)(void))
{
	const struct braid_fleet_client_options o = {
		.conf = f->conf, .hosts = f->hosts, .timeout_ns = f->timeout * 1e9,
		.stop = &braid_fleet_stopped, .confine = confine,
	};

	return braid_fleet_client_open(f->client, &o);
}

int braid_fleet_confine(void)
{
	return braid_cli_confine_fleet(NULL);
}

/* Hosts without a result, a line each. Return: their number */
size_t braid_fleet_command_lacks(const struct braid_fleet_client *c)
{
	size_t k, nr = 0;

	for (k = 0; k < c->nr; k++) {
		if (c->hosts[k].state != BRAID_FLEET_FAILED)
			continue;
		fprintf(stderr, "tracebraid: %s: %s\n", c->hosts[k].name,
			braid_cli_clean(c->hosts[k].why));
		nr++;
	}
	return nr;
}
