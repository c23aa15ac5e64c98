/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the live region drain share among themselves. */
#ifndef BRAID_SOURCE_REGION_PRIVATE_H
#define BRAID_SOURCE_REGION_PRIVATE_H

#include "host_agent/source/region.h"
#include "host_agent/transport/directory.h"
#include "host_agent/util/rate.h"

#define BRAID_TURN_BYTES	(256u << 10)	/* drained of one guest in one turn */
#define BRAID_TURN_RINGS	1024u	/* looked at of one guest in one turn */

/* What a guest can have done in a second; more of it waits, the latest state is always taken. */
#define BRAID_DIRECTORIES_A_SECOND	16u	/* loads of the whole event directory */
#define BRAID_LAYOUTS_A_SECOND		64u	/* changes of its buffers that are followed */
#define BRAID_NOTES_A_SECOND		32u	/* more are counted, and their number is noted */

/* Who reads a ring. */
enum braid_live_hold {
	BRAID_HOLD_GUEST = 0,	/* not us: looked at again in a moment */
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
	bool told_guest;	/* that it is read in the guest; said once */
	bool told_ours;		/* and that we read it again */
	u64 look_due_ns;	/* HOLD_GUEST: when to look again */
	struct braid_live_mark from;	/* what lies before it is still to be skipped */
	struct braid_live_mark to;	/* what lies behind it is not taken */
	bool held;		/* its guest was silent at the start: nothing is skipped as long as it is */
	u64 began_seq;		/* where our part of it begins */
	u64 began_read;		/* what had been read ... */
	u64 began_lost;		/* ... and lost before that */
	u64 told_lost;		/* reader's lost, as far as chunks have told it */
	bool took_piece;	/* of the sub-buffer at: */
	u64 piece_position;
	u64 tail_due_ns;	/* when the unfinished sub-buffer is taken again */
	u64 complete_ns;	/* all that was committed then is taken; 0: never yet */
	s64 rest_bytes;		/* FOLLOW_CLOSING: to be taken at most; 0: it was emptied */
};

/* A loss that no page has told when a ring went: the next page of its successor tells it. */
struct braid_live_untold {
	u64 lost;
	u64 next_seq;		/* behind the loss */
};

/* What was sent of the region's tables. */
struct braid_live_tables {
	u32 directory_bytes;
	u64 directory_generation;
	u64 directory_reused;		/* nr_reused as of then */
	bool directory_damaged;
	struct braid_directory_copy directory;	/* being sent; here, since a SIGBUS may end that */
	u32 *comm_seqs;		/* as sent, by entry */
	u32 nr_comms;
	u64 comm_generation;
	u64 comms_due_ns;
	u32 nr_symbols;		/* sent */
};

/* What is known of the guest's time, and is still to be learnt. */
struct braid_live_clock {
	struct braid_exchange_peer *peer;
	u64 begin_ns;
	struct braid_crossing look;	/* the guest's last */
	bool looked;
	u32 look_seq;
	u32 wall_seq;
	u32 wall_flags;
	u64 put_ns;			/* h2 of the look that was put last */
	u64 pair_due_ns;
	struct braid_kvm_vm *vm;	/* NULL: KVM tells nothing */
	bool told_kvm;
	struct braid_clock_offset *offsets;	/* as put, by vCPU */
	u64 *offset_seen;		/* the host's counter before they were last read */
	u32 nr_offsets;
	u64 offset_due_ns;
	size_t changes_taken;		/* of the watch */
	u32 stood;			/* looks in a row that found no vCPU in KVM */
	u64 stood_ns;
	bool paused;
	bool asked_last;		/* the burst behind the last event */
};

/* The threads that are the guest's vCPUs, as the stream has them. */
struct braid_live_threads {
	u64 due_ns;			/* when to look again */
	u64 looked_ns;			/* when they were last looked at; 0: not yet */
	u64 count;			/* of the QEMU's threads then */
	u32 looks;
	pid_t of[BRAID_QEMU_VCPUS];	/* 0: not known */
	pid_t all;
	bool told_unknown;
};

