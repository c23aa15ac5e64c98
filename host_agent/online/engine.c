// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows one file of a recording after another. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/grow.h"
#include "host_agent/online/sums.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/walk.h"

/* Of a file: in that time vCPUs' first events show what they did at its start. */
#define START_NS	300000000

/* Of each clock: some per second come, and each new one is worth a fit. */
#define KEEP_SAMPLES	64u

struct braid_online {
	struct braid_online_options options;
	struct braid_online_table guests;
	struct braid_online_totals totals;

	/* The file: */
	char *path;			/* NULL: none is followed */
	struct braid_source *source;
	u64 faults;			/* of it, counted already */
	size_t nr_streams;		/* of it, when the last were counted */
	bool begun;			/* the sums, and the walk */
	struct braid_online_sums sums;
	struct braid_walk walk;
	struct braid_walk_options walk_options;
	struct braid_walk_totals walk_totals;
	s64 latest_ns;			/* of its items, and of pauses: earlier ones are late */
};

/* Items -------------------------------------------------------------------------------------- */

static void count_lost(u64 lost, u64 *sum, u64 *losses)
{
	if (lost == BRAID_LOST_SOME)
		++*losses;
	else
		*sum += lost;
}

static void count_host(struct braid_online_totals *t, const struct braid_item *item, int got)
{
	if (got == BRAID_WALK_EVENT)
		t->host_events++;
	else
		count_lost(item->lost_before, &t->host_lost, &t->host_losses);
}

static void count_guest(struct braid_online_guest *g, const struct braid_item *item, int got)
{
	if (got == BRAID_WALK_LOST) {
		count_lost(item->lost_before, &g->lost, &g->losses);
		return;
	}
	g->events++;
	if (item->host_ns > g->sign_ns)
		g->sign_ns = item->host_ns;
	if (item->ring->cpu < g->nr_vcpus && item->host_ns > g->vcpus[item->ring->cpu].event_ns)
		g->vcpus[item->ring->cpu].event_ns = item->host_ns;
}

/* What was summed up stays: for the states, an event of that time was lost. */
static int take_late(struct braid_online *o, const struct braid_item *item)
{
	struct braid_item lost = *item;

	o->totals.late++;
	lost.host_ns = o->latest_ns;
	return braid_states_lost(&o->sums.states, &lost);
}

/* Return: 0, or -errno with braid_fail(). */
static int take_item(struct braid_online *o, int got)
{
	const struct braid_item *item = o->walk.item;
	struct braid_online_sums *x = &o->sums;

	if (got == BRAID_WALK_NOTE || item->stream->number >= x->states.nr_streams ||
	    !braid_states_takes(item->host_ns))
		return 0;
	if (item->stream->kind == BRAID_STREAM_HOST)
		count_host(&o->totals, item, got);
	else if (x->guests[item->stream->number])
		count_guest(x->guests[item->stream->number], item, got);
	if (item->host_ns < o->latest_ns)
		return take_late(o, item);
	o->latest_ns = item->host_ns;
	return got == BRAID_WALK_EVENT ? braid_states_event(&x->states, item, o->walk.info) :
					 braid_states_lost(&x->states, item);
}

/* Return: 0, or -errno with braid_fail(). */
static int take_items(struct braid_online *o)
{
	int got, err = 0;

	while (!err && (got = braid_walk_next(&o->walk)) > 0)
		err = take_item(o, got);
	return err ? err : got;
}

/* The file ----------------------------------------------------------------------------------- */

/* Counts what its reader has found since the last time. */
static void count_faults(struct braid_online *o)
{
	o->totals.faults += o->source->faults - o->faults;
	o->faults = o->source->faults;
	if (!o->begun || o->source->nr_streams <= o->nr_streams)
		return;
	o->totals.streams_left_out += o->source->nr_streams - o->nr_streams;
	o->nr_streams = o->source->nr_streams;
}

static void engine_leave(struct braid_online *o)
{
	count_faults(o);
	if (o->begun)
		braid_walk_end(&o->walk);
	braid_online_sums_free(&o->sums);
	braid_source_free(o->source);
	free(o->path);
	o->source = NULL;
	o->path = NULL;
	o->begun = false;
}

/* It cannot be read on: what was summed up stays. Return: @err. */
static int engine_fail(struct braid_online *o, int err)
{
	o->totals.failed++;
	if (o->path && o->source)
		engine_leave(o);
	free(o->path);
	o->path = NULL;
	return err;
}

/* Whether the file shows what each vCPU did at its start. */
static bool shows_start(const struct braid_source *source, s64 until_ns)
{
	s64 start_ns = source->nr_windows ? source->windows[0].start_ns : INT64_MAX;

	return until_ns == INT64_MAX ||
	       (braid_states_takes(start_ns) && braid_states_takes(until_ns) &&
		until_ns >= start_ns + START_NS);
}

/* Return: 0, or -errno with braid_fail(). */
static int begin_sums(struct braid_online *o)
{
	int err;

	o->begun = true;
	o->nr_streams = o->source->nr_streams;
	err = braid_walk_begin(&o->walk, o->source, &o->walk_options, &o->walk_totals);
	o->walk.no_order = true;
	if (!err)
		err = braid_online_sums_begin(&o->sums, o->source, &o->guests, &o->options,
					      &o->totals);
	o->totals.guests_dropped += braid_online_drop(&o->guests,
						      o->totals.now_ns - (s64)o->options.retain_ns);
	return err ? err : braid_walk_start(&o->walk);
}

