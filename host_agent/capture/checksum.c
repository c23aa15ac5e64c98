// SPDX-License-Identifier: GPL-2.0-or-later
/* XXH3 over a chunk's header and payload. */
#define XXH_STATIC_LINKING_ONLY		/* a state on the stack */
#include <xxhash.h>

#include "host_agent/capture/checksum.h"

u64 braid_chunk_checksum(const struct braid_chunk *chunk, const void *head, size_t head_bytes,
			 const void *body, size_t body_bytes)
{
	XXH3_state_t state;

	XXH3_INITSTATE(&state);
	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, chunk, offsetof(struct braid_chunk, checksum));
	if (head_bytes)
		XXH3_64bits_update(&state, head, head_bytes);
	if (body_bytes)
		XXH3_64bits_update(&state, body, body_bytes);
	return XXH3_64bits_digest(&state);
}
