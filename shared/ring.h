/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The ring: lockless reserve and commit for one vCPU's nesting contexts, sub-buffer swap for one
 * reader, exact accounting. docs/ring.md gives the correctness argument.
 *
 * Invariants:
 * - A struct braid_writer is private. Contexts of one CPU use it, nested; none waits for another, for reader or host.
 * - One local compare-and-swap takes the space and stores the stamp, so a nested event makes the interrupted
 *   reservation read the counter again: order in a sub-buffer is order in time, and every delta is exact.
 * - What a writer loads from shared memory, slot words and the host's wake words, is checked or clamped before it is
 *   an index. A slot word that no reader writes breaks the ring: from then on events are dropped and counted.
 * - Positions and sequence numbers only grow, and dropped events have numbers: written = read + lost + left.
 * - Only the owner of the reader role swaps sub-buffers and writes its block. A peek or a count changes no ring.
 * - A reader checks each id, length and position that it loads, its loops are bounded, and it never waits. At the
 *   first invalid word it sets fault, and touches the ring no more.
 */
#ifndef BRAID_SHARED_RING_H
#define BRAID_SHARED_RING_H

#include "shared/clock.h"
#include "shared/page.h"
#include "shared/platform.h"
#include "shared/ring_map.h"
#include "tracebraid/abi.h"

/* Writer ------------------------------------------------------------------------------ */

/* The writer's state of the sub-buffer at a position. */
struct braid_writer_page {
	u8 *origin;		/* bias_bytes before its data: a tail's place is counted from here */
	struct braid_subbuf_state *state;
	u32 end_bytes;		/* valid when it is closed */
	u32 entries;
	u64 dropped;		/* grows while a full ring is not read */
};

#define BRAID_WRITER_PAGE_SHIFT	5	/* a page is found in a tail by a shift and a mask */
static_assert(sizeof(struct braid_writer_page) == 1 << BRAID_WRITER_PAGE_SHIFT, "a power of two");

/*
 * How a writer wakes the host; see "Wake" in abi.h. The host writes these words: whatever their values, the worst
 * case is one call per sub-buffer that is opened or found full.
 */
struct braid_wake {
	const struct braid_mailbox *mailbox;	/* shared */
	/* Any context, NMI included; must neither wait nor record. */
	void (*call)(const struct braid_wake *wake);
};

/*
 * The writer's state, one for each ring. tail is position:16 | place:16 | stamp:32. A place is the
 * offset in words plus a bias. The bias puts the place after an event that does not fit at
 * BRAID_PLACE_SLOW and above, so that one bit diverts it to the slow path. The places of a closed
 * tail, and of one before its sub-buffer's first event, have that bit, too.
 */
struct braid_writer {
	u64 tail;
	u64 hint;		/* counter of a recent event, never newer than the last */
	u64 position;		/* all before it is published as final */
	u32 nest;		/* contexts inside | BRAID_NEST_PENDING */
	u32 mask;		/* nr_slots - 1 */
	u32 limit_words;	/* of data in a sub-buffer */
	u32 pages_mask;		/* mask, of bytes in pages[] */
	u32 bias_bytes;		/* of a place: (BRAID_PLACE_SLOW - 1 - limit_words) words */
	u64 gap;		/* counter steps beyond which a time_delta may be ambiguous */
	u32 delta_mask;		/* of the last stamp, which a delta counts from; absolute: 0 */
	u32 broken;		/* enum braid_ring_fault; once set, all is dropped */
	u64 seq_base;		/* sequence number of position's first event */
	u64 first_seq;		/* sequence number of the ring's first event in this incarnation */
	u64 dropped;		/* events dropped before position, in all */
	const struct braid_clock_latch *external;	/* of TIME_STAMPs; or NULL */
	u32 void_line;		/* of external: drawn before the counter jumped back */
	const struct braid_wake *wake;	/* NULL: never wakes the host */
	u64 woken;		/* the last wake_seq that was served */
	struct braid_ring_map map;
	struct braid_writer_page pages[];
};

