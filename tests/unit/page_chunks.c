// SPDX-License-Identifier: GPL-2.0-or-later
/* Letters to bytes, bytes unpacked, columns of numbers: as the page's program does. */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "host_agent/util/varint.h"
#include "tests/unit/need.h"
#include "tests/unit/page_chunks.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void decode(const char *from, size_t nr, struct braid_text *to)
{
	u32 word = 0, bits = 0;
	size_t k;

	for (k = 0; k < nr; k++) {
		word = word << 6 | (u32)(strchr(letters, from[k]) - letters);
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			braid_text_putc(to, (char)(word >> bits));
		}
	}
}

static void unpack(const struct braid_text *packed, struct braid_text *to)
{
	z_stream z = { .next_in = (Bytef *)packed->data, .avail_in = packed->bytes };
	int result;

	NEED(inflateInit2(&z, -MAX_WBITS) == Z_OK);
	do {
		z.avail_out = 4 * packed->bytes + 4096;
		z.next_out = (Bytef *)braid_text_reserve(to, z.avail_out);
		NEED(z.next_out);
		result = inflate(&z, Z_NO_FLUSH);
		to->bytes = (char *)z.next_out - to->data;
	} while (result == Z_OK);
	NEED(result == Z_STREAM_END && !z.avail_in);
	inflateEnd(&z);
}

bool page_chunk(const char **at, const char *kind, struct braid_text *bytes)
{
	struct braid_text packed = { 0 };
	char begin[80];
	const char *from;

	snprintf(begin, sizeof(begin), " data-kind=\"%s\">", kind);
	from = strstr(*at, begin);
	bytes->bytes = 0;
	if (!from)
		return false;
	from += strlen(begin);
	*at = from + strspn(from, letters);
	decode(from, *at - from, &packed);
	unpack(&packed, bytes);
	NEED(!packed.failed && !bytes->failed);
	braid_text_free(&packed);
	return true;
}

u64 page_columns(const struct braid_text *bytes, const char **columns, u32 nr)
{
	u64 rows, lengths[16];
	const char *at = braid_varint_take(bytes->data, &rows);
	u32 k;

	NEED(nr <= 16);
	for (k = 0; k < nr; k++)
		at = braid_varint_take(at, &lengths[k]);
	for (k = 0; k < nr; k++) {
		columns[k] = at;
		at += lengths[k];
	}
	NEED(at == bytes->data + bytes->bytes);
	return rows;
}
