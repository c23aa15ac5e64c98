// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads captures from the fleet's store. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "host_agent/fleet/fetch.h"
#include "host_agent/fleet/store.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "host_agent/util/monotonic.h"

#define TICK_MS		50
#define TRY_NS		(5 * BRAID_SECOND_NS)	/* for an answer; then the request is sent again */
#define MOST_TRIES	3u
#define API		"$JS.API.STREAM."

struct fetch {
	const struct braid_fetch_options *o;
	struct braid_fleet_link *link;
	u64 token;
	int folder;
	int nr;
};

/* Requests ----------------------------------------------------------------------------------- */

static int fetch_open(struct fetch *f)
{
	char subject[BRAID_FLEET_SUBJECT];
	int err = braid_fleet_open(&f->link, f->o->conf, "tracebraid", f->o->confine, false);

	if (err)
		return err;
	snprintf(subject, sizeof(subject), "%.200s.*", braid_fleet_inbox(f->link));
	return braid_fleet_subscribe(f->link, subject);
}

static void fetch_close(struct fetch *f)
{
	braid_fleet_close(f->link);
	if (f->folder >= 0)
		close(f->folder);
}

/* The answer to the last request; NULL: none yet. */
static struct braid_fleet_packet *fetch_take(struct fetch *f)
{
	struct braid_fleet_packet *p;
	const char *word;

	while ((p = braid_fleet_take(f->link))) {
		word = strrchr(p->subject, '.');
		if (word && strtoull(word + 1, NULL, 10) == f->token)
			return p;
		free(p);	/* of a request that was sent again */
	}
	return NULL;
}

/* @p: set on success; to be freed. Return: 0, or -errno with braid_fail(). */
static int fetch_ask(struct fetch *f, const char *subject, const char *request,
		     struct braid_fleet_packet **p)
{
	struct pollfd fd = { .fd = braid_fleet_fd(f->link), .events = POLLIN };
	char reply[BRAID_FLEET_SUBJECT], line[BRAID_FLEET_SUBJECT];
	u64 sent_ns;
	u32 tries;
	int err;

	for (tries = 0; tries < MOST_TRIES; tries++) {
		snprintf(reply, sizeof(reply), "%.200s.%llu", braid_fleet_inbox(f->link),
			 (unsigned long long)++f->token);
		err = braid_fleet_publish(f->link, subject, reply, request, strlen(request));
		if (err && err != -EAGAIN)
			return err;
		sent_ns = braid_monotonic_ns();
		while (braid_monotonic_ns() - sent_ns < TRY_NS) {
			poll(&fd, 1, TICK_MS);
			if (*f->o->stop)
				return braid_fail(-EINTR, "interrupted");
			*p = fetch_take(f);
			if (*p && !(*p)->no_responders)
				return 0;
			if (*p) {
				free(*p);
				return braid_fail(-ENOENT, "the fleet's server has no store: 'tracebraid fleet store --space=SIZE' makes it, if JetStream is configured");
			}
			if (braid_fleet_denied(f->link, line))
				return braid_fail(-EACCES, "permission denied by the server: %s", line);
		}
	}
	return braid_fail(-ETIMEDOUT, "the fleet's store does not answer; if there is none, 'tracebraid fleet store --space=SIZE' makes it");
}

/* The first message from a sequence on, of a subject that may have wildcards. */
static int fetch_next(struct fetch *f, const char *subject, u64 sequence,
		      struct braid_fleet_packet **p)
{
	char request[BRAID_FLEET_SUBJECT + 64];

	snprintf(request, sizeof(request), "{\"seq\":%llu,\"next_by_subj\":\"%s\"}",
		 (unsigned long long)sequence, subject);
	return fetch_ask(f, BRAID_STORE_READ, request, p);
}

/* Captures ----------------------------------------------------------------------------------- */

struct fetch_one {
	const char *host, *name;
	struct braid_text *text;	/* of a mark; NULL: to ->fd */
	int fd;
	u64 number, from;		/* of the next piece */
	XXH3_state_t *state;
	bool ended;
};

static void fetch_say(struct fetch *f, const struct fetch_one *one, const char *what, u64 number)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "%s: %s: ", one->host, one->name);

	snprintf(line + n, sizeof(line) - n, what, (unsigned long long)number);
	f->o->say(line);
}

