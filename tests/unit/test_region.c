// SPDX-License-Identifier: GPL-2.0-or-later
/* The layout: sizes that fit and that do not, and regions that the validator must refuse. */
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
	CHECK_EQ(sb.buffers[0].meta_bytes, BRAID_PAGE_BYTES);
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

/* Minor version 0 had three lines of clock cells, 1 to 4 had four. */
static void cells_of_earlier_minors(void)
{
	struct braid_section *clock = &sb.sections[BRAID_SECTION_CLOCK];

	CHECK_EQ(lay_out(16 << 20, 0), 0);
	CHECK_EQ(clock->bytes, 5 * BRAID_CACHELINE_BYTES);
	clock->bytes = 4 * BRAID_CACHELINE_BYTES;
	CHECK(!braid_region_check(&sb, 16 << 20));
	clock->bytes = 3 * BRAID_CACHELINE_BYTES;
	CHECK(!braid_region_check(&sb, 16 << 20));
	clock->bytes--;
	CHECK(braid_region_check(&sb, 16 << 20));
}

/* A ring of minor 2: its meta page begins with the public part, and ends with the rest. */
static void make_old(struct braid_buffer_desc *desc)
{
	u64 meta = BRAID_OLD_PRIVATE_OFFSET + braid_ring_private_used(desc->nr_slots);

	desc->private_bytes = 0;
	desc->meta_bytes = (meta + BRAID_PAGE_BYTES - 1) & ~(BRAID_PAGE_BYTES - 1);
}

static u64 counter(void)
{
	static u64 now;

	return ++now;
}

/* Regions of minor 0 to 2 have the private part of a ring in its meta page. */
static void rings_of_minor_2(void)
{
	static u64 memory[2][20 * BRAID_PAGE_BYTES / 8];
	struct braid_buffer_desc desc = {
		.subbuf_bytes = 256, .nr_slots = 128, .meta_bytes = BRAID_PAGE_BYTES,
		.private_bytes = braid_ring_private_bytes(128, BRAID_PAGE_BYTES), .nr_rings = 1,
	};
	const struct braid_ring_identity who = { .incarnation = 1, .first_position = 9 };
	struct braid_ring_map map, old;
	struct braid_reader r;
	struct braid_span span;
	struct braid_writer *w = malloc(braid_writer_bytes(desc.nr_slots));
	u64 token, events = 0, k, value;
	void *payload;

	braid_region_ring(&desc, memory[0], 0, &map);
	CHECK_EQ((u8 *)map.meta - (u8 *)map.priv, 3 * BRAID_PAGE_BYTES);
	CHECK_EQ(map.subbufs - (u8 *)map.meta, BRAID_PAGE_BYTES);
	braid_writer_init(w, &map, &who);
	for (k = 0; k < 500; k++) {
		payload = braid_ring_reserve(w, sizeof(k), counter, &token);
		CHECK(payload);
		if (!payload)
			break;
		memcpy(payload, &k, sizeof(k));
		braid_ring_commit(w, token);
	}

	make_old(&desc);
	CHECK_EQ(desc.meta_bytes, 3 * BRAID_PAGE_BYTES);
	braid_region_ring(&desc, memory[1], 0, &old);
	CHECK_EQ((u8 *)old.priv - (u8 *)old.meta, 128);
	CHECK_EQ((u8 *)old.slots - (u8 *)old.meta, 512);
	CHECK_EQ(old.subbufs - (u8 *)old.meta, desc.meta_bytes);
	memcpy(old.meta, map.meta, sizeof(*map.meta));
	memcpy(old.priv, map.priv, braid_ring_private_used(desc.nr_slots));
	memcpy(old.subbufs, map.subbufs, (size_t)desc.subbuf_bytes * (desc.nr_slots + 1));
	CHECK_EQ(braid_reader_attach(&r, &old, 1), 0);
	while (braid_reader_next(&r, &span) > 0) {
		struct braid_event_view view;
		struct braid_cursor c;

		braid_cursor_init(&c, span.data, span.to_bytes, span.time_stamp, 0);
		while (braid_page_next(&c, &view) > 0) {
			if (view.type != BRAID_TYPE_DATA)
				continue;
			memcpy(&value, view.payload, sizeof(value));
			CHECK_EQ(value, events);
			events++;
		}
		braid_reader_done(&r, &span, events - r.read);
	}
	CHECK_EQ(events, 500);
	free(w);
}

