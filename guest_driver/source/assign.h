/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of the generated probes for all but plain fields.
 */
#ifndef BRAID_SOURCE_ASSIGN_H
#define BRAID_SOURCE_ASSIGN_H

#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/stdarg.h>
#include <linux/string.h>
#include <linux/types.h>

#include "guest_driver/core/symbol.h"

/* A missing string is recorded as this text, as ftrace does. */
#define BRAID_NULL_STRING "(null)"

void braid_assign_string(char *dst, const char *src, size_t room_bytes);
__printf(3, 0)
void braid_assign_vstring(char *dst, size_t room_bytes, const char *fmt, va_list *va);

/*
 * braid_string_size() - Bytes that a string takes in a record, its end included.
 * @src: The string, or NULL.
 */
static __always_inline size_t braid_string_size(const char *src)
{
	return src ? strlen(src) + 1 : sizeof(BRAID_NULL_STRING);
}

/*
 * braid_assign_bytes() - Copy, but never beyond the measured space.
 * @dst: Destination in the record.
 * @src: The source.
 * @size_bytes: Its size.
 * @room_bytes: The measured size.
 */
static __always_inline void braid_assign_bytes(void *dst, const void *src,
					       size_t size_bytes, size_t room_bytes)
{
	memcpy(dst, src, min(size_bytes, room_bytes));
}

/*
 * braid_record_size() - Size to reserve.
 * @fixed_bytes: Size of the fixed part.
 * @dynamic_bytes: The measured size; negative when it overflowed.
 *
 * A size that a __data_loc word cannot express must not wrap around to a small one: it becomes a
 * size that every reservation refuses.
 */
static __always_inline u32 braid_record_size(size_t fixed_bytes, int dynamic_bytes)
{
	if (unlikely((u32)dynamic_bytes > U16_MAX))
		return U32_MAX;
	return fixed_bytes + dynamic_bytes;
}

/*
 * braid_prints_symbols() - Whether a print format has a conversion to a symbol's name.
 * @fmt: The format: a constant, so that this costs nothing at run time.
 */
#define braid_prints_symbols(fmt)					\
	(__builtin_strstr(fmt, "%ps") || __builtin_strstr(fmt, "%pS") ||	\
	 __builtin_strstr(fmt, "%pf") || __builtin_strstr(fmt, "%pF"))

/*
 * braid_note_symbols() - Note the addresses that a record will print by name.
 * @entry: The record, assigned.
 * @offsets: Their offsets, ended by 0.
 *
 * This does read the shared record back, but only numbers that are looked up as symbols, never
 * dereferenced: a forged one can only name the wrong function.
 */
static __always_inline void braid_note_symbols(const void *entry, const u16 *offsets)
{
	for (; *offsets; offsets++)
		braid_symbol_note(READ_ONCE(*(const unsigned long *)(entry + *offsets)));
}

#endif /* BRAID_SOURCE_ASSIGN_H */
