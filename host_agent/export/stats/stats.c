// SPDX-License-Identifier: GPL-2.0-or-later
/* Statistics of a trace: counts events, and passes on those of tasks and vCPUs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/stats/form.h"
#include "host_agent/export/stats/stats.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/* Events that mean something, and the fields that say it. */
static const struct {
	const char *system, *name;
	int role;
	const char *fields[4];
} roles[] = {
	{ "sched", "sched_switch", BRAID_STATS_SWITCH,
	  { "prev_pid", "prev_state", "next_pid", "next_comm" } },
	{ "sched", "sched_wakeup", BRAID_STATS_WAKEUP, { "pid", "comm" } },
	{ "sched", "sched_wakeup_new", BRAID_STATS_WAKEUP, { "pid", "comm" } },
	{ "kvm", "kvm_entry", BRAID_STATS_ENTRY, { "vcpu_id" } },
	{ "kvm", "kvm_exit", BRAID_STATS_EXIT, { "exit_reason", "isa" } },
};

static void find_role(struct braid_stats_type *type)
{
	const struct braid_event_type_info *info = type->info;
	const struct braid_field *f;
	size_t k, n;

	for (k = 0; k < sizeof(roles) / sizeof(roles[0]) && info->layout; k++) {
		if (strcmp(info->system, roles[k].system) || strcmp(info->name, roles[k].name))
			continue;
		for (n = 0; n < 4 && roles[k].fields[n]; n++) {
			bool text = strstr(roles[k].fields[n], "comm");

			f = braid_layout_find(info->layout, roles[k].fields[n]);
			if (f && (text ? f->flags & BRAID_FIELD_STRING : braid_field_is_number(f)))
				type->fields[n] = f;
		}
		/* Those that name a task or a reason must be there; the others are extras. */
		if (roles[k].role == BRAID_STATS_ENTRY || (type->fields[0] &&
		    (roles[k].role != BRAID_STATS_SWITCH || (type->fields[1] && type->fields[2]))))
			type->role = roles[k].role;
	}
}

static struct braid_stats_type *stats_type_of(struct braid_stats *s, const struct braid_item *item,
					      const struct braid_event_type_info *info)
{
	size_t more = s->nr_types ? s->nr_types : 256;
	struct braid_stats_type *grown;

	while (more <= info->number)
		more *= 2;
	if (more > s->nr_types) {
		grown = reallocarray(s->types, more, sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + s->nr_types, 0, (more - s->nr_types) * sizeof(*grown));
		s->types = grown;
		s->nr_types = more;
	}
	if (!s->types[info->number].info) {
		s->types[info->number].info = info;
		s->types[info->number].stream = item->stream->number;
		find_role(&s->types[info->number]);
	}
	return &s->types[info->number];
}

/* A CPU of a stream; sources have few thousands at most. NULL: no memory. */
static struct braid_stats_cpu *cpu_of(struct braid_stats *s, const struct braid_item *item)
{
	struct braid_stats_stream *stream = &s->streams[item->stream->number];
	size_t more = item->ring->cpu + 1;
	struct braid_stats_cpu *grown;

	if (more > stream->nr_cpus) {
		grown = reallocarray(stream->cpus, more, sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + stream->nr_cpus, 0, (more - stream->nr_cpus) * sizeof(*grown));
		stream->cpus = grown;
		stream->nr_cpus = more;
	}
	return &stream->cpus[item->ring->cpu];
}

static int take_role(struct braid_stats *s, const struct braid_item *item,
		     const struct braid_stats_type *type)
{
	if (type->role == BRAID_STATS_OTHER || !braid_format_fields(s->walk.format, item))
		return 0;
	switch (type->role) {
	case BRAID_STATS_SWITCH:
		return braid_stats_take_switch(s, item, type);
	case BRAID_STATS_WAKEUP:
		return braid_stats_take_wakeup(s, item, type);
	default:
		return braid_stats_take_kvm(s, item, type);
	}
}

static int stats_take_event(void *arg, const struct braid_item *item,
			    const struct braid_event_type_info *info)
{
	struct braid_stats *s = arg;
	struct braid_stats_type *type = stats_type_of(s, item, info);
	struct braid_stats_cpu *cpu = cpu_of(s, item);
	int err;

	if (!type || !cpu)
		return braid_out_of_memory();
	if (!s->any)
		s->first_ns = s->walk.ns;
	s->any = true;
	s->last_ns = s->walk.ns;
	type->events++;
	cpu->events++;
	cpu->last_ns = item->host_ns;
	s->streams[item->stream->number].events++;
	s->streams[item->stream->number].last_ns = item->host_ns;
	err = take_role(s, item, type);
	return err ? braid_out_of_memory() : 0;
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
	braid_stats_forget(&s->streams[item->stream->number], cpu);
	return 0;
}

/* ------------------------------------------------------------------------------------------- */

static int stats_begin(struct braid_stats *s, struct braid_source *source,
		       const struct braid_walk_options *options, struct braid_walk_totals *totals)
{
	s->source = source;
	s->totals = totals;
	s->streams = calloc(source->nr_streams + 1, sizeof(*s->streams));
	if (!s->streams)
		return braid_out_of_memory();
	return braid_walk_begin(&s->walk, source, options, totals);
}

static void stats_end(struct braid_stats *s)
{
	size_t k;

	for (k = 0; k < s->source->nr_streams && s->streams; k++)
		free(s->streams[k].cpus);
	braid_stats_free_tasks(s);
	braid_walk_end(&s->walk);
	braid_text_free(&s->text);
	free(s->streams);
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
	if (!err) {
		braid_stats_close(&s);
		put(&s, &text);
	}
	if (!err && text.failed)
		err = braid_out_of_memory();
	errno = 0;
	if (!err && (fwrite(text.data, 1, text.bytes, to) != text.bytes || fflush(to)))
		err = errno == EPIPE ? -EPIPE :
		      braid_fail(errno ? -errno : -EIO, "cannot write the statistics: %s",
				 strerror(errno ? errno : EIO));
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
