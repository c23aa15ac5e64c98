// SPDX-License-Identifier: GPL-2.0-or-later
/* Compares the source's decoding of a host's sub-buffers with libtraceevent's kbuffer. */
#include <string.h>
#include <traceevent/kbuffer.h>
#include <unistd.h>

#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define SUBBUF_BYTES	4096u
#define DATA_BYTES	(SUBBUF_BYTES - BRAID_SUBBUF_HEADER_BYTES)
#define NR_PAGES	60u

int main(void);

static u8 pages[NR_PAGES][SUBBUF_BYTES] __attribute__((__aligned__(8)));
static u64 random_state = 0x853c49e6748fea9bULL;

static u32 pick(u32 nr)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (u32)(random_state >> 32) % nr;
}

static u32 put(u8 *at, u32 type, u32 delta, u32 word)
{
	u32 head = type | delta << 5;

	memcpy(at, &head, sizeof(head));
	memcpy(at + 4, &word, sizeof(word));
	return 8;
}

/* Any entry of a sub-buffer, at clock @time. Return: its bytes. */
static u32 put_any(u8 *at, u64 *time)
{
	u32 delta = pick(1000), type = 1 + pick(28), bytes, k;

	switch (pick(12)) {
	case 0:		/* time advances by more than 27 bits */
		*time += (u64)3 << 27 | delta;
		return put(at, 30, delta, 3);
	case 1:		/* it is stored, except the bits above 59 */
		*time += delta;
		return put(at, 31, *time & ((1u << 27) - 1), (u32)(*time >> 27));
	case 2:		/* a discarded event */
		bytes = 4 + 4 * pick(5);
		memset(at, 0xee, 4 + bytes);
		put(at, 29, delta, bytes);
		*time += delta;
		return 4 + bytes;
	case 3:		/* a long one, or one whose length is not a multiple of 4 */
		bytes = 5 + pick(150);
		for (k = 0; k < bytes; k++)
			at[4 + k] = pick(256);
		put(at, 0, delta, bytes);
		*time += delta;
		return 8 + ((bytes - 4 + 3) & ~3u);
	}
	for (k = 0; k < type; k++)
		put(at + 4 * k, type, delta, pick(1u << 31));
	put(at, type, delta, pick(1u << 31));
	*time += delta;
	return 4 + 4 * type;
}

static void make_page(u8 *page, u64 *time)
{
	u64 used = 0, first = *time;

	while (used < DATA_BYTES - 300)
		used += put_any(page + BRAID_SUBBUF_HEADER_BYTES + used, time);
	memcpy(page, &first, sizeof(first));
	memcpy(page + 8, &used, sizeof(used));
}

static void write_capture(const char *path, u64 first)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = 1, .subbuf_bytes = SUBBUF_BYTES,
		.name = "host",
	};
	struct braid_chunk_host_page page = { .bytes = SUBBUF_BYTES };
	struct braid_capture_writer *w = synth_capture(path);
	u64 time = first;
	u32 k;

	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, 1, &head, sizeof(head), NULL, 0));
	for (k = 0; k < NR_PAGES; k++) {
		make_page(pages[k], &time);
		NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_PAGE, 1, &page, sizeof(page), pages[k],
					SUBBUF_BYTES));
	}
	NEED(!braid_capture_finish(w));
}

/* Checks that each of kbuffer's events is the ring's next one. Return: how many. */
static u64 compare(struct braid_ring *ring)
{
	struct kbuffer *kbuf = kbuffer_alloc(KBUFFER_LSIZE_8, KBUFFER_ENDIAN_LITTLE);
	unsigned long long ts;
	u64 events = 0;
	void *payload;
	u32 k;

	NEED(kbuf);
	for (k = 0; k < NR_PAGES; k++) {
		NEED(!kbuffer_load_subbuffer(kbuf, pages[k]));
		for (payload = kbuffer_read_event(kbuf, &ts); payload;
		     payload = kbuffer_next_event(kbuf, &ts)) {
			u32 bytes = kbuffer_event_size(kbuf);

			NEED(braid_ring_next(ring) == 1);
			events++;
			CHECK_EQ(ring->item.counter, ts);
			CHECK_EQ(ring->item.payload_bytes, bytes);
			CHECK(!memcmp(ring->item.payload, payload, bytes));
			if (check_failures)
				break;
		}
	}
	CHECK_EQ(braid_ring_next(ring), 0);
	CHECK_EQ(ring->walk.faults, 0);
	kbuffer_free(kbuf);
	return events;
}

static void same_events(void)
{
	static const u64 starts[] = { 1000000000000ULL, (1ULL << 59) + 12345 };
	char path[] = "/tmp/test_host_pages.XXXXXX";
	char *paths[] = { path };
	u32 k;

	NEED(close(mkstemp(path)) == 0);
	for (k = 0; k < 2; k++) {
		struct braid_source *source;

		write_capture(path, starts[k]);
		NEED(!braid_source_open_captures(&source, paths, 1, NULL));
		NEED(source->nr_streams == 1 && source->streams[0]->nr_rings >= 1);
		CHECK(compare(source->streams[0]->rings[0]) > 1000);
		braid_source_free(source);
	}
	unlink(path);
}

int main(void)
{
	RUN(same_events);
	return VERDICT();
}
