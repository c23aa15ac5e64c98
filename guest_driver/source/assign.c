// SPDX-License-Identifier: GPL-2.0
/*
 * Copies strings into records; a string may change after it was measured.
 */
#include <linux/kernel.h>

#include "guest_driver/source/assign.h"

/**
 * braid_assign_string() - Copy a string into its measured space.
 * @dst: Destination in the record.
 * @src: The string, or NULL.
 * @room_bytes: Its measured size, at least 1.
 *
 * The source may be rewritten meanwhile (a task's or a device's name): in any case the copy stays
 * within its space, is terminated, and leaves no bytes of an older record after it.
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
 * braid_assign_vstring() - Format a string into its measured space.
 * @dst: Destination in the record.
 * @room_bytes: Its measured size.
 * @fmt: The format.
 * @va: Its arguments, unchanged.
 */
notrace void braid_assign_vstring(char *dst, size_t room_bytes, const char *fmt, va_list *va)
{
	va_list copy;

	va_copy(copy, *va);
	vsnprintf(dst, room_bytes, fmt, copy);
	va_end(copy);
}
