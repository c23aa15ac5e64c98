/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The form "perfetto": a trace of protobuf packets, encoded here. */
#ifndef BRAID_EXPORT_PERFETTO_FORM_H
#define BRAID_EXPORT_PERFETTO_FORM_H

#include <stdio.h>

#include "host_agent/walk/options.h"

/**
 * braid_export_perfetto - Perfetto's trace format, for ui.perfetto.dev; as braid_export_text()
 *
 * Times are the host's clock's; with @options->realtime Perfetto is set to show wall time.
 */
int braid_export_perfetto(FILE *to, struct braid_source *source,
			  const struct braid_walk_options *options,
			  struct braid_walk_totals *totals);

#endif /* BRAID_EXPORT_PERFETTO_FORM_H */