static void checks_minor_2(void)
{
	struct braid_buffer_desc *desc = &sb.buffers[0];

	CHECK_EQ(lay_out(16 << 20, 0), 0);
	CHECK_EQ(desc->meta_bytes, BRAID_PAGE_BYTES);
	make_old(desc);
	sb.version_minor = 2;
	CHECK(!braid_region_check(&sb, 16 << 20));
	desc->meta_bytes -= BRAID_PAGE_BYTES;
	CHECK(braid_region_check(&sb, 16 << 20));
	desc->meta_bytes += BRAID_PAGE_BYTES;
	desc->ring_stride -= 2 * BRAID_PAGE_BYTES;
	CHECK(braid_region_check(&sb, 16 << 20));
}

/* A buffer called "@name@number". */
static int add(const char *name, u32 number, u32 subbuf_bytes)
{
	char text[32];
	struct braid_buffer_params p = {
		.name = text, .subbuf_bytes = subbuf_bytes, .nr_slots = 4,
	};
	u64 needed;

	snprintf(text, sizeof(text), "%s%u", name, number);
	return braid_region_add_buffer(&sb, &p, &needed);
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
	p.name = "a name of more than 31 characters";
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -EINVAL);
	p.name = "";
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -EINVAL);
	p.name = "y";
	p.events_of = "nobody";
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -EINVAL);
	p.events_of = "trace";
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), 1);
	CHECK_EQ(sb.buffers[1].events_of, 0);
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -EEXIST);
	p.events_of = NULL;
	while (sb.nr_buffers < BRAID_MAX_BUFFERS)
		CHECK(add("b", sb.nr_buffers, 256) > 0);
	CHECK_EQ(add("b", sb.nr_buffers, 256), -ENFILE);
	braid_region_remove_buffer(&sb, 7);
	CHECK_EQ(add("b", 99, 256), -ENFILE);	/* 7 keeps its name */
	CHECK_EQ(add("b", 7, 256), 7);
	CHECK_EQ(sb.buffers[7].events_of, 7);
	CHECK(!braid_region_check(&sb, 16 << 20));
}

/* Buffers are added and removed: the first large enough gap is used, an entry keeps its name. */
static void gaps_and_names(void)
{
	u64 first, room, at;

	CHECK_EQ(lay_out(16 << 20, 2), 0);
	room = braid_region_largest_gap(&sb);
	first = sb.buffers[0].rings_offset + 2 * sb.buffers[0].ring_stride;
	CHECK_EQ(room, sb.sections[BRAID_SECTION_RINGS].offset +
		 sb.sections[BRAID_SECTION_RINGS].bytes - first);
	CHECK_EQ(add("b", 1, 4096), 1);
	CHECK_EQ(add("b", 2, 4096), 2);
	CHECK_EQ(add("b", 3, 4096), 3);
	CHECK_EQ(sb.buffers[1].rings_offset, first);
	CHECK_EQ(sb.buffers[1].layout, 1);
	at = sb.buffers[2].rings_offset;
	braid_region_remove_buffer(&sb, 2);
	CHECK_EQ(sb.buffers[2].nr_rings, 0);
	CHECK(!strcmp(sb.buffers[2].name, "b2"));
	CHECK(!braid_region_check(&sb, 16 << 20));
	CHECK_EQ(add("b", 4, 8192), 4);		/* too large for the gap */
	CHECK(sb.buffers[4].rings_offset > sb.buffers[3].rings_offset);
	CHECK_EQ(add("b", 5, 2048), 5);
	CHECK_EQ(sb.buffers[5].rings_offset, at);
	CHECK_EQ(add("b", 2, 4096), 2);		/* its entry, another place */
	CHECK(sb.buffers[2].rings_offset > at);
	CHECK_EQ(sb.buffers[2].layout, 2);
	CHECK_EQ(add("b", 2, 4096), -EEXIST);
	CHECK(!braid_region_check(&sb, 16 << 20));
	braid_region_remove_buffer(&sb, 0);
	CHECK(!braid_region_check(&sb, 16 << 20));
	while (add("c", sb.nr_buffers, 65528) >= 0)
		;
	CHECK(braid_region_largest_gap(&sb) < room);
	CHECK(!braid_region_check(&sb, 16 << 20));
}

