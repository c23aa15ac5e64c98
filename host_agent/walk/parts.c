// SPDX-License-Identifier: GPL-2.0-or-later
/* Threads take one part after the other; the caller's thread writes them in order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/error.h"
#include "host_agent/util/thread.h"
#include "host_agent/walk/parts.h"

/*
 * Pages of a part: so many that what precedes it in a ring, some pages, is little, and so few that
 * its lines take little memory.
 */
#define PART_PAGES	1024u
#define RING_PAGES	32u		/* or these times the rings, if that is more */
#define MORE_SLOTS	2u		/* parts that are made or wait: one a thread, and these */
#define MOST_LOOK_NS	10000000u	/* how far before a part the order of events is looked at */

/* A part: it is taken by a thread, and then written. */
struct slot {
	bool done;
	struct braid_text text;
	struct braid_walk_totals totals;
	struct braid_order begun, ended;	/* the order before it, and after it, with
						   ->earliest_ns of its events */
	u64 begun_rings, ended_rings;		/* likewise, where the rings were */
	bool odd;				/* something in it is wrong */
	int err;
	char failure[1024];
};

struct maker {
	struct parts *parts;
	pthread_t thread;
	struct braid_source *source;
	struct braid_walk_totals totals;
	struct braid_parts_maker made;
	bool begun;
	size_t next;			/* the part that begins where it is */
};

struct parts {
	struct braid_walk *walk;
	const struct braid_walk_ops *ops;
	void *arg;
	const struct braid_parts_form *form;
	struct braid_walk_options options;	/* of a thread */
	s64 *cuts;
	size_t nr;				/* one more than cuts */
	s64 look_ns;
	struct maker *makers;
	size_t nr_makers;
	struct slot *slots;
	size_t nr_slots;

	pthread_mutex_t lock;		/* protects all that follows, and slot->done */
	pthread_cond_t moved;
	size_t taken;			/* parts */
	size_t written;
	bool over;			/* no more are taken */
	bool apart;			/* a thread makes what is made apart, or did */
	int apart_err;			/* of that; valid when the threads have ended */
	char apart_failure[1024];
};

/* Where all rings are: the items that are next. */
static u64 digest(const struct braid_source *source)
{
	u64 sum = 0;
	size_t k, n, j;

	for (k = 0; k < source->nr_streams; k++) {
		for (n = 0; n < source->streams[k]->nr_rings; n++) {
			const struct braid_item *i = &source->streams[k]->rings[n]->item;
			const u64 words[] = {
				i->kind, i->host_ns, i->bound_ns, i->counter, i->seq, i->lost_before,
				i->damaged_before, i->payload_bytes,
			};

			for (j = 0; j < sizeof(words) / sizeof(*words); j++)
				sum = ((sum << 5 | sum >> 59) ^ words[j]) * 0x9e3779b97f4a7c15;
		}
	}
	return sum;
}

/* Making ------------------------------------------------------------------------------------- */

static int open_source(const struct parts *p, struct braid_source **source)
{
	int err = p->walk->options->reopen(p->walk->options->reopen_arg, source);

	return err || braid_source_is_same(p->walk->source, *source) ? err :
	       braid_fail(-ESTALE, "the capture was replaced while it was read");
}

static int maker_begin(struct maker *m)
{
	const struct parts *p = m->parts;
	int err = open_source(p, &m->source);

	if (err)
		return err;
	m->begun = true;
	err = p->form->begin(p->arg, m->source, &p->options, &m->totals, &m->made);
	if (err)
		return err;
	m->made.walk->in_parts = true;
	return braid_walk_start(m->made.walk);
}

static void maker_end(struct maker *m)
{
	if (m->begun)
		m->parts->form->end(&m->made);
	braid_source_free(m->source);
}

/* Goes to a part; what it finds on the way is not written. */
static int go_to(struct maker *m, size_t part)
{
	const struct parts *p = m->parts;
	s64 from_ns = p->cuts[part - 1];
	int ret = braid_walk_part(m->made.walk, from_ns - p->look_ns, from_ns);

	if (!ret)
		while ((ret = braid_walk_next(m->made.walk)) > 0)
			;
	return ret;
}

