// SPDX-License-Identifier: GPL-2.0-or-later
/* Tracks of our own: losses and notes of each stream, and when vCPUs ran. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto.h"
#include "host_agent/export/wire.h"
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

int braid_perfetto_track(struct braid_perfetto *x, struct braid_perfetto_machine *m, u64 *track,
			 u64 parent, const char *name, const char *description)
{
	Braid__TrackDescriptor descriptor = BRAID__TRACK_DESCRIPTOR__INIT;
	Braid__TracePacket packet = BRAID__TRACE_PACKET__INIT;

	if (*track)
		return 0;
	*track = ++x->last_track;
	BRAID_PERFETTO_SET(&descriptor, uuid, *track);
	if (parent)
		BRAID_PERFETTO_SET(&descriptor, parent_uuid, parent);
	descriptor.name = (char *)name;
	descriptor.description = (char *)description;
	packet.track_descriptor = &descriptor;
	return braid_perfetto_packet(x, m, &packet);
}

int braid_perfetto_on_track(struct braid_perfetto *x, struct braid_perfetto_machine *m, s64 ns,
			    const struct braid_perfetto_event *event)
{
	static const char category[] = "tracebraid";
	size_t packet = braid_perfetto_begin_timed(x, m, ns), begin, arg;
	struct braid_text *t = &x->out;
	u32 k;

	begin = braid_wire_begin(t, EVENT_KEY);
	for (k = 0; k < event->nr_args; k++) {
		const struct braid_perfetto_arg *a = &event->args[k];

		arg = braid_wire_begin(t, ARG_KEY);
		if (a->string)
			braid_wire_bytes(t, STRING_KEY, a->string, strlen(a->string));
		else
			braid_wire_number(t, NUMBER_KEY, a->number);
		braid_wire_bytes(t, ARG_NAME_KEY, a->name, strlen(a->name));
		braid_wire_end(t, arg);
	}
	braid_wire_number(t, TYPE_KEY, event->type);
	braid_wire_number(t, TRACK_KEY, event->track);
	braid_wire_bytes(t, CATEGORY_KEY, category, strlen(category));
	if (event->name)
		braid_wire_bytes(t, NAME_KEY, event->name, strlen(event->name));
	if (event->link)
		braid_wire_bytes(t, LINK_KEY, event->link, strlen(event->link));
	braid_wire_end(t, begin);
	return braid_perfetto_end_timed(x, m, packet);
}

/* Something that happened to a stream; its name is in x->text. */
static int put_instant(struct braid_perfetto *x, const struct braid_item *item,
		       struct braid_perfetto_event *event)
{
	struct braid_perfetto_machine *m = &x->machines[item->stream->number];

	braid_text_putc(&x->text, '\0');
	if (x->text.failed)
		return braid_out_of_memory();
	event->name = x->text.data;
	event->type = BRAID__TRACK_EVENT__TYPE__INSTANT;
	event->track = m->track;
	return braid_perfetto_on_track(x, m, item->host_ns, event);
}

int braid_perfetto_lost(struct braid_perfetto *x, const struct braid_item *item)
{
	struct braid_perfetto_event event = { .nr_args = 0 };
	const char *buffer = braid_ring_buffer_name(item->ring);
	bool some = item->lost_before == BRAID_LOST_SOME;

	x->text.bytes = 0;
	if (some)
		braid_text_puts(&x->text, "LOST some events");
	else
		braid_text_printf(&x->text, "LOST %llu event%s",
				  (unsigned long long)item->lost_before,
				  item->lost_before == 1 ? "" : "s");
	braid_perfetto_arg_number(&event, "cpu", item->ring->cpu);
	if (*buffer)
		braid_perfetto_arg_string(&event, "buffer", buffer);
	if (!some) {
		braid_perfetto_arg_number(&event, "lost", item->lost_before);
		braid_perfetto_arg_number(&event, "damaged", item->damaged_before);
	}
	return put_instant(x, item, &event);
}

int braid_perfetto_note(struct braid_perfetto *x, const struct braid_item *item)
{
	struct braid_perfetto_event event = { .nr_args = 0 };

	x->text.bytes = 0;
	braid_text_puts(&x->text, "NOTE ");
	braid_text_safe(&x->text, (const char *)item->payload, item->payload_bytes);
	return put_instant(x, item, &event);
}
