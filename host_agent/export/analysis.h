/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs an analysis over a trace. */
#ifndef BRAID_EXPORT_ANALYSIS_H
#define BRAID_EXPORT_ANALYSIS_H

#include "host_agent/analyze/analysis.h"
#include "host_agent/analyze/windows.h"
#include "host_agent/export/export.h"

/**
 * braid_export_analysis - run an analysis, and write its results
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
int braid_export_analysis(FILE *to, struct braid_source *source,
			  const struct braid_export_options *options,
			  const struct braid_analysis *analysis,
			  const struct braid_analysis_options *wants);

/**
 * braid_export_comparison - compare two traces, and write the differences
 * @other: what @source is compared with; complete
 * @of_other: of its walk, as @options
 * @wants: ->compares says what is compared
 *
 * Other parameters and return as braid_export_analysis().
 */
int braid_export_comparison(FILE *to, struct braid_source *source,
			    const struct braid_export_options *options, struct braid_source *other,
			    const struct braid_export_options *of_other,
			    const struct braid_analysis_options *wants);

/**
 * braid_export_windows - hold all events of guests against the times in which their vCPUs executed
 * @source: complete; rewound afterwards
 * @options: as for braid_export_analysis()
 * @take: called for each guest
 * @arg: passed to it
 *
 * Does not report faults of the source. @take is not called if the host recorded no kvm events.
 *
 * Return: 0, or -errno with braid_fail(), also @take's.
 */
int braid_export_windows(struct braid_source *source, const struct braid_export_options *options,
			 int (*take)(void *arg, struct braid_stream *stream,
				     const struct braid_windows_found *found), void *arg);

/** braid_export_not_judged - why no event of a guest could be judged; NULL: some were */
const char *braid_export_not_judged(const struct braid_windows_found *found);

/**
 * braid_export_refine - make the exchange's clocks tighter by kvm_entry and kvm_exit
 * @source: complete; rewound afterwards
 * @options: as for braid_export_analysis()
 *
 * A clock that such events contradict, or do not make tighter, is left alone, and its reason says so.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_export_refine(struct braid_source *source, const struct braid_export_options *options);

#endif /* BRAID_EXPORT_ANALYSIS_H */
