// SPDX-License-Identifier: GPL-2.0
/* Keeps the filters of events, and runs them. */
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/slab.h>

#include "guest_driver/event/filter.h"

#define NR_LEVELS	6	/* contexts of one CPU that assemble a record at the same time */

struct braid_event_filter {
	struct braid_filter_program program;
	struct braid_filter_account __percpu *account;
};

/* A record that is assembled in private memory. */
struct braid_aside {
	const struct braid_event_filter *filter;
	struct braid_buffer *buffer;
	u32 bytes;
	u8 record[BRAID_FILTER_RECORD] __aligned(8);
};

/* NR_LEVELS of each CPU; allocated with the first filter. */
static DEFINE_PER_CPU(struct braid_aside *, asides);
static DEFINE_PER_CPU(u32, level);
static unsigned int nr_filters;		/* under the registry's lock */

/* Records -------------------------------------------------------------------------------- */

static struct braid_aside *braid_filter_take_aside(u32 bytes)
{
	u32 at = __this_cpu_read(level);

	if (bytes > BRAID_FILTER_RECORD || at >= NR_LEVELS)
		return NULL;
	__this_cpu_write(level, at + 1);
	barrier();
	return __this_cpu_read(asides) + at;
}

static enum braid_filter_verdict braid_filter_judge(const struct braid_event_filter *filter,
						    const u8 *bytes, u32 nr_bytes)
{
	const struct braid_filter_record record = {
		.bytes = bytes,
		.nr_bytes = nr_bytes,
		.cpu = raw_smp_processor_id(),
		.comm = current->comm,
	};
	enum braid_filter_verdict verdict = braid_filter_run(&filter->program, &record);

	BUILD_BUG_ON(sizeof(current->comm) < BRAID_COMM_BYTES);
	if (verdict == BRAID_FILTER_UNJUDGED)
		this_cpu_inc(filter->account->unjudged);
	if (verdict == BRAID_FILTER_DROP)
		this_cpu_inc(filter->account->filtered);
	return verdict;
}

/* A record that passes without having been assembled. */
static void *braid_filter_reserve(const struct braid_event_filter *filter, struct braid_event *ev,
				  struct braid_buffer *buffer, struct braid_slot *slot, u32 bytes,
				  unsigned long pc, bool held)
{
	void *record = braid_record_reserve(buffer, ev->id, bytes, pc, held, slot);

	if (record)
		this_cpu_inc(filter->account->written);
	else
		this_cpu_inc(filter->account->lost);
	return record;
}

notrace void *braid_event_set_aside(struct braid_event *ev, struct braid_buffer *buffer,
				    struct braid_slot *slot, u32 bytes, unsigned long pc, bool held)
{
	const struct braid_event_filter *filter = READ_ONCE(ev->filter);
	struct braid_record head;
	struct braid_aside *aside;

	if (!filter)
		return braid_record_reserve(buffer, ev->id, bytes, pc, held, slot);
	slot->writer = NULL;
	if (!braid_buffer_open_writer(buffer))
		return NULL;
	this_cpu_inc(filter->account->offered);
	if (filter->program.record_bytes <= sizeof(head)) {	/* who and where: needs no record */
		braid_record_head(&head, ev->id, pc, held);
		if (braid_filter_judge(filter, (const u8 *)&head, sizeof(head)) ==
		    BRAID_FILTER_DROP)
			return NULL;
		return braid_filter_reserve(filter, ev, buffer, slot, bytes, pc, held);
	}
	aside = braid_filter_take_aside(bytes);
	if (unlikely(!aside)) {
		this_cpu_inc(filter->account->unjudged);
		return braid_filter_reserve(filter, ev, buffer, slot, bytes, pc, held);
	}
	aside->filter = filter;
	aside->buffer = buffer;
	aside->bytes = bytes;
	braid_record_head((struct braid_record *)aside->record, ev->id, pc, held);
	slot->aside = aside;
	return aside->record;
}

static bool braid_filter_write(const struct braid_aside *aside)
{
	struct braid_writer *w = braid_buffer_open_writer(aside->buffer);
	u8 *to = NULL;
	u64 token;

	if (likely(w))
		to = braid_ring_reserve(w, aside->bytes, braid_counter, &token);
	if (unlikely(!to))
		return false;
	if (aside->bytes & 3)		/* the ring rounds up */
		*(u32 *)(to + (aside->bytes & ~3u)) = 0;
	memcpy(to, aside->record, aside->bytes);
	braid_ring_commit(w, token);
	return true;
}

notrace void braid_event_judge(struct braid_slot *slot)
{
	const struct braid_aside *aside = slot->aside;
	struct braid_filter_account __percpu *account = aside->filter->account;

	if (braid_filter_judge(aside->filter, aside->record, aside->bytes) != BRAID_FILTER_DROP) {
		if (braid_filter_write(aside))
			this_cpu_inc(account->written);
		else
			this_cpu_inc(account->lost);
	}
	barrier();
	__this_cpu_dec(level);
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

static int braid_filter_make_scratch(void)
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

void braid_filter_follow(struct braid_event *ev, u32 flags)
{
	bool host_alone = !(flags & BRAID_EVENT_GUEST_ON);

	/* A writer that sees the pointer sees the program, which it depends on. */
	smp_store_release(&ev->filter, host_alone ? ev->host_filter : NULL);
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

/* Sets the filter of one event. Must hold the registry's lock. */
static int braid_filter_set(struct braid_event *ev, const struct braid_filter_program *program)
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
		braid_synchronize_writers();
		braid_filter_free_one(former);
	}
	return 0;
}

/* Must hold both locks. Return: the next event that matches, after @ev, or NULL. */
static struct braid_event *braid_filter_next(struct braid_buffer **buffer, struct braid_event *ev,
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
		err = braid_filter_set(ev, program);
		first = first ?: err;
	}
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
