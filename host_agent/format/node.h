/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tree of a print format's expressions, and the numbers that they yield for a payload. All
 * numbers are unsigned and 64 bits wide, and fields are not sign-extended, as in libtraceevent.
 */
#ifndef BRAID_FORMAT_NODE_H
#define BRAID_FORMAT_NODE_H

#include <string.h>

#include "host_agent/fields/layout.h"

#define BRAID_MAX_DEPTH	256u

enum braid_node_op {
	/* Numbers */
	BRAID_NODE_CONSTANT,
	BRAID_NODE_FIELD,	/* size bytes at offset */
	BRAID_NODE_ITEM,	/* of an array: number left, of size bytes */
	BRAID_NODE_ELEMENT,	/* likewise of a dynamic array */
	BRAID_NODE_LENGTH,	/* of a dynamic array, in bytes */
	BRAID_NODE_CAST,	/* right, and what the type keeps of it: number */
	BRAID_NODE_CHOICE,	/* left ? right : other; a string if these are */
	BRAID_NODE_NOT, BRAID_NODE_INVERT, BRAID_NODE_NEGATE,	/* of right */
	BRAID_NODE_OR, BRAID_NODE_AND, BRAID_NODE_BIT_OR, BRAID_NODE_BIT_XOR, BRAID_NODE_BIT_AND,
	BRAID_NODE_EQUAL, BRAID_NODE_UNEQUAL, BRAID_NODE_LESS_EQUAL, BRAID_NODE_GREATER_EQUAL,
	BRAID_NODE_SHIFT_LEFT, BRAID_NODE_SHIFT_RIGHT, BRAID_NODE_LESS, BRAID_NODE_GREATER,
	BRAID_NODE_PLUS, BRAID_NODE_MINUS, BRAID_NODE_TIMES, BRAID_NODE_DIVIDE, BRAID_NODE_MODULO,
	/* What can be printed only */
	BRAID_NODE_TEXT,	/* a constant string */
	BRAID_NODE_STRING,	/* of a dynamic field */
	BRAID_NODE_DYNAMIC,	/* a dynamic field's data */
	BRAID_NODE_FRAMES,	/* the same as addresses of code */
	BRAID_NODE_MASK,	/* the same as bits */
	BRAID_NODE_CPUS,	/* the same as a list of bits */
	BRAID_NODE_FLAGS,	/* names of right's bits, with text between */
	BRAID_NODE_SYMBOLIC,	/* the name of right */
	BRAID_NODE_NAME,	/* one of these names: text, of number */
	BRAID_NODE_HEX,		/* left has right bytes */
	BRAID_NODE_HEX_STR,
	BRAID_NODE_ARRAY,	/* left has right elements of size */
};

struct braid_node {
	u8 op;				/* enum braid_node_op */
	u8 size;
	u16 depth;
	u32 offset;			/* of a dynamic field: of its word */
	u32 base;			/* what that word's offset counts from */
	u64 number;
	struct braid_node *left, *right, *other;
	const struct braid_field *field;
	const char *text;		/* CONSTANT: as written, or NULL */
	u32 text_bytes;
	struct braid_node *next;	/* argument, or name */
	struct braid_node *all;		/* in the tree: any order */
};

/** braid_node_compute - likewise braid_node_number(), for all but fields */
u64 braid_node_compute(const struct braid_node *n, const u8 *data, u32 bytes);

/**
 * braid_node_locate - locate a dynamic field's data
 * @data: the payload, which holds the word at @offset
 * @bytes: of it
 * @offset: of the word with its location
 * @base: origin of the location
 * @length: set; 0 when they are not within the payload
 *
 * Return: their start, never past the payload's end.
 */
static inline u32 braid_node_locate(const u8 *data, u32 bytes, u32 offset, u32 base, u32 *length)
{
	u32 word, at;

	memcpy(&word, data + offset, sizeof(word));
	at = (word & 0xffff) + base;
	*length = at <= bytes && word >> 16 <= bytes - at ? word >> 16 : 0;
	return at <= bytes ? at : bytes;
}

/** braid_node_size - the size to load; 0 if @bytes is not the size of a number, which is then 0 */
static inline u8 braid_node_size(u32 bytes)
{
	return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 ? bytes : 0;
}

/** braid_node_load - a number of braid_node_size() */
static inline u64 braid_node_load(const u8 *at, u32 size)
{
	return braid_number_load(at, size, false);
}

/**
 * braid_node_number - what an expression is for a payload
 * @n: a number
 * @data: the payload; it passed braid_layout_holds()
 * @bytes: of it
 */
static inline u64 braid_node_number(const struct braid_node *n, const u8 *data, u32 bytes)
{
	if (n->op == BRAID_NODE_FIELD)
		return braid_node_load(data + n->offset, n->size);
	return braid_node_compute(n, data, bytes);
}

/** braid_node_is_number - whether it is a number */
static inline bool braid_node_is_number(const struct braid_node *n)
{
	if (n->op == BRAID_NODE_CHOICE)
		return braid_node_is_number(n->right) && braid_node_is_number(n->other);
	return n->op == BRAID_NODE_CAST ? braid_node_is_number(n->right) : n->op < BRAID_NODE_TEXT;
}

#endif /* BRAID_FORMAT_NODE_H */
