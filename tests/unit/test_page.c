// SPDX-License-Identifier: GPL-2.0-or-later
/* The on-page codec: sizes, times, and every malformed byte. */
#include "shared/page.h"
#include "tests/unit/check.h"

static u32 words[64];

static void walk(struct braid_cursor *c, u32 bytes, u64 stamp, u32 flags)
{
	braid_cursor_init(c, words, bytes, stamp, flags);
}

static void worked_sizes(void)
{
	CHECK_EQ(braid_event_bytes(7), 12);
	CHECK_EQ(braid_event_bytes(82), 92);
	CHECK_EQ(braid_event_bytes(0), 8);
	CHECK_EQ(braid_event_bytes(1), 8);
	CHECK_EQ(braid_event_bytes(28), 32);
	CHECK_EQ(braid_event_bytes(29), 40);
}

static void seven_bytes(void)
{
	struct braid_event_view view;
	struct braid_cursor c;
	void *payload = braid_page_put_event(words, 12, 5);

	memcpy(payload, "1234567", 8);
	CHECK_EQ(words[0], 3 | 2 << 2 | 5 << 5);
	walk(&c, 12, 100, 0);
	CHECK_EQ(braid_page_next(&c, &view), 1);
	CHECK_EQ(view.payload_bytes, 8);
	CHECK_EQ(view.time, 105);
	CHECK(!memcmp(view.payload, "1234567", 8));
	CHECK_EQ(braid_page_next(&c, &view), 0);
	CHECK_EQ(c.events, 1);
}

static void eighty_two_bytes(void)
{
	struct braid_event_view view;
	struct braid_cursor c;

	braid_page_put_event(words, 92, 1);
	CHECK_EQ(words[0] >> 2 & 7, 0);
	CHECK_EQ(words[1], 84);
	walk(&c, 92, 0, 0);
	CHECK_EQ(braid_page_next(&c, &view), 1);
	CHECK_EQ(view.payload_bytes, 84);
	CHECK_EQ(c.offset, 92);
}

static void extent_and_stamp(void)
{
	struct braid_event_view view;
	struct braid_cursor c;

	braid_page_put_extent(words, 0x123456789aULL);
	braid_page_put_event(words + 2, 8, 3);
	braid_page_put_stamp(words + 4, 0xfedcba9876543210ULL, 42);
	braid_page_put_event(words + 9, 8, 7);
	walk(&c, 44, 1000, 0);
	CHECK_EQ(braid_page_next(&c, &view), 1);
	CHECK_EQ(view.time, 1000 + 0x123456789aULL + 3);
	CHECK_EQ(braid_page_next(&c, &view), 1);
	CHECK_EQ(view.type, BRAID_TYPE_TIME_STAMP);
	CHECK_EQ(view.time, 0xfedcba9876543210ULL);
	CHECK_EQ(view.external_ns, 42);
	CHECK_EQ(braid_page_next(&c, &view), 1);
	CHECK_EQ(view.time, 0xfedcba9876543217ULL);
	CHECK_EQ(c.events, 2);
}

static void absolute(void)
{
	struct braid_event_view view;
	struct braid_cursor c;
	u64 t = (5ULL << 27) - 1, far = t + (9ULL << 40) + 12345;

	/* The low bits wrap between the page's stamp and the event. */
	braid_page_put_event(words, 8, (t + 2) & BRAID_DELTA_MASK);
	braid_page_put_extent(words + 2, far);
	braid_page_put_event(words + 4, 8, far & BRAID_DELTA_MASK);
	walk(&c, 24, t, BRAID_BUFFER_ABSOLUTE);
	CHECK_EQ(braid_page_next(&c, &view), 1);
	CHECK_EQ(view.time, t + 2);
	CHECK_EQ(braid_page_next(&c, &view), 1);
	CHECK_EQ(view.time, far);
}

static void padding_ends(void)
{
	struct braid_event_view view;
	struct braid_cursor c;

	braid_page_put_event(words, 8, 0);
	words[2] = BRAID_TYPE_PADDING;
	words[3] = 0xdeadbeef;
	walk(&c, 16, 0, 0);
	CHECK_EQ(braid_page_next(&c, &view), 1);
	CHECK_EQ(braid_page_next(&c, &view), 0);
}

static void malformed(void)
{
	static const struct { u32 head, second; u32 bytes; } bad[] = {
		{ BRAID_TYPE_DATA | 7 << 2, 0, 8 },		/* longer than the data */
		{ BRAID_TYPE_DATA, 0, 8 },			/* no length at all */
		{ BRAID_TYPE_DATA, 5, 64 },			/* not a multiple of 4 */
		{ BRAID_TYPE_DATA, 0xfffffffc, 64 },		/* wraps */
		{ BRAID_TYPE_DATA, 60, 64 },			/* 4 too long */
		{ BRAID_TYPE_DATA, 0, 4 },			/* length word missing */
		{ BRAID_TYPE_TIME_EXTENT | 2 << 2, 0, 16 },	/* wrong len */
		{ BRAID_TYPE_TIME_EXTENT | 1 << 2, 0, 4 },	/* cut off */
		{ BRAID_TYPE_TIME_STAMP | 4 << 2, 0, 16 },	/* cut off */
		{ BRAID_TYPE_TIME_STAMP | 4 << 2 | 1 << 5, 0, 20 },	/* bits disagree */
		{ 0, 0, 2 },					/* not even a word */
	};
	struct braid_event_view view;
	struct braid_cursor c;
	size_t k;

	for (k = 0; k < sizeof(bad) / sizeof(*bad); k++) {
		memset(words, 0, sizeof(words));
		words[0] = bad[k].head;
		words[1] = bad[k].second;
		walk(&c, bad[k].bytes, 0, 0);
		CHECK_EQ(braid_page_next(&c, &view), -EBADMSG);
		CHECK_EQ(braid_page_next(&c, &view), 0);
		walk(&c, bad[k].bytes, 0, 0);
		CHECK_EQ(braid_page_count(&c), -EBADMSG);
	}
}

int main(void)
{
	RUN(worked_sizes);
	RUN(seven_bytes);
	RUN(eighty_two_bytes);
	RUN(extent_and_stamp);
	RUN(absolute);
	RUN(padding_ends);
	RUN(malformed);
	return VERDICT();
}
