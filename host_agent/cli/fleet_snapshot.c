// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid fleet snapshot, pull: takes snapshots on all hosts, and fetches them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/fleet_command.h"
#include "host_agent/fleet/pull.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

/* A host, and a name that it has sent. */
static void snapshot_print(const char *host, const char *name, size_t bytes, bool json)
{
	struct braid_text t = { 0 };

	if (json) {
		braid_text_puts(&t, "{\"host\":");
		braid_text_json(&t, host, strlen(host));
		braid_text_puts(&t, ",\"snapshot\":");
		braid_text_json(&t, name, bytes);
		braid_text_putc(&t, '}');
	} else {
		braid_text_printf(&t, "%s  ", host);
		braid_text_safe(&t, name, bytes);
	}
	if (!t.failed)
		printf("%.*s\n", (int)t.bytes, t.data);
	braid_text_free(&t);
}

/* What it is called in the store, on all hosts. */
static void snapshot_name(char name[BRAID_FLEET_NAME])
{
	struct timespec now;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(name, BRAID_FLEET_NAME, "%Y%m%dT%H%M%S", &tm);
	snprintf(name + n, BRAID_FLEET_NAME - n, "%03ldZ-fleet", now.tv_nsec / 1000000);
}

/* A line for the snapshot on the host, if it keeps them; and one, if it stores them, for that. */
static void snapshot_take(const struct braid_fleet_event *e, bool json, bool *stored,
			  const char *name)
{
	const char *at = e->message.body, *end = at + e->message.bytes, *feed;
	bool printed = false;

	for (; at < end; at = feed + (feed < end)) {
		feed = memchr(at, '\n', end - at) ?: end;
		if ((size_t)(feed - at) == strlen("store ") + strlen(name) &&
		    !memcmp(at, "store ", strlen("store "))) {
			*stored = true;
			continue;
		}
		*stored |= (size_t)(feed - at) == strlen(name) && !memcmp(at, name, feed - at);
		if (!printed)
			snapshot_print(e->host->name, at, feed - at, json);
		printed = true;
	}
}

static int snapshot_ask(struct braid_fleet_command *f, const char *what,
			const struct braid_fleet_field *fields, const char *body, const char *name)
{
	struct braid_fleet_event e;
	bool stored = false;
	int ret = 1, err = braid_fleet_command_open(f, braid_fleet_confine);

	if (!err)
		err = braid_fleet_client_ask_all(f->client, what, fields, body);
	while (!err && (ret = braid_fleet_client_next(f->client, &e)) > 0) {
		if (!e.packet)
			continue;
		snapshot_take(&e, f->json, &stored, name);
		free(e.packet);
	}
	if (!err && !ret && stored)
		fprintf(stderr, "tracebraid: 'tracebraid report %s/%s' reads it when the hosts have stored it\n",
			f->conf->server, name);
	return err ? err : ret;
}

int braid_fleet_snapshot(struct braid_fleet_command *f)
{
	char name[BRAID_FLEET_NAME];
	const struct braid_fleet_field fields[] = { { "name", name }, { 0 } };

	snapshot_name(name);
	return snapshot_ask(f, "snapshot", fields, "asked for by 'tracebraid fleet snapshot'", name);
}

int braid_fleet_record(struct braid_fleet_command *f)
{
	char name[BRAID_FLEET_NAME], record[24], seconds[24];
	const struct braid_fleet_field fields[] = {
		{ "name", name }, { "for", record }, { "seconds", seconds }, { 0 },
	};

	snapshot_name(name);
	snprintf(record, sizeof(record), "%llu", (unsigned long long)f->record_s);
	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)(f->record_s + f->seconds));
	return snapshot_ask(f, "record", fields, "", name);
}

static const char *pull_to;	/* the directory */

static int snapshot_confine(void)
{
	return braid_cli_confine_fleet(pull_to);
}

static void pull_print(const struct braid_fleet_pull *p, struct braid_fleet_command *f)
{
	struct braid_text t = { 0 };
	size_t k, lacks = 0;

	for (k = 0; k < p->nr; k++) {
		const struct braid_fleet_file *file = &p->files[k];
		const char *host = p->client->hosts[file->host].name;

		lacks += !file->complete;
		t.bytes = 0;
		braid_text_printf(&t, f->json ? "{\"host\":\"%s\",\"file\":" : "%s/", host);
		if (f->json)
			braid_text_json(&t, file->name, strlen(file->name));
		else
			braid_text_safe(&t, file->name, strlen(file->name));
		braid_text_printf(&t, f->json ? ",\"bytes\":%llu,\"complete\":%s}" : "  %llu bytes%s",
				  (unsigned long long)file->stored, f->json ? (file->complete ? "true" : "false") :
				  file->complete ? "" : ", not complete");
		if (!t.failed)
			printf("%.*s\n", (int)t.bytes, t.data);
	}
	braid_text_free(&t);
	if (p->resumed)
		fprintf(stderr, "tracebraid: %u transfers were interrupted, and tried again\n", p->resumed);
	f->lacks += lacks;
}

int braid_fleet_fetch(struct braid_fleet_command *f, const char *directory)
{
	struct braid_fleet_pull p = { .client = f->client, .all = f->all };
	int err;

	if (mkdir(directory, 0700) && errno != EEXIST)
		return braid_fail(-errno, "%s: cannot be created: %s", directory, strerror(errno));
	braid_auto_fd int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		return braid_fail(-errno, "%s: %s", directory, strerror(errno));
	p.folder = folder;
	pull_to = directory;
	err = braid_fleet_command_open(f, snapshot_confine);
	if (!err)
		err = braid_fleet_pull_list(&p);
	if (!err) {
		f->lacks = braid_fleet_command_lacks(f->client);
		f->lists = true;
		err = braid_fleet_pull_files(&p);
	}
	if (!err)
		pull_print(&p, f);
	braid_fleet_pull_free(&p);
	return err;
}
