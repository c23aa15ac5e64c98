// SPDX-License-Identifier: GPL-2.0-or-later
/* Many events at once: a number of each in an array, by a plan that is made once for each type. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/library/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/hash.h"

#define NONE	INT64_MIN	/* in a row: the event lacks the field */
#define MAX_WORDS	(1u << 22)

/* Words --------------------------------------------------------------------------------------- */

/* Distinct texts, numbered in the order of their first occurrence. */
struct braid_library_words {
	char **at;
	size_t nr, capacity;
	struct braid_hash by_text;
	bool failed;		/* out of memory */
};

struct text {
	const char *text;	/* without NUL */
	size_t bytes;
};

static bool columns_same(const void *in, u32 number, const void *key)
{
	const struct braid_library_words *w = in;
	const struct text *text = key;
	const char *known = w->at[number];

	return !strncmp(known, text->text, text->bytes) && !known[text->bytes];
}

static s64 no_memory(struct braid_library_words *w)
{
	w->failed = true;
	braid_out_of_memory();
	return NONE;
}

/* The number of a text without NUL. Return: from 0; NONE: out of memory, or there are too many. */
static s64 word_of(struct braid_library_words *w, const char *text, size_t bytes)
{
	const struct text key = { text, bytes };
	u32 hash = braid_hash_of(text, bytes, 0), number;
	char *copy;
	int err;

	number = braid_hash_find(&w->by_text, hash, columns_same, w, &key);
	if (number != BRAID_HASH_NONE)
		return number;
	err = braid_hash_reserve(&w->by_text, MAX_WORDS);
	if (err)
		return err == -ENOSPC ? NONE : no_memory(w);
	copy = strndup(text, bytes);
	if (!copy || braid_array_push(w->at, w->nr, w->capacity, copy)) {
		free(copy);
		return no_memory(w);
	}
	braid_hash_put(&w->by_text, hash, w->nr - 1);
	return w->nr - 1;
}

const char *tracebraid_word(const struct tracebraid_walk *w, int64_t number)
{
	return w->words && number >= 0 && (u64)number < w->words->nr ? w->words->at[number] : NULL;
}

/* Plans --------------------------------------------------------------------------------------- */

enum source { FROM_NS, FROM_BOUND, FROM_STREAM, FROM_CPU, FROM_PID, FROM_SEQ, FROM_TYPE, FROM_COMM,
	      FROM_FIELD };

/* Where a column's numbers come from; a field's place is looked up once for each type. */
struct column {
	char *name;
	enum source from;
	const struct braid_field **fields;	/* FROM_FIELD: by type; NULL: the type lacks it */
};

struct braid_library_plan {
	struct column *columns;
	size_t nr;
	bool *seen;		/* by type: its fields were looked up */
	size_t nr_types;
};

static enum source source_of(const char *name)
{
	static const char *const names[] = {
		"ns", "bound_ns", "stream", "cpu", "pid", "seq", "type", "comm",
	};
	size_t k;

	for (k = 0; k < FROM_FIELD; k++)
		if (!strcmp(name, names[k]))
			return k;
	return FROM_FIELD;
}

static void free_plan(struct braid_library_plan *p)
{
	size_t k;

	for (k = 0; p && k < p->nr; k++) {
		free(p->columns[k].name);
		free(p->columns[k].fields);
	}
	if (p)
		free(p->columns);
	if (p)
		free(p->seen);
	free(p);
}

static struct braid_library_plan *make_plan(const char *const *names, size_t nr)
{
	struct braid_library_plan *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->columns = calloc(nr + 1, sizeof(*p->columns));
	for (; p->columns && p->nr < nr; p->nr++) {
		struct column *c = &p->columns[p->nr];

		c->name = strdup(names[p->nr]);
		if (!c->name)
			break;
		c->from = source_of(c->name);
	}
	if (p->columns && p->nr == nr)
		return p;
	free_plan(p);
	return NULL;
}

static bool is_plan_of(const struct braid_library_plan *p, const char *const *names, size_t nr)
{
	size_t k;

	if (!p || p->nr != nr)
		return false;
	for (k = 0; k < nr; k++)
		if (strcmp(p->columns[k].name, names[k]))
			return false;
	return true;
}

