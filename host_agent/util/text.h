/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A growing line of text, quick to append to; sanitizes untrusted strings. */
#ifndef BRAID_UTIL_TEXT_H
#define BRAID_UTIL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "tracebraid/types.h"

struct braid_text {
	char *data;
	size_t bytes;
	size_t capacity;
	bool failed;		/* out of memory; later text is missing */
};

#define BRAID_U64_DIGITS	20u	/* of the largest number, in decimal */

/** braid_text_grow - the slow path of braid_text_reserve(): the buffer is too small */
char *braid_text_grow(struct braid_text *t, size_t bytes);

/** braid_text_reserve - space for @bytes more, or NULL (and ->failed) */
static inline char *braid_text_reserve(struct braid_text *t, size_t bytes)
{
	return t->capacity - t->bytes >= bytes && t->data ? t->data + t->bytes :
							    braid_text_grow(t, bytes);
}

/** braid_text_put - append bytes as they are */
static inline void braid_text_put(struct braid_text *t, const char *data, size_t bytes)
{
	char *at = bytes ? braid_text_reserve(t, bytes) : NULL;

	if (!at)
		return;
	memcpy(at, data, bytes);
	t->bytes += bytes;
}

#define BRAID_TEXT_BLOCK	32u

/** braid_text_pad - make a text ready for braid_text_put_blocks(); it may not move from then on */
static inline void braid_text_pad(struct braid_text *t)
{
	char *at = braid_text_reserve(t, BRAID_TEXT_BLOCK);

	if (at)
		memset(at, 0, BRAID_TEXT_BLOCK);
}

/** braid_text_put_blocks - append bytes, after which BRAID_TEXT_BLOCK more may be read: quick */
static inline void braid_text_put_blocks(struct braid_text *t, const char *data, size_t bytes)
{
	char *at = braid_text_reserve(t, bytes + BRAID_TEXT_BLOCK);
	size_t k = 0;

	if (!at)
		return;
	do
		memcpy(at + k, data + k, BRAID_TEXT_BLOCK);
	while ((k += BRAID_TEXT_BLOCK) < bytes);
	t->bytes += bytes;
}

/** braid_text_puts - append a string as it is */
static inline void braid_text_puts(struct braid_text *t, const char *s)
{
	braid_text_put(t, s, strlen(s));
}

/** braid_text_putc - append one character as it is */
static inline void braid_text_putc(struct braid_text *t, char c)
{
	char *at = braid_text_reserve(t, 1);

	if (!at)
		return;
	*at = c;
	t->bytes++;
}

/** braid_text_repeat - append one character @nr times; none when that is negative */
static inline void braid_text_repeat(struct braid_text *t, char c, int nr)
{
	char *at = nr > 0 ? braid_text_reserve(t, nr) : NULL;

	if (!at)
		return;
	memset(at, c, nr);
	t->bytes += nr;
}

/** braid_text_eight - the eight digits of a number below 10^8, a byte each, the first one lowest */
static inline u64 braid_text_eight(u32 value)
{
	u64 x = value / 10000 | (u64)(value % 10000) << 32, high;

	high = x * 10486 >> 20 & 0x0000007f0000007fULL;		/* of each its hundreds */
	x = high | (x - 100 * high) << 16;
	high = x * 103 >> 10 & 0x000f000f000f000fULL;		/* of each its tens */
	return high | (x - 10 * high) << 8;
}

#define BRAID_TEXT_ZEROS	0x3030303030303030ULL	/* makes characters of them */

#define BRAID_TEXT_ONES		0x0101010101010101ULL

/** braid_text_odd - of eight bytes, the top bits: up to the first one set, of those that are not plain */
static inline u64 braid_text_odd(u64 word)
{
	/* An odd byte has its top bit set, or has it less 0x20, or plus 1. */
	return (word | (word - 0x20 * BRAID_TEXT_ONES) | (word + BRAID_TEXT_ONES)) & 0x80 * BRAID_TEXT_ONES;
}

/** braid_text_digits_far - braid_text_digits() of at least 10^8 */
unsigned int braid_text_digits_far(char *to, u64 value);

/**
 * braid_text_digits - write a number in decimal
 * @to: room for BRAID_U64_DIGITS, all of which may be written to
 * @value: any
 *
 * Return: the number of digits.
 */
