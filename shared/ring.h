/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The ring: lockless reserve and commit for one vCPU's nesting contexts, sub-buffer
 * swap for one reader, exact accounting. docs/ring.md argues why it is right.
 */
#ifndef BRAID_SHARED_RING_H
#define BRAID_SHARED_RING_H

#include "shared/clock.h"
#include "shared/page.h"
#include "shared/platform.h"
#include "tracebraid/abi.h"

/* Words ------------------------------------------------------------------------ */

static inline u64 braid_slot_word(u64 position, u32 state, u32 id)
{
	return (position & BRAID_POS_MASK) << BRAID_SLOT_POS_SHIFT |
	       (u64)state << BRAID_SLOT_STATE_SHIFT | id;
}

static inline u64 braid_slot_position(u64 word)
{
	return word >> BRAID_SLOT_POS_SHIFT & BRAID_POS_MASK;
}

static inline u32 braid_slot_state(u64 word)
{
	return word >> BRAID_SLOT_STATE_SHIFT & BRAID_SLOT_STATE_MASK;
}

static inline u32 braid_slot_id(u64 word)
{
	return word & BRAID_SLOT_ID_MASK;
}

static inline u64 braid_commit_position(u64 word)
{
	return word >> BRAID_COMMIT_POS_SHIFT;
}

static inline u32 braid_commit_bytes(u64 word)
{
	return word & BRAID_COMMIT_BYTES_MASK;
}

/* a - b on the circle of positions */
static inline s64 braid_position_diff(u64 a, u64 b)
{
	return (s64)((a - b) << (64 - BRAID_POS_BITS)) >> (64 - BRAID_POS_BITS);
}

/* Where a ring lies ---------------------------------------------------------------- */

/* Addresses and shape of one ring, private to the side that uses it. */
struct braid_ring_map {
	struct braid_meta *meta;
	struct braid_ring_private *priv;
	u64 *slots;
	struct braid_subbuf_state *states;
	u8 *subbufs;
	u32 nr_slots;		/* power of two */
	u32 subbuf_bytes;	/* header included */
	u32 flags;		/* BRAID_BUFFER_* */
};

/* Where the states are, from the private part's start. */
static inline u32 braid_ring_states_offset(u32 nr_slots)
{
	u32 bytes = BRAID_RING_SLOTS_OFFSET + 8 * nr_slots;

	return (bytes + BRAID_CACHELINE_BYTES - 1) & ~(BRAID_CACHELINE_BYTES - 1);
}

/** braid_ring_private_used - bytes of a ring's private part, without the padding to a whole page */
static inline u32 braid_ring_private_used(u32 nr_slots)
{
	return braid_ring_states_offset(nr_slots) +
	       (nr_slots + 1) * (u32)sizeof(struct braid_subbuf_state);
}

/**
 * braid_ring_private_bytes - size of a ring's private part
 * @nr_slots: a power of two, BRAID_MIN_SLOTS to BRAID_MAX_SLOTS
 *
 * Return: bytes, a multiple of BRAID_PAGE_BYTES: who maps the meta page and the sub-buffers
 * gets no byte of it.
 */
static inline u32 braid_ring_private_bytes(u32 nr_slots)
{
	return (braid_ring_private_used(nr_slots) + BRAID_PAGE_BYTES - 1) & ~(BRAID_PAGE_BYTES - 1);
}

/** braid_ring_bytes - size of a ring: its private part, meta page and sub-buffers */
static inline u64 braid_ring_bytes(u32 nr_slots, u32 subbuf_bytes)
{
	return (u64)braid_ring_private_bytes(nr_slots) + BRAID_PAGE_BYTES +
	       (u64)(nr_slots + 1) * subbuf_bytes;
}

/* Sets what lies in the private part. */
static inline void braid_ring_map_private(struct braid_ring_map *map, void *start)
{
	u8 *at = start;

	map->priv = start;
	map->slots = (u64 *)(at + BRAID_RING_SLOTS_OFFSET);
	map->states = (struct braid_subbuf_state *)(at + braid_ring_states_offset(map->nr_slots));
}

/**
 * braid_ring_map_init - find the parts of a ring of this minor version; see braid_region_ring()
 * @map: filled
 * @base: where the ring begins
 * @nr_slots: as validated, never as read from shared memory again
 * @subbuf_bytes: likewise
 * @flags: likewise
 */
