// SPDX-License-Identifier: GPL-2.0
/*
 * Gathers the events of all groups, finds their tracepoints, and turns their probes on and off.
 */
#include <linux/bsearch.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>

#include "guest_driver/source/group.h"
#include "guest_driver/source/source.h"

/*
 * struct braid_gathering - A visit of all groups.
 * @visitor: What the groups call.
 * @nr_events: Events seen.
 * @nr_evals: Names of numbers seen.
 */
struct braid_gathering {
	struct braid_visitor visitor;
	unsigned int nr_events;
	unsigned int nr_evals;
};

/* Written by braid_source_init() alone. */
static const struct braid_tracepoint **braid_events;	/* by system and name */
static unsigned int braid_nr_events;
static unsigned int braid_nr_missing;
static unsigned int braid_nr_left_out;
static const struct braid_eval **braid_evals;		/* by system and name */
static unsigned int braid_nr_evals;

/* Serializes registrations, and guards state->event of every event. */
static DEFINE_MUTEX(braid_source_mutex);

static void __init braid_visit_groups(struct braid_gathering *gathering)
{
	gathering->nr_events = 0;
	gathering->nr_evals = 0;
	braid_group_cpu(&gathering->visitor);
	braid_group_mm(&gathering->visitor);
	braid_group_io(&gathering->visitor);
	if (IS_ENABLED(CONFIG_NET))
		braid_group_net(&gathering->visitor);
	braid_group_kernel(&gathering->visitor);
}

static void __init braid_count_event(struct braid_visitor *visitor,
				     const struct braid_tracepoint *tp)
{
	container_of(visitor, struct braid_gathering, visitor)->nr_events++;
}

static void __init braid_count_eval(struct braid_visitor *visitor, const struct braid_eval *eval)
{
	container_of(visitor, struct braid_gathering, visitor)->nr_evals++;
}

static void __init braid_take_event(struct braid_visitor *visitor,
				    const struct braid_tracepoint *tp)
{
	braid_events[container_of(visitor, struct braid_gathering, visitor)->nr_events++] = tp;
}

static void __init braid_take_eval(struct braid_visitor *visitor, const struct braid_eval *eval)
{
	braid_evals[container_of(visitor, struct braid_gathering, visitor)->nr_evals++] = eval;
}

static int __init braid_gather(void)
{
	struct braid_gathering gathering = {
		.visitor = { .tracepoint = braid_count_event, .eval = braid_count_eval },
	};

	braid_visit_groups(&gathering);
	braid_events = kvcalloc(gathering.nr_events, sizeof(*braid_events), GFP_KERNEL);
	braid_evals = kvcalloc(gathering.nr_evals, sizeof(*braid_evals), GFP_KERNEL);
	if (!braid_events || !braid_evals)
		return -ENOMEM;
	gathering.visitor.tracepoint = braid_take_event;
	gathering.visitor.eval = braid_take_eval;
	braid_visit_groups(&gathering);
	braid_nr_events = gathering.nr_events;
	braid_nr_evals = gathering.nr_evals;
	return 0;
}

static int braid_compare_names(const void *a, const void *b)
{
	const struct braid_tracepoint *const *left = a, *const *right = b;

	return strcmp((*left)->name, (*right)->name);
}

static int braid_compare_events(const void *a, const void *b)
{
	const struct braid_tracepoint *const *left = a, *const *right = b;

	return strcmp((*left)->system, (*right)->system) ?: braid_compare_names(a, b);
}

static int braid_compare_evals(const void *a, const void *b)
{
	const struct braid_eval *const *left = a, *const *right = b;

	return strcmp((*left)->system, (*right)->system) ?: strcmp((*left)->name, (*right)->name);
}

static int braid_compare_tracepoint(const void *key, const void *element)
{
	const struct tracepoint *tracepoint = key;
	const struct braid_tracepoint *const *tp = element;

	return strcmp(tracepoint->name, (*tp)->name);
}

/* Must find the events sorted by name. A tracepoint's name is a symbol: it belongs to one. */
static void __init braid_match(struct tracepoint *tracepoint, void *unused)
{
	const struct braid_tracepoint **tp;

	tp = bsearch(tracepoint, braid_events, braid_nr_events, sizeof(*braid_events),
		     braid_compare_tracepoint);
	if (tp)
		(*tp)->state->tracepoint = tracepoint;
}

/* Keep the events that can be handed out, count the others. */
static void __init braid_select(void)
{
	unsigned int i, kept = 0;

	for (i = 0; i < braid_nr_events; i++) {
		const struct braid_tracepoint *tp = braid_events[i];

		if (!tp->state->tracepoint)
			braid_nr_missing++;
		else if (braid_leave_out(tp))
			braid_nr_left_out++;
		else
			braid_events[kept++] = tp;
	}
	braid_nr_events = kept;
}

