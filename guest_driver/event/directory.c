// SPDX-License-Identifier: GPL-2.0
/* The directory in the region: the current and the former events. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/glob.h>
#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/stringhash.h>

#include "guest_driver/event/directory.h"
#include "shared/schema.h"

#define FORMAT_ROOM	16384	/* the longest format text that fits */

/*
 * A directory entry with the flag GONE: a private copy, because the region's content is not
 * trusted.
 */
struct gone_entry {
	struct hlist_node node;
	u32 key;		/* of its name */
	u32 offset, bytes;
	u32 flags;		/* of a sub-event: place of its number; else 0 */
	u32 number;
	u16 buffer;
	u16 id;
};

static DEFINE_MUTEX(lock);
static struct braid_guest_region *region;	/* attached, or NULL */
static DEFINE_HASHTABLE(gone, 8);		/* of this region, by name */
static u32 directory_used;

void braid_registry_lock(void)
{
	mutex_lock(&lock);
}

void braid_registry_unlock(void)
{
	mutex_unlock(&lock);
}

/* Finding ---------------------------------------------------------------------------- */

struct braid_event *braid_event_find(const struct braid_buffer *buffer, u16 id)
{
	struct braid_event_space *space = buffer->events_of->events;

	return space ? idr_find(&space->ids, id) : NULL;
}

struct braid_event *braid_registry_next(struct braid_buffer *buffer, struct braid_event *prev)
{
	struct list_head *events = &buffer->events->events;

	if (!prev)
		return list_first_entry_or_null(events, struct braid_event, list);
	return list_is_last(&prev->list, events) ? NULL : list_next_entry(prev, list);
}

static bool braid_directory_matches(const char *glob, const char *text)
{
	return !glob || !*glob || glob_match(glob, text);
}

bool braid_event_matches(const struct braid_event *ev, const char *system, const char *name)
{
	return braid_directory_matches(system, ev->system) &&
	       braid_directory_matches(name, ev->name);
}

int braid_event_format_text(const struct braid_event *ev, char *text, size_t bytes)
{
	return ev->ops->format(ev, ev->id, text, bytes);
}

/* Entries that are gone --------------------------------------------------------------- */

static u32 braid_directory_key_of(const char *name)
{
	return full_name_hash(NULL, name, strlen(name));
}

/* Must hold lock, with an entry listed. Without memory the entry is not reused. */
static void braid_directory_note_gone(const struct braid_schema_event *entry)
{
	struct gone_entry *was = kmalloc(sizeof(*was), GFP_KERNEL);

	if (!was)
		return;
	*was = (struct gone_entry){
		.key = braid_directory_key_of(entry->name),
		.offset = entry->offset,
		.bytes = entry->bytes,
		.flags = entry->flags,
		.number = entry->number,
		.buffer = entry->buffer,
		.id = entry->id,
	};
	hash_add(gone, &was->node, was->key);
}

static void braid_directory_forget_gone(struct gone_entry *was)
{
	hash_del(&was->node);
	kfree(was);
}

/* Must hold lock. */
static void braid_directory_forget_all_gone(void)
{
	struct gone_entry *was;
	struct hlist_node *next;
	int k;

	hash_for_each_safe(gone, k, next, was, node)
		braid_directory_forget_gone(was);
}

/* Reuses an entry that had the same event. Must hold lock, with a region attached. */
static bool braid_directory_reuse(struct braid_schema_event *entry)
{
	struct gone_entry *was;
	u32 key = braid_directory_key_of(entry->name);

	hash_for_each_possible(gone, was, node, key) {
		if (was->key != key || was->id != entry->id || was->buffer != entry->buffer ||
		    was->number != entry->number || was->flags != entry->flags ||
		    !braid_schema_same(region->directory, was->offset, was->bytes, entry))
			continue;
		braid_schema_reuse(region->directory, was->offset, was->bytes, entry);
		braid_directory_forget_gone(was);
		return true;
	}
	return false;
}

/* A reader uses the last entry of an id: earlier ones are kept unchanged. Must hold lock. */
static void braid_directory_forget_hidden(const struct braid_schema_event *entry)
{
	struct gone_entry *was;
	struct hlist_node *next;
	int k;

	hash_for_each_safe(gone, k, next, was, node)
		if (was->id == entry->id && was->buffer == entry->buffer &&
		    (!(entry->flags & BRAID_EVENT_SUB) ||
		     (was->flags && was->number == entry->number)))
			braid_directory_forget_gone(was);
}

