// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Prints a trace, or a part of it: print CAPTURE [OPTION=VALUE]...
 *
 *	print demo.braid event=sched:* stream=guest1 since=+0.5
 *
 * cc print.c $(pkg-config --cflags --libs tracebraid)
 */
#include <stdio.h>
#include <tracebraid/tracebraid.h>

static void warn(void *arg, const char *line)
{
	(void)arg;
	fprintf(stderr, "print: %s\n", line);
}

static int print_item(struct tracebraid_walk *walk, int got)
{
	const struct tracebraid_type *type = tracebraid_event_type(walk);
	const char *text = tracebraid_text(walk);

	if (!text)
		return -1;
	printf("%lld %s", (long long)tracebraid_ns(walk),
	       tracebraid_stream_name(tracebraid_item_stream(walk)));
	if (got == TRACEBRAID_EVENT)
		printf(" %u %s-%d %s: %s\n", tracebraid_cpu(walk), tracebraid_comm(walk),
		       tracebraid_pid(walk), tracebraid_type_name(type), text);
	else
		printf(" %s\n", text);
	return 0;
}

int main(int argc, char **argv)
{
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_walk *walk;
	int got;

	if (argc < 2) {
		fputs("usage: print CAPTURE [OPTION=VALUE]...\n", stderr);
		return 1;
	}
	got = tracebraid_open(&trace, (const char *const *)argv + 1, 1, NULL, warn, NULL);
	if (!got)	/* argv ends with NULL, as the selection does */
		got = tracebraid_walk_new(&walk, trace, (const char *const *)argv + 2);
	while (!got && (got = tracebraid_walk_next(walk)) > 0)
		got = print_item(walk, got);
	if (got < 0)
		fprintf(stderr, "print: %s\n", tracebraid_error());
	tracebraid_close(trace);
	return got < 0;
}
