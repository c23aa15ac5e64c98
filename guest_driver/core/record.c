// SPDX-License-Identifier: GPL-2.0
/* The writing side of "unified trace buffer" for other modules: raw payloads, stamps. */
#include <linux/export.h>
#include <linux/preempt.h>

#include "guest_driver/core/buffer.h"
#include "shared/clock.h"
#include "tracebraid/event.h"

struct braid_ring_event {
	u32 head;
	u32 array[];
};

static bool braid_record_is_small(const struct braid_ring_event *event)
{
	return event->head >> BRAID_EVENT_LEN_SHIFT & 7;
}

/* A size that exceeds any sub-buffer is dropped and counted, but must not wrap. */
static u32 braid_record_bounded(u32 length)
{
	return min(length, BRAID_MAX_SUBBUF_BYTES);
}

/* This CPU's ring stays in place from the lookup of its writer to the commit. */
static __always_inline struct braid_cpu_ring *braid_record_enter(struct braid_buffer *buffer)
{
	struct braid_cpu_ring *ring;

	preempt_disable_notrace();
	ring = &buffer->cpus[raw_smp_processor_id()];
	WRITE_ONCE(ring->inside, ring->inside + 1);
	barrier();
	return ring;
}

static __always_inline void braid_record_leave(struct braid_cpu_ring *ring)
{
	barrier();
	WRITE_ONCE(ring->inside, ring->inside - 1);
	preempt_enable_notrace();
}

/* The slow path, apart: a tail call needs no stack. */
static noinline struct braid_reservation
braid_record_reserve_slow(struct braid_cpu_ring *ring, u32 length, u64 tail, u64 hint, u64 now)
{
	struct braid_reserved reserved =
		braid_writer_reserve(ring->writer, length, braid_counter, tail, hint, now);

	if (!reserved.payload)
		braid_record_leave(ring);
	return (struct braid_reservation){ reserved.payload, reserved.token };
}

static noinline struct braid_reservation braid_record_refuse(struct braid_cpu_ring *ring)
{
	braid_record_leave(ring);
	return (struct braid_reservation){ };
}

static noinline void braid_record_publish_slow(struct braid_cpu_ring *ring)
{
	braid_writer_publish(ring->writer);
	braid_record_leave(ring);
}

struct braid_reservation braid_buffer_reserve(struct braid_buffer *buffer, u32 length)
{
	struct braid_cpu_ring *ring = braid_record_enter(buffer);
	struct braid_writer *w = braid_buffer_open_writer(buffer);
	struct braid_turn turn;
	struct braid_reserved reserved;

	if (unlikely(!w || !(buffer->flags & BRAID_BUFFER_RAW)))
		return braid_record_refuse(ring);
	length = braid_record_bounded(length);
	if (unlikely(!braid_ring_try_reserve(w, length, braid_counter, &turn, &reserved)))
		return braid_record_reserve_slow(ring, length, turn.tail, turn.hint, turn.now);
	return (struct braid_reservation){ reserved.payload, reserved.token };
}
EXPORT_SYMBOL_GPL(braid_buffer_reserve);

void braid_buffer_commit(struct braid_buffer *buffer, struct braid_reservation res)
{
	/* Not .open: it may have been shut since. */
	struct braid_cpu_ring *ring = &buffer->cpus[raw_smp_processor_id()];

	if (unlikely(!braid_ring_try_commit(ring->writer, res.token)))
		braid_record_publish_slow(ring);
	else
		braid_record_leave(ring);
}
EXPORT_SYMBOL_GPL(braid_buffer_commit);

int braid_buffer_write(struct braid_buffer *buffer, u32 length, const void *data)
{
	struct braid_writer *w;
	void *payload = NULL;
	int err = -EAGAIN;
	u64 token;

	if (!(buffer->flags & BRAID_BUFFER_RAW))
		return -EINVAL;
	preempt_disable_notrace();
	w = braid_buffer_open_writer(buffer);
	if (likely(w)) {
		err = -ENOSPC;
		payload = braid_ring_reserve(w, braid_record_bounded(length), braid_counter,
					     &token);
	}
	if (likely(payload)) {
		err = 0;
		memcpy(payload, data, length);
		braid_ring_commit(w, token);
	}
	preempt_enable_notrace();
	return err;
}
EXPORT_SYMBOL_GPL(braid_buffer_write);

u32 braid_ring_event_length(const struct braid_ring_event *event)
{
	return braid_record_is_small(event) ? 4 + 4 * (event->head >> BRAID_EVENT_LEN_SHIFT & 7) :
					      8 + event->array[0];
}
EXPORT_SYMBOL_GPL(braid_ring_event_length);

u32 braid_ring_event_time_delta(const struct braid_ring_event *event)
{
	return event->head >> BRAID_EVENT_DELTA_SHIFT;
}
EXPORT_SYMBOL_GPL(braid_ring_event_time_delta);

void *braid_ring_event_data(struct braid_ring_event *event)
{
	return braid_record_is_small(event) ? event->array : event->array + 1;
}
EXPORT_SYMBOL_GPL(braid_ring_event_data);

/* Stamps ---------------------------------------------------------------------------------- */

u64 braid_buffer_time_stamp(struct braid_buffer *buffer, int cpu)
{
	return braid_counter();
}
EXPORT_SYMBOL_GPL(braid_buffer_time_stamp);

void braid_buffer_normalize_time_stamp(struct braid_buffer *buffer, int cpu, u64 *stamp)
{
	const struct braid_clock_map map = {
		.mult = braid_clock_nominal_mult(braid_counter_hz()),
	};

	*stamp = braid_clock_to_ns(&map, *stamp);
}
EXPORT_SYMBOL_GPL(braid_buffer_normalize_time_stamp);
