// SPDX-License-Identifier: GPL-2.0-or-later
/* A capture's report as a string. */
#include <string.h>

#include "host_agent/export/text/form.h"
#include "host_agent/store/source.h"
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

u32 count_of(const char *text, const char *what)
{
	u32 n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}
