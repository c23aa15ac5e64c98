// SPDX-License-Identifier: GPL-2.0-or-later
/* The list of all analyses. */
#include <string.h>

#include "host_agent/analyze/analysis.h"

static const struct braid_analysis *const analyses[] = {
	&braid_analysis_summary, &braid_analysis_states, &braid_analysis_steal,
	&braid_analysis_stalls, &braid_analysis_exits, &braid_analysis_wake,
};

const struct braid_analysis *braid_analysis_by_number(size_t number)
{
	return number < sizeof(analyses) / sizeof(analyses[0]) ? analyses[number] : NULL;
}

const struct braid_analysis *braid_analysis_by_name(const char *name)
{
	size_t k;

	for (k = 0; k < sizeof(analyses) / sizeof(analyses[0]); k++)
		if (!strcmp(analyses[k]->name, name))
			return analyses[k];
	return NULL;
}
