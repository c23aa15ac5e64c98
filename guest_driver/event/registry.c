// SPDX-License-Identifier: GPL-2.0
/* Keeps all events, their ids, and the directory in the region. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/err.h>
#include <linux/glob.h>
#include <linux/hashtable.h>
#include <linux/idr.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/stringhash.h>

#include "guest_driver/event/debugfs.h"
#include "guest_driver/event/event.h"
#include "guest_driver/event/output.h"
#include "guest_driver/event/subevent.h"
#include "shared/schema.h"

#define FORMAT_ROOM	16384	/* the longest format text there is room for */
#define WANTED		(BRAID_EVENT_GUEST_ON | BRAID_EVENT_HOST_ON)

/* The events of one buffer. */
struct braid_event_space {
	struct list_head events;
	struct idr ids;
};

/* An entry of the directory that is flagged GONE: what the region says is never believed. */
struct gone_entry {
	struct hlist_node node;
	u32 key;		/* of its name */
	u32 offset, bytes;
	u32 flags;		/* of a sub-event: where its number lies; else 0 */
	u32 number;
	u16 buffer;
	u16 id;
};

static DEFINE_MUTEX(lock);
static struct braid_guest_region *region;	/* attached, or NULL */
static DEFINE_HASHTABLE(gone, 8);		/* of this region, by name */
static u32 directory_used;
static u32 next_ids[BRAID_MAX_BUFFERS];		/* of freed buffers of this incarnation */

int braid_event_format_text(const struct braid_event *ev, char *text, size_t bytes)
{
	return ev->ops->format(ev, ev->id, text, bytes);
}

static u32 key_of(const char *name)
{
	return full_name_hash(NULL, name, strlen(name));
}

/* Must hold lock, with an entry listed. Without memory the entry is not used again. */
static void note_gone(const struct braid_schema_event *entry)
{
	struct gone_entry *was = kmalloc(sizeof(*was), GFP_KERNEL);

	if (!was)
		return;
	*was = (struct gone_entry){
		.key = key_of(entry->name),
		.offset = entry->offset,
		.bytes = entry->bytes,
		.flags = entry->flags,
		.number = entry->number,
		.buffer = entry->buffer,
		.id = entry->id,
	};
	hash_add(gone, &was->node, was->key);
}

static void forget_gone(struct gone_entry *was)
{
	hash_del(&was->node);
	kfree(was);
}

/* Must hold lock. */
static void forget_all_gone(void)
{
	struct gone_entry *was;
	struct hlist_node *next;
	int k;

	hash_for_each_safe(gone, k, next, was, node)
		forget_gone(was);
}

/* Takes an entry again that had the same event. Must hold lock, with a region attached. */
static bool reuse(struct braid_schema_event *entry)
{
	struct gone_entry *was;
	u32 key = key_of(entry->name);

	hash_for_each_possible(gone, was, node, key) {
		if (was->key != key || was->id != entry->id || was->buffer != entry->buffer ||
		    was->number != entry->number || was->flags != entry->flags ||
		    !braid_schema_same(region->directory, was->offset, was->bytes, entry))
			continue;
		braid_schema_reuse(region->directory, was->offset, was->bytes, entry);
		forget_gone(was);
		return true;
	}
	return false;
}

/* A reader takes the last entry of an id: those before it stay what they are. Must hold lock. */
static void forget_hidden(const struct braid_schema_event *entry)
{
	struct gone_entry *was;
	struct hlist_node *next;
	int k;

	hash_for_each_safe(gone, k, next, was, node)
		if (was->id == entry->id && was->buffer == entry->buffer &&
		    (!(entry->flags & BRAID_EVENT_SUB) ||
		     (was->flags && was->number == entry->number)))
			forget_gone(was);
}

/* Must hold lock, with a region attached. */
static int append(struct braid_schema_event *entry)
{
	if (reuse(entry))
		return 0;
	forget_hidden(entry);
	return braid_schema_append(region->directory, region->directory_room, &directory_used,
				   entry);
}

/* Lists an event in the directory. Must hold lock, with its buffer in the region. */
static int list_event(struct braid_event *ev)
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
		err = append(&entry);
	}
	kvfree(text);
	if (err < 0) {
		pr_warn_ratelimited("event %s:%s is left out: its format does not fit (%d)\n", ev->system,
			ev->name, err);
		return err;
	}
	ev->dir_offset = entry.offset;
	ev->dir_bytes = entry.bytes;
	ev->listed = true;
	braid_subevents_relist(ev);
	return 0;
}

