/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Protobuf's encoding, for what is too frequent to be told in protobuf-c's structs. */
#ifndef BRAID_EXPORT_WIRE_H
#define BRAID_EXPORT_WIRE_H

#include "host_agent/util/text.h"

#define BRAID_WIRE_MAX_VARINT	10u	/* bytes */

/* How a field's value is told. */
enum braid_wire_type {
	BRAID_WIRE_VARINT = 0,
	BRAID_WIRE_BYTES = 2,		/* a length, then bytes: strings and messages */
};

/** braid_wire_key - what a field begins with: its number, and how its value is told */
static inline u64 braid_wire_key(u32 field, enum braid_wire_type type)
{
	return (u64)field << 3 | type;
}

/** braid_wire_varint - write a number at @at, which has BRAID_WIRE_MAX_VARINT bytes; its end */
static inline char *braid_wire_varint(char *at, u64 value)
{
	while (value >= 0x80) {
		*at++ = (char)(value | 0x80);
		value >>= 7;
	}
	*at++ = (char)value;
	return at;
}

/** braid_wire_number - append a number's field */
static inline void braid_wire_number(struct braid_text *t, u64 key, u64 value)
{
	char *at = braid_text_room(t, 2 * BRAID_WIRE_MAX_VARINT);

	if (at)
		t->bytes = braid_wire_varint(braid_wire_varint(at, key), value) - t->data;
}

/**
 * braid_wire_begin - begin a field of bytes whose length is not known yet
 * @t: what is appended until braid_wire_end() is its value
 * @key: of type BRAID_WIRE_BYTES
 *
 * Return: for braid_wire_end().
 */
size_t braid_wire_begin(struct braid_text *t, u64 key);

/** braid_wire_end - end what braid_wire_begin() began at @begin */
void braid_wire_end(struct braid_text *t, size_t begin);

/** braid_wire_string - append a string's field, tame; stops at a NUL */
void braid_wire_string(struct braid_text *t, u64 key, const char *data, size_t bytes);

#endif /* BRAID_EXPORT_WIRE_H */
