// SPDX-License-Identifier: GPL-2.0-or-later
/* What the kernel counted as lost of each CPU, as trace-cmd saved it: tracefs' stats. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

/* "KEY: NUMBER" at a line's start. Return: the number, 0: it is not there. */
static u64 trace_dat_stats_number_of(const char *text, const char *key)
{
	size_t n = strlen(key);
	const char *line;

	for (line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, n) && line[n] == ':')
			return strtoull(line + n + 1, NULL, 10);
	}
	return 0;
}

/* Options name an instance once, before those of its CPUs; the top buffer's come first. */
int braid_dat_take_stats(struct braid_trace_dat *dat, const char *text)
{
	struct braid_dat_lost lost = { 0 };
	const char *name = strstr(text, "Buffer: "), *cpu = strstr(text, "CPU: ");

	if (name) {
		snprintf(dat->stats_of, sizeof(dat->stats_of), "%.*s",
			 (int)strcspn(name + 8, "\n"), name + 8);
		braid_text_clean(dat->stats_of);
	}
	if (!cpu)
		return 0;
	memcpy(lost.buffer, dat->stats_of, sizeof(lost.buffer));
	lost.cpu = strtoul(cpu + 5, NULL, 10);
	if (__builtin_add_overflow(trace_dat_stats_number_of(text, "overrun"), trace_dat_stats_number_of(text, "commit overrun"),
				   &lost.events) ||
	    __builtin_add_overflow(lost.events, trace_dat_stats_number_of(text, "dropped events"), &lost.events) ||
	    lost.events > INT64_MAX)
		return braid_dat_broken(dat, "its number of lost events is impossible");
	if (braid_array_push(dat->lost, dat->nr_lost, dat->lost_capacity, lost))
		return braid_out_of_memory();
	return 0;
}

static int by_cpu(const void *a, const void *b)
{
	const struct braid_dat_lost *x = a, *y = b;

	return strcmp(x->buffer, y->buffer) ?: braid_compare(x->cpu, y->cpu);
}

void braid_dat_spread_stats(struct braid_trace_dat *dat)
{
	const struct braid_dat_lost *found;
	struct braid_dat_lost key;
	size_t k;

	if (!dat->nr_lost)
		return;
	qsort(dat->lost, dat->nr_lost, sizeof(*dat->lost), by_cpu);
	for (k = 0; k < dat->stream->stream.nr_rings; k++) {
		struct braid_capture_ring *ring =
			(struct braid_capture_ring *)dat->stream->stream.rings[k];

		memcpy(key.buffer, dat->buffers[ring->ring.buffer].name, sizeof(key.buffer));
		key.cpu = ring->ring.cpu;
		found = bsearch(&key, dat->lost, dat->nr_lost, sizeof(*dat->lost), by_cpu);
		if (found)
			ring->stated_lost = found->events;
	}
}
