// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Computes and validates the layout of a region. */
#include "shared/clock.h"
#include "shared/region.h"
#include "shared/ring.h"

static u64 page_align(u64 bytes)
{
	return (bytes + BRAID_PAGE_BYTES - 1) & ~(u64)(BRAID_PAGE_BYTES - 1);
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
	u64 at = page_align(sizeof(*sb));
	int k;

	for (k = 0; k < BRAID_SECTION_RINGS; k++) {
		sb->sections[k].offset = at;
		sb->sections[k].bytes = bytes[k];
		at += page_align(bytes[k]);
	}
	*needed_bytes = at;
	if (at > params->region_bytes)
		return -ENOSPC;
	sb->sections[BRAID_SECTION_RINGS].offset = at;
	sb->sections[BRAID_SECTION_RINGS].bytes = params->region_bytes - at;
	sb->region_bytes = params->region_bytes;
	sb->nr_vcpus = params->nr_vcpus;
	return 0;
}

static bool slots_ok(u32 n)
{
	return n >= BRAID_MIN_SLOTS && n <= BRAID_MAX_SLOTS && !(n & (n - 1));
}

static bool subbuf_ok(u32 bytes)
{
	return bytes >= BRAID_MIN_SUBBUF_BYTES && bytes <= BRAID_MAX_SUBBUF_BYTES && !(bytes & 7);
}

/* Of one ring, meta page and sub-buffers. */
static u64 ring_bytes(u32 nr_slots, u32 subbuf_bytes)
{
	return page_align(braid_ring_meta_bytes(nr_slots) + (u64)(nr_slots + 1) * subbuf_bytes);
}

/* The most slots whose rings stay within max_bytes; at least the fewest allowed. */
static u32 fit_slots(const struct braid_buffer_params *params, u32 nr_rings)
{
	u32 n = BRAID_MIN_SLOTS;

	while (n < BRAID_MAX_SLOTS &&
	       ring_bytes(2 * n, params->subbuf_bytes) * nr_rings <= params->max_bytes)
		n *= 2;
	return n;
}

int braid_region_add_buffer(struct braid_superblock *sb, const struct braid_buffer_params *params,
			    u64 *needed_bytes)
{
	struct braid_section *rings = &sb->sections[BRAID_SECTION_RINGS];
	u64 at = rings->offset, end, stride;
	struct braid_buffer_desc *desc;
	u32 n = params->nr_slots, k;

	if (!sb->nr_vcpus || !subbuf_ok(params->subbuf_bytes) || (n && !slots_ok(n)))
		return -EINVAL;
	if (sb->nr_buffers >= BRAID_MAX_BUFFERS)
		return -ENFILE;
	for (k = 0; k < sb->nr_buffers; k++) {
		end = sb->buffers[k].rings_offset +
		      sb->buffers[k].ring_stride * sb->buffers[k].nr_rings;
		if (end > at)
			at = end;
	}
	if (!n)
		n = fit_slots(params, sb->nr_vcpus);
	stride = ring_bytes(n, params->subbuf_bytes);
	*needed_bytes = at + stride * sb->nr_vcpus;
	if (*needed_bytes > rings->offset + rings->bytes)
		return -ENOSPC;

	desc = &sb->buffers[sb->nr_buffers];
	memset(desc, 0, sizeof(*desc));
	for (k = 0; k < BRAID_NAME_BYTES - 1 && params->name[k]; k++)
		desc->name[k] = params->name[k];
	desc->flags = params->flags;
	desc->subbuf_bytes = params->subbuf_bytes;
	desc->nr_slots = n;
	desc->meta_bytes = braid_ring_meta_bytes(n);
	desc->rings_offset = at;
	desc->ring_stride = stride;
	desc->nr_rings = sb->nr_vcpus;
	return sb->nr_buffers++;
}

/* Validation ------------------------------------------------------------------------- */

static bool inside(u64 offset, u64 bytes, u64 total)
{
	return bytes <= total && offset <= total - bytes;
}

