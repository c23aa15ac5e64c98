// SPDX-License-Identifier: GPL-2.0-or-later
/* Queries of the statistics, for the output. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/export/stats/stats.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

static int by_events(const void *a, const void *b)
{
	const struct braid_stats_type *x = *(const struct braid_stats_type *const *)a;
	const struct braid_stats_type *y = *(const struct braid_stats_type *const *)b;

	return braid_compare(y->events, x->events) ?:
	       braid_compare(x->info->number, y->info->number);
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

static int by_run(const void *a, const void *b)
{
	const struct braid_guest_task *x = *(const struct braid_guest_task *const *)a;
	const struct braid_guest_task *y = *(const struct braid_guest_task *const *)b;

	return braid_compare(braid_task_current_ns(y), braid_task_current_ns(x)) ?:
	       braid_compare(x->pid, y->pid);
}

const struct braid_guest_task **braid_stats_tasks_of(const struct braid_stats *s, u32 stream,
						     size_t *nr)
{
	const struct braid_states *x = &s->states;
	const struct braid_guest_task **list = calloc(x->nr_tasks + 1, sizeof(*list));
	size_t k;

	*nr = 0;
	if (!s->streams[stream].events || !x->guests[stream].any_switch)
		return list;
	for (k = 0; k < x->nr_tasks && list; k++)
		if (x->tasks[k].stream == stream && x->tasks[k].seen && x->tasks[k].pid)
			list[(*nr)++] = &x->tasks[k];
	if (*nr)
		qsort(list, *nr, sizeof(*list), by_run);
	return list;
}

const struct braid_cpu_sums *braid_stats_cpu(const struct braid_stats *s, u32 stream, u32 cpu)
{
	const struct braid_cpu_sums *sums = braid_states_cpu(&s->states, stream, cpu);

	return sums && s->states.guests[stream].any_switch && sums->busy_ns + sums->idle_ns ? sums :
										      NULL;
}

/* vCPUs -------------------------------------------------------------------------------------- */

static int by_vcpu(const void *a, const void *b)
{
	const struct braid_sum *x = *(const struct braid_sum *const *)a;
	const struct braid_sum *y = *(const struct braid_sum *const *)b;

	return braid_compare(x->key.vcpu, y->key.vcpu) ?:
	       braid_compare(y->total_ns, x->total_ns) ?:
	       braid_compare(x->key.reason, y->key.reason);
}

/* Its part of the sorted sums. */
static void find_exits(const struct braid_stats *s, u32 vcpu, struct braid_stats_vcpu *row)
{
	size_t from;

	braid_array_first(from, s->exits.nr, s->exits.all[from]->key.vcpu >= vcpu);
	row->exits = s->exits.all + from;
	while (from + row->nr_exits < s->exits.nr && row->exits[row->nr_exits]->key.vcpu == vcpu)
		row->nr_exits++;
}

/* The thread among the tasks of a stream's host; NULL: none. */
static const struct braid_guest_task *thread_of(const struct braid_stats *s,
						const struct braid_stream *stream, s32 tid)
{
	size_t at = braid_host_streams_first(&s->hosts, stream);
	const struct braid_guest_task *task;
	const struct braid_stream *host;

	for (; (host = braid_host_streams_at(&s->hosts, at, stream)); at++) {
		task = braid_states_task(&s->states, host->number, tid);
		if (task && task->seen)
			return task;
	}
	return NULL;
}

/* @v: its vCPU; NULL: not known by itself. */
static int put_vcpu(struct braid_stats *s, const struct braid_stream *stream, u32 number, s32 tid,
		    const struct braid_vcpu *v)
{
	const struct braid_guest_task *task = thread_of(s, v ? v->part : stream, tid);
	struct braid_stats_vcpu row = {
		.stream = stream, .number = number, .tid = tid,
		.comm = task ? task->comm : "", .switches = task ? task->switches : 0,
		.kvm = v && v->entries + v->exits + v->ns[BRAID_VCPU_GUEST] ? v : NULL,
	};

	if (v && braid_stream_is_guest(stream)) {
		row.runs_ns = braid_states_ran(v->ns);
		row.waits_ns = v->ns[BRAID_VCPU_STOLEN];
		row.knows_throttled = braid_states_knows_throttled(&s->states, stream);
		row.throttled_ns = v->ns[BRAID_VCPU_THROTTLED];
		row.sleeps_ns = braid_states_asleep(v->ns) + v->ns[BRAID_VCPU_OFFLINE];
	} else if (task) {
		row.runs_ns = braid_task_current_ns(task);
		row.waits_ns = task->queued_ns;
		row.sleeps_ns = task->blocked_ns;
	}
	if (row.kvm)
		find_exits(s, v - s->states.vcpus, &row);
	return braid_array_push(s->vcpus, s->nr_vcpus, s->vcpus_capacity, row) ?
	       braid_out_of_memory() : 0;
}

