// SPDX-License-Identifier: GPL-2.0
/* Keeps all events and their ids, and switches them. */
#include <linux/err.h>
#include <linux/idr.h>
#include <linux/slab.h>

#include "guest_driver/event/directory.h"
#include "guest_driver/event/filter.h"
#include "guest_driver/event/output.h"
#include "guest_driver/event/policy.h"
#include "guest_driver/event/subevent.h"
#include "guest_driver/event/tests.h"

#define WANTED		(BRAID_EVENT_GUEST_ON | BRAID_EVENT_HOST_ON)

static u32 next_ids[BRAID_MAX_BUFFERS];		/* of freed buffers of this incarnation */
static const struct braid_event_listener *listener;	/* or NULL */

/* Which events are switched, and what came of it. */
struct switching {
	const char *system, *name;
	u32 who;
	bool on;
	u64 seen;		/* a generation of the directory */
	void (*progress)(void);	/* NULL, or: called after each event, of which one may take long */
	u32 matched, unseen;
};

void braid_registry_listen(const struct braid_event_listener *to)
{
	listener = to;
}

/* Lists an event and its sub-events. Must hold lock, with its buffer in the region. */
static int braid_registry_list_event(struct braid_event *ev)
{
	int err = braid_directory_list(ev);

	if (!err)
		braid_subevents_relist(ev);
	return err;
}

/* Enables or disables an event for @who; the caller synchronizes. Must hold lock. */
static int braid_registry_set_locked(struct braid_event *ev, u32 who, bool on)
{
	u32 flags = on ? ev->flags | who : ev->flags & ~who;
	int err = 0;

	if (who & BRAID_EVENT_GUEST_ON && !on)
		ev->again = false;
	if (flags == ev->flags)
		return 0;
	if (on && !ev->listed)
		return -ENODEV;
	if (flags & WANTED)		/* else its last writers still need it as it is */
		braid_filter_follow(ev, flags);
	if (flags & WANTED && !(ev->flags & WANTED))
		err = ev->ops->enable ? ev->ops->enable(ev) : 0;
	else if (!(flags & WANTED) && ev->ops->disable)
		ev->ops->disable(ev);
	if (err)
		return err;
	ev->flags = flags;
	braid_directory_set_flags(ev);
	return 0;
}

int braid_event_set(struct braid_event *ev, u32 who, bool on)
{
	int err;

	braid_registry_lock();
	err = braid_registry_set_locked(ev, who, on);
	braid_registry_unlock();
	return err;
}

static bool braid_registry_may_host(const struct braid_event *ev)
{
	return ev->ops->of_host || braid_policy_allows_event(ev->system, ev->name);
}

/* Must hold lock. */
static int braid_registry_switch_space(struct braid_event_space *space, struct switching *s)
{
	struct braid_event *ev;
	int first = 0, err;

	list_for_each_entry(ev, &space->events, list) {
		if (!braid_event_matches(ev, s->system, s->name) ||
		    (s->on && s->who & BRAID_EVENT_HOST_ON && !braid_registry_may_host(ev)))
			continue;
		if (ev->listed && ev->listed_at > s->seen) {
			s->unseen++;
			continue;
		}
		s->matched++;
		err = braid_registry_set_locked(ev, s->who, s->on);
		first = first ?: err;
		if (s->progress)
			s->progress();
	}
	return first;
}

/* @buffer: whose events; NULL: of all. */
static int braid_registry_switch(struct braid_buffer *buffer, struct switching *s)
{
	struct braid_buffer *at = NULL;
	int first = 0, err;

	braid_buffers_lock();
	braid_registry_lock();
	while ((at = braid_buffer_next(at))) {
		if (!at->events || (buffer && at != buffer))
			continue;
		err = braid_registry_switch_space(at->events, s);
		first = first ?: err;
	}
	braid_registry_unlock();
	braid_buffers_unlock();
	return first;
}

int braid_event_set_matching(struct braid_buffer *buffer, const char *system, const char *name,
			     u32 who, bool on, void (*progress)(void), u32 *matched)
{
	struct switching s = {
		.system = system, .name = name, .who = who, .on = on, .seen = U64_MAX,
		.progress = progress,
	};
	int err = braid_registry_switch(buffer, &s);

	*matched = s.matched;
	return err;
}

int braid_event_enable_seen(const char *system, const char *name, u64 seen,
			    void (*progress)(void), u32 *matched, u32 *unseen)
{
	struct switching s = {
		.system = system, .name = name, .who = BRAID_EVENT_HOST_ON, .on = true,
		.seen = seen, .progress = progress,
	};
	int err = braid_registry_switch(NULL, &s);

	*matched = s.matched;
	*unseen = s.unseen;
	return err;
}

u32 braid_event_count_refused(const char *system, const char *name)
{
	struct braid_buffer *buffer = NULL;
	struct braid_event *ev;
	u32 refused = 0;

	braid_buffers_lock();
	braid_registry_lock();
	while ((buffer = braid_buffer_next(buffer))) {
		if (!buffer->events)
			continue;
		list_for_each_entry(ev, &buffer->events->events, list)
			refused += braid_event_matches(ev, system, name) &&
				   !braid_registry_may_host(ev);
	}
	braid_registry_unlock();
	braid_buffers_unlock();
	return refused;
}

/* Must hold lock. */
static int braid_registry_sample_space(struct braid_event_space *space, const char *system,
				       const char *name, u64 arg0, u32 *matched)
{
	struct braid_event *ev;
	int first = 0, err;

	list_for_each_entry(ev, &space->events, list) {
		if (!ev->ops->set_sampling || !braid_event_matches(ev, system, name) ||
		    !braid_registry_may_host(ev))
			continue;
		(*matched)++;
		err = ev->ops->set_sampling(ev, arg0);
		first = first ?: err;
	}
	return first;
}