#define BRAID_TAIL_POS_SHIFT	48
#define BRAID_TAIL_PLACE_SHIFT	32
#define BRAID_PLACE_SLOW	0x8000u		/* a bit: not for the fast path */
#define BRAID_PLACE_CLOSED	0x8000u		/* no context reserves here any more */
#define BRAID_PLACE_FIRST	0x8001u		/* no event yet */
#define BRAID_NEST_PENDING	0x10000u	/* a nested context left events to publish */

static inline u64 braid_tail_word(u64 position, u32 place, u64 stamp)
{
	return position << BRAID_TAIL_POS_SHIFT | (u64)place << BRAID_TAIL_PLACE_SHIFT |
	       (u32)stamp;
}

static inline u32 braid_tail_place(u64 tail)
{
	return tail >> BRAID_TAIL_PLACE_SHIFT & 0xffff;
}

/* The same, in bytes. */
static inline u32 braid_tail_place_bytes(u64 tail)
{
	return tail >> (BRAID_TAIL_PLACE_SHIFT - 2) & 0xffff << 2;
}

/* Words of data before the tail; more than limit_words: it is closed. */
static inline u32 braid_tail_offset(const struct braid_writer *w, u64 tail)
{
	u32 place = braid_tail_place(tail);

	return place == BRAID_PLACE_FIRST ? 0 : place - w->bias_bytes / 4;
}

/**
 * braid_writer_bytes - size of a struct braid_writer
 * @nr_slots: of its ring
 */
static inline size_t braid_writer_bytes(u32 nr_slots)
{
	return sizeof(struct braid_writer) + nr_slots * sizeof(struct braid_writer_page);
}

/* Final counts of a ring whose memory was released or emptied. */
struct braid_ring_past {
	u64 next_position;
	u64 next_seq;
	u64 dropped;
	u64 woken;
	u32 void_line;
	struct braid_reader_block block;	/* its last reader's block */
};

/* Identity of a ring, for braid_writer_init(). */
struct braid_ring_identity {
	u64 incarnation;
	u32 vcpu;
	u32 buffer;
	u64 first_position;	/* any; differs from one incarnation to the next */
	u64 first_seq;		/* any */
	u64 counter;		/* now */
	u64 owner;		/* BRAID_READER_GUEST: the current owner is emptying it */
	const struct braid_ring_past *past;	/* continue after it; NULL: a new ring */
	/* Converts counter values to external time, valid while the ring is written; or NULL. */
	const struct braid_clock_latch *external;
	const struct braid_wake *wake;	/* likewise */
};

/**
 * braid_writer_init - lay out an empty ring and begin to write it
 * @w: braid_writer_bytes() of private memory
 * @map: the ring
 * @who: its identity
 *
 * Context: any; no other user of the ring during the call.
 */
void braid_writer_init(struct braid_writer *w, const struct braid_ring_map *map,
		       const struct braid_ring_identity *who);

/**
 * braid_writer_past - save a ring's final counts
 * @w: its writer; no context is inside
 * @past: filled, for the braid_writer_init() that recreates the ring: unread events then count as
 *	lost, and no position or sequence number is reused
 */
void braid_writer_past(const struct braid_writer *w, struct braid_ring_past *past);

/**
 * braid_writer_written - events offered up to now, dropped ones included
 * @w: its writer
 *
 * Return: their number since the ring's first; exact when no context is inside.
 */
u64 braid_writer_written(const struct braid_writer *w);

/* How reserve must encode a stamp that does not fit time_delta. */
struct braid_stamp_plan {
	u64 now;
	u32 delta;
	u32 extra_bytes;	/* 0, BRAID_EXTENT_BYTES or BRAID_STAMP_BYTES */
	u64 external_ns;	/* of a TIME_STAMP; 0: unknown */
	bool jumped;		/* the counter went back: only a new sub-buffer may take the event */
};

/* What a reservation had read when it left the fast path. */
struct braid_turn {
	u64 tail;
	u64 hint;
	u64 now;
};

/* Room for one event. */
struct braid_reserved {
	void *payload;		/* NULL: none, it was dropped and counted */
	u64 token;		/* for braid_ring_commit() */
};

