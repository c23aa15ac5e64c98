// SPDX-License-Identifier: GPL-2.0-or-later
/* Appends to lines, and sanitizes untrusted strings. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/text.h"

char *braid_text_grow(struct braid_text *t, size_t bytes)
{
	size_t more = t->capacity ? t->capacity : 256;
	char *grown;

	while (more - t->bytes < bytes)
		more *= 2;
	grown = realloc(t->data, more);
	if (!grown) {
		t->failed = true;
		return NULL;
	}
	t->data = grown;
	t->capacity = more;
	return t->data + t->bytes;
}

/* With leading zeros. */
static void put_eight(char *to, u32 value)
{
	u64 x = braid_text_eight(value) | BRAID_TEXT_ZEROS;

	memcpy(to, &x, sizeof(x));
}

unsigned int braid_text_digits_far(char *to, u64 value)
{
	u64 high = value / 100000000;
	unsigned int nr = braid_text_digits(to, high);

	put_eight(to + nr, value % 100000000);
	return nr + 8;
}

void braid_text_u64(struct braid_text *t, u64 value, int width, char pad)
{
	char *at = braid_text_reserve(t, BRAID_U64_DIGITS + (width > 0 ? width : 0));
	int nr;

	if (!at)
		return;
	nr = braid_text_digits(at, value);
	if (nr < width) {
		memmove(at + width - nr, at, nr);
		memset(at, pad, width - nr);
		nr = width;
	}
	t->bytes += nr;
}

void braid_bound_text(u64 ns, char text[32])
{
	static const char *const units[] = { "ns", "µs", "ms", "s" };
	u32 k = 0;

	/* Thousandths of the unit. */
	for (; k < 3 && ns >= (k ? 1000000 : 1000); k++)
		ns = k ? ns / 1000 + !!(ns % 1000) : ns;
	if (k)
		snprintf(text, 32, "%llu.%03llu %s", (unsigned long long)(ns / 1000),
			 (unsigned long long)(ns % 1000), units[k]);
	else
		snprintf(text, 32, "%llu ns", (unsigned long long)ns);
}

void braid_text_hex(struct braid_text *t, const void *data, size_t bytes)
{
	static const char digit[] = "0123456789abcdef";
	const u8 *from = data;
	char *at = braid_text_reserve(t, 3 * bytes);
	size_t k;

	if (!at)
		return;
	for (k = 0; k < bytes; k++) {
		if (k)
			*at++ = ' ';
		*at++ = digit[from[k] >> 4];
		*at++ = digit[from[k] & 15];
	}
	t->bytes = at - t->data;
}

void braid_text_printf(struct braid_text *t, const char *format, ...)
{
	va_list args;
	char *at;
	int n;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0)
		return;
	at = braid_text_reserve(t, n + 1);
	if (!at)
		return;
	va_start(args, format);
	vsnprintf(at, n + 1, format, args);
	va_end(args);
	t->bytes += n;
}

/*
 * Bytes of the well-formed UTF-8 character at @s, or 0. C1 controls, which some
 * terminals obey, and the line separators count as ill-formed.
 */
