// SPDX-License-Identifier: GPL-2.0-or-later
/* The table of stacks, also forged or half written, and the records that refer to it. */
#include <string.h>
#include <unistd.h>

#include "host_agent/export/text/form.h"
#include "shared/region.h"
#include "shared/stack.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"

#define SLOTS	8u
#define FRAMES	4u
#define START	0xffffffff81000010ULL	/* "start+0x10", in the capture's symbols */

static struct braid_stack_table *table;
static u64 table_bytes;

static void table_make(void)
{
	table_bytes = braid_stack_bytes(SLOTS, FRAMES);
	table = calloc(1, table_bytes);
	NEED(table);
	table->nr_slots = SLOTS;
	table->nr_frames = FRAMES;
	table->first = 1;
}

static struct braid_stack *table_put(u32 slot, u32 nr)
{
	struct braid_stack *to = (struct braid_stack *)((u8 *)table->slots +
				 slot * braid_stack_slot_bytes(FRAMES));
	u32 k;

	to->id = 1 + slot;
	to->nr = nr;
	for (k = 0; k < nr; k++)
		to->frames[k] = START + slot + k;
	to->check = braid_stack_check(to->id, to->frames, nr);
	return to;
}

static struct braid_stack_shape shape_of(u64 bytes)
{
	return braid_stack_load_shape(table, bytes);
}

/* A slot counts if it is complete, and only as it was written. */
static void slots(void)
{
	struct braid_stack_shape shape;
	struct braid_stack_copy copy;
	struct braid_stack *slot;
	u32 bit;

	table_make();
	slot = table_put(2, FRAMES);
	table->nr_used = 3;
	shape = shape_of(table_bytes);
	CHECK_EQ(shape.nr_slots, SLOTS);
	CHECK_EQ(shape.nr_used, 3);
	CHECK(!braid_stack_load(&copy, table, &shape, 1));
	CHECK(braid_stack_load(&copy, table, &shape, 2));
	CHECK_EQ(copy.id, 3);
	CHECK_EQ(copy.nr, FRAMES);
	CHECK(!memcmp(copy.frames, slot->frames, sizeof(u64) * FRAMES));
	for (bit = 0; bit < 8 * braid_stack_slot_bytes(FRAMES); bit++) {
		((u8 *)slot)[bit / 8] ^= 1 << bit % 8;
		CHECK(!braid_stack_load(&copy, table, &shape, 2));
		((u8 *)slot)[bit / 8] ^= 1 << bit % 8;
	}
	slot->nr = FRAMES + 1;		/* with a check that is right */
	slot->check = braid_stack_check(slot->id, slot->frames, FRAMES);
	CHECK(!braid_stack_load(&copy, table, &shape, 2));
	slot->nr = 0;
	slot->check = braid_stack_check(slot->id, slot->frames, 0);
	CHECK(!braid_stack_load(&copy, table, &shape, 2));
	slot->nr = 1;
	slot->id = 0;
	slot->check = braid_stack_check(0, slot->frames, 1);
	CHECK(!braid_stack_load(&copy, table, &shape, 2));
	free(table);
}

/* No shape leads outside the section. */
static void shapes(void)
{
	static const u32 words[] = { 0, 1, 3, 4, 5, 64, 65, 0x7fffffff, 0xffffffff };
	struct braid_stack_copy copy;
	u32 nr = sizeof(words) / sizeof(words[0]), a, b, c, k;
	u64 bytes;

	table_make();
	for (k = 0; k < SLOTS; k++)
		table_put(k, FRAMES);
	for (a = 0; a < nr; a++)
		for (b = 0; b < nr; b++)
			for (c = 0; c < nr; c++) {
				struct braid_stack_shape shape;

				table->nr_slots = words[a];
				table->nr_frames = words[b];
				table->nr_used = words[c];
				shape = shape_of(table_bytes);
				CHECK(shape.nr_used <= shape.nr_slots);
				CHECK(!shape.nr_slots || table_bytes >=
				      braid_stack_bytes(shape.nr_slots, shape.nr_frames));
				for (k = 0; k < shape.nr_slots; k++)
					braid_stack_load(&copy, table, &shape, k);
			}
	table->nr_slots = SLOTS;
	table->nr_frames = FRAMES;
	for (bytes = 0; bytes < sizeof(*table); bytes++)
		CHECK_EQ(shape_of(bytes).nr_slots, 0);
	CHECK_EQ(shape_of(table_bytes - 1).nr_slots, SLOTS - 1);
	CHECK_EQ(braid_stack_load_shape(NULL, 0).nr_slots, 0);
	free(table);
}

/* A section is between the directory and the rings, or there is none. */
static void sections(void)
{
	struct braid_region_params params = {
		.region_bytes = 4 << 20, .nr_vcpus = 1, .nr_comms = 4, .nr_symbols = 4,
		.directory_bytes = 4096, .nr_stacks = SLOTS, .stack_frames = FRAMES,
	};
	struct braid_superblock sb = {
		.magic = BRAID_MAGIC, .version_major = BRAID_VERSION_MAJOR,
		.state = BRAID_STATE_LIVE, .incarnation = 1, .counter_hz = 1000000000,
	};
	struct braid_section *s = &sb.sections[BRAID_SECTION_STACKS], good;
	u64 needed;

	CHECK_EQ(braid_region_layout(&sb, &params, &needed), 0);
	CHECK(!braid_region_check(&sb, params.region_bytes));
	CHECK_EQ(s->bytes, braid_stack_bytes(SLOTS, FRAMES));
	good = *s;
	s->offset = sb.sections[BRAID_SECTION_RINGS].offset;
	CHECK(braid_region_check(&sb, params.region_bytes));
	s->offset = sb.sections[BRAID_SECTION_DIRECTORY].offset;
	CHECK(braid_region_check(&sb, params.region_bytes));
	s->offset = good.offset + 8;
	CHECK(braid_region_check(&sb, params.region_bytes));
	s->offset = good.offset;
	s->bytes = UINT64_MAX - 4095;
	CHECK(braid_region_check(&sb, params.region_bytes));
	s->bytes = sizeof(struct braid_stack_table) - 1;
	CHECK(braid_region_check(&sb, params.region_bytes));
	s->bytes = 0;
	CHECK(braid_region_check(&sb, params.region_bytes));
	s->offset = 0;
	CHECK(!braid_region_check(&sb, params.region_bytes));
	params.nr_stacks = 0;
	CHECK_EQ(braid_region_layout(&sb, &params, &needed), 0);
	CHECK_EQ(s->offset, 0);
}