/**
 * braid_source_init() - Determine the available events.
 *
 * May sleep. Return: 0 or -ENOMEM.
 */
int __init braid_source_init(void)
{
	unsigned int i;
	int ret;

	ret = braid_gather();
	if (ret) {
		braid_source_exit();
		return ret;
	}
	sort(braid_evals, braid_nr_evals, sizeof(*braid_evals), braid_compare_evals, NULL);
	sort(braid_events, braid_nr_events, sizeof(*braid_events), braid_compare_names, NULL);
	for_each_kernel_tracepoint(braid_match, NULL);
	braid_select();
	sort(braid_events, braid_nr_events, sizeof(*braid_events), braid_compare_events, NULL);
	for (i = 0; i < braid_nr_events; i++) {
		const struct braid_tracepoint *tp = braid_events[i];

		tp->state->index = i;
		braid_source_symbol_fields(tp, tp->symbols, BRAID_SYMBOLS_MAX);
	}
	return 0;
}

/**
 * braid_source_exit() - Disable all enabled events, and forget all events.
 *
 * May sleep.
 */
void braid_source_exit(void)
{
	unsigned int i;

	for (i = 0; i < braid_nr_events; i++)
		braid_source_disable(braid_events[i]);
	braid_source_synchronize();
	kvfree(braid_events);
	kvfree(braid_evals);
	braid_events = NULL;
	braid_evals = NULL;
	braid_nr_events = 0;
	braid_nr_evals = 0;
}

/**
 * braid_source_next() - Walk over all events of the running kernel, by system and name.
 * @prev: The event before, or NULL to begin.
 *
 * Return: An event, or NULL at the end.
 */
const struct braid_tracepoint *braid_source_next(const struct braid_tracepoint *prev)
{
	unsigned int index = prev ? prev->state->index + 1 : 0;

	return index < braid_nr_events ? braid_events[index] : NULL;
}

/**
 * braid_source_count() - Number of events that braid_source_next() walks over.
 */
unsigned int braid_source_count(void)
{
	return braid_nr_events;
}

/**
 * braid_source_missing() - Number of events whose tracepoint the running kernel does not have.
 */
unsigned int braid_source_missing(void)
{
	return braid_nr_missing;
}

/**
 * braid_source_left_out() - Number of events left out although their tracepoint is there.
 */
unsigned int braid_source_left_out(void)
{
	return braid_nr_left_out;
}

/**
 * braid_source_enable() - Record an event.
 * @tp: The event.
 * @event: Where its probe writes. Must live until braid_source_disable() and
 *         braid_source_synchronize() have returned.
 *
 * May sleep. Return: 0, -EBUSY if it is on, or the tracepoint's error.
 */
int braid_source_enable(const struct braid_tracepoint *tp, struct braid_event *event)
{
	struct braid_source_state *state = tp->state;
	int ret = -EBUSY;

	mutex_lock(&braid_source_mutex);
	if (!state->event) {
		ret = tracepoint_probe_register(state->tracepoint, tp->probe, event);
		if (!ret)
			state->event = event;
	}
	mutex_unlock(&braid_source_mutex);
	return ret;
}

/**
 * braid_source_disable() - Stop recording an event.
 * @tp: The event.
 *
 * A probe may still be running until braid_source_synchronize() has returned.
 *
 * May sleep. Return: 0, also if it was off, or the tracepoint's error.
 */
int braid_source_disable(const struct braid_tracepoint *tp)
{
	struct braid_source_state *state = tp->state;
	int ret = 0;

	mutex_lock(&braid_source_mutex);
	if (state->event) {
		ret = tracepoint_probe_unregister(state->tracepoint, tp->probe, state->event);
		if (!ret)
			state->event = NULL;
	}
	mutex_unlock(&braid_source_mutex);
	return ret;
}

/**
 * braid_source_synchronize() - Wait until no disabled probe runs any more.
 *
 * May sleep.
 */
void braid_source_synchronize(void)
{
	tracepoint_synchronize_unregister();
}

/**
 * braid_eval_find() - Look up a name that a print format uses.
 * @system: System of the event.
 * @name: Start of the name.
 * @length: Its length in bytes.
 *
 * Return: The name and its number, or NULL if the name is unknown.
 */
const struct braid_eval *braid_eval_find(const char *system, const char *name, size_t length)
{
	unsigned int low = 0, high = braid_nr_evals;

	while (low < high) {
		unsigned int middle = low + (high - low) / 2;
		const struct braid_eval *eval = braid_evals[middle];
		int order = strcmp(system, eval->system) ?: strncmp(name, eval->name, length);

		if (!order && eval->name[length])
			order = -1;
		if (!order)
			return eval;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}
