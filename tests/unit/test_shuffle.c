// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What was shuffled is restored, whatever it was; what was not is refused, or restored to anything.
 */
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/shuffle.h"
#include "shared/page.h"
#include "tests/unit/check.h"

#define MOST_BYTES	(1u << 16)
#define NR_EVENTS	40u
#define GUEST_HEAD	(sizeof(struct braid_chunk) + sizeof(struct braid_chunk_page))
#define HOST_HEAD	(sizeof(struct braid_chunk) + sizeof(struct braid_chunk_host_page) + \
			 BRAID_SUBBUF_HEADER_BYTES)

static u32 words[MOST_BYTES / sizeof(u32)];

static void put_chunk(u8 *at, u16 type, u32 head_bytes, u32 data_bytes)
{
	const struct braid_chunk chunk = {
		.magic = BRAID_CHUNK_MAGIC, .type = type, .number = random(),
		.payload_bytes = head_bytes - sizeof(chunk) + data_bytes,
	};

	memcpy(at, &chunk, sizeof(chunk));
}

/* All kinds of items. Return: the end of the chunk. */
static u8 *put_guest_page(u8 *at)
{
	u8 *data = at + GUEST_HEAD, *next = data;
	u32 k, bytes;

	for (k = 0; k < NR_EVENTS; k++) {
		bytes = braid_event_bytes(random() % (k % 4 ? 30 : 120));
		if (k % 8 == 7) {
			braid_page_put_extent((u32 *)next, random());
			bytes = BRAID_EXTENT_BYTES;
		} else if (k % 16 == 5) {
			braid_page_put_stamp((u32 *)next, random(), random());
			bytes = BRAID_STAMP_BYTES;
		} else {
			braid_page_put_event((u32 *)next, bytes, random() >> 8);
		}
		next += bytes;
	}
	put_chunk(at, BRAID_CHUNK_PAGE, GUEST_HEAD, next - data);
	return at + braid_chunk_bytes(next - at - sizeof(struct braid_chunk));
}

static u8 *put_host_page(u8 *at)
{
	static const u32 types[] = { 3, 0, 28, 30, 31, 1 };
	u8 *data = at + HOST_HEAD, *next = data;
	u32 k, type, bytes, size;

	for (k = 0; k < NR_EVENTS; k++) {
		type = k == NR_EVENTS - 1 ? 29 : types[k % 6];
		size = 4 + random() % 200;
		bytes = type == 0 ? (size + 3) & ~3u : type <= 28 ? 4 * type : 4;
		type |= (u32)random() << 5;
		memcpy(next, &type, sizeof(type));
		memcpy(next + sizeof(type), &size, sizeof(size));
		next += sizeof(type) + bytes;
	}
	put_chunk(at, BRAID_CHUNK_HOST_PAGE, HOST_HEAD, next - data);
	return at + braid_chunk_bytes(next - at - sizeof(struct braid_chunk));
}

/* Exact sizes, so that the sanitizer sees any access outside. Return: words that were apart. */
static u32 round_trip(const u8 *data, u32 bytes)
{
	u8 *from = malloc(bytes + 1), *shuffled = malloc(braid_shuffled_bytes(bytes)),
	   *to = malloc(bytes + 1);
	u32 nr;

	memcpy(from, data, bytes);
	nr = braid_shuffle(shuffled, from, bytes, words);
	CHECK(braid_unshuffle(to, shuffled, bytes, words));
	CHECK(!memcmp(to, data, bytes));
	free(from);
	free(shuffled);
	free(to);
	return nr;
}

static u8 plain[MOST_BYTES];
static u32 plain_bytes, plain_words;

static void make_plain(void)
{
	u8 *at = plain;
	u32 k;

	srandom(1);
	for (k = 0; k < MOST_BYTES; k++)
		plain[k] = random();
	for (k = 0; k < 12; k++)
		at = k % 3 ? put_guest_page(at) : put_host_page(at);
	plain_bytes = at - plain;
	plain_words = 12 * NR_EVENTS;
}

static void each_event_has_one_word(void)
{
	CHECK_EQ(round_trip(plain, plain_bytes), plain_words);
	CHECK_EQ(round_trip(plain, 0), 0);
}

/* As where segments end: the first chunk's beginning and the last one's end are elsewhere. */
static void any_part_is_restored(void)
{
	u32 from, to;

	for (from = 0; from < plain_bytes; from += 40)
		for (to = from; to < plain_bytes; to += 1016)
			round_trip(plain + from, to - from);
	for (to = 0; to < 4096; to++)
		round_trip(plain, to);
	CHECK(round_trip(plain + 8, plain_bytes - 8) >= plain_words - NR_EVENTS);
}

static void damage(u8 *data, u32 bytes, u32 changes)
{
	while (changes--)
		data[random() % bytes] = random() % 2 ? random() : random() % 4 * 255 / 3;
}

static void anything_is_restored(void)
{
	u8 *data = malloc(plain_bytes);
	u32 k;

	for (k = 0; k < 2000; k++) {
		memcpy(data, plain, plain_bytes);
		damage(data, plain_bytes, 1 + k / 10);
		round_trip(data, plain_bytes - random() % 64);
	}
	free(data);
}

static void what_was_not_shuffled_is_refused(void)
{
	u32 bytes = braid_shuffled_bytes(plain_bytes), k, refused = 0;
	u8 *shuffled = malloc(bytes), *data = malloc(bytes), *to = malloc(plain_bytes);
	struct braid_packed_shuffle head;

	braid_shuffle(shuffled, plain, plain_bytes, words);
	for (k = 0; k < 2000; k++) {
		memcpy(data, shuffled, bytes);
		damage(data, k % 2 ? bytes : sizeof(head), 1 + k / 10);
		refused += !braid_unshuffle(to, data, plain_bytes, words);
	}
	CHECK(refused > 1000);
	memcpy(&head, shuffled, sizeof(head));
	for (k = 0; k < 4; k++) {
		const struct braid_packed_shuffle lies[] = {
			{ 0, head.nr + 1 }, { 0, head.nr - 1 }, { plain_bytes + 1, head.nr },
			{ 0, plain_bytes / 4 + 1 },
		};

		memcpy(shuffled, &lies[k], sizeof(head));
		CHECK(!braid_unshuffle(to, shuffled, plain_bytes, words));
	}
	free(shuffled);
	free(data);
	free(to);
}

int main(void)
{
	make_plain();
	RUN(each_event_has_one_word);
	RUN(any_part_is_restored);
	RUN(anything_is_restored);
	RUN(what_was_not_shuffled_is_refused);
	return VERDICT();
}
