// SPDX-License-Identifier: GPL-2.0-or-later
/* Answers the fleet's requests. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/fleet/agent.h"
#include "host_agent/fleet/alarm.h"
#include "host_agent/fleet/batch.h"
#include "host_agent/fleet/kept.h"
#include "host_agent/fleet/service.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "host_agent/util/monotonic.h"
#include "shared/version.h"

#define CHUNK		((size_t)256 << 10)	/* bytes of a file in a message */
#define MOST_ROW	((size_t)512 << 10)
#define MOST_WINDOW	16u		/* messages that were not granted again */
#define SOON_NS		(100 * BRAID_FLEET_MS)	/* until rows are sent, though they are few */
#define ALIVE_NS	(500 * BRAID_FLEET_MS)
#define LATE_NS		(30 * BRAID_SECOND_NS)	/* for what was found in time to be taken */
#define SAY_NS		(60 * BRAID_SECOND_NS)	/* from one line to the next */
#define LOOK_NS		BRAID_SECOND_NS
#define MOST_PACKETS	256u	/* that are taken before other work; the rest waits for a turn */
#define AWAY_LOOKS	3u
#define TICK_MS		50

struct agent_request {
	bool used;
	u32 number;
	enum braid_fleet_endpoint endpoint;
	char id[BRAID_FLEET_NAME];
	char reply[BRAID_FLEET_SUBJECT];
	int fd;			/* what its process writes; -1: at its end */
	u64 window;		/* messages that may be sent */
	u64 seq, rows, most_rows, from;
	u64 end_ns;
	u64 began_ns;		/* of ->pending */
	u64 said_ns, asked_ns;
	struct braid_text pending;
	bool ended, failed;	/* its process */
	bool heads;		/* the first line names columns */
	char line[BRAID_FLEET_LINE];
};

struct agent {
	const struct braid_fleet_agent_options *o;
	struct braid_fleet_link *link;
	struct braid_fleet_service service;
	struct agent_request requests[BRAID_FLEET_ASKS];
	struct braid_fleet_answer state;
	struct braid_text out;
	char instance[20];	/* of this process: two hosts of one name differ in it */
	u32 last_number;
	u64 say_ns;		/* from when it may say that something was denied */
	u64 dropped;		/* messages, as was said */
	u64 look_ns;		/* when the connection is looked at next */
	bool connected;		/* as was said last */
	u32 absent;		/* looks in a row that found none */
	struct braid_fleet_triggers triggers;
	struct braid_fleet_kept kept;
	bool over;
};

/* The service writes it to its journal: this process has no socket for that. */
static void agent_say(const struct agent *a, const char *line)
{
	static struct braid_fleet_ask ask;

	ask = (struct braid_fleet_ask){ .kind = BRAID_FLEET_SAY };
	snprintf(ask.text, sizeof(ask.text), "%s", line);
	send(a->o->fd, &ask, sizeof(ask), MSG_NOSIGNAL);
}

/* Answers ------------------------------------------------------------------------------------ */

static void agent_begin(struct agent *a, const char *kind)
{
	braid_fleet_message_begin(&a->out);
	braid_fleet_message_put(&a->out, "kind", kind);
	braid_fleet_message_put(&a->out, "host", a->service.host);
	braid_fleet_message_put(&a->out, "instance", a->instance);
}

static int agent_send(struct agent *a, const char *reply)
{
	return a->out.failed ? braid_out_of_memory() :
	       braid_fleet_publish(a->link, reply, NULL, a->out.data, a->out.bytes);
}

static void agent_refuse(struct agent *a, const struct braid_fleet_packet *p, const char *line)
{
	agent_begin(a, "end");
	braid_fleet_message_put(&a->out, "error", line);
	braid_fleet_message_end(&a->out);
	agent_send(a, p->reply);
}

