// SPDX-License-Identifier: GPL-2.0-or-later
/* Asks hosts of the fleet. */
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/fleet/client.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define TICK_MS		20
#define QUIET_NS	(300 * BRAID_FLEET_MS)	/* without a further host, all have answered */
#define AGAIN_NS	(500 * BRAID_FLEET_MS)	/* from one time to the next */
#define BACK_NS		(15 * BRAID_SECOND_NS)	/* for hosts to connect again, too */
#define FEW_HOSTS	300u		/* each may send several messages until they are taken */
#define SEPARATORS	", \t"

/* Hosts -------------------------------------------------------------------------------------- */

static struct braid_fleet_host *client_host(struct braid_fleet_client *c, const char *name)
{
	size_t k;

	for (k = 0; k < c->nr; k++)
		if (!strcmp(c->hosts[k].name, name))
			return &c->hosts[k];
	return NULL;
}

static int client_add(struct braid_fleet_client *c, const char *name)
{
	struct braid_fleet_host host = { 0 };

	if (client_host(c, name))
		return 0;
	if (c->nr == BRAID_FLEET_MOST_HOSTS)
		return braid_fail(-E2BIG, "more than %u hosts; ask some of them by --hosts",
				  BRAID_FLEET_MOST_HOSTS);
	snprintf(host.name, sizeof(host.name), "%s", name);
	return braid_array_push(c->hosts, c->nr, c->capacity, host) ? braid_out_of_memory() : 0;
}

/* Whether a host is among those that are asked; all are, without a list. */
static bool client_is_asked(const char *list, const char *name)
{
	char word[BRAID_FLEET_SUBJECT];
	size_t n;

	for (; list && *list; list += n) {
		list += strspn(list, SEPARATORS);
		n = strcspn(list, SEPARATORS);
		snprintf(word, sizeof(word), "%.*s", (int)n, list);
		if (n && !fnmatch(word, name, 0))
			return true;
	}
	return !list;
}

/* Names of a list, as far as they are no globs, and among those that are asked. */
static int client_expect(struct braid_fleet_client *c, const char *list, const char *asked)
{
	char word[BRAID_FLEET_SUBJECT];
	int err = 0;
	size_t n;

	for (; list && *list && !err; list += n) {
		list += strspn(list, SEPARATORS);
		n = strcspn(list, SEPARATORS);
		snprintf(word, sizeof(word), "%.*s", (int)n, list);
		if (!n || strpbrk(word, "*?[") || !client_is_asked(asked, word))
			continue;
		err = braid_fleet_name_is_valid(word) ? client_add(c, word) :
		      braid_fail(-EINVAL, "'%s' is not a valid name of a host", word);
	}
	return err;
}

static int client_denied(struct braid_fleet_client *c)
{
	char line[BRAID_FLEET_SUBJECT];

	return braid_fleet_denied(c->link, line) ?
	       braid_fail(-EACCES, "permission denied by the server: %s", line) : 0;
}

/* Asks who is there. Those that were not named may be any number: their answers end by silence. */
static int client_find(struct braid_fleet_client *c, const char *asked)
{
	struct pollfd fd = { .fd = braid_fleet_fd(c->link), .events = POLLIN };
	u64 begin_ns = braid_monotonic_ns(), heard_ns = begin_ns, now_ns = begin_ns;
	struct braid_fleet_packet *p;
	struct braid_fleet_host *host;
	char reply[BRAID_FLEET_SUBJECT], name[BRAID_FLEET_NAME];
	int err;

	snprintf(reply, sizeof(reply), "%.200s.who", braid_fleet_inbox(c->link));
	err = braid_fleet_publish(c->link, "$SRV.PING.tracebraid", reply, "", 0);
	while (!err && now_ns - heard_ns < QUIET_NS && now_ns - begin_ns < c->timeout_ns &&
	       !*c->stop) {
		poll(&fd, 1, TICK_MS);
		while (!err && (p = braid_fleet_take(c->link))) {
			if (!p->no_responders && braid_fleet_service_id(p->data, p->bytes, name)) {
				heard_ns = braid_monotonic_ns();
				err = client_is_asked(asked, name) ? client_add(c, name) : 0;
				host = client_host(c, name);
				if (!err && host)
					host->found++;
			}
			free(p);
		}
		if (!err)
			err = client_denied(c);
		now_ns = braid_monotonic_ns();
	}
	return err;
}

static int client_by_name(const void *a, const void *b)
{
	return strcmp(((const struct braid_fleet_host *)a)->name,
		      ((const struct braid_fleet_host *)b)->name);
}

