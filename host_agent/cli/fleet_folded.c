// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid fleet analyze --folded: the stacks of all hosts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/fleet_command.h"
#include "host_agent/util/error.h"

/* "frame;frame NS": the last word is a number. */
static bool folded_is_line(const char *at, size_t bytes)
{
	const char *blank = memrchr(at, ' ', bytes);
	size_t digits = blank ? at + bytes - blank - 1 : 0;

	return digits && blank > at && strspn(blank + 1, "0123456789") >= digits;
}

/* Return: false: a line is not valid. */
static bool folded_print(const struct braid_fleet_event *e)
{
	const char *at = e->message.body, *end = at + e->message.bytes, *feed;
	struct braid_text t = { 0 };
	bool valid = true;

	for (; at < end && valid; at = feed + (feed < end)) {
		feed = memchr(at, '\n', end - at) ?: end;
		valid = folded_is_line(at, feed - at);
		if (!valid)
			break;
		braid_text_printf(&t, "%s;", e->host->name);
		braid_text_safe(&t, at, feed - at);
		braid_text_putc(&t, '\n');
		e->host->rows++;
	}
	if (!t.failed && t.bytes)
		fwrite(t.data, 1, t.bytes, stdout);
	braid_text_free(&t);
	return valid;
}

/* A host without a stack is a line, too: it has answered. */
static int folded_take(struct braid_fleet_command *f, const struct braid_fleet_event *e)
{
	if (!e->packet) {
		if (e->host->state == BRAID_FLEET_DONE && !e->host->rows)
			printf("%s;[no stack] 0\n", e->host->name);
		return 0;
	}
	if (!folded_print(e)) {
		braid_fleet_client_fail(f->client, e->host, "it has sent a stack that is not valid");
		return 0;
	}
	return braid_fleet_client_grant(f->client, e->host);
}

int braid_fleet_folded(struct braid_fleet_command *f, const char *analysis)
{
	char seconds[24];
	const struct braid_fleet_field fields[] = {
		{ "seconds", seconds }, { "since", f->since_s }, { "folded", "1" }, { 0 },
	};
	struct braid_fleet_event e;
	int ret = 1, err;

	if (strcmp(analysis, "profile") && strcmp(analysis, "exits"))
		return braid_fail(-EINVAL, "%s has no stacks; --folded is for profile and exits", analysis);
	if (f->json || f->csv)
		return braid_fail(-EINVAL, "--folded cannot be combined with --json or --csv");
	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)f->seconds);
	err = braid_fleet_command_open(f, braid_fleet_confine);
	if (!err)
		err = braid_fleet_client_ask_all(f->client, "analyze", fields, analysis);
	while (!err && (ret = braid_fleet_client_next(f->client, &e)) > 0) {
		err = folded_take(f, &e);
		free(e.packet);
	}
	return err ? err : ret;
}
