/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers in records. */
#ifndef BRAID_UTIL_NUMBER_H
#define BRAID_UTIL_NUMBER_H

#include <stdbool.h>
#include <string.h>

#include "tracebraid/types.h"

/** braid_number_load - a number of 1 to 8 bytes, little endian; if it is signed, sign-extended */
static __always_inline u64 braid_number_load(const u8 *from, u32 bytes, bool is_signed)
{
	u64 value = 0;
	u32 word, shift;
	u16 half;

	switch (bytes) {
	case 1:
		return is_signed ? (u64)(s64)(s8)*from : *from;
	case 2:
		memcpy(&half, from, sizeof(half));
		return is_signed ? (u64)(s64)(s16)half : half;
	case 4:
		memcpy(&word, from, sizeof(word));
		return is_signed ? (u64)(s64)(s32)word : word;
	case 8:
		memcpy(&value, from, sizeof(value));
		return value;
	}
	shift = 64 - 8 * bytes;
	memcpy(&value, from, bytes);
	return is_signed ? (u64)((s64)(value << shift) >> shift) : value;
}

#endif /* BRAID_UTIL_NUMBER_H */
