// SPDX-License-Identifier: GPL-2.0-or-later
/* Compiled print formats beside libtraceevent, letter by letter, with payloads of every kind. */
#include <string.h>

#include "host_agent/trace/symbols.h"
#include "tests/unit/beside.h"
#include "tests/unit/need.h"

#define MAX_PAYLOAD	512u
#define PAD_BYTES	256u	/* zeros after a payload, for libtraceevent */

static u64 random_state = 0x9e3779b97f4a7c15ULL;

u32 beside_pick(u32 nr)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (u32)(random_state >> 32) % nr;
}

/* The same ones for both. */
static struct braid_symbols *symbols(void)
{
	static struct braid_symbols *all;
	struct braid_symbol list[] = {
		{ .address = 3, .name = "low+0x1/0x9" },
		{ .address = 0x2020202020202020ULL, .name = "spaces+0x20/0x100" },
	};
	struct braid_stream stream = { .symbols = list, .nr_symbols = 2 };

	if (!all) {
		tep_set_loglevel(TEP_LOG_NONE);
		all = braid_symbols_new(&stream);
		NEED(all);
	}
	return all;
}

static char *resolve(void *arg, unsigned long long *address, char **module)
{
	*module = NULL;
	return braid_symbols_find(arg, address);
}

bool beside_parse(struct beside *p, const char *system, const char *format, bool library)
{
	char *text = NULL;

	memset(p, 0, sizeof(*p));
	p->why = braid_layout_parse(&p->layout, format, system, &p->print);
	if (p->why)
		return false;
	p->layout->symbols = symbols();
	p->why = braid_program_compile(&p->steps, p->print, p->layout);
	/* libtraceevent crashes on some. */
	if (library && p->steps)
		NEED(asprintf(&text, "name: test\nID: 1\n%s\n", format) > 0);
	else
		NEED(asprintf(&text, "name: test\nID: 1\n%.*s\nprint fmt: \"\"\n",
			      (int)(p->print - format), format) > 0);
	p->tep = tep_alloc();
	NEED(p->tep);
	tep_set_long_size(p->tep, 8);
	tep_set_file_bigendian(p->tep, TEP_LITTLE_ENDIAN);
	tep_set_function_resolver(p->tep, resolve, symbols());
	tep_parse_format(p->tep, &p->event, text, strlen(text), system);
	free(text);
	return p->steps;
}

void beside_free(struct beside *p)
{
	braid_program_free(p->steps);
	braid_layout_free(p->layout);
	tep_free(p->tep);
	memset(p, 0, sizeof(*p));
}

/* libtraceevent reads past a payload for some formats that we compile. */
static bool library_may(const struct beside *p)
{
	return p->event && !(p->event->flags & TEP_EVENT_FL_FAILED) && !strstr(p->print, ".*");
}

bool beside_fields(const struct beside *p)
{
	const struct tep_format_field *theirs = p->event ? p->event->format.fields : NULL;
	const struct braid_field *f = p->layout->fields;

	for (; f && theirs; f = f->next, theirs = theirs->next) {
		u32 flags = (theirs->flags & TEP_FIELD_IS_ARRAY ? BRAID_FIELD_ARRAY : 0) |
			    (theirs->flags & TEP_FIELD_IS_POINTER ? BRAID_FIELD_POINTER : 0) |
			    (theirs->flags & TEP_FIELD_IS_SIGNED ? BRAID_FIELD_SIGNED : 0) |
			    (theirs->flags & TEP_FIELD_IS_STRING ? BRAID_FIELD_STRING : 0) |
			    (theirs->flags & TEP_FIELD_IS_DYNAMIC ? BRAID_FIELD_DYNAMIC : 0) |
			    (theirs->flags & TEP_FIELD_IS_RELATIVE ? BRAID_FIELD_RELATIVE : 0);

		if (strcmp(f->name, theirs->name) || (f->flags & ~BRAID_FIELD_TEXT) != flags ||
		    f->offset != (u32)theirs->offset || f->size != (u32)theirs->size ||
		    f->arraylen != theirs->arraylen || f->elementsize != theirs->elementsize) {
			fprintf(stderr, "field %s %s: %x %x, element %u %u\n", f->name, f->type,
				f->flags, flags, f->elementsize, theirs->elementsize);
			return false;
		}
	}
	return !f == !theirs;
}

