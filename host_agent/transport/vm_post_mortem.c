// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes a private copy of the regions that guests have in the memory of a VMM, or in its core. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_agent/transport/post_mortem.h"
#include "host_agent/transport/region_copy.h"
#include "host_agent/transport/vm_core.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/transport/vm_ring.h"
#include "host_agent/transport/vm_search.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "shared/region.h"

#define STEP_BYTES	(1ULL << 20)
#define BEATS		3	/* times BRAID_POLL_MS: a running guest changes its region */

/* Reads a region, page by page where a step lacks one. Return: how many pages are missing. */
static u64 vm_post_mortem_read(struct braid_vm_memory *vm,
			       const struct braid_vm_region *region, u8 *to)
{
	u64 at, step, missing = 0, page, bytes;

	for (at = 0; at < region->bytes; at += step) {
		step = region->bytes - at < STEP_BYTES ? region->bytes - at : STEP_BYTES;
		if (!braid_vm_region_read(vm, region, at, to + at, step))
			continue;
		for (page = at; page < at + step; page += bytes) {
			bytes = at + step - page < BRAID_PAGE_BYTES ? at + step - page :
								      BRAID_PAGE_BYTES;
			if (!braid_vm_region_read(vm, region, page, to + page, bytes))
				continue;
			memset(to + page, 0, bytes);
			missing++;
		}
	}
	return missing;
}

/* A private copy of a region as it is now. Return: NULL with braid_fail(). */
static struct braid_mapping *vm_post_mortem_copy(struct braid_vm_memory *vm,
						 const struct braid_vm_region *region,
						 const char *path, u64 *missing)
{
	struct braid_mapping *m = braid_mapping_private(region->bytes, path);

	if (m)
		*missing = vm_post_mortem_read(vm, region, m->base);
	return m;
}

/* Whether the guest runs: it changes its region. Return: 0 or 1, or -ENOMEM with braid_fail(). */
static int vm_post_mortem_runs(struct braid_vm_memory *vm,
			       const struct braid_vm_region *region,
			       const struct braid_mapping *before)
{
	const struct timespec step = { .tv_nsec = BRAID_POLL_MS * 1000000 };
	struct braid_mapping *after;
	bool same = true;
	u64 missing;
	int k;

	for (k = 0; k < BEATS && same; k++) {
		nanosleep(&step, NULL);
		after = vm_post_mortem_copy(vm, region, before->path, &missing);
		if (!after)
			return -ENOMEM;
		same = !memcmp(before->base, after->base, region->bytes);
		braid_mapping_close(after);
	}
	return !same;
}

/* Turns in which a ring is copied whole. */
static u32 vm_post_mortem_turns(const struct braid_mapping *m)
{
	struct braid_superblock sb;
	u32 most = 0, k;

	if (braid_mapping_probe(m, &sb, true))
		return 0;
	for (k = 0; k < sb.nr_buffers; k++)
		if (sb.buffers[k].nr_rings && sb.buffers[k].nr_slots > most)
			most = sb.buffers[k].nr_slots;
	return most / BRAID_VM_RING_WINDOW + 1;
}

/* A running guest is followed until all that its rings had is copied and proven. */
static int vm_post_mortem_follow(struct braid_post_mortem_region *to, pid_t pid, const char *path)
{
	struct braid_vm_mirror *mirror;
	int err = braid_vm_mirror_open(&mirror, pid, path, NULL);
	u32 turns;

	if (err)
		return err;
	to->mapping = braid_vm_mirror_mapping(mirror);
	to->running = true;
	for (turns = vm_post_mortem_turns(to->mapping); turns; turns--)
		braid_vm_mirror_pull(mirror);
	braid_vm_mirror_settle(mirror);
	braid_vm_mirror_close(mirror);
	to->mapping->one_way = false;	/* like other copies */
	return 0;
}

/* A guest that stands still: its region is exact, half written events aside. */
static int vm_post_mortem_take(struct braid_post_mortem_region *to, struct braid_mapping *from)
{
	bool running;
	int err = braid_region_copy(&to->mapping, from, &running);

	braid_mapping_close(from);
	return err;
}

