// SPDX-License-Identifier: GPL-2.0-or-later
/* The list of lanes, and the lanes of a ring's items. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/html/lanes.h"
#include "host_agent/trace/host_streams.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/select.h"

#define MAX_THREADS	1024u	/* that are lanes: a capture could name millions */

static bool same_group(const struct braid_stream *a, const struct braid_stream *b)
{
	return braid_stream_is_guest(a) == braid_stream_is_guest(b) && !strcmp(a->name, b->name);
}

static int add_lane(struct braid_html_lanes *l, struct braid_html_lane lane)
{
	return braid_array_push(l->lanes, l->nr_lanes, l->lanes_capacity, lane);
}

static int add_group(struct braid_html_lanes *l, const struct braid_stream *stream)
{
	struct braid_html_group group = { .stream = stream, .lane = l->nr_lanes };
	struct braid_html_lane lane = { .kind = BRAID_HTML_LANE_GROUP, .group = l->nr_groups };
	int err = braid_array_push(l->groups, l->nr_groups, l->groups_capacity, group);

	return err ? err : add_lane(l, lane);
}

/*
 * The group of each stream; hosts' first, because they are shown first. A VM whose driver was
 * loaded later is in that guest's.
 */
static int make_groups(struct braid_html_lanes *l, const struct braid_source *source)
{
	static const enum braid_stream_kind kinds[] = {
		BRAID_STREAM_HOST, BRAID_STREAM_GUEST, BRAID_STREAM_VM,
	};
	size_t k, j, g;

	for (j = 0; j < sizeof(kinds) / sizeof(kinds[0]); j++)
		for (k = 0; k < source->nr_streams; k++) {
			const struct braid_stream *s = source->streams[k];

			if (s->kind != kinds[j])
				continue;
			for (g = 0; g < l->nr_groups; g++)
				if (same_group(l->groups[g].stream, s))
					break;
			if (g == l->nr_groups && add_group(l, s))
				return -ENOMEM;
			l->group_of[s->number] = g;
		}
	return 0;
}

static int place_cpu(struct braid_html_lanes *l, u32 group, u32 cpu, u32 *lane_of_cpu)
{
	struct braid_html_lane lane = {
		.kind = BRAID_HTML_LANE_CPU, .group = group, .number = cpu,
	};

	if (lane_of_cpu[cpu])
		return 0;
	lane_of_cpu[cpu] = l->nr_lanes;	/* never 0: that is a group's */
	return add_lane(l, lane);
}

/* A CPU's rings, one for each buffer and incarnation, share a lane. */
static int place_ring(struct braid_html_lanes *l, const struct braid_ring *ring, u32 *lane_of_cpu)
{
	u32 group = l->group_of[ring->stream->number];
	struct braid_html_place *place = &l->places[ring->order];

	if (ring->cpu == BRAID_RING_NOTES) {
		place->lane = l->groups[group].lane;
		return 0;
	}
	if (place_cpu(l, group, ring->cpu, lane_of_cpu))
		return -ENOMEM;
	place->lane = lane_of_cpu[ring->cpu];
	return 0;
}

/* A VM without the driver has no rings; its vCPUs have states. */
static int place_vm(struct braid_html_lanes *l, const struct braid_stream *vm,
		    const struct braid_walk_options *options, u32 *lane_of_cpu)
{
	struct braid_ring vcpu = { .stream = vm };
	int err = 0;

	for (; vcpu.cpu < vm->nr_cpus && !err; vcpu.cpu++)
		if (braid_select_ring((void *)options, &vcpu))
			err = place_cpu(l, l->group_of[vm->number], vcpu.cpu, lane_of_cpu);
	return err;
}

static u32 most_cpus(const struct braid_source *source)
{
	u32 most = 0;
	size_t k, j;

	for (k = 0; k < source->nr_streams; k++) {
		if (source->streams[k]->kind == BRAID_STREAM_VM && source->streams[k]->nr_cpus > most)
			most = source->streams[k]->nr_cpus;
		for (j = 0; j < source->streams[k]->nr_rings; j++) {
			u32 cpu = source->streams[k]->rings[j]->cpu;

			if (cpu != BRAID_RING_NOTES && cpu >= most)
				most = cpu + 1;
		}
	}
	return most;
}

static int place_rings(struct braid_html_lanes *l, const struct braid_source *source,
		       const struct braid_walk_options *options)
{
	u32 most = most_cpus(source);
	u32 *lane_of_cpu = malloc(most * sizeof(*lane_of_cpu) + 1);
	size_t g, k, j;
	int err = lane_of_cpu ? 0 : -ENOMEM;

	for (g = 0; g < l->nr_groups && !err; g++) {
		memset(lane_of_cpu, 0, most * sizeof(*lane_of_cpu));
		for (k = 0; k < source->nr_streams; k++) {
			const struct braid_stream *s = source->streams[k];

			for (j = 0; l->group_of[s->number] == g && j < s->nr_rings && !err; j++)
				if (braid_select_ring((void *)options, s->rings[j]))
					err = place_ring(l, s->rings[j], lane_of_cpu);
			if (l->group_of[s->number] == g && s->kind == BRAID_STREAM_VM && !err)
				err = place_vm(l, s, options, lane_of_cpu);
		}
	}
	free(lane_of_cpu);
	return err;
}

