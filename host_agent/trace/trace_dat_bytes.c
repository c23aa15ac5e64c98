// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes bytes, numbers, names and pages from a trace.dat, each within its bounds. */
#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

int braid_dat_broken(const struct braid_trace_dat *dat, const char *what)
{
	return braid_fail(-EBADMSG, "'%s' is not a valid trace.dat file: %s", dat->path, what);
}

int braid_dat_refuse(struct braid_dat_input *in, const char *what)
{
	if (!in->err)
		in->err = braid_dat_broken(in->dat, what);
	return in->err;
}

struct braid_dat_input braid_dat_at(struct braid_trace_dat *dat, u64 at)
{
	struct braid_dat_input in = { .dat = dat, .at = at, .end = dat->file_bytes };

	if (at > in.end)
		braid_dat_refuse(&in, "it is truncated");
	return in;
}

void braid_dat_take(struct braid_dat_input *in, void *to, u64 bytes)
{
	ssize_t n;

	if (!in->err && bytes > in->end - in->at)
		braid_dat_refuse(in, "a section ends too early");
	if (!in->err && in->memory) {
		memcpy(to, in->memory + in->at, bytes);
	} else if (!in->err) {
		n = braid_pread_all(in->dat->fd, to, bytes, in->at);
		if (n < 0)
			in->err = braid_fail(n, "cannot read '%s': %s", in->dat->path, strerror(-n));
		else if ((u64)n != bytes)
			braid_dat_refuse(in, "it was truncated while it was read");
	}
	if (in->err)
		memset(to, 0, bytes);
	else
		in->at += bytes;
}

u64 braid_dat_number(struct braid_dat_input *in, u32 bytes)
{
	u64 number = 0;

	braid_dat_take(in, &number, bytes);
	return number;
}

void braid_dat_take_string(struct braid_dat_input *in, char *to, size_t size)
{
	size_t k;

	for (k = 0; k < size; k++) {
		braid_dat_take(in, to + k, 1);
		if (!to[k])
			return;
	}
	braid_dat_refuse(in, "a name in it is too long");
}

void *braid_dat_take_new(struct braid_dat_input *in, u64 bytes)
{
	u8 *to = in->err ? NULL : malloc(bytes + 1);

	if (!in->err && !to)
		in->err = braid_out_of_memory();
	if (!to)
		return NULL;
	braid_dat_take(in, to, bytes);
	to[bytes] = 0;
	if (!in->err)
		return to;
	free(to);
	return NULL;
}

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

/* trace-cmd compresses by zstd, or by zlib on machines without it. */
void *braid_dat_take_packed(struct braid_dat_input *in, u64 packed_bytes, u64 bytes,
			    const char *what)
{
	u8 *packed = braid_dat_take_new(in, packed_bytes), *to = packed ? malloc(bytes + 1) : NULL;

	if (packed && !to)
		in->err = braid_out_of_memory();
	else if (packed && !(in->dat->zlib ? inflate_all(to, bytes, packed, packed_bytes) :
			     ZSTD_decompress(to, bytes, packed, packed_bytes) == bytes))
		braid_dat_refuse(in, what);
	free(packed);
	if (!in->err)
		return to;
	free(to);
	return NULL;
}

/* Pages -------------------------------------------------------------------------------------- */

void braid_dat_take_lengths(struct braid_dat_input *in, u64 *packed, u64 *bytes)
{
	*packed = braid_dat_number(in, 4);
	*bytes = braid_dat_number(in, 4);
	if (*packed > in->end - in->at || *bytes > BRAID_DAT_MAX_CHUNK)
		braid_dat_refuse(in, "invalid compression of its pages");
}

static int load_chunk(struct braid_trace_dat *dat, struct braid_dat_cache *c, u64 place)
{
	struct braid_dat_input in = { .dat = dat, .at = place, .end = dat->file_bytes };
	u64 packed, bytes;
	u8 *data;

	free(c->data);
	*c = (struct braid_dat_cache){ 0 };
	braid_dat_take_lengths(&in, &packed, &bytes);	/* again: the file may have been replaced */
	data = braid_dat_take_packed(&in, packed, bytes, "pages in it cannot be decompressed");
	if (data)
		*c = (struct braid_dat_cache){ .place = place, .data = data, .bytes = bytes };
	return in.err;
}

int braid_dat_load(struct braid_trace_dat *dat, const struct braid_extent *extent, void *to,
		   u32 bytes)
{
	u64 place = extent->offset >> BRAID_DAT_PLACE_SHIFT;
	struct braid_dat_input in = { .dat = dat, .at = place, .end = dat->file_bytes };
	struct braid_dat_cache *c;
	int err = 0;

	if (!extent->position) {
		braid_dat_take(&in, to, bytes);
		return in.err;
	}
	c = &dat->caches[extent->position - 1];
	if (c->place != place)
		err = load_chunk(dat, c, place);
	else if (!c->data)
		err = braid_dat_broken(dat, "pages in it cannot be decompressed");
	if (err == -EBADMSG)	/* so are the chunk's other pages: it is not tried again */
		c->place = place;
	if (err)
		return err;
	if (extent->from_bytes > c->bytes || bytes > c->bytes - extent->from_bytes)
		return braid_dat_broken(dat, "it changed while it was read");
	memcpy(to, c->data + extent->from_bytes, bytes);
	return 0;
}
