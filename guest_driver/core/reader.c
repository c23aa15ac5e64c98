// SPDX-License-Identifier: GPL-2.0
/* Takes events in the guest: the reader role, the private copy, peek and consume. */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/slab.h>

#include "guest_driver/core/reader_private.h"

static LIST_HEAD(readers);
static DEFINE_MUTEX(readers_lock);	/* taken inside a buffer's lock */

/* Life ------------------------------------------------------------------------------ */

bool braid_reader_cpu_valid(const struct braid_buffer *buffer, int cpu)
{
	return cpu >= 0 && cpu < buffer->nr_cpus && cpu_possible(cpu);
}

struct braid_guest_reader *braid_reader_find(struct braid_buffer *buffer, int cpu)
{
	struct braid_guest_reader *r = buffer->cpus[cpu].reader;

	if (r || !braid_may_sleep())
		return r;
	r = kzalloc(sizeof(*r), GFP_KERNEL);
	if (!r)
		return NULL;
	kref_init(&r->kref);
	r->buffer = buffer;
	r->cpu = cpu;
	init_waitqueue_head(&r->wait);
	mutex_init(&r->map_lock);
	mutex_lock(&readers_lock);
	list_add_tail(&r->list, &readers);
	mutex_unlock(&readers_lock);
	buffer->cpus[cpu].reader = r;
	return r;
}

struct braid_guest_reader *braid_reader_get(struct braid_buffer *buffer, int cpu)
{
	struct braid_guest_reader *r;

	braid_lock(&buffer->lock);
	r = braid_reader_find(buffer, cpu);
	if (r)
		kref_get(&r->kref);
	braid_unlock(&buffer->lock);
	return r;
}

static void free_reader(struct kref *kref)
{
	kfree(container_of(kref, struct braid_guest_reader, kref));
}

void braid_reader_put(struct braid_guest_reader *r)
{
	kref_put(&r->kref, free_reader);
}

void braid_reader_free(struct braid_buffer *buffer)
{
	u32 cpu;

	for (cpu = 0; cpu < buffer->nr_cpus; cpu++) {
		struct braid_guest_reader *r = buffer->cpus[cpu].reader;

		if (!r)
			continue;
		buffer->cpus[cpu].reader = NULL;
		mutex_lock(&readers_lock);
		list_del(&r->list);
		r->buffer = NULL;
		mutex_unlock(&readers_lock);
		braid_page_copy_free(&r->page);
		braid_page_copy_free(&r->scratch);
		braid_event_room_free(&r->item);
		braid_reader_put(r);
	}
}

/* The role -------------------------------------------------------------------------- */

/* Begins where the ring's last reader left off. */
static int attach(struct braid_guest_reader *r, const struct braid_writer *w)
{
	u64 read = r->ring.read, lost = r->ring.lost, incarnation = r->ring.incarnation;
	u32 subbuf_bytes = w->map.subbuf_bytes;
	int err = braid_page_copy_make(&r->page, subbuf_bytes) ?:
		  braid_event_room_make(&r->item, subbuf_bytes);

	if (err)
		return err;
	r->page.valid = false;
	r->bad = false;
	r->shown_lost = 0;
	err = braid_reader_attach(&r->ring, &w->map, r->buffer->region->layout.incarnation);
	/* A loss that we have seen and not told is still to be told, if nobody read since. */
	if (err || r->ring.incarnation != incarnation || r->ring.read != read ||
	    r->ring.lost != lost)
		r->lost_told = r->ring.lost;
	return err;
}

int braid_reader_take_role(struct braid_guest_reader *r)
{
	const struct braid_writer *w = braid_buffer_writer(r->buffer, r->cpu);
	u64 dead;
	int err;

	if (!w)
		return -ENODEV;
	if (r->owned && braid_load(&w->map.priv->reader_owner) == BRAID_READER_GUEST)
		return r->bad ? -EBADMSG : 0;
	r->owned = false;	/* or an agent took us for dead */
	dead = braid_region_agent_alive(r->buffer->region) ? BRAID_READER_NONE :
							     BRAID_READER_HOST;
	if (!braid_reader_own(&w->map, BRAID_READER_GUEST, dead))
		return -EBUSY;
	err = attach(r, w);
	if (err)
		braid_reader_disown(&w->map, BRAID_READER_GUEST);
	else
		r->owned = true;
	return err;
}

void braid_reader_give_role(struct braid_guest_reader *r)
{
	if (!r->owned || r->by_call || r->nr_holds || braid_reader_mapped(r))
		return;
	braid_reader_disown(&r->ring.map, BRAID_READER_GUEST);
	r->owned = false;
}

/* Joins those who hold the role. */
static int hold(struct braid_guest_reader *r, struct braid_reader_hold *hold)
{
	int err = braid_reader_take_role(r);

	if (err)
		return err;
	if (!hold->held || hold->generation != r->generation) {
		hold->held = true;
		hold->generation = r->generation;
		r->nr_holds++;
	}
	return 0;
}

