/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Metrics as text for Prometheus: its format 0.0.4, or OpenMetrics 1.0.0.
 *
 * A family's samples follow each other. Values of times are exact decimal fractions of a second.
 * Label values are escaped; they are UTF-8. No two samples of a family have the same labels: the
 * caller sees to that.
 */
#ifndef BRAID_ONLINE_EXPOSITION_H
#define BRAID_ONLINE_EXPOSITION_H

#include "host_agent/util/text.h"

enum braid_exposition_type {
	BRAID_COUNTER, BRAID_GAUGE, BRAID_HISTOGRAM, BRAID_INFO,
};

/* Zeroed but for the first two. */
struct braid_exposition {
	struct braid_text *out;
	bool open;		/* OpenMetrics */
	const char *name;	/* of the family */
	enum braid_exposition_type type;
	bool labels;		/* the sample has some */
};

/**
 * braid_exposition_family - begin a family
 * @e: the text
 * @name: without "_total" and "_info"; ends with its unit, if that is "_seconds" or "_bytes"; must
 *	stay valid
 * @type: of it
 * @help: a sentence, without backslash and newline
 */
void braid_exposition_family(struct braid_exposition *e, const char *name,
			     enum braid_exposition_type type, const char *help);

/** braid_exposition_sample - begin a sample; @suffix: of a histogram: "_bucket", ...; else NULL */
void braid_exposition_sample(struct braid_exposition *e, const char *suffix);

/** braid_exposition_label - add a label to the sample; any value */
void braid_exposition_label(struct braid_exposition *e, const char *key, const char *value);

/** braid_exposition_label_number - likewise */
void braid_exposition_label_number(struct braid_exposition *e, const char *key, u64 value);

/** braid_exposition_label_ns - likewise, of a time: "0.0005", "1.0" */
void braid_exposition_label_ns(struct braid_exposition *e, const char *key, u64 ns);

/** braid_exposition_number - end the sample */
void braid_exposition_number(struct braid_exposition *e, u64 value);

/** braid_exposition_ns - likewise, in seconds; UINT64_MAX: +Inf */
void braid_exposition_ns(struct braid_exposition *e, u64 ns);

/** braid_exposition_end - after the last family */
void braid_exposition_end(struct braid_exposition *e);

#endif /* BRAID_ONLINE_EXPOSITION_H */
