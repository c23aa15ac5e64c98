// SPDX-License-Identifier: GPL-2.0
/* Creates buffers, and places their rings when shared memory is available. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/ctype.h>
#include <linux/err.h>
#include <linux/log2.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>

#include "guest_driver/core/buffer.h"
#include "guest_driver/core/reader.h"

static struct braid_lock buffers_lock = BRAID_LOCK_INIT(buffers_lock);
static LIST_HEAD(buffers);

void braid_buffers_lock(void)
{
	braid_lock(&buffers_lock);
}

void braid_buffers_unlock(void)
{
	braid_unlock(&buffers_lock);
}

bool braid_buffers_lock_any(void)
{
	return braid_lock_try_any(&buffers_lock);
}

void braid_buffers_unlock_any(void)
{
	braid_lock_end_any(&buffers_lock);
}

struct braid_buffer *braid_buffer_next(struct braid_buffer *prev)
{
	lockdep_assert_held(&buffers_lock.mutex);
	if (!prev)
		return list_first_entry_or_null(&buffers, struct braid_buffer, list);
	return list_is_last(&prev->list, &buffers) ? NULL : list_next_entry(prev, list);
}

/* A name is also a directory's: no slash, no leading dot. */
static bool braid_buffer_name_is_valid(const char *name)
{
	size_t k, bytes = strlen(name);

	for (k = 0; k < bytes; k++)
		if (!isalnum(name[k]) && !strchr("_.-", name[k]))
			return false;
	return bytes && bytes < BRAID_NAME_BYTES && *name != '.';
}

/* BRAID_BUFFER_FROZEN or _COUNTED: what buffers that come are, too. */
static atomic_t joined;

/* A freeze either finds the buffer in the list, or is seen here. */
static void braid_buffer_join(struct braid_buffer *buffer)
{
	u32 with;

	smp_mb();	/* pairs with braid_buffers_freeze_as() */
	with = atomic_read(&joined);
	if (with & BRAID_BUFFER_COUNTED)
		atomic_or(BRAID_BUFFER_COUNTED, &buffer->disabled);
	if (with & BRAID_BUFFER_FROZEN)
		braid_switch_freeze(buffer);
}

struct braid_buffer *braid_buffer_make(const struct braid_buffer_shape *shape)
{
	struct braid_buffer *buffer = NULL;

	if (!braid_buffer_name_is_valid(shape->name))
		return ERR_PTR(-EINVAL);
	while ((buffer = braid_buffer_next(buffer)))
		if (!strcmp(buffer->name, shape->name))
			return ERR_PTR(-EEXIST);
	buffer = kzalloc(struct_size(buffer, cpus, nr_cpu_ids), GFP_KERNEL);
	if (!buffer)
		return ERR_PTR(-ENOMEM);
	braid_lock_init(&buffer->lock);
	strscpy(buffer->name, shape->name, sizeof(buffer->name));
	buffer->nr_cpus = nr_cpu_ids;
	buffer->flags = shape->flags;
	buffer->subbuf_bytes = shape->subbuf_bytes;
	buffer->nr_slots = shape->nr_slots;
	buffer->max_bytes = shape->max_bytes;
	buffer->events_of = shape->events_of ?: buffer;
	if (shape->events_of)
		shape->events_of->nr_backups++;
	list_add_tail_rcu(&buffer->list, &buffers);
	braid_buffer_join(buffer);
	return buffer;
}

void braid_buffer_destroy(struct braid_buffer *buffer)
{
	list_del_rcu(&buffer->list);
	braid_synchronize_writers();	/* braid_buffers_freeze() may have found it */
	if (buffer->events_of != buffer)
		buffer->events_of->nr_backups--;
	braid_reader_free(buffer);
	kfree(buffer);
}

/* Writers --------------------------------------------------------------------------- */

void braid_buffer_open_close(struct braid_buffer *buffer)
{
	bool shut = false;
	u32 cpu;

	for (cpu = 0; cpu < buffer->nr_cpus; cpu++) {
		struct braid_cpu_ring *ring = &buffer->cpus[cpu];
		struct braid_writer *w = braid_buffer_writer(buffer, cpu);

		if (!w && ring->open)
			shut = true;
		/* The writer's preparation becomes visible first. */
		smp_store_release(&ring->open, w);
	}
	if (shut)
		braid_synchronize_writers();
}

void braid_buffer_shut(struct braid_buffer *buffer, int cpu)
{
	u32 k;

	for (k = 0; k < buffer->nr_cpus; k++)
		if (cpu < 0 || k == cpu)
			WRITE_ONCE(buffer->cpus[k].open, NULL);
	braid_synchronize_writers();
}

