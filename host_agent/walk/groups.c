// SPDX-License-Identifier: GPL-2.0-or-later
/* Threads take a group of rings each; the caller's thread takes the first one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "host_agent/util/error.h"
#include "host_agent/util/thread.h"
#include "host_agent/walk/groups.h"

struct braid_groups {
	struct braid_source *source;
	const struct braid_walk_options *options;
	int (*make)(void *arg, struct braid_group *group);
	void *arg;
	u32 *group_of;			/* by the ring's order */
	u32 nr;
	bool over;			/* atomic: one went wrong */

	pthread_mutex_t lock;		/* protects all that follows */
	bool odd;			/* one walk is needed */
	int err;			/* of the first one that failed */
	char failure[1024];
};

static bool group_wants(void *arg, const struct braid_ring *ring)
{
	const struct braid_group *group = arg;

	return group->all->group_of[ring->order] == group->number;
}

int braid_group_begin(struct braid_group *group, struct braid_walk *w)
{
	int err = braid_walk_begin(w, group->source, &group->options, &group->totals);

	w->wants = group_wants;
	w->wants_arg = group;
	return err;
}

bool braid_group_is_over(const struct braid_group *group)
{
	return group->source->faults || __atomic_load_n(&group->all->over, __ATOMIC_RELAXED);
}

static void give_up(struct braid_groups *s, int err)
{
	pthread_mutex_lock(&s->lock);
	if (!err) {
		s->odd = true;
	} else if (!s->err && !s->over) {
		s->err = err;
		snprintf(s->failure, sizeof(s->failure), "%s", braid_failure());
	}
	__atomic_store_n(&s->over, true, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&s->lock);
}

static void *run_group(void *arg)
{
	struct braid_group *group = arg;
	struct braid_groups *s = group->all;
	int err;

	/* Where that fails, one walk says why, or does without. */
	if (s->options->reopen(s->options->reopen_arg, &group->source) ||
	    !braid_source_is_same(s->source, group->source)) {
		give_up(s, 0);
		return NULL;
	}
	err = s->make(s->arg, group);
	if (group->source->faults)
		give_up(s, 0);
	else if (err)
		give_up(s, err);
	return NULL;
}

/* The first group's, for all of them. */
static void show_all(void *arg, const char *what, u64 done, u64 total)
{
	const struct braid_groups *s = arg;

	done *= s->nr;
	s->options->progress(s->options->progress_arg, what, done < total ? done : total, total);
}

static void add_totals(struct braid_walk_totals *to, const struct braid_walk_totals *group)
{
	to->lines += group->lines;
	to->events += group->events;
	to->lost += group->lost;
	to->some_lost |= group->some_lost;
	to->parts++;
}

static int run_all(struct braid_groups *s, struct braid_group *groups,
		   struct braid_walk_totals *totals)
{
	u32 k, nr;

	for (k = 0; k < s->nr; k++) {
		struct braid_group *group = &groups[k];

		group->options = *s->options;
		group->options.progress = k || !s->options->progress ? NULL : show_all;
		group->options.progress_arg = s;
		group->all = s;
		group->number = k;
	}
	for (nr = 1; nr < s->nr; nr++)
		if (braid_thread_begin(&groups[nr].thread, run_group, &groups[nr]))
			break;
	if (nr == s->nr)
		run_group(&groups[0]);
	else
		give_up(s, 0);
	for (k = 1; k < nr; k++)
		pthread_join(groups[k].thread, NULL);
	for (k = 0; k < s->nr; k++) {
		if (!s->over)
			add_totals(totals, &groups[k].totals);
		braid_source_free(groups[k].source);
	}
	return s->err ? braid_fail(s->err, "%s", s->failure) : !s->odd;
}

int braid_groups_run(struct braid_source *source, const struct braid_walk_options *options,
		     struct braid_walk_totals *totals,
		     int (*make)(void *arg, struct braid_group *group), void *arg)
{
	struct braid_groups s = {
		.source = source, .options = options, .make = make, .arg = arg,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	struct braid_group *groups = NULL;
	int ret;

	if (options->cpus < 2 || !options->reopen || options->max_lines || source->faults)
		return 0;
	ret = braid_source_group(source, options->cpus, &s.group_of, &s.nr);
	if (!ret && s.nr > 1) {
		groups = calloc(s.nr, sizeof(*groups));
		ret = groups ? run_all(&s, groups, totals) : braid_out_of_memory();
	}
	free(groups);
	free(s.group_of);
	return ret;
}
