// SPDX-License-Identifier: GPL-2.0-or-later
/* What streams, buffers, rings and event types are in CTF: described when first met. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/ctf.h"

#define MAX_NAME_BYTES		96u	/* of a field, in the metadata */
#define MAX_STATIC_ELEMENTS	4096u	/* of an event's arrays together */
#define NS_PER_S		1000000000LL

/*
 * What the metadata takes at most, roughly, of a class or a member, beside its name: a
 * name is there twice, escaped.
 */
#define METADATA_BYTES		512u

/* Names ----------------------------------------------------------------------------------- */

/*
 * Strings of the metadata: readers differ in how they treat escapes, so characters that need one
 * are replaced.
 */
static void copy_plain(struct braid_ctf *ctf, char *to, size_t room, const char *from)
{
	size_t k;

	for (k = 0; from[k] && k + 1 < room; k++) {
		u8 c = from[k];

		to[k] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
	}
	to[k] = 0;
	ctf->metadata_bytes += METADATA_BYTES + 2 * k;
}

/* Names of files, the same for every file system and shell. */
static void copy_file_name(char *to, size_t room, const char *from)
{
	size_t k;

	for (k = 0; from[k] && k + 1 < room; k++)
		to[k] = isalnum((unsigned char)from[k]) || (k && strchr("-.", from[k])) ?
			from[k] : '_';
	to[k] = 0;
}

/* LTTng, whose names Trace Compass knows, calls a tid what the scheduler's events call a pid. */
static void name_tid(char *name)
{
	size_t bytes = strlen(name);

	if (!strcmp(name, "pid") || (bytes > 4 && !strcmp(name + bytes - 4, "_pid")))
		name[bytes - 3] = 't';
}

static bool name_taken(const bt_field_class *in, const char *name)
{
	return bt_field_class_structure_borrow_member_by_name_const(in, name);
}

/* A member's name: a word, which no other member has. */
static void name_member(struct braid_ctf *ctf, const bt_field_class *in, char *to,
			const struct braid_field *f)
{
	char name[MAX_NAME_BYTES];
	u32 n;

	copy_plain(ctf, name, sizeof(name), f->name);
	for (n = 0; name[n]; n++)
		if (!isalnum((unsigned char)name[n]))
			name[n] = '_';
	if (f->layout->system && !strcmp(f->layout->system, "sched"))
		name_tid(name);
	snprintf(to, MAX_NAME_BYTES + 16, "%s", *name ? name : "field");
	for (n = 2; name_taken(in, to); n++)
		snprintf(to, MAX_NAME_BYTES + 16, "%s_%u", *name ? name : "field", n);
}

/* An event's name. What ends a system call has the name by which Trace Compass knows it. */
static void name_event(struct braid_ctf *ctf, char *to, size_t room,
		       const struct braid_event_type_info *info)
{
	const char *name = braid_format_label(info);

	if (!strcmp(info->system, "raw_syscalls") && !strcmp(name, "sys_exit"))
		name = "exit_syscall";
	copy_plain(ctf, to, room, name);
}

/* Field classes --------------------------------------------------------------------------- */

static int append(bt_field_class *to, const char *name, bt_field_class *member)
{
	int err = !member || bt_field_class_structure_append_member(to, name, member) ? -ENOMEM : 0;

	bt_field_class_put_ref(member);
	return err;
}

static bt_field_class *make_number(bt_trace_class *tc, u32 bytes, bool is_signed)
{
	bt_field_class *fc = is_signed ? bt_field_class_integer_signed_create(tc) :
					 bt_field_class_integer_unsigned_create(tc);

	if (fc)
		bt_field_class_integer_set_field_value_range(fc, 8 * bytes);
	return fc;
}

static bt_field_class *make_field_number(bt_trace_class *tc, const struct braid_ctf_field *f)
{
	bt_field_class *fc = make_number(tc, f->element_bytes,
					 f->field->flags & BRAID_FIELD_SIGNED);

	if (fc && f->field->flags & BRAID_FIELD_POINTER)
		bt_field_class_integer_set_preferred_display_base(
			fc, BT_FIELD_CLASS_INTEGER_PREFERRED_DISPLAY_BASE_HEXADECIMAL);
	return fc;
}