/* A gap is used completely, and not exceeded. */
static void gap_is_exact(void)
{
	struct braid_buffer_params p = { .name = "large", .subbuf_bytes = 4096, .nr_slots = 256 };
	u64 needed;

	CHECK_EQ(lay_out(16 << 20, 2), 0);
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), 1);
	CHECK_EQ(add("wall", 0, 4096), 2);
	braid_region_remove_buffer(&sb, 1);
	sb.sections[BRAID_SECTION_RINGS].bytes =	/* no space after the wall */
		sb.buffers[2].rings_offset + 2 * sb.buffers[2].ring_stride -
		sb.sections[BRAID_SECTION_RINGS].offset;
	CHECK_EQ(braid_region_largest_gap(&sb),
		 sb.buffers[2].rings_offset - sb.buffers[1].rings_offset);
	p.name = "same";
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), 3);
	CHECK_EQ(sb.buffers[3].rings_offset, sb.buffers[1].rings_offset);
	CHECK_EQ(braid_region_largest_gap(&sb), 0);
	braid_region_remove_buffer(&sb, 3);
	p.name = "larger";
	p.subbuf_bytes += 128;
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -ENOSPC);
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
	REFUSED(d->private_bytes += 4096);
	REFUSED(d->rings_offset = 4096);
	REFUSED(d->rings_offset = ~0ULL & ~4095ULL);
	REFUSED(d->ring_stride = 4096);
	REFUSED(d->ring_stride = 1ULL << 63);
	REFUSED(memset(d->name, 'x', sizeof(d->name)));
	REFUSED(d->events_of = 1);
	REFUSED((add("b", 1, 4096), sb.buffers[1].rings_offset -= 4096));
	REFUSED((add("b", 1, 4096), sb.buffers[1].rings_offset = d->rings_offset));
	REFUSED((add("b", 1, 4096), d->ring_stride += 4096));
	REFUSED((add("b", 1, 4096), add("b", 2, 4096),
		 sb.buffers[1].rings_offset = sb.buffers[2].rings_offset + 4096));
	lay_out(16 << 20, 16);
	sb.version_minor = 99;
	CHECK(!braid_region_check(&sb, 16 << 20));
	CHECK(braid_region_check(&sb, 8 << 20));
}

/* The last buffer ends at the region's end; the space before it is too small. */
static void needed_after_full_end(void)
{
	struct braid_region_params region = { .region_bytes = 1 << 20, .nr_vcpus = 1 };
	struct braid_buffer_params p = { .name = "a", .subbuf_bytes = 256, .nr_slots = 4 };
	u64 needed, end;

	memset(&sb, 0, sizeof(sb));
	CHECK(!braid_region_layout(&sb, &region, &needed));
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), 0);
	p.name = "b";
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &end), 1);
	sb.sections[BRAID_SECTION_RINGS].bytes = end - sb.sections[BRAID_SECTION_RINGS].offset;
	sb.region_bytes = end;
	braid_region_remove_buffer(&sb, 0);
	p.name = "c";
	p.nr_slots = 64;
	CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), -ENOSPC);
	CHECK(needed > end + 64 * 256);
}

/* A guest with larger pages: its rings' meta pages and sub-buffers begin at pages of the guest. */
static void larger_pages(void)
{
	struct braid_region_params region = sizes;
	struct braid_buffer_params p = { .name = "a", .subbuf_bytes = 256, .nr_slots = 8 };
	struct braid_buffer_desc *desc;
	struct braid_ring_map map;
	static u64 memory[16 << 17];
	u64 needed;
	u32 page;

	for (page = BRAID_PAGE_BYTES; page <= BRAID_MAX_PAGE_BYTES; page *= 2) {
		CHECK_EQ(lay_out(16 << 20, 2), 0);
		sb.nr_buffers = 0;
		region.page_bytes = p.page_bytes = page;
		CHECK(!braid_region_layout(&sb, &region, &needed));
		CHECK_EQ(sb.sections[BRAID_SECTION_MAILBOX].offset, BRAID_PAGE_BYTES);
		p.name = "a";
		CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), 0);
		p.name = "b";
		CHECK_EQ(braid_region_add_buffer(&sb, &p, &needed), 1);
		CHECK(!braid_region_check(&sb, 16 << 20));
		desc = &sb.buffers[1];
		braid_region_ring(desc, memory, 1, &map);
		CHECK_EQ(((u8 *)map.meta - (u8 *)memory) % page, 0);
		CHECK_EQ((u8 *)map.meta - (u8 *)map.priv, page);
		CHECK_EQ(map.subbufs - (u8 *)map.meta, page);
		if (page == BRAID_PAGE_BYTES)
			continue;
		desc->rings_offset += BRAID_PAGE_BYTES;
		CHECK(braid_region_check(&sb, 16 << 20));
		desc->rings_offset -= BRAID_PAGE_BYTES;
		desc->meta_bytes -= BRAID_PAGE_BYTES;
		CHECK(braid_region_check(&sb, 16 << 20));
		desc->meta_bytes = 2 * BRAID_MAX_PAGE_BYTES;
		CHECK(braid_region_check(&sb, 16 << 20));
	}
}

int main(void)
{
	RUN(fits);
	RUN(needed_is_exact);
	RUN(cells_of_earlier_minors);
	RUN(rings_of_minor_2);
	RUN(checks_minor_2);
	RUN(bad_shapes);
	RUN(gaps_and_names);
	RUN(gap_is_exact);
	RUN(refuses);
	RUN(needed_after_full_end);
	RUN(larger_pages);
	return VERDICT();
}
