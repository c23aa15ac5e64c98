// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs analyses on the trace in memory. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/analyze_text.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"

char *analyze_by(const struct braid_analysis *analysis, struct braid_analysis_options wants,
		 int *err)
{
	static const struct braid_walk_options options;
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	NEED(to);
	wants.top = wants.top ? wants.top : 3;
	memory_guest.nr_cpus = 1;
	braid_source_rewind(&memory_source);
	*err = braid_analysis_write(to, &memory_source, &options, analysis, &wants);
	fclose(to);
	if (!*err)
		return text;
	free(text);
	return NULL;
}

char *analyze_with(const char *name, struct braid_analysis_options wants, int *err)
{
	return analyze_by(braid_analysis_by_name(name), wants, err);
}

char *analyze_text(const char *name, enum braid_table_form form, bool by_task)
{
	struct braid_analysis_options wants = { .form = form, .by_task = by_task };
	int err;
	char *text = analyze_with(name, wants, &err);

	NEED(!err);
	return text;
}

void text_has(char *text, ...)
{
	const char *what;
	va_list args;

	NEED(text);
	va_start(args, text);
	while ((what = va_arg(args, const char *)))
		if (!strstr(text, what)) {
			fprintf(stderr, "no '%s' in:\n%s\n", what, text);
			NEED(!"it is missing");
		}
	va_end(args);
	free(text);
}