static void agent_send_status(struct agent *a, const struct braid_fleet_packet *p)
{
	agent_begin(a, "status");
	braid_fleet_message_put(&a->out, "version", BRAID_VERSION);
	braid_fleet_message_put(&a->out, "state", a->state.records ? "recording" : "not recording");
	braid_fleet_message_put_number(&a->out, "guests", a->state.guests);
	if (a->state.streams) {
		braid_fleet_message_put_number(&a->out, "stored", a->state.stored);
		braid_fleet_message_put_number(&a->out, "waiting", a->state.waiting);
		braid_fleet_message_put_number(&a->out, "lost", a->state.lost);
	}
	braid_fleet_message_end(&a->out);
	agent_send(a, p->reply);
}

/* Requests ----------------------------------------------------------------------------------- */

static void agent_cancel(struct agent *a, struct agent_request *r)
{
	struct braid_fleet_ask ask = { .kind = BRAID_FLEET_CANCEL, .number = r->number };

	if (!r->ended)
		send(a->o->fd, &ask, sizeof(ask), MSG_NOSIGNAL);
	if (r->fd >= 0)
		close(r->fd);
	braid_text_free(&r->pending);
	*r = (struct agent_request){ .fd = -1 };
}

static struct agent_request *agent_by_id(struct agent *a, const char *id)
{
	size_t k;

	for (k = 0; k < BRAID_FLEET_ASKS; k++)
		if (a->requests[k].used && !strcmp(a->requests[k].id, id))
			return &a->requests[k];
	return NULL;
}

static void agent_send_end(struct agent *a, const char *reply, const char *id, u64 seq,
			   const char *error)
{
	agent_begin(a, "end");
	braid_fleet_message_put(&a->out, "id", id);
	braid_fleet_message_put_number(&a->out, "seq", seq);
	braid_fleet_message_put(&a->out, "error", error);
	braid_fleet_message_end(&a->out);
	agent_send(a, reply);
}

static void agent_end(struct agent *a, struct agent_request *r, const char *error)
{
	agent_send_end(a, r->reply, r->id, r->seq, error);
	braid_fleet_kept_end(&a->kept, r->id, error);
	braid_fleet_service_done(&a->service, r->endpoint, r->asked_ns, error);
	agent_cancel(a, r);
}

/* Sends the first bytes of what waits. Return: false: the request is over. */
static bool agent_send_batch(struct agent *a, struct agent_request *r, size_t bytes)
{
	int err;

	agent_begin(a, r->endpoint == BRAID_FLEET_OF_PULL ? "data" : "rows");
	braid_fleet_message_put(&a->out, "id", r->id);
	braid_fleet_message_put_number(&a->out, "seq", r->seq++);
	braid_fleet_message_end(&a->out);
	braid_text_put(&a->out, r->pending.data, bytes);
	err = agent_send(a, r->reply);
	if (err) {
		agent_end(a, r, err == -EAGAIN ? "the connection to the server was lost" : braid_failure());
		return false;
	}
	braid_fleet_kept_add(&a->kept, r->id, r->pending.data, bytes);
	memmove(r->pending.data, r->pending.data + bytes, r->pending.bytes - bytes);
	r->pending.bytes -= bytes;
	r->began_ns = r->said_ns = braid_monotonic_ns();
	r->window--;
	return true;
}

/* How many bytes are to be sent now: whole rows; of a file, whole chunks. */
static size_t agent_ready(const struct agent_request *r)
{
	bool file = r->endpoint == BRAID_FLEET_OF_PULL, last = r->fd < 0;
	size_t n = r->pending.bytes;

	if (!n || !r->window)
		return 0;
	if (file)
		return n >= CHUNK ? CHUNK : last ? n : 0;
	if (n < BRAID_FLEET_BATCH && !last && braid_monotonic_ns() - r->began_ns < SOON_NS)
		return 0;
	return braid_fleet_batch_next(&r->pending, last);
}

