// SPDX-License-Identifier: GPL-2.0-or-later
/* How each kind of event is encoded: found out once, then done field by field. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <traceevent/event-parse.h>

#include "host_agent/export/perfetto.h"
#include "host_agent/export/wire.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define FIRST_OWN_FIELD		65536u	/* of FtraceEvent, for kinds that describe themselves ... */
#define MAX_OWN_FIELDS		65536u
#define MAX_OWN_STEPS		31u	/* ... and what trace_processor takes of one's fields */

/* Fields of the .proto file that are encoded here. */
#define TIMESTAMP_KEY		braid_wire_key(1, BRAID_WIRE_VARINT)	/* FtraceEvent.timestamp */
#define PID_KEY			braid_wire_key(2, BRAID_WIRE_VARINT)	/* FtraceEvent.pid */
#define GENERIC_KEY		braid_wire_key(327, BRAID_WIRE_BYTES)	/* FtraceEvent.generic */

enum step_type { STEP_NUMBER, STEP_NUMBERS, STEP_STRING };

/* One field: from where in the payload, to which field of the message. */
struct step {
	const struct tep_format_field *field;
	u64 key;
	enum step_type type;
	u32 size;		/* of a number */
	bool is_signed;
	bool narrow;		/* an unsigned number of 32 bits there */
	bool function;		/* an address that is known by name */
};

struct braid_perfetto_kind {
	const struct braid_event_type_info *info;
	u64 key;		/* in FtraceEvent */
	enum braid_perfetto_role role;
	const struct tep_format_field *next_pid;	/* of a sched_switch */
	bool planned;		/* what follows is found out */
	bool as_text;		/* its fields can't be told one by one */
	bool described;		/* it has no message there: it tells its own */
	bool told;		/* which was done */
	ProtobufCBinaryData descriptor;
	u32 nr_steps;
	struct step *steps;
};

static bool number_size(u32 size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* libtraceevent takes bytes for strings too. */
static bool is_text(const struct tep_format_field *f)
{
	return f->flags & TEP_FIELD_IS_STRING && strstr(f->type, "char") &&
	       !strstr(f->type, "unsigned");
}

static enum step_type type_of(const struct tep_format_field *f)
{
	if (is_text(f))
		return STEP_STRING;
	return f->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_DYNAMIC) || !number_size(f->size) ?
	       STEP_NUMBERS : STEP_NUMBER;
}

static void begin_step(struct step *step, const struct tep_format_field *f)
{
	memset(step, 0, sizeof(*step));
	step->field = f;
	step->type = type_of(f);
	step->is_signed = f->flags & TEP_FIELD_IS_SIGNED;
	step->size = step->type == STEP_NUMBER ? (u32)f->size : f->elementsize;
	if (!number_size(step->size))
		step->size = 1;
}

static void end_step(struct step *step, u32 number)
{
	step->key = braid_wire_key(number, step->type == STEP_STRING ? BRAID_WIRE_BYTES :
					   BRAID_WIRE_VARINT);
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
	step->narrow = home->type == PROTOBUF_C_TYPE_UINT32;
	step->function = step->size == 8 && !strcmp(home->name, "function");
	end_step(step, home->id);
	return true;
}

/* The field of FtraceEvent whose message is that of an event's name; NULL: there is none. */
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

static bool plan_well_known(struct braid_perfetto_kind *kind)
{
	const ProtobufCFieldDescriptor *f = well_known(kind->info);
	u32 k;

	if (!f)
		return false;
	for (k = 0; k < kind->nr_steps; k++)
		if (!take_home(&kind->steps[k], f->descriptor))
			return false;
	kind->key = braid_wire_key(f->id, BRAID_WIRE_BYTES);
	return true;
}

