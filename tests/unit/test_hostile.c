// SPDX-License-Identifier: GPL-2.0-or-later
/* A guest that overwrites its region with garbage while it is drained: no crash, no hang. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/discover/discover.h"
#include "host_agent/live/account.h"
#include "host_agent/live/region.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/scratch.h"

#define ROUNDS		60
#define POLLS		40

static char *region_path, *capture_path;
static u32 scribbler_stop;

static const struct fake_params usual = {
	.name = "evil", .bytes = 1 << 20, .nr_vcpus = 2, .subbuf_bytes = 1024, .nr_slots = 16,
	.rate = 200000, .always = true,
};

static u64 next_random(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Where an invalid word does most harm: the small sections, and the rings' private parts. */
static u64 pick_offset(const struct fake_guest *g, u64 random, u32 kind)
{
	const struct braid_buffer_desc *desc = &g->sb.buffers[0];

	switch (kind % 4) {
	case 0:
		return braid_ring_offset(desc, random % desc->nr_rings) +
		       (random >> 8) % (desc->private_bytes + BRAID_PAGE_BYTES);
	case 1:
		return BRAID_PAGE_BYTES + random % (g->sb.sections[BRAID_SECTION_RINGS].offset -
						    BRAID_PAGE_BYTES);
	case 2:
		return random % g->p.bytes;
	}
	return 48 + random % sizeof(struct braid_superblock);	/* except the identification */
}

static void scribble(struct fake_guest *g, u64 *state, u32 kind)
{
	u64 at = pick_offset(g, next_random(state), kind) & ~7ULL, value = next_random(state);
	u64 *word = (u64 *)(g->base + at);

	if (at + 8 > g->p.bytes)
		return;
	switch (next_random(state) % 4) {
	case 0:
		braid_store(word, value);
		break;
	case 1:
		braid_store(word, braid_load(word) ^ 1ULL << (value & 63));
		break;
	case 2:
		braid_store(word, braid_load(word) + (s64)(value % 64) - 32);
		break;
	default:
		braid_store(word, value & 1 ? ~0ULL : 0);
	}
}

static void *scribbler(void *arg)
{
	struct fake_guest *g = arg;
	static u64 state = 88172645463325252ULL;
	u32 kind = 0;

	while (!braid_load(&scribbler_stop)) {
		u32 words = next_random(&state) % 100;

		while (words--)
			scribble(g, &state, kind++);
		braid_sleep_ns(20000);
	}
	return NULL;
}

static void read_everything(void)
{
	struct braid_directory_copy copy;
	struct braid_found *found;
	struct braid_mapping *m;
	struct braid_superblock sb;
	struct braid_ring_account a;
	struct braid_ring_map map;
	const char *path = region_path;
	size_t nr;
	u32 k, v;

	CHECK_EQ(braid_discover(&found, &nr, &path, 1, 0, NULL), 0);
	free(found);
	if (braid_mapping_open(&m, region_path, false))
		return;
	if (!braid_mapping_identify(m, &sb)) {
		if (!braid_directory_load(&copy, m, &sb, 0)) {
			braid_directory_count(&copy);
			braid_directory_free(&copy);
		}
		for (k = 0; k < sb.nr_buffers; k++)
			for (v = 0; v < sb.buffers[k].nr_rings; v++) {
				braid_mapping_ring(m, &sb, k, v, &map);
				braid_ring_account(&a, &map, m, sb.incarnation, NULL, NULL);
			}
	}
	braid_mapping_close(m);
}

/* One recording of a guest that keeps scribbling; a new one for each round. */
static void record_round(struct braid_exchange *exchange)
{
	struct braid_chunk_file head = { .version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw" };
	struct braid_live_sink sink = { .next_stream = 1 };
	struct braid_pattern all = { .system = "*" };
	struct braid_region_options o = {
		.path = region_path, .name = "evil", .sink = &sink, .exchange = exchange,
		.patterns = &all, .nr_patterns = 1,
	};
	struct braid_region_source *source;
	int polls;

	CHECK_EQ(braid_capture_create(&sink.capture, capture_path, &head), 0);
	if (!braid_region_source_open(&source, &o)) {
		for (polls = 0; polls < POLLS; polls++) {
			CHECK(braid_region_source_poll(source) >= 0);
			braid_sleep_ns(200000);
		}
		braid_region_source_disarm(source);
		CHECK_EQ(braid_region_source_finish(source), 0);
		braid_region_source_close(source);
	}
	CHECK_EQ(braid_capture_finish(sink.capture), 0);
}

static void test_scribbled_regions(void)
{
	struct braid_exchange *exchange;
	pthread_t thread;
	int round;

	CHECK_EQ(braid_exchange_start(&exchange), 0);
	for (round = 0; round < ROUNDS; round++) {
		struct fake_params p = usual;
		struct fake_guest *g;

		p.flags = round & 1 ? BRAID_BUFFER_OVERWRITE : 0;
		g = fake_guest_new(region_path, &p);
		/* Every second guest is alive; its writer is robust, see the ring's tests. */
		if (round & 2)
			fake_guest_start_process(g);
		else
			fake_guest_write(g, 0, 5000);
		braid_store(&scribbler_stop, 0);
		CHECK_EQ(pthread_create(&thread, NULL, scribbler, g), 0);
		record_round(exchange);
		read_everything();
		braid_store(&scribbler_stop, 1);
		pthread_join(thread, NULL);
		fake_guest_free(g);
	}
	braid_exchange_stop(exchange);
}

int main(void)
{
	region_path = scratch("region");
	capture_path = scratch("capture");
	RUN(test_scribbled_regions);
	return VERDICT();
}
