/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Metrics for Prometheus: its text format 0.0.4, OpenMetrics 1.0.0, or messages of protobuf, each
 * after its length (io.prometheus.client.MetricFamily), which alone have native histograms.
 *
 * A family's samples follow each other. Values of times are exact decimal fractions of a second.
 * Label values are escaped; they are UTF-8. No two samples of a family have the same labels: the
 * caller sees to that. In protobuf, values are doubles.
 */
#ifndef BRAID_ONLINE_EXPOSITION_H
#define BRAID_ONLINE_EXPOSITION_H

#include "host_agent/util/text.h"

enum braid_exposition_type {
	BRAID_COUNTER, BRAID_GAUGE, BRAID_HISTOGRAM, BRAID_INFO,
};

enum braid_exposition_form {
	BRAID_EXPOSITION_TEXT, BRAID_EXPOSITION_OPEN, BRAID_EXPOSITION_PROTOBUF,
};

/* Zeroed but for the first two. */
struct braid_exposition {
	struct braid_text *out;
	enum braid_exposition_form form;
	const char *name;	/* of the family */
	enum braid_exposition_type type;
	bool labels;		/* the sample has some */
	size_t family, sample;	/* in protobuf: where the messages began; 0: none */
};

/* Counts of durations. */
struct braid_exposition_histogram {
	const u64 *limits_ns, *counts;	/* of each bucket alone; one more has what is longer */
	u32 nr_limits;
	u64 nr, sum_ns;
	const u64 *natives;		/* BRAID_NATIVE_BUCKETS, likewise */
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

/** braid_exposition_sample - begin a sample, but of a histogram */
void braid_exposition_sample(struct braid_exposition *e);

/** braid_exposition_label - add a label to the sample; any value */
void braid_exposition_label(struct braid_exposition *e, const char *key, const char *value);

/** braid_exposition_label_number - likewise */
void braid_exposition_label_number(struct braid_exposition *e, const char *key, u64 value);

/** braid_exposition_number - end the sample */
void braid_exposition_number(struct braid_exposition *e, u64 value);

/** braid_exposition_ns - likewise, in seconds; UINT64_MAX: +Inf */
void braid_exposition_ns(struct braid_exposition *e, u64 ns);

/** braid_exposition_durations - a whole sample of a histogram, with one label */
void braid_exposition_durations(struct braid_exposition *e, const char *key, const char *value,
				const struct braid_exposition_histogram *h);

/** braid_exposition_end - after the last family */
void braid_exposition_end(struct braid_exposition *e);

#endif /* BRAID_ONLINE_EXPOSITION_H */