int braid_event_list_more(struct braid_event *ev, struct braid_schema_event *entry)
{
	if (!ev->listed)
		return -ENODEV;
	entry->id = ev->id;
	entry->system = ev->system;
	entry->buffer = ev->buffer->index;
	return append(entry);
}

void braid_event_set_gone(struct braid_event *ev, const struct braid_schema_event *entry)
{
	if (!ev->listed)
		return;
	braid_schema_set_flags(region->directory, entry->offset, entry->flags | BRAID_EVENT_GONE);
	note_gone(entry);
}

void braid_registry_lock(void)
{
	mutex_lock(&lock);
}

void braid_registry_unlock(void)
{
	mutex_unlock(&lock);
}

/* Must hold lock. */
static void publish_flags(struct braid_event *ev)
{
	if (ev->listed)
		braid_schema_set_flags(region->directory, ev->dir_offset, ev->flags);
}

/* Turns an event on or off for @who; the caller synchronizes. Must hold lock. */
static int set_locked(struct braid_event *ev, u32 who, bool on)
{
	u32 flags = on ? ev->flags | who : ev->flags & ~who;
	int err = 0;

	if (flags == ev->flags)
		return 0;
	if (on && !ev->listed)
		return -ENODEV;
	if (flags & WANTED && !(ev->flags & WANTED))
		err = ev->ops->enable(ev);
	else if (!(flags & WANTED))
		ev->ops->disable(ev);
	if (err)
		return err;
	ev->flags = flags;
	publish_flags(ev);
	return 0;
}

int braid_event_set(struct braid_event *ev, u32 who, bool on)
{
	int err;

	mutex_lock(&lock);
	err = set_locked(ev, who, on);
	mutex_unlock(&lock);
	return err;
}

static bool matches(const char *glob, const char *text)
{
	return !glob || !*glob || glob_match(glob, text);
}

/* Must hold lock. */
static int set_space(struct braid_event_space *space, const char *system, const char *name,
		     u32 who, bool on, u32 *matched)
{
	struct braid_event *ev;
	int first = 0, err;

	list_for_each_entry(ev, &space->events, list) {
		if (!matches(system, ev->system) || !matches(name, ev->name))
			continue;
		(*matched)++;
		err = set_locked(ev, who, on);
		if (err && !first)
			first = err;
	}
	return first;
}

int braid_event_set_matching(struct braid_buffer *buffer, const char *system, const char *name,
			     u32 who, bool on, u32 *matched)
{
	struct braid_buffer *at = NULL;
	int first = 0, err;

	*matched = 0;
	braid_buffers_lock();
	mutex_lock(&lock);
	while ((at = braid_buffer_next(at))) {
		if (!at->events || (buffer && at != buffer))
			continue;
		err = set_space(at->events, system, name, who, on, matched);
		if (err && !first)
			first = err;
	}
	mutex_unlock(&lock);
	braid_buffers_unlock();
	return first;
}

/* Whether an entry would be the event's if it had the entry's id. Must hold lock. */
static bool was_entry_of(const struct braid_event *ev, const struct gone_entry *was, char *text)
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

/*
 * The id that the same event had before, or 0. What a capture holds of that id is the same
 * event's. Must hold lock.
 */
static u16 former_id(const struct braid_event *ev)
{
	u32 key = key_of(ev->name);
	const struct gone_entry *was;
	u16 id = 0;
	char *text;

	if (!region || !ev->buffer->region)
		return 0;
	text = kvmalloc(FORMAT_ROOM, GFP_KERNEL);
	if (!text)
		return 0;
	hash_for_each_possible(gone, was, node, key) {
		if (was->key == key && was_entry_of(ev, was, text)) {
			id = was->id;
			break;
		}
	}
	kvfree(text);
	return id;
}

int braid_event_add(struct braid_event *ev, u16 requested_id)
{
	struct braid_event_space *space = ev->buffer->events;
	int id, err = 0;

	if (!space)
		return -EINVAL;
	ev->flags = 0;
	ev->listed = false;
	braid_buffers_lock();		/* a buffer that is being reshaped has no region for a moment */
	mutex_lock(&lock);
	requested_id = requested_id ?: former_id(ev);
	/* Cyclic: a capture may still hold records of an id that was given back. */
	if (requested_id)
		id = idr_alloc(&space->ids, ev, requested_id, requested_id + 1, GFP_KERNEL);
	else
		id = idr_alloc_cyclic(&space->ids, ev, 1, 0x10000, GFP_KERNEL);
	if (id == -ENOSPC && requested_id)
		id = -EBUSY;
	if (id > 0) {
		ev->id = id;
		list_add_tail(&ev->list, &space->events);
		if (region && ev->buffer->region)
			err = list_event(ev);
		if (err) {
			list_del(&ev->list);
			idr_remove(&space->ids, id);
			id = err;
		}
	}
	mutex_unlock(&lock);
	braid_buffers_unlock();
	if (id > 0)
		braid_debugfs_add(ev);
	return id;
}

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

