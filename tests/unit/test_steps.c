// SPDX-License-Identifier: GPL-2.0-or-later
/* Compiled print formats of every kind, beside libtraceevent where it prints them right. */
#include <string.h>

#include "tests/unit/beside.h"
#include "tests/unit/check.h"
#include "tests/unit/format_text.h"
#include "tests/unit/need.h"

int main(void);

/* All fields of the print formats below. */
#define FIELDS FORMAT_HEAD \
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
	"\"%p %08p\", REC->p, REC->p",
	"\"%pS %ps %pF %pf\", REC->p, REC->p, (void *)REC->f, (void *)(REC->f + 1)",
	"\"%s|%20s|%-20s|%.3s|\", REC->comm, REC->comm, REC->comm, REC->comm",
	"\"comm=%s a=%d\", REC->comm, REC->a",
	"\"%016lx %08x %lx %x %lu, and after this text of more than thirty-two bytes %s%s%s\", "
	"REC->p, REC->a, REC->p, REC->a, REC->p, REC->a & 1 ? \"one\" : \"\", "
	"REC->a & 2 ? REC->comm : \"two\", REC->a & 4 ? \"\" : \"\"",
	"\"%s%d %u %lld\", REC->a ? \"some\" : \"none\", REC->a, REC->a, REC->p",
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
	"REC->b < 0 ? \"-\" : (!REC->d || REC->c > 7 && REC->c <= 900) ? \"?\" : \"\"",
	"\"%d %d %d %d\", REC->a + REC->c * 3 - 1, REC->d / 7, REC->c % 10, -REC->a",
	"\"%llx %llx %llx\", REC->f << 3, REC->f >> 60, ~REC->f",
	"\"%llx %llx %d\", REC->f | 0xf0, REC->f & ((((1 | 2) + 1) << 1) - 1), REC->a == REC->c",
	"\"%u %u %u\", (u8)REC->d, (unsigned short)REC->e, (u32)REC->f",
	"\"%d %d\", REC->a != 3 ? REC->d : REC->c, (REC->a >= 4) ? 1 : 0",
	"\"%x %x %u\", REC->v[0], REC->v[3], REC->mac[5]",
	"\"%s %s\", __print_hex(REC->mac, 6), __print_hex_str(REC->v, 16)",
	"\"%s\", __print_hex(__get_dynamic_array(w), __get_dynamic_array_len(w))",
	"\"%u len %d\", ((u32 *)__get_dynamic_array(w))[0], __get_dynamic_array_len(w)",
	"\"%v %5s\", REC->comm",
	"\"%05s|%#s\", REC->comm, REC->comm",
	"\"%pM %pm %pMF %pmR\", REC->mac, REC->mac, REC->mac, REC->mac",
	"\"%pI4 %pi4 %pI4h %pI4l\", REC->d, REC->d, REC->d, REC->d",
	"\"%pI6 %pi6 %pI6c %pISpc %pISp\", REC->v, REC->v, REC->v, REC->v, REC->v",
	"\"%pU %pUb %pUl %pUB %pUL\", REC->v, REC->v, REC->v, REC->v, REC->v",
	"\"%s|%20s|%-9s|\", __get_bitmask(w), __get_bitmask(w), __get_bitmask(s)",
	"\"%s|%-20s|\", __get_cpumask(w), __get_cpumask(w)",
};

