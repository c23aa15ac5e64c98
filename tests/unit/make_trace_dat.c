// SPDX-License-Identifier: GPL-2.0-or-later
/* Creates a trace.dat: two CPUs with alternating events, in one buffer or two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "host_agent/capture/chunk.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_trace_dat.h"
#include "tests/unit/need.h"

#define CPUS		2u
#define PRINTK		"0xffff : \"printk\"\n"
#define OPTION_BYTES	4096u	/* of a buffer's, at most */

static const char header_page[] =
	"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
	"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
	"\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
	"\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

static const char header_event[] =
	"# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n";

static const char beat_format[] =
	"name: beat\nID: 300\nformat:\n"
	FORMAT_COMMON
	"\tfield:u64 count;\toffset:8;\tsize:8;\tsigned:0;\n\n"
	"print fmt: \"count=%llu\", REC->count\n";

static const char bare_format[] =
	"name: beat\nID: 300\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
	"\tfield:u64 count;\toffset:8;\tsize:8;\tsigned:0;\n\n"
	"print fmt: \"count=%llu\", REC->count\n";

static struct {
	u8 *at;
	size_t bytes, room;
} out;

static void put(const void *from, size_t bytes)
{
	if (out.bytes + bytes > out.room) {
		out.room = 2 * (out.bytes + bytes);
		out.at = realloc(out.at, out.room);
		NEED(out.at);
	}
	memcpy(out.at + out.bytes, from, bytes);
	out.bytes += bytes;
}

static void put_number(u64 value, u32 bytes)
{
	put(&value, bytes);
}

static void put_string(const char *s)
{
	put(s, strlen(s) + 1);
}

/* Text after its length. */
static void put_text(const char *s, u32 length_bytes)
{
	put_number(strlen(s), length_bytes);
	put(s, strlen(s));
}

static bool by_zlib;

static size_t deflate_all(u8 *to, size_t room, const u8 *from, size_t bytes)
{
	uLongf packed_bytes = room;

	NEED(compress2(to, &packed_bytes, from, bytes, Z_BEST_COMPRESSION) == Z_OK);
	return packed_bytes;
}

/* Compresses the part from a mark to the end in place, after its two lengths. */
static void pack_from(size_t mark)
{
	size_t bytes = out.bytes - mark, room = ZSTD_compressBound(bytes) + 64;
	u8 *packed = malloc(room);

	NEED(packed);
	room = by_zlib ? deflate_all(packed, room, out.at + mark, bytes) :
	       ZSTD_compress(packed, room, out.at + mark, bytes, 3);
	NEED(!ZSTD_isError(room));
	out.bytes = mark;
	put_number(room, 4);
	put_number(bytes, 4);
	put(packed, room);
	free(packed);
}

/* Sections ------------------------------------------------------------------------------------ */

static size_t begin_section(u32 id, bool compressed)
{
	put_number(id, 2);
	put_number(compressed, 2);
	put_number(0, 4);
	put_number(0, 8);
	return out.bytes;
}

static void end_section(size_t mark, bool compressed)
{
	u64 bytes;

	if (compressed)
		pack_from(mark);
	bytes = out.bytes - mark;
	memcpy(out.at + mark - 8, &bytes, sizeof(bytes));
}

static void put_header(void)
{
	put_string("header_page");
	put_text(header_page, 8);
	put_string("header_event");
	put_text(header_event, 8);
}

static void put_formats(const struct synth_dat *p)
{
	put_number(1, 4);
	put_string("dat");
	put_number(1, 4);
	put_text(p->bare ? bare_format : beat_format, 8);
}

static void put_option(u32 id, const void *data, u32 bytes)
{
	put_number(id, 2);
	put_number(bytes, 4);
	put(data, bytes);
}

/* Two samples of each CPU: all times, offsets, scales; then all fractions. */
static void put_shift(const struct synth_dat *p)
{
	u64 scale = p->shift_scale ? p->shift_scale : 1;
	u64 cpu[6] = { p->start, p->start + 6000000, p->shift_ns, 2 * p->shift_ns, 3, 3 };
	u64 by_kvm[6] = { p->start, p->start + 6000000, p->shift_ns, p->shift_ns + p->shift_step,
			  scale, scale };
	u32 k, cpus = p->shift_cpus ? p->shift_cpus : CPUS;

	put_number(12, 2);
	put_number(16 + cpus * (4 + sizeof(cpu) + 16), 4);
	put_number(p->peer ? p->peer : 77, 8);
	put_number(!p->by_kvm, 4);	/* interpolate */
	put_number(cpus, 4);
	for (k = 0; k < cpus; k++) {
		put_number(2, 4);
		put(p->by_kvm ? by_kvm : cpu, sizeof(cpu));
	}
	for (k = 0; k < 2 * cpus; k++)
		put_number(p->shift_fraction, 8);
}

