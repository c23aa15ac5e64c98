/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The exponential buckets of Prometheus' native histograms. */
#ifndef BRAID_ONLINE_NATIVE_H
#define BRAID_ONLINE_NATIVE_H

#include "tracebraid/types.h"

#define BRAID_NATIVE_SCHEMA	2		/* 2^2 buckets for each power of two */
#define BRAID_NATIVE_ZERO	9.5367431640625e-07	/* 2^-20 s: the zero bucket's limit */
#define BRAID_NATIVE_FIRST	(-79)		/* the bucket after that */
#define BRAID_NATIVE_BUCKETS	177u		/* the zero bucket, and up to 2^24 s, half a year */

/**
 * braid_native_bucket - find the bucket of a duration
 *
 * Return: k, the first bucket whose limit, 2^((k - 80) / 4) s, is not less; the last one has what
 * is longer, too. It is bucket BRAID_NATIVE_FIRST - 1 + k of the schema, but 0 is the zero bucket.
 */
u32 braid_native_bucket(u64 ns);

#endif /* BRAID_ONLINE_NATIVE_H */