/* Reads what its process has written. Return: false: the request is over. */
static bool agent_read(struct agent *a, struct agent_request *r)
{
	size_t most = r->endpoint == BRAID_FLEET_OF_PULL ? CHUNK : BRAID_FLEET_BATCH;
	size_t before = r->pending.bytes;
	char *to = braid_text_reserve(&r->pending, most);
	ssize_t n = to ? read(r->fd, to, most) : 0;
	char line[64];

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0) {
		close(r->fd);
		r->fd = -1;
		return true;
	}
	if (!before)
		r->began_ns = braid_monotonic_ns();
	r->pending.bytes += n;
	if (r->endpoint == BRAID_FLEET_OF_PULL)
		return true;
	if (braid_fleet_batch_limit(&r->pending, before, &r->rows, r->most_rows + r->heads)) {
		while (r->pending.bytes &&
		       agent_send_batch(a, r, braid_fleet_batch_next(&r->pending, true)))
			r->window++;	/* the last ones are few */
		snprintf(line, sizeof(line), "more than %llu rows", (unsigned long long)r->most_rows);
		if (r->used)
			agent_end(a, r, line);
		return false;
	}
	if (r->pending.bytes <= MOST_ROW)
		return true;
	agent_end(a, r, "a row is too long");
	return false;
}

static void agent_turn_request(struct agent *a, struct agent_request *r, bool readable)
{
	u64 now_ns = braid_monotonic_ns();
	size_t n;

	if (r->fd >= 0 && readable && !agent_read(a, r))
		return;
	while ((n = agent_ready(r)))
		if (!agent_send_batch(a, r, n))
			return;
	if (r->fd < 0 && r->ended && !r->pending.bytes)
		return agent_end(a, r, r->failed ? r->line : "");
	if (now_ns > r->end_ns)
		return agent_end(a, r, "its rows were not read in time");
	if (now_ns - r->said_ns < ALIVE_NS)
		return;
	r->said_ns = now_ns;
	agent_begin(a, "alive");
	braid_fleet_message_put(&a->out, "id", r->id);
	braid_fleet_message_end(&a->out);
	agent_send(a, r->reply);
}

/* New requests ------------------------------------------------------------------------------- */

static int agent_fill(struct agent_request *r, struct braid_fleet_ask *ask,
		      const struct braid_fleet_message *m)
{
	int err = braid_fleet_ask_read(ask, r->endpoint, m);

	if (err)
		return err;
	ask->number = r->number;
	r->end_ns = braid_monotonic_ns() + ask->seconds * BRAID_SECOND_NS + LATE_NS;
	r->most_rows = braid_fleet_message_number(m, "rows", BRAID_FLEET_MOST_ROWS, BRAID_FLEET_MOST_ROWS);
	r->window = braid_fleet_message_number(m, "window", MOST_WINDOW, 4);
	r->heads = ask->kind == BRAID_FLEET_SQL ||
		   (ask->kind == BRAID_FLEET_ANALYZE && !ask->folded);
	return 0;
}

/* Return: 0, or -errno with braid_fail(). */
static int agent_start(struct agent *a, struct agent_request *r,
		       const struct braid_fleet_message *m)
{
	static struct braid_fleet_ask ask;
	int fds[2], err;

	memset(&ask, 0, sizeof(ask));
	err = agent_fill(r, &ask, m);
	if (err)
		return err;
	if (pipe2(fds, O_CLOEXEC))
		return braid_fail(-errno, "no pipe can be made: %s", strerror(errno));
	if (braid_send_with(a->o->fd, &ask, sizeof(ask), fds[1], 0) != sizeof(ask))
		err = braid_fail(-EIO, "the service does not answer");
	close(fds[1]);
	if (err) {
		close(fds[0]);
		return err;
	}
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	r->fd = fds[0];
	r->said_ns = braid_monotonic_ns();
	return 0;
}

