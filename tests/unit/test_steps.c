// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Compiled print formats beside libtraceevent, letter by letter: formats of every kind there is,
 * and all of the running kernel's where they may be read, with payloads of every kind.
 */
#include <glob.h>
#include <string.h>
#include <traceevent/event-parse.h>

#include "host_agent/format/steps.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define MAX_PAYLOAD	512u
#define ROUNDS		24u	/* payloads for a format of the kernel's */
#define OWN_ROUNDS	400u

int main(void);

#define COMMON \
	"format:\n" \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n" \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n" \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n" \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

/* All that the print formats below speak of. */
#define FIELDS COMMON \
	"\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n" \
	"\tfield:u8 a;\toffset:24;\tsize:1;\tsigned:0;\n" \
	"\tfield:s8 b;\toffset:25;\tsize:1;\tsigned:1;\n" \
	"\tfield:u16 c;\toffset:26;\tsize:2;\tsigned:0;\n" \
	"\tfield:int d;\toffset:28;\tsize:4;\tsigned:1;\n" \
	"\tfield:long e;\toffset:32;\tsize:8;\tsigned:1;\n" \
	"\tfield:u64 f;\toffset:40;\tsize:8;\tsigned:0;\n" \
	"\tfield:void * p;\toffset:48;\tsize:8;\tsigned:0;\n" \
	"\tfield:u32 v[4];\toffset:56;\tsize:16;\tsigned:0;\n" \
	"\tfield:__data_loc char[] s;\toffset:72;\tsize:4;\tsigned:0;\n" \
	"\tfield:__rel_loc char[] r;\toffset:76;\tsize:4;\tsigned:0;\n" \
	"\tfield:__data_loc u32[] w;\toffset:80;\tsize:4;\tsigned:0;\n" \
	"\tfield:u8 mac[6];\toffset:84;\tsize:6;\tsigned:0;\n" \
	"\tfield:char rest[];\toffset:92;\tsize:0;\tsigned:0;\n\n" \
	"print fmt: "

#define LEAST_BYTES	92u

