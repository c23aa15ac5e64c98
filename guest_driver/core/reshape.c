// SPDX-License-Identifier: GPL-2.0
/* Changes the rings of a buffer that is in use: resize, reset, swap. Source: "unified trace buffer". */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/err.h>
#include <linux/export.h>

#include "guest_driver/core/buffer.h"
#include "guest_driver/core/reader.h"
#include "shared/asked.h"
#include "tracebraid/event.h"

/* The buffer has no rings and is disabled until the driver attaches to shared memory again. */
static void braid_reshape_give_up(struct braid_buffer *buffer,
				  const struct braid_guest_region *region)
{
	braid_buffer_set_on(buffer, false);
	pr_err("%s: buffer %s has lost its rings: neither the requested layout nor the former one fits; free and reallocate the buffer, or reload the driver\n",
	       region->range.name, buffer->name);
}

/* Must hold braid_buffers_lock(), with recording off. */
static int braid_reshape_rings(struct braid_buffer *buffer, const struct braid_reshape_to *to)
{
	u32 old_slots = buffer->nr_slots, old_flags = buffer->flags;
	u32 old_bytes = buffer->subbuf_bytes;
	struct braid_guest_region *region = buffer->region;
	int err;

	err = braid_buffer_displace(buffer, BRAID_DISPLACE_RESHAPE);
	if (err)
		return err;
	buffer->nr_slots = to->nr_slots ?: old_slots;
	buffer->subbuf_bytes = to->subbuf_bytes ?: old_bytes;
	buffer->flags = (old_flags & ~to->clear) | to->set;
	if (!region)
		return 0;
	err = braid_buffer_place(buffer, region);
	if (err) {
		buffer->nr_slots = old_slots;
		buffer->subbuf_bytes = old_bytes;
		buffer->flags = old_flags;
		/* Its former space is free, but there may be no memory for the writers. */
		if (braid_buffer_place(buffer, region))
			braid_reshape_give_up(buffer, region);
	}
	return err;
}

static int braid_reshape_locked(struct braid_buffer *buffer, const struct braid_reshape_to *to)
{
	int err;

	if (!to->nr_slots && !to->subbuf_bytes &&
	    ((buffer->flags & ~to->clear) | to->set) == buffer->flags)
		return 0;
	if (braid_buffer_is_swapped(buffer))
		return -EBUSY;
	/* Without rings nothing is recorded: that counts as time off. */
	braid_buffer_record_disable(buffer);
	err = braid_reshape_rings(buffer, to);
	braid_buffer_record_enable(buffer);
	return err;
}

int braid_buffer_reshape(struct braid_buffer *buffer, u32 nr_slots, u32 set, u32 clear)
{
	const struct braid_reshape_to to = { .nr_slots = nr_slots, .set = set, .clear = clear };
	int err;

	braid_buffers_lock();
	err = braid_reshape_locked(buffer, &to);
	braid_buffers_unlock();
	return err;
}

/* Must hold braid_buffers_lock(). */
static int braid_reshape_as_asked(struct braid_buffer *buffer, const struct braid_reshape *shape)
{
	const struct braid_buffer_desc *desc = &buffer->region->layout.buffers[buffer->index];
	struct braid_reshape_to to;
	int err = braid_reshape_check(shape, desc->nr_slots, desc->subbuf_bytes, &to);

	return err ?: braid_reshape_locked(buffer, &to);
}

int braid_buffer_reshape_at(u64 index, const struct braid_reshape *shape)
{
	struct braid_buffer *buffer = NULL;
	int err = -EINVAL;

	braid_buffers_lock();
	while ((buffer = braid_buffer_next(buffer)))
		if (buffer->region && buffer->index == index)
			break;
	if (buffer)
		err = braid_reshape_as_asked(buffer, shape);
	braid_buffers_unlock();
	return err;
}

int braid_buffer_resize(struct braid_buffer *buffer, u64 size)
{
	u32 nr_slots = braid_slots_of(size, buffer->subbuf_bytes);

	return nr_slots ? braid_buffer_reshape(buffer, nr_slots, 0, 0) : -EINVAL;
}
EXPORT_SYMBOL_GPL(braid_buffer_resize);

u64 braid_buffer_size(const struct braid_buffer *buffer)
{
	const struct braid_guest_region *region = READ_ONCE(buffer->region);
	const struct braid_buffer_desc *desc;

	if (!region)
		return 0;
	desc = &region->layout.buffers[buffer->index];
	return (u64)desc->nr_slots * desc->subbuf_bytes;
}
EXPORT_SYMBOL_GPL(braid_buffer_size);

/*
 * Takes the reader role for a short time, to keep readers out of the change. Must hold
 * buffer->lock.
 */
static bool braid_reshape_own_ring(struct braid_buffer *buffer, int cpu)
{
	u64 dead = braid_region_agent_alive(buffer->region) ? BRAID_READER_NONE :
							      BRAID_READER_HOST;

	return !braid_reader_busy(buffer, cpu) &&
	       braid_reader_own(&buffer->cpus[cpu].writer->map, BRAID_READER_GUEST, dead);
}

static void braid_reshape_disown_ring(struct braid_buffer *buffer, int cpu)
{
	braid_reader_disown(&buffer->cpus[cpu].writer->map, BRAID_READER_GUEST);
}

