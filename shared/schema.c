// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Writes and walks the event directory. */
#include "shared/schema.h"

/* Bytes of an entry; sets the strings' lengths, NULs included. */
static u64 braid_schema_entry_bytes(size_t system, size_t name, size_t format)
{
	return (sizeof(struct braid_dir_entry) + system + name + format + 7) & ~7ULL;
}

int braid_schema_append(struct braid_directory *dir, u32 room_bytes, u32 *used_bytes,
			struct braid_schema_event *event)
{
	size_t system = strlen(event->system) + 1, name = strlen(event->name) + 1;
	size_t format = strlen(event->format) + 1;
	struct braid_dir_entry *entry;
	u64 bytes = braid_schema_entry_bytes(system, name, format);

	if (system > 0xffff || name > 0xffff || bytes > room_bytes - *used_bytes)
		return -ENOSPC;
	entry = (struct braid_dir_entry *)(dir->data + *used_bytes);
	entry->bytes = bytes;
	entry->flags = event->flags;
	entry->id = event->id;
	entry->buffer = event->buffer;
	entry->system_bytes = system;
	entry->name_bytes = name;
	entry->format_bytes = format;
	entry->number = event->number;
	memcpy(entry->strings, event->system, system);
	memcpy(entry->strings + system, event->name, name);
	memcpy(entry->strings + system + name, event->format, format);
	event->offset = *used_bytes;
	event->bytes = bytes;
	event->format_bytes = format - 1;
	*used_bytes += bytes;
	braid_store(&dir->nr_entries, braid_load(&dir->nr_entries) + 1);
	braid_store_release(&dir->bytes_used, *used_bytes);	/* (D1) */
	braid_store_release(&dir->generation, braid_load(&dir->generation) + 1);	/* (D2) */
	return 0;
}

bool braid_schema_same(const struct braid_directory *dir, u32 offset, u32 bytes,
		       const struct braid_schema_event *event)
{
	const struct braid_dir_entry *entry = (const struct braid_dir_entry *)(dir->data + offset);
	size_t system = strlen(event->system) + 1, name = strlen(event->name) + 1;
	size_t format = strlen(event->format) + 1;

	return bytes == braid_schema_entry_bytes(system, name, format) &&
	       !memcmp(entry->strings, event->system, system) &&
	       !memcmp(entry->strings + system, event->name, name) &&
	       !memcmp(entry->strings + system + name, event->format, format);
}

void braid_schema_reuse(struct braid_directory *dir, u32 offset, u32 bytes,
			struct braid_schema_event *event)
{
	event->offset = offset;
	event->bytes = bytes;
	event->format_bytes = strlen(event->format);
	braid_store(&dir->nr_reused, braid_load(&dir->nr_reused) + 1);
	braid_schema_set_flags(dir, offset, event->flags);
}

void braid_schema_set_flags(struct braid_directory *dir, u32 offset, u32 flags)
{
	struct braid_dir_entry *entry = (struct braid_dir_entry *)(dir->data + offset);

	braid_store(&entry->flags, flags);
	braid_store_release(&dir->generation, braid_load(&dir->generation) + 1);	/* (D2) */
}

int braid_schema_next(const u8 *data, u32 bytes, u32 *at, struct braid_schema_event *event)
{
	const struct braid_dir_entry *entry = (const struct braid_dir_entry *)(data + *at);
	u64 strings;

	if (*at >= bytes)
		return 0;
	if (bytes - *at < sizeof(*entry) || entry->bytes > bytes - *at || entry->bytes & 7 ||
	    entry->bytes < sizeof(*entry))
		return -EBADMSG;
	strings = (u64)entry->system_bytes + entry->name_bytes + entry->format_bytes;
	if (!entry->system_bytes || !entry->name_bytes || !entry->format_bytes || !entry->id ||
	    strings > entry->bytes - sizeof(*entry))
		return -EBADMSG;
	event->offset = *at;
	event->bytes = entry->bytes;
	event->flags = entry->flags;
	event->id = entry->id;
	event->buffer = entry->buffer;
	event->number = entry->number;
	event->system = entry->strings;
	event->name = event->system + entry->system_bytes;
	event->format = event->name + entry->name_bytes;
	event->format_bytes = entry->format_bytes - 1;
	if (event->name[-1] || event->format[-1] || event->format[event->format_bytes] ||
	    strlen(event->system) + 1 != entry->system_bytes ||
	    strlen(event->name) + 1 != entry->name_bytes ||
	    strlen(event->format) != event->format_bytes)
		return -EBADMSG;
	*at += entry->bytes;
	return 1;
}
