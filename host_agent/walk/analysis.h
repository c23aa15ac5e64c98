/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs an analysis over a trace. */
#ifndef BRAID_WALK_ANALYSIS_H
#define BRAID_WALK_ANALYSIS_H

#include <stdio.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/analyze/flame.h"
#include "host_agent/analyze/windows.h"
#include "host_agent/walk/options.h"

/**
 * braid_analysis_write - run an analysis, and write its results
 * @to: the output
 * @source: complete
 * @options: of the walk: from and to limit the time that results are about, and all events are
 *	taken nevertheless, since what came before explains a state; progress and stop as usual.
 *	Other members are ignored
 * @analysis: the analysis
 * @wants: its own options; must stay valid
 *
 * Return: 0, -EPIPE when the reader is gone, or -errno with braid_fail().
 */
int braid_analysis_write(FILE *to, struct braid_source *source,
			 const struct braid_walk_options *options,
			 const struct braid_analysis *analysis,
			 const struct braid_analysis_options *wants);

/**
 * braid_analysis_flame - the stacks of the analysis 'profile' as a tree
 * @source: complete; rewound afterwards
 * @options: as for braid_analysis_write(); also the guest, the CPU, and where symbols are
 * @most: frames; the narrowest of further ones are combined
 * @out: zeroed; no frames: nothing that is selected has samples. braid_flame_free() it in any case
 *
 * Does not report faults of the source. Return: 0, or -errno with braid_fail().
 */
int braid_analysis_flame(struct braid_source *source, const struct braid_walk_options *options,
			 u32 most, struct braid_flame *out);

/**
 * braid_analysis_diff - compare two traces, and write the differences
 * @other: what @source is compared with; complete
 * @of_other: of its walk, as @options
 * @wants: ->compares says what is compared
 *
 * Other parameters and return as braid_analysis_write().
 */
int braid_analysis_diff(FILE *to, struct braid_source *source,
			const struct braid_walk_options *options, struct braid_source *other,
			const struct braid_walk_options *of_other,
			const struct braid_analysis_options *wants);

/**
 * braid_analysis_judge - hold all events of guests against the times in which their vCPUs executed
 * @source: complete; rewound afterwards
 * @options: as for braid_analysis_write()
 * @take: called for each guest
 * @arg: passed to it
 *
 * Does not report faults of the source. @take is not called if the host recorded no kvm events.
 *
 * Return: 0, or -errno with braid_fail(), also @take's.
 */
int braid_analysis_judge(struct braid_source *source, const struct braid_walk_options *options,
			 int (*take)(void *arg, struct braid_stream *stream,
				     const struct braid_windows_found *found), void *arg);

/** braid_analysis_not_judged - why no event of a guest could be judged; NULL: some were */
const char *braid_analysis_not_judged(const struct braid_windows_found *found);

/**
 * braid_analysis_refine - make the exchange's clocks tighter by kvm_entry and kvm_exit
 * @source: complete; rewound afterwards
 * @options: as for braid_analysis_write()
 *
 * A clock that such events contradict, or do not make tighter, is left alone, and its reason says so.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_analysis_refine(struct braid_source *source, const struct braid_walk_options *options);

#endif /* BRAID_WALK_ANALYSIS_H */
