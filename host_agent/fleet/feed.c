// SPDX-License-Identifier: GPL-2.0-or-later
/* Puts captures into the fleet's store. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/fleet/feed_item.h"
#include "host_agent/fleet/service.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define TICK_MS		100
#define LOOK_NS		(100 * BRAID_FLEET_MS)
#define TELL_NS		BRAID_SECOND_NS
#define SOON_NS		BRAID_SECOND_NS	/* until bytes are sent, though they are few */
#define SILENT_NS	(5 * BRAID_SECOND_NS)	/* then the store is stuck */
#define LINES_NS	(60 * BRAID_SECOND_NS)
#define MOST_LINES	10u
#define RETRY_NS	BRAID_SECOND_NS
#define MOST_NOTES	1024u	/* of captures that are lost */
#define MOST_UNDER_WAY	4u		/* captures; of each one message */

/* Debian 12's server says nothing either if there is no store. */
#define SILENT		"the fleet's store has not answered for 5 s; if it does not exist, run 'tracebraid fleet store --space=SIZE'"

struct feed {
	const struct braid_feed_options *o;
	struct braid_fleet_link *link;
	struct braid_feed_items files;
	char host[BRAID_FLEET_NAME];
	struct braid_text out;
	struct braid_feed_news news;
	char trouble[BRAID_FEED_LINE];	/* that was said last; "": none */
	u64 lines_ns;		/* until then MOST_LINES are said */
	u64 lines, left_out;
	u64 connections;
	u64 token;
	u64 look_ns, tell_ns;
	bool finishes, over;
};

/* What is said --------------------------------------------------------------------------------- */

static void feed_send_news(struct feed *f)
{
	send(f->o->fd, &f->news, sizeof(f->news), MSG_NOSIGNAL);
	*f->news.line = 0;
}

static void feed_say(struct feed *f, const char *line)
{
	snprintf(f->news.line, sizeof(f->news.line), "%s", line);
	feed_send_news(f);
}

/* A line of the journal, so many in a time at most; further ones are counted. */
static void feed_complain(struct feed *f, const char *line)
{
	u64 now_ns = braid_monotonic_ns();
	char text[BRAID_FEED_LINE];

	if (now_ns >= f->lines_ns) {
		if (f->left_out) {
			snprintf(text, sizeof(text), "%llu lines about the fleet's store were left out",
				 (unsigned long long)f->left_out);
			feed_say(f, text);
		}
		f->lines = f->left_out = 0;
		f->lines_ns = now_ns + LINES_NS;
	}
	if (f->lines++ < MOST_LINES)
		feed_say(f, line);
	else
		f->left_out++;
}

/* Once for each change. */
static void feed_trouble(struct feed *f, const char *line)
{
	char text[BRAID_FEED_LINE];

	snprintf(text, sizeof(text), "%s", line);
	if (!strcmp(f->trouble, text))
		return;
	feed_complain(f, *text ? text : "captures are stored in the fleet's store again");
	strcpy(f->trouble, text);
}

static void feed_tell(struct feed *f)
{
	u64 now_ns = braid_monotonic_ns();
	size_t k;

	if (now_ns < f->tell_ns)
		return;
	f->tell_ns = now_ns + TELL_NS;
	f->news.waiting = 0;
	f->news.lost = f->files.lost;
	for (k = 0; k < f->files.nr; k++) {
		const struct braid_feed_item *i = &f->files.items[k];

		if (i->state != BRAID_FEED_STORED)
			f->news.waiting += i->bytes > i->from ? i->bytes - i->from : 0;
	}
	feed_send_news(f);
}

/* Messages ------------------------------------------------------------------------------------- */

static void feed_again(struct braid_feed_item *i, u64 wait_ns)
{
	i->state = BRAID_FEED_ASK;
	i->token = 0;
	i->retry_ns = braid_monotonic_ns() + wait_ns;
}

static void feed_reply(struct feed *f, struct braid_feed_item *i, char reply[BRAID_FLEET_SUBJECT])
{
	i->token = ++f->token;
	i->sent_ns = braid_monotonic_ns();
	snprintf(reply, BRAID_FLEET_SUBJECT, "%.200s.%llu", braid_fleet_inbox(f->link),
		 (unsigned long long)i->token);
}

