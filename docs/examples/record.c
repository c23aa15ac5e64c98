// SPDX-License-Identifier: GPL-2.0-or-later
/* Records, and stops after so many events: record CAPTURE EVENTS [OPTION]..., as record web1.braid 1000 -r web1 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tracebraid/tracebraid.h>

/* Waits until the capture is there. Return: 0: the recording has ended. */
static int started(struct tracebraid_recording *recording)
{
	const char *json;
	int got;

	while ((got = tracebraid_recording_next(recording, -1, &json)) == 1)
		if (!strncmp(json, "{\"type\":\"started\"", 17))
			return 1;
	return got;
}

/* Return: the events of the whole recording, which is stopped after @most; or a negative errno. */
static long count(struct tracebraid_recording *recording, const char *path, long most)
{
	struct tracebraid_trace *trace;
	struct tracebraid_walk *walk;
	long events = 0;
	int got = tracebraid_follow(&trace, path, NULL, NULL, NULL);

	if (got)
		return got;
	got = tracebraid_walk_new(&walk, trace, NULL);
	while (!got && (got = tracebraid_walk_next(walk)) > 0) {
		if (got == TRACEBRAID_EVENT && ++events == most)
			tracebraid_recording_stop(recording);
		got = got == TRACEBRAID_PAUSE ? tracebraid_grow(trace, -1) : 0;
		got = got < 0 ? got : 0;
	}
	tracebraid_close(trace);
	return got ? got : events;
}

int main(int argc, char **argv)
{
	struct tracebraid_recording *recording;
	long events = -1;

	if (argc < 3) {
		fprintf(stderr, "usage: record CAPTURE EVENTS [OPTION]...\n");
		return 2;
	}
	if (tracebraid_record(&recording, argv[1], (const char *const *)argv + 3, getenv("TRACEBRAID"))) {
		fprintf(stderr, "%s\n", tracebraid_error());
		return 1;
	}
	if (started(recording) > 0)
		events = count(recording, argv[1], atol(argv[2]));
	if (events < 0)
		tracebraid_recording_stop(recording);
	if (tracebraid_recording_wait(recording, NULL) < 0 || events < 0)
		fprintf(stderr, "%s\n", tracebraid_error());
	else
		printf("%ld events\n", events);
	tracebraid_recording_free(recording);
	return events < 0;
}