/* An event that is looked out for, as records tell it. */
struct braid_live_wanted {
	u16 id;
	u16 buffer;		/* whose ids they are */
	bool sub;
	u32 number;		/* of a sub-event, which is ... */
	u16 number_offset;	/* ... here in the record, ... */
	u16 number_bytes;	/* ... so long */
	u32 name;		/* index in the patterns */
};

/* How far one ring was looked at. */
struct braid_live_seen {
	bool known;
	u32 layout;		/* of the buffer then */
	u32 id;
	u64 position;
	u32 bytes;
	bool final;
};

/* Flight: looks for events in what is committed, and takes nothing. */
struct braid_live_watch {
	struct braid_live_wanted *wanted;
	size_t nr_wanted;
	size_t wanted_capacity;
	u64 generation;		/* of the directory that they are from; ~0: none */
	struct braid_rate loads;	/* of the directory */
	u32 next_buffer;		/* where the next turn goes on */
	u32 next_vcpu;
	u32 nr_quiet;			/* rings in a row that had nothing new */
	struct braid_live_seen *seen;	/* of each buffer's each vCPU */
	bool told_missed;
	u64 noticed;
	char event[2 * BRAID_PATTERN_BYTES + 2];
};

/* What we do about a buffer of the superblock. */
enum braid_live_follow {
	BRAID_FOLLOW_NOT = 0,
	BRAID_FOLLOW_RINGS,	/* its rings are in rings[] */
	BRAID_FOLLOW_CLOSING,	/* likewise, being emptied in our turns */
	BRAID_FOLLOW_CLOSED,	/* it was CLOSING: emptied and let go */
};

struct braid_region_source {
	struct braid_region_options o;
	char name[64];
	struct braid_port *port;
	struct braid_mapping *mapping;
	struct braid_superblock sb;	/* of the stream; validated */
	enum braid_region_phase phase;
	u64 ended_incarnation;		/* whose stream was ended; not begun again */
	u64 retry_due_ns;		/* WAITING, GONE: when to look again */
	bool refused;			/* a file of another user's was there instead, and noted */
	u64 changing_ns;		/* since when its buffers change, as far as we saw; or 0 */
	u32 stream;
	u32 nr_streams;
	struct braid_live_ring *rings;
	size_t nr_rings;
	size_t rings_capacity;
	enum braid_live_follow follow[BRAID_MAX_BUFFERS];
	u32 refused_seq;		/* a buffers_seq that we do not act upon, or sb's own */
	struct braid_rate layouts;	/* changes of buffers that were followed */
	struct braid_rate notes;
	u64 notes_left_out;		/* since the last one */
	bool buffer_came;		/* the one of -B was there, in some stream */
	bool told_no_buffer;
	u64 begin_cost_ns;		/* of CPU: what the stream's begin took */
	u64 end_began_ns;		/* ending: since when */
	bool down;			/* the driver's last word is written */
	bool ending;			/* the stream's rest is taken, in our turns */
	enum braid_region_phase end_phase;	/* what comes behind it ... */
	enum braid_end_reason end_reason;	/* ... and why */
	s64 end_bytes;			/* to be taken at most */
	u32 end_tries;			/* looks at buffers that moved */
	struct braid_live_untold *untold;	/* of each buffer's each vCPU */
	size_t nr_accounted;		/* rings whose RING_END was put */
	u32 first_ring;			/* of the next turn, for fairness */
	u32 next_role;			/* the ring whose role is looked at next */
	size_t nr_quiet;		/* rings in a row that had nothing to take */
	struct braid_live_tables tables;
	struct braid_live_clock clock;
	struct braid_live_threads threads;
	struct braid_control control;
	bool control_busy;
	bool disarming;
	u64 left_ns;			/* when a failed recording asked for the end; or 0 */
	u32 next_command;		/* of the list in region_control.c */
	bool stale_events;		/* a former agent left events on */
	bool told_timeout;
	bool confirmed;			/* of this stream: all of our events */
	bool unconfirmed;		/* of this stream: it was told that it did not, ... */
	bool was_unconfirmed;		/* ... or of one before */
	u32 *matched;			/* events of each pattern that the guest has enabled */
	bool more_events;		/* came after ours were turned on */
	bool asked_again;
	bool silent;
	u64 heartbeat;			/* the guest's, as last seen */
	u64 heartbeat_ns;		/* when it moved */
	bool wake_asked;		/* the guest is to ring, since we had nothing to do */
	u64 file_due_ns;		/* when to look whether the file is still there */
	pid_t qemu_pid;			/* 0: not known */
	int qemu_pidfd;			/* or -1 */
	int fatal;			/* the capture's error */
	u64 events;
	u64 lost;			/* but for what the rings that are ours lost */
	u64 bytes;
	struct braid_region_sums sums;
	u64 unreadable;
	bool started;			/* o.window: the recording has begun ... */
	bool stopped;			/* ... and ended */
	u64 old_incarnation;		/* that was there before: its rings are marked when found */
	u64 skipped;
	bool taking;			/* flight: the rings are ours, for a moment */
	bool took;			/* a snapshot has the stream, but for its end */
	bool let_go;
	struct braid_live_watch watch;
};