/* @part: what one of its hosts knows of it */
static int put_part(struct braid_stats *s, const struct braid_stream *stream,
		    const struct braid_stream *part)
{
	const struct braid_guest_state *guest = &s->states.guests[stream->number];
	const struct braid_vcpu *v;
	int err = 0;
	size_t k;

	for (k = 0; k < part->nr_threads && !err; k++) {
		u32 number = part->threads[k].vcpu;
		s32 tid = part->threads[k].tid;

		v = NULL;
		if (number < guest->nr_vcpus)
			v = &s->states.vcpus[guest->first_vcpu + number];
		else if (number == BRAID_VCPU_ALL && guest->nr_vcpus == 1)
			v = &s->states.vcpus[guest->first_vcpu];
		if (v ? v->tid == tid && v->part == part : !!thread_of(s, part, tid))
			err = put_vcpu(s, stream, number, tid, v);
	}
	return err;
}

static int put_guest(struct braid_stats *s, const struct braid_stream *stream)
{
	const struct braid_stream *part;
	int err = 0;
	size_t k;

	for (k = 0; (part = braid_stream_part(stream, k)) && !err; k++)
		err = put_part(s, stream, part);
	return err;
}

/* Whether events of a stream's host are selected. */
static bool any_of_host(const struct braid_stats *s, const struct braid_stream *stream)
{
	size_t at = braid_host_streams_first(&s->hosts, stream);
	const struct braid_stream *host;

	for (; (host = braid_host_streams_at(&s->hosts, at, stream)); at++)
		if (s->streams[host->number].events)
			return true;
	return false;
}

int braid_stats_find_vcpus(struct braid_stats *s)
{
	const struct braid_states *x = &s->states;
	int err = braid_host_streams_make(&s->hosts, s->source);
	size_t k;

	braid_sums_sort(&s->exits, by_vcpu);
	for (k = 0; k < s->source->nr_streams && !err; k++)
		if (s->streams[k].events || any_of_host(s, s->source->streams[k]))
			err = put_guest(s, s->source->streams[k]);
	for (k = 0; k < x->nr_vcpus && !err; k++)
		if (x->vcpus[k].guest->kind == BRAID_STREAM_HOST &&
		    any_of_host(s, x->vcpus[k].guest))
			err = put_vcpu(s, x->vcpus[k].guest, x->vcpus[k].number, x->vcpus[k].tid,
				       &x->vcpus[k]);
	return err;
}

u64 braid_stats_other_exits(const struct braid_stats *s)
{
	const struct braid_sum *last = s->exits.nr ? s->exits.all[s->exits.nr - 1] : NULL;

	return last && last->key.vcpu == BRAID_NO_VCPU ? last->count : 0;
}

const char *braid_stats_unknown(const struct braid_stats *s, const struct braid_stream *stream,
			       u32 number)
{
	const struct braid_guest_state *x = &s->states.guests[stream->number];
	const struct braid_seen host = braid_states_seen_of(&s->states, stream);
	const char *all[5] = { NULL };
	u32 n = 0;

	if (stream->kind == BRAID_STREAM_VM)
		all[n++] = "what it executed: no driver runs in it";
	else if (!x->any_switch)
		all[n++] = "how long tasks ran: it has no sched_switch events";
	else if (!x->any_wakeup)
		all[n++] = "how long woken tasks waited to run: it has no sched_wakeup events";
	if (!braid_stream_is_guest(stream))
		return number < n ? all[number] : NULL;
	if (!stream->nr_threads)
		all[n++] = "its vCPUs' time in the guest, exits and steal: " BRAID_VCPUS_UNKNOWN;
	else if (!host.kvm)
		all[n++] = "its vCPUs' time in the guest and exits: the host has no kvm_entry and kvm_exit events";
	if (stream->nr_threads && !host.switches)
		all[n++] = "its vCPUs' steal: the host has no sched_switch events";
	else if (stream->nr_threads && !host.wakeups)
		all[n++] = "its vCPUs' steal after wakeups: the host has no sched_wakeup events";
	return number < n ? all[number] : NULL;
}
