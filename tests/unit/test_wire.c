// SPDX-License-Identifier: GPL-2.0-or-later
/* The fast ways of protobuf's encoding give the bytes of the plain ones. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/wire.h"
#include "tests/unit/check.h"

#define KEY	braid_wire_key(3, BRAID_WIRE_BYTES)

static void check_varint(u64 value)
{
	char plain[BRAID_VARINT_BYTES], fast[BRAID_VARINT_BYTES];
	size_t bytes = braid_varint_put(plain, value) - plain;

	CHECK_EQ(braid_wire_varint(fast, value) - fast, bytes);
	CHECK(!memcmp(plain, fast, bytes));
	CHECK_EQ(braid_wire_varint_bytes(value), bytes);
}

static void numbers_of_any_size(void)
{
	u32 bit, k;

	check_varint(0);
	for (bit = 0; bit < 64; bit++) {
		check_varint(1ULL << bit);
		check_varint((1ULL << bit) - 1);
		check_varint(~0ULL << bit);
		for (k = 0; k < 100; k++)
			check_varint(((u64)random() << 33 ^ (u64)random() << 11 ^ random()) >> bit);
	}
}

/* Of an array of 16 bytes. */
static void check_name(const char name[16])
{
	struct braid_text fast = { 0 }, plain = { 0 };
	size_t bytes = strnlen(name, 16), begin = braid_wire_begin(&plain, KEY);

	while (bytes && name[bytes - 1] == '\n')
		bytes--;
	braid_text_safe(&plain, name, bytes);
	braid_wire_end(&plain, begin);
	braid_wire_string(&fast, KEY, name, 16);
	CHECK(fast.bytes == plain.bytes && !memcmp(fast.data, plain.data, plain.bytes));
	braid_text_free(&fast);
	braid_text_free(&plain);
}

static void names_of_any_length(void)
{
	char name[16], saved;
	u32 bytes, at, byte;

	for (bytes = 0; bytes <= sizeof(name); bytes++) {
		memset(name, 'x', sizeof(name));
		if (bytes < sizeof(name))
			name[bytes] = '\0';
		check_name(name);
		/* Whatever is before the NUL, and after it. */
		for (at = 0; at < sizeof(name); at++) {
			saved = name[at];
			for (byte = 0; byte < 256; byte++) {
				name[at] = (char)byte;
				check_name(name);
			}
			name[at] = saved;
		}
	}
}

int main(void)
{
	RUN(numbers_of_any_size);
	RUN(names_of_any_length);
	return VERDICT();
}
