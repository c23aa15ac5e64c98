// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Decides what of a parsed format libtraceevent may print. It was made for formats
 * that a kernel wrote: it divides by what it finds, and reads as many bytes as an event
 * asks for. A guest's format is not a kernel's.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/private.h"

#define MAX_ARGS	96	/* of a print format */
#define MAX_DEPTH	256	/* of a parsed expression */
#define MAX_WIDTH	64	/* in a conversion */
#define MAX_INDEX	16	/* constant index into a dynamic array */

/* Fields ------------------------------------------------------------------------------------- */

static const char *vet_field(const struct tep_format_field *field)
{
	bool dynamic = field->flags & TEP_FIELD_IS_DYNAMIC;

	if (field->offset < 0 || field->size < 0 || field->offset > (int)BRAID_MAX_SUBBUF_BYTES ||
	    field->size > (int)BRAID_MAX_SUBBUF_BYTES || !field->name)
		return "a field has no place in the record";
	if (dynamic && field->size != 4)
		return "a dynamic field has no 4 bytes";
	if (!dynamic && field->flags & TEP_FIELD_IS_ARRAY && field->arraylen &&
	    (u64)field->arraylen * field->elementsize > (u32)field->size)
		return "an array is larger than its field";
	return NULL;
}

/* The beginning of a record is given: see struct braid_record. */
static bool is_common(const struct tep_format_field *field, const char *name, int offset, int size)
{
	return field && !strcmp(field->name, name) && field->offset == offset &&
	       field->size == size;
}

/* What a payload must hold for this field. */
static void note_extent(struct braid_read_checks *checks, const struct tep_format_field *field)
{
	u32 end = field->offset + field->size;

	checks->least_bytes = end > checks->least_bytes ? end : checks->least_bytes;
	if (!(field->flags & TEP_FIELD_IS_DYNAMIC))
		return;
	if (checks->nr_dynamic < BRAID_MANY_DYNAMIC)
		checks->dynamic[checks->nr_dynamic] = field;
	checks->nr_dynamic++;
}

const char *braid_vet_fields(const struct tep_event *event, struct braid_read_checks *checks)
{
	const struct tep_format_field *f = event->format.common_fields;
	const char *why;
	u32 nr = 0;

	checks->least_bytes = 0;
	checks->nr_dynamic = 0;

	if (!is_common(f, "common_type", 0, 2) || !is_common(f->next, "common_flags", 2, 1) ||
	    !is_common(f->next->next, "common_preempt_count", 3, 1) ||
	    !is_common(f->next->next->next, "common_pid", 4, 4))
		return "it does not begin with the common fields";
	for (; f; f = f->next) {
		why = vet_field(f);
		if (why)
			return why;
		note_extent(checks, f);
	}
	for (f = event->format.fields; f; f = f->next) {
		why = vet_field(f);
		if (why)
			return why;
		note_extent(checks, f);
		if (++nr > BRAID_MAX_FIELDS)
			return "it has too many fields";
	}
	return NULL;
}

/* Print format ------------------------------------------------------------------------------- */

static const char *vet_conversions(const char *s)
{
	unsigned long n;
	char *behind;

	while ((s = strchr(s, '%'))) {
		s++;
		while (*s && strchr("-+ #0", *s))
			s++;
		for (; isdigit((unsigned char)*s) || *s == '.' || *s == '*';) {
			if (*s == '*')
				return "a width in its print format comes from the event";
			if (*s == '.') {
				s++;
				if (s[0] == '*' && s[1] == 's')
					s++;	/* at most so much of a string: harmless */
				continue;
			}
			n = strtoul(s, &behind, 10);
			if (n > MAX_WIDTH)
				return "a width in its print format is too large";
			s = behind;
		}
		/* libtraceevent would take a string for one of wide characters. */
		behind = (char *)s + strspn(s, "hlLzZ");
		if (behind != s && *behind == 's')
			return "a string in its print format has a size";
		if (*s)
			s++;
	}
	return NULL;
}

static const struct tep_format_field *field_of(struct tep_event *event,
					       struct tep_format_field *field, const char *name)
{
	return field ? field : name ? tep_find_any_field(event, name) : NULL;
}