static int fetch_store(struct fetch_one *one, const struct braid_store_piece *piece)
{
	int err = 0;

	XXH3_64bits_update(one->state, piece->data, piece->bytes);
	one->from += piece->bytes;
	if (one->text && one->from > BRAID_STORE_MOST_MARK)
		return braid_fail(-EFBIG, "%s/%s: not a mark", one->host, one->name);
	if (one->text)
		braid_text_put(one->text, piece->data, piece->bytes);
	else
		err = braid_write_all(one->fd, piece->data, piece->bytes);
	return err ? braid_fail(err, "a capture of the store cannot be written: %s", strerror(-err)) : 0;
}

static void fetch_end(struct fetch *f, struct fetch_one *one, const struct braid_store_piece *piece)
{
	char check[BRAID_STORE_CHECK];

	one->ended = true;
	snprintf(check, sizeof(check), "%016llx",
		 (unsigned long long)XXH3_64bits_digest(one->state));
	if (piece->lost == BRAID_STORE_UNKNOWN)
		fetch_say(f, one, "lost on the host, before it could be stored", 0);
	else if (piece->lost)
		fetch_say(f, one, "the last %llu bytes were lost on the host: the store was not available for too long", piece->lost);
	else if (*piece->check && strcmp(check, piece->check))
		fetch_say(f, one, "its checksum is not that of the host", 0);
}

/* Return: 0; 1: it is over; or -errno with braid_fail(). */
static int fetch_piece(struct fetch *f, struct fetch_one *one, const struct braid_fleet_packet *p)
{
	struct braid_store_piece piece;
	int err = braid_store_piece_read(&piece, p->data, p->bytes);

	if (err)
		return err;
	if (piece.number < one->number)
		return 0;	/* it was stored before */
	if (piece.number > one->number || piece.from != one->from) {
		fetch_say(f, one, "message %llu is missing in the store: the rest is not read", one->number);
		one->ended = true;
		return 1;
	}
	one->number++;
	if (!piece.end)
		return fetch_store(one, &piece);
	fetch_end(f, one, &piece);
	return 1;
}

static int fetch_pieces(struct fetch *f, struct fetch_one *one)
{
	char subject[BRAID_FLEET_SUBJECT];
	struct braid_fleet_packet *p;
	u64 sequence = 1;
	int ret = 0;

	one->state = XXH3_createState();
	if (!one->state)
		return braid_out_of_memory();
	XXH3_64bits_reset(one->state);
	braid_store_subject(subject, one->host, one->name);
	while (!ret) {
		ret = fetch_next(f, subject, sequence, &p);
		if (ret)
			break;
		if (p->missing || p->sequence < sequence)
			ret = 1;
		else
			ret = fetch_piece(f, one, p);
		sequence = p->sequence + 1;
		free(p);
	}
	if (ret > 0 && !one->ended && one->number)
		fetch_say(f, one, "not complete in the store yet: %llu bytes", one->from);
	XXH3_freeState(one->state);
	return ret < 0 ? ret : 0;
}

static int fetch_capture(struct fetch *f, const char *host, const char *name)
{
	struct fetch_one one = { .host = host, .name = name };
	char file[2 * BRAID_FLEET_NAME + 8];
	int err;

	snprintf(file, sizeof(file), "%s.%s.braid", host, name);
	braid_auto_fd int fd = openat(f->folder, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
				      0600);

	if (fd < 0 && errno != EEXIST)
		return braid_fail(-errno, "%s: %s", file, strerror(errno));
	if (fd < 0) {
		f->nr++;	/* another snapshot has it, too */
		return 0;
	}
	one.fd = fd;
	err = fetch_pieces(f, &one);
	if (!err && !one.number)
		fetch_say(f, &one, "not in the store: removed by its age, or never stored", 0);
	if (err || !one.from)
		unlinkat(f->folder, file, 0);
	else
		f->nr++;
	return err;
}

