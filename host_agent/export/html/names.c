// SPDX-License-Identifier: GPL-2.0-or-later
/* Names by their numbers, and the ones not yet in the page. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/html/names.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/hash.h"

#define MAX_NAMES	(1u << 20)	/* a guest could invent new ones without limit */
#define MAX_NAME_BYTES	128u

struct name {
	s64 number;
	size_t at;		/* of its text in texts */
	u32 group;
	u16 type;
	u16 bytes;
};

struct braid_html_names {
	struct name *names;
	size_t nr, capacity;
	struct braid_hash by_name;
	struct braid_text texts;
	struct braid_text sanitized;	/* the text to find */
	struct braid_text chunk;
	size_t written;		/* names that the page has */
};

static u32 html_names_hash_of(const struct name *name, const char *text)
{
	const u64 head[] = { name->number, (u64)name->group << 32 | name->type };

	return braid_hash_of(text, name->bytes, braid_hash_of(head, sizeof(head), 0));
}

struct key {
	const struct name *name;
	const char *text;
};

static bool html_names_same(const void *in, u32 number, const void *of)
{
	const struct braid_html_names *n = in;
	const struct key *key = of;
	const struct name *a = &n->names[number], *b = key->name;

	return a->number == b->number && a->group == b->group && a->type == b->type &&
	       a->bytes == b->bytes && !memcmp(n->texts.data + a->at, key->text, b->bytes);
}

u32 braid_html_name(struct braid_html_names *n, enum braid_html_name_type type, u32 group,
		    s64 number, const char *text, size_t bytes)
{
	struct name name = { .number = number, .group = group, .type = type };
	u32 hash, found;

	bytes = strnlen(text, bytes < MAX_NAME_BYTES ? bytes : MAX_NAME_BYTES);
	if (!braid_text_plain(text, bytes)) {
		n->sanitized.bytes = 0;
		braid_text_safe(&n->sanitized, text, bytes);
		if (n->sanitized.failed)
			return BRAID_HTML_NAME_MANY;
		text = n->sanitized.data;
		bytes = n->sanitized.bytes;
	}
	name.bytes = bytes;
	name.at = n->texts.bytes;
	hash = html_names_hash_of(&name, text);
	found = braid_hash_find(&n->by_name, hash, html_names_same, n, &(struct key){ &name, text });
	if (found != BRAID_HASH_NONE)
		return found;
	if (braid_hash_reserve(&n->by_name, MAX_NAMES))
		return BRAID_HTML_NAME_MANY;
	braid_text_put(&n->texts, text, bytes);
	if (n->texts.failed || braid_array_push(n->names, n->nr, n->capacity, name))
		return BRAID_HTML_NAME_MANY;
	braid_hash_put(&n->by_name, hash, n->nr - 1);
	return n->nr - 1;
}

static u32 plain(struct braid_html_names *n, const char *text)
{
	return braid_html_name(n, BRAID_HTML_OTHER, 0, 0, text, strlen(text));
}

struct braid_html_names *braid_html_names_new(void)
{
	struct braid_html_names *n = calloc(1, sizeof(*n));

	if (!n || !braid_text_reserve(&n->sanitized, MAX_NAME_BYTES) ||
	    !braid_text_reserve(&n->texts, MAX_NAME_BYTES) ||
	    plain(n, "LOST") != BRAID_HTML_NAME_LOST || plain(n, "NOTE") != BRAID_HTML_NAME_NOTE ||
	    plain(n, "(too many names)") != BRAID_HTML_NAME_MANY) {
		braid_html_names_free(n);
		return NULL;
	}
	return n;
}

void braid_html_names_free(struct braid_html_names *n)
{
	if (!n)
		return;
	free(n->names);
	braid_hash_free(&n->by_name);
	braid_text_free(&n->texts);
	braid_text_free(&n->sanitized);
	braid_text_free(&n->chunk);
	free(n);
}

int braid_html_names_flush(struct braid_html_names *n, struct braid_html_out *o)
{
	size_t k;

	if (n->written == n->nr)
		return 0;
	n->chunk.bytes = 0;
	for (k = n->written; k < n->nr; k++) {
		const struct name *name = &n->names[k];

		braid_html_put(&n->chunk, name->type);
		braid_html_put(&n->chunk, name->group);
		braid_html_put_signed(&n->chunk, name->number);
		braid_html_put(&n->chunk, name->bytes);
		braid_text_put(&n->chunk, n->texts.data + name->at, name->bytes);
	}
	if (n->chunk.failed)
		return braid_out_of_memory();
	n->written = n->nr;
	return braid_html_out_chunk(o, "names", n->chunk.data, n->chunk.bytes);
}
