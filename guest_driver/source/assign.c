// SPDX-License-Identifier: GPL-2.0
/*
 * Copies strings into records without trusting them to stay as they were measured.
 */
#include <linux/kernel.h>

#include "guest_driver/source/assign.h"

/**
 * braid_assign_string() - Copy a string into its measured room.
 * @dst: Where to, in the record.
 * @src: The string, or NULL.
 * @room_bytes: What was measured for it, at least 1.
 *
 * The source may be rewritten meanwhile (a task's or a device's name): whatever it
 * becomes, the copy stays within its room, is terminated, and leaves nothing
 * of an older record behind it.
 */
notrace void braid_assign_string(char *dst, const char *src, size_t room_bytes)
{
	size_t length;

	if (WARN_ON_ONCE(!room_bytes))
		return;
	if (!src)
		src = BRAID_NULL_STRING;
	length = strnlen(src, room_bytes - 1);
	memcpy(dst, src, length);
	memset(dst + length, 0, room_bytes - length);
}

/**
 * braid_assign_vstring() - Format a string into its measured room.
 * @dst: Where to, in the record.
 * @room_bytes: What was measured for it.
 * @fmt: The format.
 * @va: Its arguments, left as they are.
 */
notrace void braid_assign_vstring(char *dst, size_t room_bytes, const char *fmt, va_list *va)
{
	va_list copy;

	va_copy(copy, *va);
	vsnprintf(dst, room_bytes, fmt, copy);
	va_end(copy);
}
