/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's tables: its event directory, comms, symbols and stacks, as far as they are in the
 * capture.
 *
 * - Each entry is sent once, and again when it was changed. Of a comm that changes often, some
 *   states may be missed.
 * - Entries are copied, then checked to belong to the stream's incarnation, then put.
 * - A directory grows, and reuses entries of removed events; its generation changes with either. A
 *   damaged one is sent up to the damage and not read again.
 * - The number of entries looked at is bounded, whatever the guest claims.
 * - Functions that take the stream run under braid_guard_run().
 */
#ifndef BRAID_LIVE_TABLES_H
#define BRAID_LIVE_TABLES_H

#include "host_agent/live/stream.h"
#include "host_agent/transport/directory.h"

/* The parts of the region's tables already sent. Zeroed: none. */
struct braid_live_tables {
	u32 directory_bytes;
	u64 directory_generation;
	u64 directory_reused;		/* nr_reused as of then */
	bool directory_damaged;
	bool directory_read;		/* once: what comes later is new */
	bool more_events;		/* came after the first load; cleared by the lifecycle */
	struct braid_directory_copy directory;	/* being sent; here, since a SIGBUS may end that */
	u32 *comm_seqs;		/* as sent, by entry */
	u32 nr_comms;
	u64 comm_generation;
	u64 comms_ns;		/* when names were last taken */
	u32 nr_symbols;		/* sent */
	u32 stacks_first;	/* the table's, for which the following holds */
	u32 nr_stacks;		/* slots of which all are sent */
	u32 next_stack;		/* slot to look at in the next turn; 0: the first unsent one */
	u32 stacks_room;	/* slots; 0: there is no table */
	u8 *stacks_sent;	/* by slot */
	u64 incarnation;	/* in which, before we came, ... */
	u64 stacks_missed;	/* ... so many were, by the guest's account */
};

/* Resets the state and prepares for a new stream's tables. */
int braid_live_tables_reset(struct braid_live_tables *t, struct braid_live_stream *s);

/* Sends new entries. @now: even if checked shortly before. */
int braid_live_tables_send(struct braid_live_tables *t, struct braid_live_stream *s, bool now);

/* Notes how many stacks the guest could not store since the stream began, if any. */
int braid_live_tables_note_missed(const struct braid_live_tables *t, struct braid_live_stream *s);

/* Frees their state. */
void braid_live_tables_free(struct braid_live_tables *t);

#endif /* BRAID_LIVE_TABLES_H */
