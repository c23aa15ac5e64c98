// SPDX-License-Identifier: GPL-2.0-or-later
/* Texts of a kernel at constant addresses: formats of trace_printk(), and what %s points to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/constants.h"
#include "host_agent/util/array.h"

struct constant {
	u64 address;
	const char *text;
};

struct braid_constants {
	struct constant *at;	/* by address, then by place in the list */
	size_t nr, capacity;
	char *pool;
};

static int constants_by_address(const void *a, const void *b)
{
	const struct constant *x = a, *y = b;

	return braid_compare(x->address, y->address) ?: braid_compare(x->text, y->text);
}

/* In place: the kernel writes these three so, and a backslash as itself. */
static void unescape(char *text)
{
	static const char letters[] = "nt\"", bytes[] = "\n\t\"";
	const char *from, *found;
	char *to = text;

	for (from = text; *from; from++) {
		found = *from == '\\' && from[1] ? strchr(letters, from[1]) : NULL;
		from += !!found;
		*to++ = found ? bytes[found - letters] : *from;
	}
	*to = 0;
}

/* One line without its end. Return: false: out of memory. */
static bool constants_add(struct braid_constants *c, char *line)
{
	struct constant constant;
	char *at, *end;

	constant.address = strtoull(line, &at, 16);
	end = strrchr(line, '"');
	if (at == line || strncmp(at, " : \"", 4) || end < at + 4)
		return true;
	*end = 0;
	constant.text = at + 4;
	unescape(at + 4);
	return !braid_array_push(c->at, c->nr, c->capacity, constant);
}

struct braid_constants *braid_constants_new(const char *list)
{
	struct braid_constants *c = list && *list ? calloc(1, sizeof(*c)) : NULL;
	bool good = true;
	char *line, *rest;

	if (!c)
		return NULL;
	rest = c->pool = strdup(list);
	while (good && (line = strsep(&rest, "\n")))
		good = constants_add(c, line);
	if (!c->pool || !good || !c->nr) {
		braid_constants_free(c);
		return NULL;
	}
	qsort(c->at, c->nr, sizeof(*c->at), constants_by_address);
	return c;
}

void braid_constants_free(struct braid_constants *c)
{
	if (c) {
		free(c->at);
		free(c->pool);
	}
	free(c);
}

void braid_constants_put(const struct braid_constants *c, struct braid_text *out)
{
	size_t k;

	for (k = 0; c && k < c->nr; k++) {
		const struct constant *one = &c->at[k];

		if (strlen(one->text) < 2 || (k && one[-1].address == one->address))
			continue;	/* the first text of an address counts */
		braid_text_printf(out, "0x%llx : \"", (unsigned long long)one->address);
		braid_text_safe(out, one->text, strlen(one->text));
		braid_text_puts(out, "\"\n");
	}
}

const char *braid_constants_find(const struct braid_constants *c, u64 address)
{
	size_t k;

	braid_array_first(k, c ? c->nr : 0, c->at[k].address >= address);
	return c && k < c->nr && c->at[k].address == address ? c->at[k].text : NULL;
}