/* region_stream.c ------------------------------------------------------------------ */

/* Puts a chunk of the current stream; remembers a failure in ->fatal. */
int braid_live_emit(struct braid_region_source *s, u16 type, const void *head, u32 head_bytes,
		    const void *body, u32 body_bytes);

/* Now, by the capture's clock. */
u64 braid_live_now_ns(const struct braid_region_source *s);

/* Puts the STREAM of the current incarnation. */
int braid_live_put_stream(struct braid_region_source *s);

/* Whether buffers[] is still what we act upon: to be asked behind a copy of a ring's bytes. */
bool braid_live_settled(const struct braid_region_source *s);

/* region_notes.c ------------------------------------------------------------------- */

/*
 * Tells the user, and the capture when a stream is open. Of more than BRAID_NOTES_A_SECOND the
 * rest is counted. Returns 0 or the capture's error.
 */
int braid_live_note(struct braid_region_source *s, const char *format, ...)
	__attribute__((__format__(printf, 2, 3)));

/* Notes how many were left out, once it may, or @now. Returns 0 or the capture's error. */
int braid_live_notes_poll(struct braid_region_source *s, bool now);

/* region_threads.c ----------------------------------------------------------------- */

/* The threads of the vCPUs, or the user is told that they are unknown. */
int braid_live_threads_begin(struct braid_region_source *s);

/* Those that came since. */
int braid_live_threads_poll(struct braid_region_source *s);

/* region_end.c --------------------------------------------------------------------- */

/*
 * The stream ends. While the recording goes on, what is left, a whole region perhaps, is
 * taken in our turns: no other guest waits for it.
 */
void braid_live_end_begin(struct braid_region_source *s, enum braid_region_phase phase,
			  enum braid_end_reason reason);

/* One of these turns, as braid_live_drain_end(); or -EFAULT. */
int braid_live_end_turn(struct braid_region_source *s);

/* The last one; takes all that is left if there were none. Returns 0 or the capture's error. */
int braid_live_end(struct braid_region_source *s);

/* Ends the stream when the region's memory is no longer its own. Returns 0 or the capture's error. */
int braid_live_cut(struct braid_region_source *s, enum braid_region_phase phase,
		   enum braid_end_reason reason);

/* region_end.c: what this thread has spent of its CPU. */
u64 braid_live_cpu_ns(void);

/* region_buffers.c: all under braid_guard_run() ----------------------------------- */

/* Attaches to every ring of a new stream. The capture's error, -ESTALE or -ENOMEM. */
int braid_live_attach(struct braid_region_source *s);

/*
 * Follows the buffers that came and lets go of those that go. @now: however often they changed
 * lately. Returns 0, -EAGAIN while they change, -ESTALE, or the capture's error.
 */
int braid_live_buffers(struct braid_region_source *s, bool now);