int braid_event_sample_matching(const char *system, const char *name, u64 arg0, u32 *matched)
{
	struct braid_buffer *at = NULL;
	int first = 0, err;

	*matched = 0;
	braid_buffers_lock();
	braid_registry_lock();
	while ((at = braid_buffer_next(at))) {
		if (!at->events)
			continue;
		err = braid_registry_sample_space(at->events, system, name, arg0, matched);
		first = first ?: err;
	}
	braid_registry_unlock();
	braid_buffers_unlock();
	return first;
}

int braid_event_add(struct braid_event *ev, u16 requested_id)
{
	struct braid_event_space *space = ev->buffer->events;
	int id, err = 0;

	if (!space)
		return -EINVAL;
	ev->flags = 0;
	ev->filter = ev->host_filter = NULL;
	ev->tests = NULL;
	ev->diverted = false;
	ev->listed = false;
	ev->again = false;
	braid_buffers_lock();		/* a buffer that is being reshaped temporarily has no
					   region */
	braid_registry_lock();
	requested_id = requested_id ?: braid_directory_former_id(ev);
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
		if (braid_directory_takes(ev->buffer))
			err = braid_registry_list_event(ev);
		if (err) {
			list_del(&ev->list);
			idr_remove(&space->ids, id);
			id = err;
		}
	}
	braid_registry_unlock();
	braid_buffers_unlock();
	if (id > 0 && listener)
		listener->added(ev);
	return id;
}

void braid_event_withdraw(struct braid_event *ev, struct list_head *withdrawn)
{
	braid_subevents_remove(ev);
	if (listener)
		listener->removing(ev);
	braid_registry_lock();
	braid_registry_set_locked(ev, WANTED, false);
	ev->flags |= BRAID_EVENT_GONE;
	braid_directory_set_flags(ev);
	braid_directory_remove(ev);
	list_move_tail(&ev->list, withdrawn);
	idr_remove(&ev->buffer->events->ids, ev->id);
	braid_registry_unlock();
}

void braid_event_release_all(struct list_head *withdrawn)
{
	struct braid_event *ev = list_first_entry_or_null(withdrawn, struct braid_event, list);

	if (!ev)
		return;
	ev->ops->synchronize();
	braid_registry_lock();
	list_for_each_entry(ev, withdrawn, list) {
		braid_filter_free(ev);
		braid_tests_free(braid_tests_take(ev, NULL));
	}
	braid_registry_unlock();
	braid_output_synchronize();
}

void braid_event_remove_all(struct braid_event *evs, unsigned int nr)
{
	LIST_HEAD(withdrawn);
	unsigned int k;

	for (k = 0; k < nr; k++)
		braid_event_withdraw(&evs[k], &withdrawn);
	braid_event_release_all(&withdrawn);
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
	synchronize_rcu();		/* for lookups of events by id */
	braid_buffer_destroy(buffer);
	braid_buffers_unlock();
	if (space)
		idr_destroy(&space->ids);
	kfree(space);
}

/* Must hold lock. */
static void braid_registry_list_all(struct braid_buffer *buffer)
{
	struct braid_event *ev;

	if (!buffer->events || !buffer->region)
		return;
	list_for_each_entry(ev, &buffer->events->events, list)
		if (!ev->listed)
			braid_registry_list_event(ev);
}

void braid_registry_list_buffer(struct braid_buffer *buffer)
{
	braid_registry_lock();
	/* A buffer that is recreated with its name continues with its ids. */
	if (buffer->events && next_ids[buffer->index] > idr_get_cursor(&buffer->events->ids))
		idr_set_cursor(&buffer->events->ids, next_ids[buffer->index]);
	braid_registry_list_all(buffer);
	braid_registry_unlock();
}

void braid_registry_attach(struct braid_guest_region *came)
{
	struct braid_buffer *buffer = NULL;

	braid_registry_lock();
	braid_directory_attach(came);
	memset(next_ids, 0, sizeof(next_ids));
	while ((buffer = braid_buffer_next(buffer)))
		braid_registry_list_all(buffer);
	braid_registry_unlock();
}

/* Must hold lock. */
static void braid_registry_all_off(struct braid_event_space *space)
{
	const struct braid_event_ops *synchronized = NULL;
	struct braid_event *ev;

	list_for_each_entry(ev, &space->events, list) {
		bool again = ev->again || ev->flags & BRAID_EVENT_GUEST_ON;

		braid_registry_set_locked(ev, WANTED, false);
		ev->again = again;
	}
	list_for_each_entry(ev, &space->events, list) {	/* once per source: it is slow */
		if (ev->ops != synchronized)
			ev->ops->synchronize();
		synchronized = ev->ops;
		ev->listed = false;
		braid_filter_free(ev);
	}
}

void braid_registry_restore(void)
{
	struct braid_buffer *buffer = NULL;
	struct braid_event *ev;

	braid_buffers_lock();
	braid_registry_lock();
	while ((buffer = braid_buffer_next(buffer))) {
		if (!buffer->events)
			continue;
		list_for_each_entry(ev, &buffer->events->events, list)
			if (ev->again && !braid_registry_set_locked(ev, BRAID_EVENT_GUEST_ON, true))
				ev->again = false;	/* else its buffer has no memory this time */
	}
	braid_registry_unlock();
	braid_buffers_unlock();
}

void braid_registry_detach(void)
{
	struct braid_buffer *buffer = NULL;

	braid_registry_lock();
	while ((buffer = braid_buffer_next(buffer)))
		if (buffer->events)
			braid_registry_all_off(buffer->events);
	braid_filter_free_scratch();
	braid_directory_detach();
	braid_registry_unlock();
}