/* The last message of its subject. */
static void feed_ask(struct feed *f, struct braid_feed_item *i)
{
	char subject[BRAID_FLEET_SUBJECT + 64], own[BRAID_FLEET_SUBJECT];
	char reply[BRAID_FLEET_SUBJECT];

	braid_store_subject(own, f->host, i->name);
	snprintf(subject, sizeof(subject), BRAID_STORE_READ ".%s", own);
	feed_reply(f, i, reply);
	i->state = BRAID_FEED_ASKED;
	if (braid_fleet_publish(f->link, subject, reply, "", 0))
		feed_again(i, RETRY_NS);
}

/* How many bytes are to be sent now; -1: nothing is, 0: the end is. */
static ssize_t feed_ready(const struct feed *f, const struct braid_feed_item *i)
{
	u64 left = i->bytes > i->from ? i->bytes - i->from : 0;

	if (left >= BRAID_STORE_CHUNK)
		return BRAID_STORE_CHUNK;
	if (i->complete)
		return braid_feed_item_waits(&f->files, i) ? -1 : (ssize_t)left;
	return left && braid_monotonic_ns() - i->sent_ns >= SOON_NS ? (ssize_t)left : -1;
}

/* Return: 0, or -errno with braid_fail(). */
static int feed_make(struct feed *f, struct braid_feed_item *i, size_t bytes)
{
	struct braid_store_piece piece = { .number = i->number, .from = i->from };
	ssize_t n;
	char *to;
	int err = bytes ? 0 : braid_feed_item_end(&f->files, i, &piece);

	if (err)
		return err;
	braid_store_piece_put(&f->out, &piece);
	if (!bytes)
		return 0;
	to = braid_text_reserve(&f->out, bytes);
	if (!to)
		return braid_out_of_memory();
	n = braid_feed_item_read(&f->files, i, i->from, to, bytes);
	if (n != (ssize_t)bytes)
		return n < 0 ? n : braid_fail(-EIO, "%s: it has become shorter", i->name);
	f->out.bytes += n;
	return 0;
}

static void feed_send(struct feed *f, struct braid_feed_item *i)
{
	ssize_t bytes = feed_ready(f, i);
	char subject[BRAID_FLEET_SUBJECT], reply[BRAID_FLEET_SUBJECT], id[BRAID_FLEET_SUBJECT];

	if (bytes < 0)
		return;
	if (feed_make(f, i, bytes)) {
		feed_trouble(f, braid_failure());
		return feed_again(i, RETRY_NS);
	}
	braid_store_subject(subject, f->host, i->name);
	snprintf(id, sizeof(id), "%s.%s.%llu.%zd", f->host, i->name, (unsigned long long)i->number,
		 bytes);
	feed_reply(f, i, reply);
	i->state = BRAID_FEED_SENT;
	i->sent = bytes;
	if (braid_fleet_publish_to_store(f->link, subject, reply, &f->out, id, i->after))
		feed_again(i, RETRY_NS);
}

/* Answers ------------------------------------------------------------------------------------- */

static void feed_stored(struct feed *f, struct braid_feed_item *i)
{
	i->state = BRAID_FEED_STORED;
	i->token = 0;
	i->stored_ns = braid_monotonic_ns();
	feed_trouble(f, "");
}

/* The store has said what it has of a file. */
static void feed_continue(struct feed *f, struct braid_feed_item *i,
			  const struct braid_fleet_packet *p)
{
	struct braid_store_piece piece = { 0 };

	if (!p->missing && braid_store_piece_read(&piece, p->data, p->bytes)) {
		feed_trouble(f, braid_failure());
		return feed_again(i, RETRY_NS);
	}
	i->token = 0;
	i->number = p->missing ? 0 : piece.number + 1;
	i->from = p->missing ? 0 : piece.from + piece.bytes;
	i->after = p->missing ? 0 : p->sequence;
	if (piece.end)
		return feed_stored(f, i);
	i->state = BRAID_FEED_READY;
	i->sent_ns = 0;
}

static void feed_advance(struct feed *f, struct braid_feed_item *i,
			 const struct braid_fleet_packet *p)
{
	char line[2 * BRAID_FLEET_SUBJECT];
	struct braid_store_answer answer;

	braid_store_answer_read(&answer, p->data, p->bytes);
	if (!answer.sequence) {
		if (!answer.differs) {
			snprintf(line, sizeof(line), "the fleet's store refuses captures: %s", answer.why);
			feed_trouble(f, line);
		}
		return feed_again(i, answer.differs ? 0 : RETRY_NS);
	}
	f->news.stored += i->sent;
	if (!i->sent)
		return feed_stored(f, i);
	i->token = 0;
	i->number++;
	i->from += i->sent;
	i->after = answer.sequence;
	i->state = BRAID_FEED_READY;
	feed_trouble(f, "");
}

