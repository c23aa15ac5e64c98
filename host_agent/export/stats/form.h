/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The forms "stats" and "stats.json": counts, times and losses. */
#ifndef BRAID_EXPORT_STATS_FORM_H
#define BRAID_EXPORT_STATS_FORM_H

#include <stdio.h>

#include "host_agent/walk/options.h"

/**
 * braid_export_stats - statistics for people: events, CPUs, tasks, vCPUs; else as
 * braid_export_text()
 */
int braid_export_stats(FILE *to, struct braid_source *source,
		       const struct braid_walk_options *options,
		       struct braid_walk_totals *totals);

/** braid_export_stats_json - the same as one JSON object; else as braid_export_text() */
int braid_export_stats_json(FILE *to, struct braid_source *source,
			    const struct braid_walk_options *options,
			    struct braid_walk_totals *totals);

#endif /* BRAID_EXPORT_STATS_FORM_H */
