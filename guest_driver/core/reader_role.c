// SPDX-License-Identifier: GPL-2.0
/*
 * One reader of each ring in the guest: its lifecycle, the reader role, waiting, and the search for
 * events.
 */
#include <linux/err.h>
#include <linux/mm.h>
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

	if (r)
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

int braid_reader_make_room(struct braid_guest_reader *r, u32 subbuf_bytes)
{
	return braid_page_copy_make(&r->page, subbuf_bytes) ?:
	       braid_event_copy_make(&r->item, subbuf_bytes);
}

int braid_reader_prepare(struct braid_buffer *buffer)
{
	struct braid_guest_reader *r;
	int cpu, err = 0;

	braid_lock(&buffer->lock);
	for_each_possible_cpu(cpu) {
		r = braid_reader_find(buffer, cpu);
		err = r ? braid_reader_make_room(r, buffer->subbuf_bytes) : -ENOMEM;
		if (err)
			break;
	}
	braid_unlock(&buffer->lock);
	return err;
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

static void braid_reader_kref_release(struct kref *kref)
{
	kfree(container_of(kref, struct braid_guest_reader, kref));
}

void braid_reader_put(struct braid_guest_reader *r)
{
	kref_put(&r->kref, braid_reader_kref_release);
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
		braid_event_copy_free(&r->item);
		braid_reader_put(r);
	}
}

/* The role -------------------------------------------------------------------------- */

bool braid_reader_mapped(struct braid_guest_reader *r)
{
	return READ_ONCE(r->nr_mapped);
}

void braid_reader_unmap(struct braid_guest_reader *r)
{
	mutex_lock(&r->map_lock);
	r->generation++;
	if (r->nr_mapped)	/* else the file may be closed */
		unmap_mapping_range(r->mapping, 0, 0, 1);
	r->nr_mapped = 0;
	r->base = NULL;
	mutex_unlock(&r->map_lock);
}

/* Begins where the ring's last reader left off. */
static int braid_reader_take_over(struct braid_guest_reader *r, const struct braid_writer *w)
{
	const struct braid_ring_base *base = &r->buffer->cpus[r->cpu].base;
	u64 read = r->ring.read, lost = r->ring.lost, incarnation = r->ring.incarnation;
	int err = braid_reader_make_room(r, w->map.subbuf_bytes);

	if (err)
		return err;
	r->page.valid = false;
	r->bad = false;
	r->shown_lost = 0;
	err = braid_reader_attach(&r->ring, &w->map, r->buffer->region->layout.incarnation);
	/*
	 * A loss that was seen but not reported must still be reported, unless another reader read
	 * since.
	 */
	if (err || r->ring.incarnation != incarnation || r->ring.read != read ||
	    r->ring.lost != lost)
		r->lost_reported = r->ring.lost;
	/* What a reset emptied is not reported. The reader may find it only now. */
	r->lost_reported = max(r->lost_reported, base->lost);
	r->ring.read_before = base->read;
	r->ring.lost_before = base->lost;
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
	r->owned = false;	/* or an agent assumed that we are dead */
	dead = braid_region_agent_alive(r->buffer->region) ? BRAID_READER_NONE :
							     BRAID_READER_HOST;
	if (!braid_reader_own(&w->map, BRAID_READER_GUEST, dead))
		return -EBUSY;
	err = braid_reader_take_over(r, w);
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

int braid_reader_hold_role(struct braid_guest_reader *r, struct braid_reader_hold *hold)
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

int braid_reader_count(struct braid_guest_reader *r, struct braid_ring_counts *counts)
{
	const struct braid_buffer *buffer = r->buffer;
	const struct braid_writer *w = braid_buffer_writer(buffer, r->cpu);
	const struct braid_ring_base *base = &buffer->cpus[r->cpu].base;
	struct braid_ring_tally tally;
	int err;

	memset(counts, 0, sizeof(*counts));
	if (!w)
		return -ENODEV;
	if (braid_page_copy_make(&r->scratch, w->map.subbuf_bytes))
		return -ENOMEM;
	counts->owner = braid_load(&w->map.priv->reader_owner);
	counts->broken = READ_ONCE(w->broken);
	err = braid_ring_count(&w->map, buffer->region->layout.incarnation, r->scratch.data, &tally);
	if (err)
		return err;
	tally.lost -= base->lost;
	counts->written = tally.written - base->read - base->lost;
	counts->read = tally.read - base->read;
	counts->entries = tally.left;
	counts->bytes = tally.left_bytes;
	counts->oldest = tally.oldest;
	counts->dropped = min(tally.dropped - base->dropped, tally.lost);
	counts->overruns = tally.lost - counts->dropped;
	return 0;
}

/*
 * Whether there is an event: 1, 0, -errno. A mapped sub-buffer is kept: only a request for the next
 * one releases it.
 */
static int braid_reader_has_event(struct braid_guest_reader *r)
{
	struct braid_ring_counts counts;
	struct braid_event_view view;
	struct braid_cursor c;

	if (!braid_reader_mapped(r))
		return braid_reader_view(r, &c, &view);
	return braid_reader_count(r, &counts) ?: !!counts.entries;
}

/* Whether the last user of the role has gone: a mapping, or a call that found the lock taken. */
static bool braid_reader_is_unused(const struct braid_guest_reader *r)
{
	return READ_ONCE(r->owned) && !READ_ONCE(r->by_call) && !READ_ONCE(r->nr_holds) &&
	       !READ_ONCE(r->nr_mapped);
}

/* Whether waiting readers should be woken: there is an event, or none can come. */
static bool braid_reader_should_wake(struct braid_guest_reader *r)
{
	return braid_reader_take_role(r) || braid_reader_has_event(r);
}

bool braid_reader_poll(void)
{
	struct braid_guest_reader *r;
	bool waiting = false;

	mutex_lock(&readers_lock);
	list_for_each_entry(r, &readers, list) {
		bool asleep = wq_has_sleeper(&r->wait);

		waiting |= asleep;
		/* Calls that cannot wait for the lock should find it free. */
		if ((!asleep && !braid_reader_is_unused(r)) || !braid_lock_try(&r->buffer->lock))
			continue;
		if (asleep && braid_reader_should_wake(r))
			braid_reader_wake(r);
		braid_reader_give_role(r);
		braid_unlock(&r->buffer->lock);
	}
	mutex_unlock(&readers_lock);
	return waiting;
}

int braid_reader_ready(struct braid_guest_reader *r, struct braid_reader_hold *h)
{
	int ret;

	braid_lock(&r->buffer->lock);
	ret = braid_reader_hold_role(r, h) ?: braid_reader_has_event(r);
	braid_unlock(&r->buffer->lock);
	return ret;
}

/* Taking ---------------------------------------------------------------------------- */

int braid_reader_view(struct braid_guest_reader *r, struct braid_cursor *c,
		      struct braid_event_view *view)
{
	int ret = r->bad ? -EBADMSG : braid_reader_next(&r->ring, &r->span);

	if (ret > 0)
		ret = braid_page_copy_fill(&r->page, &r->span, r->ring.map.flags) ?: 1;
	if (ret > 0) {
		*c = r->page.cursor;
		ret = braid_page_copy_next(c, view);
		if (!ret)
			ret = -EBADMSG;		/* no writer commits a span without events */
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