static int columns_grow_types(struct braid_library_plan *p, u32 number)
{
	size_t nr = p->nr_types ?: 256, k;
	bool *seen;

	while (nr <= number)
		nr *= 2;
	seen = realloc(p->seen, nr);
	if (!seen)
		return braid_out_of_memory();
	memset(seen + p->nr_types, 0, nr - p->nr_types);
	p->seen = seen;
	for (k = 0; k < p->nr; k++) {
		const struct braid_field **fields =
			realloc(p->columns[k].fields, nr * sizeof(*fields));

		if (!fields)
			return braid_out_of_memory();
		p->columns[k].fields = fields;
	}
	p->nr_types = nr;
	return 0;
}

static int plan_type(struct braid_library_plan *p, const struct braid_event_type_info *info)
{
	size_t k;
	int err = info->number < p->nr_types ? 0 : columns_grow_types(p, info->number);

	if (err)
		return err;
	for (k = 0; k < p->nr; k++)
		p->columns[k].fields[info->number] =
			p->columns[k].from == FROM_FIELD && info->layout ?
			braid_layout_find(info->layout, p->columns[k].name) : NULL;
	p->seen[info->number] = true;
	return 0;
}

/* Rows ---------------------------------------------------------------------------------------- */

static s64 field_value(struct tracebraid_walk *w, const struct braid_field *f)
{
	const struct braid_item *item = w->walk.item;
	u32 offset, length;
	s64 value;

	if (!f || braid_library_layout(w) != f->layout)
		return NONE;
	if (!braid_library_field_number(f, item, &value))
		return value;
	if (!(f->flags & BRAID_FIELD_TEXT) ||
	    !braid_format_range(f, item->payload, item->payload_bytes, &offset, &length))
		return NONE;
	return word_of(w->words, (const char *)item->payload + offset,
		       strnlen((const char *)item->payload + offset, length));
}

static s64 comm_value(struct tracebraid_walk *w)
{
	const char *comm = braid_library_comm(w);

	return word_of(w->words, comm, strlen(comm));
}

static s64 columns_value_of(struct tracebraid_walk *w, struct column *c)
{
	const struct braid_item *item = w->walk.item;

	switch (c->from) {
	case FROM_NS:
		return w->walk.ns;
	case FROM_BOUND:
		return (s64)w->walk.bound_ns;
	case FROM_STREAM:
		return item->stream->number;
	case FROM_CPU:
		return item->ring->cpu;
	case FROM_PID:
		return braid_library_pid(w);
	case FROM_SEQ:
		return (s64)item->seq;
	case FROM_TYPE:
		return w->walk.info->number;
	case FROM_COMM:
		return comm_value(w);
	default:
		return field_value(w, c->fields[w->walk.info->number]);
	}
}

static int fill_row(struct tracebraid_walk *w, int64_t *const *columns, size_t row)
{
	struct braid_library_plan *p = w->plan;
	const struct braid_event_type_info *info = w->walk.info;
	size_t k;
	int err = 0;

	if (info->number >= p->nr_types || !p->seen[info->number])
		err = plan_type(p, info);
	for (k = 0; k < p->nr && !err; k++)
		columns[k][row] = columns_value_of(w, &p->columns[k]);
	return w->words->failed ? -ENOMEM : err;
}

static int columns_prepare(struct tracebraid_walk *w, const char *const *names, size_t nr)
{
	if (!w->words)
		w->words = calloc(1, sizeof(*w->words));
	if (!w->words)
		return braid_out_of_memory();
	if (is_plan_of(w->plan, names, nr))
		return 0;
	free_plan(w->plan);
	w->plan = make_plan(names, nr);
	return w->plan ? 0 : braid_out_of_memory();
}

long tracebraid_columns(struct tracebraid_walk *w, const char *const *names,
			int64_t *const *columns, size_t nr, size_t rows)
{
	size_t row = 0;
	int ret = columns_prepare(w, names, nr);

	while (!ret && row < rows) {
		int got = braid_library_next(w);

		if (got <= 0)
			return got < 0 ? got : (long)row;
		if (got == BRAID_WALK_EVENT)
			ret = fill_row(w, columns, row++);
	}
	return ret ? ret : (long)row;
}

void braid_library_plan_free(struct tracebraid_walk *w)
{
	free_plan(w->plan);
	w->plan = NULL;
}

void braid_library_columns_free(struct tracebraid_walk *w)
{
	size_t k;

	for (k = 0; w->words && k < w->words->nr; k++)
		free(w->words->at[k]);
	if (w->words) {
		free(w->words->at);
		braid_hash_free(&w->words->by_text);
	}
	free(w->words);
	braid_library_plan_free(w);
}
