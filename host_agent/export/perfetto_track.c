// SPDX-License-Identifier: GPL-2.0-or-later
/* Tracks of our own: losses and notes of each stream, and when vCPUs ran. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto.h"
#include "host_agent/util/error.h"

void braid_perfetto_arg_string(struct braid_perfetto_args *args, const char *name,
			       const char *value)
{
	Braid__DebugAnnotation *a = args->list[args->nr] = &args->items[args->nr];

	args->nr++;
	braid__debug_annotation__init(a);
	a->name = (char *)name;
	a->string_value = (char *)value;
}

void braid_perfetto_arg_number(struct braid_perfetto_args *args, const char *name, u64 value)
{
	Braid__DebugAnnotation *a = args->list[args->nr] = &args->items[args->nr];

	args->nr++;
	braid__debug_annotation__init(a);
	a->name = (char *)name;
	BRAID_PERFETTO_SET(a, uint_value, value);
}

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
			    Braid__TrackEvent *event, struct braid_perfetto_args *args)
{
	Braid__TracePacket packet = BRAID__TRACE_PACKET__INIT;
	char *categories[] = { "tracebraid" };

	event->n_categories = 1;
	event->categories = categories;
	event->n_debug_annotations = args->nr;
	event->debug_annotations = args->list;
	packet.track_event = event;
	return braid_perfetto_timed_packet(x, m, ns, &packet);
}

/* Something that happened to a stream; its name is in x->text. */
static int put_instant(struct braid_perfetto *x, const struct braid_item *item,
		       struct braid_perfetto_args *args)
{
	struct braid_perfetto_machine *m = &x->machines[item->stream->number];
	Braid__TrackEvent event = BRAID__TRACK_EVENT__INIT;

	braid_text_putc(&x->text, '\0');
	if (x->text.failed)
		return braid_out_of_memory();
	event.name = x->text.data;
	BRAID_PERFETTO_SET(&event, type, BRAID__TRACK_EVENT__TYPE__INSTANT);
	BRAID_PERFETTO_SET(&event, track_uuid, m->track);
	return braid_perfetto_on_track(x, m, item->host_ns, &event, args);
}

int braid_perfetto_lost(struct braid_perfetto *x, const struct braid_item *item)
{
	struct braid_perfetto_args args = { .nr = 0 };
	const char *buffer = braid_ring_buffer_name(item->ring);
	bool some = item->lost_before == BRAID_LOST_SOME;

	x->text.bytes = 0;
	if (some)
		braid_text_puts(&x->text, "LOST some events");
	else
		braid_text_printf(&x->text, "LOST %llu event%s",
				  (unsigned long long)item->lost_before,
				  item->lost_before == 1 ? "" : "s");
	braid_perfetto_arg_number(&args, "cpu", item->ring->cpu);
	if (*buffer)
		braid_perfetto_arg_string(&args, "buffer", buffer);
	if (!some) {
		braid_perfetto_arg_number(&args, "lost", item->lost_before);
		braid_perfetto_arg_number(&args, "damaged", item->damaged_before);
	}
	return put_instant(x, item, &args);
}

int braid_perfetto_note(struct braid_perfetto *x, const struct braid_item *item)
{
	struct braid_perfetto_args args = { .nr = 0 };

	x->text.bytes = 0;
	braid_text_puts(&x->text, "NOTE ");
	braid_text_safe(&x->text, (const char *)item->payload, item->payload_bytes);
	return put_instant(x, item, &args);
}
