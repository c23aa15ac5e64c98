/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A simple model of a ring: lists of events in pages, without words, wraps or sharing. */
#ifndef BRAID_TESTS_RING_MODEL_H
#define BRAID_TESTS_RING_MODEL_H

#include "shared/platform.h"

#define MODEL_EVENTS	2048
#define MODEL_PAGES	4096

struct model_event {
	u64 number;		/* among recorded events, from 0 */
	u64 time;
	u32 bytes;		/* of payload, as requested */
	bool stamp;		/* a TIME_STAMP precedes it ... */
	bool paired;		/* ... with an external time */
};

struct model_page {
	u32 first;		/* index of its first event */
	u32 entries;		/* recorded, visible or not */
	u32 visible;		/* committed, with all contexts around them */
	u32 used_bytes;
	u64 dropped;
	u64 first_seq;
	bool closed;		/* accepts no more events */
};

struct ring_model {
	u32 flags;
	bool stamped;		/* external time is known: a page begins with a stamp, where its first
				   event leaves room */
	u32 nr_slots;
	u32 data_bytes;		/* of a sub-buffer */
	u32 depth;		/* nested contexts */
	u32 base;		/* the first page of this layout */
	u32 tail;		/* the page being written */
	u32 published;		/* where the outermost context began, or ended */
	u64 offered;
	u64 last_time;
	u64 hint;		/* time of the last event that was not ordinary */
	u64 first_seq;
	u32 nr_events;
	/* the reader */
	bool in_hand;
	u32 hand;		/* the page held, or else the last one released */
	u32 taken;		/* events of it */
	bool opened;
	u64 read, lost, next_seq;
	bool delivered;		/* the last model_next() returned events */
	/* known to its successor */
	struct {
		u64 read, lost, next_seq;
		u32 hand, taken;
		bool known;	/* hand and taken are of this layout */
	} reported;
	struct model_event events[MODEL_EVENTS];
	struct model_page pages[MODEL_PAGES];
};

/* What a reader must be given. */
struct model_span {
	const struct model_event *events;	/* all of the page */
	u32 from, nr;
	u64 seq;				/* of event @from */
	bool final;
	u64 lost_before;
	u64 dropped;
};

struct model_look {
	u32 page;
	u32 from;
};

void model_init(struct ring_model *m, u32 flags, bool stamped, u64 first_seq, u64 now);
void model_lay_out(struct ring_model *m, u32 nr_slots, u32 data_bytes, u64 now);
bool model_full(const struct ring_model *m);

/* A context begins and ends; in between it tries until its event is recorded or dropped. */
void model_enter(struct ring_model *m);
void model_leave(struct ring_model *m);

/* The state that a try sees before it reads the counter. */
struct model_tail {
	u32 page;
	u32 used_bytes;
	bool closed;
};

enum model_verdict { MODEL_AGAIN, MODEL_TAKEN, MODEL_DROPPED };

struct model_tail model_tail(const struct ring_model *m);
enum model_verdict model_try(struct ring_model *m, const struct model_tail *seen, bool first,
			     u32 bytes, u64 now, struct model_event *taken);

/* The reader's life. */
void model_attach(struct ring_model *m);
int model_next(struct ring_model *m, struct model_span *span);
void model_done(struct ring_model *m, const struct model_span *span);

/* A look at all unread events. */
void model_look_begin(const struct ring_model *m, struct model_look *look);
bool model_look_next(const struct ring_model *m, struct model_look *look, struct model_span *span);

/* Offered, neither read nor lost: including drops after a page that is still open. */
u64 model_left(const struct ring_model *m);

#endif /* BRAID_TESTS_RING_MODEL_H */