static void agent_request(struct agent *a, const struct braid_fleet_packet *p,
			  enum braid_fleet_endpoint endpoint, const struct braid_fleet_message *m)
{
	const char *id = braid_fleet_message_text(m, "id"), *why = NULL;
	u64 now_ns = braid_monotonic_ns();
	struct agent_request *r = a->requests, *end = r + BRAID_FLEET_ASKS;

	if (!*p->reply)
		return;
	while (r < end && r->used)
		r++;
	if (!braid_fleet_name_is_valid(id) || agent_by_id(a, id))
		why = "the request has no valid id";
	else if (r == end)
		why = "busy: too many requests; try again later";
	if (why) {
		braid_fleet_service_done(&a->service, endpoint, now_ns, why);
		return agent_refuse(a, p, why);
	}
	*r = (struct agent_request){
		.used = true, .number = ++a->last_number, .endpoint = endpoint, .fd = -1,
		.asked_ns = now_ns,
	};
	strcpy(r->id, id);
	strcpy(r->reply, p->reply);
	if (endpoint == BRAID_FLEET_OF_WATCH)
		braid_fleet_kept_begin(&a->kept, id);
	if (!agent_start(a, r, m))
		return;
	r->ended = true;
	agent_end(a, r, braid_failure());
}

/* The client's connection was lost: sends all answers again, numbered from 0. */
static void agent_again(struct agent *a, const struct braid_fleet_packet *p,
			const struct braid_fleet_message *m)
{
	const char *id = braid_fleet_message_text(m, "id");
	const struct braid_fleet_kept_answer *kept = braid_fleet_kept_find(&a->kept, id);
	struct agent_request *r = agent_by_id(a, id);
	u64 seq = 0;

	if (!kept)
		return agent_refuse(a, p, "it no longer has the answers to this request; 'tracebraid fleet pull' fetches its snapshots");
	if (kept->lines.bytes) {
		agent_begin(a, "rows");
		braid_fleet_message_put(&a->out, "id", id);
		braid_fleet_message_put_number(&a->out, "seq", seq++);
		braid_fleet_message_end(&a->out);
		braid_text_put(&a->out, kept->lines.data, kept->lines.bytes);
		agent_send(a, p->reply);
	}
	if (r)
		r->seq = seq;
	else if (kept->ended)
		agent_send_end(a, p->reply, id, seq, kept->error);
}

/* More messages may be sent; or none, ever. */
static void agent_flow(struct agent *a, const struct braid_fleet_message *m)
{
	struct agent_request *r = agent_by_id(a, braid_fleet_message_text(m, "id"));
	u64 more = braid_fleet_message_number(m, "more", MOST_WINDOW, 0);

	if (!r)
		return;
	if (!more) {
		braid_fleet_service_done(&a->service, r->endpoint, r->asked_ns, "");
		return agent_cancel(a, r);
	}
	r->window = r->window + more < MOST_WINDOW ? r->window + more : MOST_WINDOW;
}

/* A condition of another host began to hold, or the one that this host waits for, too. */
static void agent_take_alarm(const struct agent *a, const struct braid_fleet_message *m)
{
	static struct braid_fleet_ask ask;

	if (braid_fleet_alarm_take(m, a->service.host, a->o->conf->join, &ask))
		send(a->o->fd, &ask, sizeof(ask), MSG_NOSIGNAL);
}

