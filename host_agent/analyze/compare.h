/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two captures side by side: what differs, and by more than chance.
 *
 * Each capture is divided into bins of equal length. A measure is a ratio of two sums over a
 * capture, such as stolen time of all vCPU time; how much it varies from bin to bin says how
 * far two captures of the same cause may differ.
 */
#ifndef BRAID_ANALYZE_COMPARE_H
#define BRAID_ANALYZE_COMPARE_H

#include "host_agent/analyze/analysis.h"

#define BRAID_COMPARE_BINS	40u	/* at most; at least half as many from 40 ms on */

/* What is measured: of each guest, */
enum braid_measure_kind {
	BRAID_MEASURE_TIME = 0,	/* a whole: observed vCPU time, in ns */
	BRAID_MEASURE_WOKEN,	/* a whole, and a rate: waits after a wakeup, a number */
	BRAID_MEASURE_STATE,	/* time in a state, of TIME */
	BRAID_MEASURE_CULPRIT,	/* time stolen by a culprit, of TIME */
	BRAID_MEASURE_WAIT,	/* waiting after a wakeup, in ns, of WOKEN */
	BRAID_MEASURE_EXITS,	/* kvm_exit, a number, of TIME */
	BRAID_MEASURE_REASON,	/* the same, for each reason */
};

struct braid_measure_key {
	enum braid_measure_kind kind;
	u32 stream;		/* the guest's */
	u64 id;			/* a state, a reason, a culprit's thread or guest, ... */
	enum braid_culprit_kind culprit;
};

struct braid_measure {
	struct braid_measure_key key;
	u64 of[BRAID_COMPARE_BINS];
};

/* The measures of one capture: the state of braid_analysis_compare. */
struct braid_measures {
	const struct braid_states *s;
	struct braid_analysis_options o;
	s64 begin_ns;
	u64 width_ns;		/* of a bin; doubled when the bins are used up */
	u32 nr_bins;
	struct braid_measure *all;
	size_t nr, capacity;
	struct braid_hash by_key;	/* numbers in all */
};

/* Collects measures; options.compares says which. It is not one of braid_analysis_by_number(). */
extern const struct braid_analysis braid_analysis_compare;

/* difference.c ------------------------------------------------------------------------------ */

/* A measure of a capture, and how far it is from that of an endless recording. */
struct braid_estimate {
	double ratio;
	double variance;	/* of ratio; negative: unknown, there are too few bins */
	u32 nr;			/* bins */
};

/**
 * braid_estimate_of - a ratio of sums, and its variance
 * @part: of each bin
 * @whole: likewise; bins in which it is 0 are not counted
 * @nr: bins
 */
struct braid_estimate braid_estimate_of(const u64 *part, const u64 *whole, u32 nr);

/**
 * braid_interval_of - half of the 99 % confidence interval of a difference (Welch's t)
 * @a: an estimate
 * @b: of another capture
 *
 * Return: the half width, in units of the ratios; negative: unknown.
 */
double braid_interval_of(const struct braid_estimate *a, const struct braid_estimate *b);

/**
 * braid_chance_of - the probability of such a difference, or a larger one, without a cause (Welch's t)
 * @a: an estimate
 * @b: of another capture
 *
 * Return: 0 to 1; negative: unknown.
 */
double braid_chance_of(const struct braid_estimate *a, const struct braid_estimate *b);

/* comparison.c ------------------------------------------------------------------------------ */

/**
 * braid_comparison_write - write the differences of two captures
 * @now: measures of a capture, at its end
 * @other: of the one that it is compared with
 * @out: extended
 *
 * Return: 0, or -ENOENT with braid_fail(): no guest is in both.
 */
int braid_comparison_write(struct braid_measures *now, struct braid_measures *other,
			   struct braid_text *out);

#endif /* BRAID_ANALYZE_COMPARE_H */
