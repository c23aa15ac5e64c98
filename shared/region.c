// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Computes and validates the layout of a region. */
#include "shared/clock.h"
#include "shared/region.h"
#include "shared/ring.h"
#include "shared/stack.h"

static u64 braid_region_align(u64 bytes, u32 page_bytes)
{
	return (bytes + page_bytes - 1) & ~(u64)(page_bytes - 1);
}

int braid_region_layout(struct braid_superblock *sb, const struct braid_region_params *params,
			u64 *needed_bytes)
{
	const u64 bytes[BRAID_NR_SECTIONS] = {
		[BRAID_SECTION_MAILBOX] = sizeof(struct braid_mailbox),
		[BRAID_SECTION_CLOCK] = sizeof(struct braid_clock_cells),
		[BRAID_SECTION_COMMS] = sizeof(struct braid_comm_table) +
					(u64)params->nr_comms * sizeof(struct braid_comm),
		[BRAID_SECTION_SYMBOLS] = sizeof(struct braid_symbol_table) +
					  (u64)params->nr_symbols * sizeof(struct braid_symbol),
		[BRAID_SECTION_DIRECTORY] = sizeof(struct braid_directory) +
					    params->directory_bytes,
	};
	struct braid_section *stacks = &sb->sections[BRAID_SECTION_STACKS];
	u32 page_bytes = params->page_bytes ? params->page_bytes : BRAID_PAGE_BYTES;
	u64 at = braid_region_align(sizeof(*sb), BRAID_PAGE_BYTES);
	int k;

	for (k = 0; k < BRAID_SECTION_RINGS; k++) {
		sb->sections[k].offset = at;
		sb->sections[k].bytes = bytes[k];
		at += braid_region_align(bytes[k], BRAID_PAGE_BYTES);
	}
	stacks->offset = stacks->bytes = 0;
	if (params->nr_stacks) {
		stacks->offset = at;
		stacks->bytes = braid_stack_bytes(params->nr_stacks, params->stack_frames);
		at += braid_region_align(stacks->bytes, BRAID_PAGE_BYTES);
	}
	at = braid_region_align(at, page_bytes);
	*needed_bytes = at;
	if (at > params->region_bytes)
		return -ENOSPC;
	sb->sections[BRAID_SECTION_RINGS].offset = at;
	sb->sections[BRAID_SECTION_RINGS].bytes = params->region_bytes - at;
	sb->region_bytes = params->region_bytes;
	sb->nr_vcpus = params->nr_vcpus;
	return 0;
}

static bool braid_region_slots_are_valid(u32 n)
{
	return n >= BRAID_MIN_SLOTS && n <= BRAID_MAX_SLOTS && !(n & (n - 1));
}

static bool braid_region_subbuf_is_valid(u32 bytes)
{
	return bytes >= BRAID_MIN_SUBBUF_BYTES && bytes <= BRAID_MAX_SUBBUF_BYTES && !(bytes & 7);
}

/* Bytes of one ring, padded to the next one's alignment. */
static u64 braid_region_ring_bytes(u32 nr_slots, u32 subbuf_bytes, u32 page_bytes)
{
	return braid_region_align(braid_ring_bytes(nr_slots, subbuf_bytes, page_bytes), page_bytes);
}

/* The most slots whose rings stay within max_bytes; at least the fewest allowed. */
static u32 braid_region_fit_slots(const struct braid_buffer_params *params, u32 page_bytes,
				  u32 nr_rings)
{
	u32 n = BRAID_MIN_SLOTS;

	while (n < BRAID_MAX_SLOTS &&
	       braid_region_ring_bytes(2 * n, params->subbuf_bytes, page_bytes) * nr_rings <=
		       params->max_bytes)
		n *= 2;
	return n;
}

static u64 braid_region_buffer_end(const struct braid_buffer_desc *desc)
{
	return desc->rings_offset + desc->ring_stride * desc->nr_rings;
}