static void put_guest(const struct synth_dat *p)
{
	u32 k;

	put_number(13, 2);
	put_number(strlen(p->guest) + 1 + 8 + 4 + 8 * CPUS, 4);
	put_string(p->guest);
	put_number(p->guest_id, 8);
	put_number(p->guest_cpus ? p->guest_cpus : CPUS, 4);
	for (k = 0; k < CPUS; k++) {
		put_number(k, 4);
		put_number(p->guest_tids[k], 4);
	}
}

static void put_options(const struct synth_dat *p)
{
	u64 cpus = CPUS;
	u64 scale[2] = { 31ULL << 32 | p->tsc_multiplier, 0 };
	char clock[64], stats[256];

	if (p->clock) {
		snprintf(clock, sizeof(clock), "local [%s] boot\n", p->clock);
		put_option(4, clock, strlen(clock) + 1);
	}
	if (p->uname)
		put_option(5, p->uname, strlen(p->uname) + 1);
	if (p->overrun) {
		snprintf(stats, sizeof(stats), "CPU: 1\nentries: 0\noverrun: %u\n"
			 "commit overrun: 4\nbytes: 9\ndropped events: 3\nread events: 9\n",
			 p->overrun);
		put_option(2, "CPU: 0\noverrun: 0\n", 19);
		put_option(2, stats, strlen(stats) + 1);
	}
	if (p->trace_id)
		put_option(11, &p->trace_id, 8);
	if (p->guest)
		put_guest(p);
	if (p->shifted)
		put_shift(p);
	if (p->tsc_multiplier)
		put_option(14, scale, sizeof(scale));
	if (p->offset)
		put_option(7, p->offset, strlen(p->offset) + 1);
	put_option(8, &cpus, 4);
}

/* Pages --------------------------------------------------------------------------------------- */

static u32 page_bytes(const struct synth_dat *p)
{
	return p->small ? 256 : 4096;
}

static void put_page(const struct synth_dat *p, u32 cpu, u32 number)
{
	u32 nr = p->small ? 8 : SYNTH_DAT_PER_PAGE;
	u64 stamp = p->start + (2ULL * number * nr + cpu) * p->step;
	u64 commit = nr * 20, lost = cpu == 1 && number == 1 ? p->lost : 0;
	size_t mark = out.bytes;
	u32 k;

	if (cpu == 1 && number == 1)
		stamp -= p->back;
	if (lost)
		commit |= 1ULL << 31;
	if (lost && lost != ~0ULL)
		commit |= 1ULL << 30;
	put_number(stamp, 8);
	put_number(commit, 8);
	for (k = 0; k < nr; k++) {
		struct braid_record record = { .common_type = 300, .common_pid = 40 + cpu };

		put_number(4 | (u64)(k ? 2 * p->step : 0) << 5, 4);	/* 16 bytes follow */
		if (p->bare)
			record = (struct braid_record){ .common_type = 300 };
		put(&record, sizeof(record));
		put_number(number * nr + k, 8);
	}
	if (lost && lost != ~0ULL)
		put_number(lost, 8);
	while (out.bytes < mark + page_bytes(p))
		put_number(0, 1);
}

/* Bytes that decompress to a million times as many. */
static void bloat(u32 chunks, u32 bytes)
{
	put_number(chunks, 4);
	while (chunks--) {
		put_number(0, 4);
		put_number(bytes ? bytes : 8 << 20, 4);
	}
}

/* Writes all pages of a buffer; returns the offset of each CPU's. */
static void put_pages(const struct synth_dat *p, u64 at[CPUS], u64 bytes[CPUS])
{
	u32 cpu, k;
	size_t mark;

	for (cpu = 0; cpu < CPUS; cpu++) {
		while (out.bytes % page_bytes(p))	/* trace-cmd maps them */
			put_number(0, 1);
		at[cpu] = out.bytes;
		if (p->bloated)
			bloat(p->bloated, p->bloated_bytes);
		else if (p->compressed)
			put_number(2, 4);
		mark = out.bytes;
		for (k = 0; k < SYNTH_DAT_PAGES && !p->bloated; k++) {
			put_page(p, cpu, k);
			if (p->compressed && k) {	/* chunks of two pages and one */
				pack_from(mark);
				mark = out.bytes;
			}
		}
		bytes[cpu] = out.bytes - at[cpu];
	}
}

static void set_number(size_t at, u64 value)
{
	memcpy(out.at + at, &value, sizeof(value));
}

/* Version 6: a table that is filled in later, and pages after it. */
static void put_buffer_6(const struct synth_dat *p, bool empty)
{
	u64 at[CPUS], bytes[CPUS];
	size_t table;
	u32 cpu;

	put_string("flyrecord");
	table = out.bytes;
	for (cpu = 0; cpu < 2 * CPUS; cpu++)
		put_number(0, 8);
	if (empty)
		return;
	put_pages(p, at, bytes);
	for (cpu = 0; cpu < CPUS; cpu++) {
		set_number(table + 16 * cpu, at[cpu]);
		set_number(table + 16 * cpu + 8, bytes[cpu]);
	}
}

