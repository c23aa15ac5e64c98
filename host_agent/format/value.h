/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers that a print format computes of a payload, worked out once as far as they can be. */
#ifndef BRAID_FORMAT_VALUE_H
#define BRAID_FORMAT_VALUE_H

#include <string.h>

#include "host_agent/format/private.h"

enum braid_value_op {
	BRAID_VALUE_CONSTANT,
	BRAID_VALUE_FIELD,	/* size bytes at offset */
	BRAID_VALUE_ELEMENT,	/* of a dynamic array: size bytes, constant bytes into it */
	BRAID_VALUE_LENGTH,	/* of a dynamic array, in bytes */
	BRAID_VALUE_CHOICE,	/* left ? right : other */
	BRAID_VALUE_NOT, BRAID_VALUE_INVERT,		/* of right */
	BRAID_VALUE_OR, BRAID_VALUE_AND, BRAID_VALUE_BIT_OR, BRAID_VALUE_BIT_AND,
	BRAID_VALUE_EQUAL, BRAID_VALUE_UNEQUAL, BRAID_VALUE_LESS, BRAID_VALUE_LESS_EQUAL,
	BRAID_VALUE_GREATER, BRAID_VALUE_GREATER_EQUAL, BRAID_VALUE_LEFT, BRAID_VALUE_RIGHT,
	BRAID_VALUE_PLUS, BRAID_VALUE_MINUS, BRAID_VALUE_TIMES, BRAID_VALUE_DIVIDE,
	BRAID_VALUE_MODULO,
};

/* All is unsigned, 64 bits wide: as libtraceevent computes. */
struct braid_value {
	u8 op;			/* enum braid_value_op */
	u8 size;
	u32 offset;		/* of a dynamic array: of the word that says where it is */
	u32 base;		/* what that word's offset is counted from */
	u64 constant;
	struct braid_value *left, *right, *other;
};

/**
 * braid_value_make - work an argument out
 * @event: whose; its print format passed braid_vet_print()
 * @arg: the argument
 *
 * Return: to be freed; NULL when it is of a kind that only libtraceevent knows, or when
 * memory is out.
 */
struct braid_value *braid_value_make(struct tep_event *event, struct tep_print_arg *arg);

/** braid_value_free - free a value; NULL is fine */
void braid_value_free(struct braid_value *v);

/** braid_value_compute - likewise braid_value_of(), of anything but a field */
u64 braid_value_compute(const struct braid_value *v, const u8 *data, u32 bytes);

/**
 * braid_value_locate - where a dynamic array's data lie
 * @data: the payload, which holds the word at @offset
 * @bytes: of it
 * @offset: of the word that says it
 * @base: what it is counted from
 * @length: set; 0 when they do not lie in the payload
 *
 * Return: where they begin, never behind the payload's end.
 */
static inline u32 braid_value_locate(const u8 *data, u32 bytes, u32 offset, u32 base, u32 *length)
{
	u32 word, at;

	memcpy(&word, data + offset, sizeof(word));
	at = (word & 0xffff) + base;
	*length = at <= bytes && word >> 16 <= bytes - at ? word >> 16 : 0;
	return at <= bytes ? at : bytes;
}

/** braid_value_field - a number of @size bytes; 0 when there is none of that size */
static inline u64 braid_value_field(const u8 *at, u32 size)
{
	u64 wide;
	u32 word;
	u16 half;

	switch (size) {
	case 1:
		return *at;
	case 2:
		memcpy(&half, at, sizeof(half));
		return half;
	case 4:
		memcpy(&word, at, sizeof(word));
		return word;
	case 8:
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	return 0;
}

/**
 * braid_value_of - what it is for a payload
 * @v: the value
 * @data: the payload; it holds all fields of the event
 * @bytes: of it
 */
static inline u64 braid_value_of(const struct braid_value *v, const u8 *data, u32 bytes)
{
	if (v->op == BRAID_VALUE_FIELD)
		return braid_value_field(data + v->offset, v->size);
	return braid_value_compute(v, data, bytes);
}

#endif /* BRAID_FORMAT_VALUE_H */
