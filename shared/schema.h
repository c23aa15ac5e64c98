/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The event directory: appended to by the guest, read by the host. */
#ifndef BRAID_SHARED_SCHEMA_H
#define BRAID_SHARED_SCHEMA_H

#include "shared/platform.h"
#include "tracebraid/abi.h"

/* One event, as found. The strings point into the bytes walked and end with NUL. */
struct braid_schema_event {
	u32 offset;		/* of the entry in the data */
	u32 bytes;		/* of the entry, strings included */
	u32 flags;		/* BRAID_EVENT_* */
	u16 id;
	u16 buffer;
	u32 number;		/* of a sub-event (BRAID_EVENT_SUB) */
	const char *system;
	const char *name;
	const char *format;
	u32 format_bytes;	/* without the NUL */
};

/**
 * braid_schema_append - add an event to a directory
 * @dir: the directory, in shared memory; written by this side alone
 * @room_bytes: of its data[]
 * @used_bytes: the writer's own count, 0 at first; moved on success
 * @event: what to add; offset, bytes and format_bytes are set
 *
 * Return: 0 or -ENOSPC. Context: callers serialize.
 */
int braid_schema_append(struct braid_directory *dir, u32 room_bytes, u32 *used_bytes,
			struct braid_schema_event *event);

#define BRAID_TEXT_PRINTK_NAME	"printk_formats"

/** braid_schema_is_text - whether an entry is a text of the guest's kernel, and no event */
static inline bool braid_schema_is_text(const struct braid_schema_event *event)
{
	return event->id == BRAID_TEXT_ID && !*event->system;
}

/**
 * braid_schema_same - whether an entry has an event's strings
 * @dir: the directory
 * @offset: of the entry, by the writer's own account
 * @bytes: of the entry, likewise
 * @event: system, name and format are compared
 */
bool braid_schema_same(const struct braid_directory *dir, u32 offset, u32 bytes,
		       const struct braid_schema_event *event);

/**
 * braid_schema_reuse - let an event reuse a GONE entry
 * @dir: the directory
 * @offset: of the entry
 * @bytes: of the entry
 * @event: the same as the entry in all but flags; offset, bytes and format_bytes are set
 *
 * Context: callers serialize.
 */
void braid_schema_reuse(struct braid_directory *dir, u32 offset, u32 bytes,
			struct braid_schema_event *event);

/**
 * braid_schema_set_flags - publish an event's flags
 * @dir: the directory
 * @offset: of the entry
 * @flags: BRAID_EVENT_*, all of them
 */
void braid_schema_set_flags(struct braid_directory *dir, u32 offset, u32 flags);

/**
 * braid_schema_next - walk a directory's entries
 * @data: a private copy of data[]
 * @bytes: of it
 * @at: 0 at first, advanced
 * @event: filled when 1 is returned
 *
 * Return: 1, 0 at the end, -EBADMSG when the entry is invalid.
 */
int braid_schema_next(const u8 *data, u32 bytes, u32 *at, struct braid_schema_event *event);

#endif /* BRAID_SHARED_SCHEMA_H */
