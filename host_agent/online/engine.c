// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows one file of a recording after another. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/analyze/grow.h"
#include "host_agent/online/file.h"
#include "host_agent/trace/merge.h"
#include "host_agent/util/error.h"

/* Of a file: in that time vCPUs' first events show what they did at its start. */
#define START_NS	300000000

struct braid_online {
	struct braid_online_options options;
	struct braid_online_table guests;
	struct braid_online_totals totals;
	struct braid_online_events events;
	struct braid_online_file *file;	/* that is followed; NULL: none */
	/* The one before, whose sums wait for the next file: they may go on in it. */
	struct braid_online_file *waits;
	struct braid_online_file *rest;	/* or, once they do, what it has after its stop */
	s64 latest_ns;			/* of items, and of pauses: earlier ones are late */
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
static int take_late(struct braid_online *o, struct braid_states *s, const struct braid_item *item)
{
	struct braid_item lost = *item;

	o->totals.late++;
	lost.host_ns = o->latest_ns;
	return braid_states_lost(s, &lost);
}

/* Return: 0, or -errno with braid_fail(). */
static int take_item(struct braid_online *o, struct braid_online_file *f, int got,
		     const struct braid_item *item, const struct braid_event_type_info *info)
{
	struct braid_online_sums *x = &f->sums;
	struct braid_online_guest *g;
	int err = 0;

	if (got == BRAID_WALK_NOTE || item->stream->number >= x->states.nr_streams ||
	    !braid_states_takes(item->host_ns))
		return 0;
	g = x->guests[item->stream->number];
	if (item->stream->kind == BRAID_STREAM_HOST)
		count_host(&o->totals, item, got);
	else if (g)
		count_guest(g, item, got);
	if (o->events.nr && g && got == BRAID_WALK_EVENT)
		err = braid_online_events_take(&o->events, &f->matches, f->walk.generation, g, item,
					       info);
	if (err)
		return err;
	if (item->host_ns < o->latest_ns)
		return take_late(o, &x->states, item);
	o->latest_ns = item->host_ns;
	return got == BRAID_WALK_EVENT ? braid_states_event(&x->states, item, info) :
					 braid_states_lost(&x->states, item);
}

/* The rest's item counts as one of the file's. Return: 0, or -errno with braid_fail(). */
static int take_rest(struct braid_online *o)
{
	const struct braid_item *item = &o->rest->item;
	const struct braid_event_type_info *info = NULL;
	int err = 0;

	if (item->stream && o->rest->got == BRAID_WALK_EVENT) {
		info = braid_format_event(o->file->walk.format, item);
		err = info ? 0 : braid_out_of_memory();
	}
	if (!err && item->stream)
		err = take_item(o, o->file, o->rest->got, item, info);
	return err ? err : braid_online_file_next(o->rest);
}

/* Whether the rest has the earlier item. @got: by the file's walk */
static bool rest_is_next(const struct braid_online *o, int got, s64 until_ns)
{
	const struct braid_online_file *rest = o->rest;

	return rest && rest->got > 0 && rest->item.host_ns <= until_ns &&
	       (!got || rest->item.host_ns <= o->file->walk.item->host_ns);
}

/* All of a file, and of the rest up to a time. Return: 0, or -errno with braid_fail(). */
static int take_items(struct braid_online *o, struct braid_online_file *f, s64 until_ns)
{
	int got = braid_walk_next(&f->walk), err = 0;

	while (got >= 0 && !err) {
		if (f == o->file && rest_is_next(o, got, until_ns)) {
			err = take_rest(o);
			continue;
		}
		if (!got)
			break;
		err = take_item(o, f, got, f->walk.item, f->walk.info);
		if (!err)
			got = braid_walk_next(&f->walk);
	}
	return err ? err : got;
}

/* The file ----------------------------------------------------------------------------------- */

/* Counts what its reader has found since the last time. */
static void count_faults(struct braid_online *o, struct braid_online_file *f)
{
	o->totals.faults += f->source->faults - f->faults;
	f->faults = f->source->faults;
	if (!f->begun || f->source->nr_streams <= f->nr_streams)
		return;
	o->totals.streams_left_out += f->source->nr_streams - f->nr_streams;
	f->nr_streams = f->source->nr_streams;
}

static void engine_leave(struct braid_online *o, struct braid_online_file **f)
{
	if (*f)
		count_faults(o, *f);
	braid_online_file_free(*f);
	*f = NULL;
}

/* It cannot be read on: what was summed up stays. Return: @err. */
static int engine_fail(struct braid_online *o, int err)
{
	o->totals.failed++;
	engine_leave(o, &o->file);
	engine_leave(o, &o->rest);
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

/* All up to a time is known. Return: 0, or -errno with braid_fail(). */
static int pause_at(struct braid_online *o, s64 until_ns)
{
	struct braid_online_sums *x = &o->file->sums;
	int err;

	if (until_ns > o->latest_ns && braid_states_takes(until_ns))
		o->latest_ns = until_ns;
	err = braid_states_pause(&x->states, o->latest_ns);
	if (err)
		return err;
	o->totals.now_ns = o->latest_ns;
	braid_online_sums_publish(x, o->latest_ns);
	if (o->rest && !o->rest->got)	/* no state looks at its rings any more */
		engine_leave(o, &o->rest);
	return 0;
}

/* Nothing follows. Return: 0, or -errno with braid_fail(). */
static int end_sums(struct braid_online *o, struct braid_online_file *f)
{
	int err = braid_online_sums_end(&f->sums);
	s64 end_ns = f->sums.states.end_ns;

	if (!err && end_ns > o->totals.now_ns && braid_states_takes(end_ns))
		o->totals.now_ns = end_ns;
	return err;
}

/* No file goes on with the sums that wait. Return: 0, or -errno with braid_fail(). */
static int settle(struct braid_online *o)
{
	int err = 0;

	if (!o->waits)
		return 0;
	braid_merge_stop_before(o->waits->walk.merge, INT64_MAX);
	err = take_items(o, o->waits, INT64_MAX);
	if (!err)
		err = end_sums(o, o->waits);
	engine_leave(o, &o->waits);
	return err;
}

/* Whether the file is the next one of the sums that wait. */
static bool goes_on(const struct braid_online *o)
{
	const struct braid_source *source = o->file->source;
	const struct braid_window *w = source->nr_windows == 1 ? &source->windows[0] : NULL;

	return o->waits && w && w->after_ns && braid_states_takes(w->start_ns) &&
	       w->start_ns - w->after_ns == braid_online_file_stop_ns(o->waits);
}

/* Return: 0, or -errno with braid_fail(). */
static int begin_sums(struct braid_online *o)
{
	struct braid_online_file *f = o->file;
	bool on = goes_on(o);
	int err = on ? 0 : settle(o);

	if (!on)
		o->latest_ns = INT64_MIN;
	if (err)
		return err;
	f->begun = true;
	f->nr_streams = f->source->nr_streams;
	err = braid_walk_begin(&f->walk, f->source, &f->walk_options, &f->walk_totals);
	f->walk.no_order = true;
	if (!err)
		err = braid_online_sums_begin(&f->sums, f->source, &o->guests, &o->options,
					      &o->totals);
	if (!err && on) {
		o->rest = o->waits;
		o->waits = NULL;
		err = braid_online_sums_go_on(&f->sums, &o->rest->sums) ?:
		      braid_online_file_rest(o->rest, f->source);
		braid_online_sums_free(&o->rest->sums);
	}
	o->totals.guests_dropped += braid_online_drop(&o->guests,
						      o->totals.now_ns - (s64)o->options.retain_ns);
	return err ? err : braid_walk_start(&f->walk);
}

/* What the file has got is added to the walk. Return: 0, or -errno with braid_fail(). */
static int take_growth(struct braid_online_file *f)
{
	u32 generation = f->walk.generation;
	int err = braid_walk_more(&f->walk);

	return err ? err : braid_states_grown(&f->sums.states, f->walk.generation != generation);
}

/*
 * The source has grown. What follows its stop, once it states one, is left for the next file.
 * Return: 0, or -errno with braid_fail().
 */
static int engine_take(struct braid_online *o, s64 until_ns)
{
	struct braid_online_file *f = o->file;
	s64 stop_ns = braid_online_file_stop_ns(f);
	int err;

	if (!f->begun && !shows_start(f->source, until_ns))
		return 0;
	err = f->begun ? take_growth(f) : begin_sums(o);
	if (err)
		return err;
	if (stop_ns != INT64_MAX)
		braid_merge_stop_before(f->walk.merge, stop_ns + 1);
	until_ns = until_ns < stop_ns ? until_ns : stop_ns;
	err = take_items(o, f, until_ns);
	if (err)
		return err;
	return until_ns == INT64_MAX ? end_sums(o, f) : pause_at(o, until_ns);
}

/* All of it was taken. */
static void wait_for_next(struct braid_online *o)
{
	engine_leave(o, &o->rest);
	if (braid_online_file_stop_ns(o->file) == INT64_MAX) {
		engine_leave(o, &o->file);
		return;
	}
	count_faults(o, o->file);
	o->waits = o->file;
	o->file = NULL;
}

/* What is asked of it ------------------------------------------------------------------------ */

int braid_online_open(struct braid_online *o, const char *path)
{
	int err;

	if (o->file)
		return braid_fail(-EBUSY, "'%s' is still followed", o->file->path);
	o->totals.files++;
	err = braid_online_file_open(&o->file, path);
	return err ? engine_fail(o, err) : 0;
}

int braid_online_take(struct braid_online *o, const struct braid_capture_mark *mark)
{
	int err;

	if (!o->file)
		return 0;
	if (mark->until_ns == INT64_MAX)
		return braid_online_finish(o);
	if (!braid_states_takes(mark->until_ns) ||
	    (o->file->begun && mark->until_ns < o->latest_ns + (s64)o->options.every_ns))
		return 0;
	err = braid_source_grow(o->file->source, mark->bytes, mark->until_ns);
	if (!err)
		err = engine_take(o, mark->until_ns);
	if (err)
		return engine_fail(o, err);
	count_faults(o, o->file);
	return 0;
}

int braid_online_turn(struct braid_online *o, bool last)
{
	int ret, err = 0;

	if (!o->file)
		return BRAID_ONLINE_END;
	ret = braid_source_grow_alone(o->file->source, last);
	if (ret > 0)
		err = engine_take(o, o->file->source->until_ns);
	if (ret < 0 || err)
		return engine_fail(o, err ? err : ret);
	if (o->file->source->until_ns == INT64_MAX) {
		wait_for_next(o);
		return BRAID_ONLINE_END;
	}
	count_faults(o, o->file);
	return ret;
}

int braid_online_finish(struct braid_online *o)
{
	int ret;

	do
		ret = braid_online_turn(o, true);
	while (ret == 1);
	return ret < 0 ? ret : settle(o);
}

int braid_online_watch(struct braid_online *o, const char *pattern, const char *filter,
		       u32 *number)
{
	return braid_online_events_add(&o->events, pattern, filter, number);
}

void braid_online_unwatch(struct braid_online *o, u32 number)
{
	braid_online_events_remove(&o->events, &o->guests, number);
}

void braid_online_look_again(struct braid_online *o)
{
	o->events.look++;
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

u64 braid_online_wakeup_ns(const struct braid_online *o, const struct braid_online_guest *g)
{
	return braid_online_worst_ns(o, braid_online_shows_tasks(g) ? &g->wakeups :
								      &g->vcpu_wakeups);
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
	braid_online_file_free(o->file);
	braid_online_file_free(o->waits);
	braid_online_file_free(o->rest);
	braid_online_table_free(&o->guests);
	braid_online_events_free(&o->events);
	free(o);
}