static inline unsigned int braid_text_digits(char *to, u64 value)
{
	unsigned int zeros;
	u64 x;

	if (value >= 100000000)
		return braid_text_digits_far(to, value);
	x = braid_text_eight(value);
	zeros = __builtin_ctzll(x | 1ULL << 56) & ~7u;	/* in bits; of 0 one digit remains */
	x = (x | BRAID_TEXT_ZEROS) >> zeros;
	memcpy(to, &x, sizeof(x));
	return 8 - zeros / 8;
}

/** braid_text_number - append a decimal number */
static inline void braid_text_number(struct braid_text *t, u64 value)
{
	char *at = braid_text_reserve(t, BRAID_U64_DIGITS);

	if (at)
		t->bytes += braid_text_digits(at, value);
}

/** braid_text_signed - append a decimal number, with its sign if that is negative */
static inline void braid_text_signed(struct braid_text *t, s64 value)
{
	char *at = braid_text_reserve(t, 1 + BRAID_U64_DIGITS);

	if (!at)
		return;
	*at = '-';
	at += value < 0;
	t->bytes = at + braid_text_digits(at, value < 0 ? -(u64)value : (u64)value) - t->data;
}

/** braid_text_u64 - append a decimal number, padded with @pad to at least @width */
void braid_text_u64(struct braid_text *t, u64 value, int width, char pad);

/** braid_bound_text - an error bound, rounded up: "757 ns", "1.312 µs" */
void braid_bound_text(u64 ns, char text[32]);

/** braid_text_hex - append bytes as hexadecimal, with a space between two */
void braid_text_hex(struct braid_text *t, const void *data, size_t bytes);

/** braid_text_printf - append formatted text; slow, for rare use */
void braid_text_printf(struct braid_text *t, const char *format, ...)
	__attribute__((__format__(printf, 2, 3)));

/**
 * braid_text_safe - append an untrusted string for a terminal
 * @t: the text
 * @data: untrusted bytes
 * @bytes: of it; stops at a NUL
 *
 * Control characters, DEL and bytes that are not well-formed UTF-8 (C1 controls included) become
 * '?', so that the string can't control the terminal or fake a line.
 */
void braid_text_safe(struct braid_text *t, const char *data, size_t bytes);

/** braid_text_plain - whether all bytes are printable ASCII, so that none needs to be sanitized */
bool braid_text_plain(const char *data, size_t bytes);

/** braid_text_simple - braid_text_plain(), and JSON has all bytes as they are, too */
bool braid_text_simple(const char *data, size_t bytes);

/** braid_text_json - append an untrusted string as a JSON string, quotes included */
void braid_text_json(struct braid_text *t, const char *data, size_t bytes);

/** braid_text_member - append a member of a JSON object, with a comma unless it is the first one */
void braid_text_member(struct braid_text *t, const char *key, const char *value);

/** braid_text_free - free what it holds */
void braid_text_free(struct braid_text *t);

/**
 * braid_text_clean - sanitize an untrusted string in place
 * @s: ends with NUL
 */
void braid_text_clean(char *s);

/**
 * braid_text_size - parse a size such as 16M
 * @text: digits, optionally followed by K, M or G (or lower case)
 * @unit: bytes of one, where no letter follows
 * @bytes: set on success; never 0
 *
 * Return: whether it is valid, of at most 2^63 - 1 bytes.
 */
bool braid_text_size(const char *text, u64 unit, u64 *bytes);

/**
 * braid_text_distance - Levenshtein's distance of two words, for near misses
 * @a: cut to 255 characters
 * @b: likewise
 *
 * Return: insertions, deletions and exchanges that make @b of @a.
 */
u32 braid_text_distance(const char *a, const char *b);

/* A search for what was meant by a misspelt word. */
struct braid_text_near {
	const char *word;
	const char *nearest;	/* NULL: no candidate is near */
	u32 distance;
};

/** braid_text_one_of - which of the words "one two three" it is, from 0; -EINVAL: none */
int braid_text_one_of(const char *words, const char *word);

#define BRAID_TEXT_LIST	256u	/* capacity: */

/** braid_text_list - such words as "one, two or three" */
const char *braid_text_list(const char *words, char list[BRAID_TEXT_LIST]);

/** braid_text_nearer - keep a candidate if it is near, and nearer than the ones before */
void braid_text_nearer(struct braid_text_near *near, const char *candidate);

#endif /* BRAID_UTIL_TEXT_H */
