// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints events while they are recorded: follow CAPTURE [OPTION=VALUE]..., as follow web1.braid event=sched_switch */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <tracebraid/tracebraid.h>

static volatile int stop;

static void request_stop(int number)
{
	stop = number;
}

static void print_event(struct tracebraid_walk *walk)
{
	printf("%s%" PRId64 " %s %s: %s\n", tracebraid_late(walk) ? "late: " : "", tracebraid_ns(walk),
	       tracebraid_stream_name(tracebraid_item_stream(walk)),
	       tracebraid_type_name(tracebraid_event_type(walk)), tracebraid_text(walk));
}

int main(int argc, char **argv)
{
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_walk *walk;
	int got = -1;

	if (argc < 2) {
		fprintf(stderr, "usage: follow CAPTURE [OPTION=VALUE]...\n");
		return 2;
	}
	signal(SIGINT, request_stop);
	if (tracebraid_follow(&trace, argv[1], NULL, NULL, NULL))
		goto fail;
	tracebraid_stop_when(trace, &stop);
	if (tracebraid_walk_new(&walk, trace, (const char *const *)argv + 2))
		goto fail;
	while ((got = tracebraid_walk_next(walk)) > 0) {
		if (got == TRACEBRAID_EVENT)
			print_event(walk);
		if (got != TRACEBRAID_PAUSE)
			continue;
		fflush(stdout);
		if (tracebraid_grow(trace, -1) < 0)
			break;
	}
fail:
	if (got && !stop)
		fprintf(stderr, "%s\n", tracebraid_error());
	tracebraid_close(trace);
	return got && !stop;
}
