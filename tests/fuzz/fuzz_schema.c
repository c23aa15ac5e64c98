// SPDX-License-Identifier: GPL-2.0-or-later
/* The event directory's decoder over arbitrary bytes; accepted entries survive a round trip. */
#include "shared/schema.h"
#include "tests/fuzz/fuzz.h"

static void same(const struct braid_schema_event *a, const struct braid_schema_event *b)
{
	MUST_EQ(a->flags, b->flags);
	MUST_EQ(a->id, b->id);
	MUST_EQ(a->buffer, b->buffer);
	MUST_EQ(a->number, b->number);
	MUST(!strcmp(a->system, b->system));
	MUST(!strcmp(a->name, b->name));
	MUST(!strcmp(a->format, b->format));
	MUST_EQ(a->format_bytes, b->format_bytes);
}

/* A string and its NUL are within the bytes. */
static void lies_inside(const u8 *data, u32 bytes, const char *text)
{
	MUST((const u8 *)text >= data && (const u8 *)text < data + bytes);
	MUST(memchr(text, 0, data + bytes - (const u8 *)text));
}

/* All entries, appended to a directory of @room bytes, are read back unchanged. */
static void round_trip(const u8 *data, u32 bytes, u32 room)
{
	struct braid_directory *dir = calloc(1, sizeof(*dir) + room);
	struct braid_schema_event event, copy;
	u32 at = 0, used = 0, back = 0, n = 0;

	while (braid_schema_next(data, bytes, &at, &event) > 0) {
		u32 before = used;

		copy = event;
		if (braid_schema_append(dir, room, &used, &copy)) {
			MUST_EQ(used, before);
			break;
		}
		MUST(used <= room);
		MUST_EQ(dir->bytes_used, used);
		MUST_EQ(dir->nr_entries, ++n);
		MUST_EQ(copy.offset, before);
		braid_schema_set_flags(dir, copy.offset, ~event.flags);
		MUST(braid_schema_next(dir->data, used, &back, &copy) == 1);
		MUST_EQ(copy.flags, ~event.flags);
		copy.flags = event.flags;
		same(&event, &copy);
	}
	MUST(braid_schema_next(dir->data, used, &back, &copy) == 0);
	free(dir);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };
	u32 room = fuzz_take(&in, 2), at = 0, before = 0;
	struct braid_schema_event event;
	u8 *copy = fuzz_rest(&in);
	int ret;

	while ((ret = braid_schema_next(copy, in.left, &at, &event)) > 0) {
		MUST(at > before && at <= in.left && !(at & 7));
		MUST_EQ(event.offset, before);
		MUST(event.id);
		lies_inside(copy, at, event.system);
		lies_inside(copy, at, event.name);
		lies_inside(copy, at, event.format);
		MUST_EQ(strlen(event.format), event.format_bytes);
		before = at;
	}
	MUST(ret == 0 ? at >= in.left : ret == -EBADMSG);
	MUST_EQ(at, before);
	round_trip(copy, in.left, room);
	free(copy);
	return 0;
}