static size_t utf8_bytes(const u8 *s, size_t left)
{
	u32 c, least;
	size_t n, k;

	if (s[0] < 0x80)
		return s[0] >= 0x20 && s[0] != 0x7f;
	if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		n = 4;
		least = 0x10000;
		c = s[0] & 7;
	} else if (s[0] >= 0xe0 && s[0] < 0xf0) {
		n = 3;
		least = 0x800;
		c = s[0] & 15;
	} else if (s[0] >= 0xc2 && s[0] < 0xe0) {
		n = 2;
		least = 0xa0;
		c = s[0] & 31;
	} else {
		return 0;
	}
	if (left < n)
		return 0;
	for (k = 1; k < n; k++) {
		if ((s[k] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[k] & 63);
	}
	if (c < least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ||
	    (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
		return 0;
	return n;
}

void braid_text_safe(struct braid_text *t, const char *data, size_t bytes)
{
	size_t n, k = 0, plain = 0;

	for (;;) {
		while (k < bytes && data[k] >= 0x20 && data[k] < 0x7f)
			k++;
		braid_text_put(t, data + plain, k - plain);
		if (k == bytes || !data[k])
			return;
		n = utf8_bytes((const u8 *)data + k, bytes - k);
		if (n)
			braid_text_put(t, data + k, n);
		else
			braid_text_putc(t, '?');
		k += n ? n : 1;
		plain = k;
	}
}

bool braid_text_plain(const char *data, size_t bytes)
{
	u64 word, odd = 0;
	size_t k;

	for (k = 0; k + sizeof(word) <= bytes; k += sizeof(word)) {
		memcpy(&word, data + k, sizeof(word));
		odd |= braid_text_odd(word);
	}
	for (; k < bytes; k++)
		odd |= (u8)data[k] < 0x20 || (u8)data[k] > 0x7e ? 0x80 : 0;	/* arm64's char has no sign */
	return !odd;
}

/* Whether JSON has a byte as it is. */
static inline bool is_json_plain(u8 c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* From the first byte on that is not plain. */
static void put_json_rest(struct braid_text *t, const char *data, size_t bytes)
{
	size_t n, k = 0, plain = 0;

	while (k < bytes && data[k]) {
		u8 c = data[k];

		if (is_json_plain(c)) {
			k++;
			continue;
		}
		braid_text_put(t, data + plain, k - plain);
		n = utf8_bytes((const u8 *)data + k, bytes - k);
		if (c == '"' || c == '\\')
			braid_text_printf(t, "\\%c", c);
		else if (n)
			braid_text_put(t, data + k, n);
		else
			braid_text_printf(t, "\\u%04x", c < 0x80 ? c : 0xfffd);
		k += n ? n : 1;
		plain = k;
	}
	braid_text_put(t, data + plain, k - plain);
	braid_text_putc(t, '"');
}

/* The number of bytes, eight at a time, that JSON has as they are. */
static size_t json_plain(const char *data, size_t bytes)
{
	const u64 ones = BRAID_TEXT_ONES, high = 0x8080808080808080ULL;
	size_t k;
	u64 v;

	for (k = 0; k + 8 <= bytes; k += 8) {
		memcpy(&v, data + k, sizeof(v));
		/* Each: a byte below 0x20; at least 0x7f; '"'; '\\'. The first three terms may also
		 * mark a byte above such a one, which costs nothing but speed. */
		if ((((v - ones * 0x20) & ~v) | (v + ones) | v |
		     ((v ^ ones * '"') - ones) | ((v ^ ones * '\\') - ones)) & high)
			break;
	}
	while (k < bytes && is_json_plain(data[k]))
		k++;
	return k;
}

bool braid_text_simple(const char *data, size_t bytes)
{
	return json_plain(data, bytes) == bytes;
}

void braid_text_json(struct braid_text *t, const char *data, size_t bytes)
{
	size_t plain = json_plain(data, bytes);
	char *at = braid_text_reserve(t, plain + 2);

	if (!at)
		return;
	*at++ = '"';
	if (plain)
		memcpy(at, data, plain);
	at += plain;
	if (plain < bytes && data[plain]) {
		t->bytes = at - t->data;
		put_json_rest(t, data + plain, bytes - plain);
		return;
	}
	*at++ = '"';
	t->bytes = at - t->data;
}

void braid_text_member(struct braid_text *t, const char *key, const char *value)
{
	bool first = !t->bytes || t->data[t->bytes - 1] == '{';

	braid_text_printf(t, first ? "\"%s\":" : ",\"%s\":", key);
	braid_text_json(t, value, strlen(value));
}

void braid_text_free(struct braid_text *t)
{
	free(t->data);
	memset(t, 0, sizeof(*t));
}

void braid_text_clean(char *s)
{
	size_t left = strlen(s), n;

	while (left) {
		n = utf8_bytes((const u8 *)s, left);
		if (!n) {
			*s = '?';
			n = 1;
		}
		s += n;
		left -= n;
	}
}

bool braid_text_size(const char *text, u64 unit, u64 *bytes)
{
	static const char letters[] = "KMG";
	const char *letter;
	char *end;
	u64 n;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return false;
	if (*end) {
		letter = strchr(letters, toupper((unsigned char)*end));
		if (!letter || end[1])
			return false;
		unit = 1024ULL << 10 * (letter - letters);
	}
	if (!n || n > INT64_MAX / unit)
		return false;
	*bytes = n * unit;
	return true;
}

#define WORD_BYTES	256	/* of one that is compared */
#define FAR		3	/* the distance from which a word is not meant */

u32 braid_text_distance(const char *a, const char *b)
{
	size_t nb = strnlen(b, WORD_BYTES - 1), i, j;
	u32 row[WORD_BYTES], diagonal, above;

	for (j = 0; j <= nb; j++)
		row[j] = j;
	for (i = 0; a[i] && i < WORD_BYTES - 1; i++) {
		diagonal = row[0];
		row[0] = i + 1;
		for (j = 0; j < nb; j++) {
			above = row[j + 1];
			diagonal += a[i] != b[j];
			if (above + 1 < diagonal)
				diagonal = above + 1;
			if (row[j] + 1 < diagonal)
				diagonal = row[j] + 1;
			row[j + 1] = diagonal;
			diagonal = above;
		}
	}
	return row[nb];
}

void braid_text_nearer(struct braid_text_near *near, const char *candidate)
{
	bool begins = *near->word && !strncmp(candidate, near->word, strlen(near->word));
	u32 distance = begins ? 1 : braid_text_distance(near->word, candidate);

	if (distance >= (near->nearest ? near->distance : FAR))
		return;
	near->distance = distance;
	near->nearest = candidate;
}

int braid_text_one_of(const char *words, const char *word)
{
	size_t n;
	int k;

	for (k = 0; *words; k++) {
		n = strcspn(words, " ");
		if (strlen(word) == n && !memcmp(words, word, n))
			return k;
		words += n + (words[n] == ' ');
	}
	return -EINVAL;
}

const char *braid_text_list(const char *words, char list[BRAID_TEXT_LIST])
{
	size_t used = 0, n;

	for (*list = 0; *words && used < BRAID_TEXT_LIST; words += n + (words[n] == ' ')) {
		n = strcspn(words, " ");
		used += snprintf(list + used, BRAID_TEXT_LIST - used, "%s%.*s",
				 !used ? "" : words[n] ? ", " : " or ", (int)n, words);
	}
	return list;
}