int braid_fleet_client_open(struct braid_fleet_client *c,
			    const struct braid_fleet_client_options *o)
{
	char subject[BRAID_FLEET_SUBJECT];
	int err = 0;

	*c = (struct braid_fleet_client){ .timeout_ns = o->timeout_ns, .stop = o->stop };
	if (!*o->conf->server)
		return braid_fail(-EINVAL, "no server of a fleet; give --server, or set 'server' in [fleet] of the configuration");
	err = client_expect(c, o->conf->hosts, o->hosts);
	if (!err)
		err = client_expect(c, o->hosts, o->hosts);
	if (!err)
		err = braid_fleet_open(&c->link, o->conf, "tracebraid fleet", o->confine, false);
	if (err)
		return err;
	snprintf(subject, sizeof(subject), "%.200s.*", braid_fleet_inbox(c->link));
	err = braid_fleet_subscribe(c->link, subject);
	if (!err)
		err = braid_fleet_flush(c->link);
	if (!err && (!o->hosts || strpbrk(o->hosts, "*?[")))
		err = client_find(c, o->hosts);
	if (!err)
		err = client_denied(c);
	if (!err && !c->nr)
		err = braid_fail(-ENOENT, "no host of the fleet has answered whose name matches '%s'",
				 o->hosts ?: "*");
	if (!err)
		qsort(c->hosts, c->nr, sizeof(*c->hosts), client_by_name);
	return err;
}

/* Requests ----------------------------------------------------------------------------------- */

static int client_flow(struct braid_fleet_client *c, const struct braid_fleet_host *host, u64 more)
{
	char subject[BRAID_FLEET_SUBJECT];
	int err;

	snprintf(subject, sizeof(subject), BRAID_FLEET_SUBJECTS "%s.flow", host->name);
	braid_fleet_message_begin(&c->out);
	braid_fleet_message_put(&c->out, "id", host->id);
	braid_fleet_message_put_number(&c->out, "more", more);
	braid_fleet_message_end(&c->out);
	err = c->out.failed ? braid_out_of_memory() :
	      braid_fleet_publish(c->link, subject, NULL, c->out.data, c->out.bytes);
	return err == -EAGAIN ? 0 : err;	/* the host is silent then, and fails */
}

int braid_fleet_client_grant(struct braid_fleet_client *c, const struct braid_fleet_host *host)
{
	return client_flow(c, host, 1);
}

void braid_fleet_client_fail(struct braid_fleet_client *c, struct braid_fleet_host *host,
			     const char *why)
{
	if (host->state == BRAID_FLEET_ASKED && *host->instance)
		client_flow(c, host, 0);
	host->state = BRAID_FLEET_FAILED;
	snprintf(host->why, sizeof(host->why), "%s", why);
}

void braid_fleet_client_close(struct braid_fleet_client *c)
{
	size_t k;

	for (k = 0; k < c->nr && c->link; k++)
		if (c->hosts[k].state == BRAID_FLEET_ASKED)
			client_flow(c, &c->hosts[k], 0);
	if (c->link)
		braid_fleet_flush(c->link);
	braid_fleet_close(c->link);
	free(c->hosts);
	braid_text_free(&c->out);
	*c = (struct braid_fleet_client){ 0 };
}

int braid_fleet_client_ask(struct braid_fleet_client *c, struct braid_fleet_host *host,
			   const char *what, const struct braid_fleet_field *fields,
			   const char *body)
{
	char subject[BRAID_FLEET_SUBJECT], reply[BRAID_FLEET_SUBJECT];
	const char *inbox = braid_fleet_inbox(c->link), *own = strrchr(inbox, '.');

	snprintf(host->id, sizeof(host->id), "%.20s-%u", own ? own + 1 : inbox, ++c->asked);
	snprintf(subject, sizeof(subject), BRAID_FLEET_SUBJECTS "%s.%s", host->name, what);
	snprintf(reply, sizeof(reply), "%.200s.%zu", inbox, (size_t)(host - c->hosts));
	*host->instance = 0;
	host->seq = host->rows = 0;
	host->state = BRAID_FLEET_ASKED;
	host->asked_ns = host->heard_ns = braid_monotonic_ns();
	if (host->found > 1) {	/* to whom the answers are, neither could know */
		braid_fleet_client_fail(c, host, "two hosts have this name");
		return 0;
	}
	braid_fleet_message_begin(&c->out);
	braid_fleet_message_put(&c->out, "id", host->id);
	braid_fleet_message_put(&c->out, "window", c->nr <= FEW_HOSTS ? "4" : "1");
	for (; fields->key; fields++)
		braid_fleet_message_put(&c->out, fields->key, fields->value);
	braid_fleet_message_end(&c->out);
	braid_text_puts(&c->out, body);
	return c->out.failed ? braid_out_of_memory() :
	       braid_fleet_publish(c->link, subject, reply, c->out.data, c->out.bytes);
}

