// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid fleet snapshot, pull: takes snapshots on all hosts, and fetches them. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/fleet_command.h"
#include "host_agent/fleet/pull.h"
#include "host_agent/serve/watches.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define RECORD_S	10u
#define RECORD_MOST_S	500u
#define WATCH_S		600u
#define PATIENCE_S	30u	/* for hosts to report, after --for */

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

/* A host watches, or has said why it takes a snapshot. */
static void watch_say(struct braid_fleet_command *f, const struct braid_fleet_host *host,
		      const char *at, size_t bytes)
{
	size_t skip = strlen(BRAID_WATCHES_FIRED), asked = 0, k;
	struct braid_text t = { 0 };

	if (bytes > skip && !memcmp(at, BRAID_WATCHES_FIRED, skip)) {
		/* Others say that they follow it. */
		braid_text_safe(&t, at + skip, bytes - skip);
		if (!f->fired && !t.failed)
			fprintf(stderr, "tracebraid: %s: %.*s\n", host->name, (int)t.bytes, t.data);
		f->fired = true;
		braid_text_free(&t);
		return;
	}
	f->watching++;
	for (k = 0; k < f->client->nr; k++)
		asked += f->client->hosts[k].state == BRAID_FLEET_ASKED;
	if (f->watching == asked)
		fprintf(stderr, "tracebraid: %zu host%s wait%s for the condition, for up to %llu s\n", f->watching,
			f->watching == 1 ? "" : "s", f->watching == 1 ? "s" : "", (unsigned long long)f->for_s);
}

static bool snapshot_is(const char *at, size_t bytes, const char *word, const char *rest)
{
	size_t n = strlen(word);

	return bytes == n + strlen(rest) && !memcmp(at, word, n) &&
	       !memcmp(at + n, rest, bytes - n);
}

/* A line for the snapshot on the host, if it keeps them; and one, if it stores them, for that. */
static void snapshot_take(struct braid_fleet_command *f, const struct braid_fleet_event *e,
			  bool *stored, const char *name)
{
	const char *at = e->message.body, *end = at + e->message.bytes, *feed;
	bool printed = false;

	for (; at < end; at = feed + (feed < end)) {
		feed = memchr(at, '\n', end - at) ?: end;
		if (!braid_fleet_client_is_new(e->host))
			continue;
		if (snapshot_is(at, feed - at, BRAID_WATCHES_ARMED, "") ||
		    !strncmp(at, BRAID_WATCHES_FIRED, strlen(BRAID_WATCHES_FIRED))) {
			watch_say(f, e->host, at, feed - at);
			continue;
		}
		if (snapshot_is(at, feed - at, "store ", name)) {
			*stored = true;
			continue;
		}
		*stored |= snapshot_is(at, feed - at, "", name);
		if (!printed)
			snapshot_print(e->host->name, at, feed - at, f->json);
		printed = true;
	}
}

/* What the hosts, which were asked, send. Return: 0, or -errno with braid_fail(). */
static int snapshot_collect(struct braid_fleet_command *f, const char *name)
{
	struct braid_fleet_event e;
	bool stored = false;
	int ret = 1, err = 0;

	while (!err && (ret = braid_fleet_client_next(f->client, &e)) > 0) {
		if (!e.packet)
			continue;
		snapshot_take(f, &e, &stored, name);
		err = e.host->state == BRAID_FLEET_ASKED ?
		      braid_fleet_client_grant(f->client, e.host) : 0;
		free(e.packet);
	}
	if (!err && !ret && stored)
		fprintf(stderr, "tracebraid: 'tracebraid report %s/%s' reads it when the hosts have stored it\n",
			f->conf->server, name);
	return err ? err : ret;
}

static int snapshot_ask(struct braid_fleet_command *f, const char *what,
			const struct braid_fleet_field *fields, const char *body, const char *name)
{
	int err = braid_fleet_command_open(f, braid_fleet_confine);

	if (!err)
		err = braid_fleet_client_ask_all(f->client, what, fields, body);
	return err ? err : snapshot_collect(f, name);
}

