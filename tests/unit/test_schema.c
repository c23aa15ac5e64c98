// SPDX-License-Identifier: GPL-2.0-or-later
/* The event directory: append, walk, and refuse invalid entries. */
#include "shared/schema.h"
#include "tests/unit/check.h"

static union {
	struct braid_directory dir;
	u8 bytes[4096];
} u;
static u32 used;

#define ROOM	(sizeof(u) - sizeof(u.dir))

static int append(u16 id, const char *system, const char *name, const char *format)
{
	struct braid_schema_event ev = {
		.id = id, .system = system, .name = name, .format = format,
	};

	return braid_schema_append(&u.dir, ROOM, &used, &ev);
}

static void fill(void)
{
	memset(&u, 0, sizeof(u));
	used = 0;
	CHECK_EQ(append(7, "sched", "sched_switch", "name: sched_switch\n"), 0);
	CHECK_EQ(append(8, "irq", "x", ""), 0);
}

static void round_trip(void)
{
	struct braid_schema_event ev;
	u32 at = 0;

	fill();
	CHECK_EQ(u.dir.bytes_used, used);
	CHECK_EQ(u.dir.nr_entries, 2);
	CHECK_EQ(braid_schema_next(u.dir.data, used, &at, &ev), 1);
	CHECK_EQ(ev.id, 7);
	CHECK(!strcmp(ev.system, "sched") && !strcmp(ev.name, "sched_switch"));
	CHECK(!strcmp(ev.format, "name: sched_switch\n"));
	braid_schema_set_flags(&u.dir, ev.offset, BRAID_EVENT_HOST_ON);
	CHECK_EQ(braid_schema_next(u.dir.data, used, &at, &ev), 1);
	CHECK_EQ(ev.format_bytes, 0);
	CHECK_EQ(braid_schema_next(u.dir.data, used, &at, &ev), 0);
	at = 0;
	braid_schema_next(u.dir.data, used, &at, &ev);
	CHECK_EQ(ev.flags, BRAID_EVENT_HOST_ON);
}

static void reuse(void)
{
	struct braid_schema_event ev, again = { .id = 7, .system = "sched", .name = "sched_switch",
						.format = "name: sched_switch\n" };
	u32 at = 0, before;

	fill();
	before = used;
	CHECK_EQ(braid_schema_next(u.dir.data, used, &at, &ev), 1);
	CHECK_EQ(ev.bytes, at);
	braid_schema_set_flags(&u.dir, ev.offset, BRAID_EVENT_GONE);
	CHECK(braid_schema_same(&u.dir, ev.offset, ev.bytes, &again));
	CHECK(!braid_schema_same(&u.dir, ev.offset, ev.bytes + 8, &again));
	again.format = "name: sched_switcH\n";
	CHECK(!braid_schema_same(&u.dir, ev.offset, ev.bytes, &again));
	again.format = "name: sched_switch\n";
	again.flags = BRAID_EVENT_HOST_ON;
	braid_schema_reuse(&u.dir, ev.offset, ev.bytes, &again);
	CHECK_EQ(again.offset, ev.offset);
	CHECK_EQ(again.format_bytes, ev.format_bytes);
	CHECK_EQ(u.dir.nr_reused, 1);
	CHECK_EQ(u.dir.generation, 4);
	CHECK_EQ(used, before);
	at = 0;
	CHECK_EQ(braid_schema_next(u.dir.data, used, &at, &ev), 1);
	CHECK_EQ(ev.flags, BRAID_EVENT_HOST_ON);
}

static void full(void)
{
	int k = 0, err;
	u32 before;

	fill();
	do {
		before = used;
		err = append(9, "a", "b", "0123456789012345678901234567890123456789");
	} while (!err && ++k < 1000);
	CHECK_EQ(err, -ENOSPC);
	CHECK_EQ(used, before);
	CHECK(k > 10);
}

/* Each byte of an entry's header, set to each value: an error or a valid entry, in bounds. */
static void every_byte(void)
{
	struct braid_schema_event ev;
	u8 copy[256];
	u32 k, v, at;

	fill();
	for (k = 0; k < sizeof(struct braid_dir_entry) + 24; k++) {
		for (v = 0; v < 256; v++) {
			memcpy(copy, u.dir.data, used);
			copy[k] = v;
			at = 0;
			while (braid_schema_next(copy, used, &at, &ev) > 0) {
				CHECK(ev.format + ev.format_bytes < (char *)copy + used);
				CHECK_EQ(strlen(ev.format), ev.format_bytes);
			}
		}
	}
}

static void sub_events(void)
{
	struct braid_schema_event ev = {
		.id = 7, .number = 0xdeadbeef, .system = "a", .name = "sub", .format = "",
		.flags = BRAID_EVENT_SUB | 4u << BRAID_SUB_BYTES_SHIFT | 8u << BRAID_SUB_OFFSET_SHIFT,
	}, found;
	u32 at = 0;

	fill();
	CHECK_EQ(braid_schema_append(&u.dir, ROOM, &used, &ev), 0);
	while (braid_schema_next(u.dir.data, used, &at, &found) > 0)
		CHECK_EQ(found.number, found.flags & BRAID_EVENT_SUB ? 0xdeadbeef : 0);
	CHECK_EQ(found.flags, ev.flags);
	CHECK_EQ(at, used);
}

int main(void)
{
	RUN(round_trip);
	RUN(reuse);
	RUN(full);
	RUN(sub_events);
	RUN(every_byte);
	return VERDICT();
}
