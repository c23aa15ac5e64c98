/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The on-page codec: encodes one event, decodes a sub-buffer with every bound checked. */
#ifndef BRAID_SHARED_PAGE_H
#define BRAID_SHARED_PAGE_H

#include "shared/platform.h"
#include "tracebraid/abi.h"

/**
 * braid_event_bytes - space that an event takes in a sub-buffer
 * @payload_bytes: 0 to BRAID_MAX_SUBBUF_BYTES
 *
 * Payload is rounded up to a multiple of 4, at least 4: the smallest event has 8 bytes. 7 bytes of
 * payload give 12, 82 give 92.
 *
 * Return: bytes, header and length word included.
 */
static inline u32 braid_event_bytes(u32 payload_bytes)
{
	u32 padded = (payload_bytes + !payload_bytes + 3) & ~3u;

	return padded + 4 + 4 * (padded > BRAID_MAX_SMALL_BYTES);
}

/**
 * braid_page_put_event - write a DATA event's header
 * @at: where the event begins, 4-byte aligned
 * @event_bytes: what braid_event_bytes() gave
 * @delta: the time_delta field, 27 bits
 *
 * Context: any, NMI included.
 * Return: where the payload begins.
 */
static __always_inline void *braid_page_put_event(u32 *at, u32 event_bytes, u32 delta)
{
	if (likely(event_bytes <= BRAID_MAX_SMALL_BYTES + 4)) {
		at[0] = BRAID_TYPE_DATA | (event_bytes - 4) >> 2 << BRAID_EVENT_LEN_SHIFT |
			delta << BRAID_EVENT_DELTA_SHIFT;
		return at + 1;
	}
	at[0] = BRAID_TYPE_DATA | delta << BRAID_EVENT_DELTA_SHIFT;
	at[1] = event_bytes - 8;
	return at + 2;
}

/**
 * braid_page_put_extent - write a TIME_EXTENT
 * @at: room for BRAID_EXTENT_BYTES, 4-byte aligned
 * @value: a delta or an absolute counter; its low 59 bits are kept
 */
static inline void braid_page_put_extent(u32 *at, u64 value)
{
	at[0] = BRAID_TYPE_TIME_EXTENT | 1u << BRAID_EVENT_LEN_SHIFT |
		(u32)(value & BRAID_DELTA_MASK) << BRAID_EVENT_DELTA_SHIFT;
	at[1] = (u32)(value >> BRAID_DELTA_BITS);
}

/**
 * braid_page_put_stamp - write a TIME_STAMP
 * @at: room for BRAID_STAMP_BYTES, 4-byte aligned
 * @counter: the raw counter
 * @external_ns: the external time at that moment, 0 when unknown
 */
static inline void braid_page_put_stamp(u32 *at, u64 counter, u64 external_ns)
{
	at[0] = BRAID_TYPE_TIME_STAMP | 4u << BRAID_EVENT_LEN_SHIFT |
		(u32)(counter & BRAID_DELTA_MASK) << BRAID_EVENT_DELTA_SHIFT;
	at[1] = (u32)counter;
	at[2] = (u32)(counter >> 32);
	at[3] = (u32)external_ns;
	at[4] = (u32)(external_ns >> 32);
}

/* A walk over one sub-buffer. The bytes must not change under it: walk a copy. */
struct braid_cursor {
	const u8 *data;		/* the sub-buffer's data, 4-byte aligned */
	u32 bytes;		/* committed */
	u32 offset;		/* of the next event */
	u32 absolute;		/* BRAID_BUFFER_ABSOLUTE */
	u64 time;		/* raw counter of the last event */
	u64 events;		/* DATA events delivered */
};

/* What braid_page_next() found. */
struct braid_event_view {
	u32 type;		/* DATA or TIME_STAMP */
	u32 offset;		/* of the event in the data */
	u32 payload_bytes;
	const void *payload;
	u64 time;		/* raw counter */
	u64 external_ns;	/* TIME_STAMP: the paired time, or 0 */
};

/**
 * braid_cursor_init - begin a walk
 * @c: the walk
 * @data: a private copy of the data, 4-byte aligned
 * @bytes: committed bytes, at most what @data holds
 * @time_stamp: the sub-buffer's
 * @flags: the buffer's (BRAID_BUFFER_ABSOLUTE counts)
 */
static inline void braid_cursor_init(struct braid_cursor *c, const void *data, u32 bytes,
				     u64 time_stamp, u32 flags)
{
	c->data = data;
	c->bytes = bytes;
	c->offset = 0;
	c->absolute = flags & BRAID_BUFFER_ABSOLUTE;
	c->time = time_stamp;
	c->events = 0;
}

/**
 * braid_page_next - the next event of a sub-buffer
 * @c: the walk
 * @view: what was found; written on success alone
 *
 * Times accumulate from event to event. TIME_EXTENTs are consumed internally; TIME_STAMPs are
 * returned, because they carry a clock pair.
 *
 * Context: any.
 * Return: 1 with @view filled, 0 at the end, -EBADMSG when the bytes are not valid events (the walk
 * then ends).
 */
int braid_page_next(struct braid_cursor *c, struct braid_event_view *view);

/**
 * braid_page_count - count the remaining DATA events of a walk
 * @c: the walk, afterwards at its end
 *
 * Return: their number, or -EBADMSG.
 */
s64 braid_page_count(struct braid_cursor *c);

#endif /* BRAID_SHARED_PAGE_H */