static void agent_take_packet(struct agent *a, const struct braid_fleet_packet *p)
{
	const char *word = strrchr(p->subject, '.');
	static struct braid_fleet_message m;
	u64 now_ns = braid_monotonic_ns();
	u32 k;

	if (braid_fleet_service_answer(&a->service, p->subject, &a->out)) {
		if (*p->reply)
			agent_send(a, p->reply);
		return;
	}
	if (braid_fleet_message_read(&m, p->data, p->bytes)) {
		if (*p->reply)
			agent_refuse(a, p, braid_failure());
		return;
	}
	if (!strcmp(p->subject, BRAID_FLEET_ALARMS))
		return agent_take_alarm(a, &m);
	for (k = 0; k < BRAID_FLEET_ENDPOINTS && strcmp(word + 1, braid_fleet_endpoints[k]); k++)
		;
	if (k == BRAID_FLEET_ENDPOINTS) {
		if (*p->reply)
			agent_refuse(a, p, "unknown request; this host may have an older version");
		return;
	}
	if (k == BRAID_FLEET_OF_FLOW)
		agent_flow(a, &m);
	else if (k == BRAID_FLEET_OF_STATUS && *p->reply)
		agent_send_status(a, p);
	else if (k == BRAID_FLEET_OF_AGAIN && *p->reply)
		agent_again(a, p, &m);
	else if (k != BRAID_FLEET_OF_STATUS && k != BRAID_FLEET_OF_AGAIN)
		return agent_request(a, p, k, &m);
	braid_fleet_service_done(&a->service, k, now_ns, "");
}

/* The service -------------------------------------------------------------------------------- */

static void agent_publish_alarm(struct agent *a, const struct braid_fleet_answer *answer)
{
	agent_begin(a, "alarm");
	braid_fleet_alarm_put(&a->out, answer);
	agent_send(a, BRAID_FLEET_ALARMS);
}

/* Hosts that wait for it see it once, so it can be repeated; the server keeps nothing. */
static void agent_take_own_alarm(struct agent *a, const struct braid_fleet_answer *answer)
{
	agent_publish_alarm(a, answer);
	if (answer->watch)
		braid_fleet_trigger_keep(&a->triggers, answer);
}

static void agent_repeat(struct agent *a)
{
	const struct braid_fleet_answer *alarm;
	u32 k;

	for (k = 0; k < BRAID_FLEET_TRIGGERS; k++) {
		alarm = braid_fleet_trigger_take(&a->triggers, k);
		if (alarm)
			agent_publish_alarm(a, alarm);
	}
}

static void agent_listen(struct agent *a)
{
	struct braid_fleet_answer answer;
	ssize_t n = recv(a->o->fd, &answer, sizeof(answer), MSG_DONTWAIT);
	size_t k;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	a->over = n != sizeof(answer);
	if (a->over)
		return;
	answer.line[sizeof(answer.line) - 1] = answer.guest[sizeof(answer.guest) - 1] = 0;
	answer.name[sizeof(answer.name) - 1] = 0;
	if (answer.kind == BRAID_FLEET_STATE)
		a->state = answer;
	else if (answer.kind == BRAID_FLEET_ALARM)
		agent_take_own_alarm(a, &answer);
	for (k = 0; k < BRAID_FLEET_ASKS && answer.kind == BRAID_FLEET_ENDED; k++) {
		struct agent_request *r = &a->requests[k];

		if (!r->used || r->number != answer.number)
			continue;
		r->ended = true;
		r->failed = answer.failed;
		strcpy(r->line, answer.line);
	}
}

/* Turns -------------------------------------------------------------------------------------- */

/* A host that is not in the fleet is not seen by it: its journal says so. */
static void agent_look(struct agent *a)
{
	char why[BRAID_FLEET_SUBJECT], line[2 * BRAID_FLEET_PATH + 64];
	u64 now_ns = braid_monotonic_ns();
	bool connected;

	if (now_ns < a->look_ns)
		return;
	a->look_ns = now_ns + LOOK_NS;
	connected = braid_fleet_is_connected(a->link, why);
	a->absent = connected ? 0 : a->absent + 1;
	if (connected)
		agent_repeat(a);
	if (connected && !a->connected)
		snprintf(line, sizeof(line), "connected to the fleet's server %s as %s",
			 a->o->conf->server, a->service.host);
	else if (a->absent == AWAY_LOOKS)
		snprintf(line, sizeof(line), "cannot connect to the fleet's server %s%s%s; retrying",
			 a->o->conf->server, *why ? ": " : "", why);
	else
		return;
	a->connected = connected;
	agent_say(a, line);
}