/* Must hold buffer->lock, and own the ring. */
static void braid_reshape_reset_ring(struct braid_buffer *buffer, int cpu)
{
	struct braid_writer *w = buffer->cpus[cpu].writer;
	struct braid_ring_map map = w->map;
	struct braid_ring_past past;
	const struct braid_ring_identity who = {
		.incarnation = buffer->region->layout.incarnation,
		.vcpu = cpu,
		.buffer = buffer->index,
		.first_seq = w->first_seq,
		.counter = braid_counter(),
		.owner = BRAID_READER_GUEST,
		.past = &past,
		.external = w->external,
		.wake = w->wake,
	};

	braid_buffer_record_disable_cpu(buffer, cpu);
	braid_buffer_shut(buffer, cpu);
	braid_reader_forget(buffer, cpu);
	braid_writer_past(w, &past);
	braid_writer_init(w, &map, &who);
	braid_buffer_count_anew(buffer, cpu, &past);
	braid_buffer_publish_off(buffer, cpu, true);
	braid_buffer_open_close(buffer);
	braid_buffer_record_enable_cpu(buffer, cpu);
}

int braid_buffer_reset_cpu(struct braid_buffer *buffer, int cpu)
{
	int err = 0;

	if (cpu < 0 || cpu >= buffer->nr_cpus)
		return -EINVAL;
	braid_lock(&buffer->lock);
	if (!braid_buffer_writer(buffer, cpu)) {
		err = -ENODEV;
	} else if (!braid_reshape_own_ring(buffer, cpu)) {
		err = -EBUSY;
	} else {
		braid_reshape_reset_ring(buffer, cpu);
		braid_reshape_disown_ring(buffer, cpu);
	}
	braid_unlock(&buffer->lock);
	return err;
}
EXPORT_SYMBOL_GPL(braid_buffer_reset_cpu);

int braid_buffer_reset(struct braid_buffer *buffer)
{
	int cpu, err, first = 0;

	for (cpu = 0; cpu < buffer->nr_cpus; cpu++) {
		err = braid_buffer_reset_cpu(buffer, cpu);
		if (err && !first)
			first = err;
	}
	return first;
}
EXPORT_SYMBOL_GPL(braid_buffer_reset);

static bool braid_swap_same_shape(const struct braid_buffer *a, const struct braid_buffer *b,
				  int cpu)
{
	const struct braid_ring_map *ma = &a->cpus[cpu].writer->map;
	const struct braid_ring_map *mb = &b->cpus[cpu].writer->map;

	return ma->nr_slots == mb->nr_slots && ma->subbuf_bytes == mb->subbuf_bytes &&
	       ma->flags == mb->flags;
}

/* Whether this CPU was interrupted while it recorded in its ring. */
static bool braid_swap_is_recording(const struct braid_buffer *buffer, int cpu)
{
	const struct braid_cpu_ring *ring = &buffer->cpus[cpu];

	return READ_ONCE(ring->inside) || READ_ONCE(ring->writer->nest);
}

/*
 * The writers of both rings belong to this CPU and are not active. One interrupted before its first
 * step continues in the ring it had looked up: its event is then in the other buffer.
 */
static int braid_swap_at_once(struct braid_buffer *a, struct braid_buffer *b, int cpu)
{
	if (!braid_buffer_writer(a, cpu) || !braid_buffer_writer(b, cpu))
		return -ENODEV;
	if (!braid_swap_same_shape(a, b, cpu))
		return -EINVAL;
	if (cpu != raw_smp_processor_id() || braid_swap_is_recording(a, cpu) ||
	    braid_swap_is_recording(b, cpu) || !braid_reshape_own_ring(a, cpu))
		return -EBUSY;
	if (!braid_reshape_own_ring(b, cpu)) {
		braid_reshape_disown_ring(a, cpu);
		return -EBUSY;
	}
	braid_reader_moved(a, cpu);
	braid_reader_moved(b, cpu);
	braid_buffer_exchange(a, b, cpu);
	WRITE_ONCE(a->cpus[cpu].open, a->cpus[cpu].writer);
	WRITE_ONCE(b->cpus[cpu].open, b->cpus[cpu].writer);
	braid_reshape_disown_ring(a, cpu);
	braid_reshape_disown_ring(b, cpu);
	return 0;
}

int braid_buffer_swap_cpu(struct braid_buffer *a, struct braid_buffer *b, int cpu)
{
	bool raw = a->flags & b->flags & BRAID_BUFFER_RAW;
	unsigned long flags;
	int err = -EBUSY;

	if (a == b || cpu < 0 || cpu >= a->nr_cpus || (!raw && a->events_of != b->events_of))
		return -EINVAL;
	local_irq_save(flags);
	if (!braid_buffers_lock_any())	/* no other context takes two buffers' locks meanwhile */
		goto out;
	if (braid_lock_try_any(&a->lock)) {
		if (braid_lock_try_any(&b->lock)) {
			err = braid_swap_at_once(a, b, cpu);
			braid_lock_end_any(&b->lock);
		}
		braid_lock_end_any(&a->lock);
	}
	braid_buffers_unlock_any();
out:
	local_irq_restore(flags);
	return err;
}
EXPORT_SYMBOL_GPL(braid_buffer_swap_cpu);