/* On a condition ------------------------------------------------------------------------------- */

/* "HOSTS/GUESTS CONDITION". Return: what follows @hosts, which is set; NULL with braid_fail(). */
static const char *watch_parse(const char *on, char hosts[BRAID_FLEET_NAME])
{
	size_t n = strcspn(on, "/ "), blank = strcspn(on, " ");
	char guests[BRAID_FLEET_NAME];
	struct braid_rule rule;

	if (on[n] != '/' || !n || n >= BRAID_FLEET_NAME || !on[blank] || blank == n + 1 ||
	    blank - n > sizeof(guests)) {
		braid_fail(-EINVAL, "--on='%s': expected HOSTS/GUESTS and a condition, such as '*/web* stolen > 20%% for 1s'",
			   on);
		return NULL;
	}
	snprintf(hosts, BRAID_FLEET_NAME, "%.*s", (int)n, on);
	snprintf(guests, sizeof(guests), "%.*s", (int)(blank - n - 1), on + n + 1);
	return braid_rule_parse(&rule, on + blank + 1, guests) ? NULL : on + n + 1;
}

/* Hosts that match get the condition; the others wait for these. */
static int watch_ask(struct braid_fleet_command *f, const struct braid_fleet_field *fields,
		     const char *hosts, const char *condition)
{
	struct braid_fleet_client *c = f->client;
	size_t k, nr = 0;
	int err = 0;

	for (k = 0; k < c->nr; k++)
		nr += !fnmatch(hosts, c->hosts[k].name, 0);
	if (!nr)
		return braid_fail(-ENOENT, "--on: no host of the fleet matches '%s'", hosts);
	for (k = 0; k < c->nr && !err; k++)
		err = braid_fleet_client_ask(c, &c->hosts[k], "watch", fields,
					     fnmatch(hosts, c->hosts[k].name, 0) ? "" : condition);
	return err;
}

static void watch_say_line(const char *line)
{
	fprintf(stderr, "tracebraid: %s\n", line);
}

static int watch_run(struct braid_fleet_command *f, const char *name)
{
	char hosts[BRAID_FLEET_NAME], seconds[24];
	const char *condition = watch_parse(f->on, hosts);
	const struct braid_fleet_field fields[] = {
		{ "name", name }, { "for", seconds }, { 0 },
	};
	int err = condition ? braid_fleet_command_open(f, braid_fleet_confine) : -EINVAL;

	f->for_s = f->for_s ?: WATCH_S;
	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)f->for_s);
	if (!err) {
		f->client->say = watch_say_line;
		f->client->until_ns = braid_monotonic_ns() +
				      (f->for_s + PATIENCE_S) * BRAID_SECOND_NS;
		err = watch_ask(f, fields, hosts, condition);
	}
	return err ? err : snapshot_collect(f, name);
}

/* Requests ----------------------------------------------------------------------------------- */

int braid_fleet_snapshot(struct braid_fleet_command *f)
{
	char name[BRAID_FLEET_NAME];
	const struct braid_fleet_field fields[] = { { "name", name }, { 0 } };

	snapshot_name(name);
	if (f->on)
		return watch_run(f, name);
	return snapshot_ask(f, "snapshot", fields, "asked for by 'tracebraid fleet snapshot'", name);
}

int braid_fleet_record(struct braid_fleet_command *f)
{
	char name[BRAID_FLEET_NAME], record[24], seconds[24];
	const struct braid_fleet_field fields[] = {
		{ "name", name }, { "for", record }, { "seconds", seconds }, { 0 },
	};

	snapshot_name(name);
	if (f->for_s > RECORD_MOST_S)
		return braid_fail(-EINVAL, "--for=%llu: expected at most %u", (unsigned long long)f->for_s,
				  RECORD_MOST_S);
	f->for_s = f->for_s ?: RECORD_S;
	snprintf(record, sizeof(record), "%llu", (unsigned long long)f->for_s);
	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)(f->for_s + f->seconds));
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