static int deliver_part(struct maker *m, size_t part)
{
	const struct parts *p = m->parts;
	struct braid_walk *w = m->made.walk;
	int ret = braid_walk_part(w, part ? p->cuts[part - 1] : INT64_MIN,
				  part + 1 < p->nr ? p->cuts[part] : INT64_MAX);

	while (!ret && (ret = braid_walk_next(w)) > 0)
		ret = braid_walk_deliver(w, m->made.ops, m->made.arg, ret);
	if (!ret && m->made.finish)
		ret = m->made.finish(m->made.arg);
	if (!ret && m->made.out->failed)
		ret = braid_out_of_memory();
	return ret;
}

static void swap_text(struct braid_text *a, struct braid_text *b)
{
	struct braid_text a_was = *a;

	*a = *b;
	*b = a_was;
}

static int make_part(struct maker *m, size_t part, struct slot *slot)
{
	struct braid_walk *w = m->made.walk;
	u64 faults = m->source->faults;
	int err = part == m->next ? 0 : go_to(m, part);

	if (err)
		return err;
	slot->begun = w->order;
	slot->begun_rings = digest(m->source);
	w->order.earliest_ns = INT64_MAX;
	m->totals = (struct braid_walk_totals){ 0 };
	slot->text.bytes = 0;
	swap_text(&slot->text, m->made.out);
	err = deliver_part(m, part);
	swap_text(&slot->text, m->made.out);
	slot->ended = w->order;
	slot->ended_rings = digest(m->source);
	slot->totals = m->totals;
	slot->odd = m->source->faults != faults;
	m->next = part + 1;
	return err;
}

/* Return: whether there is a part to make. */
static bool take_part(struct parts *p, size_t *part)
{
	bool more;

	pthread_mutex_lock(&p->lock);
	while (!p->over && p->taken < p->nr && p->taken - p->written >= p->nr_slots)
		pthread_cond_wait(&p->moved, &p->lock);
	more = !p->over && p->taken < p->nr;
	*part = p->taken;
	p->taken += more;
	pthread_mutex_unlock(&p->lock);
	return more;
}

static void finish_part(struct parts *p, struct slot *slot, int err)
{
	slot->err = err;
	if (err)
		snprintf(slot->failure, sizeof(slot->failure), "%s", braid_failure());
	pthread_mutex_lock(&p->lock);
	slot->done = true;
	pthread_cond_broadcast(&p->moved);
	pthread_mutex_unlock(&p->lock);
}

/* The first thread does it, and then makes parts, too. */
static void make_apart(struct parts *p)
{
	struct braid_source *source = NULL;
	bool mine;
	int err;

	pthread_mutex_lock(&p->lock);
	mine = p->form->apart && !p->apart;
	p->apart |= mine;
	pthread_mutex_unlock(&p->lock);
	if (!mine)
		return;
	err = open_source(p, &source);
	if (!err)
		err = p->form->apart(p->arg, source, &p->options);
	if (err)
		snprintf(p->apart_failure, sizeof(p->apart_failure), "%s", braid_failure());
	p->apart_err = err;
	braid_source_free(source);
}

/* A thread without a source takes no part. */
static void *run_maker(void *arg)
{
	struct maker *m = arg;
	struct parts *p = m->parts;
	size_t part;

	make_apart(p);
	if (!m->begun && maker_begin(m))
		return NULL;
	while (take_part(p, &part)) {
		struct slot *slot = &p->slots[part % p->nr_slots];

		finish_part(p, slot, make_part(m, part, slot));
	}
	return NULL;
}

/* Joining ------------------------------------------------------------------------------------ */

static struct slot *await_part(struct parts *p)
{
	struct slot *slot = &p->slots[p->written % p->nr_slots];

	pthread_mutex_lock(&p->lock);
	while (!slot->done)
		pthread_cond_wait(&p->moved, &p->lock);
	pthread_mutex_unlock(&p->lock);
	return slot;
}

