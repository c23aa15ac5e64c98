// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the pages of a trace.dat, compressed or not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/error.h"

static int trace_dat_load_unpack(struct braid_trace_dat *dat, struct braid_dat_cache *c, u64 place)
{
	struct braid_dat_input in = { .dat = dat, .at = place, .end = dat->file_bytes };
	u64 packed_bytes, bytes;
	u8 *packed, *data;
	int err = 0;

	free(c->data);
	*c = (struct braid_dat_cache){ 0 };
	/* Checked again, since the file may have been replaced. */
	if (braid_dat_take_number(&in, 4, &packed_bytes) || braid_dat_take_number(&in, 4, &bytes))
		return -EBADMSG;
	if (packed_bytes > in.end - in.at || bytes > BRAID_DAT_MAX_CHUNK)
		return braid_dat_broken(dat, "invalid compression of its pages");
	packed = malloc(packed_bytes + 1);
	data = malloc(bytes + 1);
	if (!packed || !data)
		err = braid_out_of_memory();
	if (!err)
		err = braid_dat_take(&in, packed, packed_bytes);
	if (!err && !braid_dat_unpack(dat, data, bytes, packed, packed_bytes))
		err = braid_dat_broken(dat, "pages in it cannot be decompressed");
	free(packed);
	if (err) {
		free(data);
		return err;
	}
	*c = (struct braid_dat_cache){ .place = place, .data = data, .bytes = bytes };
	return 0;
}

int braid_dat_load(struct braid_trace_dat *dat, const struct braid_extent *extent, void *to,
		   u32 bytes)
{
	u64 place = extent->offset >> BRAID_DAT_PLACE_SHIFT;
	struct braid_dat_input in = { .dat = dat, .at = place, .end = dat->file_bytes };
	struct braid_dat_cache *c;
	int err = 0;

	if (!extent->position)
		return braid_dat_take(&in, to, bytes);
	c = &dat->caches[extent->position - 1];
	if (c->place != place)
		err = trace_dat_load_unpack(dat, c, place);
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