/* A name is that of a mark, or of a capture, whose first bytes differ. */
static int fetch_named(struct fetch *f, const char *host, const char *name,
		       const struct braid_fleet_packet *first)
{
	struct braid_text text = { 0 };
	struct fetch_one one = { .host = host, .name = name, .text = &text };
	char next[BRAID_FLEET_NAME];
	struct braid_store_piece piece;
	const char *at;
	int err = braid_store_piece_read(&piece, first->data, first->bytes);

	if (err)
		return err;
	if (!braid_store_mark_is(piece.data, piece.bytes, &at))
		return fetch_capture(f, host, name);
	err = fetch_pieces(f, &one);
	if (!err && text.failed)
		err = braid_out_of_memory();
	if (!err && braid_store_mark_is(text.data, text.bytes, &at))
		while (!err && braid_store_mark_next(&at, text.data + text.bytes, next))
			err = fetch_capture(f, host, next);
	braid_text_free(&text);
	return err;
}

/* All that have the name; the first message of each says what it is. @one: of one host alone. */
static int fetch_all(struct fetch *f, const char *pattern, const char *word, bool one)
{
	char host[BRAID_FLEET_NAME], name[BRAID_FLEET_NAME], former[BRAID_FLEET_NAME] = "";
	struct braid_fleet_packet *p;
	bool found = false, over = false;
	u64 sequence = 1;
	int err = 0;

	while (!err && !over) {
		err = fetch_next(f, pattern, sequence, &p);
		if (err)
			break;
		over = p->missing || p->sequence < sequence ||
		       !braid_store_subject_read(p->of, host, name);
		if (!over && strcmp(host, former)) {
			err = fetch_named(f, host, name, p);
			found = true;
			strcpy(former, host);
			over = one;
		}
		sequence = p->sequence + 1;
		free(p);
	}
	return err || found ? err :
	       braid_fail(-ENOENT, "%s: the store has no snapshot and no capture of this name (yet)", word);
}

int braid_fetch_captures(const struct braid_fetch_options *o, const char *word)
{
	const char *slash = strchr(word, '/'), *name = slash ? slash + 1 : word;
	struct fetch f = { .o = o, .folder = -1 };
	char host[BRAID_FLEET_NAME] = "*", pattern[BRAID_FLEET_SUBJECT];
	int err;

	if (slash)
		snprintf(host, sizeof(host), "%.*s",
			 (int)(slash - word < (int)sizeof(host) ? slash - word : 0), word);
	if (!braid_fleet_name_is_valid(name) || (slash && !braid_fleet_name_is_valid(host)))
		return braid_fail(-EINVAL, "'%s': expected the name of a snapshot, or HOST/NAME", word);
	braid_store_subject(pattern, host, name);
	f.folder = open(o->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = f.folder < 0 ? braid_fail(-errno, "%s: %s", o->folder, strerror(errno)) : fetch_open(&f);
	if (!err)
		err = fetch_all(&f, pattern, word, slash);
	fetch_close(&f);
	return err ? err : f.nr;
}

/* The stream --------------------------------------------------------------------------------- */

int braid_fetch_make_store(const struct braid_fetch_options *o, u64 bytes, u64 seconds,
			   struct braid_text *state)
{
	struct fetch f = { .o = o, .folder = -1 };
	struct braid_store_answer answer;
	struct braid_fleet_packet *p = NULL;
	char request[512] = "";
	int err = fetch_open(&f);

	if (bytes)
		snprintf(request, sizeof(request), "{\"name\":\"" BRAID_STORE "\",\"subjects\":[\"" BRAID_STORE_SUBJECTS ">\"],\"retention\":\"limits\",\"max_consumers\":-1,\"max_msgs\":-1,\"max_bytes\":%llu,\"max_age\":%llu,\"max_msgs_per_subject\":-1,\"max_msg_size\":-1,\"discard\":\"new\",\"storage\":\"file\",\"num_replicas\":1,\"duplicate_window\":120000000000,\"allow_direct\":true}",
			 (unsigned long long)bytes,
			 (unsigned long long)seconds * 1000000000ULL);
	if (!err)
		err = fetch_ask(&f, bytes ? API "CREATE." BRAID_STORE : API "INFO." BRAID_STORE, request,
				&p);
	if (!err) {
		braid_store_answer_read(&answer, p->data, p->bytes);
		if (strstr(p->data, "\"error\""))
			err = braid_fail(-EIO, "the store: %s", answer.why);
		else
			braid_text_put(state, p->data, p->bytes);
		free(p);
	}
	fetch_close(&f);
	return err;
}
