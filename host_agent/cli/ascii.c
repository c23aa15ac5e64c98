// SPDX-License-Identifier: GPL-2.0-or-later
/* On a terminal that is not of UTF-8: the agent's output in ASCII. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/util/io.h"

/*
 * Characters printed by the agent itself; all others, in names of guests' tasks for instance,
 * become "?".
 */
static const struct {
	const char *utf8, *ascii;
} known[] = {
	{ "≤", "<=" }, { "µ", "u" }, { "✓", "ok" }, { "✗", "x" },
};

/* A stream to a terminal. */
struct terminal {
	int fd;
	char held[4];		/* a character's bytes up to now */
	size_t nr_held;
};

static struct terminal terminals[2];

static bool is_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
	const char *value = NULL;
	size_t k;

	for (k = 0; k < sizeof(names) / sizeof(*names) && (!value || !*value); k++)
		value = getenv(names[k]);
	return value && (strcasestr(value, "utf-8") || strcasestr(value, "utf8"));
}

/* How many bytes a character has that begins so. */
static size_t length_of(char first)
{
	u8 c = first;

	return c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static bool put_held(struct terminal *t)
{
	const char *ascii = "?";
	size_t k;

	for (k = 0; k < sizeof(known) / sizeof(*known); k++)
		if (strlen(known[k].utf8) == t->nr_held &&
		    !memcmp(known[k].utf8, t->held, t->nr_held))
			ascii = known[k].ascii;
	t->nr_held = 0;
	return !braid_write_all(t->fd, ascii, strlen(ascii));
}

static ssize_t convert(void *cookie, const char *data, size_t bytes)
{
	struct terminal *t = cookie;
	size_t k, plain = 0;

	for (k = 0; k < bytes; k++) {
		if (!(data[k] & 0x80) && !t->nr_held)
			continue;
		if (braid_write_all(t->fd, data + plain, t->nr_held ? 0 : k - plain))
			return -1;
		if ((data[k] & 0xc0) != 0x80 && t->nr_held && !put_held(t))
			return -1;	/* cut short */
		plain = k;
		if (!(data[k] & 0x80))
			continue;
		t->held[t->nr_held++] = data[k];
		plain = k + 1;
		if (t->nr_held == length_of(t->held[0]) && !put_held(t))
			return -1;
	}
	if (!t->nr_held && braid_write_all(t->fd, data + plain, bytes - plain))
		return -1;
	return bytes;
}

static void replace(FILE **stream, struct terminal *t, int fd, int mode)
{
	static const cookie_io_functions_t functions = { .write = convert };
	FILE *f;

	if (!isatty(fd))
		return;
	f = fopencookie(t, "w", functions);
	if (!f)
		return;
	t->fd = fd;
	setvbuf(f, NULL, mode, BUFSIZ);
	*stream = f;
}

void braid_cli_ascii(void)
{
	if (is_utf8())
		return;
	replace(&stdout, &terminals[0], STDOUT_FILENO, _IOLBF);
	replace(&stderr, &terminals[1], STDERR_FILENO, _IONBF);
}
