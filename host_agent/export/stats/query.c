// SPDX-License-Identifier: GPL-2.0-or-later
/* Queries of the statistics, for the output. */
#include <stdlib.h>

#include "host_agent/export/stats/stats.h"

static int by_events(const void *a, const void *b)
{
	const struct braid_stats_type *x = *(const struct braid_stats_type *const *)a;
	const struct braid_stats_type *y = *(const struct braid_stats_type *const *)b;

	if (x->events != y->events)
		return x->events > y->events ? -1 : 1;
	return x->info->number < y->info->number ? -1 : 1;
}

const struct braid_stats_type **braid_stats_types_of(const struct braid_stats *s, u32 stream,
						     size_t *nr)
{
	const struct braid_stats_type **list = calloc(s->nr_types + 1, sizeof(*list));
	size_t k;

	*nr = 0;
	for (k = 0; k < s->nr_types && list; k++)
		if (s->types[k].info && s->types[k].stream == stream && s->types[k].events)
			list[(*nr)++] = &s->types[k];
	if (*nr)
		qsort(list, *nr, sizeof(*list), by_events);
	return list;
}

const struct braid_stats_task *braid_stats_vcpu(const struct braid_stats *s, s32 tid)
{
	const struct braid_stats_task *task, *best = NULL;
	size_t k;

	for (k = 0; k < s->source->nr_streams; k++) {
		if (s->source->streams[k]->kind != BRAID_STREAM_HOST)
			continue;
		task = braid_stats_find_task(s, k, tid);
		if (task && (!best || (task->kvm && !best->kvm)))
			best = task;
	}
	return best;
}

bool braid_stats_is_covered(const struct braid_stats *s, const struct braid_stats_task *task)
{
	size_t k, n;

	for (k = 0; k < s->source->nr_streams; k++) {
		const struct braid_stream *guest = s->source->streams[k];

		for (n = 0; n < guest->nr_threads; n++)
			if (guest->threads[n].tid == task->pid &&
			    braid_stats_vcpu(s, task->pid) == task)
				return true;
	}
	return false;
}

/* What all of the host's streams have. */
static struct braid_stats_stream of_host(const struct braid_stats *s)
{
	struct braid_stats_stream all = { 0 };
	size_t k;

	for (k = 0; k < s->source->nr_streams; k++) {
		if (s->source->streams[k]->kind != BRAID_STREAM_HOST)
			continue;
		all.any_switch |= s->streams[k].any_switch;
		all.any_wakeup |= s->streams[k].any_wakeup;
		all.any_kvm |= s->streams[k].any_kvm;
	}
	return all;
}

const char *braid_stats_unknown(const struct braid_stats *s, const struct braid_stream *stream,
			       u32 number)
{
	const struct braid_stats_stream *x = &s->streams[stream->number];
	struct braid_stats_stream host = of_host(s);
	const char *all[5] = { NULL };
	u32 n = 0;

	if (!x->any_switch)
		all[n++] = "how long tasks ran: it has no sched_switch events";
	else if (!x->any_wakeup)
		all[n++] = "how long woken tasks waited to run: it has no sched_wakeup events";
	if (stream->kind != BRAID_STREAM_GUEST)
		return number < n ? all[number] : NULL;
	if (!stream->nr_threads)
		all[n++] = "its vCPUs' time in the guest, exits and steal: " BRAID_VCPUS_UNKNOWN;
	else if (!host.any_kvm)
		all[n++] = "its vCPUs' time in the guest and exits: the host has no kvm_entry and kvm_exit events";
	if (stream->nr_threads && !host.any_switch)
		all[n++] = "its vCPUs' steal: the host has no sched_switch events";
	else if (stream->nr_threads && !host.any_wakeup)
		all[n++] = "its vCPUs' steal after wakeups: the host has no sched_wakeup events";
	return number < n ? all[number] : NULL;
}