/* Differs from libtraceevent, whose text is wrong; and what is right for the payload below. */
static const struct {
	const char *format, *text;
} better[] = {
	{ "\"%c%c|%3c\", REC->comm[0], 'x', REC->comm[1]", "sx|  i" },
	{ "\"%+d % d\", REC->d, REC->d", "+7  7" },
	{ "\"%pK %px\", REC->p, REC->p", "0x1234 0x1234" },
	{ "\"%pM %pMR\", REC->comm, REC->mac", "73:69:78:74:65:65 06:05:04:03:02:01" },
	{ "\"%*ph|%*phN|%*phC\", 4, REC->mac, REC->d, REC->mac, 2, __get_dynamic_array(w)",
	  "01 02 03 04|010203040506|05:00" },
	{ "\"%6ph|%3phN|%2phC|%1phD\", REC->mac, REC->mac, __get_dynamic_array(w), REC->mac",
	  "01 02 03 04 05 06|010203|05:00|01" },
	{ "\"%64pb|%48pbl\", REC->v, REC->v", "00000002,00000001|0,33" },
	{ "\"%*pb|%*pbl\", 64, REC->v, 48, REC->v", "00000002,00000001|0,33" },
	{ "\"%s|%s\", __get_rel_cpumask(r), __get_bitmask(w)", "|00000009,00000005" },
	{ "\"%pISpc %pISp\", __get_sockaddr(s), __get_dynamic_array(s)",
	  "1.2.3.4:80 1.2.3.4:80" },
	{ "\"%s%s\", __print_symbolic(REC->d, { }), __print_symbolic(REC->d, { 7, \"7\" }, "
	  "{ -1, 0 })", "0x77" },
	{ "\"%d %d\", 10 - 3 - 2, REC->d - 3 - 2", "5 2" },
	{ "\"%d %d\", REC->d & (8 | 1), REC->c > 7 && REC->c <= 900 || !REC->c", "1 1" },
	{ "\"%d\", ((u32 *)__get_dynamic_array(w))[1]", "9" },
	{ "\"%d %d\", REC->v[REC->v[0]], REC->v[REC->d]", "2 0" },
	{ "\"%s\", __print_symbolic(REC->f, { -2, \"two\" }, { -3, \"three\" })", "three" },
	{ "\"%s\", __print_symbolic(REC->f & 0, { 1, \"x\" }, { 0, ((void *)0) })", "0x0" },
	{ "\"%d %x %d\", REC->ent.type, REC->ent.flags, REC->ent.pid + REC->common_type", "1 8 3" },
	{ "\"%u %u\", sizeof(REC->e), sizeof(u64)", "8 8" },
	{ "\"%d\", __builtin_expect(!!(REC->d), 1)", "1" },
	{ "\"%d %d\", (int) -1, REC->d ^ 2", "-1 5" },
	{ "\"%d\", REC->d / (REC->a - REC->a)", "0" },
	{ "\"%s\", (char *)REC->comm", "sixteen letters." },
	{ "\"%s\", __print_array(REC->v, REC->d > 3 ? 2 : 1, 4)", "{0x1,0x2}" },
	/* libtraceevent before 1.8 prints decimal numbers with spaces between. */
	{ "\"%s\", __print_array(__get_dynamic_array(w), __get_dynamic_array_len(w) / 4, 4)",
	  "{0x5,0x9}" },
	{ "\"%s %s\", __print_array(REC->v, 4, 4), __print_array(REC->comm, REC->d / 2, 2)",
	  "{0x1,0x2,0x0,0x0} {0x6973,0x7478,0x6565}" },
	{ "\"%s%s\", __print_array(REC->mac, 6, 1), __print_array(REC->v, 0, 8)",
	  "{0x1,0x2,0x3,0x4,0x5,0x6}{}" },
};

/* What libtraceevent crashes on, reads out of bounds for, or prints nothing of. */
static const char *const ours_only[] = {
	"\"%d\", REC->d / REC->a",
	"\"%d\", REC->d / 4 * REC->a",
	"\"%d\", REC->d / (4 - 4)",
	"\"%d\", REC->d % 0",
	"\"%d\", REC->d / (4 * 2)",
	"\"%d\", REC->v[REC->a]",
	"\"%d\", ((u8 *)__get_dynamic_array(w))[17]",
	"\"%d\", ((u8 *)__get_dynamic_array(w))[REC->a]",
	"\"%d\", __get_rel_dynamic_array_len(r)",
	"\"%.*s\", REC->d, REC->comm",
	"\"%*phN\", 6, REC->mac",
	"\"%6phN\", REC->mac",
	"\"%c\", REC->a",
	"\"%s\", __print_hex(REC->v, REC->d ? 8 : 0)",
	"\"%s\", __print_hex(REC->v, REC->d - REC->a - 1)",
	"\"%s\", __print_array(__get_dynamic_array(w), 4, sizeof(u32))",
	"\"%s\", __print_symbolic(REC->d, { 2 * 2, \"four\" })",
	"\"%s\", (char *)REC->comm",
	"\"%d\", (u8)~REC->a",
	"\"%pM\", __get_dynamic_array(w)",
};

/* Not of the kernel's form, or it reads what is not there: printed as fields. */
static const char *const refused[] = {
	"\"%ls\", REC->comm",
	"\"%.*s\", REC->d, \"constant\"",
	"\"%d\", __get_str(s)",
	"\"%d\", jiffies_to_msecs(REC->d)",
	"\"%d\", ({ int x = REC->d; x; })",
	"\"%d\", REC->none",
	"\"%d\"",
	"\"%d\", REC->v[4]",
	"\"%100d\", REC->d",
	"\"%p\", __get_dynamic_array(w)",
	"\"%s\", __get_str(d)",
	"\"%s\", __print_hex(REC->f + 1, 4)",
	"\"%s\", __print_array(REC->v, 4, 3)",
	"\"%d\", (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1)))))))))))))))"
	"))))))))))))))))))))))))))))))))))))))))))))))))))",
	"\"%d\", REC->d +",
	"\"%d\", sizeof(struct sock)",
};