/* Lane 0 is a group's. */
u32 braid_html_lane_of(const struct braid_html_lanes *l, u32 group, u32 cpu)
{
	size_t k;

	for (k = 0; k < l->nr_lanes; k++)
		if (l->lanes[k].kind == BRAID_HTML_LANE_CPU && l->lanes[k].group == group &&
		    l->lanes[k].number == cpu)
			return k;
	return 0;
}

static int by_tid(const void *a, const void *b)
{
	const struct braid_html_thread *x = a, *y = b;

	return braid_compare(x->group, y->group) ?: braid_compare(x->tid, y->tid);
}

struct braid_html_thread *braid_html_thread_of(const struct braid_html_lanes *l, u32 group,
					       s32 tid)
{
	const struct braid_html_thread key = { .group = group, .tid = tid };

	return l->nr_threads ? bsearch(&key, l->threads, l->nr_threads, sizeof(key), by_tid) : NULL;
}

static int add_thread(struct braid_html_lanes *l, struct braid_html_thread thread)
{
	size_t k;

	if (braid_array_push(l->threads, l->nr_threads, l->threads_capacity, thread))
		return -ENOMEM;
	for (k = l->nr_threads - 1; k && by_tid(&l->threads[k - 1], &thread) > 0; k--)
		l->threads[k] = l->threads[k - 1];
	l->threads[k] = thread;
	return 0;
}

/* A vCPU keeps its lane when its guest returns, possibly in another QEMU. */
static int place_thread(struct braid_html_lanes *l, u32 host, u32 group,
			const struct braid_vcpu_thread *vcpu)
{
	struct braid_html_lane lane = {
		.kind = BRAID_HTML_LANE_THREAD, .group = group, .number = vcpu->vcpu,
		.tid = vcpu->tid,
	};
	struct braid_html_thread thread = { .group = host, .tid = vcpu->tid };
	size_t k;

	if (l->nr_threads >= MAX_THREADS || vcpu->tid <= 0 ||
	    braid_html_thread_of(l, host, vcpu->tid))
		return 0;
	for (k = 0; k < l->nr_lanes; k++)
		if (l->lanes[k].kind == lane.kind && l->lanes[k].group == group &&
		    l->lanes[k].number == lane.number)
			break;
	thread.lane = k;
	if (k == l->nr_lanes && add_lane(l, lane))
		return -ENOMEM;
	return add_thread(l, thread);
}

/* Threads are of the host that recorded: in the group of its first stream. */
static int place_threads(struct braid_html_lanes *l, const struct braid_source *source)
{
	struct braid_host_streams hosts;
	int err = braid_host_streams_make(&hosts, source);
	const struct braid_stream *host, *part;
	size_t k, j, n;

	for (k = 0; k < source->nr_streams && !err; k++) {
		for (n = 0; (part = braid_stream_part(source->streams[k], n)); n++) {
			host = braid_host_streams_at(&hosts, braid_host_streams_first(&hosts, part),
						     part);
			for (j = 0; host && j < part->nr_threads && !err; j++)
				err = place_thread(l, l->group_of[host->number], l->group_of[k],
						   &part->threads[j]);
		}
	}
	braid_host_streams_free(&hosts);
	return err;
}

struct braid_html_thread *braid_html_thread_add(struct braid_html_lanes *l, u32 group, s32 tid,
						u32 vcpu)
{
	struct braid_html_lane lane = {
		.kind = BRAID_HTML_LANE_THREAD, .group = group, .number = vcpu, .tid = tid,
	};
	struct braid_html_thread thread = { .group = group, .tid = tid, .lane = l->nr_lanes };

	if (l->nr_threads >= MAX_THREADS || add_lane(l, lane) || add_thread(l, thread))
		return NULL;
	return braid_html_thread_of(l, group, tid);
}

int braid_html_lanes_make(struct braid_html_lanes *l, const struct braid_source *source,
			  const struct braid_walk_options *options)
{
	u32 most = 0;
	size_t k, j;
	int err;

	memset(l, 0, sizeof(*l));
	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->nr_rings; j++)
			if (source->streams[k]->rings[j]->order > most)
				most = source->streams[k]->rings[j]->order;
	l->places = calloc((size_t)most + 1, sizeof(*l->places));
	l->group_of = calloc(source->nr_streams + 1, sizeof(*l->group_of));
	err = l->places && l->group_of ? make_groups(l, source) : -ENOMEM;
	if (!err)
		err = place_rings(l, source, options);
	if (!err)
		err = place_threads(l, source);
	return err ? braid_out_of_memory() : 0;
}

void braid_html_lanes_free(struct braid_html_lanes *l)
{
	free(l->groups);
	free(l->lanes);
	free(l->places);
	free(l->threads);
	free(l->group_of);
}
