// SPDX-License-Identifier: GPL-2.0
/* Keeps all events, their ids, and the directory in the region. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/glob.h>
#include <linux/idr.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "guest_driver/event/debugfs.h"
#include "guest_driver/event/event.h"
#include "shared/schema.h"

#define FORMAT_ROOM	16384	/* the longest format text there is room for */
#define WANTED		(BRAID_EVENT_GUEST_ON | BRAID_EVENT_HOST_ON)

static DEFINE_MUTEX(lock);
static LIST_HEAD(events);
static DEFINE_IDR(ids);
static struct braid_buffer *attached;
static u32 directory_used;

int braid_event_format_text(const struct braid_event *ev, char *text, size_t bytes)
{
	return ev->ops->format(ev, ev->id, text, bytes);
}

/* Lists an event in the directory. Must hold lock, with a region attached. */
static int list_event(struct braid_event *ev)
{
	struct braid_guest_region *region = attached->region;
	struct braid_schema_event entry = {
		.flags = ev->flags,
		.id = ev->id,
		.buffer = attached->index,
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
		err = braid_schema_append(region->directory, region->directory_room,
					  &directory_used, &entry);
	}
	kvfree(text);
	if (err < 0) {
		pr_warn("event %s:%s is left out: its format does not fit (%d)\n", ev->system,
			ev->name, err);
		return err;
	}
	ev->dir_offset = entry.offset;
	ev->listed = true;
	ev->buffer = attached;
	return 0;
}

/* Must hold lock. */
static void publish_flags(struct braid_event *ev)
{
	if (ev->listed)
		braid_schema_set_flags(attached->region->directory, ev->dir_offset, ev->flags);
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

int braid_event_set_matching(const char *system, const char *name, u32 who, bool on,
			     u32 *matched)
{
	struct braid_event *ev;
	int first = 0, err;

	*matched = 0;
	mutex_lock(&lock);
	list_for_each_entry(ev, &events, list) {
		if (!matches(system, ev->system) || !matches(name, ev->name))
			continue;
		(*matched)++;
		err = set_locked(ev, who, on);
		if (err && !first)
			first = err;
	}
	mutex_unlock(&lock);
	return first;
}

int braid_event_add(struct braid_event *ev, u16 requested_id)
{
	int id, err = 0;

	ev->flags = 0;
	ev->listed = false;
	ev->buffer = NULL;
	mutex_lock(&lock);
	/* Cyclic: a capture may still hold records of an id that was given back. */
	if (requested_id)
		id = idr_alloc(&ids, ev, requested_id, requested_id + 1, GFP_KERNEL);
	else
		id = idr_alloc_cyclic(&ids, ev, 1, 0x10000, GFP_KERNEL);
	if (id == -ENOSPC && requested_id)
		id = -EBUSY;
	if (id > 0) {
		ev->id = id;
		list_add_tail(&ev->list, &events);
		if (attached)
			err = list_event(ev);
		if (err) {
			list_del(&ev->list);
			idr_remove(&ids, id);
			id = err;
		}
	}
	mutex_unlock(&lock);
	if (id > 0)
		braid_debugfs_add(ev);
	return id;
}

struct braid_event *braid_event_find(u16 id)
{
	return idr_find(&ids, id);
}

static void remove_one(struct braid_event *ev)
{
	braid_debugfs_remove(ev);
	mutex_lock(&lock);
	set_locked(ev, WANTED, false);
	ev->flags |= BRAID_EVENT_GONE;
	publish_flags(ev);
	list_del(&ev->list);
	idr_remove(&ids, ev->id);
	mutex_unlock(&lock);
}

void braid_event_remove_all(struct braid_event *evs, unsigned int nr)
{
	unsigned int k;

	for (k = 0; k < nr; k++)
		remove_one(&evs[k]);
	if (nr)
		evs->ops->synchronize();
}

/* "sched:*,irq" as a module parameter gives it. */
static void enable_patterns(const char *patterns)
{
	char *copy = kstrdup(patterns, GFP_KERNEL), *rest = copy, *system, *name;
	u32 matched;

	while (copy && (system = strsep(&rest, ",")) != NULL) {
		if (!*system)
			continue;
		name = system;
		strsep(&name, ":");
		braid_event_set_matching(system, name, BRAID_EVENT_GUEST_ON, true, &matched);
		if (!matched)
			pr_warn("no event matches %s%s%s\n", system, name ? ":" : "",
				name ? name : "");
	}
	kfree(copy);
}

void braid_registry_attach(struct braid_buffer *buffer, const char *enable)
{
	struct braid_event *ev;

	mutex_lock(&lock);
	attached = buffer;
	directory_used = 0;
	list_for_each_entry(ev, &events, list)
		list_event(ev);
	mutex_unlock(&lock);
	if (enable && *enable)
		enable_patterns(enable);
}

void braid_registry_detach(void)
{
	const struct braid_event_ops *synchronized = NULL;
	struct braid_event *ev;

	mutex_lock(&lock);
	list_for_each_entry(ev, &events, list)
		set_locked(ev, WANTED, false);
	list_for_each_entry(ev, &events, list) {	/* once a source: it takes its time */
		if (ev->ops != synchronized)
			ev->ops->synchronize();
		synchronized = ev->ops;
	}
	list_for_each_entry(ev, &events, list) {
		ev->listed = false;
		ev->buffer = NULL;
	}
	attached = NULL;
	mutex_unlock(&lock);
}