static void all_that_is_compiled(void)
{
	char format[4096];
	struct beside p;
	size_t k;

	for (k = 0; k < sizeof(compiled) / sizeof(compiled[0]); k++) {
		snprintf(format, sizeof(format), "%s%s", FIELDS, compiled[k]);
		if (beside_parse(&p, "test", format, true)) {
			CHECK(beside_compare(&p, BESIDE_ROUNDS));
			CHECK(beside_fields(&p));
		} else {
			fprintf(stderr, "not compiled: %s: %s\n", compiled[k], p.why);
			CHECK(!"it is compiled");
		}
		beside_free(&p);
	}
}

static void all_that_is_better(void)
{
	static const u8 mac[6] = { 1, 2, 3, 4, 5, 6 };
	const u32 v[4] = { 1, 2, 0, 0 }, w[2] = { 5, 9 };
	static const u8 socket[16] = { 2, 0, 0, 80, 1, 2, 3, 4 };
	u8 data[LEAST_BYTES + sizeof(w) + sizeof(socket)] = {
		[0] = 1, [2] = 8, [4] = 2,	/* common_type, _flags, _pid */
	};
	struct braid_text text = { 0 };
	char format[4096];
	struct beside p;
	size_t k;

	memcpy(data + 8, "sixteen letters.", 16);
	data[28] = 7;
	memset(data + 40, 0xff, 8);
	data[40] = 0xfd;
	data[48] = 0x34;
	data[49] = 0x12;
	memcpy(data + 56, v, sizeof(v));
	data[72] = LEAST_BYTES + sizeof(w);
	data[74] = sizeof(socket);
	memcpy(data + LEAST_BYTES + sizeof(w), socket, sizeof(socket));
	data[80] = LEAST_BYTES;
	data[82] = sizeof(w);
	memcpy(data + 84, mac, sizeof(mac));
	memcpy(data + LEAST_BYTES, w, sizeof(w));
	for (k = 0; k < sizeof(better) / sizeof(better[0]); k++) {
		snprintf(format, sizeof(format), "%s%s", FIELDS, better[k].format);
		beside_parse(&p, "test", format, false);
		text.bytes = 0;
		if (p.steps && beside_holds(&p, data, sizeof(data)))
			braid_program_run(p.steps, data, sizeof(data), &text);
		if (text.bytes != strlen(better[k].text) ||
		    memcmp(text.data, better[k].text, text.bytes)) {
			fprintf(stderr, "%s: %.*s (%s)\n", better[k].format, (int)text.bytes,
				text.data, p.why);
			CHECK(!"it is printed right");
		}
		beside_free(&p);
	}
	braid_text_free(&text);
}

static void all_that_others_may_not_read(void)
{
	char format[4096];
	struct beside p;
	size_t k;

	for (k = 0; k < sizeof(ours_only) / sizeof(ours_only[0]); k++) {
		snprintf(format, sizeof(format), "%s%s", FIELDS, ours_only[k]);
		if (!beside_parse(&p, "test", format, false) || p.steps->portable) {
			fprintf(stderr, "for others: %s %s\n", ours_only[k], p.why);
			CHECK(!"it is compiled, and not for others");
		}
		beside_free(&p);
	}
	for (k = 0; k < sizeof(compiled) / sizeof(compiled[0]); k++) {
		snprintf(format, sizeof(format), "%s%s", FIELDS, compiled[k]);
		CHECK(beside_parse(&p, "test", format, false));
		if (!p.steps->portable && !strstr(compiled[k], ".*"))
			fprintf(stderr, "not for others: %s\n", compiled[k]);
		CHECK(p.steps->portable == !strstr(compiled[k], ".*"));
		beside_free(&p);
	}
}

static void all_that_is_refused(void)
{
	char format[4096];
	struct beside p;
	size_t k;

	for (k = 0; k < sizeof(refused) / sizeof(refused[0]); k++) {
		snprintf(format, sizeof(format), "%s%s", FIELDS, refused[k]);
		if (beside_parse(&p, "test", format, false)) {
			fprintf(stderr, "compiled: %s\n", refused[k]);
			CHECK(!"it is refused");
		}
		beside_free(&p);
	}
}