static const char *check_sections(const struct braid_superblock *sb, u64 bytes)
{
	static const u64 least[BRAID_NR_SECTIONS] = {
		[BRAID_SECTION_MAILBOX] = sizeof(struct braid_mailbox),
		[BRAID_SECTION_CLOCK] = sizeof(struct braid_clock_cells),
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
		if (!inside(s->offset, s->bytes, bytes) || s->offset & (BRAID_PAGE_BYTES - 1))
			return "a section lies outside the region";
		if (s->offset < end)
			return "two sections overlap";
		end = s->offset + s->bytes;
	}
	return NULL;
}

static const char *check_buffer(const struct braid_superblock *sb,
				const struct braid_buffer_desc *desc, u64 *end)
{
	const struct braid_section *rings = &sb->sections[BRAID_SECTION_RINGS];
	u64 limit = rings->offset + rings->bytes;

	if (!slots_ok(desc->nr_slots) || !subbuf_ok(desc->subbuf_bytes))
		return "a buffer has an impossible number or size of sub-buffers";
	if (desc->nr_rings > sb->nr_vcpus)
		return "a buffer has more rings than the guest has vCPUs";
	if (desc->meta_bytes != braid_ring_meta_bytes(desc->nr_slots) ||
	    desc->ring_stride < ring_bytes(desc->nr_slots, desc->subbuf_bytes))
		return "a buffer's rings are smaller than what they hold";
	if (desc->rings_offset < *end || desc->rings_offset & (BRAID_PAGE_BYTES - 1) ||
	    desc->ring_stride & (BRAID_PAGE_BYTES - 1))
		return "a buffer overlaps another section or is not aligned";
	if (desc->ring_stride > limit || desc->rings_offset > limit ||
	    desc->ring_stride * desc->nr_rings > limit - desc->rings_offset)
		return "a buffer lies outside the region";
	*end = desc->rings_offset + desc->ring_stride * desc->nr_rings;
	return NULL;
}

static bool terminated(const char *text, size_t bytes)
{
	return memchr(text, 0, bytes);
}

const char *braid_region_check(const struct braid_superblock *sb, u64 bytes)
{
	const char *why;
	u64 end;
	u32 k;

	if (sb->magic != BRAID_MAGIC)
		return "not a tracebraid region, or its driver was never loaded";
	if (sb->version_major != BRAID_VERSION_MAJOR)
		return "its version is not one that this program knows: use the agent that came with the driver";
	if (sb->state == BRAID_STATE_INIT)
		return NULL;
	if (sb->state != BRAID_STATE_LIVE && sb->state != BRAID_STATE_DOWN)
		return "its state is unknown";
	if (!sb->incarnation)
		return "it has no incarnation";
	if (sb->region_bytes > bytes)
		return "it says to be larger than what is mapped";
	if (!sb->nr_vcpus || sb->nr_vcpus > 4096 || !braid_clock_nominal_mult(sb->counter_hz))
		return "its vCPU count or counter frequency is impossible";
	if (!terminated(sb->guest_name, sizeof(sb->guest_name)) ||
	    !terminated(sb->kernel_release, sizeof(sb->kernel_release)) ||
	    !terminated(sb->machine, sizeof(sb->machine)))
		return "a name in it does not end";
	why = check_sections(sb, sb->region_bytes);
	if (why)
		return why;
	if (sb->nr_buffers > BRAID_MAX_BUFFERS)
		return "it has too many buffers";
	end = sb->sections[BRAID_SECTION_RINGS].offset;
	for (k = 0; k < sb->nr_buffers; k++) {
		if (!terminated(sb->buffers[k].name, BRAID_NAME_BYTES))
			return "a name in it does not end";
		if (!sb->buffers[k].nr_rings)
			continue;
		why = check_buffer(sb, &sb->buffers[k], &end);
		if (why)
			return why;
	}
	return NULL;
}
