// SPDX-License-Identifier: GPL-2.0-or-later
/* Which process the kernel ends for lack of memory. */
#include <stdio.h>

#include "host_agent/serve/expose.h"

void braid_expose(pid_t pid, int score)
{
	char path[48];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	f = fopen(path, "we");
	if (!f)
		return;
	fprintf(f, "%d", score);
	fclose(f);
}
