// SPDX-License-Identifier: GPL-2.0-or-later
/* How fast a capture is read, put on the timeline and merged: a cost of every export form. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "host_agent/walk/walk.h"
#include "tests/unit/need.h"

int main(int argc, char **argv);

/* CPU time, because this machine may be busy. */
static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static const struct braid_walk_ops ops = { 0 };
	struct braid_walk_options options = { 0 };
	struct braid_walk_totals totals;
	struct braid_source *source;
	struct braid_walk walk;
	double opened, walked, start;

	if (argc != 2) {
		fprintf(stderr, "bench_walk CAPTURE\n");
		return EXIT_FAILURE;
	}
	start = seconds();
	NEED(!braid_source_open_captures(&source, argv + 1, 1, NULL));
	opened = seconds();
	NEED(!braid_walk_begin(&walk, source, &options, &totals));
	NEED(!braid_walk_run(&walk, &ops, NULL));
	walked = seconds();
	braid_walk_end(&walk);
	braid_source_free(source);
	printf("capture_indexed\t%.3f\ts\n", opened - start);
	printf("walk_speed\t%.2f\tM events/s\n", totals.events / 1e6 / (walked - opened));
	return EXIT_SUCCESS;
}
