// SPDX-License-Identifier: GPL-2.0-or-later
/* Checks of beacons: each word, forged, is refused. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "host_agent/transport/beacon.h"
#include "tests/unit/check.h"

#define STEP	((u64)BRAID_BEACON_STEP)
#define FIRST	(1ULL << 32)	/* guest-physical address of chunk 0 */
#define OTHER	(FIRST - 8 * STEP)

/* Of chunk 0 of two. */
static const struct braid_beacon good = {
	.magic = BRAID_BEACON_MAGIC, .version_major = BRAID_BEACON_VERSION_MAJOR,
	.page_bytes = 4096, .nonce = 0x1234567890abcdefULL, .nr_chunks = 2, .address = FIRST,
	.bytes = STEP, .region_bytes = 2 * (STEP - 4096),
	.chunks = { { FIRST, STEP }, { OTHER, STEP } },
};

/* Each word by itself, in chunk 0's beacon. */
static void forged_words(void)
{
	const u64 nasty[] = {
		0, 1, ~0ULL, 1ULL << 63, ~0ULL << 21, 4 * STEP, STEP - 1, 3 * STEP,
	};
	struct braid_beacon b;
	size_t at, k;

	CHECK(!braid_beacon_check(&good));
	for (at = 0; at < offsetof(struct braid_beacon, chunks[2]); at += 4)
		for (k = 0; k < sizeof(nasty) / sizeof(*nasty); k++) {
			bool same;

			if (at >= offsetof(struct braid_beacon, reserved) &&
			    at < offsetof(struct braid_beacon, chunks))
				continue;	/* later minor versions use them */
			b = good;
			memcpy((u8 *)&b + at, &nasty[k], at % 8 ? 4 : 8);
			same = !memcmp(&b, &good, sizeof(b));
			/* Any nonce will do, and any place of the other chunk. */
			if (at - offsetof(struct braid_beacon, nonce) < 8)
				same = b.nonce;
			if (at - offsetof(struct braid_beacon, chunks[1].address) < 8)
				same = !(b.chunks[1].address % STEP) &&
				       b.chunks[1].address + STEP &&
				       b.chunks[1].address != b.address;
			if (same == !!braid_beacon_check(&b)) {
				CHECK(!"a forged beacon's verdict");
				fprintf(stderr, "at %zu: %#" PRIx64 "\n", at, (uint64_t)nasty[k]);
			}
		}
}

int main(void)
{
	RUN(forged_words);
	return VERDICT();
}