static void leave_slot(struct parts *p, struct slot *slot)
{
	pthread_mutex_lock(&p->lock);
	slot->done = false;
	p->written++;
	pthread_cond_broadcast(&p->moved);
	pthread_mutex_unlock(&p->lock);
}

static void add_totals(struct braid_walk_totals *to, const struct braid_walk_totals *part)
{
	to->lines += part->lines;
	to->events += part->events;
	to->lost += part->lost;
	to->uncertain += part->uncertain;
	to->some_lost |= part->some_lost;
	to->parts++;
}

static void show_progress(const struct parts *p)
{
	const struct braid_walk_options *o = p->walk->options;
	u64 bytes = p->walk->source->bytes;

	if (o->progress)
		o->progress(o->progress_arg, "merging", bytes / p->nr * p->written, bytes);
}

/* Writes the parts, as far as they fit together. Return: 0, or -errno. */
static int join_parts(struct parts *p)
{
	struct braid_order order = { .earliest_ns = INT64_MAX };
	u64 rings = 0;
	int err = 0;

	while (p->written < p->nr && !err) {
		struct slot *slot = await_part(p);

		if (slot->err)
			return braid_fail(slot->err, "%s", slot->failure);
		if (slot->odd || (p->written && (slot->begun_rings != rings ||
		    !braid_order_agrees(&order, &slot->begun, slot->ended.earliest_ns))))
			return 0;
		err = p->form->write(p->arg, &slot->text);
		add_totals(p->walk->totals, &slot->totals);
		braid_order_join(&order, &slot->ended);
		rings = slot->ended_rings;
		leave_slot(p, slot);
		show_progress(p);
	}
	return err;
}

/* One walk: all that is before a time was written. */
struct rest {
	const struct braid_walk_ops *ops;
	void *arg;
	s64 from_ns;
};

static int rest_put_event(void *arg, const struct braid_item *item,
			  const struct braid_event_type_info *info)
{
	const struct rest *r = arg;

	return item->host_ns >= r->from_ns ? r->ops->event(r->arg, item, info) : 0;
}

static int rest_put_lost(void *arg, const struct braid_item *item)
{
	const struct rest *r = arg;

	return item->host_ns >= r->from_ns ? r->ops->lost(r->arg, item) : 0;
}

static int rest_put_note(void *arg, const struct braid_item *item)
{
	const struct rest *r = arg;

	return item->host_ns >= r->from_ns ? r->ops->note(r->arg, item) : 0;
}

static int walk_rest(struct parts *p)
{
	static const struct braid_walk_ops ops = {
		.event = rest_put_event, .lost = rest_put_lost, .note = rest_put_note,
	};
	struct rest rest = {
		.ops = p->ops, .arg = p->arg,
		.from_ns = p->written ? p->cuts[p->written - 1] : INT64_MIN,
	};

	*p->walk->totals = (struct braid_walk_totals){ 0 };
	return braid_walk_run(p->walk, &ops, &rest);
}

/* The run ------------------------------------------------------------------------------------ */

/* Return: 1, or 0: no thread can be started; or -errno. */
static int run_all(struct parts *p)
{
	size_t k, nr;
	int err;

	for (nr = 0; nr < p->nr_makers; nr++)
		if (braid_thread_begin(&p->makers[nr].thread, run_maker, &p->makers[nr]))
			break;
	err = nr ? join_parts(p) : 0;
	pthread_mutex_lock(&p->lock);
	p->over = true;
	pthread_cond_broadcast(&p->moved);
	pthread_mutex_unlock(&p->lock);
	for (k = 0; k < nr; k++)
		pthread_join(p->makers[k].thread, NULL);
	if (!err && p->apart_err)
		err = braid_fail(p->apart_err, "%s", p->apart_failure);
	if (!err && nr && p->written < p->nr)
		err = walk_rest(p);
	return err ? err : nr > 0;
}

