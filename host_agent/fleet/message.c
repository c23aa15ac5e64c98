// SPDX-License-Identifier: GPL-2.0-or-later
/* Payloads of the fleet. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/fleet/message.h"
#include "host_agent/util/error.h"

#define MAGIC	"tracebraid "

static int message_refuse(void)
{
	return braid_fail(-EBADMSG, "not a message of the fleet");
}

/* Takes one line of the head, which ends with NUL now. */
static int message_take(struct braid_fleet_message *m, char *line)
{
	char *blank = strchr(line, ' ');

	if (!blank || blank == line || m->nr == BRAID_FLEET_FIELDS)
		return message_refuse();
	*blank = 0;
	braid_text_clean(blank + 1);
	m->fields[m->nr].key = line;
	m->fields[m->nr++].value = blank + 1;
	return 0;
}

int braid_fleet_message_read(struct braid_fleet_message *m, const char *data, size_t bytes)
{
	size_t most = bytes < BRAID_FLEET_HEAD ? bytes : BRAID_FLEET_HEAD, skip = strlen(MAGIC);
	const char *end = most ? memmem(data, most, "\n\n", 2) : NULL;
	char *line, *rest;
	int err = 0;

	if (!end || bytes < skip || memcmp(data, MAGIC, skip) || memchr(data, 0, end - data))
		return message_refuse();
	memcpy(m->head, data, end - data);
	m->head[end - data] = 0;
	m->nr = 0;
	m->body = end + 2;
	m->bytes = bytes - (m->body - data);
	line = strtok_r(m->head, "\n", &rest);
	if (atoi(line + skip) != BRAID_FLEET_VERSION)
		return braid_fail(-EPROTO, "of version %d of the fleet's messages; this is %d",
				  atoi(line + skip), BRAID_FLEET_VERSION);
	while (!err && (line = strtok_r(NULL, "\n", &rest)))
		err = message_take(m, line);
	return err;
}

const char *braid_fleet_message_text(const struct braid_fleet_message *m, const char *key)
{
	size_t k;

	for (k = 0; k < m->nr; k++)
		if (!strcmp(m->fields[k].key, key))
			return m->fields[k].value;
	return "";
}

u64 braid_fleet_message_number(const struct braid_fleet_message *m, const char *key, u64 most,
			       u64 otherwise)
{
	const char *text = braid_fleet_message_text(m, key);
	unsigned long long value;
	char *end;

	if (*text < '0' || *text > '9')
		return otherwise;
	errno = 0;
	value = strtoull(text, &end, 10);
	return *end || errno || value > most ? otherwise : value;
}

void braid_fleet_message_begin(struct braid_text *t)
{
	t->bytes = 0;
	braid_text_puts(t, MAGIC);
	braid_text_number(t, BRAID_FLEET_VERSION);
	braid_text_putc(t, '\n');
}

void braid_fleet_message_put(struct braid_text *t, const char *key, const char *value)
{
	if (!*value)
		return;
	braid_text_puts(t, key);
	braid_text_putc(t, ' ');
	braid_text_safe(t, value, strlen(value));
	braid_text_putc(t, '\n');
}

void braid_fleet_message_put_number(struct braid_text *t, const char *key, u64 value)
{
	braid_text_puts(t, key);
	braid_text_putc(t, ' ');
	braid_text_number(t, value);
	braid_text_putc(t, '\n');
}

void braid_fleet_message_end(struct braid_text *t)
{
	braid_text_putc(t, '\n');
}

static bool message_is_of_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_';
}

bool braid_fleet_name_is_valid(const char *name)
{
	size_t n = 0;

	while (message_is_of_name(name[n]))
		n++;
	return n && !name[n] && n < BRAID_FLEET_NAME;
}

/* The string of a member, by a scan: keys of ours are not in strings of ours. */
static const char *message_member(const char *data, size_t bytes, const char *key, size_t *length)
{
	const char *at = memmem(data, bytes, key, strlen(key)), *end = data + bytes, *quote;

	if (!at)
		return NULL;
	at += strlen(key);
	while (at < end && (*at == ' ' || *at == ':'))
		at++;
	if (at == end || *at != '"')
		return NULL;
	at++;
	quote = memchr(at, '"', end - at);
	*length = quote ? quote - at : 0;
	return quote ? at : NULL;
}

bool braid_fleet_service_id(const char *data, size_t bytes, char name[BRAID_FLEET_NAME])
{
	size_t length;
	const char *at = message_member(data, bytes, "\"name\"", &length);

	if (!at || length != strlen("tracebraid") || memcmp(at, "tracebraid", length))
		return false;
	at = message_member(data, bytes, "\"id\"", &length);
	if (!at || length >= BRAID_FLEET_NAME)
		return false;
	memcpy(name, at, length);
	name[length] = 0;
	return strlen(name) == length && braid_fleet_name_is_valid(name);
}
