// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The region's validator over an arbitrary superblock: the parts of a region that it accepts
 * do not overlap. And the layout: the validator accepts the result of any operations. And any
 * bytes as a table of stacks.
 */
#include "shared/clock.h"
#include "shared/region.h"
#include "shared/ring.h"
#include "shared/stack.h"
#include "tests/fuzz/fuzz.h"

#define BASE		((u64)BRAID_PAGE_BYTES)	/* of no memory: NULL has no offsets */
#define OWNED_BYTES	(4u << 20)	/* of larger regions only the numbers are checked */

/* Marks bytes as owned: they are within the region and not yet owned. */
static void own(u8 *owned, u64 total, u64 offset, u64 bytes)
{
	MUST(offset <= total && bytes <= total - offset);
	if (!owned || !bytes)
		return;
	MUST(!owned[offset] && !memcmp(owned + offset, owned + offset + 1, bytes - 1));
	memset(owned + offset, 1, bytes);
}

/* Every part from braid_region_ring(), as offsets from the region's start. */
static void own_ring(u8 *owned, u64 total, const struct braid_buffer_desc *desc, u32 vcpu)
{
	u64 ring = braid_ring_offset(desc, vcpu), end, meta, priv, data;
	struct braid_ring_map map;

	braid_region_ring(desc, (void *)BASE, vcpu, &map);
	meta = (u64)map.meta - BASE;
	priv = (u64)map.priv - BASE;
	data = (u64)map.subbufs - BASE;
	end = (u64)(map.states + desc->nr_slots + 1) - BASE;
	MUST((u64)map.slots >= (u64)(map.priv + 1));
	MUST((u64)map.states >= (u64)(map.slots + desc->nr_slots));
	MUST(meta >= ring && priv >= ring && !(meta & (BRAID_PAGE_BYTES - 1)));
	MUST(!desc->private_bytes || !((ring | meta) & (desc->meta_bytes - 1)));
	MUST(!((u64)map.states & 63) && !((u64)map.slots & 7) && !(data & 7));
	MUST(data == meta + desc->meta_bytes);
	MUST((u64)braid_ring_subbuf(&map, desc->nr_slots) - BASE + desc->subbuf_bytes <=
	     ring + desc->ring_stride);
	own(owned, total, meta, desc->private_bytes ? desc->meta_bytes : sizeof(struct braid_meta));
	own(owned, total, priv, end - priv);
	own(owned, total, data, (u64)(desc->nr_slots + 1) * desc->subbuf_bytes);
}

static void own_all(const struct braid_superblock *sb, u64 bytes)
{
	u8 *owned = bytes <= OWNED_BYTES ? calloc(1, bytes) : NULL;
	u32 k, vcpu;

	own(owned, bytes, 0, sizeof(*sb));
	for (k = 0; k < BRAID_SECTION_RINGS; k++)
		own(owned, bytes, sb->sections[k].offset, sb->sections[k].bytes);
	own(owned, bytes, sb->sections[BRAID_SECTION_STACKS].offset,
	    sb->sections[BRAID_SECTION_STACKS].bytes);
	MUST(sb->nr_buffers <= BRAID_MAX_BUFFERS);
	for (k = 0; k < sb->nr_buffers; k++) {
		const struct braid_buffer_desc *desc = &sb->buffers[k];

		MUST(memchr(desc->name, 0, sizeof(desc->name)));
		if (desc->nr_rings)
			MUST(desc->events_of < sb->nr_buffers);
		for (vcpu = 0; vcpu < desc->nr_rings; vcpu++)
			own_ring(owned, bytes, desc, vcpu);
	}
	free(owned);
}

static void check(struct fuzz_input *in)
{
	u64 bytes = fuzz_take(in, 8);
	struct braid_superblock *sb = calloc(1, sizeof(*sb));

	memcpy(sb, in->at, in->left < sizeof(*sb) ? in->left : sizeof(*sb));
	if (!braid_region_check(sb, bytes) && sb->state != BRAID_STATE_INIT)
		own_all(sb, bytes);
	free(sb);
}

/* Slots that the reader accepts are within the table. */
static void stacks(struct fuzz_input *in)
{
	size_t bytes = in->left;
	void *table = malloc(bytes + !bytes);
	struct braid_stack_shape shape;
	struct braid_stack_copy copy;
	u32 k;

	memcpy(table, in->at, bytes);
	shape = braid_stack_load_shape(table, bytes);
	MUST(shape.nr_used <= shape.nr_slots);
	for (k = 0; k < shape.nr_slots; k++)
		if (braid_stack_load(&copy, table, &shape, k))
			MUST(copy.id && copy.nr && copy.nr <= shape.nr_frames);
	free(table);
}

