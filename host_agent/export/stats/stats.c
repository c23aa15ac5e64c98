// SPDX-License-Identifier: GPL-2.0-or-later
/* Statistics of a trace: counts events, and lets the states follow CPUs, tasks and vCPUs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/stats/form.h"
#include "host_agent/export/stats/stats.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

static struct braid_stats_type *stats_type_of(struct braid_stats *s, const struct braid_item *item,
					      const struct braid_event_type_info *info)
{
	if (braid_array_cover(s->types, s->nr_types, info->number))
		return NULL;
	s->types[info->number].info = info;
	s->types[info->number].stream = item->stream->number;
	return &s->types[info->number];
}

/* A CPU of a stream; sources have few thousands at most. NULL: no memory. */
static struct braid_stats_cpu *cpu_of(struct braid_stats *s, const struct braid_item *item)
{
	struct braid_stats_stream *stream = &s->streams[item->stream->number];
	u32 cpu = item->ring->cpu;

	return braid_array_cover(stream->cpus, stream->nr_cpus, cpu) ? NULL : &stream->cpus[cpu];
}

static int stats_take_event(void *arg, const struct braid_item *item,
			    const struct braid_event_type_info *info)
{
	struct braid_stats *s = arg;
	struct braid_stats_type *type = stats_type_of(s, item, info);
	struct braid_stats_cpu *cpu = cpu_of(s, item);

	if (!type || !cpu)
		return braid_out_of_memory();
	if (!s->any)
		s->first_ns = s->walk.ns;
	s->any = true;
	s->last_ns = s->walk.ns;
	type->events++;
	cpu->events++;
	s->streams[item->stream->number].events++;
	return 0;
}

static int take_lost(void *arg, const struct braid_item *item)
{
	struct braid_stats *s = arg;
	struct braid_stats_cpu *cpu = cpu_of(s, item);

	if (!cpu)
		return braid_out_of_memory();
	if (item->lost_before == BRAID_LOST_SOME)
		cpu->some_lost = true;
	else
		cpu->lost += item->lost_before;
	return 0;
}

static int stats_take_exit(void *arg, const struct braid_exit *exit)
{
	const struct braid_sum_key key = { .vcpu = exit->vcpu, .reason = exit->reason };
	struct braid_stats *s = arg;
	struct braid_sum *sum;
	int err = braid_sums_add(&s->exits, &key, exit->to_ns - exit->from_ns, exit->from_ns, &sum);

	if (!err)
		sum->returned += exit->returned;
	return err;
}

/* ------------------------------------------------------------------------------------------- */

static int stats_begin(struct braid_stats *s, struct braid_source *source,
		       const struct braid_walk_options *options, struct braid_walk_totals *totals)
{
	static const struct braid_states_ops ops = { .exit = stats_take_exit, .whole_host = true };
	int err;

	s->source = source;
	s->totals = totals;
	s->streams = calloc(source->nr_streams + 1, sizeof(*s->streams));
	if (!s->streams)
		return braid_out_of_memory();
	err = braid_walk_begin(&s->walk, source, options, totals);
	s->walk.states = &s->states;
	s->walk.no_order = true;
	return err ?: braid_states_begin(&s->states, source, &ops, s);
}

static void stats_end(struct braid_stats *s)
{
	size_t k;

	for (k = 0; k < s->source->nr_streams && s->streams; k++)
		free(s->streams[k].cpus);
	braid_walk_end(&s->walk);
	braid_states_free(&s->states);
	braid_sums_free(&s->exits);
	free(s->streams);
	braid_host_streams_free(&s->hosts);
	free(s->vcpus);
	free(s->types);
}

static int stats_run(FILE *to, struct braid_source *source,
		     const struct braid_walk_options *options,
		     struct braid_walk_totals *totals,
		     void (*put)(const struct braid_stats *s, struct braid_text *t))
{
	static const struct braid_walk_ops ops = { .event = stats_take_event, .lost = take_lost };
	struct braid_stats s = { 0 };
	struct braid_text text = { 0 };
	int err;

	err = stats_begin(&s, source, options, totals);
	if (!err)
		err = braid_walk_run(&s.walk, &ops, &s);
	if (!err)
		err = braid_states_end(&s.states);
	if (!err)
		err = braid_stats_find_vcpus(&s);
	if (!err)
		put(&s, &text);
	if (!err && text.failed)
		err = braid_out_of_memory();
	errno = 0;
	if (!err && (fwrite(text.data, 1, text.bytes, to) != text.bytes || fflush(to)))
		err = braid_fail_output("the statistics");
	stats_end(&s);
	braid_text_free(&text);
	return err;
}

int braid_export_stats(FILE *to, struct braid_source *source,
		       const struct braid_walk_options *options,
		       struct braid_walk_totals *totals)
{
	return stats_run(to, source, options, totals, braid_stats_text);
}

int braid_export_stats_json(FILE *to, struct braid_source *source,
			    const struct braid_walk_options *options,
			    struct braid_walk_totals *totals)
{
	return stats_run(to, source, options, totals, braid_stats_json);
}
