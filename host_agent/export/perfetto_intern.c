// SPDX-License-Identifier: GPL-2.0-or-later
/* Strings of the sequence of vCPUs' states: each is written once, and has a number from then on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "host_agent/export/perfetto.h"
#include "host_agent/export/wire.h"
#include "host_agent/util/error.h"

#define MAX_STRINGS	(1u << 18)	/* guests could invent new ones without limit */
#define FIRST_SLOTS	1024u

/* Fields of the .proto file that are encoded here. */
#define INTERNED_KEY	braid_wire_key(12, BRAID_WIRE_BYTES)	/* TracePacket.interned_data */
#define IID_KEY		braid_wire_key(1, BRAID_WIRE_VARINT)	/* of all interned messages */
#define TEXT_KEY	braid_wire_key(2, BRAID_WIRE_BYTES)	/* likewise */

struct string {
	u32 field;
	size_t at;		/* of its text, which ends with NUL */
};

struct braid_perfetto_strings {
	struct string *all;
	u32 nr;
	u32 *slots;		/* 0: free; else a string's number in all, + 1, which is its iid */
	u32 nr_slots;		/* a power of two, more than twice nr */
	struct braid_text texts;
};

static u32 *find(struct braid_perfetto_strings *s, u32 field, const char *text)
{
	u32 k = XXH3_64bits_withSeed(text, strlen(text), field) & (s->nr_slots - 1);

	for (;; k = (k + 1) & (s->nr_slots - 1)) {
		const struct string *there;

		if (!s->slots[k])
			return &s->slots[k];
		there = &s->all[s->slots[k] - 1];
		if (there->field == field && !strcmp(s->texts.data + there->at, text))
			return &s->slots[k];
	}
}

/* Doubles the table. Return: 0 or -ENOMEM. */
static int grow(struct braid_perfetto_strings *s)
{
	u32 nr_slots = s->nr_slots ? 2 * s->nr_slots : FIRST_SLOTS, k;
	u32 *slots = calloc(nr_slots, sizeof(*slots));
	struct string *all = realloc(s->all, nr_slots / 2 * sizeof(*all));

	if (all)
		s->all = all;
	if (!slots || !all) {
		free(slots);
		return -ENOMEM;
	}
	free(s->slots);
	s->slots = slots;
	s->nr_slots = nr_slots;
	for (k = 0; k < s->nr; k++)
		*find(s, s->all[k].field, s->texts.data + s->all[k].at) = k + 1;
	return 0;
}

/* A packet with the new string. */
static int put(struct braid_perfetto *x, u32 field, u32 iid, const char *text)
{
	struct braid_text *t = &x->aside;
	size_t packet, data, entry;

	packet = braid_perfetto_begin_packet(x);
	data = braid_wire_begin(t, INTERNED_KEY);
	entry = braid_wire_begin(t, braid_wire_key(field, BRAID_WIRE_BYTES));
	braid_wire_number(t, IID_KEY, iid);
	braid_wire_string(t, TEXT_KEY, text, strlen(text));
	braid_wire_end(t, entry);
	braid_wire_end(t, data);
	return braid_perfetto_end_packet(x, packet);
}

int braid_perfetto_intern(struct braid_perfetto *x, u32 field, const char *text, u32 *iid)
{
	struct braid_perfetto_strings *s = x->strings;
	u32 *slot;

	*iid = 0;
	if (!s)
		s = x->strings = calloc(1, sizeof(*s));
	if (!s || (2 * (s->nr + 1) > s->nr_slots && grow(s)))
		return braid_out_of_memory();
	slot = find(s, field, text);
	*iid = *slot;
	if (*slot || s->nr == MAX_STRINGS)
		return 0;
	s->all[s->nr] = (struct string){ .field = field, .at = s->texts.bytes };
	braid_text_put(&s->texts, text, strlen(text) + 1);
	if (s->texts.failed)
		return braid_out_of_memory();
	*iid = *slot = ++s->nr;
	return put(x, field, *iid, text);
}

void braid_perfetto_strings_free(struct braid_perfetto_strings *s)
{
	if (!s)
		return;
	braid_text_free(&s->texts);
	free(s->all);
	free(s->slots);
	free(s);
}