/* What is compiled, in each of its ways. */
static const char *const compiled[] = {
	"\"plain text, 100%% \\t and \\\\ a line\\n\"",
	"\"%d %i %u %x %X\", REC->d, REC->d, REC->d, REC->d, REC->d",
	"\"%hhd %hhu %hd %hu %hhx %hx\", REC->b, REC->b, REC->c, REC->c, REC->e, REC->e",
	"\"%ld %lu %lx %lld %llu %llx %Lu %zu\", REC->e, REC->e, REC->e, REC->f, REC->f, REC->f, "
	"REC->f, REC->f",
	"\"%5d|%-5d|%05d|%03u|%12lx|%016llx|%-18llx|\", REC->d, REC->b, REC->b, REC->a, REC->e, "
	"REC->f, REC->f",
	"\"%#x %#lx %#010x %#o %o %.3d %8.3x %-9.4u|\", REC->a, REC->e, REC->c, REC->a, REC->c, "
	"REC->b, REC->a, REC->a",
	"\"%p %pK %08p\", REC->p, REC->f, REC->p",
	"\"%pS %ps %pF %pf\", REC->p, REC->p, (void *)REC->f, (void *)(REC->f + 1)",
	"\"%s|%20s|%-20s|%.3s|\", REC->comm, REC->comm, REC->comm, REC->comm",
	"\"%s %s %s %.*s\", __get_str(s), __get_rel_str(r), REC->rest, REC->d, __get_str(s)",
	"\"%.*s|%-.*s|\", REC->a, REC->comm, (int)REC->c, REC->rest",
	"\"%s %s\", REC->p, REC->e",
	"\"%s\", __print_symbolic(REC->a, { 0, \"zero\" }, { 1, \"one\" }, { 1, \"again\" }, "
	"{ 0x7f, \"many\" }, { 1 << 7, \"top\" }, { -1, \"minus\" })",
	"\"%8s\", __print_symbolic(REC->d & 15, { HRTIMER_RESTART, \"again\" }, "
	"{ 9, \"RCU\" }, { SOME_ENUM, \"?\" }, { 3 + 4, \"seven\" })",
	"\"%s\", __print_flags(REC->a, \"|\", { 1, \"S\" }, { 2, \"D\" }, { 0x30, \"XY\" }, "
	"{ 0x40, \"P\" })",
	"\"%s %s\", __print_flags(REC->f & 0xff, \"\", { 8, \"h\" }, { 4, \"l\" }, "
	"{ -1, \"none\" }), __print_flags(REC->d, \"+\", { 0x80000000, \"TOP\" }, "
	"{ (1UL << 3), \"three\" })",
	"\"%s%s\", REC->a & 1 ? __print_flags(REC->a & ~1, \" \", { 2, \"two\" }) : \"none\", "
	"REC->b < 0 ? \"-\" : (REC->c > 7 && REC->c <= 900 || !REC->d) ? \"?\" : \"\"",
	"\"%d %d %d %d\", REC->a + REC->c * 3 - 1, REC->d / 7, REC->c % 10, -REC->a",
	"\"%llx %llx %llx\", REC->f << 3, REC->f >> 60, ~REC->f",
	"\"%llx %llx %d\", REC->f | 0xf0, REC->f & ((((1 | 2) + 1) << 1) - 1), REC->a == REC->c",
	"\"%u %u %u\", (u8)REC->d, (unsigned short)REC->e, (u32)REC->f",
	"\"%d %d\", REC->a != 3 ? REC->d : REC->c, (REC->a >= 4) ? 1 : 0",
	"\"%x %x %u\", REC->v[0], REC->v[3], REC->mac[5]",
	"\"%s %s\", __print_hex(REC->mac, 6), __print_hex_str(REC->v, 16)",
	"\"%s\", __print_hex(__get_dynamic_array(w), __get_dynamic_array_len(w))",
	"\"%s\", __print_array(__get_dynamic_array(w), __get_dynamic_array_len(w) / 4, 4)",
	"\"%s %s\", __print_array(REC->v, 4, 4), __print_array(REC->v, REC->a / 32, 2)",
	"\"%u len %d\", ((u32 *)__get_dynamic_array(w))[0], __get_dynamic_array_len(w)",
	"\"%c %5s\", REC->a, REC->comm",
};

/* What is left to libtraceevent, or not printed at all. */
static const char *const left_alone[] = {
	"\"%pM\", REC->mac",
	"\"%pI4 %pU\", REC->v, REC->comm",
	"\"%s\", __get_bitmask(s)",
	"\"%05s\", REC->comm",
	"\"%ls\", REC->comm",
	"\"%.*s\", REC->d, \"constant\"",
	"\"%d\", __get_str(s)",
};

static u64 random_state = 0x9e3779b97f4a7c15ULL;
static struct braid_symbols *symbols;
static u32 nr_compiled, nr_left, nr_refused;

static u32 pick(u32 nr)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (u32)(random_state >> 32) % nr;
}

static char *resolve(void *arg, unsigned long long *address, char **module)
{
	*module = NULL;
	return braid_symbols_find(arg, address);
}

/* A format as the agent has it parsed. */
struct parsed {
	struct tep_handle *tep;
	struct tep_event *event;
	struct braid_read_checks checks;
	struct braid_steps *steps;
	bool printable;
};

static bool parse(struct parsed *p, const char *format)
{
	char *text = NULL;
	bool whole = false;

	memset(p, 0, sizeof(*p));
	if (braid_check_grammar(format, &whole) || !whole)
		return false;
	NEED(asprintf(&text, "name: test\nID: 1\n%s\n", format) > 0);
	p->tep = tep_alloc();
	NEED(p->tep);
	tep_set_long_size(p->tep, 8);
	tep_set_file_bigendian(p->tep, TEP_LITTLE_ENDIAN);
	tep_set_function_resolver(p->tep, resolve, symbols);
	tep_parse_format(p->tep, &p->event, text, strlen(text), "test");
	free(text);
	if (!p->event || braid_vet_fields(p->event, &p->checks) ||
	    braid_vet_print(p->event, &p->checks))
		return false;
	p->steps = braid_steps_compile(p->event, symbols);
	p->printable = p->steps || !braid_vet_library(p->event);
	return true;
}