static void braid_buffer_free_writers(struct braid_buffer *buffer)
{
	u32 cpu;

	for (cpu = 0; cpu < buffer->nr_cpus; cpu++) {
		vfree(buffer->cpus[cpu].writer);
		buffer->cpus[cpu].writer = NULL;
	}
}

static int braid_buffer_alloc_writers(struct braid_buffer *buffer, u32 nr_slots)
{
	u32 cpu;

	for (cpu = 0; cpu < buffer->nr_cpus; cpu++) {
		int node = cpu_possible(cpu) ? cpu_to_node(cpu) : NUMA_NO_NODE;
		struct braid_writer *w = vzalloc_node(braid_writer_bytes(nr_slots), node);

		buffer->cpus[cpu].writer = w;
		if (!w) {
			braid_buffer_free_writers(buffer);
			return -ENOMEM;
		}
	}
	return 0;
}

/* Freezing -------------------------------------------------------------------------- */

static atomic64_t left;		/* records until all rings are frozen */
static atomic_t frozen;

static notrace void braid_buffers_freeze_as(u32 how)
{
	atomic_set(&joined, how);
	smp_mb();	/* pairs with braid_buffer_join() */
}

/* Writers have preemption off, for which braid_buffer_destroy() waits. */
static notrace void braid_buffers_freeze_all(void)
{
	struct braid_buffer *buffer;

	braid_buffers_freeze_as(BRAID_BUFFER_FROZEN);
	list_for_each_entry_rcu(buffer, &buffers, list, true)
		braid_switch_freeze(buffer);
	atomic_set_release(&frozen, 1);
}

notrace void braid_buffers_freeze(u64 after)
{
	struct braid_buffer *buffer;

	if (!after) {
		braid_buffers_freeze_all();
		return;
	}
	atomic64_set(&left, min_t(u64, after, S64_MAX));
	braid_buffers_freeze_as(BRAID_BUFFER_COUNTED);	/* after it, whose switch writers find */
	list_for_each_entry_rcu(buffer, &buffers, list, true)
		atomic_or(BRAID_BUFFER_COUNTED, &buffer->disabled);
}

/* The last of the counted records is still written. */
notrace struct braid_writer *braid_buffer_counted_writer(const struct braid_buffer *buffer)
{
	const struct braid_cpu_ring *ring = &buffer->cpus[raw_smp_processor_id()];
	struct braid_writer *w = READ_ONCE(ring->open);
	s64 more;

	if ((atomic_read(&buffer->disabled) | atomic_read(&ring->disabled)) !=
	    BRAID_BUFFER_COUNTED || !w)
		return NULL;
	more = atomic64_dec_return(&left);
	if (!more)
		braid_buffers_freeze_all();
	return more >= 0 ? w : NULL;
}

bool braid_buffers_are_frozen(void)
{
	return atomic_read_acquire(&frozen);
}

void braid_buffers_thaw(void)
{
	struct braid_buffer *buffer;

	braid_buffers_lock();
	list_for_each_entry(buffer, &buffers, list)
		braid_switch_thaw(buffer);
	braid_synchronize_writers();	/* the last counted record freezes */
	list_for_each_entry(buffer, &buffers, list)
		braid_switch_thaw(buffer);
	atomic_set(&joined, 0);
	atomic_set(&frozen, 0);
	braid_buffers_unlock();
}

/* Rings ------------------------------------------------------------------------------- */

void braid_buffer_count_anew(struct braid_buffer *buffer, int cpu,
			     const struct braid_ring_past *past)
{
	u64 incarnation = buffer->region->layout.incarnation;
	struct braid_ring_base *base = &buffer->cpus[cpu].base;

	*base = (struct braid_ring_base){ .incarnation = incarnation };
	if (!past)
		return;
	if (past->block.incarnation == incarnation)
		base->read = past->block.read;
	base->lost = past->next_seq - buffer->cpus[cpu].writer->first_seq - base->read;
	base->dropped = past->dropped;
}

static bool braid_buffer_has_home_ring(const struct braid_buffer *buffer,
				       const struct braid_writer *w)
{
	const struct braid_buffer_desc *desc = &buffer->region->layout.buffers[buffer->index];
	u64 offset = (void *)w->map.meta - buffer->region->range.base;

	return !w->map.meta || offset - desc->rings_offset < desc->ring_stride * desc->nr_rings;
}

bool braid_buffer_publish_off(struct braid_buffer *buffer, u32 cpu, bool again)
{
	struct braid_writer *w = braid_buffer_writer(buffer, cpu);

	/* A swapped ring is the other buffer's for the host. */
	if (!w || !braid_buffer_has_home_ring(buffer, w))
		return atomic_read(&buffer->cpus[cpu].off.switches) > 0;
	return braid_switch_publish(&buffer->cpus[cpu].off, w->map.priv, again);
}

