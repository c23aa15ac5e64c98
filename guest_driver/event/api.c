// SPDX-License-Identifier: GPL-2.0
/* The API for other modules: events that are recorded by call, not by a tracepoint. */
#include <linux/export.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "guest_driver/event/event.h"
#include "tracebraid/event.h"

struct api_event {
	struct braid_event ev;
	struct braid_event_desc desc;
	bool on;
};

static int api_enable(struct braid_event *ev)
{
	smp_store_release(&container_of(ev, struct api_event, ev)->on, true);
	return 0;
}

static void api_disable(struct braid_event *ev)
{
	WRITE_ONCE(container_of(ev, struct api_event, ev)->on, false);
}

static int api_format(const struct braid_event *ev, u16 id, char *text, size_t bytes)
{
	const struct braid_event_desc *desc = ev->source;
	int len;

	len = snprintf(text, bytes,
		       "name: %s\nID: %u\nformat:\n"
		       "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
		       "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
		       "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
		       "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n%s",
		       desc->name, id, desc->fields ?: "");
	if (len < bytes && desc->fields)
		len += snprintf(text + len, bytes - len, "\nprint fmt: %s\n", desc->print_fmt);
	return len < bytes ? len : -ENOSPC;
}

static const struct braid_event_ops api_ops = {
	.enable = api_enable,
	.disable = api_disable,
	.synchronize = synchronize_rcu,
	.format = api_format,
};

int braid_register_event(struct braid_buffer *buffer, u16 event_id,
			 const struct braid_event_desc *desc)
{
	struct api_event *api;
	int id;

	if (!desc->system || !desc->name || (desc->fields && !desc->print_fmt))
		return -EINVAL;
	if (buffer)
		return -EOPNOTSUPP;
	api = kzalloc(sizeof(*api), GFP_KERNEL);
	if (!api)
		return -ENOMEM;
	api->desc = *desc;
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

/* The event behind an id that this API gave out. Preemption is off, or the caller owns it. */
static struct api_event *find(u16 event_id)
{
	struct braid_event *ev = braid_event_find(event_id);

	return ev && ev->ops == &api_ops ? container_of(ev, struct api_event, ev) : NULL;
}

int braid_unregister_event(struct braid_buffer *buffer, u16 event_id)
{
	struct api_event *api;

	rcu_read_lock();	/* for the tree's nodes; the event is the caller's */
	api = buffer ? NULL : find(event_id);
	rcu_read_unlock();
	if (!api)
		return -ENOENT;
	braid_event_remove_all(&api->ev, 1);
	kfree(api);
	return 0;
}
EXPORT_SYMBOL_GPL(braid_unregister_event);

int braid_record_event(struct braid_buffer *buffer, u16 event_id, u32 length,
		       const void *payload)
{
	struct api_event *api;
	struct braid_slot slot;
	u8 *record;
	int ret;

	if (length > BRAID_MAX_RECORD_BYTES - sizeof(struct braid_record))
		return -EMSGSIZE;
	preempt_disable_notrace();
	api = buffer ? NULL : find(event_id);
	ret = api ? -EAGAIN : -ENOENT;
	if (api && smp_load_acquire(&api->on) && !READ_ONCE(api->ev.buffer->disabled)) {
		record = braid_event_reserve(&api->ev, &slot,
					     length + sizeof(struct braid_record));
		ret = record ? 0 : -ENOSPC;
		if (record) {
			memcpy(record + sizeof(struct braid_record), payload, length);
			braid_event_commit(&slot);
		}
	}
	preempt_enable_notrace();
	return ret;
}
EXPORT_SYMBOL_GPL(braid_record_event);