/* Return: 0, also when it is no region; or -errno with braid_fail(). */
static int vm_post_mortem_add(struct braid_post_mortem_regions *regions,
			      struct braid_vm_memory *vm,
			      const struct braid_vm_region *region, const char *path)
{
	struct braid_post_mortem_region found = { .pages = region->bytes / BRAID_PAGE_BYTES };
	struct braid_superblock sb;
	struct braid_mapping *m;
	int err, runs;

	if (braid_vm_region_read(vm, region, 0, &sb, sizeof(sb)) ||
	    braid_region_check(&sb, region->bytes) || sb.state == BRAID_STATE_INIT)
		return 0;
	m = vm_post_mortem_copy(vm, region, path, &found.missing_pages);
	if (!m)
		return -ENOMEM;
	runs = sb.state != BRAID_STATE_LIVE || vm->core >= 0 ? 0 :
								vm_post_mortem_runs(vm, region, m);
	if (runs) {
		braid_mapping_close(m);
		err = runs < 0 ? runs : vm_post_mortem_follow(&found, vm->pid, path);
		found.missing_pages = 0;
	} else {
		err = vm_post_mortem_take(&found, m);
	}
	if (err)
		return err;
	if (!braid_array_push(regions->items, regions->nr, regions->capacity, found))
		return 0;
	braid_mapping_close(found.mapping);
	return braid_out_of_memory();
}

/* @nr_incomplete: set to the regions of which chunks are missing */
static int vm_post_mortem_find(struct braid_post_mortem_regions *regions,
			       struct braid_vm_memory *vm, const char *path, u32 *nr_incomplete)
{
	struct braid_vm_region found[BRAID_VM_REGIONS];
	struct braid_vm_search search;
	int err = braid_vm_search(vm, found, &search);
	u32 k;

	*nr_incomplete = search.nr_incomplete;
	for (k = 0; !err && k < search.nr_regions; k++)
		err = vm_post_mortem_add(regions, vm, &found[k], path);
	return err;
}

int braid_post_mortem_open_vm(struct braid_post_mortem_regions *regions, pid_t pid,
			      const char *path)
{
	size_t before = regions->nr;
	struct braid_vm_memory vm;
	int err = braid_vm_memory_open(&vm, pid);
	u32 nr_incomplete = 0;

	if (err)
		return err;
	err = vm_post_mortem_find(regions, &vm, path, &nr_incomplete);
	braid_vm_memory_close(&vm);
	if (!err && regions->nr == before)
		err = braid_fail(-ENOENT, "%s: no region in the guest's memory%s", path,
				 nr_incomplete ? ": some of its chunks are missing" : "");
	return err;
}

/* Core files ---------------------------------------------------------------------------------- */

static int vm_post_mortem_progress(void *arg, u64 done, u64 total)
{
	const struct braid_post_mortem_options *o = arg;

	if (o->progress)
		o->progress(o->progress_arg, "searching", done, total);
	return 0;
}

/* At the usual places, then at each page. */
static int vm_post_mortem_find_core(struct braid_post_mortem_regions *regions,
				    struct braid_vm_memory *vm, const char *path,
				    const struct braid_post_mortem_options *o, u32 *nr_incomplete)
{
	size_t before = regions->nr;
	int err = vm_post_mortem_find(regions, vm, path, nr_incomplete);

	if (err || regions->nr > before)
		return err;
	err = braid_vm_search_whole(vm, vm_post_mortem_progress, (void *)o);
	return err ? err : vm_post_mortem_find(regions, vm, path, nr_incomplete);
}

int braid_post_mortem_open_core(struct braid_post_mortem_regions *regions, int fd,
				const char *path, const struct braid_post_mortem_options *o)
{
	size_t before = regions->nr;
	struct braid_vm_memory vm;
	u32 nr_incomplete = 0;
	int err = braid_vm_core_open(&vm, fd, &regions->cut_off);

	if (err)
		return err;
	err = vm_post_mortem_find_core(regions, &vm, path, o, &nr_incomplete);
	braid_vm_memory_close(&vm);
	if (!err && regions->nr == before)
		err = braid_fail(-ENOENT, regions->cut_off ?
				 "%s: this core is truncated; what is left has no complete region" :
				 nr_incomplete ?
				 "%s: this core lacks some chunks of the guest's region" :
				 "%s: no region in this core: the guest's driver was not loaded, or the core has no guest memory (dump-guest-core=off, as libvirt sets it); use `virsh dump --memory-only`, or `tracebraid recover pid:PID` while the VMM runs",
				 path);
	return err;
}
