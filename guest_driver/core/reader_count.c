// SPDX-License-Identifier: GPL-2.0
/* Counts what rings hold, by a look that takes nothing. */
#include <linux/cpumask.h>
#include <linux/export.h>

#include "guest_driver/core/reader_private.h"

#define LOOK_TRIES	3	/* an agent that swaps meanwhile can spoil one */

/* Events in the span's rest. Only the writer's last word on a whole sub-buffer is believed. */
static s64 events_of(struct braid_guest_reader *r, const struct braid_span *span, u32 flags)
{
	int err;

	if (span->from_bytes == span->to_bytes)
		return 0;
	if (span->final && !span->from_bytes)
		return min_t(u64, span->entries, span->to_bytes / 8);
	r->scratch.valid = false;
	err = braid_page_copy_fill(&r->scratch, span, flags);
	return err ? err : braid_page_count(&r->scratch.cursor);
}

/* Adds up what is unread: 0, or -EBADMSG. */
static int count_unread(struct braid_guest_reader *r, struct braid_peek *peek,
			struct braid_ring_counts *counts)
{
	struct braid_span span;
	int ret, tries = 0;

	for (;;) {
		s64 events;

		ret = braid_peek_next(peek, &span);
		if (!ret)
			return 0;
		events = ret < 0 ? ret : events_of(r, &span, peek->map.flags);
		if (events < 0) {
			if (ret > 0 && !braid_peek_valid(peek, &span))
				continue;	/* gone meanwhile */
			if (++tries == LOOK_TRIES)
				return -EBADMSG;
			continue;
		}
		counts->entries += events;
		counts->bytes += span.to_bytes - span.from_bytes;
		if (events && !counts->oldest)
			counts->oldest = span.time_stamp;
	}
}

int braid_reader_count(struct braid_guest_reader *r, struct braid_ring_counts *counts)
{
	const struct braid_buffer *buffer = r->buffer;
	const struct braid_writer *w = braid_buffer_writer(buffer, r->cpu);
	const struct braid_writer_page *page;
	struct braid_peek peek;
	int err, tries = 0;
	s64 overruns;

	memset(counts, 0, sizeof(*counts));
	if (!w)
		return -ENODEV;
	if (braid_page_copy_make(&r->scratch, w->map.subbuf_bytes))
		return -ENOMEM;
	do
		err = braid_peek_begin(&peek, &w->map, buffer->region->layout.incarnation);
	while (err && ++tries < LOOK_TRIES);
	if (!err)
		err = count_unread(r, &peek, counts);
	if (err)
		return err;

	page = &w->pages[READ_ONCE(w->position) & w->mask];
	counts->written = braid_writer_written(w);
	counts->dropped = READ_ONCE(w->dropped) + READ_ONCE(page->dropped);
	counts->read = peek.block.read;
	counts->owner = braid_load(&w->map.priv->reader_owner);
	counts->broken = READ_ONCE(w->broken);
	overruns = counts->written - counts->read - counts->entries - counts->dropped;
	counts->overruns = max(overruns, 0LL);
	return 0;
}

int braid_reader_counts(struct braid_buffer *buffer, int cpu, struct braid_ring_counts *counts)
{
	struct braid_guest_reader *r;
	int err;

	if (!braid_reader_cpu_valid(buffer, cpu))
		return -EINVAL;
	braid_lock(&buffer->lock);
	r = braid_reader_find(buffer, cpu);
	err = r ? braid_reader_count(r, counts) : -ENOMEM;
	braid_unlock(&buffer->lock);
	return err;
}

bool braid_buffer_empty_cpu(struct braid_buffer *buffer, int cpu)
{
	struct braid_ring_counts counts;

	return braid_reader_counts(buffer, cpu, &counts) || !counts.entries;
}
EXPORT_SYMBOL_GPL(braid_buffer_empty_cpu);

bool braid_buffer_empty(struct braid_buffer *buffer)
{
	int cpu;

	for_each_possible_cpu(cpu)
		if (!braid_buffer_empty_cpu(buffer, cpu))
			return false;
	return true;
}
EXPORT_SYMBOL_GPL(braid_buffer_empty);

/* The sums over all rings that can be counted. */
static void sum(struct braid_buffer *buffer, struct braid_ring_counts *sums)
{
	struct braid_ring_counts counts;
	int cpu;

	memset(sums, 0, sizeof(*sums));
	for_each_possible_cpu(cpu) {
		if (braid_reader_counts(buffer, cpu, &counts))
			continue;
		sums->entries += counts.entries;
		sums->overruns += counts.overruns;
		sums->dropped += counts.dropped;
	}
}

u64 braid_buffer_entries(struct braid_buffer *buffer)
{
	struct braid_ring_counts sums;

	sum(buffer, &sums);
	return sums.entries;
}
EXPORT_SYMBOL_GPL(braid_buffer_entries);

u64 braid_buffer_overruns(struct braid_buffer *buffer)
{
	struct braid_ring_counts sums;

	sum(buffer, &sums);
	return sums.overruns;
}
EXPORT_SYMBOL_GPL(braid_buffer_overruns);

u64 braid_buffer_dropped(struct braid_buffer *buffer)
{
	struct braid_ring_counts sums;

	sum(buffer, &sums);
	return sums.dropped;
}
EXPORT_SYMBOL_GPL(braid_buffer_dropped);