static inline struct braid_writer_page *braid_writer_page_of(struct braid_writer *w, u64 tail)
{
	return (void *)((u8 *)w->pages +
			(tail >> (BRAID_TAIL_POS_SHIFT - BRAID_WRITER_PAGE_SHIFT) & w->pages_mask));
}

/* The slow paths, in ring_writer.c. */
struct braid_reserved braid_writer_reserve(struct braid_writer *w, u32 payload_bytes,
					   u64 (*counter)(void), u64 tail, u64 hint, u64 now);
struct braid_stamp_plan braid_writer_plan_stamp(const struct braid_writer *w, u64 tail, u64 hint,
						u64 now);
bool braid_writer_advance(struct braid_writer *w, u64 tail);
void braid_writer_drop(struct braid_writer *w, u64 tail);
void braid_writer_publish(struct braid_writer *w);
u32 *braid_writer_put_stamp(const struct braid_writer *w, u32 *at, struct braid_stamp_plan plan);

/**
 * braid_ring_try_reserve - the fast path of braid_ring_reserve()
 * @w: as there; its nest is incremented, whatever the result
 * @payload_bytes: as there
 * @counter: as there
 * @turn: what was read, for braid_writer_reserve()
 * @reserved: written on success
 *
 * Context: as there. Return: true: reserved; false: continue with braid_writer_reserve().
 */
static __always_inline bool braid_ring_try_reserve(struct braid_writer *w, u32 payload_bytes,
						   u64 (*counter)(void), struct braid_turn *turn,
						   struct braid_reserved *reserved)
{
	u32 words = braid_event_bytes(payload_bytes) / 4, place, delta;
	struct braid_writer_page *page;
	u64 tail, hint, now, next;
	u32 *at;

	braid_local_inc(&w->nest);
	tail = braid_load(&w->tail);
	hint = braid_load(&w->hint);
	braid_barrier();
	now = counter();
	*turn = (struct braid_turn){ tail, hint, now };
	place = (tail >> BRAID_TAIL_PLACE_SHIFT) + words;	/* and the position, above */
	delta = (u32)now - (u32)tail;
	/*
	 * A stamp that time_delta can't express. The hint is not newer than the last event: a
	 * counter close to the hint is even closer to that event.
	 */
	if (unlikely(((now - hint) | delta) > BRAID_DELTA_MASK))
		return false;
	if (unlikely(place & BRAID_PLACE_SLOW))	/* no room, or the sub-buffer's first event */
		return false;
	next = (u64)place << BRAID_TAIL_PLACE_SHIFT | (u32)now;
	if (unlikely(!braid_local_cas(&w->tail, tail, next)))
		return false;

	page = braid_writer_page_of(w, tail);
	at = (u32 *)(page->origin + braid_tail_place_bytes(tail));
	braid_local_inc(&page->entries);
	if (payload_bytes & 3)		/* no stale byte in the padding */
		at[words - 1] = 0;
	reserved->token = next;
	reserved->payload = braid_page_put_event(at, words * 4,
					     (u32)now - ((u32)tail & w->delta_mask));
	return true;
}

/**
 * braid_ring_reserve - take room for one event
 * @w: the writer of this CPU
 * @payload_bytes: 0 to BRAID_MAX_SUBBUF_BYTES; an event that does not fit a sub-buffer is dropped and counted
 * @counter: reads the raw counter; if it goes back by less than BRAID_JUMP_STEPS on one CPU, the
 *	event gets its predecessor's time; by more, the event begins a new sub-buffer
 * @token: for braid_ring_commit(), written on success
 *
 * Context: any, NMI included; the caller stays on its CPU until the commit.
 * Return: the payload, in shared memory: write only, never read back. NULL: dropped, counted, nothing to commit.
 */
static __always_inline void *braid_ring_reserve(struct braid_writer *w, u32 payload_bytes,
						u64 (*counter)(void), u64 *token)
{
	struct braid_turn turn;
	struct braid_reserved reserved;

	if (unlikely(!braid_ring_try_reserve(w, payload_bytes, counter, &turn, &reserved)))
		reserved = braid_writer_reserve(w, payload_bytes, counter, turn.tail, turn.hint,
					    turn.now);
	*token = reserved.token;
	return reserved.payload;
}

