// SPDX-License-Identifier: GPL-2.0
/* Keeps the filters of events, and judges records by them; and the memory where these wait. */
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/slab.h>

#include "guest_driver/event/filter.h"

#define NR_LEVELS	6	/* contexts of one CPU that assemble a record at the same time */

/* NR_LEVELS of each CPU; allocated with the first filter. */
static DEFINE_PER_CPU(struct braid_aside *, asides);
static DEFINE_PER_CPU(u32, level);
static unsigned int nr_filters;		/* under the registry's lock */

/* Records -------------------------------------------------------------------------------- */

notrace struct braid_aside *braid_filter_take_aside(u32 bytes)
{
	u32 at = __this_cpu_read(level);

	if (bytes > BRAID_FILTER_RECORD || at >= NR_LEVELS)
		return NULL;
	__this_cpu_write(level, at + 1);
	barrier();
	return __this_cpu_read(asides) + at;
}

notrace void braid_filter_give_aside(void)
{
	barrier();
	__this_cpu_dec(level);
}

notrace bool braid_filter_judge(const struct braid_event_filter *filter,
				const struct braid_filter_record *record)
{
	enum braid_filter_verdict verdict = braid_filter_run(&filter->program, record);

	if (verdict == BRAID_FILTER_UNJUDGED)
		this_cpu_inc(filter->account->unjudged);
	if (verdict == BRAID_FILTER_DROP)
		this_cpu_inc(filter->account->filtered);
	return verdict != BRAID_FILTER_DROP;
}

notrace void braid_filter_count(const struct braid_event_filter *filter, bool written)
{
	if (!filter)
		return;
	if (written)
		this_cpu_inc(filter->account->written);
	else
		this_cpu_inc(filter->account->lost);
}

/* Setting -------------------------------------------------------------------------------- */

void braid_filter_free_scratch(void)
{
	int cpu;

	braid_synchronize_writers();	/* also of an event that is being removed */
	for_each_possible_cpu(cpu) {
		kvfree(per_cpu(asides, cpu));
		per_cpu(asides, cpu) = NULL;
	}
}

int braid_filter_make_scratch(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		if (per_cpu(asides, cpu))
			continue;
		per_cpu(asides, cpu) = kvcalloc(NR_LEVELS, sizeof(struct braid_aside), GFP_KERNEL);
		if (!per_cpu(asides, cpu))
			return -ENOMEM;
	}
	return 0;
}

static void braid_filter_free_one(struct braid_event_filter *filter)
{
	if (filter)
		free_percpu(filter->account);
	kfree(filter);
}

static struct braid_event_filter *braid_filter_make(const struct braid_filter_program *program)
{
	struct braid_event_filter *filter = kzalloc(sizeof(*filter), GFP_KERNEL);

	if (!filter)
		return NULL;
	filter->program = *program;
	filter->account = alloc_percpu(struct braid_filter_account);
	if (filter->account)
		return filter;
	kfree(filter);
	return NULL;
}

void braid_event_divert(struct braid_event *ev)
{
	/* A writer that sees the flag sees the pointers, and one that sees those sees programs. */
	smp_store_release(&ev->diverted, ev->filter || ev->tests || ev->stacks);
}

void braid_filter_follow(struct braid_event *ev, u32 flags)
{
	bool host_alone = !(flags & BRAID_EVENT_GUEST_ON);

	smp_store_release(&ev->filter, host_alone ? ev->host_filter : NULL);
	braid_event_divert(ev);
}

/* Writers may still use the former filter until they have left. Must hold the registry's lock. */
static struct braid_event_filter *braid_filter_replace(struct braid_event *ev,
						       struct braid_event_filter *filter)
{
	struct braid_event_filter *former = ev->host_filter;

	nr_filters += !!filter - !!former;
	ev->host_filter = filter;
	braid_filter_follow(ev, ev->flags);
	return former;
}

