/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A ring told plainly: lists of events in pages, no words, no wraps, no sharing. */
#ifndef BRAID_TESTS_RING_MODEL_H
#define BRAID_TESTS_RING_MODEL_H

#include "shared/platform.h"

#define MODEL_EVENTS	2048
#define MODEL_PAGES	4096

struct model_event {
	u64 number;		/* of those taken, from 0 */
	u64 time;
	u32 bytes;		/* of payload, as asked for */
	bool stamp;		/* it has a TIME_STAMP in front of it ... */
	bool paired;		/* ... that has an external time */
};

struct model_page {
	u32 first;		/* index of its first event */
	u32 entries;		/* taken, visible or not */
	u32 visible;		/* committed, with all that nested around them */
	u32 used_bytes;
	u64 dropped;
	u64 first_seq;
	bool closed;		/* takes nothing more */
};

struct ring_model {
	u32 flags;
	bool stamped;		/* external time is known: a page begins with a stamp, where its first
				   event leaves room */
	u32 nr_slots;
	u32 data_bytes;		/* of a sub-buffer */
	u32 depth;		/* contexts inside */
	u32 base;		/* the first page of this layout */
	u32 tail;		/* the page being written */
	u32 published;		/* the outermost context entered at this page, or left there */
	u64 offered;
	u64 last_time;
	u64 hint;		/* time of the last event that was not ordinary */
	u64 first_seq;
	u32 nr_events;
	/* the reader */
	bool in_hand;
	u32 hand;		/* page in hand; not in hand: the last one, given back */
	u32 taken;		/* events of it */
	bool opened;
	u64 read, lost, next_seq;
	bool delivered;		/* the last model_next() gave something */
	/* what its successor will know */
	struct {
		u64 read, lost, next_seq;
		u32 hand, taken;
		bool known;	/* hand and taken are of this layout */
	} told;
	struct model_event events[MODEL_EVENTS];
	struct model_page pages[MODEL_PAGES];
};

/* What a reader must get. */
struct model_span {
	const struct model_event *events;	/* the page's, from its first */
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

/* A context comes and goes; in between it tries, until its event is taken or dropped. */
void model_enter(struct ring_model *m);
void model_leave(struct ring_model *m);

/* What a try sees before it reads the counter. */
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

/* A look at all that is unread. */
void model_look_begin(const struct ring_model *m, struct model_look *look);
bool model_look_next(const struct ring_model *m, struct model_look *look, struct model_span *span);

/* Offered, neither read nor lost: dropped ones behind a page that is still open. */
u64 model_left(const struct ring_model *m);

#endif /* BRAID_TESTS_RING_MODEL_H */