/* Brackets may hold any expression: the size says how many elements there are. */
static void lengths_that_are_expressions(void)
{
	static const struct {
		const char *field;
		u32 size, nr, element;
		bool string;
	} fields[] = {
		{ "__u8 x[sizeof(struct sockaddr_in6)]", 28, 28, 1, true },
		{ "char x[32 + 2]", 34, 34, 1, true },
		{ "unsigned long x[(1 << 2) - sizeof(int)]", 32, 4, 8, false },
		{ "u16 x[MAX(3, a[sizeof(char)])]", 6, 3, 2, false },
		{ "struct odd x[2*N]", 24, 24, 1, false },
		{ "u32 x[N * 2]", 6, 6, 1, false },		/* not a number of u32 */
	};
	char format[1024];
	struct beside p;
	size_t k;

	for (k = 0; k < sizeof(fields) / sizeof(*fields); k++) {
		const struct braid_field *f;

		snprintf(format, sizeof(format), FORMAT_HEAD "\tfield:%s;\toffset:8;\tsize:%u;"
			 "\tsigned:0;\n\tfield:int n;\toffset:44;\tsize:4;\tsigned:1;\n\n"
			 "print fmt: \"n=%%d\", REC->n", fields[k].field, fields[k].size);
		CHECK(beside_parse(&p, "test", format, true));
		if (p.layout) {
			f = p.layout->fields;
			CHECK(!strcmp(f->name, "x"));
			CHECK_EQ(f->arraylen, fields[k].nr);
			CHECK_EQ(f->elementsize, fields[k].element);
			CHECK_EQ(!!(f->flags & BRAID_FIELD_STRING), fields[k].string);
			CHECK(beside_compare(&p, 20));
		}
		beside_free(&p);
	}
	snprintf(format, sizeof(format), FORMAT_HEAD "\tfield:u8 x[2[3];\toffset:8;\tsize:6;\tsigned:0;"
		 "\n\nprint fmt: \"\"");
	CHECK(!beside_parse(&p, "test", format, false));
	beside_free(&p);
}

/* A length below 0 means the whole string; libtraceevent reads its stack. */
static void lengths_below_zero(void)
{
	struct braid_text text = { 0 };
	u8 data[LEAST_BYTES] = { 0 };
	s32 minus = -1;
	struct beside p;

	NEED(beside_parse(&p, "test", FIELDS "\"%.*s\", REC->d, REC->comm", false));
	CHECK(!p.steps->portable);
	memcpy(data + 8, "sixteen letters.", 16);
	memcpy(data + 28, &minus, sizeof(minus));
	CHECK(beside_holds(&p, data, sizeof(data)));
	braid_program_run(p.steps, data, sizeof(data), &text);
	CHECK(text.bytes == 16 && !memcmp(text.data, "sixteen letters.", 16));
	braid_text_free(&text);
	beside_free(&p);
}

/* A mask of more bits than any kernel has CPUs takes bounded space and time. */
static void long_masks(void)
{
	u32 bytes = 60000, word = LEAST_BYTES | (bytes - LEAST_BYTES) << 16;
	struct braid_text text = { 0 };
	u8 *data = malloc(bytes);
	struct beside p;

	NEED(data);
	memset(data, 0, LEAST_BYTES);
	memset(data + LEAST_BYTES, 0x55, bytes - LEAST_BYTES);
	memcpy(data + 72, &word, sizeof(word));
	NEED(beside_parse(&p, "test", FIELDS "\"%s %s\", __get_cpumask(s), __get_bitmask(s)",
			  false));
	NEED(beside_holds(&p, data, bytes));
	braid_program_run(p.steps, data, bytes, &text);
	CHECK(text.bytes > 20000 && text.bytes < 24000);
	CHECK(!memcmp(text.data, "0,2,4,6,", 8));
	CHECK(!memcmp(text.data + text.bytes - 8, "55555...", 8));
	braid_text_free(&text);
	beside_free(&p);
	free(data);
}

/* Any bytes that pass the checks: under the sanitizers. */
static void any_bytes(const char *print)
{
	struct braid_text text = { 0 };
	char format[4096];
	struct beside p;
	u32 round, j;

	snprintf(format, sizeof(format), "%s%s", FIELDS, print);
	NEED(beside_parse(&p, "test", format, false));
	for (round = 0; round < 100; round++) {
		u32 bytes = beside_pick(200);
		u8 *data = malloc(bytes + 1);

		NEED(data);
		for (j = 0; j < bytes; j++)
			data[j] = beside_pick(4) ? beside_pick(6) : beside_pick(256);
		if (beside_holds(&p, data, bytes) &&
		    braid_program_run(p.steps, data, bytes, &text))
			CHECK(braid_text_simple(text.data, text.bytes));
		text.bytes = 0;
		free(data);
	}
	beside_free(&p);
	braid_text_free(&text);
}

static void anything_at_all(void)
{
	size_t k;

	for (k = 0; k < sizeof(compiled) / sizeof(compiled[0]); k++)
		any_bytes(compiled[k]);
	for (k = 0; k < sizeof(better) / sizeof(better[0]); k++)
		any_bytes(better[k].format);
}

int main(void)
{
	RUN(all_that_is_compiled);
	RUN(all_that_is_better);
	RUN(all_that_others_may_not_read);
	RUN(all_that_is_refused);
	RUN(lengths_that_are_expressions);
	RUN(lengths_below_zero);
	RUN(long_masks);
	RUN(anything_at_all);
	return VERDICT();
}
