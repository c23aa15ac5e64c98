/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host's clocks other than the file's, sampled throughout a recording. */
#ifndef BRAID_CLOCK_SYNC_SAMPLER_H
#define BRAID_CLOCK_SYNC_SAMPLER_H

#include "host_agent/capture/capture.h"

struct braid_sampler;

/**
 * braid_sampler_check - whether times of a trace clock can be converted to the file's clock
 * @trace_clock: as named by tracefs' trace_clock
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_sampler_check(const char *trace_clock);

/**
 * braid_sampler_open - prepare to sample
 * @out: set on success
 * @trace_clock: of the host's trace, checked by braid_sampler_check(); NULL: none
 * @stats: a per_cpu/cpuN/stats of the tracefs instance whose clock it is; may be NULL
 *	without @trace_clock
 *
 * Samples the host's raw counter, if the host itself uses it for timekeeping; CLOCK_REALTIME; and
 * @trace_clock, unless it is the file's clock.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_sampler_open(struct braid_sampler **out, const char *trace_clock, const char *stats);

/**
 * braid_sampler_turn - take the samples that are due, put them as HOST_CLOCK
 * @s: the sampler
 * @capture: the output
 * @last: all are due
 *
 * For a loop that turns every few ms: it needs no wake-up.
 *
 * Return: 0, or -errno with braid_fail() (the capture's).
 */
int braid_sampler_turn(struct braid_sampler *s, struct braid_capture_writer *capture, bool last);

/** braid_sampler_close - free, before the instance is removed; NULL is fine */
void braid_sampler_close(struct braid_sampler *s);

#endif /* BRAID_CLOCK_SYNC_SAMPLER_H */