void braid_buffers_publish_off(void)
{
	static u32 published;	/* under buffers_lock */
	static bool again;
	u32 changes = braid_switch_changes(), cpu;
	struct braid_buffer *buffer = NULL;

	/* Those who may not wait for the lock need not find it taken. */
	if (changes == READ_ONCE(published) && !READ_ONCE(again))
		return;
	if (!braid_lock_try(&buffers_lock))
		return;
	WRITE_ONCE(published, changes);
	WRITE_ONCE(again, false);
	while ((buffer = braid_buffer_next(buffer))) {
		if (!braid_lock_try(&buffer->lock)) {
			WRITE_ONCE(again, true);
			continue;
		}
		for (cpu = 0; cpu < buffer->nr_cpus; cpu++)
			if (braid_buffer_publish_off(buffer, cpu, false))
				WRITE_ONCE(again, true);
		braid_unlock(&buffer->lock);
	}
	braid_unlock(&buffers_lock);
}

static void braid_buffer_start_ring(struct braid_buffer *buffer, u32 cpu)
{
	struct braid_guest_region *region = buffer->region;
	const struct braid_buffer_desc *desc = &region->layout.buffers[buffer->index];
	struct braid_ring_past *past = region->past[buffer->index];
	struct braid_ring_identity who = {
		.incarnation = region->layout.incarnation,
		.vcpu = cpu,
		.buffer = buffer->index,
		/* A reader block of the former incarnation must not match by chance. */
		.first_position = get_random_u64() & BRAID_POS_MASK,
		.counter = braid_counter(),
		.past = past ? &past[cpu] : NULL,
		.external = &region->external,
		.wake = braid_region_wake(region),
	};
	struct braid_ring_map map;

	braid_region_ring(desc, region->range.base, cpu, &map);
	braid_writer_init(buffer->cpus[cpu].writer, &map, &who);
	/* A buffer that was resized goes on counting. */
	if (buffer->cpus[cpu].base.incarnation != who.incarnation)
		braid_buffer_count_anew(buffer, cpu, who.past);
	braid_buffer_publish_off(buffer, cpu, true);
}

static void braid_buffer_start(struct braid_buffer *buffer)
{
	u32 cpu;

	braid_lock(&buffer->lock);
	for (cpu = 0; cpu < buffer->nr_cpus; cpu++)
		braid_buffer_start_ring(buffer, cpu);
	braid_buffer_open_close(buffer);
	braid_unlock(&buffer->lock);
}

void braid_buffers_start(struct braid_guest_region *region)
{
	struct braid_buffer *buffer = NULL;

	while ((buffer = braid_buffer_next(buffer)))
		if (buffer->region == region)
			braid_buffer_start(buffer);
}

static void braid_buffer_report_size(const struct braid_buffer *buffer,
				     const struct braid_guest_region *region, int err, u64 needed)
{
	if (err == -ENOSPC)
		pr_err("%s: no room for buffer %s: it needs %llu KiB of shared memory; there are %llu KiB, of which %llu KiB are free and contiguous\n",
		       region->range.name, buffer->name, needed >> 10,
		       region->range.bytes >> 10, braid_region_largest_gap(&region->layout) >> 10);
	else if (err == -ENFILE)
		pr_err("%s: no room for buffer %s: all %u buffer names are used; reload the driver\n",
		       region->range.name, buffer->name, BRAID_MAX_BUFFERS);
	else if (err == -EINVAL)
		pr_err("%s: buffer %s: subbuf_size must be a multiple of 8 from %u to %u, with %u to %u sub-buffers in a ring\n",
		       region->range.name, buffer->name, BRAID_MIN_SUBBUF_BYTES,
		       BRAID_MAX_SUBBUF_BYTES, BRAID_MIN_SLOTS, BRAID_MAX_SLOTS);
}

int braid_buffer_place(struct braid_buffer *buffer, struct braid_guest_region *region)
{
	const struct braid_buffer_params params = {
		.name = buffer->name,
		.flags = buffer->flags,
		.subbuf_bytes = buffer->subbuf_bytes,
		.page_bytes = PAGE_SIZE,
		.nr_slots = buffer->nr_slots,
		.max_bytes = buffer->max_bytes,
		.events_of = buffer->events_of == buffer ? NULL : buffer->events_of->name,
	};
	u64 needed = 0;
	int index, err;

	lockdep_assert_held(&buffers_lock.mutex);
	index = braid_region_add_buffer(&region->layout, &params, &needed);
	if (index < 0) {
		braid_buffer_report_size(buffer, region, index, needed);
		return index;
	}
	braid_lock(&buffer->lock);
	err = braid_buffer_alloc_writers(buffer, region->layout.buffers[index].nr_slots);
	if (!err) {
		buffer->index = index;
		buffer->region = region;
	}
	braid_unlock(&buffer->lock);
	if (err) {
		braid_region_remove_buffer(&region->layout, index);
		return err;
	}
	if (braid_region_is_live(region)) {
		braid_buffer_start(buffer);
		braid_region_publish_buffers(region);
	}
	return 0;
}