/* What the file has got is added to the walk. Return: 0, or -errno with braid_fail(). */
static int take_growth(struct braid_online *o)
{
	u32 generation = o->walk.generation;
	int err = braid_walk_more(&o->walk);

	return err ? err : braid_states_grown(&o->sums.states, o->walk.generation != generation);
}

/* All up to a time is known. Return: 0, or -errno with braid_fail(). */
static int pause_at(struct braid_online *o, s64 until_ns)
{
	int err;

	if (until_ns > o->latest_ns && braid_states_takes(until_ns))
		o->latest_ns = until_ns;
	err = braid_states_pause(&o->sums.states, o->latest_ns);
	if (err)
		return err;
	o->totals.now_ns = o->latest_ns;
	braid_online_sums_publish(&o->sums, o->latest_ns);
	return 0;
}

/* Return: 0, or -errno with braid_fail(). */
static int engine_end(struct braid_online *o)
{
	int err = braid_online_sums_end(&o->sums);
	s64 end_ns = o->sums.states.end_ns;

	if (!err && end_ns > o->totals.now_ns && braid_states_takes(end_ns))
		o->totals.now_ns = end_ns;
	return err;
}

/* The source has grown. Return: 0, or -errno with braid_fail(). */
static int engine_take(struct braid_online *o, s64 until_ns)
{
	int err;

	if (!o->begun && !shows_start(o->source, until_ns))
		return 0;
	err = o->begun ? take_growth(o) : begin_sums(o);
	if (!err)
		err = take_items(o);
	if (!err)
		err = until_ns == INT64_MAX ? engine_end(o) : pause_at(o, until_ns);
	return err;
}

/* What is asked of it ------------------------------------------------------------------------ */

int braid_online_open(struct braid_online *o, const char *path)
{
	const struct braid_source_options options = { .keep_samples = KEEP_SAMPLES };
	int err;

	if (o->path)
		return braid_fail(-EBUSY, "'%s' is still followed", o->path);
	o->totals.files++;
	o->faults = 0;
	o->latest_ns = INT64_MIN;
	o->path = strdup(path);
	err = o->path ? braid_source_follow(&o->source, o->path, &options) : braid_out_of_memory();
	return err ? engine_fail(o, err) : 0;
}

int braid_online_take(struct braid_online *o, const struct braid_capture_mark *mark)
{
	int err;

	if (!o->path)
		return 0;
	if (mark->until_ns == INT64_MAX)
		return braid_online_finish(o);
	if (!braid_states_takes(mark->until_ns) ||
	    (o->begun && mark->until_ns < o->latest_ns + (s64)o->options.every_ns))
		return 0;
	err = braid_source_grow(o->source, mark->bytes, mark->until_ns);
	if (!err)
		err = engine_take(o, mark->until_ns);
	if (err)
		return engine_fail(o, err);
	count_faults(o);
	return 0;
}

int braid_online_turn(struct braid_online *o, bool last)
{
	int ret = o->path ? braid_source_grow_alone(o->source, last) : BRAID_ONLINE_END, err = 0;

	if (!o->path)
		return ret;
	if (ret > 0)
		err = engine_take(o, o->source->until_ns);
	if (ret < 0 || err)
		return engine_fail(o, err ? err : ret);
	count_faults(o);
	if (o->source->until_ns != INT64_MAX)
		return ret;
	engine_leave(o);
	return BRAID_ONLINE_END;
}

int braid_online_finish(struct braid_online *o)
{
	int ret;

	do
		ret = braid_online_turn(o, true);
	while (ret == 1);
	return ret < 0 ? ret : 0;
}

const struct braid_online_guest *const *braid_online_guests(const struct braid_online *o,
							    size_t *nr)
{
	*nr = o->guests.nr;
	return (const struct braid_online_guest *const *)o->guests.items;
}

const struct braid_online_totals *braid_online_totals(const struct braid_online *o)
{
	return &o->totals;
}

u64 braid_online_silent_ns(const struct braid_online *o, const struct braid_online_guest *g)
{
	if (!g->driver || !g->sign_ns)
		return UINT64_MAX;
	return o->totals.now_ns > g->sign_ns ? (u64)(o->totals.now_ns - g->sign_ns) : 0;
}

u64 braid_online_worst_ns(const struct braid_online *o, const struct braid_online_histogram *h)
{
	s64 second = o->totals.now_ns / 1000000000;
	u64 now = h->now.second + 1 >= second ? h->now.ns : 0;
	u64 before = h->before.second + 1 >= second ? h->before.ns : 0;

	return now > before ? now : before;
}

/* Life --------------------------------------------------------------------------------------- */

int braid_online_begin(struct braid_online **out, const struct braid_online_options *options)
{
	struct braid_online *o = calloc(1, sizeof(*o));

	if (!o)
		return braid_out_of_memory();
	if (options)
		o->options = *options;
	o->options.every_ns = o->options.every_ns ?: 100000000;
	o->options.retain_ns = o->options.retain_ns ?: 3600000000000ULL;
	o->options.max_guests = o->options.max_guests ?: 1024;
	o->options.max_culprits = o->options.max_culprits ?: 32;
	o->options.max_cgroups = o->options.max_cgroups ?: 8;
	o->options.max_reasons = o->options.max_reasons ?: 64;
	*out = o;
	return 0;
}

void braid_online_end(struct braid_online *o)
{
	if (!o)
		return;
	if (o->path)
		engine_leave(o);
	braid_online_table_free(&o->guests);
	free(o);
}
