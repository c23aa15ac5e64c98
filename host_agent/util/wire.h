/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Protobuf's encoding, for data too frequent for protobuf-c's structs. */
#ifndef BRAID_UTIL_WIRE_H
#define BRAID_UTIL_WIRE_H

#include "host_agent/util/text.h"
#include "host_agent/util/varint.h"

/* The encoding of a field's value. */
enum braid_wire_type {
	BRAID_WIRE_VARINT = 0,
	BRAID_WIRE_FIXED64 = 1,
	BRAID_WIRE_BYTES = 2,		/* a length, then bytes: strings and messages */
};

/** braid_wire_key - a field's key: its number, and the encoding of its value */
static inline u64 braid_wire_key(u32 field, enum braid_wire_type type)
{
	return (u64)field << 3 | type;
}

/** braid_wire_varint_bytes - bytes of braid_varint_put() of a value */
static inline size_t braid_wire_varint_bytes(u64 value)
{
	u32 last = 63 - __builtin_clzll(value | 1);

	return (last * 37 >> 8) + 1;	/* a seventh, up to 63 */
}

/** braid_wire_varint - as braid_varint_put(), faster if a value has many bytes */
static inline char *braid_wire_varint(char *at, u64 value)
{
	size_t bytes;
	u64 x;

	if (value < 0x80) {
		*at = (char)value;
		return at + 1;
	}
	if (value < 0x4000) {
		at[0] = (char)(value | 0x80);
		at[1] = (char)(value >> 7);
		return at + 2;
	}
	/* Its groups of seven bits, a byte each. */
	x = (value & 0x0fffffff) | (value & 0xfffffff0000000) << 4;
	x = (x & 0x3fff00003fff) | (x & 0xfffc0000fffc000) << 2;
	x = (x & 0x7f007f007f007f) | (x & 0x3f803f803f803f80) << 1;
	bytes = braid_wire_varint_bytes(value);
	bytes = bytes > sizeof(x) ? sizeof(x) + 1 : bytes;
	x |= 0x8080808080808080 >> 8 * (sizeof(x) + 1 - bytes);
	memcpy(at, &x, sizeof(x));	/* little endian, as all of the agent's hosts */
	return bytes <= sizeof(x) ? at + bytes : braid_varint_put(at + sizeof(x), value >> 56);
}

/** braid_wire_field - write a number's field at @at, which has 2 * BRAID_VARINT_BYTES; its end */
static inline char *braid_wire_field(char *at, u64 key, u64 value)
{
	return braid_wire_varint(braid_varint_put(at, key), value);
}

/**
 * braid_wire_head - write the key of a field of bytes, whose length braid_wire_end() adds
 * @at: BRAID_VARINT_BYTES + 1
 * @key: of type BRAID_WIRE_BYTES
 *
 * Return: where its value begins. One byte is left for the length: that is enough for nearly all.
 */
static inline char *braid_wire_head(char *at, u64 key)
{
	return braid_varint_put(at, key) + 1;
}

/** braid_wire_number - append a number's field */
static inline void braid_wire_number(struct braid_text *t, u64 key, u64 value)
{
	char *at = braid_text_reserve(t, 2 * BRAID_VARINT_BYTES);

	if (at)
		t->bytes = braid_wire_field(at, key, value) - t->data;
}

/** braid_wire_bytes - append a field of bytes as they are */
static inline void braid_wire_bytes(struct braid_text *t, u64 key, const char *data, size_t bytes)
{
	char *at = braid_text_reserve(t, 2 * BRAID_VARINT_BYTES + bytes);

	if (!at)
		return;
	at = braid_varint_put(braid_varint_put(at, key), bytes);
	memcpy(at, data, bytes);
	t->bytes = at + bytes - t->data;
}

/** braid_wire_fixed64 - append a field of 64 bits, of type BRAID_WIRE_FIXED64 */
void braid_wire_fixed64(struct braid_text *t, u64 key, u64 value);

/**
 * braid_wire_begin - begin a field of bytes of yet unknown length
 * @t: text appended until braid_wire_end() is its value
 * @key: of type BRAID_WIRE_BYTES
 *
 * Return: for braid_wire_end().
 */
static inline size_t braid_wire_begin(struct braid_text *t, u64 key)
{
	char *at = braid_text_reserve(t, BRAID_VARINT_BYTES + 1);

	if (at)
		t->bytes = braid_wire_head(at, key) - t->data;
	return t->bytes;
}

/** braid_wire_end_long - the slow path of braid_wire_end() */
void braid_wire_end_long(struct braid_text *t, size_t begin);

/** braid_wire_end - end what braid_wire_begin() began at @begin */
static inline void braid_wire_end(struct braid_text *t, size_t begin)
{
	if (t->bytes - begin < 0x80 && !t->failed)
		t->data[begin - 1] = (char)(t->bytes - begin);
	else
		braid_wire_end_long(t, begin);
}

/** braid_wire_string - append a string's field, sanitized; stops at a NUL */
void braid_wire_string(struct braid_text *t, u64 key, const char *data, size_t bytes);

#endif /* BRAID_UTIL_WIRE_H */