static void unparse(struct parsed *p)
{
	braid_steps_free(p->steps);
	tep_free(p->tep);
}

/* Numbers that are often small, letters, or anything; dynamic fields mostly within. */
static void fill(const struct parsed *p, u8 *data, u32 bytes)
{
	u32 k, how = pick(4);
	u16 id = 1;

	for (k = 0; k < bytes; k++)
		data[k] = how == 0 ? pick(256) : how == 1 ? 32 + pick(95) : k & 3 ? 0 : pick(12);
	for (k = 0; how == 3 && k < bytes; k++)
		data[k] = pick(3) ? data[k] : pick(2) ? 0xff : 0;
	memcpy(data, &id, sizeof(id));
	for (k = 0; k < p->checks.nr_dynamic && k < BRAID_MANY_DYNAMIC; k++) {
		const struct tep_format_field *f = p->checks.dynamic[k];
		u32 base = f->flags & TEP_FIELD_IS_RELATIVE ? f->offset + f->size : 0;
		u32 at = base + pick(bytes - base + 1), room = bytes - at;
		u32 word = (at - base) | pick(room + 1 + !pick(20)) << 16;

		if ((u32)f->offset + 4 <= bytes)
			memcpy(data + f->offset, &word, sizeof(word));
	}
}

/* The words of both printers for one payload, which ends where its memory does. */
static bool same(const struct parsed *p, const u8 *data, u32 bytes, struct trace_seq *seq)
{
	struct braid_text text = { 0 };
	u8 *padded = calloc(1, bytes + BRAID_PAD_BYTES), *exact = malloc(bytes);
	struct tep_record record = { .size = bytes, .record_size = bytes, .data = padded };
	bool equal;

	NEED(padded && exact);
	memcpy(padded, data, bytes);
	memcpy(exact, data, bytes);
	trace_seq_reset(seq);
	if (!braid_vet_library(p->event))
		tep_print_event(p->tep, seq, &record, "%s", TEP_PRINT_INFO);
	trace_seq_terminate(seq);
	braid_steps_run(p->steps, exact, bytes, &text);
	equal = braid_vet_library(p->event) ||
		(text.bytes == seq->len &&
		 (!seq->len || !memcmp(text.data, seq->buffer, seq->len)));
	if (!equal)
		fprintf(stderr, "%s\n library: %s\n steps:   %.*s\n", p->event->print_fmt.format,
			seq->buffer, (int)text.bytes, text.data);
	CHECK(!text.bytes || !memchr(text.data, 0, text.bytes));
	braid_text_free(&text);
	free(padded);
	free(exact);
	return equal;
}

static void compare(const struct parsed *p, u32 rounds)
{
	u32 least = p->checks.least_bytes, k, bytes, compared = 0;
	static u8 data[65536];
	struct trace_seq seq;

	trace_seq_init(&seq);
	for (k = 0; k < rounds; k++) {
		bytes = least + (pick(3) ? pick(64) : pick(MAX_PAYLOAD));
		if (bytes > sizeof(data))
			break;
		fill(p, data, bytes);
		if (!braid_vet_payload(p->event, &p->checks, true, data, bytes))
			continue;
		compared++;
		if (same(p, data, bytes, &seq))
			continue;
		CHECK(!"steps print what libtraceevent does");
		break;
	}
	CHECK(compared || rounds < OWN_ROUNDS);
	trace_seq_destroy(&seq);
}

static void all_that_is_compiled(void)
{
	char format[4096];
	struct parsed p;
	size_t k;

	for (k = 0; k < sizeof(compiled) / sizeof(compiled[0]); k++) {
		snprintf(format, sizeof(format), "%s%s", FIELDS, compiled[k]);
		if (parse(&p, format) && p.steps) {
			compare(&p, OWN_ROUNDS);
		} else {
			fprintf(stderr, "not compiled: %s\n", compiled[k]);
			CHECK(!"it is compiled");
		}
		unparse(&p);
	}
}

