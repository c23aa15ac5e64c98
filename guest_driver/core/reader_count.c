// SPDX-License-Identifier: GPL-2.0
/* Counts what rings hold, by a look that takes nothing. */
#include <linux/cpumask.h>
#include <linux/export.h>

#include "guest_driver/core/reader_private.h"

int braid_reader_count(struct braid_guest_reader *r, struct braid_ring_counts *counts)
{
	const struct braid_buffer *buffer = r->buffer;
	const struct braid_writer *w = braid_buffer_writer(buffer, r->cpu);
	struct braid_ring_tally tally;
	int err;

	memset(counts, 0, sizeof(*counts));
	if (!w)
		return -ENODEV;
	if (braid_page_copy_make(&r->scratch, w->map.subbuf_bytes))
		return -ENOMEM;
	counts->owner = braid_load(&w->map.priv->reader_owner);
	counts->broken = READ_ONCE(w->broken);
	err = braid_ring_count(&w->map, buffer->region->layout.incarnation, r->scratch.data, &tally);
	if (err)
		return err;
	counts->written = tally.written;
	counts->read = tally.read;
	counts->entries = tally.left;
	counts->bytes = tally.left_bytes;
	counts->oldest = tally.oldest;
	counts->dropped = min(tally.dropped, tally.lost);
	counts->overruns = tally.lost - counts->dropped;
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
