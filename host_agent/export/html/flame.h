/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The flame graph of a page. */
#ifndef BRAID_EXPORT_HTML_FLAME_H
#define BRAID_EXPORT_HTML_FLAME_H

#include "host_agent/export/html/out.h"
#include "host_agent/walk/options.h"

/**
 * braid_html_flame_put - write the stacks of the analysis 'profile' as a chunk of columns
 * @out: gets the columns: parent + 1, 0: none; name; own ns; how many frames are combined; and the
 *	names: bytes and text of each. Nothing, if the selected part of the trace has no samples
 * @source: rewound, also afterwards
 * @options: of the page
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_html_flame_put(struct braid_html_out *out, struct braid_source *source,
			 const struct braid_walk_options *options);

#endif /* BRAID_EXPORT_HTML_FLAME_H */
