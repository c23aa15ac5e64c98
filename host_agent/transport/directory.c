// SPDX-License-Identifier: GPL-2.0-or-later
/* Copies a guest's event directory, and keeps what makes sense of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/transport/directory.h"
#include "host_agent/util/error.h"

struct load_call {
	const struct braid_directory *shared;
	struct braid_directory_copy *copy;
	u32 from;
	u32 room;
	u32 used;
};

static int load_words(void *arg)
{
	struct load_call *call = arg;

	call->copy->generation = braid_load_acquire(&call->shared->generation);	/* (D2) */
	call->copy->nr_reused = braid_load(&call->shared->nr_reused);
	call->used = braid_load_acquire(&call->shared->bytes_used);	/* (D1) */
	return 0;
}

/* Cuts a copy to the entries that are ones. */
static void validate(struct braid_directory_copy *copy)
{
	struct braid_schema_event event;
	u32 at = 0;
	int ret;

	while ((ret = braid_schema_next(copy->data, copy->bytes, &at, &event)) > 0)
		;
	copy->damaged |= ret < 0;
	copy->bytes = at;
}

static int load_generation(void *arg)
{
	struct load_call *call = arg;

	call->copy->generation = braid_load_acquire(&call->shared->generation);	/* (D2) */
	return 0;
}

int braid_directory_generation(u64 *generation, const struct braid_mapping *m,
			       const struct braid_superblock *sb)
{
	struct braid_directory_copy copy = { .data = NULL };
	struct load_call call = {
		.shared = braid_mapping_section(m, sb, BRAID_SECTION_DIRECTORY),
		.copy = &copy,
	};
	int err = braid_guard_run(m->base, m->bytes, load_generation, &call);

	if (!err)
		*generation = copy.generation;
	return err;
}

int braid_directory_load(struct braid_directory_copy *copy, const struct braid_mapping *m,
			 const struct braid_superblock *sb, u32 from)
{
	u64 room = sb->sections[BRAID_SECTION_DIRECTORY].bytes - sizeof(struct braid_directory);
	struct load_call call = {
		.shared = braid_mapping_section(m, sb, BRAID_SECTION_DIRECTORY),
		.copy = copy,
		.from = from,
		.room = room < 1u << 31 ? room : 1u << 31,
	};
	int err;

	memset(copy, 0, sizeof(*copy));
	err = braid_guard_run(m->base, m->bytes, load_words, &call);
	if (err)
		return err;
	copy->damaged = call.used > call.room || call.used < from || from & 7;
	if (call.used > call.room)
		call.used = call.room;
	copy->bytes = copy->damaged && call.used < from ? 0 : call.used - from;
	copy->data = malloc(copy->bytes + 8);
	if (!copy->data)
		return braid_fail(-ENOMEM, "%s: no memory for %u bytes of event directory", m->path,
				  copy->bytes);
	err = braid_guard_copy(m->base, m->bytes, copy->data, call.shared->data + from,
			       copy->bytes);
	if (err) {
		braid_directory_free(copy);
		return err;
	}
	validate(copy);
	return 0;
}

void braid_directory_free(struct braid_directory_copy *copy)
{
	free(copy->data);
	copy->data = NULL;
	copy->bytes = 0;
}

struct braid_event_count braid_directory_count(const struct braid_directory_copy *copy)
{
	struct braid_event_count count = { 0 };
	struct braid_schema_event event;
	u32 at = 0;

	while (braid_schema_next(copy->data, copy->bytes, &at, &event) > 0) {
		if (event.flags & BRAID_EVENT_GONE)
			continue;
		if (event.flags & BRAID_EVENT_SUB) {
			count.subevents++;
			continue;
		}
		count.total++;
		count.on += !!(event.flags & (BRAID_EVENT_GUEST_ON | BRAID_EVENT_HOST_ON));
		count.host_on += !!(event.flags & BRAID_EVENT_HOST_ON);
	}
	return count;
}
