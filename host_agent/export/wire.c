// SPDX-License-Identifier: GPL-2.0-or-later
/* Lengths that are written when what they count is there. */
#include <string.h>

#include "host_agent/export/wire.h"

void braid_wire_end_long(struct braid_text *t, size_t begin)
{
	size_t length = t->bytes - begin, more;
	char varint[BRAID_VARINT_BYTES];

	if (t->failed)
		return;
	more = braid_varint_put(varint, length) - varint - 1;
	if (more) {
		if (!braid_text_reserve(t, more))
			return;
		memmove(t->data + begin + more, t->data + begin, length);
		t->bytes += more;
	}
	memcpy(t->data + begin - 1, varint, more + 1);
}

void braid_wire_fixed64(struct braid_text *t, u64 key, u64 value)
{
	char *at = braid_text_reserve(t, BRAID_VARINT_BYTES + sizeof(value));

	if (!at)
		return;
	at = braid_varint_put(at, key);
	memcpy(at, &value, sizeof(value));	/* little endian, as all of the agent's hosts */
	t->bytes = at + sizeof(value) - t->data;
}

void braid_wire_string(struct braid_text *t, u64 key, const char *data, size_t bytes)
{
	size_t begin;

	bytes = strnlen(data, bytes);
	while (bytes && data[bytes - 1] == '\n')
		bytes--;
	if (braid_text_plain(data, bytes)) {
		braid_wire_bytes(t, key, data, bytes);
		return;
	}
	begin = braid_wire_begin(t, key);
	braid_text_safe(t, data, bytes);
	braid_wire_end(t, begin);
}