/* Finds the start and end of the gap at or after @at; false if there is no gap. */
static bool braid_region_next_gap(const struct braid_superblock *sb, u64 at, u64 *begin, u64 *end)
{
	const struct braid_section *rings = &sb->sections[BRAID_SECTION_RINGS];
	u64 limit = rings->offset + rings->bytes;
	u32 k;

	for (k = 0; k < sb->nr_buffers; k++) {
		const struct braid_buffer_desc *d = &sb->buffers[k];

		if (d->nr_rings && d->rings_offset <= at && at < braid_region_buffer_end(d)) {
			at = braid_region_buffer_end(d);
			k = -1;		/* restart: check all of them */
		}
	}
	*begin = at;
	*end = limit;
	for (k = 0; k < sb->nr_buffers; k++)
		if (sb->buffers[k].nr_rings && sb->buffers[k].rings_offset >= at &&
		    sb->buffers[k].rings_offset < *end)
			*end = sb->buffers[k].rings_offset;
	return at < limit;
}

u64 braid_region_largest_gap(const struct braid_superblock *sb)
{
	u64 at = sb->sections[BRAID_SECTION_RINGS].offset, begin, end, most = 0;

	for (; braid_region_next_gap(sb, at, &begin, &end); at = end)
		if (end - begin > most)
			most = end - begin;
	return most;
}

/* The first gap of @bytes; false if there is no such gap, *at is then after the last buffer. */
static bool braid_region_find_room(const struct braid_superblock *sb, u64 bytes, u64 *at)
{
	u64 begin, end;

	for (*at = sb->sections[BRAID_SECTION_RINGS].offset;
	     braid_region_next_gap(sb, *at, &begin, &end); *at = end) {
		if (end - begin >= bytes) {
			*at = begin;
			return true;
		}
		if (end == sb->sections[BRAID_SECTION_RINGS].offset +
			   sb->sections[BRAID_SECTION_RINGS].bytes) {
			*at = begin;
			return false;
		}
	}
	*at = begin;		/* the last buffer ends where the space does */
	return false;
}

/* The entry that has or had a name, or -ENOENT. */
static int braid_region_find_name(const struct braid_superblock *sb, const char *name)
{
	u32 k;

	for (k = 0; k < sb->nr_buffers; k++)
		if (!strcmp(sb->buffers[k].name, name))
			return k;
	return -ENOENT;
}

int braid_region_add_buffer(struct braid_superblock *sb, const struct braid_buffer_params *params,
			    u64 *needed_bytes)
{
	int index = braid_region_find_name(sb, params->name), events_of = index;
	size_t name_bytes = strlen(params->name) + 1;
	struct braid_buffer_desc *desc;
	u32 page_bytes = params->page_bytes ? params->page_bytes : BRAID_PAGE_BYTES;
	u32 n = params->nr_slots;
	u64 at, stride;

	if (!sb->nr_vcpus || !braid_region_subbuf_is_valid(params->subbuf_bytes) ||
	    (n && !braid_region_slots_are_valid(n)) || name_bytes < 2 ||
	    name_bytes > BRAID_NAME_BYTES)
		return -EINVAL;
	if (index >= 0 && sb->buffers[index].nr_rings)
		return -EEXIST;
	if (index < 0 && sb->nr_buffers >= BRAID_MAX_BUFFERS)
		return -ENFILE;
	if (params->events_of) {
		events_of = braid_region_find_name(sb, params->events_of);
		if (events_of < 0)
			return -EINVAL;
	}
	if (!n)
		n = braid_region_fit_slots(params, page_bytes, sb->nr_vcpus);
	stride = braid_region_ring_bytes(n, params->subbuf_bytes, page_bytes);
	if (!braid_region_find_room(sb, stride * sb->nr_vcpus, &at)) {
		*needed_bytes = at + stride * sb->nr_vcpus;
		return -ENOSPC;
	}
	*needed_bytes = at + stride * sb->nr_vcpus;

	if (index < 0) {
		index = sb->nr_buffers++;
		memset(&sb->buffers[index], 0, sizeof(*desc));
		memcpy(sb->buffers[index].name, params->name, name_bytes);
	}
	desc = &sb->buffers[index];
	desc->flags = params->flags;
	desc->subbuf_bytes = params->subbuf_bytes;
	desc->nr_slots = n;
	desc->meta_bytes = page_bytes;
	desc->private_bytes = braid_ring_private_bytes(n, page_bytes);
	desc->rings_offset = at;
	desc->ring_stride = stride;
	desc->nr_rings = sb->nr_vcpus;
	desc->layout++;
	desc->events_of = events_of < 0 ? index : events_of;
	return index;
}

