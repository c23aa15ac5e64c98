/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The forms "trace.dat" and "trace.dat-v6": trace-cmd's files, one a stream; see docs/trace-dat.md. */
#ifndef BRAID_EXPORT_TRACE_DAT_FORM_H
#define BRAID_EXPORT_TRACE_DAT_FORM_H

#include "host_agent/walk/options.h"

/** braid_export_trace_dat - trace.dat of version 7, as struct braid_export_form's run() */
int braid_export_trace_dat(const char *out, struct braid_source *source,
			   const struct braid_walk_options *options,
			   struct braid_walk_totals *totals);

/** braid_export_trace_dat_v6 - of version 6 */
int braid_export_trace_dat_v6(const char *out, struct braid_source *source,
			      const struct braid_walk_options *options,
			      struct braid_walk_totals *totals);

#endif /* BRAID_EXPORT_TRACE_DAT_FORM_H */
