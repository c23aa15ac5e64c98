// SPDX-License-Identifier: GPL-2.0-or-later
/* Compares the sub-buffer decoder with a simple second one, over arbitrary bytes, in both modes. */
#include "shared/page.h"
#include "tests/fuzz/fuzz.h"

/* The definition of an event in include/tracebraid/abi.h, word by word. */
struct plain {
	const u32 *words;
	u32 nr_words;
	u32 at;
	bool absolute;
	bool bad;
	bool padded;
	unsigned __int128 time;
	bool stamped;		/* after a TIME_STAMP times may decrease */
};

struct plain_event {
	u32 type, at, first, nr;	/* payload: words [first, first + nr) */
	u64 external_ns;
};

static u64 catch_up(u64 time, u64 low, u32 bits)
{
	u64 mask = (1ULL << bits) - 1;
	u64 candidate = (time & ~mask) | low;

	return candidate >= time ? candidate : candidate + mask + 1;
}

static void plain_advance(struct plain *p, u64 value, u32 bits)
{
	if (p->absolute)
		p->time = catch_up((u64)p->time, value, bits);
	else
		p->time += value;
}

/* One event of a type that is delivered; false at the end, whether valid or not. */
static bool plain_next(struct plain *p, struct plain_event *e)
{
	while (p->at < p->nr_words && !p->bad) {
		u32 head = p->words[p->at], type = head & 3, len = head >> 2 & 7, delta = head >> 5;
		u32 left = p->nr_words - p->at;
		const u32 *array = p->words + p->at + 1;

		e->type = type;
		e->at = p->at;
		e->external_ns = 0;
		if (type == BRAID_TYPE_PADDING) {
			p->at = p->nr_words;
			p->padded = true;
		} else if (type == BRAID_TYPE_TIME_EXTENT) {
			p->bad = len != 1 || left < 2;
			if (p->bad)
				break;
			plain_advance(p, delta | (u64)array[0] << 27, 59);
			p->at += 2;
		} else if (type == BRAID_TYPE_TIME_STAMP) {
			p->bad = len != 4 || left < 5 || (array[0] & 0x7ffffff) != delta;
			if (p->bad)
				break;
			p->time = array[0] | (u64)array[1] << 32;
			p->stamped = true;
			e->external_ns = array[2] | (u64)array[3] << 32;
			e->first = p->at + 1;
			e->nr = 4;
			p->at += 5;
			return true;
		} else {
			e->first = p->at + (len ? 1 : 2);
			p->bad = !len && (left < 2 || !array[0] || array[0] % 4);
			if (p->bad)
				break;
			e->nr = len ? len : array[0] / 4;
			p->bad = e->nr > p->nr_words - e->first;
			if (p->bad)
				break;
			plain_advance(p, delta, 27);
			p->at = e->first + e->nr;
			return true;
		}
	}
	return false;
}

/* The writer's encoder must reproduce an event that has the writer's own form. */
static void encode_again(const struct plain *p, const struct plain_event *e)
{
	u32 bytes = braid_event_bytes(4 * e->nr), head[2];
	u32 in_front = e->first - e->at;

	if (e->type != BRAID_TYPE_DATA || in_front != (4 * e->nr > BRAID_MAX_SMALL_BYTES ? 2 : 1))
		return;
	MUST_EQ(bytes, 4 * (in_front + e->nr));
	MUST((u32 *)braid_page_put_event(head, bytes, p->words[e->at] >> 5) == head + in_front);
	MUST(!memcmp(head, p->words + e->at, 4 * in_front));
}

static void walk(const u8 *data, u32 bytes, u64 time_stamp, u32 flags)
{
	struct plain p = { .words = (const u32 *)data, .nr_words = bytes / 4,
			   .absolute = flags & BRAID_BUFFER_ABSOLUTE, .time = time_stamp };
	struct braid_event_view view;
	struct braid_cursor c, again;
	u64 before = time_stamp, events = 0;
	struct plain_event e;
	s64 count;
	int ret;

	braid_cursor_init(&c, data, bytes, time_stamp, flags);
	again = c;
	while ((ret = braid_page_next(&c, &view)) > 0) {
		MUST(plain_next(&p, &e));
		MUST_EQ(view.type, e.type);
		MUST_EQ(view.offset, 4 * e.at);
		MUST((const u8 *)view.payload == data + 4 * e.first);
		MUST_EQ(view.payload_bytes, 4 * e.nr);
		MUST_EQ(view.time, (u64)p.time);
		MUST_EQ(view.external_ns, e.external_ns);
		if (!p.absolute && !p.stamped && !(p.time >> 64))
			MUST(view.time >= before);
		before = view.time;
		events += view.type == BRAID_TYPE_DATA;
		MUST_EQ(c.events, events);
		encode_again(&p, &e);
	}
	MUST(!plain_next(&p, &e));
	/* One to three bytes after the last event are not an event. */
	MUST_EQ(ret, p.bad || (bytes % 4 && !p.padded) ? -EBADMSG : 0);
	MUST(braid_page_next(&c, &view) == 0);
	count = braid_page_count(&again);
	MUST(count == (ret ? (s64)ret : (s64)events));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };
	u32 flags = fuzz_take(&in, 4) & BRAID_BUFFER_ABSOLUTE;
	u64 time_stamp = fuzz_take(&in, 8);
	u8 *copy = fuzz_rest(&in);

	walk(copy, in.left, time_stamp, flags);
	free(copy);
	return 0;
}