void braid_reader_let_go(struct braid_guest_reader *r, struct braid_reader_hold *hold)
{
	braid_lock(&r->buffer->lock);
	if (hold->held && hold->generation == r->generation)
		r->nr_holds--;
	hold->held = false;
	braid_reader_give_role(r);
	braid_unlock(&r->buffer->lock);
}

bool braid_reader_busy(struct braid_buffer *buffer, int cpu)
{
	u32 k;

	for (k = 0; k < buffer->nr_cpus; k++) {
		struct braid_guest_reader *r = buffer->cpus[k].reader;

		if (!r || (cpu >= 0 && cpu != k))
			continue;
		braid_reader_give_role(r);
		if (r->owned)
			return true;
	}
	return false;
}

void braid_reader_forget(struct braid_buffer *buffer, int cpu)
{
	struct braid_guest_reader *r = buffer->cpus[cpu].reader;

	if (!r)
		return;
	if (r->owned)
		braid_reader_disown(&r->ring.map, BRAID_READER_GUEST);
	r->owned = false;
	r->by_call = false;
	r->nr_holds = 0;
	braid_reader_unmap(r);
	braid_reader_wake(r);
}

void braid_reader_moved(struct braid_buffer *buffer, int cpu)
{
	struct braid_guest_reader *r = buffer->cpus[cpu].reader;

	if (r)
		WRITE_ONCE(r->generation, r->generation + 1);
}

/* Waiting --------------------------------------------------------------------------- */

wait_queue_head_t *braid_reader_queue(struct braid_guest_reader *r)
{
	return &r->wait;
}

u32 braid_reader_wakes(const struct braid_guest_reader *r)
{
	return atomic_read_acquire(&r->wakes);
}

void braid_reader_wake(struct braid_guest_reader *r)
{
	atomic_inc_return_release(&r->wakes);
	wake_up_all(&r->wait);
}

/*
 * Whether there is an event: 1, 0, -errno. A mapping's sub-buffer stays in hand: only who asks
 * for the next one lets it go.
 */
static int any_event(struct braid_guest_reader *r)
{
	struct braid_ring_counts counts;
	struct braid_event_view view;
	struct braid_cursor c;

	if (!braid_reader_mapped(r))
		return braid_reader_look(r, &c, &view);
	return braid_reader_count(r, &counts) ?: !!counts.entries;
}

/* Whether who waits should look: there is an event, or a reason why none will come. */
static bool worth_waking(struct braid_guest_reader *r)
{
	return braid_reader_take_role(r) || any_event(r);
}

bool braid_reader_poll(void)
{
	struct braid_guest_reader *r;
	bool waiting = false;

	mutex_lock(&readers_lock);
	list_for_each_entry(r, &readers, list) {
		bool asleep = wq_has_sleeper(&r->wait);

		waiting |= asleep;
		if (!braid_lock_try(&r->buffer->lock))
			continue;
		if (asleep && worth_waking(r))
			braid_reader_wake(r);
		braid_reader_give_role(r);		/* the last mapping may have gone */
		braid_unlock(&r->buffer->lock);
	}
	mutex_unlock(&readers_lock);
	return waiting;
}

int braid_reader_ready(struct braid_guest_reader *r, struct braid_reader_hold *h)
{
	int ret;

	braid_lock(&r->buffer->lock);
	ret = hold(r, h) ?: any_event(r);
	braid_unlock(&r->buffer->lock);
	return ret;
}

/* Taking ---------------------------------------------------------------------------- */

int braid_reader_look(struct braid_guest_reader *r, struct braid_cursor *c,
		      struct braid_event_view *view)
{
	int ret = r->bad ? -EBADMSG : braid_reader_next(&r->ring, &r->span);

	if (ret > 0)
		ret = braid_page_copy_fill(&r->page, &r->span, r->ring.map.flags) ?: 1;
	if (ret > 0) {
		*c = r->page.cursor;
		ret = braid_page_copy_next(c, view);
		if (!ret)
			ret = -EBADMSG;		/* no writer commits what has no event */
	}
	if (ret < 0)
		r->bad = true;
	return ret;
}

void braid_reader_take(struct braid_guest_reader *r, const struct braid_cursor *c, u64 events)
{
	struct braid_span part = r->span;

	part.to_bytes = c->offset;
	part.final = r->span.final && c->offset == r->span.to_bytes;
	r->page.cursor = *c;
	braid_reader_done(&r->ring, &part, events);
}

int braid_reader_subbuf_bytes(struct braid_guest_reader *r)
{
	const struct braid_writer *w;
	int ret;

	braid_lock(&r->buffer->lock);
	w = braid_buffer_writer(r->buffer, r->cpu);
	ret = w ? (int)w->map.subbuf_bytes : -ENODEV;
	braid_unlock(&r->buffer->lock);
	return ret;
}

