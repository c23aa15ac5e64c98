// SPDX-License-Identifier: GPL-2.0-or-later
/* What event types are in CTF: event classes, and the steps by which records become their payload. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/ctf/ctf.h"

#define NAME_BYTES	256u
#define NR_IDS		65536u	/* of events, undefined ones included */

/* An event's name. What ends a system call has the name by which Trace Compass knows it. */
static void name_event(char name[NAME_BYTES], const struct braid_event_type_info *info)
{
	const char *label = braid_format_label(info);

	if (!strcmp(info->system, "raw_syscalls") && !strcmp(label, "sys_exit"))
		label = "exit_syscall";
	braid_ctf_plain(name, NAME_BYTES, label);
}

/* Fields ---------------------------------------------------------------------------------- */

static bool is_number(u32 bytes)
{
	return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

static void add_step(struct braid_ctf_event *e, const struct braid_ctf_step *step)
{
	struct braid_ctf_step *last = e->nr_steps ? &e->steps[e->nr_steps - 1] : NULL;

	if (step->kind != BRAID_CTF_COPY) {
		e->nr_dynamic++;
	} else {
		e->fixed_bytes += step->bytes;
		/* Fields that follow each other are copied at once. */
		if (last && last->kind == BRAID_CTF_COPY &&
		    last->offset + last->bytes == step->offset) {
			last->bytes += step->bytes;
			return;
		}
	}
	e->steps[e->nr_steps++] = *step;
}

static void put_integer(struct braid_text *to, const struct braid_field *f, u32 bytes,
			const char *name)
{
	braid_text_printf(to, "\t\tinteger { size = %u; align = 8; signed = %s;%s } _%s", 8 * bytes,
			  f->flags & BRAID_FIELD_SIGNED ? "true" : "false",
			  f->flags & BRAID_FIELD_POINTER ? " base = x;" : "", name);
}

/* Short ones are copied with their neighbours, and readers find their end. */
static void add_string(struct braid_ctf_event *e, const struct braid_field *f,
		       struct braid_text *to, const char *name)
{
	struct braid_ctf_step step = {
		.kind = BRAID_CTF_STRING, .offset = f->offset, .bytes = f->size, .field = f,
	};

	if (f->flags & BRAID_FIELD_DYNAMIC || !f->size || f->size > BRAID_CTF_MOST_CHARS) {
		braid_text_printf(to, "\t\tstring { encoding = UTF8; } _%s;\n", name);
	} else {
		step.kind = BRAID_CTF_COPY;
		e->chars[e->nr_chars].offset = f->offset;
		e->chars[e->nr_chars++].bytes = f->size;
		braid_text_printf(to, "\t\tinteger { size = 8; align = 8; encoding = UTF8; } _%s[%u];\n",
				  name, f->size);
	}
	add_step(e, &step);
}

static void add_numbers(struct braid_ctf *ctf, struct braid_ctf_event *e,
			const struct braid_field *f, struct braid_text *to, const char *name)
{
	bool dynamic = f->flags & BRAID_FIELD_DYNAMIC || !f->size;
	bool array = dynamic || f->flags & BRAID_FIELD_ARRAY || !is_number(f->size);
	u32 element = !array ? f->size : is_number(f->elementsize) ? f->elementsize : 1;
	struct braid_ctf_step step = {
		.kind = dynamic ? BRAID_CTF_SEQUENCE : BRAID_CTF_COPY, .offset = f->offset,
		.bytes = f->size, .element_bytes = element, .field = f,
	};
	const char *length;

	e->unfit |= f->size % element;
	if (dynamic) {
		length = braid_ctf_names_length(&ctf->names, name);
		braid_text_printf(to, "\t\tuint32_t _%s;\n", length);
		put_integer(to, f, element, name);
		braid_text_printf(to, "[_%s];\n", length);
	} else {
		put_integer(to, f, element, name);
		if (array)
			braid_text_printf(to, "[%u]", f->size / element);
		braid_text_puts(to, ";\n");
	}
	add_step(e, &step);
}

static int add_fields(struct braid_ctf *ctf, struct braid_ctf_event *e, struct braid_text *to)
{
	const struct braid_field *f;
	const char *name;

	e->steps = calloc(e->parsed->nr + 1, sizeof(*e->steps));
	e->chars = calloc(e->parsed->nr + 1, sizeof(*e->chars));
	if (!e->steps || !e->chars)
		return -1;
	braid_ctf_names_begin(&ctf->names);
	for (f = e->parsed->fields; f; f = f->next) {
		name = braid_ctf_names_field(&ctf->names, f);
		if (f->flags & BRAID_FIELD_TEXT)
			add_string(e, f, to, name);
		else
			add_numbers(ctf, e, f, to, name);
	}
	/* Fields that overlap would make an event larger than its record. */
	e->unfit |= e->fixed_bytes > e->parsed->least_bytes;
	if (e->nr_steps && !e->nr_dynamic && !e->unfit)
		e->least_bytes = e->parsed->least_bytes;
	return ctf->names.failed ? -1 : 0;
}

/* Kinds of events ------------------------------------------------------------------------- */

/* A number for a stream's type, or for its events as bytes; it depends on the capture alone. */
static u32 key_of(const struct braid_stream *stream, const struct braid_event_type_info *info,
		  bool bytes)
{
	u32 number = info->format ? (u32)(info->format - stream->formats) :
		     (u32)stream->nr_formats + (info->raw ? NR_IDS : info->id);

	return 2 * number + bytes;
}

static u32 id_of(const struct braid_ctf *ctf, struct braid_ctf_class *class, u32 key)
{
	u32 k;

	for (k = 0; k < class->nr_common; k++)
		if (class->common[k] == key)
			return k;
	if (!ctf->surveys || k == BRAID_CTF_COMMON)
		return BRAID_CTF_COMMON + key;
	class->common[class->nr_common++] = key;
	return k;
}

static int ctf_classes_describe(struct braid_ctf *ctf, struct braid_ctf_event *e,
				struct braid_ctf_class *class, const struct braid_stream *stream,
				const struct braid_event_type_info *info)
{
	struct braid_text fields = { 0 };
	char name[NAME_BYTES];
	int err = 0;

	e->least_bytes = UINT32_MAX;
	if (e->parsed)
		err = add_fields(ctf, e, &fields);
	else
		braid_text_puts(&fields, "\t\tstring { encoding = UTF8; } _raw;\n");
	e->bytes = braid_ctf_least_bytes(e);
	if (!err && !e->unfit) {
		name_event(name, info);
		e->id = id_of(ctf, class, key_of(stream, info, !e->parsed));
		braid_ctf_begin_event_class(&e->metadata,
					    class - ctf->output->traces[stream->number].classes,
					    e->id, name);
		braid_text_put(&e->metadata, fields.data, fields.bytes);
		braid_ctf_end_event_class(&e->metadata);
	}
	err |= fields.failed || e->metadata.failed;
	braid_text_free(&fields);
	return err;
}

static void free_event(struct braid_ctf_event *e)
{
	free(e->steps);
	free(e->chars);
	braid_text_free(&e->metadata);
	free(e);
}

/* Makes space for a type's number: types are numbered in order of occurrence. */
static bool ctf_classes_grow(struct braid_ctf *ctf, u32 number)
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

static const struct braid_ctf_event *ctf_classes_find(struct braid_ctf *ctf,
						      struct braid_ctf_class *class,
						      const struct braid_stream *stream,
						      const struct braid_layout *parsed,
						      const struct braid_event_type_info *info)
{
	struct braid_ctf_event *e;

	if (!ctf_classes_grow(ctf, info->number))
		return NULL;
	for (e = ctf->types[info->number]; e; e = e->next)
		if (e->class == class && e->parsed == parsed)
			return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->class = class;
	e->parsed = parsed;
	if (ctf_classes_describe(ctf, e, class, stream, info)) {
		free_event(e);
		return NULL;
	}
	e->next = ctf->types[info->number];
	ctf->types[info->number] = e;
	return e;
}

const struct braid_ctf_event *braid_ctf_event(struct braid_ctf *ctf, struct braid_ctf_class *class,
					      const struct braid_item *item,
					      const struct braid_event_type_info *info)
{
	const struct braid_layout *parsed = braid_format_fields_of(info, item);
	const struct braid_ctf_event *e = ctf_classes_find(ctf, class, item->stream, parsed, info);

	return e && parsed && !braid_ctf_fits(e, item) ?
	       ctf_classes_find(ctf, class, item->stream, NULL, info) : e;
}

void braid_ctf_free_events(struct braid_ctf *ctf)
{
	struct braid_ctf_event *e;
	size_t k;

	for (k = 0; k < ctf->nr_types; k++)
		while ((e = ctf->types[k])) {
			ctf->types[k] = e->next;
			free_event(e);
		}
	free(ctf->types);
	ctf->types = NULL;
	ctf->nr_types = 0;
}