/* Entries ----------------------------------------------------------------------------- */

/* Must hold lock, with a region attached. */
static int braid_directory_append(struct braid_schema_event *entry)
{
	if (braid_directory_reuse(entry))
		return 0;
	braid_directory_forget_hidden(entry);
	return braid_schema_append(region->directory, region->directory_room, &directory_used,
				   entry);
}

int braid_directory_list(struct braid_event *ev)
{
	struct braid_schema_event entry = {
		.flags = ev->flags,
		.id = ev->id,
		.buffer = ev->buffer->index,
		.system = ev->system,
		.name = ev->name,
	};
	char *text = kvmalloc(FORMAT_ROOM, GFP_KERNEL);
	int err;

	if (!text)
		return -ENOMEM;
	err = braid_event_format_text(ev, text, FORMAT_ROOM);
	if (err >= 0) {
		entry.format = text;
		err = braid_directory_append(&entry);
	}
	kvfree(text);
	if (err < 0) {
		pr_warn_ratelimited("event %s:%s omitted: no room for its format in the event directory (%d)\n",
				    ev->system, ev->name, err);
		return err;
	}
	ev->dir_offset = entry.offset;
	ev->dir_bytes = entry.bytes;
	ev->listed = true;
	ev->listed_at = braid_load(&region->directory->generation);
	return 0;
}

int braid_event_list_more(struct braid_event *ev, struct braid_schema_event *entry)
{
	if (!ev->listed)
		return -ENODEV;
	entry->id = ev->id;
	entry->system = ev->system;
	entry->buffer = ev->buffer->index;
	return braid_directory_append(entry);
}

void braid_event_set_gone(struct braid_event *ev, const struct braid_schema_event *entry)
{
	if (!ev->listed)
		return;
	braid_schema_set_flags(region->directory, entry->offset, entry->flags | BRAID_EVENT_GONE);
	braid_directory_note_gone(entry);
}

void braid_directory_set_flags(struct braid_event *ev)
{
	if (ev->listed)
		braid_schema_set_flags(region->directory, ev->dir_offset, ev->flags);
}

void braid_directory_remove(const struct braid_event *ev)
{
	const struct braid_schema_event entry = {
		.offset = ev->dir_offset,
		.bytes = ev->dir_bytes,
		.id = ev->id,
		.buffer = ev->buffer->index,
		.name = ev->name,
	};

	if (ev->listed)
		braid_directory_note_gone(&entry);
}

int braid_directory_put_text(const char *name, const char *text)
{
	struct braid_schema_event entry = {
		.flags = BRAID_EVENT_GONE,
		.id = BRAID_TEXT_ID,
		.system = "",
		.name = name,
		.format = text,
	};
	int err = -ENODEV;

	braid_registry_lock();
	if (region)
		err = braid_schema_append(region->directory, region->directory_room,
					  &directory_used, &entry);
	braid_registry_unlock();
	return err;
}

bool braid_directory_takes(const struct braid_buffer *buffer)
{
	return region && buffer->region;
}

/* Whether an entry would be the event's if it had the entry's id. Must hold lock. */
static bool braid_directory_was_entry_of(const struct braid_event *ev, const struct gone_entry *was,
					 char *text)
{
	const struct braid_schema_event entry = {
		.system = ev->system,
		.name = ev->name,
		.format = text,
	};

	return was->buffer == ev->buffer->index && !was->flags &&
	       !idr_find(&ev->buffer->events->ids, was->id) &&
	       ev->ops->format(ev, was->id, text, FORMAT_ROOM) >= 0 &&
	       braid_schema_same(region->directory, was->offset, was->bytes, &entry);
}

u16 braid_directory_former_id(const struct braid_event *ev)
{
	u32 key = braid_directory_key_of(ev->name);
	const struct gone_entry *was;
	u16 id = 0;
	char *text;

	if (!braid_directory_takes(ev->buffer))
		return 0;
	text = kvmalloc(FORMAT_ROOM, GFP_KERNEL);
	if (!text)
		return 0;
	hash_for_each_possible(gone, was, node, key) {
		if (was->key == key && braid_directory_was_entry_of(ev, was, text)) {
			id = was->id;
			break;
		}
	}
	kvfree(text);
	return id;
}

void braid_directory_attach(struct braid_guest_region *came)
{
	region = came;
	braid_directory_forget_all_gone();
	directory_used = 0;
}

void braid_directory_detach(void)
{
	braid_directory_forget_all_gone();
	region = NULL;
}
