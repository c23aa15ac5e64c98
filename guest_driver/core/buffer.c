// SPDX-License-Identifier: GPL-2.0
/* Makes buffers and their writers. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/err.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>

#include "guest_driver/core/buffer.h"

static void start_ring(struct braid_buffer *buffer, u32 cpu)
{
	struct braid_guest_region *region = buffer->region;
	const struct braid_buffer_desc *desc = &region->layout.buffers[buffer->index];
	struct braid_ring_identity who = {
		.incarnation = region->layout.incarnation,
		.vcpu = cpu,
		.buffer = buffer->index,
		/* A reader of the former incarnation must not fit by chance. */
		.first_position = get_random_u64() & BRAID_POS_MASK,
		.counter = braid_counter(),
	};
	struct braid_ring_map map;

	braid_ring_map_init(&map, region->range.base + braid_ring_offset(desc, cpu),
			    desc->nr_slots, desc->subbuf_bytes, desc->flags);
	braid_writer_init(buffer->writers[cpu], &map, &who);
}

void braid_buffer_start(struct braid_buffer *buffer)
{
	u32 cpu;

	for (cpu = 0; cpu < buffer->nr_rings; cpu++)
		start_ring(buffer, cpu);
}

struct braid_buffer *braid_buffer_create(struct braid_guest_region *region,
					 const struct braid_buffer_params *params)
{
	struct braid_buffer *buffer;
	u64 needed = 0;
	u32 cpu, nr_slots;
	int index;

	index = braid_region_add_buffer(&region->layout, params, &needed);
	if (index == -ENOSPC)
		pr_err("%s: %llu KiB of shared memory are too little for buffer %s, %llu KiB are needed\n",
		       region->range.name, region->range.bytes >> 10, params->name, needed >> 10);
	else if (index == -EINVAL)
		pr_err("%s: buffer %s: subbuf_size must be a multiple of 8 from %u to %u, and a ring have %u to %u sub-buffers\n",
		       region->range.name, params->name, BRAID_MIN_SUBBUF_BYTES,
		       BRAID_MAX_SUBBUF_BYTES, BRAID_MIN_SLOTS, BRAID_MAX_SLOTS);
	if (index < 0)
		return ERR_PTR(index);
	buffer = kzalloc(struct_size(buffer, writers, region->layout.nr_vcpus), GFP_KERNEL);
	if (!buffer)
		return ERR_PTR(-ENOMEM);
	buffer->region = region;
	buffer->index = index;
	buffer->nr_rings = region->layout.nr_vcpus;
	strscpy(buffer->name, params->name, sizeof(buffer->name));
	nr_slots = region->layout.buffers[index].nr_slots;
	for (cpu = 0; cpu < buffer->nr_rings; cpu++) {
		int node = cpu_possible(cpu) ? cpu_to_node(cpu) : NUMA_NO_NODE;

		buffer->writers[cpu] = vzalloc_node(braid_writer_bytes(nr_slots), node);
		if (!buffer->writers[cpu]) {
			braid_buffer_destroy(buffer);
			return ERR_PTR(-ENOMEM);
		}
	}
	return buffer;
}

void braid_buffer_destroy(struct braid_buffer *buffer)
{
	u32 cpu;

	for (cpu = 0; cpu < buffer->nr_rings; cpu++)
		vfree(buffer->writers[cpu]);
	kfree(buffer);
}
