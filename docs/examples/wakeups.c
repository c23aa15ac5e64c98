// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The time from a task's wakeup to its first run, of each guest: wakeups CAPTURE...
 *
 * cc wakeups.c $(pkg-config --cflags --libs tracebraid)
 */
#include <stdio.h>
#include <stdlib.h>
#include <tracebraid/tracebraid.h>

#define PIDS	(1 << 22)	/* Linux has no larger ones */

struct guest {
	int64_t *woken_ns;	/* by pid; 0: not waiting */
	uint64_t count;
	int64_t sum_ns, worst_ns;
};

static int64_t number(struct tracebraid_walk *walk, const char *name)
{
	const struct tracebraid_field *field = tracebraid_type_find(tracebraid_event_type(walk), name);
	int64_t value = -1;

	return field && !tracebraid_number(walk, field, &value) && value < PIDS ? value : -1;
}

static void take(struct tracebraid_walk *walk, struct guest *g)
{
	int64_t woken = number(walk, "pid"), next = number(walk, "next_pid"), ns;

	if (woken > 0)			/* sched_wakeup: the first one counts */
		g->woken_ns[woken] = g->woken_ns[woken] ? g->woken_ns[woken] : tracebraid_ns(walk);
	if (next <= 0 || !g->woken_ns[next])
		return;
	ns = tracebraid_ns(walk) - g->woken_ns[next];	/* sched_switch */
	g->woken_ns[next] = 0;
	g->count++;
	g->sum_ns += ns;
	g->worst_ns = ns > g->worst_ns ? ns : g->worst_ns;
}

int main(int argc, char **argv)
{
	static const char *const select[] = { "event=sched_wakeup", "event=sched_switch", NULL };
	struct tracebraid_trace *trace;
	struct tracebraid_walk *walk;
	struct guest *guests;
	size_t k, nr;
	int got = -1;

	if (tracebraid_open(&trace, (const char *const *)argv + 1, argc - 1, NULL, NULL, NULL) ||
	    tracebraid_walk_new(&walk, trace, select)) {
		fprintf(stderr, "wakeups: %s\n", tracebraid_error());
		return 1;
	}
	nr = tracebraid_nr_streams(trace);
	guests = calloc(nr, sizeof(*guests));
	for (k = 0; k < nr; k++)
		guests[k].woken_ns = calloc(PIDS, sizeof(*guests[k].woken_ns));
	while ((got = tracebraid_walk_next(walk)) > 0)
		if (got == TRACEBRAID_EVENT)
			take(walk, &guests[tracebraid_stream_number(tracebraid_item_stream(walk))]);
	for (k = 0; k < nr; k++)
		printf("%s: %llu wakeups, mean %.1f us, worst %.1f us\n",
		       tracebraid_stream_name(tracebraid_stream(trace, k)),
		       (unsigned long long)guests[k].count,
		       guests[k].count ? guests[k].sum_ns / 1e3 / guests[k].count : 0,
		       guests[k].worst_ns / 1e3);
	if (got < 0)
		fprintf(stderr, "wakeups: %s\n", tracebraid_error());
	tracebraid_close(trace);
	return got < 0;
}