/* For those that read a dynamic field's offset and length. */
static const char *vet_dynamic(const struct tep_format_field *field)
{
	return field && field->flags & TEP_FIELD_IS_DYNAMIC && field->size == 4 ? NULL :
		"its print format uses a static field as a dynamic one";
}

static bool is_number(const struct tep_format_field *field)
{
	return field && !(field->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_DYNAMIC)) &&
	       (field->size == 1 || field->size == 2 || field->size == 4 || field->size == 8);
}

/* The number of elements is evaluated by us first: nothing but what we do the same way. */
static bool can_evaluate(struct tep_event *event, struct tep_print_arg *arg, u32 depth)
{
	if (!arg || depth > 8)
		return false;
	switch (arg->type) {
	case TEP_PRINT_ATOM:
		return arg->atom.atom && isdigit((unsigned char)arg->atom.atom[0]) &&
		       strtoull(arg->atom.atom, NULL, 0);
	case TEP_PRINT_FIELD:
		if (!arg->field.field)
			arg->field.field = tep_find_any_field(event, arg->field.name);
		return is_number(arg->field.field);
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		return !vet_dynamic(arg->dynarray.field);
	case TEP_PRINT_OP:
		if (!arg->op.op || !arg->op.op[0] || arg->op.op[1])
			return false;
		if (arg->op.op[0] == '/' &&
		    (!arg->op.right || arg->op.right->type != TEP_PRINT_ATOM))
			return false;
		return strchr("+-*/", arg->op.op[0]) &&
		       can_evaluate(event, arg->op.left, depth + 1) &&
		       can_evaluate(event, arg->op.right, depth + 1);
	default:
		return false;
	}
}

static u64 evaluate(const struct tep_print_arg *arg, const u8 *data, u32 bytes)
{
	u32 offset, length;
	u64 left, right;

	switch (arg->type) {
	case TEP_PRINT_ATOM:
		return strtoull(arg->atom.atom, NULL, 0);
	case TEP_PRINT_FIELD:
		return tep_read_number(arg->field.field->event->tep,
				       data + arg->field.field->offset, arg->field.field->size);
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		return braid_dynamic_range(arg->dynarray.field, data, bytes, &offset, &length) ?
			length : 0;
	default:
		left = evaluate(arg->op.left, data, bytes);
		right = evaluate(arg->op.right, data, bytes);
		switch (arg->op.op[0]) {
		case '+':
			return left + right;
		case '-':
			return left - right;
		case '*':
			return left * right;
		}
		return right ? left / right : 0;
	}
}

struct vetting {
	struct tep_event *event;
	struct braid_read_checks *checks;
	u32 nodes;
};

static const char *vet_arg(struct vetting *v, struct tep_print_arg *arg, u32 depth);

/* A read of so many elements as the event says. */
static const char *vet_read(struct vetting *v, struct tep_print_arg *where,
			    struct tep_print_arg *count, struct tep_print_arg *size)
{
	struct braid_read_check *check = &v->checks->at[v->checks->nr];

	if (!where || v->checks->nr == BRAID_MAX_CHECKS)
		return "its print format reads too many arrays";
	if (where->type == TEP_PRINT_DYNAMIC_ARRAY)
		check->field = where->dynarray.field;
	else if (where->type == TEP_PRINT_FIELD)
		check->field = field_of(v->event, where->field.field, where->field.name);
	else
		return "its print format reads an array that is not a field";
	if (!check->field || (where->type == TEP_PRINT_DYNAMIC_ARRAY && vet_dynamic(check->field)))
		return "its print format reads an array that is not a field";
	if (!can_evaluate(v->event, count, 0) ||
	    (size && (size->type != TEP_PRINT_ATOM || !can_evaluate(v->event, size, 0))))
		return "the length of an array in its print format is too complicated";
	if (where->type == TEP_PRINT_FIELD && check->field->flags & TEP_FIELD_IS_DYNAMIC)
		return "its print format reads an array that is not a field";
	check->count = count;
	check->size = size;
	v->checks->nr++;
	return NULL;
}