/* What the server denies, and what came too fast. */
static void agent_complain(struct agent *a)
{
	char denied[BRAID_FLEET_SUBJECT], line[BRAID_FLEET_SUBJECT + 64];
	u64 dropped = braid_fleet_dropped(a->link);

	if (braid_monotonic_ns() < a->say_ns)
		return;
	if (dropped != a->dropped)
		snprintf(line, sizeof(line), "%llu messages of the fleet's server were dropped: this process was too slow",
			 (unsigned long long)(dropped - a->dropped));
	else if (braid_fleet_denied(a->link, denied))
		snprintf(line, sizeof(line), "permission denied by the fleet's server: %s", denied);
	else
		return;
	a->dropped = dropped;
	a->say_ns = braid_monotonic_ns() + SAY_NS;
	agent_say(a, line);
}

static void agent_turn(struct agent *a)
{
	struct pollfd fds[BRAID_FLEET_ASKS + 2];
	struct braid_fleet_packet *p;
	u32 n;
	size_t k;

	for (k = 0; k < BRAID_FLEET_ASKS; k++) {
		struct agent_request *r = &a->requests[k];

		/* What is not granted stays in the pipe, where its process waits. */
		fds[k] = (struct pollfd){
			.fd = r->used && r->window ? r->fd : -1, .events = POLLIN,
		};
	}
	fds[k++] = (struct pollfd){ .fd = a->o->fd, .events = POLLIN };
	fds[k++] = (struct pollfd){ .fd = braid_fleet_fd(a->link), .events = POLLIN };
	poll(fds, k, TICK_MS);
	if (fds[BRAID_FLEET_ASKS].revents)
		agent_listen(a);
	for (n = 0; n < MOST_PACKETS && !a->over && (p = braid_fleet_take(a->link)); n++) {
		agent_take_packet(a, p);
		free(p);
	}
	for (k = 0; k < BRAID_FLEET_ASKS; k++)
		if (a->requests[k].used)
			agent_turn_request(a, &a->requests[k], fds[k].fd >= 0 && fds[k].revents);
	agent_look(a);
	agent_complain(a);
}

static int agent_subscribe(struct agent *a)
{
	char subject[BRAID_FLEET_SUBJECT];
	int err = braid_fleet_service_subscribe(&a->service, a->link);

	snprintf(subject, sizeof(subject), BRAID_FLEET_SUBJECTS "%s.*", a->service.host);
	if (!err)
		err = braid_fleet_subscribe(a->link, subject);
	return err ? err : braid_fleet_subscribe(a->link, BRAID_FLEET_ALARMS);
}

int braid_fleet_agent_run(const struct braid_fleet_agent_options *o)
{
	struct agent a = { .o = o };
	u64 number = 0;
	size_t k;
	int err = braid_fleet_host_name(o->conf, a.service.host);

	for (k = 0; k < BRAID_FLEET_ASKS; k++)
		a.requests[k].fd = -1;
	if (!err && getrandom(&number, sizeof(number), 0) != sizeof(number))
		err = braid_fail(-errno, "no random number: %s", strerror(errno));
	snprintf(a.instance, sizeof(a.instance), "%016llx", (unsigned long long)number);
	if (!err)
		err = braid_fleet_open(&a.link, o->conf, a.service.host, o->confine, true);
	if (!err)
		err = agent_subscribe(&a);
	while (!err && !a.over)
		agent_turn(&a);
	for (k = 0; k < BRAID_FLEET_ASKS; k++)
		if (a.requests[k].used)
			agent_cancel(&a, &a.requests[k]);
	if (err)
		agent_say(&a, braid_failure());
	braid_fleet_kept_free(&a.kept);
	braid_text_free(&a.out);
	braid_fleet_close(a.link);
	return err;
}