/**
 * braid_ring_try_commit - the fast path of braid_ring_commit()
 * @w: as there
 * @token: as there
 *
 * Context: as there. Return: true: done; false: continue with braid_writer_publish().
 */
static __always_inline bool braid_ring_try_commit(struct braid_writer *w, u64 token)
{
	u64 position = braid_load(&w->position);

	braid_barrier();
	if (unlikely(w->nest != 1) ||
	    unlikely((u16)(token >> BRAID_TAIL_POS_SHIFT) != (u16)position))
		return false;
	/* (C1) pairs with the reader's acquire in braid_reader_next() */
	braid_store_release(&w->pages[position & w->mask].state->commit,
			    (position << BRAID_COMMIT_POS_SHIFT) + braid_tail_place_bytes(token) -
			    w->bias_bytes);
	if (likely(braid_local_dec(&w->nest)))
		return true;
	braid_local_inc(&w->nest);
	return false;
}

/**
 * braid_ring_commit - make a reserved event readable
 * @w: the writer that gave @token
 * @token: from braid_ring_reserve()
 *
 * The outermost context publishes, for itself and for all that nested in it.
 *
 * Context: as braid_ring_reserve().
 */
static __always_inline void braid_ring_commit(struct braid_writer *w, u64 token)
{
	if (unlikely(!braid_ring_try_commit(w, token)))
		braid_writer_publish(w);
}

/* Reader ----------------------------------------------------------------------------------- */

/* A stretch of committed bytes of one sub-buffer. */
struct braid_span {
	u64 position;
	u32 id;
	u32 from_bytes;			/* [from, to) of the sub-buffer's data */
	u32 to_bytes;
	bool final;			/* this sub-buffer is complete */
	u64 time_stamp;
	u64 first_seq;			/* of the sub-buffer's first event */
	u64 lost_before;		/* found lost when opened; see braid_reader.lost */
	u64 entries;			/* events in it, by the writer; when final */
	u64 dropped;			/* events lost after it, by the writer; when final */
	u64 dropped_before;		/* lost in the ring before it; set only by a peek */
	const u8 *data;			/* shared memory: copy before use */
};

enum braid_reader_fault {
	BRAID_READER_OK = 0,
	BRAID_READER_BAD_SLOT,		/* a slot word that no writer writes */
	BRAID_READER_BAD_COMMIT,	/* a commit word of another position, or too large */
	BRAID_READER_BAD_COUNT,		/* more entries than bytes, or a sequence that went back */
};

/* The reader's state. Survives its death in the ring's reader_block. */
struct braid_reader {
	struct braid_ring_map map;
	u64 incarnation;
	u64 position;			/* of the reader's sub-buffer, or of the next one */
	u32 id;				/* id of the spare or of the reader's sub-buffer */
	bool in_hand;
	bool opened;			/* its first_seq is accounted for */
	u32 taken_bytes;
	u64 next_seq;
	u64 first_seq;			/* of the reader's sub-buffer */
	u64 read;
	u64 lost;
	u64 read_before, lost_before;	/* set after attach: what the meta page does not count */
	enum braid_reader_fault fault;	/* once set braid_reader_next() fails */
};

/**
 * braid_reader_own - take a ring's reader role
 * @map: the ring
 * @me: BRAID_READER_HOST or BRAID_READER_GUEST
 * @dead: an owner known to have stopped, or BRAID_READER_NONE
 *
 * Context: any. Return: true: @me has it, as before or from now on.
 */
bool braid_reader_own(const struct braid_ring_map *map, u64 me, u64 dead);

/**
 * braid_reader_disown - give the reader role back
 * @map: the ring
 * @me: the owner; no effect if another has it
 */
void braid_reader_disown(const struct braid_ring_map *map, u64 me);

/**
 * braid_reader_attach - begin, or continue after another reader's death
 * @r: filled
 * @map: the ring
 * @incarnation: the region's
 *
 * Everything is rebuilt from shared memory: the sub-buffer that is in no slot is the reader's. No
 * other reader may be alive.
 *
 * Return: 0, or -EBADMSG when the ring's words are invalid.
 */
