// SPDX-License-Identifier: GPL-2.0-or-later
/* The encoding of each event type: determined once, then applied field by field. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/util/wire.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/number.h"
#include "shared/platform.h"

#define FIRST_OWN_FIELD		65536u	/* of FtraceEvent, for types that describe themselves ... */
#define MAX_OWN_FIELDS		65536u
#define MAX_OWN_STEPS		31u	/* ... and what trace_processor takes of one's fields */

/* Fields of the .proto file that are encoded here. */
#define EVENT_KEY		braid_wire_key(2, BRAID_WIRE_BYTES)	/* FtraceEventBundle.event */
#define TIMESTAMP_KEY		braid_wire_key(1, BRAID_WIRE_VARINT)	/* FtraceEvent.timestamp */
#define PID_KEY			braid_wire_key(2, BRAID_WIRE_VARINT)	/* FtraceEvent.pid */
#define FIELD_ID_KEY		braid_wire_key(1, BRAID_WIRE_VARINT)	/* GenericEventDescriptor.field_id */
#define MESSAGE_KEY		braid_wire_key(2, BRAID_WIRE_BYTES)	/* .event_descriptor */
#define GROUP_KEY		braid_wire_key(3, BRAID_WIRE_BYTES)	/* .group_name */
#define GENERIC_KEY		braid_wire_key(327, BRAID_WIRE_BYTES)	/* FtraceEvent.generic */

#define KEY_BYTES	8u	/* of a field's number, at most */
#define NUMBER_BYTES	(KEY_BYTES + BRAID_VARINT_BYTES)	/* of a number, at most */
#define HEAD_BYTES	64u	/* of an event: what precedes its fields, at most */

enum step_type { STEP_NUMBER, STEP_NUMBERS, STEP_STRING };

/* One field: from where in the payload, to which field of the message. */
struct step {
	const struct braid_field *field;
	u64 key;
	char key_text[KEY_BYTES];	/* encoded, and zeros */
	u32 key_bytes;
	enum step_type type;
	u32 size;		/* of a number */
	bool is_signed;
	/* A number alone: the eight bytes that end with it, shifted right, with its sign; and what remains. */
	u32 word_at;
	u32 shift;
	u64 mask;
	bool function;		/* an address that is known by name */
};

struct braid_perfetto_type {
	const struct braid_event_type_info *info;
	u64 key;		/* in FtraceEvent */
	bool planned;		/* what follows is found out */
	bool as_text;		/* its fields can't be encoded one by one */
	u32 own;		/* its number there, if it has no message: that of its format */
	bool described;		/* it has none: it describes itself */
	bool listed;		/* which was done */
	ProtobufCBinaryData descriptor;
	u32 nr_steps;
	struct step *steps;
};

struct braid_perfetto_types {
	struct braid_perfetto_out *out;
	struct braid_perfetto_type **types;	/* by number; NULL: not met yet */
	size_t nr;
	struct braid_text text;		/* scratch space */
};

static_assert(HEAD_BYTES >= 6 * BRAID_VARINT_BYTES, "keys, time, task, lengths");

