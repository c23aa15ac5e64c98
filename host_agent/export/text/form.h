/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The forms "text" and "json": a line for each item; see docs/format.md for what a line of JSON has. */
#ifndef BRAID_EXPORT_TEXT_FORM_H
#define BRAID_EXPORT_TEXT_FORM_H

#include <stdio.h>

#include "host_agent/walk/options.h"

/**
 * braid_export_text - lines for people
 * @to: the output
 * @source: rewound
 * @options: the selection
 * @totals: filled
 *
 * Return: 0, -EPIPE when the reader is gone, -errno with braid_fail().
 */
int braid_export_text(FILE *to, struct braid_source *source,
		      const struct braid_walk_options *options,
		      struct braid_walk_totals *totals);

/**
 * braid_export_json - one JSON object a line, for programs; else as braid_export_text()
 */
int braid_export_json(FILE *to, struct braid_source *source,
		      const struct braid_walk_options *options,
		      struct braid_walk_totals *totals);

#endif /* BRAID_EXPORT_TEXT_FORM_H */
