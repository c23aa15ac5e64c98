// SPDX-License-Identifier: GPL-2.0-or-later
/* Strings of the sequence of vCPUs' states: each is written once, and has a number from then on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/export/perfetto/wire.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/hash.h"

#define MAX_STRINGS	(1u << 18)	/* guests could invent new ones without limit */

/* Fields of the .proto file that are encoded here. */
#define INTERNED_KEY	braid_wire_key(12, BRAID_WIRE_BYTES)	/* TracePacket.interned_data */
#define IID_KEY		braid_wire_key(1, BRAID_WIRE_VARINT)	/* of all interned messages */
#define TEXT_KEY	braid_wire_key(2, BRAID_WIRE_BYTES)	/* likewise */

struct string {
	u32 field;
	size_t at;		/* of its text, which ends with NUL */
};

struct braid_perfetto_strings {
	struct string *all;	/* an iid is a string's number here + 1 */
	size_t nr, capacity;
	struct braid_hash by_text;
	struct braid_text texts;
};

struct key {
	u32 field;
	const char *text;
};

static bool perfetto_intern_same(const void *in, u32 number, const void *of)
{
	const struct braid_perfetto_strings *s = in;
	const struct key *key = of;

	return s->all[number].field == key->field &&
	       !strcmp(s->texts.data + s->all[number].at, key->text);
}

/* A packet with the new string. */
static int perfetto_intern_put(struct braid_perfetto *x, u32 field, u32 iid, const char *text)
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
	const struct key key = { field, text };
	u32 hash = braid_hash_of(text, strlen(text), field), number;
	int err;

	*iid = 0;
	if (!s)
		s = x->strings = calloc(1, sizeof(*s));
	if (!s)
		return braid_out_of_memory();
	number = braid_hash_find(&s->by_text, hash, perfetto_intern_same, s, &key);
	*iid = number == BRAID_HASH_NONE ? 0 : number + 1;
	if (*iid)
		return 0;
	err = braid_hash_reserve(&s->by_text, MAX_STRINGS);
	if (err)
		return err == -ENOSPC ? 0 : braid_out_of_memory();
	err = braid_array_push(s->all, s->nr, s->capacity,
			       ((struct string){ .field = field, .at = s->texts.bytes }));
	braid_text_put(&s->texts, text, strlen(text) + 1);
	if (err || s->texts.failed)
		return braid_out_of_memory();
	braid_hash_put(&s->by_text, hash, s->nr - 1);
	*iid = s->nr;
	return perfetto_intern_put(x, field, *iid, text);
}

void braid_perfetto_strings_free(struct braid_perfetto_strings *s)
{
	if (!s)
		return;
	braid_text_free(&s->texts);
	free(s->all);
	braid_hash_free(&s->by_text);
	free(s);
}
