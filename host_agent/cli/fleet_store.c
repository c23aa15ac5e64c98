// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid fleet store: makes the store, or says how much is in it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/fleet_command.h"
#include "host_agent/fleet/fetch.h"
#include "host_agent/fleet/store.h"
#include "host_agent/util/error.h"

/* A number of the server's JSON; its keys are in no text of ours. */
static unsigned long long store_number(const char *json, const char *key)
{
	const char *at = strstr(json, key);

	return at ? strtoull(at + strlen(key) + strspn(at + strlen(key), "\": "), NULL, 10) : 0;
}

static void store_print(const char *json)
{
	char used[16], room[16];

	braid_human(used, sizeof(used), store_number(json, "\"bytes\""));
	braid_human(room, sizeof(room), store_number(json, "\"max_bytes\""));
	printf("%llu captures and snapshots, %llu messages, %sB of %sB\n",
	       store_number(json, "\"num_subjects\""), store_number(json, "\"messages\""), used, room);
}

int braid_fleet_store(struct braid_fleet_command *f)
{
	const struct braid_fetch_options o = {
		.conf = f->conf, .confine = braid_fleet_confine, .stop = &braid_fleet_stopped,
	};
	struct braid_text state = { 0 };
	u64 bytes = 0;
	int err = 0;

	if (!*f->conf->server)
		return braid_fail(-EINVAL, "no server of a fleet; give --server, or set 'server' in [fleet] of the configuration");
	if (f->space && (!braid_text_size(f->space, 1, &bytes) || !bytes))
		return braid_fail(-EINVAL, "--space=%s: expected a size such as 500M or 100G", f->space);
	err = braid_fetch_make_store(&o, bytes, f->age, &state);
	if (!err) {
		braid_text_putc(&state, 0);
		if (state.failed)
			err = braid_out_of_memory();
		else if (f->json)
			printf("%s\n", braid_text_plain(state.data, state.bytes - 1) ? state.data : "{}");
		else
			store_print(state.data);
	}
	braid_text_free(&state);
	return err;
}