/* The message that a kind tells of itself; its fields are those of the steps. */
static int make_descriptor(struct braid_perfetto_kind *kind)
{
	Braid__FieldDescriptorProto fields[MAX_OWN_STEPS], *list[MAX_OWN_STEPS];
	Braid__DescriptorProto message = BRAID__DESCRIPTOR_PROTO__INIT;
	u32 k;

	for (k = 0; k < kind->nr_steps; k++) {
		const struct step *step = &kind->steps[k];
		Braid__FieldDescriptorProto *f = list[k] = &fields[k];

		braid__field_descriptor_proto__init(f);
		f->name = step->field->name;
		BRAID_PERFETTO_SET(f, number, k + 1);
		BRAID_PERFETTO_SET(f, label, step->type == STEP_NUMBERS ?
				   BRAID__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REPEATED :
				   BRAID__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_OPTIONAL);
		BRAID_PERFETTO_SET(f, type, step->type == STEP_STRING ?
				   BRAID__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_STRING :
				   step->is_signed ? BRAID__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_INT64 :
				   BRAID__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_UINT64);
	}
	message.name = (char *)braid_format_label(kind->info);
	message.n_field = kind->nr_steps;
	message.field = list;
	kind->descriptor.data = malloc(braid__descriptor_proto__get_packed_size(&message) + 1);
	if (!kind->descriptor.data)
		return braid_fail(-ENOMEM, "out of memory");
	kind->descriptor.len = braid__descriptor_proto__pack(&message, kind->descriptor.data);
	return 0;
}

static int plan_own(struct braid_perfetto_kind *kind)
{
	u32 k;

	if (kind->nr_steps > MAX_OWN_STEPS || kind->info->number >= MAX_OWN_FIELDS) {
		kind->as_text = true;
		return 0;
	}
	for (k = 0; k < kind->nr_steps; k++)
		end_step(&kind->steps[k], k + 1);
	kind->key = braid_wire_key(FIRST_OWN_FIELD + kind->info->number, BRAID_WIRE_BYTES);
	kind->described = true;
	return make_descriptor(kind);
}

static int plan(struct braid_perfetto_kind *kind, const struct tep_event *event)
{
	const struct tep_format_field *f;
	u32 nr = 0;

	for (f = event->format.fields; f; f = f->next)
		nr++;
	kind->steps = calloc(nr + 1, sizeof(*kind->steps));
	if (!kind->steps)
		return braid_fail(-ENOMEM, "out of memory");
	for (f = event->format.fields; f; f = f->next) {
		begin_step(&kind->steps[kind->nr_steps++], f);
		if (!strcmp(kind->info->name, "sched_switch") && !strcmp(f->name, "next_pid") &&
		    f->size == 4)
			kind->next_pid = f;
	}
	kind->planned = true;
	return plan_well_known(kind) ? 0 : plan_own(kind);
}

struct braid_perfetto_kind *braid_perfetto_kind_of(struct braid_perfetto *x,
						   const struct braid_item *item,
						   const struct braid_event_type_info *info)
{
	struct braid_perfetto_kind *kind, **grown;
	size_t nr = x->nr_kinds ? x->nr_kinds : 64;

	while (nr <= info->number)
		nr *= 2;
	if (nr > x->nr_kinds) {
		grown = realloc(x->kinds, nr * sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + x->nr_kinds, 0, (nr - x->nr_kinds) * sizeof(*grown));
		x->kinds = grown;
		x->nr_kinds = nr;
	}
	kind = x->kinds[info->number];
	if (kind)
		return kind;
	kind = x->kinds[info->number] = calloc(1, sizeof(*kind));
	if (!kind)
		return NULL;
	kind->info = info;
	if (item->stream->kind == BRAID_STREAM_HOST && !strcmp(info->system, "kvm"))
		kind->role = !strcmp(info->name, "kvm_entry") ? BRAID_PERFETTO_ENTRY :
			     !strcmp(info->name, "kvm_exit") ? BRAID_PERFETTO_EXIT :
			     BRAID_PERFETTO_PLAIN;
	return kind;
}

void braid_perfetto_kinds_free(struct braid_perfetto *x)
{
	size_t k;

	for (k = 0; k < x->nr_kinds; k++) {
		if (!x->kinds[k])
			continue;
		free(x->kinds[k]->descriptor.data);
		free(x->kinds[k]->steps);
		free(x->kinds[k]);
	}
	free(x->kinds);
}

enum braid_perfetto_role braid_perfetto_kind_role(const struct braid_perfetto_kind *kind)
{
	return kind->role;
}

s32 braid_perfetto_kind_next(const struct braid_perfetto_kind *kind, const struct braid_item *item)
{
	const struct tep_format_field *f = kind->next_pid;
	s32 pid;

	if (!f || f->offset < 0 || (u32)f->offset + sizeof(pid) > item->payload_bytes)
		return braid_format_pid(item);
	memcpy(&pid, item->payload + f->offset, sizeof(pid));
	return pid;
}

