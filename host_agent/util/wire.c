// SPDX-License-Identifier: GPL-2.0-or-later
/* Lengths that are written when what they count is there. */
#include <string.h>

#include "host_agent/util/wire.h"

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

#define NAME_BYTES	16u	/* of an array with a task's name */

/* A string in an array of NAME_BYTES. Return: false: it has a byte that is to be sanitized. */
static bool wire_put_name(struct braid_text *t, u64 key, const char *data)
{
	char *at = braid_text_reserve(t, BRAID_VARINT_BYTES + 1 + NAME_BYTES);
	size_t bytes = 0, k;
	u64 word, zero;

	if (!at)
		return true;
	at = braid_varint_put(at, key) + 1;
	for (k = 0; k < NAME_BYTES; k += sizeof(word)) {
		memcpy(&word, data + k, sizeof(word));
		memcpy(at + k, &word, sizeof(word));
		/* The lowest bit of it is of the first NUL. */
		zero = (word - BRAID_TEXT_ONES) & ~word & 0x80 * BRAID_TEXT_ONES;
		if (braid_text_odd(word) & (zero - 1) & ~zero)
			return false;
		bytes = zero ? k + __builtin_ctzll(zero) / 8 : k + sizeof(word);
		if (zero)
			break;
	}
	at[-1] = (char)bytes;
	t->bytes = at + bytes - t->data;
	return true;
}

void braid_wire_string(struct braid_text *t, u64 key, const char *data, size_t bytes)
{
	size_t begin;

	if (bytes == NAME_BYTES && wire_put_name(t, key, data))
		return;
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