void braid_filter_free(struct braid_event *ev)
{
	braid_filter_free_one(braid_filter_replace(ev, NULL));
}

static bool braid_filter_is_same(const struct braid_event *ev,
				 const struct braid_filter_program *program)
{
	return ev->host_filter &&
	       !memcmp(&ev->host_filter->program, program, sizeof(*program));
}

/* Adds the event's former filter to *@replaced. Must hold the registry's lock. */
static int braid_filter_set(struct braid_event *ev, const struct braid_filter_program *program,
			    struct braid_event_filter **replaced)
{
	struct braid_event_filter *filter = NULL, *former;

	if (program && !ev->ops->filters)
		return -EOPNOTSUPP;
	if (program ? braid_filter_is_same(ev, program) : !ev->host_filter)
		return 0;
	if (program) {
		filter = braid_filter_make(program);
		if (!filter)
			return -ENOMEM;
	}
	former = braid_filter_replace(ev, filter);
	if (former) {
		former->next = *replaced;
		*replaced = former;
	}
	return 0;
}

/* Once for all that a command replaces: a wait takes 100 ms. */
static void braid_filter_free_replaced(struct braid_event_filter *replaced)
{
	struct braid_event_filter *next;

	if (replaced)
		braid_synchronize_writers();
	for (; replaced; replaced = next) {
		next = replaced->next;
		braid_filter_free_one(replaced);
	}
}

struct braid_event *braid_filter_next(struct braid_buffer **buffer, struct braid_event *ev,
				      u64 index, const char *system, const char *name)
{
	for (;;) {
		if (*buffer && (*buffer)->events && (*buffer)->region &&
		    (index == BRAID_ANY_BUFFER || index == (*buffer)->index))
			while ((ev = braid_registry_next(*buffer, ev)))
				if (braid_event_matches(ev, system, name))
					return ev;
		*buffer = braid_buffer_next(*buffer);
		ev = NULL;
		if (!*buffer)
			return NULL;
	}
}

int braid_filter_set_matching(u64 index, const char *system, const char *name,
			      const struct braid_filter_program *program, u32 *matched)
{
	int err, first = program ? braid_filter_check(program) : 0;
	struct braid_event_filter *replaced = NULL;
	struct braid_buffer *buffer = NULL;
	struct braid_event *ev = NULL;

	*matched = 0;
	if (first)
		return first;
	braid_buffers_lock();
	braid_registry_lock();
	if (program)
		first = braid_filter_make_scratch();
	while (!first && (program || nr_filters) &&
	       (ev = braid_filter_next(&buffer, ev, index, system, name))) {
		(*matched)++;
		err = braid_filter_set(ev, program, &replaced);
		first = first ?: err;
	}
	braid_filter_free_replaced(replaced);
	braid_registry_unlock();
	braid_buffers_unlock();
	return first;
}

static void braid_filter_add(struct braid_filter_account *sum,
			     const struct braid_event_filter *filter)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct braid_filter_account *one = per_cpu_ptr(filter->account, cpu);

		sum->offered += READ_ONCE(one->offered);
		sum->filtered += READ_ONCE(one->filtered);
		sum->written += READ_ONCE(one->written);
		sum->lost += READ_ONCE(one->lost);
		sum->unjudged += READ_ONCE(one->unjudged);
	}
}

u32 braid_filter_account_matching(u64 index, const char *system, const char *name,
				  struct braid_filter_account *account)
{
	struct braid_buffer *buffer = NULL;
	struct braid_event *ev = NULL;
	u32 nr = 0;

	memset(account, 0, sizeof(*account));
	braid_buffers_lock();
	braid_registry_lock();
	if (nr_filters)
		braid_synchronize_writers();
	while ((ev = braid_filter_next(&buffer, ev, index, system, name))) {
		if (!ev->host_filter)
			continue;
		nr++;
		braid_filter_add(account, ev->host_filter);
	}
	braid_registry_unlock();
	braid_buffers_unlock();
	return nr;
}