void braid_ring_map_init(struct braid_ring_map *map, void *base, u32 nr_slots,
			 u32 subbuf_bytes, u32 flags);

static inline struct braid_subbuf *braid_ring_subbuf(const struct braid_ring_map *map, u32 id)
{
	return (struct braid_subbuf *)(map->subbufs + (size_t)id * map->subbuf_bytes);
}

/* Writer ------------------------------------------------------------------------------ */

/* What the writer remembers of the sub-buffer at a position. */
struct braid_writer_page {
	u8 *data;
	struct braid_subbuf_state *state;
	u32 end_bytes;		/* of a closed one */
	u32 entries;
	u64 dropped;		/* grows for as long as a full ring is not read */
};

/*
 * How a writer has the host woken; see "Wake" in abi.h. The words are the host's: whatever
 * they say, the worst is a call for each sub-buffer that is opened or found full.
 */
struct braid_wake {
	const struct braid_mailbox *mailbox;	/* shared */
	/* Any context, NMI included; must neither wait nor record. */
	void (*call)(const struct braid_wake *wake);
};

/*
 * The writer's private state, never shared. One for each ring; all contexts of its
 * vCPU use it, nesting. tail is position:16 | offset in words:16 | stamp:32.
 */
struct braid_writer {
	u64 tail;
	u64 hint;		/* counter of a recent event, never newer than the last */
	u64 position;		/* all before it is published as final */
	u32 nest;
	u32 pending;		/* a nested context left something to publish */
	u32 mask;		/* nr_slots - 1 */
	u32 limit_words;	/* of data in a sub-buffer */
	u64 gap;		/* counter steps that a time_delta can't be trusted over */
	u32 delta_mask;		/* of the last stamp, which a delta counts from; absolute: 0 */
	u32 broken;		/* enum braid_ring_fault; once set, all is dropped */
	u64 seq_base;		/* sequence number of position's first event */
	u64 first_seq;		/* of the ring's first event in this incarnation */
	u64 dropped;		/* events dropped before position, in all */
	const struct braid_clock_latch *external;	/* of TIME_STAMPs; or NULL */
	u32 void_line;		/* of external: drawn before the counter jumped back */
	const struct braid_wake *wake;	/* NULL: nobody is to be woken */
	u64 woken;		/* the wake_seq that was answered last */
	struct braid_ring_map map;
	struct braid_writer_page pages[];
};

#define BRAID_TAIL_POS_SHIFT	48
#define BRAID_TAIL_OFF_SHIFT	32
#define BRAID_TAIL_CLOSED	0xffffu

static inline u64 braid_tail_word(u64 position, u32 offset_words, u64 stamp)
{
	return position << BRAID_TAIL_POS_SHIFT | (u64)offset_words << BRAID_TAIL_OFF_SHIFT |
	       (u32)stamp;
}

static inline u32 braid_tail_offset(u64 tail)
{
	return tail >> BRAID_TAIL_OFF_SHIFT & 0xffff;
}

/* The same, in bytes. */
static inline u32 braid_tail_bytes(u64 tail)
{
	return tail >> (BRAID_TAIL_OFF_SHIFT - 2) & 0xffff << 2;
}

/**
 * braid_writer_bytes - size of a struct braid_writer
 * @nr_slots: of its ring
 */
static inline size_t braid_writer_bytes(u32 nr_slots)
{
	return sizeof(struct braid_writer) + nr_slots * sizeof(struct braid_writer_page);
}

/* Where a ring left off whose memory was given up or emptied. */
struct braid_ring_past {
	u64 next_position;
	u64 next_seq;
	u64 dropped;
	u64 woken;
	u32 void_line;
	struct braid_reader_block block;	/* what its last reader said */
};

/* Who a ring is, for braid_writer_init(). */
struct braid_ring_identity {
	u64 incarnation;
	u32 vcpu;
	u32 buffer;
	u64 first_position;	/* any; differs from one incarnation to the next */
	u64 first_seq;		/* any */
	u64 counter;		/* now */
	u64 owner;		/* BRAID_READER_GUEST: it is emptied by who has the role now */
	const struct braid_ring_past *past;	/* go on behind it; NULL: a new ring */
	/* What counter values are in external time, for as long as the ring is written; or NULL. */
	const struct braid_clock_latch *external;
	const struct braid_wake *wake;	/* likewise */
};

