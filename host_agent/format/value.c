// SPDX-License-Identifier: GPL-2.0-or-later
/* Turns expressions of libtraceevent's into values, and computes those. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/value.h"

#define LONG_BYTES	8

static u64 operate(enum braid_value_op op, u64 left, u64 right)
{
	switch (op) {
	case BRAID_VALUE_NOT:
		return !right;
	case BRAID_VALUE_INVERT:
		return ~right;
	case BRAID_VALUE_OR:
		return left || right;
	case BRAID_VALUE_AND:
		return left && right;
	case BRAID_VALUE_BIT_OR:
		return left | right;
	case BRAID_VALUE_BIT_AND:
		return left & right;
	case BRAID_VALUE_EQUAL:
		return left == right;
	case BRAID_VALUE_UNEQUAL:
		return left != right;
	case BRAID_VALUE_LESS:
		return left < right;
	case BRAID_VALUE_LESS_EQUAL:
		return left <= right;
	case BRAID_VALUE_GREATER:
		return left > right;
	case BRAID_VALUE_GREATER_EQUAL:
		return left >= right;
	case BRAID_VALUE_LEFT:
		return left << (right & 63);	/* as the processor does it */
	case BRAID_VALUE_RIGHT:
		return left >> (right & 63);
	case BRAID_VALUE_PLUS:
		return left + right;
	case BRAID_VALUE_MINUS:
		return left - right;
	case BRAID_VALUE_TIMES:
		return left * right;
	case BRAID_VALUE_DIVIDE:
		return right ? left / right : 0;
	case BRAID_VALUE_MODULO:
		return right ? left % right : 0;
	default:
		return 0;
	}
}

u64 braid_value_compute(const struct braid_value *v, const u8 *data, u32 bytes)
{
	u32 at, length;

	switch (v->op) {
	case BRAID_VALUE_CONSTANT:
		return v->constant;
	case BRAID_VALUE_FIELD:
		return braid_value_field(data + v->offset, v->size);
	case BRAID_VALUE_ELEMENT:
		at = braid_value_locate(data, bytes, v->offset, v->base, &length) + v->constant;
		return at + v->size <= bytes ? braid_value_field(data + at, v->size) : 0;
	case BRAID_VALUE_LENGTH:
		braid_value_locate(data, bytes, v->offset, v->base, &length);
		return length;
	case BRAID_VALUE_CHOICE:
		return braid_value_of(braid_value_of(v->left, data, bytes) ? v->right : v->other,
				      data, bytes);
	}
	return operate(v->op, braid_value_of(v->left, data, bytes),
		       braid_value_of(v->right, data, bytes));
}

void braid_value_free(struct braid_value *v)
{
	if (!v)
		return;
	braid_value_free(v->left);
	braid_value_free(v->right);
	braid_value_free(v->other);
	free(v);
}

static struct braid_value *new_value(enum braid_value_op op)
{
	struct braid_value *v = calloc(1, sizeof(*v));

	if (v)
		v->op = op;
	return v;
}

static struct braid_value *make_constant(u64 constant)
{
	struct braid_value *v = new_value(BRAID_VALUE_CONSTANT);

	if (v)
		v->constant = constant;
	return v;
}

/* Operands that are all known leave one number. */
static struct braid_value *fold(struct braid_value *v)
{
	const struct braid_value *parts[] = { v->left, v->right, v->other };
	u64 constant;
	u32 k;

	for (k = 0; k < 3; k++)
		if (parts[k] && parts[k]->op != BRAID_VALUE_CONSTANT)
			return v;
	constant = braid_value_compute(v, NULL, 0);
	braid_value_free(v);
	return make_constant(constant);
}

/* Takes over its operands, also when it fails. */
static struct braid_value *join(enum braid_value_op op, struct braid_value *left,
				struct braid_value *right)
{
	struct braid_value *v = left && right ? new_value(op) : NULL;

	if (!v) {
		braid_value_free(left);
		braid_value_free(right);
		return NULL;
	}
	v->left = left;
	v->right = right;
	return fold(v);
}

static struct braid_value *make_field(struct tep_event *event, struct tep_print_arg *arg)
{
	const struct tep_format_field *field = arg->field.field;
	struct braid_value *v;

	if (!field)
		field = tep_find_any_field(event, arg->field.name);
	v = field ? new_value(BRAID_VALUE_FIELD) : NULL;
	if (!v)
		return NULL;
	v->offset = field->offset;
	v->size = field->size <= LONG_BYTES ? field->size : 0;	/* no number: it counts as 0 */
	return v;
}

static struct braid_value *make_dynamic(enum braid_value_op op,
					const struct tep_format_field *field)
{
	struct braid_value *v;

	if (!field || !(field->flags & TEP_FIELD_IS_DYNAMIC) || field->size != 4)
		return NULL;
	v = new_value(op);
	if (!v)
		return NULL;
	v->offset = field->offset;
	v->base = field->flags & TEP_FIELD_IS_RELATIVE ? field->offset + field->size : 0;
	return v;
}

/* What a cast keeps; libtraceevent never widens a sign. */
static u64 mask_of(const char *type)
{
	static const struct {
		const char *name;
		u64 mask;
	} types[] = {
		{ "u8", 0xff }, { "s8", 0xff }, { "char", 0xff }, { "unsigned char", 0xff },
		{ "u16", 0xffff }, { "s16", 0xffff }, { "short", 0xffff },
		{ "unsigned short", 0xffff }, { "u32", 0xffffffff }, { "s32", 0xffffffff },
		{ "int", 0xffffffff }, { "unsigned int", 0xffffffff },
	};
	size_t k;

	for (k = 0; k < sizeof(types) / sizeof(types[0]); k++)
		if (!strcmp(type, types[k].name))
			return types[k].mask;
	return ~0ULL;
}