/* Lets go of the CLOSING buffers that are emptied. Returns 0 or the capture's error. */
int braid_live_close(struct braid_region_source *s);

/* region_rings.c: all under braid_guard_run() ------------------------------------- */

/* Adds a ring and becomes its reader, unless the guest reads it. */
int braid_live_ring_add(struct braid_region_source *s, u32 buffer, u32 vcpu);

/*
 * Becomes the reader of what the guest has let go of: of BRAID_TURN_RINGS rings, or of @all.
 * Returns 0 or the capture's error.
 */
int braid_live_ring_roles(struct braid_region_source *s, bool all);

/* Whether we are still a ring's reader. */
bool braid_live_ring_ours(const struct braid_live_ring *ring);

/* Somebody else took the ring: what we read of it is told. Returns 0 or the capture's error. */
int braid_live_ring_lose(struct braid_region_source *s, struct braid_live_ring *ring);

/* Leaves a ring alone that broke the rules. Returns 0 or the capture's error. */
int braid_live_ring_give_up(struct braid_region_source *s, struct braid_live_ring *ring,
			    enum braid_reader_fault fault, const char *why);

/* Puts a ring's RING_END and gives the role back. @walk: the ring is still there. */
int braid_live_ring_end(struct braid_region_source *s, struct braid_live_ring *ring, bool walk);

/* Gives the role back on every ring, for a recording that failed. */
void braid_live_ring_release(struct braid_region_source *s);

/* Puts each ring's RING_END. @walk: the rings are still there to be looked at. */
int braid_live_account(struct braid_region_source *s, bool walk);

/* All that a ring can hold, as it counts against a turn's bytes. */
s64 braid_live_ring_bytes(const struct braid_live_ring *ring);

/* Losses of the rings that are ours. */
u64 braid_live_lost(const struct braid_region_source *s);

/* A buffer's name, fit for a note. */
struct braid_live_name {
	char text[BRAID_NAME_BYTES];
};
struct braid_live_name braid_live_buffer_name(const struct braid_region_source *s, u32 buffer);

/* region_span.c -------------------------------------------------------------------- */

/* Whether some of a span lies before a mark; what does not is cut off. */
bool braid_live_cut_span(const struct braid_live_mark *mark, struct braid_span *span);

/* Events in the private copy of a span that is not its sub-buffer's last. */
s64 braid_live_count_copy(const struct braid_live_ring *ring, const struct braid_span *span,
			  const void *copy);

/* All before the start is skipped: our part begins. */
void braid_live_begin_window(struct braid_live_ring *ring);

/* Of what a final span says was dropped behind it: what was before the stop. */
u64 braid_live_dropped(const struct braid_live_ring *ring, const struct braid_span *span);

/* Splits a RING_END by start and stop; written, read, lost and left are filled in. */
void braid_live_split(const struct braid_region_source *s, const struct braid_live_ring *ring,
		      struct braid_chunk_ring_end *end);

/* region_window.c: all under braid_guard_run() ------------------------------------ */

/* Notes each ring's position as the recording's start. */
void braid_live_mark_start(struct braid_region_source *s);

/* Whether events are taken, or skipped, at all by now. */
static inline bool braid_live_takes(const struct braid_region_source *s)
{
	return !s->o.window || s->o.backlog || s->started;
}

/* Lets go of a span that lies before the start. Returns its bytes, or -EAGAIN. */
s64 braid_live_skip(struct braid_region_source *s, struct braid_live_ring *ring,
		    const struct braid_span *span);

/* region_drain.c: all under braid_guard_run() ------------------------------------- */

/*
 * Drains up to BRAID_TURN_BYTES of up to BRAID_TURN_RINGS rings; the next turn goes on behind
 * them, and IDLE is said when no ring has anything. @tails: the unfinished sub-buffers also, at once.
 * Returns enum braid_poll_result, -ESTALE (initialized anew) or the capture's error.
 */
int braid_live_drain(struct braid_region_source *s, bool tails);

/*
 * One turn of the last drain. Returns enum braid_poll_result, IDLE when all is taken; -ESTALE
 * or the capture's error.
 */