static const char *vet_index(struct vetting *v, struct tep_print_arg *left,
			     struct tep_print_arg *right)
{
	const struct tep_format_field *field;
	u64 index;

	while (left && left->type == TEP_PRINT_TYPE)
		left = left->typecast.item;
	if (!left || !right || right->type != TEP_PRINT_ATOM || !right->atom.atom ||
	    !isdigit((unsigned char)right->atom.atom[0]))
		return "an index in its print format is not constant";
	index = strtoull(right->atom.atom, NULL, 0);
	if (left->type == TEP_PRINT_DYNAMIC_ARRAY)
		return index > MAX_INDEX ? "an index in its print format is too large" :
					   vet_dynamic(left->dynarray.field);
	if (left->type != TEP_PRINT_FIELD)
		return "its print format indexes something that is not a field";
	field = field_of(v->event, left->field.field, left->field.name);
	if (!field || field->flags & TEP_FIELD_IS_DYNAMIC || index >= BRAID_MAX_SUBBUF_BYTES ||
	    (index + 1) * field->elementsize > (u32)field->size)
		return "an index in its print format is too large";
	return NULL;
}

static const char *vet_op(struct vetting *v, struct tep_print_arg *arg, u32 depth)
{
	struct tep_print_arg *left = arg->op.left, *right = arg->op.right;
	const char *op = arg->op.op, *why;

	if (!op || !left || !right)
		return "its print format has an operator without operands";
	if (!strcmp(op, "["))
		return vet_index(v, left, right);
	if (!strcmp(op, "?") && (right->type != TEP_PRINT_OP || !right->op.op ||
				 strcmp(right->op.op, ":")))
		return "its print format has half a condition";
	if ((op[0] == '/' || op[0] == '%') &&
	    (right->type != TEP_PRINT_ATOM || !right->atom.atom ||
	     !strtoull(right->atom.atom, NULL, 0)))
		return "its print format divides by a value that may be 0";
	why = vet_arg(v, left, depth + 1);
	return why ? why : vet_arg(v, right, depth + 1);
}

static const char *vet_arg(struct vetting *v, struct tep_print_arg *arg, u32 depth)
{
	if (!arg || depth > MAX_DEPTH || ++v->nodes > BRAID_MAX_FORMAT_BYTES)
		return "its print format is too complicated";
	switch (arg->type) {
	case TEP_PRINT_NULL:
	case TEP_PRINT_BSTRING:
		return NULL;
	case TEP_PRINT_ATOM:
		return arg->atom.atom ? NULL : "its print format has an empty word";
	case TEP_PRINT_FIELD:
		return field_of(v->event, arg->field.field, arg->field.name) ? NULL :
			"its print format names a nonexistent field";
	case TEP_PRINT_FLAGS:
		return vet_arg(v, arg->flags.field, depth + 1);
	case TEP_PRINT_SYMBOL:
		return vet_arg(v, arg->symbol.field, depth + 1);
	case TEP_PRINT_TYPE:
		return vet_arg(v, arg->typecast.item, depth + 1);
	case TEP_PRINT_HEX:
	case TEP_PRINT_HEX_STR:
		return vet_read(v, arg->hex.field, arg->hex.size, NULL);
	case TEP_PRINT_INT_ARRAY:
		return vet_read(v, arg->int_array.field, arg->int_array.count,
				arg->int_array.el_size);
	case TEP_PRINT_STRING:
		return vet_dynamic(field_of(v->event, arg->string.field, arg->string.string));
	case TEP_PRINT_BITMASK:
	case TEP_PRINT_CPUMASK:
		return vet_dynamic(field_of(v->event, arg->bitmask.field, arg->bitmask.bitmask));
	case TEP_PRINT_DYNAMIC_ARRAY:
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		return vet_dynamic(arg->dynarray.field);
	case TEP_PRINT_OP:
		return vet_op(v, arg, depth);
	default:
		return "its print format calls a function";
	}
}

