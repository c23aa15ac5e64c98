// SPDX-License-Identifier: GPL-2.0-or-later
/* How long each vCPU of a capture was in each state, by the state machine alone. */
#include <stdio.h>
#include <string.h>

#include "host_agent/analyze/states.h"
#include "host_agent/walk/walk.h"
#include "tests/unit/need.h"
#include "tests/unit/state_sums.h"

static s64 place(const struct braid_walk_moment *m, s64 first_ns, s64 none)
{
	return m->kind == BRAID_MOMENT_SINCE ? first_ns + m->ns : none;
}

static int take_event(void *arg, const struct braid_item *item,
		      const struct braid_event_type_info *info)
{
	return braid_states_event(arg, item, info);
}

static int take_lost(void *arg, const struct braid_item *item)
{
	return braid_states_lost(arg, item);
}

static int note_first(void *arg, const struct braid_item *item,
		      const struct braid_event_type_info *info)
{
	s64 *first_ns = arg;

	(void)info;
	if (item->host_ns < *first_ns)
		*first_ns = item->host_ns;
	return 0;
}

static void walk(struct braid_source *source, const struct braid_walk_options *options,
		 const struct braid_walk_ops *ops, void *arg)
{
	struct braid_walk_totals totals;
	struct braid_walk w;

	NEED(!braid_walk_begin(&w, source, options, &totals) && !braid_walk_run(&w, ops, arg));
	braid_walk_end(&w);
	braid_source_rewind(source);
}

static void print(const struct braid_states *s, const struct braid_walk_options *o, FILE *to)
{
	bool host = o->stream && !strcmp(o->stream, "host");
	u32 k, state;

	for (k = 0; k < s->nr_vcpus && s->hosts->nr_cpus && s->threads.nr; k++) {
		const struct braid_vcpu *v = &s->vcpus[k];

		if ((o->stream && !host && strcmp(o->stream, v->guest->name)) ||
		    (o->one_cpu && o->cpu != v->number))
			continue;
		for (state = 0; state < BRAID_NR_VCPU_STATES; state++)
			if (v->ns[state])
				fprintf(to, "%s\t%u\t%s\t%llu\n", v->guest->name, v->number,
					braid_vcpu_state_name(state),
					(unsigned long long)v->ns[state]);
	}
}

void state_sums(const char *capture, const struct braid_walk_options *options, const char *path)
{
	static const struct braid_walk_ops ops = { .event = take_event, .lost = take_lost };
	static const struct braid_walk_ops first_ops = { .event = note_first };
	const struct braid_walk_options selected = {
		.stream = options->stream, .one_cpu = options->one_cpu, .cpu = options->cpu,
	};
	static const struct braid_walk_options all;
	struct braid_states states;
	struct braid_source *source;
	char *names[] = { (char *)capture };
	s64 first_ns = INT64_MAX;
	FILE *to = fopen(path, "w");

	NEED(to && !braid_source_open_captures(&source, names, 1, NULL));
	walk(source, &selected, &first_ops, &first_ns);
	NEED(!braid_states_begin(&states, source, NULL, NULL));
	braid_states_limit(&states, place(&options->from, first_ns, INT64_MIN),
			   place(&options->to, first_ns, INT64_MAX));
	walk(source, &all, &ops, &states);
	NEED(!braid_states_end(&states));
	print(&states, options, to);
	NEED(!fclose(to));
	braid_states_free(&states);
	braid_source_free(source);
}