/* Version 7: a section, and its option, which is returned. */
static void put_buffer_7(const struct synth_dat *p, const char *name, bool empty, u8 *option,
			 u32 *option_bytes)
{
	u64 place = out.bytes, at[CPUS], bytes[CPUS];
	u32 cpu, nr = p->aliases ? p->aliases : CPUS;
	size_t mark = begin_section(3, p->compressed), begin;

	if (!empty)
		put_pages(p, at, bytes);
	end_section(mark, false);
	begin = out.bytes;
	put_number(place, 8);
	put_string(name);
	put_string(p->buffer_clock ? p->buffer_clock : "mono_raw");
	put_number(page_bytes(p), 4);
	put_number(empty ? 0 : nr, 4);
	for (cpu = 0; cpu < nr && !empty; cpu++) {
		put_number(cpu, 4);
		put_number(at[cpu < CPUS ? cpu : CPUS - 1], 8);
		put_number(bytes[cpu < CPUS ? cpu : CPUS - 1], 8);
	}
	*option_bytes = out.bytes - begin;
	NEED(*option_bytes <= OPTION_BYTES);
	memcpy(option, out.at + begin, *option_bytes);
	out.bytes = begin;
}

/* Files --------------------------------------------------------------------------------------- */

static void make_6(const struct synth_dat *p)
{
	u8 option[64] = { 0 };
	size_t place;

	put_header();
	put_number(0, 4);	/* ftrace's */
	put_formats(p);
	put_text(p->kallsyms ? p->kallsyms : "", 4);
	put_text(PRINTK, 4);
	put_text("40 first\n41 second one\n", 8);
	put_number(CPUS, 4);
	put("options  ", 10);
	put_options(p);
	place = out.bytes + 6;
	if (p->instance) {
		strcpy((char *)option + 8, p->instance);
		put_option(3, option, 9 + strlen(p->instance));
	}
	put_number(0, 2);
	put_buffer_6(p, p->top_empty);
	if (p->instance) {
		set_number(place, out.bytes);
		put_buffer_6(p, false);
	}
}

static void put_options_end(size_t *next)
{
	put_number(0, 2);
	put_number(8, 4);
	*next = out.bytes;
	put_number(0, 8);
}

static void make_7(const struct synth_dat *p)
{
	static const u32 ids[] = { 16, 17, 18, 19, 20, 21 };
	u8 buffers[2][OPTION_BYTES];
	u32 bytes[2] = { 0 }, k;
	u64 places[6];
	size_t next, mark;

	put_string(p->compression ? p->compression : !p->compressed ? "none" :
		   p->zlib ? "zlib" : "zstd");
	put_string("1.0");
	next = out.bytes;
	put_number(0, 8);
	for (k = 0; k < 6; k++) {
		places[k] = out.bytes;
		mark = begin_section(ids[k], p->compressed);
		if (k == 0)
			put_header();
		else if (k == 1)
			put_number(0, 4);
		else if (k == 2)
			put_formats(p);
		else if (k == 3)
			put_text(p->kallsyms ? p->kallsyms : "", 4);
		else if (k == 4)
			put_text(PRINTK, 4);
		else
			put_text("40 first\n41 second one\n", 8);
		end_section(mark, p->compressed);
	}
	put_buffer_7(p, "", p->top_empty, buffers[0], &bytes[0]);
	if (p->instance)
		put_buffer_7(p, p->instance, false, buffers[1], &bytes[1]);
	/* Two sections of options, the second one named by the first. */
	set_number(next, out.bytes);
	mark = begin_section(0, false);
	put_options(p);
	for (k = 0; k < 6; k++)
		put_option(ids[k], &places[k], 8);
	put_options_end(&next);
	end_section(mark, false);
	set_number(next, out.bytes);
	mark = begin_section(0, p->compressed);
	for (k = 0; k < 2 && bytes[k]; k++)
		put_option(3, buffers[k], bytes[k]);
	put_options_end(&next);
	end_section(mark, p->compressed);
}

void synth_trace_dat(const char *path, const struct synth_dat *params)
{
	FILE *file = fopen(path, "wb");

	out.bytes = 0;
	by_zlib = params->zlib;
	put("\x17\x08\x44tracing", 10);
	put_string(params->version == 6 ? "6" : "7");
	put_number(0, 1);
	put_number(8, 1);
	put_number(page_bytes(params), 4);
	if (params->version == 6)
		make_6(params);
	else
		make_7(params);
	NEED(file && fwrite(out.at, 1, out.bytes, file) == out.bytes && !fclose(file));
}