int braid_reader_attach(struct braid_reader *r, const struct braid_ring_map *map,
			u64 incarnation);

/**
 * braid_reader_next - find committed bytes not yet taken
 * @r: the reader
 * @span: written when 1 is returned
 *
 * Swaps sub-buffers as needed; the committed part of the live tail is returned too.
 *
 * Return: 1, 0 when no new bytes are committed, -EBADMSG when the peer broke the protocol (see r->fault).
 */
int braid_reader_next(struct braid_reader *r, struct braid_span *span);

/**
 * braid_reader_done - mark a span as consumed
 * @r: the reader
 * @span: from braid_reader_next()
 * @events: DATA events in it
 *
 * Persists the position, so that a successor continues after the span.
 */
void braid_reader_done(struct braid_reader *r, const struct braid_span *span, u64 events);

/**
 * braid_reader_span_events - events of a final span that began at the page's start
 * @r: the reader
 * @span: a final span
 *
 * Return: the writer's count less the events already consumed.
 */
u64 braid_reader_span_events(const struct braid_reader *r, const struct braid_span *span);

/* A peek at a ring without changing it: for stat, list and post-mortem reads. */
struct braid_peek {
	struct braid_ring_map map;
	u64 position;			/* the next to visit */
	u32 hand_id;
	bool hand_done;
	u32 left;			/* slots left to visit */
	u32 jumps;			/* searches left for the next one */
	struct braid_reader_block block;	/* the reader's last block; zeroed if void */
	u64 word;			/* the last span's slot word */
};

/**
 * braid_peek_begin - begin a peek at a ring
 * @p: filled
 * @map: the ring
 * @incarnation: the region's
 *
 * Return: 0 or -EBADMSG.
 */
int braid_peek_begin(struct braid_peek *p, const struct braid_ring_map *map, u64 incarnation);

/**
 * braid_peek_next - the next sub-buffer, oldest first, the reader's included
 * @p: the peek
 * @span: filled; from_bytes is 0 or what the reader has taken of it
 *
 * Return: 1, 0 at the end, -EBADMSG.
 */
int braid_peek_next(struct braid_peek *p, struct braid_span *span);

/**
 * braid_peek_subbuf - peek at one sub-buffer whose place is known
 * @p: only its map is used; check with braid_peek_valid() as usual
 * @id: of the sub-buffer, at most nr_slots
 * @position: that it had when found
 * @from: bytes of it that were seen before
 * @span: filled
 *
 * Return: 1, or -EBADMSG: it has another position now.
 */
int braid_peek_subbuf(const struct braid_peek *p, u32 id, u64 position, u32 from,
		      struct braid_span *span);

/**
 * braid_peek_valid - whether a span's bytes, copied meanwhile, were those of its position
 * @p: the peek that returned @span
 * @span: the last one
 */
bool braid_peek_valid(const struct braid_peek *p, const struct braid_span *span);

/* A ring's counts at one moment: written = read + lost + left. */
struct braid_ring_tally {
	u64 written;		/* events committed or dropped, since the ring's first */
	u64 read;
	u64 lost;		/* dropped, overwritten, or emptied unread */
	u64 dropped;		/* of these: dropped for lack of space */
	u64 left;		/* unread */
	u64 left_bytes;		/* that these occupy */
	u64 oldest;		/* stamp of the sub-buffer that the oldest unread event is in; 0: none */
};

/**
 * braid_ring_count - count a ring's events while it is written and read
 * @map: the ring, of a region of minor 3 or later
 * @incarnation: the region's
 * @scratch: private memory for the data of one sub-buffer
 * @t: filled on success
 *
 * An event that is reserved but not committed is not counted yet. If the ring is lapped or drained during each of
 * several tries, the counts cover an interval: the sum holds, but @t->left may include events that are gone by now.
 *
 * Return: 0 or -EBADMSG.
 */
int braid_ring_count(const struct braid_ring_map *map, u64 incarnation, void *scratch,
		     struct braid_ring_tally *t);

#endif /* BRAID_SHARED_RING_H */