/* Return: the size of the guest's pages. */
static u32 begin_layout(struct fuzz_input *in, struct braid_superblock *sb)
{
	u64 bytes = fuzz_take(in, 3), shape = fuzz_take(in, 1);
	struct braid_region_params params = {
		.region_bytes = bytes, .nr_vcpus = 1 + shape % 8, .nr_comms = fuzz_take(in, 1),
		.nr_symbols = fuzz_take(in, 1),
		.directory_bytes = fuzz_take(in, 2),
		.page_bytes = BRAID_PAGE_BYTES << shape / 8 % 5,
		.nr_stacks = shape / 64, .stack_frames = 4,
	};
	u64 needed = 0;

	sb->magic = BRAID_MAGIC;
	sb->version_major = BRAID_VERSION_MAJOR;
	sb->state = BRAID_STATE_LIVE;
	sb->incarnation = 1;
	sb->counter_hz = 1000000000;
	if (braid_region_layout(sb, &params, &needed)) {
		MUST(needed > params.region_bytes);
		params.region_bytes = needed + (4u << 20);
		MUST(!braid_region_layout(sb, &params, &needed));
	}
	return params.page_bytes;
}

/* One buffer added or removed. */
static void change(struct fuzz_input *in, struct braid_superblock *sb, u32 page_bytes)
{
	u32 what = fuzz_take(in, 1);
	char name[3] = { 'a' + (what >> 1 & 31), 'b' };
	struct braid_buffer_params params = {
		.name = name, .flags = fuzz_take(in, 1), .subbuf_bytes = fuzz_take(in, 1) * 128,
		.nr_slots = fuzz_take(in, 1) & 0x1f, .max_bytes = fuzz_take(in, 3),
		.page_bytes = page_bytes, .events_of = what & 0x80 ? "ab" : NULL,
	};
	u64 needed = 0, room;
	int ret;

	if ((what & 1) && sb->nr_buffers) {
		braid_region_remove_buffer(sb, params.nr_slots % sb->nr_buffers);
		return;
	}
	room = braid_region_largest_gap(sb);
	ret = braid_region_add_buffer(sb, &params, &needed);
	MUST(ret < BRAID_MAX_BUFFERS);
	if (ret >= 0)
		MUST(!strcmp(sb->buffers[ret].name, name) && needed <= sb->region_bytes &&
		     room >= sb->buffers[ret].ring_stride * sb->nr_vcpus);
	if (ret == -ENOSPC)
		MUST(needed > sb->region_bytes);
}

static void layout(struct fuzz_input *in)
{
	struct braid_superblock *sb = calloc(1, sizeof(*sb));
	u32 page_bytes;

	page_bytes = begin_layout(in, sb);
	while (in->left) {
		const char *why;

		change(in, sb, page_bytes);
		why = braid_region_check(sb, sb->region_bytes);
		if (why)
			fprintf(stderr, "%s\n", why);
		MUST(!why);
	}
	own_all(sb, sb->region_bytes);
	free(sb);
}

/* A valid region without a spare byte, with a few words changed by a power of two. */
static void edit(struct fuzz_input *in)
{
	const struct braid_region_params params = {
		.region_bytes = 1 << 20, .nr_vcpus = 2, .nr_comms = 4, .nr_symbols = 4,
		.directory_bytes = 512, .nr_stacks = 2, .stack_frames = 4,
	};
	struct braid_buffer_params buffer = { .name = "a", .subbuf_bytes = 256, .nr_slots = 4 };
	struct braid_superblock *sb = calloc(1, sizeof(*sb));
	u32 first = offsetof(struct braid_superblock, sections) / 4, k, how;
	u32 nr = (offsetof(struct braid_superblock, buffers) + 2 * sizeof(sb->buffers[0])) / 4 - first;
	u64 needed = 0;

	begin_layout(&(struct fuzz_input){ .at = (const u8 *)"" }, sb);
	MUST(!braid_region_layout(sb, &params, &needed));
	MUST(braid_region_add_buffer(sb, &buffer, &needed) == 0);
	buffer.name = "b";
	MUST(braid_region_add_buffer(sb, &buffer, &needed) == 1);
	sb->region_bytes = needed;
	sb->sections[BRAID_SECTION_RINGS].bytes = needed - sb->sections[BRAID_SECTION_RINGS].offset;
	MUST(!braid_region_check(sb, needed));
	for (k = 0; k < 4 && in->left; k++) {
		u32 *word = (u32 *)sb + first + fuzz_take(in, 1) % nr;

		how = fuzz_take(in, 1);
		*word += how & 0x80 ? 1u << (how & 31) : -1u << (how & 31);
	}
	if (!braid_region_check(sb, needed))
		own_all(sb, needed);
	free(sb);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };

	u32 mode = fuzz_take(&in, 1);

	if (mode & 1)
		layout(&in);
	else if (mode & 2)
		edit(&in);
	else if (mode & 4)
		stacks(&in);
	else
		check(&in);
	return 0;
}