/* Records -------------------------------------------------------------------------------- */

static const char format[] =
	"name: stack\nID: 40\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
	"\tfield:unsigned int kernel;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:unsigned int user;\toffset:12;\tsize:4;\tsigned:0;\n"
	"\tfield:__data_loc u64[] stack;\toffset:16;\tsize:4;\tsigned:0;\n"
	"\tfield:__data_loc u64[] user_stack;\toffset:20;\tsize:4;\tsigned:0;\n\n"
	"print fmt: \"%s%s%s\", __get_dynamic_array_len(stack) ? \"\" : \"unknown\", __get_stacktrace(stack), __get_stacktrace(user_stack)\n";

static struct braid_capture_writer *writer;
static struct synth_guest guest;

static void put_record(u32 kernel, u32 user, u32 bytes)
{
	const struct {
		struct braid_record head;
		u32 kernel, user, stack, user_stack, more;
	} record = {
		.head = { .common_type = 40, .common_pid = 100 }, .kernel = kernel, .user = user,
		.stack = 28, .user_stack = 28,
	};

	guest.now += 1000;
	NEED(synth_event(&guest, 0, &record, bytes));
}

/* Stacks of the first numbers are in the capture; forged ones are left out. */
static void put_stacks(void)
{
	u64 words[] = {
		1 | 2ULL << 32, START, 0x1234,
		2 | 1ULL << 32, START + 5,
		1 | 1ULL << 32, 0x9999,		/* the number is in use */
		0 | 1ULL << 32, 0x9999,		/* none has this number: the rest is left out */
		3 | 1ULL << 32, 0x9999,
	};
	u64 longer[] = { 4 | (BRAID_STACK_FRAMES + 1ULL) << 32, START };
	u64 cut[] = { 5 | 2ULL << 32, START };
	u64 late[] = { 6 | 1ULL << 32, START };

	NEED(!braid_capture_put(writer, BRAID_CHUNK_STACKS, 1, NULL, 0, words, sizeof(words)));
	NEED(!braid_capture_put(writer, BRAID_CHUNK_STACKS, 1, NULL, 0, longer, sizeof(longer)));
	NEED(!braid_capture_put(writer, BRAID_CHUNK_STACKS, 1, NULL, 0, cut, sizeof(cut)));
	NEED(!braid_capture_put(writer, BRAID_CHUNK_STACKS, 1, NULL, 0, late, sizeof(late)));
}

static void make(const char *path)
{
	static const struct synth_guest_params params = {
		.name = "guest", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 64, .subbuf_bytes = 4096,
	};
	u32 id;

	writer = synth_capture(path);
	synth_guest_init(&guest, &params);
	synth_begin(writer, &guest, 1);
	synth_sample(writer, &guest, 100, 100);
	synth_format(writer, 40, "tracebraid", "stack", format);
	for (id = 0; id < 8; id++)
		put_record(id, id == 2, 28);
	put_record(1, 0, 24);
	put_record(1, 0, 8);		/* too short for its format */
	put_stacks();
	synth_drain(writer, &guest, 0);
	synth_end(writer, &guest, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(writer));
	synth_guest_free(&guest);
}

/* Known numbers become frames, before or after the record; others are unknown, and print so. */
static void records(void)
{
	char path[] = "/tmp/tracebraid-stack-XXXXXX", *text, *json;
	int fd = mkstemp(path);

	NEED(fd >= 0);
	close(fd);
	make(path);
	text = report_text(path, false, NULL, NULL);
	json = report_text(path, true, NULL, NULL);
	/* 1 (twice), 2 with 1 as the user's, and 6. */
	CHECK_EQ(count_of(text, "\n => start\n => 0x1234"), 3);
	CHECK_EQ(count_of(text, "\n => start\n => start\n => 0x1234\n"), 1);
	CHECK_EQ(count_of(text, "unknown"), 5);
	CHECK_EQ(count_of(text, "0x9999"), 0);
	CHECK_EQ(count_of(json, "\"kernel\":1,\"user\":0,\"stack\":[18446744071578845200,4660],\"user_stack\":[]"), 2);
	CHECK_EQ(count_of(json, "\"kernel\":2,\"user\":1,\"stack\":[18446744071578845205],"
				"\"user_stack\":[18446744071578845200,4660]"), 1);
	CHECK_EQ(count_of(json, " => start => 0x1234\""), 3);
	CHECK_EQ(count_of(json, "\"stack\":[]"), 5);
	if (check_failures)
		fprintf(stderr, "%s%s", text, json);
	free(text);
	free(json);
	unlink(path);
}

int main(void)
{
	RUN(slots);
	RUN(shapes);
	RUN(sections);
	RUN(records);
	return VERDICT();
}