static struct braid_value *cast(struct braid_value *v, const char *type)
{
	u64 mask = mask_of(type);

	return mask == ~0ULL ? v : join(BRAID_VALUE_BIT_AND, v, make_constant(mask));
}

/* The type that a pointer points to: "u32 *". */
static struct braid_value *cast_pointed(struct braid_value *v, const char *type)
{
	size_t n = strlen(type);
	char pointed[32];

	if (n < 3 || type[n - 1] != '*' || n - 2 >= sizeof(pointed))
		return v;
	memcpy(pointed, type, n - 2);
	pointed[n - 2] = 0;
	return cast(v, pointed);
}

/* field[N]; of a dynamic array libtraceevent takes N for bytes. */
static struct braid_value *make_element(struct tep_event *event, struct tep_print_arg *arg)
{
	struct tep_print_arg *left = arg->op.left, *type = NULL;
	struct braid_value *v = NULL;
	u32 index;

	for (; left->type == TEP_PRINT_TYPE; left = left->typecast.item)
		type = type ? type : left;
	if (arg->op.right->type != TEP_PRINT_ATOM)
		return NULL;
	index = strtoull(arg->op.right->atom.atom, NULL, 0);
	if (left->type == TEP_PRINT_DYNAMIC_ARRAY) {
		v = make_dynamic(BRAID_VALUE_ELEMENT, left->dynarray.field);
		if (v) {
			u32 size = left->dynarray.field->elementsize;

			v->size = size <= LONG_BYTES ? size ? size : LONG_BYTES : 0;
			v->constant = index;
		}
	} else if (left->type == TEP_PRINT_FIELD) {
		const struct tep_format_field *field = left->field.field;

		if (!field)
			field = tep_find_any_field(event, left->field.name);
		v = field ? new_value(BRAID_VALUE_FIELD) : NULL;
		if (v) {
			v->size = field->elementsize <= LONG_BYTES ? field->elementsize : 0;
			v->offset = field->offset + index * field->elementsize;
		}
	}
	return v && type ? cast_pointed(v, type->typecast.type) : v;
}

static const struct {
	const char *name;
	enum braid_value_op op;
} operators[] = {
	{ "!", BRAID_VALUE_NOT }, { "~", BRAID_VALUE_INVERT }, { "||", BRAID_VALUE_OR },
	{ "&&", BRAID_VALUE_AND }, { "|", BRAID_VALUE_BIT_OR }, { "&", BRAID_VALUE_BIT_AND },
	{ "==", BRAID_VALUE_EQUAL }, { "!=", BRAID_VALUE_UNEQUAL }, { "<", BRAID_VALUE_LESS },
	{ "<=", BRAID_VALUE_LESS_EQUAL }, { ">", BRAID_VALUE_GREATER },
	{ ">=", BRAID_VALUE_GREATER_EQUAL }, { "<<", BRAID_VALUE_LEFT },
	{ ">>", BRAID_VALUE_RIGHT }, { "+", BRAID_VALUE_PLUS }, { "-", BRAID_VALUE_MINUS },
	{ "*", BRAID_VALUE_TIMES }, { "/", BRAID_VALUE_DIVIDE }, { "%", BRAID_VALUE_MODULO },
};

static struct braid_value *make_choice(struct tep_event *event, struct tep_print_arg *arg)
{
	struct tep_print_arg *both = arg->op.right;
	struct braid_value *v;

	if (both->type != TEP_PRINT_OP || !both->op.left || !both->op.right)
		return NULL;
	v = new_value(BRAID_VALUE_CHOICE);
	if (!v)
		return NULL;
	v->left = braid_value_make(event, arg->op.left);
	v->right = braid_value_make(event, both->op.left);
	v->other = braid_value_make(event, both->op.right);
	if (v->left && v->right && v->other)
		return fold(v);
	braid_value_free(v);
	return NULL;
}

static struct braid_value *make_operation(struct tep_event *event, struct tep_print_arg *arg)
{
	size_t k;

	if (!arg->op.op || !arg->op.left || !arg->op.right)
		return NULL;
	if (!strcmp(arg->op.op, "["))
		return make_element(event, arg);
	if (!strcmp(arg->op.op, "?"))
		return make_choice(event, arg);
	for (k = 0; k < sizeof(operators) / sizeof(operators[0]); k++)
		if (!strcmp(arg->op.op, operators[k].name))
			return join(operators[k].op, braid_value_make(event, arg->op.left),
				    braid_value_make(event, arg->op.right));
	return NULL;
}

struct braid_value *braid_value_make(struct tep_event *event, struct tep_print_arg *arg)
{
	struct braid_value *v;

	switch (arg->type) {
	case TEP_PRINT_NULL:	/* the left side of an operator that has one operand */
		return make_constant(0);
	case TEP_PRINT_ATOM:	/* names are not known, and count as 0 */
		return make_constant(strtoull(arg->atom.atom, NULL, 0));
	case TEP_PRINT_FIELD:
		return make_field(event, arg);
	case TEP_PRINT_TYPE:
		v = braid_value_make(event, arg->typecast.item);
		return v ? cast(v, arg->typecast.type) : NULL;
	case TEP_PRINT_OP:
		return make_operation(event, arg);
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		return make_dynamic(BRAID_VALUE_LENGTH, arg->dynarray.field);
	default:
		return NULL;
	}
}
