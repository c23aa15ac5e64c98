// SPDX-License-Identifier: GPL-2.0-or-later
/* A hash table of names, and the ones not yet in the page. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "host_agent/export/html_names.h"
#include "host_agent/util/error.h"

#define MAX_NAMES	(1u << 20)	/* a guest could invent new ones without limit */
#define MAX_NAME_BYTES	128u
#define FIRST_SLOTS	1024u

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
	u32 *slots;		/* 0: free; else a name's number + 1 */
	size_t nr_slots;	/* a power of two, more than twice nr */
	struct braid_text texts;
	struct braid_text sanitized;	/* the text to find */
	struct braid_text chunk;
	size_t written;		/* names that the page has */
};

static u64 hash_of(const struct name *name, const char *text)
{
	u64 head = (u64)name->group << 32 | name->type;

	return XXH3_64bits_withSeed(text, name->bytes,
				    head ^ (u64)name->number * 0x9e3779b97f4a7c15ULL);
}

static bool same(const struct name *a, const struct name *b)
{
	return a->number == b->number && a->group == b->group && a->type == b->type &&
	       a->bytes == b->bytes;
}

/* The slot of a name, or the one where it would be. */
static u32 *find(struct braid_html_names *n, const struct name *name, const char *text)
{
	size_t k = hash_of(name, text) & (n->nr_slots - 1);

	for (;; k = (k + 1) & (n->nr_slots - 1)) {
		u32 *slot = &n->slots[k];
		const struct name *there;

		if (!*slot)
			return slot;
		there = &n->names[*slot - 1];
		if (same(there, name) &&
		    !memcmp(n->texts.data + there->at, text, name->bytes))
			return slot;
	}
}

static int grow(struct braid_html_names *n)
{
	size_t nr = n->nr_slots ? n->nr_slots * 2 : FIRST_SLOTS, k;
	u32 *slots = calloc(nr, sizeof(*slots));
	struct name *names = realloc(n->names, nr / 2 * sizeof(*names));

	if (names)
		n->names = names;
	if (!slots || !names) {
		free(slots);
		return -ENOMEM;
	}
	n->capacity = nr / 2;
	free(n->slots);
	n->slots = slots;
	n->nr_slots = nr;
	for (k = 0; k < n->nr; k++)
		*find(n, &n->names[k], n->texts.data + n->names[k].at) = k + 1;
	return 0;
}

u32 braid_html_name(struct braid_html_names *n, enum braid_html_name_type type, u32 group,
		    s64 number, const char *text, size_t bytes)
{
	struct name name = { .number = number, .group = group, .type = type };
	u32 *slot;

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
	slot = find(n, &name, text);
	if (*slot)
		return *slot - 1;
	if (n->nr >= MAX_NAMES || (n->nr == n->capacity && grow(n)))
		return BRAID_HTML_NAME_MANY;
	slot = find(n, &name, text);
	braid_text_put(&n->texts, text, bytes);
	if (n->texts.failed)
		return BRAID_HTML_NAME_MANY;
	n->names[n->nr++] = name;
	*slot = n->nr;
	return n->nr - 1;
}

static u32 plain(struct braid_html_names *n, const char *text)
{
	return braid_html_name(n, BRAID_HTML_OTHER, 0, 0, text, strlen(text));
}

struct braid_html_names *braid_html_names_new(void)
{
	struct braid_html_names *n = calloc(1, sizeof(*n));

	if (!n || grow(n) || !braid_text_reserve(&n->sanitized, MAX_NAME_BYTES) ||
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
	free(n->slots);
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