bool braid_buffer_is_swapped(const struct braid_buffer *buffer)
{
	u32 cpu;

	for (cpu = 0; buffer->region && cpu < buffer->nr_cpus; cpu++)
		if (!braid_buffer_has_home_ring(buffer, buffer->cpus[cpu].writer))
			return true;
	return false;
}

/* The buffer that holds @buffer's ring of a CPU: itself, or the one it was swapped to. */
static struct braid_buffer *braid_buffer_holder_of(struct braid_buffer *buffer, u32 cpu)
{
	struct braid_buffer *other = NULL;

	if (!braid_buffer_has_home_ring(buffer, buffer->cpus[cpu].writer))
		while ((other = braid_buffer_next(other)))
			if (other != buffer && other->region == buffer->region &&
			    braid_buffer_has_home_ring(buffer, other->cpus[cpu].writer))
				return other;
	return buffer;
}

/* Takes a swapped ring back from the buffer that holds it; this buffer's ring is shut. */
static void braid_buffer_swap_back(struct braid_buffer *buffer, u32 cpu)
{
	struct braid_buffer *other = braid_buffer_holder_of(buffer, cpu);

	if (other == buffer)
		return;
	braid_lock_nested(&other->lock, SINGLE_DEPTH_NESTING);
	braid_reader_forget(other, cpu);
	braid_buffer_shut(other, cpu);
	braid_buffer_exchange(buffer, other, cpu);
	braid_buffer_open_close(other);
	braid_unlock(&other->lock);
}

void braid_buffer_exchange(struct braid_buffer *a, struct braid_buffer *b, int cpu)
{
	struct braid_writer *wa = a->cpus[cpu].writer, *wb = b->cpus[cpu].writer;

	a->cpus[cpu].writer = wb;
	b->cpus[cpu].writer = wa;
	swap(a->cpus[cpu].base, b->cpus[cpu].base);
	braid_store(&wa->map.priv->buffer, b->index);
	braid_store(&wb->map.priv->buffer, a->index);
}

static void braid_buffer_note_past(struct braid_buffer *buffer)
{
	struct braid_guest_region *region = buffer->region;
	struct braid_ring_past *past = region->past[buffer->index];
	u32 cpu;

	if (!past)
		past = kvcalloc(buffer->nr_cpus, sizeof(*past), GFP_KERNEL | __GFP_NOFAIL);
	for (cpu = 0; cpu < buffer->nr_cpus; cpu++)
		braid_writer_past(buffer->cpus[cpu].writer, &past[cpu]);
	region->past[buffer->index] = past;
}

/* Announces to the host that the rings will be released, and lets it drain them. */
static void braid_buffer_close_rings(struct braid_buffer *buffer)
{
	struct braid_guest_region *region = buffer->region;

	region->layout.buffers[buffer->index].flags |= BRAID_BUFFER_CLOSING;
	braid_region_publish_buffers(region);
	braid_region_await_agent(region);
	braid_buffer_note_past(buffer);
}

int braid_buffer_displace(struct braid_buffer *buffer, enum braid_displace why)
{
	struct braid_guest_region *region = buffer->region;
	bool reuse;
	u32 cpu;

	lockdep_assert_held(&buffers_lock.mutex);
	if (!region)
		return 0;
	braid_lock(&buffer->lock);
	if (why == BRAID_DISPLACE_RESHAPE && braid_reader_busy(buffer, -1)) {
		braid_unlock(&buffer->lock);
		return -EBUSY;
	}
	braid_buffer_shut(buffer, -1);
	for (cpu = 0; cpu < buffer->nr_cpus; cpu++) {
		braid_reader_forget(buffer, cpu);
		braid_buffer_swap_back(buffer, cpu);
		braid_buffer_publish_off(buffer, cpu, false);
	}
	reuse = why != BRAID_DISPLACE_REGION && braid_region_is_live(region);
	if (reuse)
		braid_buffer_close_rings(buffer);
	braid_buffer_free_writers(buffer);
	buffer->region = NULL;
	braid_unlock(&buffer->lock);
	braid_region_remove_buffer(&region->layout, buffer->index);
	if (reuse)
		braid_region_publish_buffers(region);
	return 0;
}

static struct braid_buffer *trace_buffer;

struct braid_buffer *braid_trace_buffer(void)
{
	return trace_buffer;
}

void braid_set_trace_buffer(struct braid_buffer *buffer)
{
	trace_buffer = buffer;
}
