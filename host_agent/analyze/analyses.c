// SPDX-License-Identifier: GPL-2.0-or-later
/* The list of all analyses. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

static const struct braid_analysis *const analyses[] = {
	&braid_analysis_summary, &braid_analysis_states, &braid_analysis_steal,
	&braid_analysis_stalls, &braid_analysis_exits, &braid_analysis_wake,
	&braid_analysis_profile,
};

#define NR	(sizeof(analyses) / sizeof(analyses[0]))

const struct braid_analysis *braid_analysis_by_number(size_t number)
{
	return number < NR ? analyses[number] : NULL;
}

const struct braid_analysis *braid_analysis_by_name(const char *name)
{
	struct braid_text_near near = { .word = name };
	char names[BRAID_ANALYSIS_NAMES];
	size_t k;

	for (k = 0; k < NR; k++) {
		if (!strcmp(analyses[k]->name, name))
			return analyses[k];
		braid_text_nearer(&near, analyses[k]->name);
	}
	if (near.nearest)
		braid_fail(-EINVAL, "unknown analysis '%.63s'; did you mean '%s'?", name, near.nearest);
	else
		braid_fail(-EINVAL, "unknown analysis '%.63s': expected %s", name,
			   braid_analysis_names(BRAID_ANALYSIS_ANY, names));
	return NULL;
}

bool braid_analysis_takes(const struct braid_analysis *analysis, enum braid_analysis_option option)
{
	if (option == BRAID_ANALYSIS_COMPARES)
		return analysis->compares;
	return option == BRAID_ANALYSIS_ANY || analysis->takes & 1u << option;
}

const char *braid_analysis_names(enum braid_analysis_option option,
				 char names[BRAID_ANALYSIS_NAMES])
{
	size_t k, nr = 0, put = 0, bytes = 0;

	for (k = 0; k < NR; k++)
		nr += braid_analysis_takes(analyses[k], option);
	*names = 0;
	for (k = 0; k < NR && bytes < BRAID_ANALYSIS_NAMES; k++)
		if (braid_analysis_takes(analyses[k], option)) {
			bytes += snprintf(names + bytes, BRAID_ANALYSIS_NAMES - bytes, "%s%s",
					  !put ? "" : put + 1 == nr ? " or " : ", ",
					  analyses[k]->name);
			put++;
		}
	return names;
}