/**
 * braid_writer_init - lay an empty ring out and begin to write it
 * @w: braid_writer_bytes() of private memory
 * @map: the ring
 * @who: its identity
 *
 * Context: any; nobody else may use the ring meanwhile.
 */
void braid_writer_init(struct braid_writer *w, const struct braid_ring_map *map,
		       const struct braid_ring_identity *who);

/**
 * braid_writer_past - note where a ring leaves off
 * @w: its writer; nobody is inside
 * @past: filled, for the braid_writer_init() that makes the ring anew: what is unread
 *	then counts as lost, and no position or sequence number comes twice
 */
void braid_writer_past(const struct braid_writer *w, struct braid_ring_past *past);

/**
 * braid_writer_written - events offered so far, dropped ones included
 * @w: its writer
 *
 * Return: their number since the ring's first; exact when nobody is inside.
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

/* What a reservation has read when it turns out not to be ordinary. */
struct braid_turn {
	u64 tail;
	u64 hint;
	u64 now;
};

/* Room for one event. */
struct braid_room {
	void *payload;		/* NULL: none, it was dropped and counted */
	u64 token;		/* for braid_ring_commit() */
};

static inline struct braid_writer_page *braid_writer_page_of(struct braid_writer *w, u64 tail)
{
	return &w->pages[tail >> BRAID_TAIL_POS_SHIFT & w->mask];
}

/* The slow paths, in ring_writer.c. */
struct braid_room braid_writer_reserve(struct braid_writer *w, u32 payload_bytes,
				       u64 (*counter)(void), u64 tail, u64 hint, u64 now);
struct braid_stamp_plan braid_writer_plan_stamp(const struct braid_writer *w, u64 tail, u64 hint,
						u64 now);
bool braid_writer_advance(struct braid_writer *w, u64 tail);
void braid_writer_drop(struct braid_writer *w, u64 tail);
void braid_writer_publish(struct braid_writer *w);
u32 *braid_writer_put_stamp(const struct braid_writer *w, u32 *at, struct braid_stamp_plan plan);

/**
 * braid_ring_try_reserve - braid_ring_reserve() when all is ordinary
 * @w: as there; its nest is raised, whatever is returned
 * @payload_bytes: as there
 * @counter: as there
 * @turn: what was read, for braid_writer_reserve()
 * @room: written on success
 *
 * Context: as there. Return: true: there is room; false: go on with braid_writer_reserve().
 */
static __always_inline bool braid_ring_try_reserve(struct braid_writer *w, u32 payload_bytes,
						   u64 (*counter)(void), struct braid_turn *turn,
						   struct braid_room *room)
{
	u32 words = braid_event_bytes(payload_bytes) / 4, place, offset, delta;
	struct braid_writer_page *page;
	u64 tail, hint, now, next;
	u32 *at;

	braid_store(&w->nest, w->nest + 1);
	braid_barrier();
	tail = braid_load(&w->tail);
	hint = braid_load(&w->hint);
	braid_barrier();
	now = counter();
	*turn = (struct braid_turn){ tail, hint, now };
	place = tail >> BRAID_TAIL_OFF_SHIFT;
	offset = (u16)place;
	delta = (u32)now - (u32)tail;
	/*
	 * One look at all that is not ordinary: a stamp that time_delta can't tell, a
	 * sub-buffer's first event, an event behind its end. Each sets a higher bit. The
	 * hint is older than the last event: what is near to it is nearer to that.
	 */
	if (unlikely(((now - hint) | delta | (offset - 1) | (w->limit_words - offset - words)) >
		     BRAID_DELTA_MASK))
		return false;
	next = (u64)(place + words) << BRAID_TAIL_OFF_SHIFT | (u32)now;
	if (unlikely(!braid_local_cas(&w->tail, tail, next)))
		return false;

	page = braid_writer_page_of(w, tail);
	at = (u32 *)(page->data + braid_tail_bytes(tail));
	braid_local_inc(&page->entries);
	if (payload_bytes & 3)		/* no stale byte in the padding */
		at[words - 1] = 0;
	room->token = next;
	room->payload = braid_page_put_event(at, words * 4,
					     (u32)now - ((u32)tail & w->delta_mask));
	return true;
}