/* Numbers that are often small, letters, or anything; dynamic fields mostly within. */
static void fill(const struct beside *p, u8 *data, u32 bytes)
{
	u32 k, how = beside_pick(4);
	u16 id = 1;

	for (k = 0; k < bytes; k++)
		data[k] = how == 0 ? beside_pick(256) : how == 1 ? 32 + beside_pick(95) :
			  k & 3 ? 0 : beside_pick(12);
	for (k = 0; how == 3 && k < bytes; k++)
		data[k] = beside_pick(3) ? data[k] : beside_pick(2) ? 0xff : 0;
	memcpy(data, &id, sizeof(id));
	for (k = 0; k < p->layout->nr_dynamic && k < BRAID_MANY_DYNAMIC; k++) {
		const struct braid_field *f = p->layout->dynamic[k];
		u32 base = braid_field_base(f);
		u32 at = base + beside_pick(bytes - base + 1), room = bytes - at;
		u32 word = (at - base) | beside_pick(room + 1 + !beside_pick(20)) << 16;

		if (f->offset + 4 <= bytes)
			memcpy(data + f->offset, &word, sizeof(word));
	}
}

bool beside_holds(const struct beside *p, const u8 *data, u32 bytes)
{
	return braid_layout_holds(p->layout, data, bytes) &&
	       braid_program_holds(p->steps, data, bytes);
}

/* The words of both printers for one payload, which ends where its memory does. */
static bool same(const struct beside *p, const u8 *data, u32 bytes, struct trace_seq *seq)
{
	struct braid_text text = { 0 };
	u8 *padded = calloc(1, bytes + PAD_BYTES), *exact = malloc(bytes);
	struct tep_record record = { .size = bytes, .record_size = bytes, .data = padded };
	bool equal, simple;

	NEED(padded && exact);
	memcpy(padded, data, bytes);
	memcpy(exact, data, bytes);
	trace_seq_reset(seq);
	if (library_may(p))
		tep_print_event(p->tep, seq, &record, "%s", TEP_PRINT_INFO);
	trace_seq_terminate(seq);
	simple = braid_program_run(p->steps, exact, bytes, &text);
	equal = !library_may(p) || (text.bytes == seq->len &&
				    (!seq->len || !memcmp(text.data, seq->buffer, seq->len)));
	if (!equal)
		fprintf(stderr, "%s\n library: %s\n steps:   %.*s\n", p->print, seq->buffer,
			(int)text.bytes, text.data);
	if (text.bytes && memchr(text.data, 0, text.bytes))
		equal = false;
	if (simple && !braid_text_simple(text.data, text.bytes))
		equal = false;
	braid_text_free(&text);
	free(padded);
	free(exact);
	return equal;
}

bool beside_compare(const struct beside *p, u32 rounds)
{
	u32 least = p->layout->least_bytes, k, bytes, compared = 0;
	static u8 data[65536];
	struct trace_seq seq;
	bool equal = true;

	trace_seq_init(&seq);
	for (k = 0; k < rounds && equal; k++) {
		bytes = least + (beside_pick(3) ? beside_pick(64) : beside_pick(MAX_PAYLOAD));
		if (bytes > sizeof(data))
			break;
		fill(p, data, bytes);
		if (!beside_holds(p, data, bytes))
			continue;
		compared++;
		equal = same(p, data, bytes, &seq);
	}
	trace_seq_destroy(&seq);
	return equal && (compared || rounds < BESIDE_ROUNDS);
}

