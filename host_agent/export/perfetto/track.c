// SPDX-License-Identifier: GPL-2.0-or-later
/* Tracks of our own: losses and notes of each stream, and when vCPUs ran. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/util/wire.h"
#include "host_agent/util/error.h"

/* Fields of the .proto file that are encoded here. */
#define EVENT_KEY	braid_wire_key(11, BRAID_WIRE_BYTES)	/* TracePacket.track_event ... */
#define ARG_KEY		braid_wire_key(4, BRAID_WIRE_BYTES)	/* .debug_annotations ... */
#define NUMBER_KEY	braid_wire_key(3, BRAID_WIRE_VARINT)	/* ... their uint_value */
#define STRING_KEY	braid_wire_key(6, BRAID_WIRE_BYTES)	/* .string_value */
#define ARG_NAME_KEY	braid_wire_key(10, BRAID_WIRE_BYTES)	/* .name */
#define TYPE_KEY	braid_wire_key(9, BRAID_WIRE_VARINT)	/* ... .type */
#define TRACK_KEY	braid_wire_key(11, BRAID_WIRE_VARINT)	/* .track_uuid */
#define CATEGORY_KEY	braid_wire_key(22, BRAID_WIRE_BYTES)	/* .categories */
#define NAME_KEY	braid_wire_key(23, BRAID_WIRE_BYTES)	/* .name */
#define LINK_KEY	braid_wire_key(53, BRAID_WIRE_BYTES)	/* .correlation_id_str */

#define FIELD_BYTES	(2 * BRAID_VARINT_BYTES)	/* of a number, or of a string's key and length */

int braid_perfetto_track(struct braid_perfetto_out *o, struct braid_perfetto_machine *m, u64 track,
			 u64 parent, const char *name, const char *description)
{
	Braid__TrackDescriptor descriptor = BRAID__TRACK_DESCRIPTOR__INIT;
	Braid__TracePacket packet = BRAID__TRACE_PACKET__INIT;

	BRAID_PERFETTO_SET(&descriptor, uuid, track);
	if (parent)
		BRAID_PERFETTO_SET(&descriptor, parent_uuid, parent);
	descriptor.name = (char *)name;
	descriptor.description = (char *)description;
	packet.track_descriptor = &descriptor;
	return braid_perfetto_packet(o, m, &packet);
}

/* @at: FIELD_BYTES, and what @text has. Return: the end. */
static char *perfetto_track_put_string(char *at, u64 key, const char *text, size_t bytes)
{
	at = braid_wire_field(at, key, bytes);
	memcpy(at, text, bytes);
	return at + bytes;
}

static void put_arg(struct braid_text *t, const struct braid_perfetto_arg *a)
{
	size_t name = strlen(a->name), string = a->string ? strlen(a->string) : 0, begin;
	char *at = braid_text_reserve(t, 3 * FIELD_BYTES + name + string);

	if (!at)
		return;
	at = braid_wire_head(at, ARG_KEY);
	begin = at - t->data;
	at = a->string ? perfetto_track_put_string(at, STRING_KEY, a->string, string) :
			 braid_wire_field(at, NUMBER_KEY, a->number);
	t->bytes = perfetto_track_put_string(at, ARG_NAME_KEY, a->name, name) - t->data;
	braid_wire_end(t, begin);
}

int braid_perfetto_on_track(struct braid_perfetto_out *o, struct braid_perfetto_machine *m, s64 ns,
			    const struct braid_perfetto_event *event)
{
	static const char category[] = "tracebraid";
	size_t packet = braid_perfetto_begin_timed(o, m, ns), begin;
	size_t name = event->name ? strlen(event->name) : 0;
	size_t link = event->link ? strlen(event->link) : 0;
	struct braid_text *t = &o->bytes;
	char *at;
	u32 k;

	begin = braid_wire_begin(t, EVENT_KEY);
	for (k = 0; k < event->nr_args; k++)
		put_arg(t, &event->args[k]);
	at = braid_text_reserve(t, 5 * FIELD_BYTES + sizeof(category) + name + link);
	if (!at)
		return braid_out_of_memory();
	at = braid_wire_field(at, TYPE_KEY, event->type);
	at = braid_wire_field(at, TRACK_KEY, event->track);
	at = perfetto_track_put_string(at, CATEGORY_KEY, category, strlen(category));
	if (event->name)
		at = perfetto_track_put_string(at, NAME_KEY, event->name, name);
	if (event->link)
		at = perfetto_track_put_string(at, LINK_KEY, event->link, link);
	t->bytes = at - t->data;
	braid_wire_end(t, begin);
	return braid_perfetto_end_timed(o, m, packet);
}

/* Something that happened to a stream; its name is in o->text. */
static int put_instant(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
		       const struct braid_item *item, struct braid_perfetto_event *event)
{
	braid_text_putc(&o->text, '\0');
	if (o->text.failed)
		return braid_out_of_memory();
	event->name = o->text.data;
	event->type = BRAID__TRACK_EVENT__TYPE__INSTANT;
	event->track = braid_perfetto_track_of(BRAID_PERFETTO_LOSSES, m->stream->number);
	return braid_perfetto_on_track(o, m, item->host_ns, event);
}

int braid_perfetto_lost(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			const struct braid_item *item)
{
	struct braid_perfetto_event event = { .nr_args = 0 };
	const char *buffer = braid_ring_buffer_name(item->ring);
	bool some = item->lost_before == BRAID_LOST_SOME;

	o->text.bytes = 0;
	if (some)
		braid_text_puts(&o->text, "LOST some events");
	else
		braid_text_printf(&o->text, "LOST %llu event%s",
				  (unsigned long long)item->lost_before,
				  item->lost_before == 1 ? "" : "s");
	braid_perfetto_arg_number(&event, "cpu", item->ring->cpu);
	if (*buffer)
		braid_perfetto_arg_string(&event, "buffer", buffer);
	if (!some) {
		braid_perfetto_arg_number(&event, "lost", item->lost_before);
		braid_perfetto_arg_number(&event, "damaged", item->damaged_before);
	}
	return put_instant(o, m, item, &event);
}

int braid_perfetto_note(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			const struct braid_item *item)
{
	struct braid_perfetto_event event = { .nr_args = 0 };

	o->text.bytes = 0;
	braid_text_puts(&o->text, "NOTE ");
	braid_text_safe(&o->text, (const char *)item->payload, item->payload_bytes);
	return put_instant(o, m, item, &event);
}