void braid_region_remove_buffer(struct braid_superblock *sb, u32 index)
{
	sb->buffers[index].nr_rings = 0;
}

void braid_region_ring(const struct braid_buffer_desc *desc, void *base, u32 vcpu,
		       struct braid_ring_map *map)
{
	u8 *ring = (u8 *)base + braid_ring_offset(desc, vcpu);

	braid_ring_map_init(map, ring, desc->nr_slots, desc->subbuf_bytes, desc->meta_bytes,
			    desc->flags);
	if (!desc->private_bytes) {
		map->meta = (struct braid_meta *)ring;
		map->subbufs = ring + desc->meta_bytes;
		braid_ring_map_private(map, ring + BRAID_OLD_PRIVATE_OFFSET);
	}
}

/* Validation ------------------------------------------------------------------------- */

static bool braid_region_is_inside(u64 offset, u64 bytes, u64 total)
{
	return bytes <= total && offset <= total - bytes;
}

/* The section that not every minor has. RINGS has been checked to lie inside the region. */
static const char *braid_region_check_stacks(const struct braid_superblock *sb)
{
	const struct braid_section *s = &sb->sections[BRAID_SECTION_STACKS];
	const struct braid_section *before = &sb->sections[BRAID_SECTION_DIRECTORY];
	u64 end = sb->sections[BRAID_SECTION_RINGS].offset;

	if (!s->bytes && !s->offset)
		return NULL;
	if (s->bytes < sizeof(struct braid_stack_table))
		return "a section is missing or too small";
	if (s->offset < before->offset + before->bytes || s->offset & (BRAID_PAGE_BYTES - 1) ||
	    !braid_region_is_inside(s->offset, s->bytes, end))
		return "two sections overlap";
	return NULL;
}

static const char *braid_region_check_sections(const struct braid_superblock *sb, u64 bytes)
{
	static const u64 least[BRAID_NR_SECTIONS] = {
		[BRAID_SECTION_MAILBOX] = BRAID_MAILBOX_LEAST,
		[BRAID_SECTION_CLOCK] = BRAID_CLOCK_CELLS_LEAST,
		[BRAID_SECTION_COMMS] = sizeof(struct braid_comm_table),
		[BRAID_SECTION_SYMBOLS] = sizeof(struct braid_symbol_table),
		[BRAID_SECTION_DIRECTORY] = sizeof(struct braid_directory),
		[BRAID_SECTION_RINGS] = 0,
	};
	u64 end = sizeof(*sb);
	int k;

	for (k = 0; k <= BRAID_SECTION_RINGS; k++) {
		const struct braid_section *s = &sb->sections[k];

		if (s->bytes < least[k])
			return "a section is missing or too small";
		if (!braid_region_is_inside(s->offset, s->bytes, bytes) ||
		    s->offset & (BRAID_PAGE_BYTES - 1))
			return "a section lies outside the region";
		if (s->offset < end)
			return "two sections overlap";
		end = s->offset + s->bytes;
	}
	return braid_region_check_stacks(sb);
}

static bool braid_region_overlap(const struct braid_buffer_desc *a,
				 const struct braid_buffer_desc *b)
{
	return a->rings_offset < braid_region_buffer_end(b) &&
	       b->rings_offset < braid_region_buffer_end(a);
}

static bool braid_region_page_is_valid(u32 bytes)
{
	return bytes >= BRAID_PAGE_BYTES && bytes <= BRAID_MAX_PAGE_BYTES && !(bytes & (bytes - 1));
}

/* Before minor 3 meta pages end with the private part, which has no pages of its own. */
static bool braid_region_parts_are_valid(const struct braid_buffer_desc *desc)
{
	u32 meta = desc->meta_bytes;

	if (desc->private_bytes)
		return braid_region_page_is_valid(meta) &&
		       desc->private_bytes == braid_ring_private_bytes(desc->nr_slots, meta) &&
		       desc->ring_stride >= braid_region_ring_bytes(desc->nr_slots,
								    desc->subbuf_bytes, meta);
	return meta == braid_region_align(BRAID_OLD_PRIVATE_OFFSET +
					  braid_ring_private_used(desc->nr_slots),
					  BRAID_PAGE_BYTES) &&
	       desc->ring_stride >= meta + (u64)(desc->nr_slots + 1) * desc->subbuf_bytes;
}

