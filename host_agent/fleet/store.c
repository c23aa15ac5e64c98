// SPDX-License-Identifier: GPL-2.0-or-later
/* Messages of the fleet's store. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/fleet/store.h"
#include "host_agent/util/error.h"

#define WRONG_LAST	10071u	/* the server's error: the subject's last message is another one */
#define WORD_BYTES	200u

/* Pieces ------------------------------------------------------------------------------------- */

int braid_store_piece_read(struct braid_store_piece *piece, const char *data, size_t bytes)
{
	static struct braid_fleet_message m;
	int err = braid_fleet_message_read(&m, data, bytes);
	const char *kind;

	if (err)
		return err;
	kind = braid_fleet_message_text(&m, "kind");
	*piece = (struct braid_store_piece){
		.number = braid_fleet_message_number(&m, "number", INT64_MAX, UINT64_MAX),
		.from = braid_fleet_message_number(&m, "from", INT64_MAX, UINT64_MAX),
		.end = !strcmp(kind, "end"),
		.lost = strcmp(braid_fleet_message_text(&m, "lost"), "unknown") ?
			braid_fleet_message_number(&m, "lost", INT64_MAX, 0) : BRAID_STORE_UNKNOWN,
		.data = m.body, .bytes = m.bytes,
	};
	snprintf(piece->check, sizeof(piece->check), "%.19s", braid_fleet_message_text(&m, "check"));
	if ((!piece->end && strcmp(kind, "chunk")) || piece->number == UINT64_MAX ||
	    piece->from == UINT64_MAX || piece->bytes > BRAID_STORE_CHUNK ||
	    !piece->bytes != piece->end)
		return braid_fail(-EBADMSG, "not a piece of a capture");
	return 0;
}

void braid_store_piece_put(struct braid_text *out, const struct braid_store_piece *piece)
{
	braid_fleet_message_begin(out);
	braid_fleet_message_put(out, "kind", piece->end ? "end" : "chunk");
	braid_fleet_message_put_number(out, "number", piece->number);
	braid_fleet_message_put_number(out, "from", piece->from);
	if (piece->end) {
		if (piece->lost == BRAID_STORE_UNKNOWN)
			braid_fleet_message_put(out, "lost", "unknown");
		else
			braid_fleet_message_put_number(out, "lost", piece->lost);
		braid_fleet_message_put(out, "check", piece->check);
	}
	braid_fleet_message_end(out);
}

/* Subjects ----------------------------------------------------------------------------------- */

void braid_store_subject(char subject[BRAID_FLEET_SUBJECT], const char *host, const char *name)
{
	snprintf(subject, BRAID_FLEET_SUBJECT, BRAID_STORE_SUBJECTS "%s.%s", host, name);
}

bool braid_store_subject_read(const char *subject, char host[BRAID_FLEET_NAME],
			      char name[BRAID_FLEET_NAME])
{
	size_t skip = strlen(BRAID_STORE_SUBJECTS), n;

	if (strncmp(subject, BRAID_STORE_SUBJECTS, skip))
		return false;
	subject += skip;
	n = strcspn(subject, ".");
	if (!subject[n] || n >= BRAID_FLEET_NAME)
		return false;
	memcpy(host, subject, n);
	host[n] = 0;
	if (strlen(subject + n + 1) >= BRAID_FLEET_NAME)
		return false;
	strcpy(name, subject + n + 1);
	return braid_fleet_name_is_valid(host) && braid_fleet_name_is_valid(name);
}

/* Answers ------------------------------------------------------------------------------------ */

/* What follows a key of the server's JSON; "": there is no such key. */
static const char *store_member(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	if (!at)
		return "";
	at += strlen(key);
	return at + strspn(at, " :\"");
}

void braid_store_answer_read(struct braid_store_answer *a, const char *data, size_t bytes)
{
	char text[1024];
	const char *why;

	*a = (struct braid_store_answer){ 0 };
	snprintf(text, sizeof(text), "%.*s", (int)(bytes < sizeof(text) ? bytes : sizeof(text) - 1),
		 data);
	if (strstr(text, "\"error\"")) {
		why = store_member(text, "\"description\"");
		snprintf(a->why, sizeof(a->why), "%.*s",
			 (int)(strcspn(why, "\"") < WORD_BYTES ? strcspn(why, "\"") : WORD_BYTES),
			 why);
		braid_text_clean(a->why);
		a->differs = strtoul(store_member(text, "\"err_code\""), NULL, 10) == WRONG_LAST;
	} else {
		a->sequence = strtoull(store_member(text, "\"seq\""), NULL, 10);
	}
	if (!a->sequence && !*a->why)
		snprintf(a->why, sizeof(a->why), "it was refused");
}

/* Marks -------------------------------------------------------------------------------------- */

bool braid_store_mark_is(const char *text, size_t bytes, const char **at)
{
	size_t n = strlen(BRAID_STORE_MARK);

	if (bytes <= n || memcmp(text, BRAID_STORE_MARK "\n", n + 1))
		return false;
	*at = text + n + 1;
	return true;
}

const char *braid_store_mark_next(const char **at, const char *end, char name[BRAID_FLEET_NAME])
{
	const char *feed;

	for (; *at < end; *at = feed + 1) {
		feed = memchr(*at, '\n', end - *at);
		if (!feed)
			return NULL;
		if (feed - *at >= (int)BRAID_FLEET_NAME)
			continue;
		snprintf(name, BRAID_FLEET_NAME, "%.*s", (int)(feed - *at), *at);
		if (!braid_fleet_name_is_valid(name))
			continue;
		*at = feed + 1;
		return name;
	}
	return NULL;
}
