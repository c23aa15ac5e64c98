// SPDX-License-Identifier: GPL-2.0-or-later
/* Names for addresses, from a guest's symbol table or a host's kallsyms. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/trace/symbols.h"
#include "host_agent/util/array.h"
#include "host_agent/util/text.h"

#define LARGEST_BYTES	(1u << 20)	/* of a function whose end is unknown */

struct symbol {
	u64 start;
	u64 end;
	char *name;
};

struct braid_symbols {
	struct symbol *at;
	size_t nr;
	size_t capacity;
	char *text;		/* a copy of kallsyms that names point into */
	bool own_names;
};

static int symbols_by_start(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return braid_compare(x->start, y->start) ?: strcmp(x->name, y->name);
}

/* "name+0x1/0x2 [module]" at an address 1 byte into it. */
static int symbols_add_guest(struct braid_symbols *s, const struct braid_symbol *from)
{
	struct symbol symbol;
	char *plus, *end;
	u64 into = 0, size = 1;

	symbol.name = strndup(from->name, sizeof(from->name));
	if (!symbol.name)
		return -ENOMEM;
	plus = strchr(symbol.name, '+');
	if (plus) {
		into = strtoull(plus + 1, &end, 16);
		if (*end == '/')
			size = strtoull(end + 1, NULL, 16);
		*plus = 0;
	}
	/* Older drivers wrote an address without a name as a number. */
	if (!symbol.name[0] || isdigit((unsigned char)symbol.name[0]) ||
	    into > from->address || size > LARGEST_BYTES || into >= size) {
		free(symbol.name);
		return 0;
	}
	symbol.start = from->address - into;
	symbol.end = symbol.start + size;
	if (!braid_array_push(s->at, s->nr, s->capacity, symbol))
		return 0;
	free(symbol.name);
	return -ENOMEM;
}

/* A line "address type name"; the line's end was made a NUL. */
static int add_kallsyms(struct braid_symbols *s, char *line)
{
	struct symbol symbol;
	char *end;

	symbol.start = strtoull(line, &end, 16);
	if (end == line || end[0] != ' ' || !end[1] || !strchr("tTwW", end[1]) ||
	    end[2] != ' ' || !symbol.start)
		return 0;
	symbol.name = end + 3;
	symbol.name[strcspn(symbol.name, " \t")] = 0;
	braid_text_clean(symbol.name);
	symbol.end = 0;
	return braid_array_push(s->at, s->nr, s->capacity, symbol);
}

static int read_kallsyms(struct braid_symbols *s)
{
	char *line, *rest = s->text;
	int err = 0;

	while (!err && (line = strsep(&rest, "\n")) && *line)
		err = add_kallsyms(s, line);
	return err;
}

/* In order; a symbol without an end ends where the next one starts. */
static struct braid_symbols *symbols_sort(struct braid_symbols *s)
{
	size_t k;

	if (s->nr)
		qsort(s->at, s->nr, sizeof(*s->at), symbols_by_start);
	for (k = 0; k < s->nr; k++) {
		u64 next = k + 1 < s->nr ? s->at[k + 1].start : s->at[k].start + LARGEST_BYTES;

		if (!s->at[k].end)
			s->at[k].end = next - s->at[k].start < LARGEST_BYTES ? next :
				       s->at[k].start + LARGEST_BYTES;
	}
	return s;
}

struct braid_symbols *braid_symbols_from(char *text)
{
	struct braid_symbols *s = calloc(1, sizeof(*s));

	if (!s) {
		free(text);
		return NULL;
	}
	s->text = text;
	if (!read_kallsyms(s))
		return symbols_sort(s);
	braid_symbols_free(s);
	return NULL;
}

struct braid_symbols *braid_symbols_new(const struct braid_stream *stream)
{
	struct braid_symbols *s;
	char *text = NULL;
	int err = 0;
	size_t k;

	if (stream->kallsyms) {
		braid_stream_kallsyms(stream, &text);	/* damaged: treat as absent */
		return braid_symbols_from(text);
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->own_names = true;
	for (k = 0; k < stream->nr_symbols && !err; k++)
		err = symbols_add_guest(s, &stream->symbols[k]);
	if (!err)
		return symbols_sort(s);
	braid_symbols_free(s);
	return NULL;
}

void braid_symbols_free(struct braid_symbols *s)
{
	size_t k;

	if (!s)
		return;
	for (k = 0; s->own_names && k < s->nr; k++)
		free(s->at[k].name);
	free(s->text);
	free(s->at);
	free(s);
}

bool braid_symbols_any(const struct braid_symbols *s)
{
	return s->nr;
}

char *braid_symbols_find(struct braid_symbols *s, unsigned long long *address)
{
	size_t after;

	braid_array_first(after, s->nr, s->at[after].start > *address);
	if (!after || *address >= s->at[after - 1].end)
		return NULL;
	*address = s->at[after - 1].start;
	return s->at[after - 1].name;
}

static void put_symbol(struct braid_text *out, u64 address, const char *name)
{
	static const char digits[] = "0123456789abcdef";
	char line[16 + 3];
	int k;

	for (k = 15; k >= 0; k--, address >>= 4)
		line[k] = digits[address & 15];
	memcpy(line + 16, " T ", 3);
	braid_text_put(out, line, sizeof(line));
	braid_text_puts(out, name);
	braid_text_putc(out, '\n');
}

void braid_symbols_text(const struct braid_symbols *s, struct braid_text *out)
{
	size_t k;

	for (k = 0; k < s->nr; k++) {
		/* Readers would stop at an empty name or one with a space. */
		if (!s->at[k].name[0] || strpbrk(s->at[k].name, " \t\n"))
			continue;
		put_symbol(out, s->at[k].start, s->at[k].name);
		if (k + 1 == s->nr || s->at[k].end < s->at[k + 1].start)
			put_symbol(out, s->at[k].end, "?");
	}
}

/* A host's: kept as they are stored, decompressed when they are needed ----------------------- */

int braid_capture_take_kallsyms(struct braid_capture_stream *s, u32 raw_bytes, const u8 *data,
				u32 bytes)
{
	struct braid_capture_source *cs = s->source;

	if (s->stream.kallsyms)
		return 0;
	if (!raw_bytes || raw_bytes > BRAID_MAX_KALLSYMS - cs->kallsyms_bytes) {
		braid_source_faulty(&cs->source, &s->stream,
				    "kernel symbols ignored: the file's would take more than %u MiB",
				    BRAID_MAX_KALLSYMS >> 20);
		return 0;
	}
	s->stream.kallsyms = malloc((size_t)bytes + 1);
	if (!s->stream.kallsyms)
		return -ENOMEM;
	memcpy(s->stream.kallsyms, data, bytes);
	s->stream.kallsyms_packed_bytes = bytes;
	s->stream.kallsyms_bytes = raw_bytes;
	cs->kallsyms_bytes += raw_bytes;
	return 0;
}

const char *braid_stream_kallsyms(const struct braid_stream *s, char **text)
{
	size_t n = s->kallsyms_bytes;

	*text = NULL;
	if (!s->kallsyms)
		return NULL;
	*text = malloc(n + 1);
	if (!*text)
		return "out of memory";
	if (!s->kallsyms_packed_bytes)
		memcpy(*text, s->kallsyms, n);
	else
		n = ZSTD_decompress(*text, n, s->kallsyms, s->kallsyms_packed_bytes);
	if (ZSTD_isError(n)) {
		free(*text);
		*text = NULL;
		return ZSTD_getErrorName(n);
	}
	(*text)[n] = 0;
	return NULL;
}
