/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rings of a recorded guest: which are followed, who reads each, what was read, the accounts.
 *
 * - rings[] has the rings of the buffers that are followed, as sb describes them. After any copy of
 *   a ring's bytes braid_live_settled() says whether that description still held.
 * - A ring is read only by the owner of its reader role. A span is consumed only after it is in the
 *   capture, and only if the ring, the role and the incarnation are still the same then.
 * - Whatever we read of a ring ends with one RING_END: written = before + read + lost + left. A
 *   loss that no page has reported by then is reported by the next part of the same ring.
 * - A turn reads at most BRAID_TURN_BYTES and looks at BRAID_TURN_RINGS rings; the next one goes on
 *   after them, so that each ring gets its share.
 * - region_drain.c uses region_window.c and region_buffers.c, and these use region_rings.c.
 * - Functions that take the stream run under braid_guard_run(), except those that read no shared
 *   memory: braid_live_detach(), _lost(), _held_up(), _off_note(), _account() without a walk.
 */
#ifndef BRAID_LIVE_RINGS_H
#define BRAID_LIVE_RINGS_H

#include "host_agent/live/stream.h"

#define BRAID_TURN_BYTES	(256u << 10)	/* drained from one guest per turn */
#define BRAID_LAYOUTS_A_SECOND	64u	/* changes of a guest's buffers that are followed; more of
					   them wait, the latest state is always taken */

/* The reader of a ring. */
enum braid_live_hold {
	BRAID_HOLD_GUEST = 0,	/* not us: checked again soon */
	BRAID_HOLD_OURS,
	BRAID_HOLD_DEAD,	/* it broke the rules; left alone */
};

/* Where a ring was when the recording started or stopped. */
struct braid_live_mark {
	bool set;
	u64 position;		/* of the sub-buffer that was being written ... */
	u32 bytes;		/* ... and how far it was */
	u64 seq;		/* of the next event then */
};

/* One ring under drain. */
struct braid_live_ring {
	struct braid_reader reader;	/* its map always holds */
	u32 buffer;
	u32 vcpu;
	enum braid_live_hold hold;
	bool reported_guest;	/* that it is read in the guest; reported once */
	bool reported_ours;	/* and that we read it again */
	u64 check_due_ns;	/* HOLD_GUEST: when to check again */
	struct braid_live_mark from;	/* earlier events must still be skipped */
	struct braid_live_mark to;	/* later events are not read */
	bool held;		/* its guest was silent at the start: no events are skipped while it
				   is */
	u64 began_seq;		/* where our part of it begins */
	u64 began_read;		/* what had been read ... */
	u64 began_lost;		/* ... and lost before that */
	u64 reported_lost;	/* the part of reader's lost already in chunks */
	bool took_extent;	/* of the sub-buffer at: */
	u64 extent_position;
	u64 tail_ns;		/* when the unfinished sub-buffer was last read */
	u64 complete_ns;	/* all events committed by then are read; 0: never yet */
	s64 rest_bytes;		/* FOLLOW_CLOSING: to be taken at most; 0: it was emptied */
};

/* A loss not yet in a page when a ring was removed: reported by the next page of its successor. */
struct braid_live_unreported {
	u64 lost;
	u64 next_seq;		/* after the loss */
};

/* How often and how long recording into a ring was off since we first looked, wherever it was. */
struct braid_live_off {
	bool known;
	u64 last_times, last_steps;	/* as the guest counts */
	u64 times, steps;
};

/* What we do about a buffer of the superblock. */
enum braid_live_follow {
	BRAID_FOLLOW_NOT = 0,
	BRAID_FOLLOW_RINGS,	/* its rings are in rings[] */
	BRAID_FOLLOW_CLOSING,	/* likewise, being drained in our turns */
	BRAID_FOLLOW_CLOSED,	/* it was CLOSING: drained and released */
};

struct braid_live_rings {
	struct braid_live_ring *rings;
	size_t nr_rings;
	size_t capacity;
	bool follows;			/* buffers are followed now: their rings are in rings[] */
	enum braid_live_follow follow[BRAID_MAX_BUFFERS];
	u32 refused_seq;		/* a buffers_seq that we do not act upon, or sb's own */
	struct braid_rate layouts;	/* changes of buffers that were followed */
	struct braid_live_unreported *unreported;	/* of each buffer's each vCPU */
	struct braid_live_off *off;			/* likewise */
	size_t nr_accounted;		/* rings whose RING_END was put */
	u32 first_ring;			/* of the next turn, for fairness */
	u32 next_role;			/* the ring whose role is checked next */
	size_t nr_quiet;		/* consecutive rings without events */
	bool buffer_came;		/* the one of -B was there, in some stream */
	bool reported_no_buffer;
	/* Totals over all streams. */
	u64 events;
	u64 lost;			/* except losses of the rings that we read */
	u64 bytes;
	u64 skipped;
	u64 unreadable;
	struct braid_region_sums sums;
};

/* region_drain.c ------------------------------------------------------------------- */

/*
 * Drains up to BRAID_TURN_BYTES of up to BRAID_TURN_RINGS rings; the next turn continues after
 * them, and returns IDLE when all rings are empty. @tails: unfinished sub-buffers too, at once.
 * Returns enum braid_poll_result, -ESTALE (reinitialized) or the capture's error.
 */
int braid_live_drain(struct braid_live_rings *r, struct braid_live_stream *s, bool tails);

