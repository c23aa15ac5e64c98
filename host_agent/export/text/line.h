/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the line-by-line exports share: writing, and the heads of streams. */
#ifndef BRAID_EXPORT_TEXT_LINE_H
#define BRAID_EXPORT_TEXT_LINE_H

#include <stdio.h>

#include "host_agent/export/text/columns.h"
#include "host_agent/util/text.h"
#include "host_agent/walk/walk.h"

struct braid_line_ops;

/* A line-by-line export under way. */
struct braid_line_export {
	struct braid_walk walk;
	const struct braid_line_ops *ops;
	FILE *to;
	struct braid_text out;		/* text not yet written to @to */
	bool waits;			/* @out is written as a whole: a part's */
	struct braid_columns *columns;
	void *parts;			/* of the form, by the columns' streams and types; zeroed at first */

	/* Of a source that grows: */
	u32 generation;			/* that the columns are of */
	size_t nr_streams;		/* that were there then */
	u64 hidden;			/* lines that were not written, since the last one that was */
	s64 written_ns;			/* host time of that */
};

/* How one form writes each thing; each appends whole lines to x->out. */
struct braid_line_ops {
	void (*header)(struct braid_line_export *x);
	void (*event)(struct braid_line_export *x, const struct braid_item *item,
		      const struct braid_event_type_info *info);
	void (*lost)(struct braid_line_export *x, const struct braid_item *item);
	void (*note)(struct braid_line_export *x, const struct braid_item *item);
	void (*footer)(struct braid_line_export *x);
	/*
	 * For a growing source: a new stream; later lines are earlier in time; x->hidden lines are
	 * missing
	 */
	void (*grown)(struct braid_line_export *x, const struct braid_stream *stream);
	void (*late)(struct braid_line_export *x, u64 ns);
	void (*hidden)(struct braid_line_export *x);
	/* Frees x->parts; NULL: the form has none. */
	void (*forget)(struct braid_line_export *x);
};

/* The accounting of a stream: the sum over its rings, of the recording alone. */
struct braid_stream_sum {
	bool known;		/* each ring's end was reported */
	u64 written;
	u64 read;
	u64 lost;
	u64 left;
};

/**
 * braid_line_run - run a line-by-line export
 * @ops: its form
 * Other parameters and return as braid_export_text().
 */
int braid_line_run(const struct braid_line_ops *ops, FILE *to, struct braid_source *source,
		   const struct braid_walk_options *options,
		   struct braid_walk_totals *totals);

/** braid_line_misses_clock - whether a stream's clock is not of the kind that was asked for */
bool braid_line_misses_clock(const struct braid_line_export *x, const struct braid_stream *stream);

/**
 * braid_line_faults - what the walk found wrong in a stream
 * @back: set: of those, events whose time goes back
 *
 * With --since both are 0: it depends on the index what was read before that.
 */
u64 braid_line_faults(const struct braid_line_export *x, const struct braid_stream *stream,
		      u64 *back);

/** braid_line_put_lost - append a line's text about a loss */
void braid_line_put_lost(struct braid_text *t, const struct braid_item *item);

/** braid_json_string - append @key, which ends in a colon, and an untrusted string as a JSON string */
void braid_json_string(struct braid_text *t, const char *key, const char *value);

/** braid_json_u64 - append @key, which ends in a colon, and a number */
static inline void braid_json_u64(struct braid_text *t, const char *key, u64 value)
{
	braid_text_puts(t, key);
	braid_text_number(t, value);
}

/** braid_json_kind - "host", "guest", or "vm": a guest without the driver */
const char *braid_json_kind(const struct braid_stream *s);

/** braid_json_vcpus - append ,"vcpus":[...]: the threads of a guest's vCPUs */
void braid_json_vcpus(struct braid_text *t, const struct braid_stream *s);

/** braid_json_head - append the data known before the first item, as lines of JSON */
void braid_json_head(struct braid_line_export *x);

/** braid_json_foot - likewise the data known after the last */
void braid_json_foot(struct braid_line_export *x);

#define BRAID_LINE_UNSTABLE	"the guest's kernel has marked its TSC unstable"
#define BRAID_LINE_UNSTABLE_BOUNDS	": the error bounds may be wrong"
#define BRAID_LINE_UNCONFIRMED	"did not confirm the event change; it may have traced its former set"

/** braid_line_put_windows - append from when to when was recorded, a line for each recording */
void braid_line_put_windows(struct braid_text *t, const struct braid_walk *w);

/** braid_line_put_account - append a stream's accounting, without an end of line */
void braid_line_put_account(struct braid_text *t, const struct braid_stream *stream);

/** braid_json_windows - the same as braid_line_put_windows(), as a member of an object */
void braid_json_windows(struct braid_text *t, const struct braid_walk *w);

/** braid_json_account - likewise as braid_line_put_account(); omitted if unknown */
void braid_json_account(struct braid_text *t, const struct braid_stream *stream);

/** braid_stream_sum_up - add a stream's rings up */
struct braid_stream_sum braid_stream_sum_up(const struct braid_stream *stream);

/** braid_end_reason_name - why a stream ended, as a word; NULL when unknown */
const char *braid_end_reason_name(const struct braid_stream *stream);

#endif /* BRAID_EXPORT_TEXT_LINE_H */
