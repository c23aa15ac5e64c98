/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers in as few bytes as they need: 7 bits in each, low ones first. */
#ifndef BRAID_UTIL_VARINT_H
#define BRAID_UTIL_VARINT_H

#include "tracebraid/types.h"

#define BRAID_VARINT_BYTES	10u	/* at most */

/** braid_varint_put - write a number at @at, which has BRAID_VARINT_BYTES; its end */
static inline char *braid_varint_put(char *at, u64 value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (char)(value | 0x80);
	*at++ = (char)value;
	return at;
}

/** braid_varint_take - read one of our own, which is complete; its end */
static inline const char *braid_varint_take(const char *at, u64 *value)
{
	u32 shift = 0;

	for (*value = 0; *at & 0x80; shift += 7)
		*value |= (u64)(*at++ & 0x7f) << shift;
	*value |= (u64)*at++ << shift;
	return at;
}

/** braid_varint_take_within - read one that others wrote; its end; NULL: not complete before @end, or too long */
static inline const char *braid_varint_take_within(const char *at, const char *end, u64 *value)
{
	u32 shift;

	*value = 0;
	for (shift = 0; at < end && shift < 64; shift += 7) {
		*value |= (u64)(*at & 0x7f) << shift;
		if (!(*at++ & 0x80))
			return at;
	}
	return NULL;
}

/** braid_varint_fold - a signed number, such that small ones become small: 0, -1, 1, -2... */
static inline u64 braid_varint_fold(s64 value)
{
	return (u64)value << 1 ^ (u64)(value >> 63);
}

/** braid_varint_unfold - the signed number, as one to add modulo 2^64 */
static inline u64 braid_varint_unfold(u64 folded)
{
	return folded >> 1 ^ -(folded & 1);
}

#endif /* BRAID_UTIL_VARINT_H */