void braid_perfetto_describe(const struct braid_perfetto_kind *kind,
			     Braid__FtraceEventBundle__GenericEventDescriptor *out)
{
	braid__ftrace_event_bundle__generic_event_descriptor__init(out);
	BRAID_PERFETTO_SET(out, field_id, FIRST_OWN_FIELD + kind->info->number);
	BRAID_PERFETTO_SET(out, event_descriptor, kind->descriptor);
	out->group_name = (char *)kind->info->system;
}

/* Encoding ------------------------------------------------------------------------------------- */

/* Return: what was put. */
static u64 put_number(struct braid_text *t, const struct step *step, const u8 *at)
{
	u32 shift = 64 - 8 * step->size;
	u64 value = 0;

	memcpy(&value, at, step->size);
	if (step->is_signed)
		value = (u64)((s64)(value << shift) >> shift);
	braid_wire_number(t, step->key, step->narrow ? (u32)value : value);
	return value;
}

static int put_steps(struct braid_perfetto *x, struct braid_perfetto_machine *m,
		     const struct braid_perfetto_kind *kind, const struct braid_item *item,
		     struct braid_text *t)
{
	u32 k, offset, length;
	int err = 0;

	for (k = 0; !err && k < kind->nr_steps; k++) {
		const struct step *step = &kind->steps[k];
		u64 value = 0;

		if (!braid_format_range(step->field, item->payload, item->payload_bytes, &offset,
					&length))
			continue;
		if (step->type == STEP_STRING) {
			braid_wire_string(t, step->key, (const char *)item->payload + offset,
					  length);
			continue;
		}
		for (; length >= step->size; offset += step->size, length -= step->size)
			value = put_number(t, step, item->payload + offset);
		if (step->function)
			err = braid_perfetto_function(x, m, value);
	}
	return err;
}

/* Name and text, as the report has them: hexadecimal when nobody told more. */
static void put_text(struct braid_perfetto *x, const struct braid_perfetto_kind *kind,
		     const struct braid_item *item, const char *of, struct braid_text *t)
{
	Braid__GenericFtraceEvent__Field field = BRAID__GENERIC_FTRACE_EVENT__FIELD__INIT;
	Braid__GenericFtraceEvent event = BRAID__GENERIC_FTRACE_EVENT__INIT;
	Braid__GenericFtraceEvent__Field *fields[] = { &field };
	size_t bytes;
	char *at;

	x->text.bytes = 0;
	braid_format_text(x->walk.format, item, &x->text);
	braid_text_putc(&x->text, '\0');
	if (x->text.failed)
		return;
	field.name = (char *)of;
	field.str_value = x->text.data;
	event.event_name = (char *)braid_format_label(kind->info);
	event.n_field = 1;
	event.field = fields;
	bytes = braid__generic_ftrace_event__get_packed_size(&event);
	at = braid_text_room(t, bytes);
	if (at)
		t->bytes += braid__generic_ftrace_event__pack(&event, (u8 *)at);
}

int braid_perfetto_put_event(struct braid_perfetto *x, struct braid_perfetto_machine *m,
			     const struct braid_item *item, struct braid_perfetto_kind *kind)
{
	struct braid_perfetto_bundle *bundle = &m->bundles[item->ring->cpu];
	const struct tep_event *event = braid_format_fields(x->walk.format, item);
	struct braid_text *t = &bundle->events;
	bool by_steps;
	size_t begin;
	int err = event && !kind->planned ? plan(kind, event) : 0;

	if (err)
		return err;
	by_steps = event && !kind->as_text;
	/* trace_processor finds time, task and kind fastest in this order. */
	braid_wire_number(t, TIMESTAMP_KEY, (u64)item->host_ns);
	braid_wire_number(t, PID_KEY, (u32)braid_format_pid(item));
	begin = braid_wire_begin(t, by_steps ? kind->key : GENERIC_KEY);
	if (by_steps)
		err = put_steps(x, m, kind, item, t);
	else
		put_text(x, kind, item, event ? "text" : "raw", t);
	braid_wire_end(t, begin);
	if (err)
		return err;
	if (by_steps && kind->described && !kind->told) {
		kind->told = true;
		if (braid_array_push(bundle->told, bundle->nr_told, bundle->told_capacity, kind))
			return braid_fail(-ENOMEM, "out of memory");
	}
	bundle->ends[bundle->nr++] = t->bytes;
	return t->failed || x->text.failed ? braid_fail(-ENOMEM, "out of memory") : 0;
}
