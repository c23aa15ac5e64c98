/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A capture's report as a string, or exported. */
#ifndef BRAID_TESTS_REPORT_TEXT_H
#define BRAID_TESTS_REPORT_TEXT_H

#include "host_agent/walk/options.h"

/* The complete text; free() it. @options, @totals: NULL: none. */
char *report_text(const char *capture, bool json, const struct braid_walk_options *options,
		  struct braid_walk_totals *totals);

/* What an exporter to a file or folder returns for one capture. */
int export_capture(int (*form)(const char *, struct braid_source *, const struct braid_walk_options *,
			       struct braid_walk_totals *), const char *capture,
		   const char *out, const struct braid_walk_options *options, struct braid_walk_totals *totals);

/* The number of times that a string is in a text. */
u32 count_of(const char *text, const char *what);

#endif /* BRAID_TESTS_REPORT_TEXT_H */