static void all_that_is_not(void)
{
	char format[4096];
	struct parsed p;
	size_t k;

	for (k = 0; k < sizeof(left_alone) / sizeof(left_alone[0]); k++) {
		snprintf(format, sizeof(format), "%s%s", FIELDS, left_alone[k]);
		if (parse(&p, format) && p.steps) {
			fprintf(stderr, "compiled: %s\n", left_alone[k]);
			CHECK(!"it is left alone");
		}
		unparse(&p);
	}
}

/* A length below 0 means the whole string; libtraceevent reads its stack. */
static void lengths_below_zero(void)
{
	struct braid_text text = { 0 };
	u8 data[LEAST_BYTES] = { 0 };
	s32 minus = -1;
	struct parsed p;

	NEED(parse(&p, FIELDS "\"%.*s\", REC->d, REC->comm") && p.steps);
	CHECK(braid_vet_library(p.event));
	memcpy(data + 8, "sixteen letters.", 16);
	memcpy(data + 28, &minus, sizeof(minus));
	CHECK(braid_vet_payload(p.event, &p.checks, true, data, sizeof(data)));
	braid_steps_run(p.steps, data, sizeof(data), &text);
	CHECK(text.bytes == 16 && !memcmp(text.data, "sixteen letters.", 16));
	braid_text_free(&text);
	unparse(&p);
}

/* Any bytes that pass the checks: the sanitizers look on. */
static void anything_at_all(void)
{
	struct braid_text text = { 0 };
	char format[4096];
	struct parsed p;
	u32 k, round, j;

	for (k = 0; k < sizeof(compiled) / sizeof(compiled[0]); k++) {
		snprintf(format, sizeof(format), "%s%s", FIELDS, compiled[k]);
		for (round = 0; parse(&p, format) && p.steps && round < 100; round++) {
			u32 bytes = pick(200);
			u8 *data = malloc(bytes + 1);

			NEED(data);
			for (j = 0; j < bytes; j++)
				data[j] = pick(4) ? pick(6) : pick(256);
			if (braid_vet_payload(p.event, &p.checks, true, data, bytes))
				braid_steps_run(p.steps, data, bytes, &text);
			text.bytes = 0;
			free(data);
			unparse(&p);
		}
		unparse(&p);
	}
	braid_text_free(&text);
}

static void compare_file(const char *path)
{
	static char text[65536];
	FILE *file = fopen(path, "r");
	size_t bytes = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	struct parsed p;
	char *format;

	if (file)
		fclose(file);
	text[bytes] = 0;
	format = strstr(text, "format:");
	if (!format)
		return;
	if (parse(&p, format) && p.steps) {
		nr_compiled++;
		compare(&p, ROUNDS);
	} else {
		nr_left += p.printable;
		nr_refused += !p.printable;
	}
	unparse(&p);
}

static void the_kernels_own(void)
{
	glob_t found;
	size_t k;

	if (glob("/sys/kernel/tracing/events/*/*/format", 0, NULL, &found)) {
		printf("the running kernel's formats can't be read here\n");
		return;
	}
	for (k = 0; k < found.gl_pathc; k++)
		compare_file(found.gl_pathv[k]);
	globfree(&found);
	printf("of the kernel's formats %u compiled, %u left to libtraceevent, %u to fields\n",
	       nr_compiled, nr_left, nr_refused);
	CHECK(nr_compiled > 9 * nr_left);
}

int main(void)
{
	struct braid_symbol list[] = {
		{ .address = 3, .name = "low+0x1/0x9" },
		{ .address = 0x2020202020202020ULL, .name = "spaces+0x20/0x100" },
	};
	struct braid_stream stream = { .symbols = list, .nr_symbols = 2 };

	tep_set_loglevel(TEP_LOG_NONE);
	symbols = braid_symbols_new(&stream);
	NEED(symbols);
	RUN(all_that_is_compiled);
	RUN(all_that_is_not);
	RUN(lengths_below_zero);
	RUN(anything_at_all);
	RUN(the_kernels_own);
	braid_symbols_free(symbols);
	return VERDICT();
}
