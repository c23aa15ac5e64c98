// SPDX-License-Identifier: GPL-2.0-or-later
/* Decompresses what trace-cmd compressed: by zstd, or by zlib on machines without it. */
#include <isa-l/igzip_lib.h>
#include <stdlib.h>
#include <zstd.h>

#include "host_agent/trace/trace_dat.h"

/* A whole zlib stream, with its checksum. */
static bool inflate_all(u8 *to, u32 bytes, const u8 *packed, u32 packed_bytes)
{
	struct inflate_state *state = malloc(sizeof(*state));
	bool good;

	if (!state)
		return false;
	isal_inflate_init(state);
	state->next_in = (u8 *)packed;
	state->avail_in = packed_bytes;
	state->next_out = to;
	state->avail_out = bytes;
	state->crc_flag = ISAL_ZLIB;
	good = isal_inflate_stateless(state) == ISAL_DECOMP_OK && state->total_out == bytes;
	free(state);
	return good;
}

bool braid_dat_unpack(const struct braid_trace_dat *dat, void *to, u32 bytes, const void *packed,
		      u32 packed_bytes)
{
	if (dat->zlib)
		return inflate_all(to, bytes, packed, packed_bytes);
	return ZSTD_decompress(to, bytes, packed, packed_bytes) == bytes;
}