/* Whether the file can't keep up: events wait in the rings, which count what they lose. */
bool braid_live_held_up(const struct braid_live_stream *s);

/* All rings are checked once more before braid_live_drain() returns IDLE. */
void braid_live_drain_again(struct braid_live_rings *r);

/* Drains one last time, bounded however fast the guest writes. As braid_live_drain(). */
int braid_live_drain_rest(struct braid_live_rings *r, struct braid_live_stream *s);

/* region_window.c ------------------------------------------------------------------ */

/* Notes each ring's position as the recording's start. */
void braid_live_mark_start(struct braid_live_rings *r, struct braid_live_stream *s);

/* Notes each ring's position as the recording's end. */
void braid_live_mark_stop(struct braid_live_rings *r, struct braid_live_stream *s);

/* Whether part of a span is before a mark; the rest is cut off. */
bool braid_live_cut_span(const struct braid_live_mark *mark, struct braid_span *span);

/* Events in the private copy of a span that is not its sub-buffer's last. */
s64 braid_live_count_copy(const struct braid_live_ring *ring, const struct braid_span *span,
			  const void *copy);

/* All before the start is skipped: our part begins. */
void braid_live_begin_window(struct braid_live_ring *ring);

/* Events dropped after a final span: the part before the stop. */
u64 braid_live_dropped(const struct braid_live_ring *ring, const struct braid_span *span);

/* Skips a span before the start. Returns its bytes, or -EAGAIN. */
s64 braid_live_skip(struct braid_live_rings *r, struct braid_live_stream *s,
		    struct braid_live_ring *ring, const struct braid_span *span);

/* region_buffers.c ----------------------------------------------------------------- */

/* A new stream. @follow: attaches to every ring. The capture's error, -ESTALE or -ENOMEM. */
int braid_live_attach(struct braid_live_rings *r, struct braid_live_stream *s, bool follow);

/* No ring is followed from here on; they were accounted for. */
void braid_live_detach(struct braid_live_rings *r, const struct braid_live_stream *s);

/*
 * Follows new buffers and releases removed ones. @now: however often they changed lately. Returns
 * 0, -EAGAIN while they change, -ESTALE, or the capture's error.
 */
int braid_live_buffers(struct braid_live_rings *r, struct braid_live_stream *s, bool now);

/* Releases the CLOSING buffers that are drained. Returns 0 or the capture's error. */
int braid_live_close(struct braid_live_rings *r, struct braid_live_stream *s);

/* Unread bytes as permille of what the fullest buffer holds. */
u32 braid_live_fill(const struct braid_live_rings *r, const struct braid_live_stream *s);

/* region_rings.c ------------------------------------------------------------------- */

/* Whether buffers[] is unchanged: check after copying a ring's bytes. */
bool braid_live_settled(const struct braid_live_rings *r, const struct braid_live_stream *s);

/* Adds a ring and becomes its reader, unless the guest reads it. */
int braid_live_ring_add(struct braid_live_rings *r, struct braid_live_stream *s, u32 buffer,
			u32 vcpu);

/*
 * Becomes the reader of rings released by the guest: of BRAID_TURN_RINGS rings, or of @all. Returns
 * 0 or the capture's error.
 */
int braid_live_ring_roles(struct braid_live_rings *r, struct braid_live_stream *s, bool all);

/* Whether we are still a ring's reader. */
bool braid_live_ring_ours(const struct braid_live_ring *ring);

/* Another reader took the ring: reports the part that we read. Returns 0 or the capture's error. */
int braid_live_ring_lose(struct braid_live_rings *r, struct braid_live_stream *s,
			 struct braid_live_ring *ring);

/* Leaves a ring alone that broke the rules. Returns 0 or the capture's error. */
int braid_live_ring_give_up(struct braid_live_stream *s, struct braid_live_ring *ring,
			    enum braid_reader_fault fault, const char *why);

/* Puts a ring's RING_END and gives the role back. @walk: the ring still exists. */
int braid_live_ring_end(struct braid_live_rings *r, struct braid_live_stream *s,
			struct braid_live_ring *ring, bool walk);

/* Gives the role back on every ring, for a recording that failed. */
void braid_live_ring_release(struct braid_live_rings *r);

/* Puts each ring's RING_END. @walk: the rings still exist and can be walked. */
int braid_live_account(struct braid_live_rings *r, struct braid_live_stream *s, bool walk);

/* The capacity of a ring, counted against a turn's bytes. */
s64 braid_live_ring_bytes(const struct braid_live_ring *ring);

/* The same of all rings. */
s64 braid_live_rings_bytes(const struct braid_live_rings *r);

/* Losses of the rings that are ours. */
u64 braid_live_lost(const struct braid_live_rings *r, const struct braid_live_stream *s);

/* All events committed by then are read; BRAID_TAKEN_UNKNOWN: no ring is ours. */
u64 braid_live_complete(const struct braid_live_rings *r);

void braid_live_rings_free(struct braid_live_rings *r);

/* Takes what the guest says about a ring, while events are read. */
void braid_live_off_take(struct braid_live_rings *r, const struct braid_live_stream *s,
			 const struct braid_live_ring *ring);

/* Notes the buffers into which recording was off meanwhile. Returns 0 or the capture's error. */
int braid_live_off_note(const struct braid_live_rings *r, struct braid_live_stream *s);

#endif /* BRAID_LIVE_RINGS_H */