/* Twice the worst bound: no two events that are farther apart are in an uncertain order. */
static s64 look_of(const struct braid_source *source)
{
	u64 worst = 0;
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if (source->streams[k]->bound_ns > worst)
			worst = source->streams[k]->bound_ns;
	return worst < MOST_LOOK_NS / 2 ? 2 * worst : MOST_LOOK_NS;
}

static size_t count_rings(const struct braid_source *source)
{
	size_t k, nr = 0;

	for (k = 0; k < source->nr_streams; k++)
		nr += source->streams[k]->nr_rings;
	return nr;
}

static int take_cuts(struct parts *p, s64 from_ns, s64 to_ns)
{
	const struct braid_walk_options *o = p->walk->options;
	size_t k;

	free(p->cuts);
	p->nr = 0;
	p->cuts = reallocarray(NULL, o->nr_cuts, sizeof(*p->cuts));
	for (k = 0; k < o->nr_cuts && p->cuts; k++)
		if (o->cuts[k] > from_ns && o->cuts[k] <= to_ns)
			p->cuts[p->nr++] = o->cuts[k];
	return p->cuts ? 0 : braid_out_of_memory();
}

/* The parts of the selected time. Return: 0, or -errno. */
static int find_parts(struct parts *p, struct maker *first)
{
	size_t pages = RING_PAGES * count_rings(first->source);
	s64 from_ns, to_ns;
	int err;

	if (pages < PART_PAGES)
		pages = PART_PAGES;
	if (p->walk->options->nr_cuts)
		pages = 1;
	braid_walk_range(first->made.walk, &from_ns, &to_ns);
	err = braid_source_cut(first->source, pages, from_ns, to_ns, &p->cuts, &p->nr);
	if (!err && p->nr && p->walk->options->nr_cuts)
		err = take_cuts(p, from_ns, to_ns);
	p->nr++;
	return err;
}

/* The first one is begun here: the parts are found by its source. */
static int parts_begin(struct parts *p)
{
	size_t k;
	int err;

	p->nr_makers = p->walk->options->cpus;
	p->makers = calloc(p->nr_makers, sizeof(*p->makers));
	if (!p->makers)
		return braid_out_of_memory();
	for (k = 0; k < p->nr_makers; k++)
		p->makers[k].parts = p;
	err = maker_begin(&p->makers[0]);
	if (!err)
		err = find_parts(p, &p->makers[0]);
	if (p->nr_makers > p->nr)
		p->nr_makers = p->nr;
	p->nr_slots = p->nr_makers + MORE_SLOTS;
	p->slots = calloc(p->nr_slots, sizeof(*p->slots));
	return err ? err : p->slots ? 0 : braid_out_of_memory();
}

static void parts_free(struct parts *p)
{
	size_t k;

	for (k = 0; p->makers && k < p->walk->options->cpus; k++)
		maker_end(&p->makers[k]);
	for (k = 0; p->slots && k < p->nr_slots; k++)
		braid_text_free(&p->slots[k].text);
	free(p->makers);
	free(p->slots);
	free(p->cuts);
}

int braid_parts_try(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg,
		    const struct braid_parts_form *form)
{
	struct parts p = {
		.walk = w, .ops = ops, .arg = arg, .form = form, .options = *w->options,
		.look_ns = look_of(w->source), .nr = 1, .lock = PTHREAD_MUTEX_INITIALIZER,
		.moved = PTHREAD_COND_INITIALIZER,
	};
	int ret = 0;

	if (w->options->cpus < 2 || !w->options->reopen || w->options->max_lines ||
	    w->source->faults)
		return 0;
	p.options.progress = NULL;
	/* Where that fails, the one walk says why, or does without. */
	if (!parts_begin(&p) && p.nr > 1)
		ret = run_all(&p);
	parts_free(&p);
	return ret;
}

int braid_parts_run(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg,
		    const struct braid_parts_form *form)
{
	int ret = braid_parts_try(w, ops, arg, form);

	return ret < 0 ? ret : ret ? 0 : braid_walk_run(w, ops, arg);
}