/* Rings begin at the guest's pages, so that programs there can map them. */
static u32 braid_region_alignment_of(const struct braid_buffer_desc *desc)
{
	return desc->private_bytes ? desc->meta_bytes : BRAID_PAGE_BYTES;
}

static const char *braid_region_check_buffer(const struct braid_superblock *sb,
					     const struct braid_buffer_desc *desc)
{
	const struct braid_section *rings = &sb->sections[BRAID_SECTION_RINGS];
	u64 limit = rings->offset + rings->bytes;

	if (!braid_region_slots_are_valid(desc->nr_slots) ||
	    !braid_region_subbuf_is_valid(desc->subbuf_bytes))
		return "a buffer has an impossible number or size of sub-buffers";
	if (desc->nr_rings > sb->nr_vcpus)
		return "a buffer has more rings than the guest has vCPUs";
	if (!braid_region_parts_are_valid(desc))
		return "a buffer's rings are smaller than what they hold";
	if (desc->rings_offset < rings->offset ||
	    (desc->rings_offset | desc->ring_stride) & (braid_region_alignment_of(desc) - 1))
		return "a buffer overlaps another section or is not aligned";
	if (desc->ring_stride > limit || desc->rings_offset > limit ||
	    desc->ring_stride * desc->nr_rings > limit - desc->rings_offset)
		return "a buffer lies outside the region";
	if (desc->events_of >= sb->nr_buffers)
		return "a buffer's events_of refers to no buffer";
	return NULL;
}

static bool braid_region_is_terminated(const char *text, size_t bytes)
{
	return memchr(text, 0, bytes);
}

static const char *braid_region_check_buffers(const struct braid_superblock *sb)
{
	const char *why;
	u32 k, other;

	if (sb->nr_buffers > BRAID_MAX_BUFFERS)
		return "it has too many buffers";
	for (k = 0; k < sb->nr_buffers; k++) {
		const struct braid_buffer_desc *desc = &sb->buffers[k];

		if (!braid_region_is_terminated(desc->name, BRAID_NAME_BYTES))
			return "an unterminated name";
		if (!desc->nr_rings)
			continue;
		why = braid_region_check_buffer(sb, desc);
		if (why)
			return why;
		/* Those before k have been checked: their ends don't overflow. */
		for (other = 0; other < k; other++)
			if (sb->buffers[other].nr_rings &&
			    braid_region_overlap(desc, &sb->buffers[other]))
				return "two buffers overlap";
	}
	return NULL;
}

const char *braid_region_check(const struct braid_superblock *sb, u64 bytes)
{
	const char *why;

	if (sb->magic != BRAID_MAGIC)
		return "not a tracebraid region, or its driver was never loaded";
	if (sb->version_major != BRAID_VERSION_MAJOR)
		return "unsupported version: use the agent that came with the driver";
	if (sb->state == BRAID_STATE_INIT)
		return NULL;
	if (sb->state != BRAID_STATE_LIVE && sb->state != BRAID_STATE_DOWN)
		return "its state is unknown";
	if (!sb->incarnation)
		return "it has no incarnation";
	if (sb->region_bytes > bytes)
		return "its size is larger than the mapping";
	if (!sb->nr_vcpus || sb->nr_vcpus > 4096 || !braid_clock_nominal_mult(sb->counter_hz))
		return "its vCPU count or counter frequency is impossible";
	if (!braid_region_is_terminated(sb->guest_name, sizeof(sb->guest_name)) ||
	    !braid_region_is_terminated(sb->kernel_release, sizeof(sb->kernel_release)) ||
	    !braid_region_is_terminated(sb->machine, sizeof(sb->machine)))
		return "an unterminated name";
	why = braid_region_check_sections(sb, sb->region_bytes);
	if (why)
		return why;
	return braid_region_check_buffers(sb);
}
