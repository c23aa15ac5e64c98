// SPDX-License-Identifier: GPL-2.0-or-later
/* Checks all that can be checked of a live region, and prints each fault in one line. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/live/account.h"
#include "host_agent/transport/directory.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

#define IDS		65536u
#define CALM_TRIES	16
#define KNOWN_FLAGS	(BRAID_EVENT_GUEST_ON | BRAID_EVENT_HOST_ON | BRAID_EVENT_GONE | \
			 BRAID_EVENT_SUB | BRAID_SUB_BYTES_MASK << BRAID_SUB_BYTES_SHIFT | \
			 0xffffu << BRAID_SUB_OFFSET_SHIFT)

struct verify {
	const struct braid_mapping *m;
	struct braid_superblock sb;
	u8 known[BRAID_MAX_BUFFERS][IDS / 8];	/* ids that the directory has */
	u32 buffer;				/* of the ring being walked */
	bool in_ring;
	u64 faults;
	u64 events;
	u64 slots[2][BRAID_MAX_SLOTS];		/* copies of the ring's slot table */
	u64 unlisted;				/* events whose id the directory lacks */
	u32 nr_rings;
	u32 nr_ids;
};

__attribute__((__format__(printf, 2, 3)))
static void fault(struct verify *v, const char *format, ...)
{
	va_list args;

	/* A ring removed meanwhile: findings there are not faults. */
	if (v->in_ring && braid_mapping_buffers_seq(v->m) != v->sb.buffers_seq)
		return;
	v->faults++;
	fputs("fault: ", stdout);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

static void verify_directory(struct verify *v)
{
	struct braid_directory_copy copy;
	struct braid_schema_event event;
	u32 at = 0;

	if (braid_directory_load(&copy, v->m, &v->sb, 0)) {
		fault(v, "event directory: %s", braid_failure());
		return;
	}
	if (copy.damaged)
		fault(v, "event directory: byte %u does not begin a valid entry", copy.bytes);
	while (braid_schema_next(copy.data, copy.bytes, &at, &event) > 0) {
		u8 *byte, bit = 1u << (event.id & 7);

		if (braid_schema_is_text(&event))
			continue;
		if (event.buffer >= v->sb.nr_buffers) {
			fault(v, "event directory: id %u refers to nonexistent buffer %u",
			      event.id, event.buffer);
			continue;
		}
		byte = &v->known[event.buffer][event.id / 8];
		if (!(event.flags & BRAID_EVENT_SUB)) {
			v->nr_ids += !(*byte & bit);
			*byte |= bit;
		} else if (!(*byte & bit)) {
			fault(v, "event directory: sub-event %u refers to nonexistent id %u",
			      event.number, event.id);
		}
		if (event.flags & ~KNOWN_FLAGS)
			fault(v, "event directory: id %u has unknown flags 0x%x", event.id,
			      event.flags);
	}
	braid_directory_free(&copy);
}

static void verify_event(void *arg, const struct braid_event_view *view)
{
	struct verify *v = arg;
	struct braid_record record;

	if (view->type != BRAID_TYPE_DATA)
		return;
	v->events++;
	if (v->sb.buffers[v->buffer].flags & BRAID_BUFFER_RAW)
		return;
	if (view->payload_bytes < sizeof(record)) {
		v->unlisted++;
		return;
	}
	memcpy(&record, view->payload, sizeof(record));
	if (!(v->known[v->sb.buffers[v->buffer].events_of][record.common_type / 8] & 1u << (record.common_type & 7)))
		v->unlisted++;
}

static void copy_slots(const struct braid_ring_map *map, u64 *to)
{
	u32 k;

	for (k = 0; k < map->nr_slots; k++)
		to[k] = braid_load_acquire(&map->slots[k]);
}

/* Each sub-buffer is in one slot, or in the reader's hand. */
static void verify_slots(struct verify *v, const struct braid_ring_map *map, u32 vcpu)
{
	u8 seen[BRAID_MAX_SLOTS / 8 + 1] = { 0 };
	u32 n = map->nr_slots, k, twice = 0;
	int tries;

	/* An agent that swaps meanwhile moves ids about: only a calm table can be judged. */
	copy_slots(map, v->slots[0]);
	for (tries = 0; tries < CALM_TRIES; tries++) {
		copy_slots(map, v->slots[(tries + 1) & 1]);
		if (!memcmp(v->slots[0], v->slots[1], n * sizeof(u64)))
			break;
	}
	for (k = 0; k < n; k++) {
		u64 word = v->slots[0][k];
		u32 id = braid_slot_id(word);

		if (id > n || braid_slot_state(word) > BRAID_SLOT_OPEN ||
		    (braid_slot_position(word) & (n - 1)) != k) {
			fault(v, "buffer %u vCPU %u: slot %u holds an invalid 0x%llx", v->buffer,
			      vcpu, k, (unsigned long long)word);
			continue;
		}
		twice += seen[id / 8] >> (id & 7) & 1;
		seen[id / 8] |= 1u << (id & 7);
	}
	if (twice && tries < CALM_TRIES)
		fault(v, "buffer %u vCPU %u: sub-buffers in two slots: %u", v->buffer, vcpu, twice);
}

/* Words that never change. */
static void verify_meta(struct verify *v, const struct braid_ring_map *map, u32 vcpu)
{
	const struct braid_meta *meta = map->meta;
	const struct braid_ring_private *priv = map->priv;
	u32 n = map->nr_slots;

	if (braid_load(&meta->meta_page_size) != v->sb.buffers[v->buffer].meta_bytes ||
	    braid_load(&meta->meta_struct_len) != sizeof(*meta) ||
	    braid_load(&meta->subbuf_size) != map->subbuf_bytes ||
	    braid_load(&meta->nr_subbufs) != n + 1)
		fault(v, "buffer %u vCPU %u: the meta page's sizes differ from the superblock's",
		      v->buffer, vcpu);
	if (braid_load(&priv->incarnation) != v->sb.incarnation ||
	    braid_load(&priv->vcpu) != vcpu || braid_load(&priv->buffer) != v->buffer ||
	    braid_load(&priv->nr_slots) != n)
		fault(v, "buffer %u vCPU %u: the ring identifies itself as another one", v->buffer, vcpu);
}

static void check_ring(struct verify *v, u32 vcpu)
{
	struct braid_ring_account a;
	struct braid_ring_map map;

	braid_mapping_ring(v->m, &v->sb, v->buffer, vcpu, &map);
	verify_meta(v, &map, vcpu);
	verify_slots(v, &map, vcpu);
	if (braid_ring_account(&a, &map, v->m, v->sb.incarnation, verify_event, v))
		fault(v, "buffer %u vCPU %u: %s", v->buffer, vcpu, braid_failure());
	else if (*a.fault)
		fault(v, "buffer %u vCPU %u: %s", v->buffer, vcpu, a.fault);
}

/* Repeats while buffers are added or removed meanwhile. */
static void verify_ring(struct verify *v, u32 vcpu)
{
	u64 events = v->events, unlisted = v->unlisted;
	int tries;

	for (tries = 0; tries < BRAID_MOVE_TRIES && vcpu < v->sb.buffers[v->buffer].nr_rings; tries++) {
		v->events = events;
		v->unlisted = unlisted;
		v->in_ring = true;
		check_ring(v, vcpu);
		v->in_ring = false;
		if (braid_mapping_buffers_seq(v->m) == v->sb.buffers_seq) {
			v->nr_rings++;
			return;
		}
		braid_mapping_buffers(v->m, &v->sb);
	}
	if (tries == BRAID_MOVE_TRIES)
		fault(v, "buffer %u vCPU %u: the guest keeps changing its buffers", v->buffer,
		      vcpu);
}

static int verify_rings(void *arg)
{
	struct verify *v = arg;
	u32 vcpu;

	for (v->buffer = 0; v->buffer < v->sb.nr_buffers; v->buffer++) {
		if (braid_mapping_buffers_seq(v->m) != v->sb.buffers_seq)
			braid_mapping_buffers(v->m, &v->sb);	/* removal meanwhile is not a
								   fault */
		for (vcpu = 0; vcpu < v->sb.buffers[v->buffer].nr_rings; vcpu++)
			verify_ring(v, vcpu);
	}
	return 0;
}

int braid_verify_region(const char *path)
{
	braid_auto_free struct verify *v = calloc(1, sizeof(*v));
	struct braid_mapping *m = NULL;
	int err;

	if (!v) {
		braid_out_of_memory();
		return braid_complain();
	}
	err = braid_mapping_open(&m, path, false);
	if (!err)
		err = braid_mapping_identify(m, &v->sb);
	if (err) {
		braid_mapping_close(m);
		return braid_complain();
	}
	v->m = m;
	verify_directory(v);
	if (braid_guard_run(m->base, m->bytes, verify_rings, v))
		fault(v, "%s", braid_failure());
	if (v->unlisted)
		fault(v, "%llu event%s no entry in the event directory", (unsigned long long)v->unlisted,
		      v->unlisted == 1 ? " has" : "s have");
	braid_mapping_close(m);
	if (v->faults)
		printf("%s: %llu fault%s\n", path, (unsigned long long)v->faults,
		       v->faults == 1 ? "" : "s");
	else
		printf("%s: valid: superblock, sections, %u event%s in the directory, %u ring%s, %llu unread event%s\n",
		       path, v->nr_ids, v->nr_ids == 1 ? "" : "s", v->nr_rings,
		       v->nr_rings == 1 ? "" : "s", (unsigned long long)v->events,
		       v->events == 1 ? "" : "s");
	return v->faults || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
