/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ring's protocol for spin: one vCPU's nesting contexts write, one reader takes sub-buffers,
 * either side dies at any step. run.sh searches it; docs/ring.md argues it in words.
 *
 * Labels have the names of the C functions that they stand for. One step is one access that another
 * context, the peer or a successor could see; steps on words that no one else can change
 * meanwhile are merged, and a comment there says why.
 *
 *   model                      C
 *   -------------------------  ---------------------------------------------------------------
 *   slot[]                     map.slots: {position, state, id}
 *   sub[].position,bytes,fin   states[].commit: {position, final, bytes}
 *   sub[].first, dropped, ..   states[].first_seq, dropped, entries
 *   sub[].data                 the sub-buffer's events; a cell is 8 bytes, the smallest event
 *   block[], block_index       priv->reader_block[2], reader_index
 *   tail_at, tail_off          w->tail: position (its low bits only), place, BRAID_PLACE_CLOSED
 *   position                   w->position
 *   nest, pending              w->nest: contexts inside, BRAID_NEST_PENDING
 *   tail_epoch                 w->tail: stamp, as far as a jump of the counter shows in it
 *   seq_base                   w->seq_base (and priv->written, its copy)
 *   bound[]                    w->pages[].origin, state, as set by bind_page()
 *   end[], entries[], drops[]  w->pages[].end_bytes, entries, dropped
 *
 *   Below, static functions are without their prefix: claim() is braid_writer_claim().
 *
 *   Context: reserve, again    braid_ring_try_reserve(), braid_writer_reserve()  ring.h, ring_writer.c
 *            advance           braid_writer_advance()        ring_writer.c
 *            claim, claimed    claim(), bind_page() and the rest of braid_writer_advance()
 *            drop              braid_writer_drop()           ring_writer.c
 *            commit            braid_ring_try_commit()       ring.h
 *            publish           braid_writer_publish()        ring_writer.c
 *            publish_to        publish_to(), begin_next()    ring_writer.c
 *   Reader:  attach            braid_reader_attach(), find_spare(), load_block()  ring_reader.c
 *            next              braid_reader_next()           ring_reader.c
 *            take              take_subbuf()                 ring_reader.c
 *            look_in_hand      look_in_hand(), open_page()   ring_reader.c
 *            deliver           the caller's use of a span: copy it to where it is kept
 *            done              braid_reader_done()           ring_reader.c
 *            close_page, PERSIST  close_page(), persist()    ring_reader.c
 *   Looker:                    braid_peek_begin() .. _next() .. copy .. braid_peek_valid()
 *   init                       braid_writer_init(), init_shared()
 *
 * What must hold:
 *   no torn read        a cell not yet written, or being reused, is POISON and never delivered
 *   order, exact stamp  a reservation's counter is read with nothing reserved before it goes in
 *   jumps               a sub-buffer's events are of one stretch between two jumps back of the counter
 *   exact numbers       an event's sequence number counts all events before it, drops included
 *   once                so two deliveries of an event have one number, and the keeper drops one
 *   accounting          read + lost + dropped after the tail's last event = written, at the end
 *   nothing waits       turns of every loop are bounded, whatever the peer does or does not do
 *   nest == 0           on return implies pending == 0 and that all reserved is published
 *   drained             the last reader gets all that was committed
 *
 * Not modelled: stamps' encoding, hint, padding, header's commit, priv->written, meta's counters
 * (no decision depends on them); a hostile peer (tests/unit); memory order (all steps are
 * sequentially consistent; the barriers' table is in docs/ring.md).
 */

/* Shape ------------------------------------------------------------------------ */

#ifndef N
#define N		2	/* slots, a power of two */
#endif
#ifndef CELLS
#define CELLS		1	/* of data per sub-buffer */
#endif
#ifndef OVERWRITE
#define OVERWRITE	1	/* BRAID_BUFFER_OVERWRITE; 0: producer/consumer */
#endif
#ifndef TASK
#define TASK		2	/* events that each context offers */
#endif
#ifndef IRQ
#define IRQ		2
#endif
#ifndef NMI
#define NMI		0
#endif
#ifndef JUMPS
#define JUMPS		0	/* how often the counter jumps back */
#endif
#ifndef READER_DEATHS
#define READER_DEATHS	0
#endif
#ifndef WRITER_DEATH
#define WRITER_DEATH	0
#endif

#define ALL		(TASK + IRQ + NMI)
#define POSITIONS	16	/* stands for 2^42 */
#define TAIL_POSITIONS	(2 * N)	/* stands for 2^16: the tail knows only low bits */
#define FIRST		(POSITIONS - 2)	/* every position wraps in the run */
#define FIRST_SEQ	254	/* sequence numbers wrap too */
#define CHASE		2	/* CHASE_TRIES, small enough to be reached */
#define TURNS		(2 * ALL + 2 + 2 * JUMPS)	/* more turns than this are a wait */

#define EMPTY		0
#define CLAIMED		1
#define OPEN		2
#define CLOSED		15
#define NOWHERE		255	/* a block of another incarnation */
#define POISON		255

#define WRAP(p)		((p) % POSITIONS)
#define DIFF(a, b)	(((a) + POSITIONS - (b)) % POSITIONS)
#define AHEAD(a, b)	(DIFF(a, b) != 0 && DIFF(a, b) < POSITIONS / 2)
#define SEQ_AHEAD(a, b)	((((a) + 256 - (b)) & 255) != 0 && (((a) + 256 - (b)) & 255) < 128)

/* Shared memory ------------------------------------------------------------------- */

typedef slot_word { byte position; byte state; byte id }
typedef sub_buffer {
	byte position; byte bytes; bit fin;	/* the commit word: always set in one step */
	byte first; byte dropped; byte entries;
	byte data[CELLS]			/* 0: an event's second cell */
}
typedef reader_words { byte position; byte bytes; byte next_seq; byte read; byte lost }

slot_word slot[N];
sub_buffer sub[N + 1];
reader_words block[2];
bit block_index;

/* The guest's own ------------------------------------------------------------------- */

byte tail_at, tail_off, tail_epoch;
byte position, nest, seq_base;
bit pending;
byte bound[N], end[N], entries[N], drops[N];

/* Ground truth: what really happened ------------------------------------------------------ */

byte reserved;			/* reserved events: numbers them, and is the clock ... */
byte epoch;			/* ... with this many jumps */
byte epoch_of[N];		/* of the events in the sub-buffer */
byte closed_at[N];		/* reserved, when the sub-buffer closed */
byte published;			/* events that a commit word covers */
byte dropped_at[POSITIONS];	/* drops by position */
byte dropped, dropped_final;	/* of which published as after a final sub-buffer */
byte overwritten;		/* unread events that a claim overwrote */
byte delivered;			/* distinct events that the keeper has */
byte keeper_seq;		/* the keeper's next */
byte top;			/* the context that runs; those above it may interrupt */
byte contexts;			/* not yet at their end */
bit writer_dead, reader_killed, over;

#define QUIET		(writer_dead || contexts == 0)
#ifdef LATE_READER		/* no look until the writer is at its end */
#define READER_BEGAN	QUIET
#else
#define READER_BEGAN	1
#endif

/* Writer ---------------------------------------------------------------------------------- */

#define SAME(s, p, st, i)	(s.position == p && s.state == st && s.id == i)

inline count_overwritten(which, cell)
{
	cell = 0;
	do
	:: cell < CELLS ->
		if
		:: sub[which].data[cell] != 0 && sub[which].data[cell] != POISON -> overwritten++
		:: else
		fi;
		cell++
	:: else -> break
	od
}

inline poison(which, cell)
{
	cell = 0;
	do
	:: cell < CELLS -> sub[which].data[cell] = POISON; cell++
	:: else -> break
	od;
	cell = 0
}

/*
 * A context: 1 is the task, the next ones irq and NMI. It runs unless a higher one is running.
 * nest + 1 and nest - 1 are one step each: a context between load and store leaves nest as
 * it found it.
 */
proctype Context(byte left)
	provided (over || (_pid >= top && !reader_killed && !writer_dead))
{
	byte was, cells, at, off, now, mine, to, s_pos, s_state, id, tries, turns, k;
	byte at_epoch, its_epoch;
	bit ok;

	{
	skip;				/* spin does not allow a label first in a block */
idle:
	if
	:: left == 0 -> goto finished
	:: d_step { left > 0 -> left--; was = top; top = _pid; cells = 1 }
#ifdef MIXED			/* events of one cell and of two */
	:: d_step { left > 0 -> left--; was = top; top = _pid; cells = 2 }
#endif
	fi;

reserve:
	nest++;
again:
#ifdef BUG_counter_before_tail
	now = reserved;
#endif
	atomic {
		at = tail_at; off = tail_off; at_epoch = tail_epoch;
		turns++;
		assert(turns <= TURNS);
		if
		:: off + cells > CELLS -> goto advance
		:: else
		fi
	}
#ifndef BUG_counter_before_tail
#if JUMPS
	atomic {			/* counter(), braid_writer_plan_stamp() */
		now = reserved; its_epoch = epoch;
#ifndef BUG_jump_stays
		if
		:: its_epoch != at_epoch && off != 0 -> now = 0; goto advance
		:: else
		fi
#endif
	}
#else
	now = reserved;			/* counter() */
#endif
#endif
	atomic {			/* braid_local_cas(): reserves, and installs the stamp */
		if
		:: tail_at == at && tail_off == off ->
			assert(now == reserved);
#if JUMPS
			assert(its_epoch >= tail_epoch);
			assert(off == 0 || epoch_of[at % N] == its_epoch);
			epoch_of[at % N] = its_epoch; tail_epoch = its_epoch;
#endif
			tail_off = off + cells;
			reserved++;
			mine = reserved; now = 0
		:: else -> now = 0; goto again
		fi
	}
	entries[at % N]++;		/* braid_local_inc() */
#ifdef BUG_commit_before_data
	goto commit;
#endif
write:
	/* Loads of pages[] before the store: bound[] of an unpublished position is constant. */
	atomic {
		id = bound[at % N];
		assert(sub[id].data[off] == POISON);
		if
		:: cells == 2 -> sub[id].data[off + 1] = 0
		:: else
		fi;
		sub[id].data[off] = mine; id = 0
	}
#ifdef BUG_commit_before_data
	goto left_ring;
#else
	goto commit;
#endif

advance:
	if
	:: off != CLOSED ->
		atomic {		/* braid_local_cas(): no one else reserves here */
			if
			:: tail_at == at && tail_off == off ->
				tail_off = CLOSED; closed_at[at % N] = reserved
			:: else -> goto again
			fi
		}
		end[at % N] = off;
		off = CLOSED
	:: else
	fi;
	/* The guard's position can't move during this context, so it is one step with the load. */
	atomic {
		to = WRAP(position + (at + TAIL_POSITIONS - position % TAIL_POSITIONS) % TAIL_POSITIONS + 1);
#ifdef BUG_guard_by_slot		/* "is the sub-buffer in the slot published?": the reader may have it */
		if
		:: slot[to % N].state != EMPTY && DIFF(to, position) >= N -> goto drop
		:: else
		fi;
#else
		if
		:: DIFF(to, position) >= N -> goto drop
		:: else
		fi;
#endif
		s_pos = slot[to % N].position; s_state = slot[to % N].state; id = slot[to % N].id
	}
claim:
	atomic {
		if
		:: s_pos == to -> goto claimed
		:: else ->
			assert(s_pos == DIFF(to, N) && s_state != CLAIMED);	/* BRAID_RING_BAD_SLOT */
			assert(tries < 3);					/* BRAID_RING_RESTLESS */
			if
			:: !OVERWRITE && s_state == OPEN -> goto drop
			:: else
			fi
		fi
	}
	atomic {			/* (S2) */
		if
#ifdef BUG_claim_any_position
		:: slot[to % N].state == s_state && slot[to % N].id == id ->
#else
		:: SAME(slot[to % N], s_pos, s_state, id) ->
#endif
			d_step {
				if
				:: s_state == OPEN -> count_overwritten(id, k)
				:: else
				fi;
				slot[to % N].position = to; slot[to % N].state = CLAIMED;
				s_pos = to; s_state = CLAIMED;
				poison(id, k)
			}
		:: else ->
			s_pos = slot[to % N].position; s_state = slot[to % N].state;
			id = slot[to % N].id;
			tries++;
			goto claim
		fi
	}
claimed:
	if
	:: s_state == CLAIMED ->
		bound[to % N] = id;	/* bind_page() */
#ifndef BUG_no_clear
		d_step { sub[id].position = to; sub[id].bytes = 0; sub[id].fin = 0 }
#endif
		d_step {		/* (S3) */
			if
			:: SAME(slot[to % N], to, CLAIMED, id) -> slot[to % N].state = OPEN
			:: else
			fi
		}
	:: else
	fi;
	d_step {			/* braid_local_cas(): moves the tail */
		if
		:: tail_at == at && tail_off == CLOSED ->
			tail_at = to % TAIL_POSITIONS; tail_off = 0
		:: else
		fi;
		to = 0; s_pos = 0; s_state = 0; id = 0; tries = 0
	}
	goto again;

drop:
	atomic {			/* braid_local_inc() */
#ifdef BUG_drop_in_wrong_page
		drops[position % N]++;
#else
		drops[at % N]++;
#endif
		dropped_at[DIFF(to, 1)]++;
		dropped++;
		to = 0; s_pos = 0; s_state = 0; id = 0; tries = 0
	}
	goto publish;

commit:
	/* nest, position and pages[] are constant during this context: one step with the store. */
	atomic {
#ifdef BUG_fast_though_nested
		if
		:: pending || at != position % TAIL_POSITIONS -> goto publish
		:: else
		fi;
#else
		if
		:: nest != 1 || pending || at != position % TAIL_POSITIONS -> goto publish
		:: else
		fi;
#endif
		d_step {		/* (C1) */
			id = bound[position % N];
			assert(sub[id].position == position && !sub[id].fin);
			assert(published <= mine);
			sub[id].bytes = off + cells;
			published = mine;
			id = 0
		}
	}
	d_step { nest--; ok = nest == 0 && !pending }
	if
	:: ok -> ok = 0; goto left_ring
	:: else
	fi;
	nest++;

publish:
	if				/* nest is ours: nested contexts restore it */
	:: nest == 1 -> goto outermost
	:: else
	fi;
	pending = 1;
	nest--;
	goto left_ring;
outermost:
	pending = 0;
	turns++;
	assert(turns <= TURNS);
	d_step { to = position; s_pos = tail_at; s_state = tail_off; k = reserved }
	/* publish_to(): to is its position, s_pos and s_state its tail */
publish_to:
	/* seq_base, entries[] of final ones: only the outermost context's, that is, ours. */
	atomic { id = bound[to % N]; sub[id].dropped = drops[to % N] }
	if
	:: to % TAIL_POSITIONS != s_pos ->
		d_step {		/* begin_next(): words that no one reads yet */
			now = bound[WRAP(to + 1) % N];
			sub[now].first = (seq_base + entries[to % N] + drops[to % N]) & 255;
			sub[now].dropped = 0;
			now = 0
		}
		sub[id].entries = entries[to % N]
	:: else
	fi;
#ifdef BUG_guard_moves_early
	if
	:: to % TAIL_POSITIONS != s_pos -> position = WRAP(to + 1)
	:: else
	fi;
#endif
	d_step {			/* (C1) */
		assert(sub[id].position == to && !sub[id].fin);
		if
		:: to % TAIL_POSITIONS != s_pos ->
			sub[id].bytes = end[to % N]; sub[id].fin = 1;
			assert(published <= closed_at[to % N]);
			published = closed_at[to % N];
			dropped_final = dropped_final + sub[id].dropped
		:: else ->
			sub[id].bytes = (s_state == CLOSED -> end[to % N] : s_state);
			assert(published <= k);
			published = k
		fi
	}
#ifdef BUG_guard_moves_early
	if
	:: to % TAIL_POSITIONS == s_pos -> position = to; goto published_all
	:: else
	fi;
#else
	position = to;			/* the overrun guard follows */
	if
	:: to % TAIL_POSITIONS == s_pos -> goto published_all
	:: else
	fi;
#endif
#ifdef BUG_zero_late			/* a nested context can already use the index for another */
	seq_base = (seq_base + entries[to % N] + drops[to % N]) & 255;
	position = WRAP(to + 1);
	d_step { entries[to % N] = 0; drops[to % N] = 0 }
#else
	seq_base = (seq_base + entries[to % N] + drops[to % N]) & 255;
	d_step { entries[to % N] = 0; drops[to % N] = 0 }	/* the guard still keeps the index ours */
#endif
	to = WRAP(to + 1);
	goto publish_to;
published_all:
	atomic { nest--; ok = !pending }
#ifndef BUG_no_pending_look
	if
	:: ok -> ok = 0; goto left_ring
	:: else
	fi;
	nest++;
	goto outermost;
#endif

left_ring:
#ifdef BUG_commit_before_data
	if
	:: mine != 0 && sub[bound[at % N]].data[off] == POISON -> goto write
	:: else
	fi;
#endif
	atomic {
		assert(nest != 0 || !pending);
		assert(nest != 0 || published == reserved);
		assert(nest != 0 ||
		       sub[bound[tail_at % N]].dropped == drops[tail_at % N]);
		at = 0; off = 0; now = 0; mine = 0; to = 0; s_pos = 0; s_state = 0; id = 0;
		turns = 0; tries = 0; cells = 0; k = 0; at_epoch = 0; its_epoch = 0;
		top = was; was = 0
	}
	goto idle
	} unless { over };
finished:
	atomic { contexts-- }
}

/* Reader ------------------------------------------------------------------------------------ */

/* persist(): into the half not in use, in pieces, then the index */
inline PERSIST()
{
#ifdef BUG_persist_in_place
	half = block_index;
#else
	half = 1 - block_index;
#endif
	d_step { block[half].position = pos; block[half].bytes = taken };
	d_step { block[half].next_seq = next_seq; block[half].read = read; block[half].lost = lost };
	d_step {
		block_index = half;
		/* The other half is never read again: its content makes no separate states. */
		block[1 - half].position = NOWHERE; block[1 - half].bytes = 0;
		block[1 - half].next_seq = 0; block[1 - half].read = 0; block[1 - half].lost = 0;
		half = 0
	}
}

proctype Reader()
{
	byte pos, id, taken, next_seq, first, read, lost;	/* struct braid_reader */
	bit in_hand, opened;
	byte bytes, span_entries, span_dropped, events, s_pos, s_state, s_id, tries, k, v, want;
	bit fin, half, quiet;

	READER_BEGAN;
attach:
	{
	/* find_spare(): no writer's step changes the set of ids, so the sum may be taken slowly */
	atomic { id = N * (N + 1) / 2; k = 0 }
	do
	:: k < N -> d_step { id = id - slot[k].id; k++ }
	:: else -> break
	od;
	/* load_block(): only readers write it, and no other is alive */
	atomic {
		k = 0;
		next_seq = block[block_index].next_seq;
		read = block[block_index].read; lost = block[block_index].lost
	}
	atomic {
#ifdef BUG_position_from_block
		if
		:: block[block_index].position != NOWHERE -> pos = block[block_index].position
		:: else -> pos = sub[id].position
		fi;
#else
		pos = sub[id].position;
#endif
		in_hand = 1;
		if
		:: block[block_index].position == pos -> taken = block[block_index].bytes
		:: else
		fi
	}

next:
	atomic {
		quiet = QUIET;		/* must find all committed before this call */
		tries = 0;
		if
		:: in_hand -> goto look_in_hand
		:: else
		fi
	}
take:
	atomic {
		if
		:: tries == N + CHASE -> s_pos = 0; goto nothing	/* the writer laps faster */
		:: else -> tries++
		fi;
		s_pos = slot[pos % N].position; s_state = slot[pos % N].state; s_id = slot[pos % N].id;
		if
		:: s_pos == pos ->
			assert(s_state != EMPTY);	/* BRAID_READER_BAD_SLOT */
			if
			:: s_state == CLAIMED -> goto nothing
			:: else
			fi
		:: s_pos != pos && AHEAD(s_pos, pos) ->
			pos = WRAP(s_pos + POSITIONS - N + 1);	/* lapped */
			s_pos = 0; s_state = 0; s_id = 0;
			goto take
		:: s_pos != pos && !AHEAD(s_pos, pos) -> goto nothing
		fi
	}
	atomic {			/* (S2) */
		if
#ifdef BUG_take_by_store
		:: 1 ->
#else
		:: SAME(slot[pos % N], pos, OPEN, s_id) ->
#endif
#ifdef BUG_take_by_store
			slot[pos % N].position = pos;
#endif
			slot[pos % N].state = EMPTY; slot[pos % N].id = id;
			id = s_id; in_hand = 1;
			s_pos = 0; s_state = 0; s_id = 0
#ifndef BUG_take_by_store
		:: else -> s_pos = 0; s_state = 0; s_id = 0; goto take
#endif
		fi
	}
look_in_hand:
	atomic {			/* (C1) */
		bytes = sub[id].bytes; fin = sub[id].fin;
		assert(sub[id].position == pos && bytes >= taken);	/* BRAID_READER_BAD_COMMIT */
		if
		:: bytes == taken && !fin -> goto nothing
		:: else
		fi
	}
	if
	:: !opened ->			/* open_page() */
		d_step {
			first = sub[id].first;
			opened = 1;
			if
			:: SEQ_AHEAD(first, next_seq) ->
				lost = lost + ((first + 256 - next_seq) & 255);
				next_seq = first
			:: else
			fi
		}
	:: else
	fi;
	if
	:: fin ->
		span_entries = sub[id].entries;
		span_dropped = sub[id].dropped;
		assert(span_entries <= bytes)	/* BRAID_READER_BAD_COUNT */
	:: else
	fi;
	if
	:: bytes == taken -> goto close_page
	:: else
	fi;
#ifdef ABANDON				/* the caller may read a span without consuming it */
	if
	:: goto nothing
	:: skip
	fi;
#endif
#ifdef BUG_persist_before_delivery	/* record it as consumed, then consume it */
	d_step {
		v = (fin -> span_entries - ((next_seq + 256 - first) & 255) : bytes - taken);
		want = taken; taken = bytes; read = read + v; next_seq = (next_seq + v) & 255
	}
	PERSIST();
	d_step {
		taken = want; read = read - v; next_seq = (next_seq + 256 - v) & 255;
		v = 0; want = 0
	}
#endif

deliver:
	atomic { events = 0; k = taken }
	do
	:: k < bytes ->
		d_step {
			v = sub[id].data[k];
			assert(v != POISON);
			if
			:: v != 0 ->
				/* its number: all reserved before it, dropped before its page */
				want = FIRST_SEQ + v - 1;
				s_pos = FIRST;
				do
				:: s_pos != pos -> want = want + dropped_at[s_pos]; s_pos = WRAP(s_pos + 1)
				:: else -> break
				od;
				assert(((next_seq + events) & 255) == (want & 255));
				if
				:: !SEQ_AHEAD(keeper_seq, want & 255) -> delivered++; keeper_seq = (want + 1) & 255
				:: else	/* from a reader that died before it could record that */
				fi;
				events++
			:: else
			fi;
			k++; v = 0; s_pos = 0; want = 0
		}
	:: else -> break
	od;
done:
	atomic {
		/* braid_reader_span_events() */
		assert(!fin || events == span_entries - ((next_seq + 256 - first) & 255));
		taken = bytes;
		next_seq = (next_seq + events) & 255;
		read = read + events;
		k = 0; events = 0
	}
	if
	:: fin -> goto close_page
	:: else
	fi;
	PERSIST();
	d_step { bytes = 0 };
	goto next;

close_page:
	atomic {
		v = (first + span_entries + span_dropped) & 255;
		if
		:: SEQ_AHEAD(v, next_seq) ->
			lost = lost + ((v + 256 - next_seq) & 255);
			next_seq = v
		:: else
		fi;
		v = 0; in_hand = 0; opened = 0
	}
	PERSIST();
	d_step {
		pos = WRAP(pos + 1); taken = 0;
		first = 0; bytes = 0; fin = 0; span_entries = 0; span_dropped = 0; s_pos = 0
	}
	/* look_in_hand() returned -EAGAIN or a span is done: either way the next turn takes. */
	goto next;

nothing:
	if
	:: quiet -> goto drained
	:: else
	fi;
	d_step {
		bytes = 0; fin = 0; span_entries = 0; span_dropped = 0;
		s_pos = 0; s_state = 0; s_id = 0; tries = 0
	}
	goto next;

drained:
#ifdef ABANDON
	if
	:: bytes != taken -> goto next
	:: else
	fi;
#endif
	atomic {
		assert(next_seq == ((FIRST_SEQ + read + lost) & 255));
		assert(read == delivered);
		assert(read + overwritten == published);
		assert(lost == overwritten + dropped_final);
		assert(OVERWRITE || overwritten == 0);
		if
		:: !writer_dead ->
			assert(in_hand && nest == 0);
			assert(published == reserved && reserved + dropped == ALL);
			/* left: drops after the tail, which is not final */
			assert(read + lost + sub[id].dropped == ALL)
		:: else
		fi;
		over = 1; reader_killed = 0
	}
	} unless { reader_killed && !over };
	if
	:: over -> goto ended
	:: else
	fi;
	d_step {
		pos = 0; id = 0; taken = 0; next_seq = 0; first = 0; read = 0; lost = 0;
		in_hand = 0; opened = 0; bytes = 0; span_entries = 0; span_dropped = 0; events = 0;
		s_pos = 0; s_state = 0; s_id = 0; tries = 0; k = 0; v = 0; want = 0; fin = 0; half = 0;
		quiet = 0;
		reader_killed = 0
	}
	goto attach;
ended:
	skip
}

/* Death ------------------------------------------------------------------------------------- */

proctype Death() provided (!reader_killed)
{
	byte deaths;

	do
	:: d_step { deaths < READER_DEATHS && READER_BEGAN && !over -> deaths++; reader_killed = 1 }
#if WRITER_DEATH
	:: d_step { !writer_dead && contexts && !over -> writer_dead = 1 }
#endif
	:: over -> break
	od
}

#if JUMPS
proctype Clock() provided (!reader_killed)
{
	do
	:: d_step { epoch < JUMPS && !over -> epoch++ }
	:: over -> break
	od
}
#endif

#ifdef PEEK
/* One look without changes, at the hand or at one slot, at any time. */
proctype Looker() provided (!reader_killed)
{
	byte id, pos, bytes, k, n;
	bit hand, torn;

	d_step { id = N * (N + 1) / 2; k = 0 }
	if
	:: hand = 1;			/* braid_peek_begin(): find_spare(), its commit word */
		do
		:: k < N -> d_step { id = id - slot[k].id; k++ }
		:: else -> break
		od;
		if
		:: id > N -> goto ended	/* the reader swapped meanwhile: -EBADMSG, or below */
		:: else
		fi;
		pos = sub[id].position
	:: k = 0; goto slot_of
	:: k = 1; goto slot_of
	fi;
	goto span;
slot_of:				/* braid_peek_next() */
	atomic {
		pos = slot[k].position; id = slot[k].id;
		if
		:: slot[k].state != OPEN -> goto ended
		:: else
		fi
	}
span:					/* peek_span() */
	atomic {
		bytes = sub[id].bytes;
		if
		:: sub[id].position != pos -> goto ended
		:: else
		fi
	}
	n = 0;
	do
	:: n < bytes ->
		d_step {
			if
			:: sub[id].data[n] == POISON -> torn = 1
			:: else
			fi;
			n++
		}
	:: else -> break
	od;
	/* braid_peek_valid() */
#ifndef BUG_peek_without_commit
	if
	:: sub[id].position != pos -> goto ended
	:: else
	fi;
#endif
#ifndef BUG_peek_without_slot
	if
	:: !hand && !SAME(slot[pos % N], pos, OPEN, id) -> goto ended
	:: else
	fi;
#endif
	assert(!torn);
ended:
	skip
}
#endif

init {
	byte k, p;

	d_step {
		k = 0;
		do
		:: k <= N ->
			p = (k < N -> DIFF(WRAP(FIRST + k), N) : DIFF(FIRST, 1));
			sub[k].position = p; sub[k].fin = 1; sub[k].first = FIRST_SEQ;
			poison(k, nest);
			if
			:: k < N ->
				slot[p % N].position = p; slot[p % N].state = EMPTY; slot[p % N].id = k;
				bound[p % N] = k
			:: else
			fi;
			k++
		:: else -> break
		od;
		sub[0].position = FIRST; sub[0].fin = 0;
		slot[FIRST % N].position = FIRST; slot[FIRST % N].state = OPEN;
		position = FIRST; tail_at = FIRST % TAIL_POSITIONS; seq_base = FIRST_SEQ;
		keeper_seq = FIRST_SEQ;
		block[0].position = NOWHERE; block[0].next_seq = FIRST_SEQ;
		block[1].position = NOWHERE;
		k = 0; p = 0;
		contexts = 1 + (IRQ > 0) + (NMI > 0)
	}
	atomic {
		run Context(TASK);
#if IRQ
		run Context(IRQ);
#endif
#if NMI
		run Context(NMI);
#endif
		run Reader();
		run Death();
#if JUMPS
		run Clock();
#endif
#ifdef PEEK
		run Looker()
#endif
	}
}
