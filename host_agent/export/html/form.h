/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The form "html": one page with its data and the program that shows it. */
#ifndef BRAID_EXPORT_HTML_FORM_H
#define BRAID_EXPORT_HTML_FORM_H

#include <stdio.h>

#include "host_agent/walk/options.h"

/** braid_export_html - a page that shows all by itself; as braid_export_run() */
int braid_export_html(const char *out, struct braid_source *source,
		      const struct braid_walk_options *options,
		      struct braid_walk_totals *totals);

#endif /* BRAID_EXPORT_HTML_FORM_H */