static bool number_size(u32 size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

static enum step_type perfetto_type_type_of(const struct braid_field *f)
{
	if (f->flags & BRAID_FIELD_TEXT)
		return STEP_STRING;
	return f->flags & (BRAID_FIELD_ARRAY | BRAID_FIELD_DYNAMIC) || !number_size(f->size) ?
	       STEP_NUMBERS : STEP_NUMBER;
}

static void begin_step(struct step *step, const struct braid_field *f)
{
	memset(step, 0, sizeof(*step));
	step->field = f;
	step->type = perfetto_type_type_of(f);
	step->is_signed = f->flags & BRAID_FIELD_SIGNED;
	step->size = step->type == STEP_NUMBER ? f->size : f->elementsize;
	if (!number_size(step->size))
		step->size = 1;
	step->word_at = f->offset + step->size - sizeof(u64);
	step->shift = 64 - 8 * step->size;
	step->mask = step->is_signed ? ~0ULL : ~0ULL >> step->shift;
}

static void end_step(struct step *step, u32 number)
{
	step->key = braid_wire_key(number, step->type == STEP_STRING ? BRAID_WIRE_BYTES :
					   BRAID_WIRE_VARINT);
	step->key_bytes = braid_varint_put(step->key_text, step->key) - step->key_text;
}

/* The message holds the field: its name, and all that its type can say. */
static bool take_home(struct step *step, const ProtobufCMessageDescriptor *message)
{
	const ProtobufCFieldDescriptor *home =
		protobuf_c_message_descriptor_get_field_by_name(message, step->field->name);
	bool narrow;

	if (!home || (home->label == PROTOBUF_C_LABEL_REPEATED) != (step->type == STEP_NUMBERS))
		return false;
	if ((home->type == PROTOBUF_C_TYPE_STRING) != (step->type == STEP_STRING))
		return false;
	narrow = home->type == PROTOBUF_C_TYPE_INT32 || home->type == PROTOBUF_C_TYPE_UINT32;
	if (narrow && step->type != STEP_STRING && step->size > 4)
		return false;
	if (home->type == PROTOBUF_C_TYPE_UINT32)
		step->mask &= UINT32_MAX;
	step->function = step->size == 8 && !strcmp(home->name, "function");
	end_step(step, home->id);
	return true;
}

/* The field of FtraceEvent whose message is that of an event's name; NULL: none. */
static const ProtobufCFieldDescriptor *well_known(const struct braid_event_type_info *info)
{
	const ProtobufCMessageDescriptor *all = &braid__ftrace_event__descriptor;
	char name[256];
	u32 k;

	snprintf(name, sizeof(name), "%s.%s.%s", all->package_name, info->system, info->name);
	for (k = 0; k < all->n_fields; k++) {
		const ProtobufCFieldDescriptor *f = &all->fields[k];

		if (f->type == PROTOBUF_C_TYPE_MESSAGE &&
		    !strcmp(((const ProtobufCMessageDescriptor *)f->descriptor)->name, name))
			return f;
	}
	return NULL;
}

static bool plan_well_known(struct braid_perfetto_type *type)
{
	const ProtobufCFieldDescriptor *f = well_known(type->info);
	u32 k;

	if (!f)
		return false;
	for (k = 0; k < type->nr_steps; k++)
		if (!take_home(&type->steps[k], f->descriptor))
			return false;
	type->key = braid_wire_key(f->id, BRAID_WIRE_BYTES);
	return true;
}

/* The message of a self-describing type; its fields are those of the steps. */
static int make_descriptor(struct braid_perfetto_type *type)
{
	Braid__FieldDescriptorProto fields[MAX_OWN_STEPS], *list[MAX_OWN_STEPS];
	Braid__DescriptorProto message = BRAID__DESCRIPTOR_PROTO__INIT;
	u32 k;

	for (k = 0; k < type->nr_steps; k++) {
		const struct step *step = &type->steps[k];
		Braid__FieldDescriptorProto *f = list[k] = &fields[k];

		braid__field_descriptor_proto__init(f);
		f->name = (char *)step->field->name;
		BRAID_PERFETTO_SET(f, number, k + 1);
		BRAID_PERFETTO_SET(f, label, step->type == STEP_NUMBERS ?
				   BRAID__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REPEATED :
				   BRAID__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_OPTIONAL);
		BRAID_PERFETTO_SET(f, type, step->type == STEP_STRING ?
				   BRAID__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_STRING :
				   step->is_signed ? BRAID__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_INT64 :
				   BRAID__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_UINT64);
	}
	message.name = (char *)braid_format_label(type->info);
	message.n_field = type->nr_steps;
	message.field = list;
	type->descriptor.data = malloc(braid__descriptor_proto__get_packed_size(&message) + 1);
	if (!type->descriptor.data)
		return braid_out_of_memory();
	type->descriptor.len = braid__descriptor_proto__pack(&message, type->descriptor.data);
	return 0;
}

static int plan_own(struct braid_perfetto_type *type)
{
	u32 k;

	if (type->nr_steps > MAX_OWN_STEPS || type->own >= MAX_OWN_FIELDS) {
		type->as_text = true;
		return 0;
	}
	for (k = 0; k < type->nr_steps; k++) {
		/* Not as a well-known message, some of whose fields may have been found. */
		begin_step(&type->steps[k], type->steps[k].field);
		end_step(&type->steps[k], k + 1);
	}
	type->key = braid_wire_key(FIRST_OWN_FIELD + type->own, BRAID_WIRE_BYTES);
	type->described = true;
	return make_descriptor(type);
}

static int plan(struct braid_perfetto_type *type, const struct braid_perfetto_machine *m,
		const struct braid_layout *layout)
{
	const struct braid_field *f;
	u32 nr = 0;

	for (f = layout->fields; f; f = f->next)
		nr++;
	type->steps = calloc(nr + 1, sizeof(*type->steps));
	if (!type->steps)
		return braid_out_of_memory();
	for (f = layout->fields; f; f = f->next) {
		struct step *step = &type->steps[type->nr_steps++];

		begin_step(step, f);
		/* A field's record has a header of eight bytes; a format may say otherwise. */
		type->as_text |= step->type == STEP_NUMBER && f->offset + step->size < sizeof(u64);
	}
	type->planned = true;
	type->own = m->first_format + (u32)(type->info->format - m->stream->formats);
	return type->as_text || plan_well_known(type) ? 0 : plan_own(type);
}

static noinline struct braid_perfetto_type *add_type(struct braid_perfetto_types *x,
						     const struct braid_event_type_info *info)
{
	struct braid_perfetto_type *type, **grown;
	size_t nr = x->nr ? x->nr : 64;

	while (nr <= info->number)
		nr *= 2;
	if (nr > x->nr) {
		grown = realloc(x->types, nr * sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + x->nr, 0, (nr - x->nr) * sizeof(*grown));
		x->types = grown;
		x->nr = nr;
	}
	type = calloc(1, sizeof(*type));
	x->types[info->number] = type;
	if (type)
		type->info = info;
	return type;
}

struct braid_perfetto_type *braid_perfetto_type_of(struct braid_perfetto_types *x,
						   const struct braid_event_type_info *info)
{
	struct braid_perfetto_type *type = info->number < x->nr ? x->types[info->number] : NULL;

	return type ? type : add_type(x, info);
}

struct braid_perfetto_types *braid_perfetto_types_new(struct braid_perfetto_out *out)
{
	struct braid_perfetto_types *x = calloc(1, sizeof(*x));

	if (x)
		x->out = out;
	return x;
}

void braid_perfetto_types_free(struct braid_perfetto_types *x)
{
	size_t k;

	for (k = 0; x && k < x->nr; k++) {
		if (!x->types[k])
			continue;
		free(x->types[k]->descriptor.data);
		free(x->types[k]->steps);
		free(x->types[k]);
	}
	if (!x)
		return;
	free(x->types);
	braid_text_free(&x->text);
	free(x);
}

void braid_perfetto_describe(const struct braid_perfetto_type *type, struct braid_text *out)
{
	braid_wire_number(out, FIELD_ID_KEY, FIRST_OWN_FIELD + type->own);
	braid_wire_bytes(out, MESSAGE_KEY, (const char *)type->descriptor.data,
			 type->descriptor.len);
	braid_wire_bytes(out, GROUP_KEY, type->info->system, strlen(type->info->system));
}

/* Encoding ------------------------------------------------------------------------------------- */

/* @to: NUMBER_BYTES. Return: the end. */
static __always_inline char *put_number(char *to, const struct step *step, u64 value)
{
	memcpy(to, step->key_text, sizeof(step->key_text));
	return braid_wire_varint(to + step->key_bytes, value);
}

/* A string, or the numbers of an array. */
static void put_range(struct braid_text *t, const struct step *step, const struct braid_item *item)
{
	u32 offset, length;
	char *to;

	if (!braid_format_range(step->field, item->payload, item->payload_bytes, &offset, &length))
		return;
	if (step->type == STEP_STRING) {
		braid_wire_string(t, step->key, (const char *)item->payload + offset, length);
		return;
	}
	to = braid_text_reserve(t, (size_t)(length / step->size) * NUMBER_BYTES);
	if (!to)
		return;
	for (; length >= step->size; offset += step->size, length -= step->size)
		to = put_number(to, step, braid_number_load(item->payload + offset, step->size,
							    step->is_signed) & step->mask);
	t->bytes = to - t->data;
}

static int put_steps(struct braid_perfetto_types *x, struct braid_perfetto_machine *m,
		     const struct braid_perfetto_type *type, const struct braid_item *item,
		     struct braid_text *t)
{
	const struct step *step = type->steps, *end = step + type->nr_steps;
	char *to = NULL;	/* where the next number is written; NULL: no room is reserved */
	u64 value;
	int err;

	for (; step < end; step++) {
		if (step->type != STEP_NUMBER) {
			if (to)
				t->bytes = to - t->data;
			to = NULL;
			put_range(t, step, item);
			continue;
		}
		if (!to)
			to = braid_text_reserve(t, (end - step) * NUMBER_BYTES);
		if (!to)
			return braid_out_of_memory();
		/* All fields are in the payload: braid_format_fields_of(). Sizes vary: no branch on them. */
		memcpy(&value, item->payload + step->word_at, sizeof(value));
		value = (u64)((s64)value >> step->shift) & step->mask;
		to = put_number(to, step, value);
		err = step->function ? braid_perfetto_function(x->out, m, value) : 0;
		if (err)
			return err;
	}
	if (to)
		t->bytes = to - t->data;
	return 0;
}

/* Name and text, as in the report: hexadecimal when no format is known. */
static void perfetto_type_put_text(struct braid_perfetto_types *x,
				   const struct braid_perfetto_type *type,
				   const struct braid_item *item, const char *of,
				   struct braid_text *t)
{
	Braid__GenericFtraceEvent__Field field = BRAID__GENERIC_FTRACE_EVENT__FIELD__INIT;
	Braid__GenericFtraceEvent event = BRAID__GENERIC_FTRACE_EVENT__INIT;
	Braid__GenericFtraceEvent__Field *fields[] = { &field };
	size_t bytes;
	char *at;

	x->text.bytes = 0;
	braid_format_text_of(item, type->info, &x->text);
	braid_text_putc(&x->text, '\0');
	if (x->text.failed)
		return;
	field.name = (char *)of;
	field.str_value = x->text.data;
	event.event_name = (char *)braid_format_label(type->info);
	event.n_field = 1;
	event.field = fields;
	bytes = braid__generic_ftrace_event__get_packed_size(&event);
	at = braid_text_reserve(t, bytes);
	if (at)
		t->bytes += braid__generic_ftrace_event__pack(&event, (u8 *)at);
}

int braid_perfetto_put_event(struct braid_perfetto_types *x, struct braid_perfetto_machine *m,
			     const struct braid_item *item, struct braid_perfetto_type *type)
{
	struct braid_perfetto_bundle *bundle = &m->bundles[item->ring->cpu];
	const struct braid_layout *layout = braid_format_fields_of(type->info, item);
	struct braid_text *t = &bundle->events;
	size_t event, begin;
	char *at = braid_text_reserve(t, HEAD_BYTES);
	bool by_steps;
	int err = layout && !type->planned ? plan(type, m, layout) : 0;

	if (err)
		return err;
	if (!at)
		return braid_out_of_memory();
	by_steps = layout && !type->as_text;
	at = braid_wire_head(at, EVENT_KEY);
	event = at - t->data;
	/* trace_processor finds time, task and type fastest in this order. */
	at = braid_wire_field(at, TIMESTAMP_KEY, (u64)item->host_ns);
	at = braid_wire_field(at, PID_KEY, (u32)braid_format_pid(item));
	at = braid_wire_head(at, by_steps ? type->key : GENERIC_KEY);
	begin = t->bytes = at - t->data;
	if (by_steps)
		err = put_steps(x, m, type, item, t);
	else
		perfetto_type_put_text(x, type, item, layout ? "text" : "raw", t);
	braid_wire_end(t, begin);
	braid_wire_end(t, event);
	if (err)
		return err;
	if (by_steps && type->described && !type->listed) {
		type->listed = true;
		if (braid_array_push(bundle->described, bundle->nr_described,
				     bundle->described_capacity, type))
			return braid_out_of_memory();
	}
	bundle->nr++;
	return t->failed || x->text.failed ? braid_out_of_memory() : 0;
}
