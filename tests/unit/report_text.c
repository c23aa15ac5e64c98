// SPDX-License-Identifier: GPL-2.0-or-later
/* A capture's report as a string, or exported. */
#include <string.h>

#include "host_agent/export/text/form.h"
#include "host_agent/trace/source.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"

char *report_text(const char *capture, bool json, const struct braid_walk_options *options,
		  struct braid_walk_totals *totals)
{
	static const struct braid_walk_options plain;
	struct braid_walk_totals ignored;
	struct braid_source *source;
	char *names[] = { (char *)capture }, *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	NEED(to && !braid_source_open_captures(&source, names, 1, NULL));
	NEED(!(json ? braid_export_json : braid_export_text)(to, source, options ?: &plain,
							     totals ?: &ignored));
	fclose(to);
	braid_source_free(source);
	return text;
}

int export_capture(int (*form)(const char *, struct braid_source *, const struct braid_walk_options *,
			       struct braid_walk_totals *), const char *capture,
		   const char *out, const struct braid_walk_options *options, struct braid_walk_totals *totals)
{
	char *names[] = { (char *)capture };
	struct braid_source *source;
	int err;

	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	err = form(out, source, options, totals);
	braid_source_free(source);
	return err;
}

u32 count_of(const char *text, const char *what)
{
	u32 n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}