/* Must hold lock. */
static void note_event_gone(const struct braid_event *ev)
{
	const struct braid_schema_event entry = {
		.offset = ev->dir_offset,
		.bytes = ev->dir_bytes,
		.id = ev->id,
		.buffer = ev->buffer->index,
		.name = ev->name,
	};

	if (ev->listed)
		note_gone(&entry);
}

static void remove_one(struct braid_event *ev)
{
	braid_subevents_remove(ev);
	braid_debugfs_remove(ev);
	mutex_lock(&lock);
	set_locked(ev, WANTED, false);
	ev->flags |= BRAID_EVENT_GONE;
	publish_flags(ev);
	note_event_gone(ev);
	list_del(&ev->list);
	idr_remove(&ev->buffer->events->ids, ev->id);
	mutex_unlock(&lock);
}

void braid_event_remove_all(struct braid_event *evs, unsigned int nr)
{
	unsigned int k;

	for (k = 0; k < nr; k++)
		remove_one(&evs[k]);
	if (!nr)
		return;
	evs->ops->synchronize();
	braid_output_synchronize();
}

/* Buffers ----------------------------------------------------------------------------- */

struct braid_buffer *braid_registry_new_buffer(const struct braid_buffer_shape *shape)
{
	struct braid_event_space *space = NULL;
	struct braid_buffer *buffer;

	if (!shape->events_of && !(shape->flags & BRAID_BUFFER_RAW)) {
		space = kzalloc(sizeof(*space), GFP_KERNEL);
		if (!space)
			return ERR_PTR(-ENOMEM);
		INIT_LIST_HEAD(&space->events);
		idr_init(&space->ids);
	}
	buffer = braid_buffer_make(shape);
	if (IS_ERR(buffer)) {
		kfree(space);
		return buffer;
	}
	buffer->events = space;
	return buffer;
}

void braid_registry_free_buffer(struct braid_buffer *buffer)
{
	struct braid_event_space *space = buffer->events;

	braid_buffers_lock();
	if (space)
		next_ids[buffer->index] = max(next_ids[buffer->index],
					      idr_get_cursor(&space->ids));
	synchronize_rcu();		/* for who looks an event up by its id */
	braid_buffer_destroy(buffer);
	braid_buffers_unlock();
	if (space)
		idr_destroy(&space->ids);
	kfree(space);
}

/* Must hold lock. */
static void list_all(struct braid_buffer *buffer)
{
	struct braid_event *ev;

	if (!buffer->events || !buffer->region)
		return;
	list_for_each_entry(ev, &buffer->events->events, list)
		if (!ev->listed)
			list_event(ev);
}

void braid_registry_list_buffer(struct braid_buffer *buffer)
{
	mutex_lock(&lock);
	/* A buffer that has its name again goes on with its ids. */
	if (buffer->events && next_ids[buffer->index] > idr_get_cursor(&buffer->events->ids))
		idr_set_cursor(&buffer->events->ids, next_ids[buffer->index]);
	list_all(buffer);
	mutex_unlock(&lock);
}

void braid_registry_attach(struct braid_guest_region *came)
{
	struct braid_buffer *buffer = NULL;

	mutex_lock(&lock);
	region = came;
	forget_all_gone();
	directory_used = 0;
	memset(next_ids, 0, sizeof(next_ids));
	while ((buffer = braid_buffer_next(buffer)))
		list_all(buffer);
	mutex_unlock(&lock);
}

/* Must hold lock. */
static void all_off(struct braid_event_space *space)
{
	const struct braid_event_ops *synchronized = NULL;
	struct braid_event *ev;

	list_for_each_entry(ev, &space->events, list)
		set_locked(ev, WANTED, false);
	list_for_each_entry(ev, &space->events, list) {	/* once a source: it takes its time */
		if (ev->ops != synchronized)
			ev->ops->synchronize();
		synchronized = ev->ops;
		ev->listed = false;
	}
}

void braid_registry_detach(void)
{
	struct braid_buffer *buffer = NULL;

	mutex_lock(&lock);
	while ((buffer = braid_buffer_next(buffer)))
		if (buffer->events)
			all_off(buffer->events);
	forget_all_gone();
	region = NULL;
	mutex_unlock(&lock);
}