int braid_live_drain_end(struct braid_region_source *s);

/* Drains one last time, bounded however fast the guest writes. As braid_live_drain(). */
int braid_live_drain_rest(struct braid_region_source *s);

/*
 * Under the guard: with the turn's result, asks the guest to wake us, or not to. Returns the result:
 * where nobody was asked before, what came in between is looked for once more.
 */
int braid_live_wake(struct braid_region_source *s, int result);

/* Under the guard: nobody will be there to be woken. */
void braid_live_wake_not(struct braid_region_source *s);

/* region_flight.c ------------------------------------------------------------------ */

/* Under the guard: a flight recorder's stream begins. Returns 0 or the capture's error. */
int braid_live_flight_begin(struct braid_region_source *s);

/* Whether buffers are followed now: their rings are in rings[]. */
static inline bool braid_live_follows(const struct braid_region_source *s)
{
	return !s->o.clock_only && (!s->o.flight || s->taking);
}

/* region_watch.c: under the guard -------------------------------------------------- */

/* Looks at what was committed since. Returns enum braid_poll_result or the capture's error. */
int braid_live_watch_poll(struct braid_region_source *s);

/* Begins to look from here on. Returns 0 or -ENOMEM with braid_fail(). */
int braid_live_watch_reset(struct braid_region_source *s);

void braid_live_watch_free(struct braid_region_source *s);

/* region_clock.c ------------------------------------------------------------------- */

/* A new stream: finds out who can tell of its time. Returns 0 or the capture's error. */
int braid_live_clock_begin(struct braid_region_source *s);

/* Under the guard: exchanges a look with the guest. Returns 0 or the capture's error. */
int braid_live_clock_look(struct braid_region_source *s);

/* Under the guard: takes the guest's wall time. @now: also when it was taken a moment ago. */
int braid_live_clock_pair(struct braid_region_source *s, bool now);

/* Outside of it: puts what came in, and what KVM tells. @disarmed: no event will come any more. Returns 0 or the capture's error. */
int braid_live_clock_poll(struct braid_region_source *s, bool disarmed);

/* Whether there is a first crossing, or will be none soon: events may begin. */
bool braid_live_clock_ready(const struct braid_region_source *s);

/* Whether the burst behind the last event is over, or there will be none. */
bool braid_live_clock_idle(const struct braid_region_source *s);

/* The last of all that; the stream is still there. Returns 0 or the capture's error. */
int braid_live_clock_finish(struct braid_region_source *s);

/* Lets go of exchange and KVM. */
void braid_live_clock_end(struct braid_region_source *s);

/* region_tables.c: all under braid_guard_run() ------------------------------------ */

/* Forgets what was sent and makes room for a new stream's tables. */
int braid_live_tables_reset(struct braid_region_source *s);

/* Frees what is remembered of them. */
void braid_live_tables_free(struct braid_region_source *s);

/* Sends what is new. @now: even if it was looked at a moment ago. */
int braid_live_tables_send(struct braid_region_source *s, bool now);

/* region_control.c: all under braid_guard_run() ----------------------------------- */

/* Begins the list of commands again: a new stream. */
void braid_live_control_reset(struct braid_region_source *s);

/* Goes on with the commands. Returns 0 or -ESTALE, or the capture's error. */
int braid_live_control_poll(struct braid_region_source *s);

/* Skips what is left of the list but for its last command: all off. */
void braid_live_control_disarm(struct braid_region_source *s);

/* The recording stops: whether the guest has confirmed all of its events. Returns the capture's error. */
int braid_live_control_stop(struct braid_region_source *s);

/* Whether the list is at its end. */
bool braid_live_control_idle(const struct braid_region_source *s);

/* Moves our heartbeat, watches the guest's. Returns 0 or the capture's error. */
int braid_live_heartbeat(struct braid_region_source *s);

/* Moves the agent's heartbeat. Under the guard. */
void braid_live_beat(struct braid_region_source *s);

#endif /* BRAID_SOURCE_REGION_PRIVATE_H */