const char *braid_vet_print(struct tep_event *event, struct braid_read_checks *checks)
{
	struct vetting v = { .event = event, .checks = checks };
	struct tep_print_arg *arg;
	const char *why;
	u32 nr = 0;

	checks->nr = 0;
	if (event->flags & TEP_EVENT_FL_FAILED || !event->print_fmt.format)
		return "its print format can't be parsed";
	if (event->flags & TEP_EVENT_FL_ISBPRINT)
		return "its print format belongs to another event";
	why = vet_conversions(event->print_fmt.format);
	for (arg = event->print_fmt.args; arg && !why; arg = arg->next) {
		if (++nr > MAX_ARGS)
			return "its print format has too many arguments";
		why = vet_arg(&v, arg, 0);
	}
	return why;
}

static bool reads_relative_length(const struct tep_print_arg *arg)
{
	switch (arg->type) {
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		return arg->dynarray.field->flags & TEP_FIELD_IS_RELATIVE;
	case TEP_PRINT_FLAGS:
		return reads_relative_length(arg->flags.field);
	case TEP_PRINT_SYMBOL:
		return reads_relative_length(arg->symbol.field);
	case TEP_PRINT_TYPE:
		return reads_relative_length(arg->typecast.item);
	case TEP_PRINT_HEX:
	case TEP_PRINT_HEX_STR:
		return reads_relative_length(arg->hex.size);
	case TEP_PRINT_INT_ARRAY:
		return reads_relative_length(arg->int_array.count);
	case TEP_PRINT_OP:
		return reads_relative_length(arg->op.left) || reads_relative_length(arg->op.right);
	default:
		return false;
	}
}

const char *braid_vet_library(struct tep_event *event)
{
	const struct tep_print_arg *arg;

	/* A length below 0 makes it print what lies on its stack. */
	if (strstr(event->print_fmt.format, ".*"))
		return "a width in its print format comes from the event";
	for (arg = event->print_fmt.args; arg; arg = arg->next)
		if (reads_relative_length(arg))
			return "its print format asks for the length of a relative array";
	return NULL;
}

/* Payload ------------------------------------------------------------------------------------ */

bool braid_dynamic_range(const struct tep_format_field *field, const u8 *data, u32 bytes,
			 u32 *offset, u32 *length)
{
	u32 word, at;

	if ((u32)field->offset + 4 > bytes)
		return false;
	memcpy(&word, data + field->offset, sizeof(word));
	at = word & 0xffff;
	if (field->flags & TEP_FIELD_IS_RELATIVE)
		at += field->offset + field->size;
	if (at > bytes || word >> 16 > bytes - at)
		return false;
	*offset = at;
	*length = word >> 16;
	return true;
}

static bool holds_all(const struct tep_format_field *f, const u8 *data, u32 bytes)
{
	u32 offset, length;

	for (; f; f = f->next)
		if (f->flags & TEP_FIELD_IS_DYNAMIC &&
		    !braid_dynamic_range(f, data, bytes, &offset, &length))
			return false;
	return true;
}

static bool holds_fields(const struct tep_event *event, const struct braid_read_checks *checks,
			 const u8 *data, u32 bytes)
{
	u32 k, offset, length;

	if (bytes < checks->least_bytes)
		return false;
	if (checks->nr_dynamic > BRAID_MANY_DYNAMIC)
		return holds_all(event->format.common_fields, data, bytes) &&
		       holds_all(event->format.fields, data, bytes);
	for (k = 0; k < checks->nr_dynamic; k++)
		if (!braid_dynamic_range(checks->dynamic[k], data, bytes, &offset, &length))
			return false;
	return true;
}

bool braid_vet_payload(const struct tep_event *event, const struct braid_read_checks *checks,
		       bool print, const u8 *data, u32 bytes)
{
	u32 k, offset, length;
	u64 count, size;

	if (!holds_fields(event, checks, data, bytes))
		return false;
	for (k = 0; print && k < checks->nr; k++) {
		const struct braid_read_check *check = &checks->at[k];

		offset = check->field->offset;
		if (check->field->flags & TEP_FIELD_IS_DYNAMIC &&
		    !braid_dynamic_range(check->field, data, bytes, &offset, &length))
			return false;
		count = (u32)evaluate(check->count, data, bytes);
		size = check->size ? evaluate(check->size, data, bytes) : 1;
		if (size > 8 || count * size > bytes - offset)
			return false;
	}
	return true;
}