int braid_fleet_client_ask_all(struct braid_fleet_client *c, const char *what,
			       const struct braid_fleet_field *fields, const char *body)
{
	int err = 0;
	size_t k;

	for (k = 0; k < c->nr && !err; k++)
		err = braid_fleet_client_ask(c, &c->hosts[k], what, fields, body);
	return err;
}

/* A connection that is lost ------------------------------------------------------------------ */

bool braid_fleet_client_is_new(struct braid_fleet_host *host)
{
	bool new = host->lines++ >= host->rows;

	host->rows += new;
	return new;
}

/* Has a host send its answer from the beginning. */
static int client_again(struct braid_fleet_client *c, struct braid_fleet_host *host)
{
	char subject[BRAID_FLEET_SUBJECT], reply[BRAID_FLEET_SUBJECT];
	int err;

	snprintf(subject, sizeof(subject), BRAID_FLEET_SUBJECTS "%s.again", host->name);
	snprintf(reply, sizeof(reply), "%.200s.%zu", braid_fleet_inbox(c->link),
		 (size_t)(host - c->hosts));
	*host->instance = 0;
	host->seq = host->lines = host->again_ns = 0;
	braid_fleet_message_begin(&c->out);
	braid_fleet_message_put(&c->out, "id", host->id);
	braid_fleet_message_end(&c->out);
	err = c->out.failed ? braid_out_of_memory() :
	      braid_fleet_publish(c->link, subject, reply, c->out.data, c->out.bytes);
	return err == -EAGAIN ? 0 : err;
}

/* Answers that were sent meanwhile are lost. */
static int client_is_back(struct braid_fleet_client *c)
{
	u64 now_ns = braid_monotonic_ns();
	int err = 0;
	size_t k;

	if (c->away)
		c->say("connected to the server again; requesting the hosts' answers so far");
	c->away = false;
	for (k = 0; k < c->nr && !err; k++) {
		if (c->hosts[k].state != BRAID_FLEET_ASKED)
			continue;
		c->hosts[k].heard_ns = now_ns;
		err = client_again(c, &c->hosts[k]);
	}
	return err;
}

/* While there is no server, no host is late. */
static void client_is_away(struct braid_fleet_client *c, u64 now_ns)
{
	size_t k;

	if (!c->away)
		c->say("the connection to the server was lost; connecting again");
	c->away = true;
	for (k = 0; k < c->nr; k++) {
		struct braid_fleet_host *host = &c->hosts[k];

		host->heard_ns = now_ns;
		if (host->state == BRAID_FLEET_ASKED && now_ns >= c->until_ns)
			braid_fleet_client_fail(c, host, "whether it has taken a snapshot is not known: the server cannot be reached");
	}
}

/* Return: 0, or -errno with braid_fail(). */
static int client_look(struct braid_fleet_client *c)
{
	u64 now_ns = braid_monotonic_ns(), connections = braid_fleet_connections(c->link);
	char why[BRAID_FLEET_SUBJECT];
	int err = 0;
	size_t k;

	if (!c->until_ns)
		return 0;
	if (!braid_fleet_is_connected(c->link, why)) {
		client_is_away(c, now_ns);
		return 0;
	}
	if (connections != c->connections) {
		c->connections = connections;
		return client_is_back(c);
	}
	for (k = 0; k < c->nr && !err; k++)
		if (c->hosts[k].state == BRAID_FLEET_ASKED && c->hosts[k].again_ns &&
		    now_ns >= c->hosts[k].again_ns)
			err = client_again(c, &c->hosts[k]);
	return err;
}

/* Whether its answer is asked for again; else it has failed. */
static bool client_tries_again(const struct braid_fleet_client *c, struct braid_fleet_host *host)
{
	if (!c->connections)
		return false;
	if (!host->again_ns)
		host->again_ns = braid_monotonic_ns() + AGAIN_NS;
	return true;
}

/* Answers ------------------------------------------------------------------------------------ */