static void feed_take(struct feed *f, const struct braid_fleet_packet *p)
{
	const char *word = strrchr(p->subject, '.');
	u64 token = word ? strtoull(word + 1, NULL, 10) : 0;
	struct braid_feed_item *i = f->files.items, *end = i + f->files.nr;

	while (i < end && i->token != token)
		i++;
	if (!token || i == end)
		return;		/* it is late: what is stored was asked for again */
	if (p->no_responders) {
		feed_trouble(f, "the fleet's server has no store: 'tracebraid fleet store --space=SIZE' makes it, if JetStream is configured");
		feed_again(i, RETRY_NS);
	} else if (i->state == BRAID_FEED_ASKED) {
		feed_continue(f, i, p);
	} else {
		feed_advance(f, i, p);
	}
}

/* Space ---------------------------------------------------------------------------------------- */

/* The oldest one that frees memory. @stored: of those that are in the store. */
static struct braid_feed_item *feed_oldest(struct feed *f, bool stored)
{
	size_t k;

	for (k = 0; k < f->files.nr; k++) {
		struct braid_feed_item *i = &f->files.items[k];

		if (i->kind == BRAID_FEED_IS_CAPTURE && i->complete && !i->shared &&
		    (i->state == BRAID_FEED_STORED) == stored)
			return i;
	}
	return NULL;
}

static u64 feed_space(const struct feed *f)
{
	u64 bytes = 0;
	size_t k;

	for (k = 0; k < f->files.nr; k++)
		if (!f->files.items[k].shared)
			bytes += f->files.items[k].bytes;
	return bytes;
}

static int feed_make_space(struct feed *f)
{
	struct braid_feed_item *i;
	char line[BRAID_FEED_LINE];
	s64 lost;
	int err;

	if (feed_space(f) <= f->o->conf->stream_bytes)
		return 0;
	i = feed_oldest(f, true);
	if (i) {
		snprintf(line, sizeof(line), "%s: removed before the fleet's server has certainly written it to its disk: no more space for captures that wait",
			 i->name);
		err = braid_feed_item_remove(&f->files, i);
		if (err)
			return err;
	} else {
		i = feed_oldest(f, false);
		if (!i)
			return 0;
		lost = braid_feed_item_lose(&f->files, i);
		if (lost < 0)
			return lost;
		snprintf(line, sizeof(line), "%s: up to %llu bytes of this capture are lost: stream-space is full",
			 i->name, (unsigned long long)lost);
	}
	feed_complain(f, line);
	err = braid_feed_items_look(&f->files);
	return err ? err : 1;
}

/* Without a store for long, notes of what is lost would be too many: the oldest are forgotten. */
static int feed_limit_notes(struct feed *f)
{
	char line[BRAID_FEED_LINE];
	size_t nr = 0, k, removed = 0;
	int err = 0;

	for (k = 0; k < f->files.nr; k++)
		nr += f->files.items[k].kind == BRAID_FEED_IS_LOST;
	for (k = 0; k < f->files.nr && nr - removed > MOST_NOTES && !err; k++)
		if (f->files.items[k].kind == BRAID_FEED_IS_LOST) {
			err = braid_feed_item_remove(&f->files, &f->files.items[k]);
			removed++;
		}
	if (err || !removed)
		return err;
	snprintf(line, sizeof(line), "%zu captures are lost without a note in the fleet's store: more than %u notes wait",
		 removed, MOST_NOTES);
	feed_complain(f, line);
	return braid_feed_items_look(&f->files);
}

static int feed_remove_stored(struct feed *f)
{
	u64 now_ns = braid_monotonic_ns();
	size_t k;
	int err = 0;

	for (k = 0; k < f->files.nr && !err; k++) {
		struct braid_feed_item *i = &f->files.items[k];

		if (i->state == BRAID_FEED_STORED && !i->shared &&
		    now_ns - i->stored_ns >= f->o->conf->stream_sync_ns)
			err = braid_feed_item_remove(&f->files, i);
	}
	return err;
}

static int feed_look(struct feed *f)
{
	u64 now_ns = braid_monotonic_ns();
	int ret;

	if (now_ns < f->look_ns)
		return 0;
	f->look_ns = now_ns + LOOK_NS;
	ret = braid_feed_items_look(&f->files);
	while (!ret) {
		ret = feed_make_space(f);
		if (!ret)
			break;
		ret = ret < 0 ? ret : 0;
	}
	ret = ret ?: feed_limit_notes(f);
	return ret ?: feed_remove_stored(f);
}