/**
 * braid_ring_reserve - take room for one event
 * @w: the writer of this CPU
 * @payload_bytes: 0 to BRAID_MAX_SUBBUF_BYTES; what a sub-buffer does not hold is dropped
 *	and counted
 * @counter: reads the raw counter; where it goes back by less than BRAID_JUMP_STEPS on one
 *	CPU the event gets its predecessor's time, else it begins a sub-buffer
 * @token: for braid_ring_commit(), written on success
 *
 * Lockless. The counter's value goes in by the same local compare-and-swap that
 * takes the room, so a nested event makes the interrupted reservation read again:
 * order in the ring is order in time, and every delta is exact.
 *
 * Context: any, NMI included, but the caller stays on its CPU until the commit.
 * Return: the payload, in shared memory: write only, never read back. NULL: dropped,
 * counted, nothing to commit.
 */
static __always_inline void *braid_ring_reserve(struct braid_writer *w, u32 payload_bytes,
						u64 (*counter)(void), u64 *token)
{
	struct braid_turn turn;
	struct braid_room room;

	if (unlikely(!braid_ring_try_reserve(w, payload_bytes, counter, &turn, &room)))
		room = braid_writer_reserve(w, payload_bytes, counter, turn.tail, turn.hint,
					    turn.now);
	*token = room.token;
	return room.payload;
}

/**
 * braid_ring_try_commit - braid_ring_commit() when all is ordinary
 * @w: as there
 * @token: as there
 *
 * Context: as there. Return: true: done; false: go on with braid_writer_publish().
 */
static __always_inline bool braid_ring_try_commit(struct braid_writer *w, u64 token)
{
	u64 position = braid_load(&w->position);

	braid_barrier();
	if (unlikely((w->nest ^ 1) | (u16)(token >> BRAID_TAIL_POS_SHIFT ^ position)))
		return false;
	/* (C1) what reader's acquire in braid_reader_next() pairs with */
	braid_store_release(&w->pages[position & w->mask].state->commit,
			    position << BRAID_COMMIT_POS_SHIFT | braid_tail_bytes(token));
	braid_barrier();
	braid_store(&w->nest, 0);
	braid_barrier();
	if (likely(!braid_load(&w->pending)))
		return true;
	braid_store(&w->nest, 1);
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
	bool final;			/* nothing follows in this sub-buffer */
	u64 time_stamp;
	u64 first_seq;			/* of the sub-buffer's first event */
	u64 lost_before;		/* found lost on its opening; braid_reader.lost has all */
	u64 entries;			/* events in the sub-buffer, as the writer says; when final */
	u64 dropped;			/* events lost after it, as the writer says; when final */
	u64 dropped_before;		/* in the ring before it; only a look has it */
	const u8 *data;			/* shared memory: copy, then look */
};

enum braid_reader_fault {
	BRAID_READER_OK = 0,
	BRAID_READER_BAD_SLOT,		/* a slot word that the writer never writes */
	BRAID_READER_BAD_COMMIT,	/* a commit word of another position, or too large */
	BRAID_READER_BAD_COUNT,		/* more entries than bytes, or a sequence that went back */
};

/* The reader's state. Survives its death in the ring's reader_block. */
struct braid_reader {
	struct braid_ring_map map;
	u64 incarnation;
	u64 position;			/* of the sub-buffer in hand, or of the one wanted */
	u32 id;				/* the spare, or in hand */
	bool in_hand;
	bool opened;			/* its first_seq is accounted for */
	u32 taken_bytes;
	u64 next_seq;
	u64 first_seq;			/* of the sub-buffer in hand */
	u64 read;
	u64 lost;
	enum braid_reader_fault fault;	/* once set the ring is left alone */
};

/**
 * braid_reader_own - take a ring's reader role
 * @map: the ring
 * @me: BRAID_READER_HOST or BRAID_READER_GUEST
 * @dead: an owner that is known to read no more, or BRAID_READER_NONE
 *
 * Context: any. Return: true: @me has it, as before or from now on.
 */
bool braid_reader_own(const struct braid_ring_map *map, u64 me, u64 dead);

/**
 * braid_reader_disown - give the reader role back
 * @map: the ring
 * @me: who has it; if somebody else does, nothing happens
 */
void braid_reader_disown(const struct braid_ring_map *map, u64 me);

