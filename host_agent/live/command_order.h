/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In which order a guest gets its commands. */
#ifndef BRAID_HOST_LIVE_COMMAND_ORDER_H
#define BRAID_HOST_LIVE_COMMAND_ORDER_H

#include "host_agent/live/control.h"

/*
 * The commands of a stream, in order: 0 disables the events of a dead agent (its lock is gone, so
 * it is dead). Then one for each probe makes its event, and one for each buffer gives it another
 * shape; and where children of tasks are wanted, one removes what a former agent chose, and one
 * chooses each task. With filters, one removes those of a dead agent, and one for each filter sets
 * it; then one for each test of a trigger, and one that holds the triggers until the recording
 * starts; one says how to sample, if that is asked for, and one
 * for each pattern that wants them says which events have stacks. Then nr_patterns enable our
 * events, and others those of triggers alone. The last one, sent when disarming, disables all, and
 * waits for the tables; after it, one for each event with a filter of its own reads its account,
 * and one that of all; then one for each probe reads its missed hits, one removes all probes, and one
 * ends the choice of tasks.
 */
static inline u32 after_probes(const struct braid_live_control *c)
{
	return 1 + c->nr_probes;
}

static inline u32 first_choice(const struct braid_live_control *c)
{
	return after_probes(c) + c->nr_reshapes;
}

static inline u32 after_choices(const struct braid_live_control *c)
{
	return first_choice(c) + c->nr_choices;
}

static inline u32 first_filter(const struct braid_live_control *c)
{
	return after_choices(c) + !!c->filters.nr;
}

static inline u32 first_test(const struct braid_live_control *c)
{
	return first_filter(c) + c->filters.nr;
}

static inline u32 end_test(const struct braid_live_control *c)
{
	return first_test(c) + c->triggers.nr;
}

static inline u32 after_hold(const struct braid_live_control *c)
{
	return end_test(c) + !!c->triggers.nr;
}

static inline u32 after_samples(const struct braid_live_control *c)
{
	return after_hold(c) + c->samples;
}

static inline u32 first_enable(const struct braid_live_control *c)
{
	return after_samples(c) + c->nr_stacks;
}

static inline u32 last_command(const struct braid_live_control *c,
			       const struct braid_live_stream *s)
{
	return first_enable(c) + s->o.nr_patterns + c->triggers.nr_alone;
}

/* The test that a command sets, or NULL. */
static inline struct braid_live_test *test_of(const struct braid_live_control *c, u32 command)
{
	return command >= first_test(c) && command < end_test(c) ?
	       &c->triggers.items[command - first_test(c)] : NULL;
}

/* Of filters of their own, and then of all. */
static inline u32 nr_accounts(const struct braid_live_control *c)
{
	return c->filters.nr_own + (c->filters.nr > c->filters.nr_own);
}

/* Of probes, if the driver has them. */
static inline u32 nr_hits(const struct braid_live_control *c, const struct braid_live_stream *s)
{
	return s->sb.version_minor < BRAID_PROBE_NAMES_MINOR ? 0 : c->nr_probes;
}

/* The first command that is not to be sent now. */
static inline u32 end_command(const struct braid_live_control *c, const struct braid_live_stream *s)
{
	u32 last = last_command(c, s);

	return !c->disarming ? last :
	       last + 1 + (c->nothing_on ? 0 : nr_accounts(c) + nr_hits(c, s)) + !!c->nr_probes +
	       !!c->nr_choices;
}

#endif /* BRAID_HOST_LIVE_COMMAND_ORDER_H */
