// SPDX-License-Identifier: GPL-2.0-or-later
/* The layout: what fits, what does not, and what a validator must refuse. */
#include "shared/region.h"
#include "shared/ring.h"
#include "tests/unit/check.h"

static struct braid_superblock sb;

static const struct braid_region_params sizes = {
	.region_bytes = 16 << 20, .nr_vcpus = 2, .nr_comms = 4096, .nr_symbols = 2048,
	.directory_bytes = 512 << 10,
};

static int lay_out(u64 bytes, u32 nr_slots)
{
	struct braid_region_params params = sizes;
	struct braid_buffer_params buffer = {
		.name = "trace", .subbuf_bytes = 4096, .nr_slots = nr_slots,
	};
	u64 needed;
	int err;

	memset(&sb, 0, sizeof(sb));
	params.region_bytes = bytes;
	err = braid_region_layout(&sb, &params, &needed);
	if (err)
		return err;
	buffer.max_bytes = sb.sections[BRAID_SECTION_RINGS].bytes / 4 * 3;
	err = braid_region_add_buffer(&sb, &buffer, &needed);
	sb.magic = BRAID_MAGIC;
	sb.version_major = BRAID_VERSION_MAJOR;
	sb.state = BRAID_STATE_LIVE;
	sb.incarnation = 1;
	sb.counter_hz = 1000000000;
	return err;
}

static void fits(void)
{
	CHECK_EQ(lay_out(16 << 20, 0), 0);
	CHECK(!braid_region_check(&sb, 16 << 20));
	CHECK_EQ(sb.buffers[0].nr_slots, 1024);
	CHECK_EQ(sb.buffers[0].nr_rings, 2);
}

static void needed_is_exact(void)
{
	struct braid_buffer_params buffer = {
		.name = "x", .subbuf_bytes = 4096, .nr_slots = 256,
	};
	u64 fixed, needed;

	CHECK_EQ(braid_region_layout(&sb, &(struct braid_region_params){ .region_bytes = 4096,
				     .nr_vcpus = 1 }, &fixed), -ENOSPC);
	CHECK_EQ(lay_out(fixed + (1 << 20), 2), 0);
	CHECK_EQ(lay_out(2 << 20, 1024), -ENOSPC);
	sb.nr_buffers = 0;
	CHECK_EQ(braid_region_add_buffer(&sb, &buffer, &needed), -ENOSPC);
	CHECK_EQ(lay_out(needed, 256), 0);
	CHECK_EQ(lay_out(needed - 1, 256), -ENOSPC);
}

static void bad_shapes(void)
{
	struct braid_buffer_params p = { .name = "x", .subbuf_bytes = 4096, .nr_slots = 3 };
	u64 needed;

	lay_out(16 << 20, 2);
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -EINVAL);
	p.nr_slots = 4;
	p.subbuf_bytes = 100;
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -EINVAL);
	p.subbuf_bytes = 4100;
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -EINVAL);
	p.subbuf_bytes = 1 << 20;
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -EINVAL);
	p.subbuf_bytes = 256;
	while (sb.nr_buffers < BRAID_MAX_BUFFERS)
		CHECK(braid_region_add_buffer(&sb, &p, &needed) > 0);
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -ENFILE);
	CHECK(!braid_region_check(&sb, 16 << 20));
}

#define REFUSED(change)						\
	do {							\
		lay_out(16 << 20, 16);				\
		CHECK(!braid_region_check(&sb, 16 << 20));	\
		change;						\
		CHECK(braid_region_check(&sb, 16 << 20));	\
	} while (0)

static void refuses(void)
{
	struct braid_buffer_desc *d = &sb.buffers[0];

	REFUSED(sb.magic++);
	REFUSED(sb.version_major++);
	REFUSED(sb.state = 9);
	REFUSED(sb.incarnation = 0);
	REFUSED(sb.region_bytes++);
	REFUSED(sb.nr_vcpus = 0);
	REFUSED(sb.nr_vcpus = 1);
	REFUSED(sb.counter_hz = 0);
	REFUSED(sb.counter_hz = ~0ULL);
	REFUSED(memset(sb.guest_name, 'x', sizeof(sb.guest_name)));
	REFUSED(sb.sections[2].offset = ~0ULL - 100);
	REFUSED(sb.sections[2].bytes = ~0ULL);
	REFUSED(sb.sections[2].bytes = 3);
	REFUSED(sb.sections[1].offset = sb.sections[0].offset);
	REFUSED(sb.sections[1].offset = 0);
	REFUSED(sb.nr_buffers = BRAID_MAX_BUFFERS + 1);
	REFUSED(d->nr_slots = 3);
	REFUSED(d->nr_slots = 1 << 20);
	REFUSED(d->subbuf_bytes = 17);
	REFUSED(d->meta_bytes = 4096 * 9);
	REFUSED(d->rings_offset = 4096);
	REFUSED(d->rings_offset = ~0ULL & ~4095ULL);
	REFUSED(d->ring_stride = 4096);
	REFUSED(d->ring_stride = 1ULL << 63);
	REFUSED(memset(d->name, 'x', sizeof(d->name)));
	lay_out(16 << 20, 16);
	sb.version_minor = 99;
	CHECK(!braid_region_check(&sb, 16 << 20));
	CHECK(braid_region_check(&sb, 8 << 20));
}

int main(void)
{
	RUN(fits);
	RUN(needed_is_exact);
	RUN(bad_shapes);
	RUN(refuses);
	return VERDICT();
}