/**
 * braid_reader_attach - begin, or go on after another reader's death
 * @r: filled
 * @map: the ring
 * @incarnation: the region's
 *
 * Everything is rebuilt from shared memory: the sub-buffer that is in no slot is
 * the one in hand. No other reader may be alive.
 *
 * Return: 0, or -EBADMSG when the ring's words make no sense.
 */
int braid_reader_attach(struct braid_reader *r, const struct braid_ring_map *map,
			u64 incarnation);

/**
 * braid_reader_next - find committed bytes not yet taken
 * @r: the reader
 * @span: written when 1 is returned
 *
 * Swaps sub-buffers as needed; the live tail is delivered too, as far as it is
 * committed. Never waits, never loops on what the writer does.
 *
 * Return: 1, 0 when there is nothing now, -EBADMSG when the peer broke the rules
 * (r->fault says how; the ring is not touched again).
 */
int braid_reader_next(struct braid_reader *r, struct braid_span *span);

/**
 * braid_reader_done - say that a span was delivered
 * @r: the reader
 * @span: what braid_reader_next() gave
 * @events: DATA events in it
 *
 * Persists the position, so that a successor goes on behind the span.
 */
void braid_reader_done(struct braid_reader *r, const struct braid_span *span, u64 events);

/**
 * braid_reader_span_events - events of a final span that began at the page's start
 * @r: the reader
 * @span: a final span
 *
 * Return: the writer's count less what was taken before.
 */
u64 braid_reader_span_events(const struct braid_reader *r, const struct braid_span *span);

/* A look at a ring without touching it: for stat, list and the dead. */
struct braid_peek {
	struct braid_ring_map map;
	u64 position;			/* the next to look at */
	u32 hand_id;
	bool hand_done;
	u32 left;			/* slots still to look at */
	u32 jumps;			/* searches for the next one that are left */
	struct braid_reader_block block;	/* what the reader said last; zeroed if void */
	u64 word;			/* the slot word behind the last span */
};

/**
 * braid_peek_begin - begin a look at a ring
 * @p: filled
 * @map: the ring
 * @incarnation: the region's
 *
 * Return: 0 or -EBADMSG.
 */
int braid_peek_begin(struct braid_peek *p, const struct braid_ring_map *map, u64 incarnation);

/**
 * braid_peek_next - the next sub-buffer, oldest first, the reader's included
 * @p: the look
 * @span: filled; from_bytes is 0 or what the reader has taken of it
 *
 * Return: 1, 0 at the end, -EBADMSG.
 */
int braid_peek_next(struct braid_peek *p, struct braid_span *span);

/**
 * braid_peek_subbuf - look at one sub-buffer whose place is known
 * @p: its map, and nothing else, is looked at; braid_peek_valid() as ever
 * @id: of the sub-buffer, at most nr_slots
 * @position: that it had
 * @from: bytes of it that were seen before
 * @span: filled
 *
 * Return: 1, or -EBADMSG: it has another position now.
 */
int braid_peek_subbuf(const struct braid_peek *p, u32 id, u64 position, u32 from,
		      struct braid_span *span);

/**
 * braid_peek_valid - whether a span's bytes, copied meanwhile, were those of its position
 * @p: the look that gave @span
 * @span: the last one
 */
bool braid_peek_valid(const struct braid_peek *p, const struct braid_span *span);

/* What a ring had seen at one moment: written = read + lost + left. */
struct braid_ring_tally {
	u64 written;		/* events committed or dropped, since the ring's first */
	u64 read;
	u64 lost;		/* dropped, overwritten, or emptied unread */
	u64 dropped;		/* of these: found no room */
	u64 left;		/* unread */
	u64 left_bytes;		/* that these take */
	u64 oldest;		/* stamp of the sub-buffer that the oldest unread event is in; 0: none */
};

/**
 * braid_ring_count - count a ring's events while it is written and read
 * @map: the ring, of a region of minor 3 or later
 * @incarnation: the region's
 * @scratch: private memory for the data of one sub-buffer
 * @t: filled on success
 *
 * Takes nothing. An event that is reserved but not committed is not counted yet. A ring that
 * is lapped or drained during each of several tries is counted over a stretch of time: the sum
 * holds, but @t->left may include what is gone by now.
 *
 * Return: 0 or -EBADMSG.
 */
int braid_ring_count(const struct braid_ring_map *map, u64 incarnation, void *scratch,
		     struct braid_ring_tally *t);

#endif /* BRAID_SHARED_RING_H */