/* Turns ---------------------------------------------------------------------------------------- */

/* After a new connection nothing is certain: not what was under way, nor what a server kept. */
static bool feed_is_connected(struct feed *f)
{
	char why[BRAID_FLEET_SUBJECT];
	u64 connections = braid_fleet_connections(f->link);
	size_t k;

	if (connections != f->connections)
		for (k = 0; k < f->files.nr; k++)
			feed_again(&f->files.items[k], 0);
	f->connections = connections;
	return braid_fleet_is_connected(f->link, why);
}

static bool feed_waits(const struct braid_feed_item *i)
{
	return i->state == BRAID_FEED_ASKED || i->state == BRAID_FEED_SENT;
}

static void feed_turn_item(struct feed *f, struct braid_feed_item *i)
{
	if (braid_monotonic_ns() < i->retry_ns)
		return;
	if (i->state == BRAID_FEED_ASK)
		feed_ask(f, i);
	else if (i->state == BRAID_FEED_READY)
		feed_send(f, i);
}

/* The oldest ones first; of all, so many are under way at most. */
static void feed_turn_items(struct feed *f)
{
	u64 now_ns = braid_monotonic_ns();
	size_t k, under_way = 0;

	for (k = 0; k < f->files.nr; k++) {
		struct braid_feed_item *i = &f->files.items[k];

		if (feed_waits(i) && now_ns - i->sent_ns > SILENT_NS) {
			feed_trouble(f, SILENT);
			feed_again(i, 0);
		}
		under_way += feed_waits(i);
	}
	for (k = 0; k < f->files.nr && under_way < MOST_UNDER_WAY; k++)
		if (!feed_waits(&f->files.items[k])) {
			feed_turn_item(f, &f->files.items[k]);
			under_way += feed_waits(&f->files.items[k]);
		}
}

static void feed_listen(struct feed *f)
{
	char byte;
	ssize_t n = recv(f->o->fd, &byte, 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	f->over = n <= 0;
	f->finishes = true;
}

static bool feed_is_done(const struct feed *f)
{
	size_t k;

	for (k = 0; k < f->files.nr; k++)
		if (f->files.items[k].state != BRAID_FEED_STORED)
			return false;
	return f->finishes;
}

static int feed_turn(struct feed *f)
{
	struct pollfd fds[] = {
		{ .fd = f->o->fd, .events = POLLIN },
		{ .fd = braid_fleet_fd(f->link), .events = POLLIN },
	};
	char denied[BRAID_FLEET_SUBJECT], line[BRAID_FLEET_SUBJECT + 64];
	struct braid_fleet_packet *p;
	int err;

	poll(fds, 2, TICK_MS);
	if (fds[0].revents)
		feed_listen(f);
	err = feed_look(f);
	if (err)
		return err;
	while ((p = braid_fleet_take(f->link))) {
		feed_take(f, p);
		free(p);
	}
	if (braid_fleet_denied(f->link, denied)) {
		snprintf(line, sizeof(line), "permission denied by the fleet's server: %s", denied);
		feed_trouble(f, line);
	}
	if (feed_is_connected(f))
		feed_turn_items(f);
	feed_tell(f);
	f->over |= feed_is_done(f);
	return 0;
}

int braid_feed_run(const struct braid_feed_options *o)
{
	struct feed f = { .o = o, .files.folder = -1 };
	char subject[BRAID_FLEET_SUBJECT];
	int err = braid_fleet_host_name(o->conf, f.host);

	if (!err) {
		f.files.folder = open(o->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		err = f.files.folder < 0 ? braid_fail(-errno, "%s: %s", o->folder, strerror(errno)) : 0;
	}
	if (!err)	/* also if what follows fails each time: the folder is in memory */
		err = feed_look(&f);
	if (!err)
		err = braid_fleet_open(&f.link, o->conf, "tracebraid store", o->confine, true);
	if (!err) {
		snprintf(subject, sizeof(subject), "%.200s.*", braid_fleet_inbox(f.link));
		err = braid_fleet_subscribe(f.link, subject);
	}
	while (!err && !f.over)
		err = feed_turn(&f);
	if (err)
		feed_say(&f, braid_failure());
	braid_fleet_close(f.link);
	braid_text_free(&f.out);
	free(f.files.items);
	if (f.files.folder >= 0)
		close(f.files.folder);
	return err;
}
