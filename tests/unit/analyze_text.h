/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The output of analyses of the trace in memory (memory_trace.h), and what it must contain. */
#ifndef BRAID_TESTS_ANALYZE_TEXT_H
#define BRAID_TESTS_ANALYZE_TEXT_H

#include "host_agent/walk/analysis.h"

/*
 * An analysis with options, of which .top is set to 3 if it is 0; free it. NULL: it failed, as
 * *err.
 */
char *analyze_with(const char *name, struct braid_analysis_options wants, int *err);

/* The same of an analysis that need not be in the list. */
char *analyze_by(const struct braid_analysis *analysis, struct braid_analysis_options wants,
		 int *err);

/* As analyze_with(); it must not fail. */
char *analyze_text(const char *name, enum braid_table_form form, bool by_task);

/* All of the strings, up to NULL, are in it; frees it. */
void text_has(char *text, ...);

#endif /* BRAID_TESTS_ANALYZE_TEXT_H */