static bt_field_class *make_field(bt_trace_class *tc, const struct braid_ctf_field *f)
{
	bt_field_class *element, *fc;

	if (f->shape == BRAID_CTF_STRING)
		return bt_field_class_string_create(tc);
	element = make_field_number(tc, f);
	if (!element || f->shape == BRAID_CTF_NUMBER)
		return element;
	fc = f->shape == BRAID_CTF_SEQUENCE ?
	     bt_field_class_array_dynamic_create(tc, element, NULL) :
	     bt_field_class_array_static_create(tc, element, f->field->size / f->element_bytes);
	bt_field_class_put_ref(element);
	return fc;
}

static bool is_number(u32 bytes)
{
	return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

static void shape_field(struct braid_ctf_field *to, const struct braid_field *f)
{
	to->field = f;
	to->element_bytes = 1;
	if (f->flags & BRAID_FIELD_STRING) {
		to->shape = BRAID_CTF_STRING;
	} else if (f->flags & BRAID_FIELD_DYNAMIC || !f->size) {
		to->shape = BRAID_CTF_SEQUENCE;
	} else if (f->flags & BRAID_FIELD_ARRAY || !is_number(f->size)) {
		to->shape = BRAID_CTF_ARRAY;
	} else {
		to->shape = BRAID_CTF_NUMBER;
		to->element_bytes = f->size;
		return;
	}
	if (to->shape != BRAID_CTF_STRING && is_number(f->elementsize))
		to->element_bytes = f->elementsize;
}

/* Streams, buffers, rings ----------------------------------------------------------------- */

/*
 * Trace Compass knows a machine by the id of its clock. Clocks of unknown origin have no id:
 * readers would treat them as different clocks, which can't be compared.
 */
static int make_clock(struct braid_ctf *ctf, struct braid_ctf_trace *t,
		      const struct braid_stream *stream)
{
	u64 bound = braid_walk_stream_bound(&ctf->walk, stream);
	s64 offset_s = ctf->offset_ns / NS_PER_S, rest_ns = ctf->offset_ns % NS_PER_S;
	static const u8 none[16];
	char name[64];

	t->clock = bt_clock_class_create(ctf->component);
	if (!t->clock)
		return -ENOMEM;
	copy_plain(ctf, name, sizeof(name), ctf->walk.options->realtime ? "realtime" :
		   ctf->walk.source->head.clock);
	if (ctf->absolute && memcmp(stream->boot_id, none, sizeof(none)))
		bt_clock_class_set_uuid(t->clock, stream->boot_id);
	bt_clock_class_set_frequency(t->clock, NS_PER_S);
	bt_clock_class_set_precision(t->clock, bound < BRAID_CTF_NO_BOUND ? bound :
				     BRAID_CTF_NO_BOUND);
	bt_clock_class_set_origin_is_unix_epoch(t->clock, ctf->absolute);
	bt_clock_class_set_offset(t->clock, rest_ns < 0 ? offset_s - 1 : offset_s,
				  rest_ns < 0 ? rest_ns + NS_PER_S : rest_ns);
	return bt_clock_class_set_name(t->clock, name) ? -ENOMEM : 0;
}

static int tell(struct braid_ctf *ctf, struct braid_ctf_trace *t, const char *name,
		const char *value)
{
	char plain[256];

	copy_plain(ctf, plain, sizeof(plain), value);
	return bt_trace_set_environment_entry_string(t->trace, name, plain) ? -ENOMEM : 0;
}

static int tell_environment(struct braid_ctf *ctf, struct braid_ctf_trace *t,
			    const struct braid_stream *stream)
{
	const struct braid_chunk_file *head = &ctf->walk.source->head;
	bool host = stream->kind == BRAID_STREAM_HOST;
	const char *const entries[][2] = {
		{ "hostname", host && *head->host_name ? head->host_name : stream->name },
		{ "domain", "kernel" },
		{ "sysname", "Linux" },
		{ "kernel_release", stream->kernel_release },
		{ "machine", stream->machine },
		{ "tracer_name", "tracebraid" },
		{ "stream_name", stream->name },
		{ "clock_source", braid_clock_kind_name(stream->clock.kind) },
	};
	int err = 0;
	u32 k;

	for (k = 0; k < sizeof(entries) / sizeof(*entries) && !err; k++)
		err = tell(ctf, t, entries[k][0], entries[k][1]);
	return err;
}

static int make_trace(struct braid_ctf *ctf, struct braid_ctf_trace *t,
		      const struct braid_stream *stream)
{
	char name[64];

	t->class = bt_trace_class_create(ctf->component);
	if (!t->class)
		return -ENOMEM;
	bt_trace_class_set_assigns_automatic_stream_class_id(t->class, BT_FALSE);
	t->trace = bt_trace_create(t->class);
	if (!t->trace)
		return -ENOMEM;
	copy_file_name(name, sizeof(name), stream->name);
	if (bt_trace_set_name(t->trace, *name ? name : "guest") ||
	    tell_environment(ctf, t, stream))
		return -ENOMEM;
	return make_clock(ctf, t, stream);
}

static int make_note_class(struct braid_ctf_buffer *b, bt_trace_class *tc)
{
	bt_field_class *payload = bt_field_class_structure_create(tc);
	int err = payload ? append(payload, "text", bt_field_class_string_create(tc)) : -ENOMEM;

	b->note = bt_event_class_create(b->class);
	if (!err && (!b->note || bt_event_class_set_name(b->note, "note") ||
		     bt_event_class_set_payload_field_class(b->note, payload)))
		err = -ENOMEM;
	bt_field_class_put_ref(payload);
	return err;
}

/* The packets' CPU, and what each event has beside its fields. */
static int make_contexts(struct braid_ctf_buffer *b, bt_trace_class *tc)
{
	bt_field_class *packet = bt_field_class_structure_create(tc);
	bt_field_class *event = bt_field_class_structure_create(tc);
	int err = packet && event ? 0 : -ENOMEM;

	if (!err)
		err = append(packet, "cpu_id", make_number(tc, sizeof(u32), false));
	if (!err)
		err = append(event, "tid", make_number(tc, sizeof(s32), true));
	if (!err)
		err = append(event, "common_flags", make_number(tc, sizeof(u8), false));
	if (!err)
		err = append(event, "common_preempt_count", make_number(tc, sizeof(u8), false));
	if (!err)
		err = append(event, "bound_ns", make_number(tc, sizeof(u64), false));
	if (!err)
		err = append(event, "procname", bt_field_class_string_create(tc));
	if (!err && (bt_stream_class_set_packet_context_field_class(b->class, packet) ||
		     bt_stream_class_set_event_common_context_field_class(b->class, event)))
		err = -ENOMEM;
	bt_field_class_put_ref(packet);
	bt_field_class_put_ref(event);
	return err;
}

static int make_state_class(struct braid_ctf_buffer *b, bt_trace_class *tc)
{
	bt_field_class *packet = bt_field_class_structure_create(tc);
	bt_field_class *payload = bt_field_class_structure_create(tc);
	int err = packet && payload ? 0 : -ENOMEM;

	if (!err)
		err = append(packet, "cpu_id", make_number(tc, sizeof(u32), false));
	if (!err)
		err = append(payload, "vcpu", make_number(tc, sizeof(u32), false));
	if (!err)
		err = append(payload, "state", bt_field_class_string_create(tc));
	if (!err)
		err = append(payload, "ns", make_number(tc, sizeof(u64), false));
	if (!err)
		err = append(payload, "task", bt_field_class_string_create(tc));
	if (!err)
		err = append(payload, "culprit", bt_field_class_string_create(tc));
	if (!err && bt_stream_class_set_packet_context_field_class(b->class, packet))
		err = -ENOMEM;
	b->note = err ? NULL : bt_event_class_create(b->class);
	if (!err && (!b->note || bt_event_class_set_name(b->note, "tracebraid:vcpu_state") ||
		     bt_event_class_set_payload_field_class(b->note, payload)))
		err = -ENOMEM;
	bt_field_class_put_ref(packet);
	bt_field_class_put_ref(payload);
	return err;
}

static int make_buffer(struct braid_ctf *ctf, struct braid_ctf_trace *t,
		       struct braid_ctf_buffer *b)
{
	bool states = b == &t->buffers[BRAID_CTF_BUFFERS - 1];

	b->notes = b == t->buffers;
	b->class = bt_stream_class_create_with_id(t->class, b - t->buffers);
	ctf->metadata_bytes += 4 * METADATA_BYTES;
	if (!b->class || bt_stream_class_set_default_clock_class(b->class, t->clock))
		return -ENOMEM;
	bt_stream_class_set_assigns_automatic_stream_id(b->class, BT_FALSE);
	bt_stream_class_set_supports_packets(b->class, BT_TRUE, BT_TRUE, BT_TRUE);
	bt_stream_class_set_supports_discarded_events(b->class, BT_TRUE, BT_TRUE);
	if (states)
		return make_state_class(b, t->class);
	return b->notes ? make_note_class(b, t->class) : make_contexts(b, t->class);
}

/* @file: its name, before it is made fit for one; @id: unique among the buffer's rings. */
static int make_stream(struct braid_ctf *ctf, struct braid_ctf_ring *r,
		       const struct braid_stream *stream, u64 id, const char *file)
{
	struct braid_ctf_trace *t = &ctf->traces[stream->number];
	char name[64];
	int err = 0;

	if (!t->class)
		err = make_trace(ctf, t, stream);
	if (!err && !r->buffer->class)
		err = make_buffer(ctf, t, r->buffer);
	if (err)
		return err;
	copy_file_name(name, sizeof(name), file);
	r->stream = bt_stream_create_with_id(r->buffer->class, t->trace, id);
	return !r->stream || bt_stream_set_name(r->stream, name) ? -ENOMEM : 0;
}

struct braid_ctf_ring *braid_ctf_state_ring(struct braid_ctf *ctf, u32 vcpu)
{
	const struct braid_vcpu *v = &ctf->slices.states.vcpus[vcpu];
	struct braid_ctf_trace *t = &ctf->traces[v->guest->number];
	struct braid_ctf_ring *r = &ctf->states[vcpu];
	char name[64];

	r->buffer = &t->buffers[BRAID_CTF_BUFFERS - 1];
	r->cpu = v->number;
	snprintf(name, sizeof(name), "tracebraid-states_%u", v->number);
	return r->stream || !make_stream(ctf, r, v->guest, v->number, name) ? r : NULL;
}

static int make_ring(struct braid_ctf *ctf, struct braid_ctf_ring *r,
		     const struct braid_ring *ring)
{
	struct braid_ctf_trace *t = &ctf->traces[ring->stream->number];
	bool notes = ring->cpu == BRAID_RING_NOTES;
	const char *buffer = braid_ring_buffer_name(ring);
	char name[64];

	r->buffer = &t->buffers[notes ? 0 : 1 + ring->buffer % BRAID_MAX_BUFFERS];
	r->cpu = ring->cpu;
	if (notes)
		snprintf(name, sizeof(name), "notes");
	else
		snprintf(name, sizeof(name), "%s_%u", *buffer ? buffer : "trace", ring->cpu);
	return make_stream(ctf, r, ring->stream, ring->order, name);
}

struct braid_ctf_ring *braid_ctf_ring(struct braid_ctf *ctf, const struct braid_ring *ring)
{
	struct braid_ctf_ring *r = &ctf->rings[ring->order];

	if (!r->stream && make_ring(ctf, r, ring))
		return NULL;
	return r;
}

/* Kinds of events ------------------------------------------------------------------------- */

/* Every field as a member; or none, when they are too many for that. */
static int add_fields(struct braid_ctf *ctf, struct braid_ctf_event *e, bt_trace_class *tc,
		      bt_field_class *payload)
{
	const struct braid_field *f;
	char name[MAX_NAME_BYTES + 16];
	u32 nr = 0, elements = 0;
	int err = 0;

	for (f = e->parsed->fields; f; f = f->next)
		nr++;
	e->fields = calloc(nr + 1, sizeof(*e->fields));
	if (!e->fields)
		return -ENOMEM;
	for (f = e->parsed->fields; f; f = f->next, e->nr_fields++) {
		struct braid_ctf_field *to = &e->fields[e->nr_fields];

		shape_field(to, f);
		if (to->shape == BRAID_CTF_ARRAY)
			elements += f->size / to->element_bytes;
		e->unfit = elements > MAX_STATIC_ELEMENTS ||
			   (to->shape == BRAID_CTF_ARRAY && f->size % to->element_bytes);
		if (e->unfit)
			return 0;
		name_member(ctf, payload, name, f);
		err = append(payload, name, make_field(tc, to));
		if (err)
			return err;
	}
	return 0;
}

static int describe(struct braid_ctf *ctf, struct braid_ctf_event *e,
		    const struct braid_event_type_info *info)
{
	bt_trace_class *tc = bt_stream_class_borrow_trace_class(e->buffer->class);
	bt_field_class *payload = bt_field_class_structure_create(tc);
	char name[256];
	int err;

	if (!payload)
		return -ENOMEM;
	err = e->parsed ? add_fields(ctf, e, tc, payload) :
			  append(payload, "raw", bt_field_class_string_create(tc));
	if (!err && !e->unfit) {
		name_event(ctf, name, sizeof(name), info);
		e->class = bt_event_class_create(e->buffer->class);
		if (!e->class || bt_event_class_set_name(e->class, name) ||
		    bt_event_class_set_payload_field_class(e->class, payload))
			err = -ENOMEM;
	}
	bt_field_class_put_ref(payload);
	return err;
}

static void free_event(struct braid_ctf_event *e)
{
	bt_event_class_put_ref(e->class);
	free(e->fields);
	free(e);
}

/* Makes space for a type's number: types are numbered in order of occurrence. */
static bool make_room(struct braid_ctf *ctf, u32 number)
{
	struct braid_ctf_event **grown;
	u32 nr = 2 * (number + 1);

	if (number < ctf->nr_types)
		return true;
	grown = realloc(ctf->types, nr * sizeof(*grown));
	if (!grown)
		return false;
	memset(grown + ctf->nr_types, 0, (nr - ctf->nr_types) * sizeof(*grown));
	ctf->types = grown;
	ctf->nr_types = nr;
	return true;
}

static const struct braid_ctf_event *find(struct braid_ctf *ctf,
					  const struct braid_ctf_buffer *buffer,
					  const struct braid_layout *parsed,
					  const struct braid_event_type_info *info)
{
	struct braid_ctf_event *e;

	if (!make_room(ctf, info->number))
		return NULL;
	for (e = ctf->types[info->number]; e; e = e->next)
		if (e->buffer == buffer && e->parsed == parsed)
			return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->buffer = buffer;
	e->parsed = parsed;
	if (describe(ctf, e, info)) {
		free_event(e);
		return NULL;
	}
	e->next = ctf->types[info->number];
	ctf->types[info->number] = e;
	return e;
}

const struct braid_ctf_event *braid_ctf_event(struct braid_ctf *ctf,
					      const struct braid_ctf_buffer *buffer,
					      const struct braid_item *item,
					      const struct braid_event_type_info *info)
{
	const struct braid_layout *parsed = braid_format_fields(ctf->walk.format, item);
	const struct braid_ctf_event *e = find(ctf, buffer, parsed, info);

	return e && parsed && !braid_ctf_fits(e, item) ? find(ctf, buffer, NULL, info) : e;
}

static void free_trace(struct braid_ctf_trace *t)
{
	u32 k;

	for (k = 0; k < BRAID_CTF_BUFFERS; k++) {
		bt_event_class_put_ref(t->buffers[k].note);
		bt_stream_class_put_ref(t->buffers[k].class);
	}
	bt_clock_class_put_ref(t->clock);
	bt_trace_put_ref(t->trace);
	bt_trace_class_put_ref(t->class);
}

void braid_ctf_free_classes(struct braid_ctf *ctf)
{
	struct braid_ctf_event *e;
	size_t k;

	for (k = 0; k < ctf->nr_types; k++)
		while ((e = ctf->types[k])) {
			ctf->types[k] = e->next;
			free_event(e);
		}
	free(ctf->types);
	for (k = 0; k < ctf->nr_rings; k++) {
		bt_packet_put_ref(ctf->rings[k].packet);
		bt_stream_put_ref(ctf->rings[k].stream);
	}
	free(ctf->rings);
	for (k = 0; ctf->states && k < ctf->slices.states.nr_vcpus; k++) {
		bt_packet_put_ref(ctf->states[k].packet);
		bt_stream_put_ref(ctf->states[k].stream);
	}
	free(ctf->states);
	for (k = 0; ctf->traces && k < ctf->walk.source->nr_streams; k++)
		free_trace(&ctf->traces[k]);
	free(ctf->traces);
}
