// SPDX-License-Identifier: GPL-2.0
/* The API for other modules: events recorded by calls instead of tracepoints. */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "guest_driver/core/reader.h"
#include "guest_driver/event/debugfs.h"
#include "guest_driver/event/event.h"
#include "shared/asked.h"
#include "tracebraid/event.h"

struct api_event {
	struct braid_event ev;
	struct braid_event_desc desc;
	bool on;
};

static int braid_api_enable(struct braid_event *ev)
{
	smp_store_release(&container_of(ev, struct api_event, ev)->on, true);
	return 0;
}

static void braid_api_disable(struct braid_event *ev)
{
	WRITE_ONCE(container_of(ev, struct api_event, ev)->on, false);
}

static int braid_api_format(const struct braid_event *ev, u16 id, char *text, size_t bytes)
{
	const struct braid_event_desc *desc = ev->source;
	int len;

	len = snprintf(text, bytes,
		       "name: %s\nID: %u\nformat:\n" BRAID_COMMON_FIELDS "%s",
		       desc->name, id, desc->fields ?: "");
	if (len < bytes && desc->fields)
		len += snprintf(text + len, bytes - len, "\nprint fmt: %s\n", desc->print_fmt);
	return len < bytes ? len : -ENOSPC;
}

static const struct braid_event_ops api_ops = {
	.enable = braid_api_enable,
	.disable = braid_api_disable,
	.synchronize = synchronize_rcu,
	.format = braid_api_format,
	.filters = true,
};

int braid_register_event(struct braid_buffer *buffer, u16 event_id,
			 const struct braid_event_desc *desc)
{
	struct api_event *api;
	int id;

	if (!desc->system || !desc->name || (desc->fields && !desc->print_fmt))
		return -EINVAL;
	api = kzalloc(sizeof(*api), GFP_KERNEL);
	if (!api)
		return -ENOMEM;
	api->desc = *desc;
	api->ev.buffer = buffer ?: braid_trace_buffer();
	api->ev.outputs = &api->desc.outputs;
	api->ev.system = desc->system;
	api->ev.name = desc->name;
	api->ev.ops = &api_ops;
	api->ev.source = &api->desc;
	id = braid_event_add(&api->ev, event_id);
	if (id < 0)
		kfree(api);
	return id;
}
EXPORT_SYMBOL_GPL(braid_register_event);

/* The event of an id that this API assigned. Preemption is off, or the caller owns it. */
static struct api_event *braid_api_find(const struct braid_buffer *buffer, u16 event_id)
{
	struct braid_event *ev = braid_event_find(buffer, event_id);

	return ev && ev->ops == &api_ops ? container_of(ev, struct api_event, ev) : NULL;
}

static void braid_api_forget(struct api_event *api)
{
	braid_event_remove_all(&api->ev, 1);
	kfree(api);
}

int braid_unregister_event(struct braid_buffer *buffer, u16 event_id)
{
	struct api_event *api;

	rcu_read_lock();	/* for the tree's nodes; the event is the caller's */
	api = braid_api_find(buffer ?: braid_trace_buffer(), event_id);
	rcu_read_unlock();
	if (!api)
		return -ENOENT;
	braid_api_forget(api);
	return 0;
}
EXPORT_SYMBOL_GPL(braid_unregister_event);

int braid_record_event(struct braid_buffer *buffer, u16 event_id, u32 length,
		       const void *payload)
{
	unsigned long pc = preempt_count();
	struct api_event *api;
	struct braid_slot slot;
	u8 *record;
	int ret;

	if (!buffer)
		buffer = braid_trace_buffer();
	if (length > braid_buffer_longest(buffer) - sizeof(struct braid_record))
		return -EMSGSIZE;
	preempt_disable_notrace();
	api = braid_api_find(buffer, event_id);
	ret = api ? -EAGAIN : -ENOENT;
	if (api && smp_load_acquire(&api->on)) {
		record = braid_event_reserve_in(&api->ev, buffer, &slot,
						length + sizeof(struct braid_record), pc, false);
		if (!record && slot.writer)
			ret = -ENOSPC;
		if (record) {
			ret = 0;
			memcpy(record + sizeof(struct braid_record), payload, length);
			braid_event_commit(&slot);
		}
	}
	preempt_enable_notrace();
	return ret;
}
EXPORT_SYMBOL_GPL(braid_record_event);

/* Buffers --------------------------------------------------------------------------- */

struct braid_buffer *braid_buffer_alloc(const char *name, u64 size, u32 flags,
					struct braid_buffer *events_of)
{
	struct braid_buffer_shape shape = {
		.name = name,
		.flags = (flags & BRAID_ALLOC_OVERWRITE ? BRAID_BUFFER_OVERWRITE : 0) |
			 (flags & BRAID_ALLOC_ABSOLUTE ? BRAID_BUFFER_ABSOLUTE : 0) |
			 (flags & BRAID_ALLOC_RAW ? BRAID_BUFFER_RAW : 0),
		.subbuf_bytes = PAGE_SIZE,
		.events_of = events_of ? events_of->events_of : NULL,
	};
	struct braid_guest_region *region;
	struct braid_buffer *buffer;
	int err = 0;

	shape.nr_slots = braid_slots_of(size, shape.subbuf_bytes);
	if (!shape.nr_slots || flags & ~(BRAID_ALLOC_OVERWRITE | BRAID_ALLOC_ABSOLUTE | BRAID_ALLOC_RAW) ||
	    (events_of && flags & BRAID_ALLOC_RAW))
		return ERR_PTR(-EINVAL);
	braid_buffers_lock();
	buffer = braid_registry_new_buffer(&shape);
	region = braid_trace_buffer()->region;		/* it gets rings when there is a region */
	if (!IS_ERR(buffer) && region && braid_region_is_live(region)) {
		err = braid_buffer_place(buffer, region);
		if (err)
			buffer->dying = true;
		else
			braid_registry_list_buffer(buffer);
	}
	braid_buffers_unlock();
	if (!IS_ERR(buffer) && !err)
		err = braid_reader_prepare(buffer) ?: braid_debugfs_add_buffer(buffer);
	if (!err)
		return buffer;
	braid_buffer_free(buffer);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(braid_buffer_alloc);

int braid_buffer_free(struct braid_buffer *buffer)
{
	struct braid_event *ev;
	int err = -EBUSY;

	braid_buffers_lock();
	if (!buffer->nr_backups)
		err = braid_buffer_displace(buffer, BRAID_DISPLACE_FREE);
	if (!err)
		buffer->dying = true;	/* gets no new rings */
	braid_buffers_unlock();
	if (err)
		return err;
	/* Not under the lock: this waits for users of the files, which may need it. */
	braid_debugfs_remove_buffer(buffer);
	while (buffer->events && (ev = braid_registry_next(buffer, NULL)))
		braid_api_forget(container_of(ev, struct api_event, ev));
	braid_registry_free_buffer(buffer);
	return 0;
}
EXPORT_SYMBOL_GPL(braid_buffer_free);
