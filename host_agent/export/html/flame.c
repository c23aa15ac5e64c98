// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes the frames of a profile; page/flame.js draws them. */
#include "host_agent/export/html/flame.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/analysis.h"

#define MOST_FRAMES	(1u << 15)	/* one is some bytes of the page */

enum { PARENT, NAME, OWN, COMBINED, NAMES, COLUMNS };

static int html_flame_put_columns(struct braid_html_out *out, const struct braid_flame *f,
				  struct braid_text columns[COLUMNS])
{
	size_t k;

	for (k = 0; k < f->nr; k++) {
		const struct braid_flame_frame *frame = &f->frames[k];

		braid_html_put(&columns[PARENT], frame->parent == BRAID_FLAME_ROOT ? 0 :
			       (u64)frame->parent + 1);
		braid_html_put(&columns[NAME], frame->name);
		braid_html_put(&columns[OWN], frame->own_ns);
		braid_html_put(&columns[COMBINED], frame->nr_combined);
	}
	for (k = 0; k < f->nr_names; k++) {
		braid_html_put(&columns[NAMES], f->names[k].bytes);
		braid_text_put(&columns[NAMES], f->texts.data + f->names[k].at, f->names[k].bytes);
	}
	return braid_html_out_columns(out, "flame", f->nr, columns, COLUMNS);
}

int braid_html_flame_put(struct braid_html_out *out, struct braid_source *source,
			 const struct braid_walk_options *options)
{
	struct braid_text columns[COLUMNS] = { 0 };
	struct braid_flame flame = { 0 };
	int err = braid_analysis_flame(source, options, MOST_FRAMES, &flame);
	size_t k;

	if (!err && flame.nr)
		err = html_flame_put_columns(out, &flame, columns);
	for (k = 0; k < COLUMNS; k++)
		braid_text_free(&columns[k]);
	braid_flame_free(&flame);
	return err;
}