/* Return: 1: an event of the host; 0: nothing to be seen. */
static int client_take(struct braid_fleet_client *c, struct braid_fleet_event *e)
{
	const struct braid_fleet_message *m = &e->message;
	const char *kind, *error, *instance;
	struct braid_fleet_host *host = e->host;
	u64 seq;

	if (e->packet->no_responders) {
		if (client_tries_again(c, host))
			return 0;
		braid_fleet_client_fail(c, host, "not connected to the server");
		return 1;
	}
	if (braid_fleet_message_read(&e->message, e->packet->data, e->packet->bytes)) {
		braid_fleet_client_fail(c, host, braid_failure());
		return 1;
	}
	kind = braid_fleet_message_text(m, "kind");
	error = braid_fleet_message_text(m, "error");
	instance = braid_fleet_message_text(m, "instance");
	if (*braid_fleet_message_text(m, "id") && strcmp(braid_fleet_message_text(m, "id"), host->id))
		return 0;	/* of a request that was cancelled */
	if (*host->instance && strcmp(host->instance, instance)) {
		braid_fleet_client_fail(c, host, "two hosts have this name");
		return 1;
	}
	snprintf(host->instance, sizeof(host->instance), "%.19s", instance);
	host->heard_ns = braid_monotonic_ns();
	if (!strcmp(kind, "alive"))
		return 0;
	seq = braid_fleet_message_number(m, "seq", UINT64_MAX, *error ? host->seq : 0);
	if (seq != host->seq) {
		if (client_tries_again(c, host))
			return 0;
		braid_fleet_client_fail(c, host, "some of its messages were lost");
		return 1;
	}
	host->seq++;
	if (strcmp(kind, "end"))
		return 1;
	host->state = *error ? BRAID_FLEET_FAILED : BRAID_FLEET_DONE;
	snprintf(host->why, sizeof(host->why), "%s", error);
	return 1;
}

static struct braid_fleet_host *client_of(struct braid_fleet_client *c, const char *subject)
{
	const char *word = strrchr(subject, '.');
	unsigned long k;
	char *end;

	if (!word || word[1] < '0' || word[1] > '9')
		return NULL;
	k = strtoul(word + 1, &end, 10);
	return !*end && k < c->nr && c->hosts[k].state == BRAID_FLEET_ASKED ? &c->hosts[k] : NULL;
}

/* Hosts that say nothing. Return: whether there is one; *left: some are still asked. */
static bool client_is_late(struct braid_fleet_client *c, struct braid_fleet_event *e, bool *left)
{
	u64 now_ns = braid_monotonic_ns(), timeout_ns = c->timeout_ns;
	char why[64];
	size_t k;

	if (c->connections && timeout_ns < BACK_NS)
		timeout_ns = BACK_NS;
	*left = false;
	for (k = 0; k < c->nr; k++) {
		struct braid_fleet_host *host = &c->hosts[k];

		if (host->state != BRAID_FLEET_ASKED)
			continue;
		*left = true;
		if (now_ns - host->heard_ns < timeout_ns)
			continue;
		snprintf(why, sizeof(why), "no answer for %g s", timeout_ns / 1e9);
		braid_fleet_client_fail(c, host, why);
		e->host = host;
		return true;
	}
	return false;
}

/* What was dropped could be of any of them. */
static void client_check_dropped(struct braid_fleet_client *c)
{
	u64 dropped = braid_fleet_dropped(c->link);
	size_t k;

	for (k = 0; k < c->nr && dropped != c->dropped; k++)
		if (c->hosts[k].state == BRAID_FLEET_ASKED)
			braid_fleet_client_fail(c, &c->hosts[k], "messages came faster than they were read");
	c->dropped = dropped;
}

int braid_fleet_client_next(struct braid_fleet_client *c, struct braid_fleet_event *e)
{
	struct pollfd fd = { .fd = braid_fleet_fd(c->link), .events = POLLIN };
	bool left;
	int ret;

	for (;;) {
		if (*c->stop)
			return braid_fail(-EINTR, "interrupted");
		ret = client_denied(c) ?: client_look(c);
		if (ret)
			return ret;
		e->packet = braid_fleet_take(c->link);
		e->host = e->packet ? client_of(c, e->packet->subject) : NULL;
		ret = e->host ? client_take(c, e) : 0;
		if (!ret || e->host->state != BRAID_FLEET_ASKED) {
			free(e->packet);
			e->packet = NULL;
		}
		if (ret)
			return 1;
		if (e->host)
			continue;
		client_check_dropped(c);
		if (client_is_late(c, e, &left))
			return 1;
		if (!left)
			return 0;
		poll(&fd, 1, TICK_MS);
	}
}
