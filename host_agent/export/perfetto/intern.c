// SPDX-License-Identifier: GPL-2.0-or-later
/* The sequence of a host's vCPUs' states: packets, and strings, each written once, with a number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/util/wire.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/hash.h"

#define MAX_STRINGS	(1u << 18)	/* guests could invent new ones without limit */
#define MARKS_BYTES	(8 * BRAID_VARINT_BYTES)	/* what says whose a packet is, at most */

/* Fields of the .proto file that are encoded here. */
#define PACKET_KEY	braid_wire_key(1, BRAID_WIRE_BYTES)	/* Trace.packet */
#define MACHINE_KEY	braid_wire_key(98, BRAID_WIRE_VARINT)	/* TracePacket.machine_id */
#define SEQUENCE_KEY	braid_wire_key(10, BRAID_WIRE_VARINT)	/* .trusted_packet_sequence_id */
#define FLAGS_KEY	braid_wire_key(13, BRAID_WIRE_VARINT)	/* .sequence_flags */
#define DEFAULTS_KEY	braid_wire_key(59, BRAID_WIRE_BYTES)	/* .trace_packet_defaults ... */
#define CLOCK_KEY	braid_wire_key(58, BRAID_WIRE_VARINT)	/* ... their timestamp_clock_id */
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

/* Packets ------------------------------------------------------------------------------------ */

size_t braid_perfetto_begin(struct braid_perfetto_sequence *q)
{
	struct braid_text *t = &q->out->bytes;
	char *at = braid_text_reserve(t, MARKS_BYTES);
	size_t packet, defaults;

	if (!at)
		return 0;	/* braid_perfetto_end() reports it */
	at = braid_wire_head(at, PACKET_KEY);
	packet = at - t->data;
	at = braid_wire_field(at, SEQUENCE_KEY, q->id);
	at = braid_wire_field(at, FLAGS_KEY, q->begun ?
			      BRAID__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE :
			      BRAID__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED);
	if (q->machine)
		at = braid_wire_field(at, MACHINE_KEY, q->machine);
	t->bytes = at - t->data;
	if (q->begun)
		return packet;
	/* The first packet has what all others would repeat. */
	q->begun = true;
	defaults = braid_wire_begin(t, DEFAULTS_KEY);
	braid_wire_number(t, CLOCK_KEY, BRAID__BUILTIN_CLOCK__MONOTONIC_RAW);
	braid_wire_end(t, defaults);
	return packet;
}

int braid_perfetto_end(struct braid_perfetto_sequence *q, size_t packet)
{
	braid_wire_end(&q->out->bytes, packet);
	return braid_perfetto_written(q->out);
}

/* Strings ------------------------------------------------------------------------------------ */

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
static int perfetto_intern_put(struct braid_perfetto_sequence *q, u32 field, u32 iid,
			       const char *text)
{
	struct braid_text *t = &q->out->bytes;
	size_t packet, data, entry;

	packet = braid_perfetto_begin(q);
	data = braid_wire_begin(t, INTERNED_KEY);
	entry = braid_wire_begin(t, braid_wire_key(field, BRAID_WIRE_BYTES));
	braid_wire_number(t, IID_KEY, iid);
	braid_wire_string(t, TEXT_KEY, text, strlen(text));
	braid_wire_end(t, entry);
	braid_wire_end(t, data);
	return braid_perfetto_end(q, packet);
}

int braid_perfetto_intern(struct braid_perfetto_sequence *q, u32 field, const char *text, u32 *iid)
{
	struct braid_perfetto_strings *s = q->strings;
	const struct key key = { field, text };
	u32 hash = braid_hash_of(text, strlen(text), field), number;
	int err;

	*iid = 0;
	if (!s)
		s = q->strings = calloc(1, sizeof(*s));
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
	return perfetto_intern_put(q, field, *iid, text);
}

void braid_perfetto_sequence_free(struct braid_perfetto_sequence *q)
{
	struct braid_perfetto_strings *s = q->strings;

	if (!s)
		return;
	braid_text_free(&s->texts);
	free(s->all);
	braid_hash_free(&s->by_text);
	free(s);
}
