// SPDX-License-Identifier: GPL-2.0
/* Counts the events in rings by a peek, without consuming them. */
#include <linux/cpumask.h>
#include <linux/export.h>

#include "guest_driver/core/reader_private.h"

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
static void braid_reader_sum_counts(struct braid_buffer *buffer, struct braid_ring_counts *sums)
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

	braid_reader_sum_counts(buffer, &sums);
	return sums.entries;
}
EXPORT_SYMBOL_GPL(braid_buffer_entries);

u64 braid_buffer_overruns(struct braid_buffer *buffer)
{
	struct braid_ring_counts sums;

	braid_reader_sum_counts(buffer, &sums);
	return sums.overruns;
}
EXPORT_SYMBOL_GPL(braid_buffer_overruns);

u64 braid_buffer_dropped(struct braid_buffer *buffer)
{
	struct braid_ring_counts sums;

	braid_reader_sum_counts(buffer, &sums);
	return sums.dropped;
}
EXPORT_SYMBOL_GPL(braid_buffer_dropped);
