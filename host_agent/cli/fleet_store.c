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

/* A number of the server's JSON; its keys are in no text of ours. Return: false: it has none. */
static bool store_number(const char *json, const char *key, unsigned long long *number)
{
	const char *at = strstr(json, key);

	at = at ? at + strlen(key) + strspn(at + strlen(key), "\": ") : "";
	*number = strtoull(at, NULL, 10);
	return *at >= '0' && *at <= '9';
}

static void store_put_number(const char *json, const char *key, char to[24])
{
	unsigned long long number;

	if (store_number(json, key, &number))
		snprintf(to, 24, "%llu", number);
	else
		strcpy(to, "unknown");
}

static void store_put_bytes(const char *json, const char *key, char to[24])
{
	unsigned long long number;

	strcpy(to, "unknown");
	if (!store_number(json, key, &number))
		return;
	braid_human(to, 16, number);
	strcat(to, "B");
}

static void store_print(const char *json)
{
	char subjects[24], messages[24], used[24], room[24];

	store_put_number(json, "\"messages\"", messages);
	store_put_number(json, "\"num_subjects\"", subjects);
	if (!strcmp(messages, "0"))
		strcpy(subjects, messages);	/* the server leaves that out then */
	store_put_bytes(json, "\"bytes\"", used);
	store_put_bytes(json, "\"max_bytes\"", room);
	printf("%s captures and snapshots, %s messages, %s of %s\n", subjects, messages, used, room);
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