/* Fills a page as tracefs does, with whole events from the copy: 1 or -ENOSPC, -EBADMSG. */
static int fill_page(struct braid_guest_reader *r, struct braid_cursor *c,
		     struct braid_subbuf *page, u32 bytes)
{
	u32 room = r->ring.map.subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES, used, events = 0;
	u64 lost = r->ring.lost - r->lost_told;
	struct braid_cursor end = r->page.cursor;
	struct braid_event_view view;
	u32 from = end.offset;

	do {
		if (c->offset - from > min(bytes - BRAID_SUBBUF_HEADER_BYTES, room))
			break;
		end = *c;
		events++;
	} while (braid_page_copy_next(c, &view) > 0);
	if (!events)
		return -ENOSPC;

	used = end.offset - from;
	page->time_stamp = r->page.cursor.time;
	page->commit = used;
	memcpy(page->data, r->page.data + from, used);
	if (lost && room - used >= sizeof(lost)) {
		memcpy(page->data + used, &lost, sizeof(lost));
		page->commit |= BRAID_MISSED_STORED;
		used += sizeof(lost);
	}
	if (lost)
		page->commit |= BRAID_MISSED_EVENTS;
	memset(page->data + used, 0, room - used);
	r->lost_told += lost;
	braid_reader_take(r, &end, events);
	return 1;
}

int braid_reader_read_page(struct braid_guest_reader *r, struct braid_reader_hold *h,
			   void *page, u32 bytes, u32 *subbuf_bytes)
{
	struct braid_event_view view;
	struct braid_cursor c;
	int ret;

	braid_lock(&r->buffer->lock);
	ret = hold(r, h);
	if (!ret) {
		/* Who came with a page of another size comes again. */
		if (r->ring.map.subbuf_bytes != *subbuf_bytes)
			ret = -ESTALE;
		*subbuf_bytes = r->ring.map.subbuf_bytes;
	}
	if (!ret)
		ret = braid_reader_look(r, &c, &view);
	if (ret > 0)
		ret = bytes > BRAID_SUBBUF_HEADER_BYTES ? fill_page(r, &c, page, bytes) : -ENOSPC;
	braid_unlock(&r->buffer->lock);
	return ret;
}

/* The API --------------------------------------------------------------------------- */

/* The buffer's lock; who cannot sleep gets it at once or not at all. */
static bool hold_buffer(struct braid_buffer *buffer, bool sleeps)
{
	if (!sleeps)
		return braid_lock_try_any(&buffer->lock);
	braid_lock(&buffer->lock);
	return true;
}

static void release_buffer(struct braid_buffer *buffer, bool sleeps)
{
	if (sleeps)
		braid_unlock(&buffer->lock);
	else
		braid_lock_end_any(&buffer->lock);
}

static int get_item(struct braid_buffer *buffer, int cpu, struct braid_item *item, bool consume)
{
	struct braid_guest_reader *r;
	struct braid_event_view view;
	bool sleeps = braid_may_sleep();
	struct braid_cursor c;
	int ret = -ENOMEM;

	if (!braid_reader_cpu_valid(buffer, cpu))
		return -EINVAL;
	if (!hold_buffer(buffer, sleeps))
		return -EBUSY;
	r = braid_reader_find(buffer, cpu);
	if (r)
		ret = braid_reader_take_role(r);
	if (!ret) {
		r->by_call = true;
		ret = braid_reader_look(r, &c, &view);
	}
	if (ret > 0) {
		item->buffer = buffer;
		item->cpu = cpu;
		item->stamp = view.time;
		item->lost_before = r->ring.lost - r->lost_told;
		braid_event_room_put(&r->item, &r->page, &view, item);
	}
	if (ret > 0 && consume) {
		r->lost_told += item->lost_before;
		braid_reader_take(r, &c, 1);
	}
	release_buffer(buffer, sleeps);
	return ret;
}

int braid_buffer_peek(struct braid_buffer *buffer, int cpu, struct braid_item *item)
{
	return get_item(buffer, cpu, item, false);
}
EXPORT_SYMBOL_GPL(braid_buffer_peek);

int braid_buffer_consume(struct braid_buffer *buffer, int cpu, struct braid_item *item)
{
	return get_item(buffer, cpu, item, true);
}
EXPORT_SYMBOL_GPL(braid_buffer_consume);

void braid_buffer_read_done(struct braid_buffer *buffer, int cpu)
{
	bool sleeps = braid_may_sleep();
	struct braid_guest_reader *r;

	if (!braid_reader_cpu_valid(buffer, cpu) || !hold_buffer(buffer, sleeps))
		return;
	r = buffer->cpus[cpu].reader;
	if (r) {
		r->by_call = false;
		braid_reader_give_role(r);
	}
	release_buffer(buffer, sleeps);
}
EXPORT_SYMBOL_GPL(braid_buffer_read_done);
