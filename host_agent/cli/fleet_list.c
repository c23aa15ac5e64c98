// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid fleet list: the hosts, and what they do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/fleet_command.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

struct list_row {
	char version[24], state[24];
	u64 guests, round_trip_ns;
	bool streams;		/* into the store: */
	u64 stored, waiting, lost;
};

static void list_take(struct list_row *row, struct braid_fleet_event *e)
{
	const struct braid_fleet_message *m = &e->message;

	snprintf(row->version, sizeof(row->version), "%s", braid_fleet_message_text(m, "version"));
	snprintf(row->state, sizeof(row->state), "%s", braid_fleet_message_text(m, "state"));
	row->guests = braid_fleet_message_number(m, "guests", UINT32_MAX, 0);
	row->streams = *braid_fleet_message_text(m, "stored");
	row->stored = braid_fleet_message_number(m, "stored", UINT64_MAX, 0);
	row->waiting = braid_fleet_message_number(m, "waiting", UINT64_MAX, 0);
	row->lost = braid_fleet_message_number(m, "lost", UINT64_MAX, 0);
	row->round_trip_ns = e->host->heard_ns - e->host->asked_ns;
	e->host->state = BRAID_FLEET_DONE;
}

static void list_print_json(const struct braid_fleet_host *host, const struct list_row *row)
{
	struct braid_text t = { 0 };

	braid_text_puts(&t, "{\"host\":");
	braid_text_json(&t, host->name, strlen(host->name));
	if (host->state == BRAID_FLEET_DONE) {
		braid_text_puts(&t, ",\"version\":");
		braid_text_json(&t, row->version, strlen(row->version));
		braid_text_puts(&t, ",\"state\":");
		braid_text_json(&t, row->state, strlen(row->state));
		braid_text_printf(&t, ",\"guests\":%llu,\"round_trip_ns\":%llu",
				  (unsigned long long)row->guests,
				  (unsigned long long)row->round_trip_ns);
		if (row->streams)
			braid_text_printf(&t, ",\"stored\":%llu,\"waiting\":%llu,\"lost\":%llu",
					  (unsigned long long)row->stored,
					  (unsigned long long)row->waiting,
					  (unsigned long long)row->lost);
		braid_text_putc(&t, '}');
	} else {
		braid_text_puts(&t, ",\"error\":");
		braid_text_json(&t, host->why, strlen(host->why));
		braid_text_putc(&t, '}');
	}
	if (!t.failed)
		printf("%.*s\n", (int)t.bytes, t.data);
	braid_text_free(&t);
}

static void list_print_row(const struct braid_fleet_host *host, int width,
			   const struct list_row *row)
{
	char stored[16] = "-", waiting[16] = "-", lost[16] = "-";

	if (row->streams) {
		braid_human(stored, sizeof(stored), row->stored);
		braid_human(waiting, sizeof(waiting), row->waiting);
		braid_human(lost, sizeof(lost), row->lost);
	}
	printf("%-*s  %-7s  %-13s  %6llu  %7.3f ms  %6s  %7s  %6s\n", width, host->name, row->version,
	       row->state, (unsigned long long)row->guests, row->round_trip_ns / 1e6, stored,
	       waiting, lost);
}

static void list_print(const struct braid_fleet_client *c, const struct list_row *rows, bool json)
{
	int width = strlen("HOST");
	size_t k;

	for (k = 0; k < c->nr; k++)
		if ((int)strlen(c->hosts[k].name) > width)
			width = strlen(c->hosts[k].name);
	if (!json)
		printf("%-*s  VERSION  STATE          GUESTS  ROUND TRIP  STORED  WAITING    LOST\n", width, "HOST");
	for (k = 0; k < c->nr; k++) {
		const struct braid_fleet_host *host = &c->hosts[k];

		if (json)
			list_print_json(host, &rows[k]);
		else if (host->state == BRAID_FLEET_DONE)
			list_print_row(host, width, &rows[k]);
		else
			printf("%-*s  -        %s\n", width, host->name, braid_cli_clean(host->why));
	}
}

int braid_fleet_list(struct braid_fleet_command *f)
{
	static const struct braid_fleet_field none[] = { { 0 } };
	struct braid_fleet_client *c = f->client;
	int err = braid_fleet_command_open(f, braid_fleet_confine), ret = 1;
	struct braid_fleet_event e;
	struct list_row *rows;
	size_t k;

	if (err)
		return err;
	rows = calloc(c->nr, sizeof(*rows));
	err = rows ? braid_fleet_client_ask_all(c, "status", none, "") : braid_out_of_memory();
	while (!err && (ret = braid_fleet_client_next(c, &e)) > 0)
		if (e.packet) {
			list_take(&rows[e.host - c->hosts], &e);
			free(e.packet);
		}
	err = err ? err : ret;
	if (!err)
		list_print(c, rows, f->json);
	free(rows);
	f->lists = !err;
	for (k = 0; k < c->nr; k++)
		f->lacks += c->hosts[k].state == BRAID_FLEET_FAILED;
	return err;
}
