/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that moved between hosts. It is one stream, whose rings have the pages of all captures.
 * What is not the guest's own, as its clock and threads on a host, is in a part for each further
 * host.
 */
#ifndef BRAID_TRACE_CAPTURE_STAYS_H
#define BRAID_TRACE_CAPTURE_STAYS_H

#include "host_agent/trace/capture_private.h"

#define BRAID_MAX_VISITS	64u	/* of one guest */

/* What a recorder saw of a guest's counter: a STREAM of a file. */
struct braid_capture_visit {
	u32 file, number;
	struct braid_capture_stream *part;
	u64 nr;				/* samples; the least and the greatest counter of them: */
	u64 first_counter, last_counter;
	u64 first_h2_ns, last_h1_ns;	/* by that host's clock: it was there by then, and then */
};

/* Guests that have one incarnation, but are several. */
struct braid_capture_apart {
	struct braid_capture_twin {
		u64 incarnation;
		u8 boot_id[16];
	} *items;
	size_t nr, capacity;
	bool all;			/* on each host, any guest is its own */
};

/*
 * capture_visits.c: the place of an incarnation among the guests. *there: it is known already, from
 * another capture, perhaps of another host.
 */
size_t braid_capture_find_guest(const struct braid_capture_source *cs, enum braid_stream_kind kind,
				const struct braid_superblock *sb, bool *there);

/* Adds a guest there; at most BRAID_MAX_STREAMS pointers move. Return: 0 or -ENOMEM. */
int braid_capture_add_guest(struct braid_capture_source *cs, size_t place,
			    struct braid_capture_stream *s);

/* A STREAM of the file that is read is of a guest that others also have. Return: 0 or -ENOMEM. */
int braid_capture_add_visit(struct braid_capture_stream *s, u32 number);

/* A part of it by another host than its first one's, new. NULL: out of memory. */
struct braid_capture_stream *braid_capture_add_part(struct braid_capture_stream *s);

/* The part by the host of the file that is read: where all belongs that is not the guest's own. */
struct braid_capture_stream *braid_capture_part_here(struct braid_capture_stream *s);

/* Samples of a STREAM of it. */
void braid_capture_note_visit(struct braid_capture_stream *s, u32 number,
			      const struct braid_round_trip *samples, size_t nr);

/* Streams of several hosts may have one name: puts their names after its first @plain bytes. */
void braid_capture_name_at(struct braid_stream *s, size_t plain, const char *hosts);

/*
 * capture_stays.c: finds when guests were where, once the hosts' clocks are tied. Return: 0; 1:
 * some are several: ->twins; -ENOMEM.
 */
int braid_capture_find_stays(struct braid_capture_source *cs);

/* A stream and its parts are placed: makes one of them. Return: 0 or -ENOMEM. */
int braid_capture_settle_stays(struct braid_capture_stream *s);

/* Moves a cursor to the stay of a counter's value. Return: whether that is a later one. */
bool braid_capture_move(struct braid_capture_ring *ring, u64 counter);

/* Then converts it, by the clock of the host where it was. @taken_ns: of the page */
struct braid_clock_time braid_capture_convert_moved(struct braid_capture_ring *ring, u64 counter,
						    u64 taken_ns, bool adrift);

/*
 * When a part's host (NULL: any) had taken the cursor's page; BRAID_TAKEN_UNKNOWN: another one took
 * it.
 */
u64 braid_capture_taken_by(const struct braid_capture_ring *ring, const struct braid_stream *part,
			   u64 taken_ns);

/* The end of a ring's stream, by the clock of the host where it ended; the cursor is there then. */
u64 braid_capture_last_end(struct braid_capture_ring *ring);

#endif /* BRAID_TRACE_CAPTURE_STAYS_H */
