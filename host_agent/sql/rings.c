// SPDX-License-Identifier: GPL-2.0-or-later
/* The number of a row: of its ring, and in its ring. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define SEQ_BITS	44
#define MOST_RINGS	(1u << (63 - SEQ_BITS))

struct braid_sql_ring {
	uint32_t stream, cpu;
	char *buffer;
};

static bool rings_same(const void *in, u32 number, const void *key)
{
	const struct braid_sql_rings *r = in;
	const struct braid_sql_ring *ring = &r->all[number], *other = key;

	return ring->stream == other->stream && ring->cpu == other->cpu &&
	       !strcmp(ring->buffer, other->buffer);
}

static int add_ring(struct braid_sql_rings *r, u32 hash, const struct braid_sql_ring *ring)
{
	struct braid_sql_ring copy = *ring;
	int err = braid_hash_reserve(&r->by_name, MOST_RINGS);

	if (err == -ENOSPC)
		return braid_fail(-ENOSPC, "the capture has more than %u rings: write UNION for OR",
				  MOST_RINGS);
	copy.buffer = err ? NULL : strdup(ring->buffer);
	if (!copy.buffer || braid_array_push(r->all, r->nr, r->capacity, copy)) {
		free(copy.buffer);
		return braid_out_of_memory();
	}
	braid_hash_put(&r->by_name, hash, r->nr - 1);
	return 0;
}

int braid_sql_row_id(struct braid_sql_rings *r, const struct tracebraid_walk *walk,
		     sqlite3_int64 *id)
{
	const struct braid_sql_ring ring = {
		.stream = tracebraid_stream_number(tracebraid_item_stream(walk)),
		.cpu = tracebraid_cpu(walk), .buffer = (char *)tracebraid_buffer(walk),
	};
	u32 hash = braid_hash_of(ring.buffer, strlen(ring.buffer),
				 (u64)ring.stream << 32 | ring.cpu);
	u32 number = braid_hash_find(&r->by_name, hash, rings_same, r, &ring);
	int err = number == BRAID_HASH_NONE ? add_ring(r, hash, &ring) : 0;

	if (err)
		return err;
	if (number == BRAID_HASH_NONE)
		number = r->nr - 1;
	*id = (sqlite3_int64)((u64)number << SEQ_BITS |
			      (tracebraid_seq(walk) & ((1ULL << SEQ_BITS) - 1)));
	return 0;
}

void braid_sql_rings_free(struct braid_sql_rings *r)
{
	while (r->nr)
		free(r->all[--r->nr].buffer);
	free(r->all);
	braid_hash_free(&r->by_name);
}
