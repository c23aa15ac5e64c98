// SPDX-License-Identifier: GPL-2.0-or-later
/* Looks for beacons where they can be, and makes regions of those that belong together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/transport/beacon.h"
#include "host_agent/transport/vm_search.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "shared/region.h"

#define STEP	((u64)BRAID_BEACON_STEP)
#define PARTS	8u		/* of a guest's memory, that a small chunk is looked for in */

/* A valid beacon: what it is looked up by. */
struct seen {
	u64 at;				/* in the process */
	u64 nonce;
	u64 address;			/* guest-physical */
	u32 index;
};

struct look {
	struct braid_vm_memory *vm;
	struct braid_vm_search *search;
	struct seen *seen;		/* room for BRAID_VM_BEACONS */
	u64 addresses[BRAID_VM_WORDS];
	size_t nr;			/* of these */
	int err;			/* the process can't be read any more */
};

/* Where a region was found in a process that the usual places do not include. */
static struct {
	struct place {
		pid_t pid;
		u64 phase;		/* of a chunk's address: the remainder of STEP */
	} *items;
	size_t nr, capacity;
} places;

/* A private copy of a beacon. Return: 0; -EBADMSG: it is none; or as braid_vm_memory_read(). */
static int vm_search_fetch(struct braid_vm_memory *vm, u64 at, struct braid_beacon *beacon)
{
	int err = braid_vm_memory_read(vm, at, beacon, sizeof(*beacon));

	return err ? err : braid_beacon_check(beacon) ? -EBADMSG : 0;
}

/* Likewise. After a failure that would repeat itself, none is read any more. */
static bool vm_search_has(struct look *look, u64 at, struct braid_beacon *beacon)
{
	int err = look->err ? look->err : vm_search_fetch(look->vm, at, beacon);

	if (err && err != -EBADMSG && err != -ENODATA && err != -EFAULT)
		look->err = err;
	return !err;
}

static void vm_search_note(struct look *look, u64 at)
{
	struct braid_vm_search *search = look->search;
	struct braid_beacon beacon;

	if (search->nr_beacons == BRAID_VM_BEACONS)
		return;
	if (!vm_search_has(look, at, &beacon)) {
		search->nr_invalid++;
		return;
	}
	look->seen[search->nr_beacons++] = (struct seen){
		.at = at, .nonce = beacon.nonce, .address = beacon.address, .index = beacon.index,
	};
}

static void vm_search_flush(struct look *look)
{
	u64 words[BRAID_VM_WORDS];
	size_t k;

	if (!look->err)
		look->err = braid_vm_memory_words(look->vm, look->addresses, words, look->nr);
	for (k = 0; k < look->nr && !look->err; k++)
		if (words[k] == BRAID_BEACON_MAGIC)
			vm_search_note(look, look->addresses[k]);
	look->nr = 0;
}

/* All addresses of a mapping with this remainder that have room for a chunk. */
static void vm_search_steps(struct look *look, const struct braid_vm_mapping *mapping, u64 phase,
			    u64 room)
{
	u64 at = mapping->start + (phase - mapping->start) % STEP;

	for (; !look->err && at < mapping->end && mapping->end - at >= room; at += STEP) {
		look->addresses[look->nr++] = at;
		if (look->nr == BRAID_VM_WORDS)
			vm_search_flush(look);
	}
}

/* A mapping of a guest's memory begins at a multiple of 2 MiB of the guest, or its file does. */
static void vm_search_mapping(struct look *look, const struct braid_vm_mapping *mapping)
{
	u64 begin = mapping->start % STEP, file = (mapping->start - mapping->offset) % STEP;
	size_t k;

	vm_search_steps(look, mapping, 0, STEP);
	if (begin)
		vm_search_steps(look, mapping, begin, STEP);
	if (mapping->inode && file && file != begin)
		vm_search_steps(look, mapping, file, STEP);
	for (k = 0; k < places.nr; k++)
		if (places.items[k].pid == look->vm->pid)
			vm_search_steps(look, mapping, places.items[k].phase,
					sizeof(struct braid_beacon));
	vm_search_flush(look);
}

/* A chunk at its distance from another one, in the same mapping; 0: not there. */
static u64 vm_search_beside(struct braid_vm_memory *vm, u64 other_at,
			    const struct braid_beacon_chunk *other,
			    const struct braid_beacon_chunk *chunk)
{
	u64 at = other_at + (chunk->address - other->address);
	const struct braid_vm_mapping *mapping = braid_vm_memory_mapping(vm, at, chunk->bytes);

	return mapping && mapping == braid_vm_memory_mapping(vm, other_at, other->bytes) ? at : 0;
}

static bool vm_search_confirms(struct look *look, u64 at, const struct braid_beacon *first,
			       u32 index)
{
	struct braid_beacon beacon;

	return at && vm_search_has(look, at, &beacon) &&
	       braid_beacon_is_chunk(&beacon, first, index);
}

/*
 * Beside one of the chunks before it; 0: beside none. A guest's memory has a few parts, each with a
 * mapping, or in one mapping with a distance from the guest's addresses: NUMA nodes, a hole.
 */
static u64 vm_search_beside_any(struct look *look, const struct braid_vm_region *region,
				const struct braid_beacon *first, u32 index)
{
	const struct braid_vm_mapping *mapping, *last = NULL;
	u64 distance, last_distance = 0, at;
	u32 k, tries = 0;

	for (k = 0; k < index && tries < PARTS; k++) {
		mapping = braid_vm_memory_mapping(look->vm, region->chunks[k].at, 1);
		distance = region->chunks[k].at - first->chunks[k].address;
		if (mapping == last && distance == last_distance)
			continue;
		last = mapping;
		last_distance = distance;
		tries++;
		at = vm_search_beside(look->vm, region->chunks[k].at, &first->chunks[k],
				      &first->chunks[index]);
		if (vm_search_confirms(look, at, first, index))
			return at;
	}
	return 0;
}

/*
 * Where a listed chunk is, as its own beacon confirms; 0: nowhere. The guest may have copies of
 * its pages elsewhere: what lies at the right distance goes first.
 */
static u64 vm_search_place(struct look *look, u64 first_at, const struct braid_beacon *first,
			   const struct braid_vm_region *region, u32 index)
{
	const struct braid_beacon_chunk *chunk = &first->chunks[index];
	u64 at = vm_search_beside(look->vm, first_at, &first->chunks[0], chunk);
	const struct seen *seen = look->seen;
	u32 k;

	if (vm_search_confirms(look, at, first, index))
		return at;
	at = 0;
	for (k = 0; k < look->search->nr_beacons && !at; k++, seen++)
		if (seen->nonce == first->nonce && seen->index == index &&
		    seen->address == chunk->address &&
		    braid_vm_memory_mapping(look->vm, seen->at, chunk->bytes))
			at = seen->at;
	return vm_search_confirms(look, at, first, index) ?
	       at : vm_search_beside_any(look, region, first, index);
}

static bool vm_search_complete(struct look *look, u64 first_at,
			       struct braid_vm_region *region)
{
	struct braid_beacon first;
	u64 offset = 0;
	u32 k;

	if (!vm_search_has(look, first_at, &first) || first.index)
		return false;
	memset(region, 0, sizeof(*region));
	region->nonce = first.nonce;
	region->bytes = first.region_bytes;
	region->page_bytes = first.page_bytes;
	region->nr_chunks = first.nr_chunks;
	for (k = 0; k < first.nr_chunks; k++) {
		region->chunks[k].offset = offset;
		region->chunks[k].bytes = first.chunks[k].bytes;
		offset += first.chunks[k].bytes - first.page_bytes;
		region->chunks[k].at = vm_search_place(look, first_at, &first, region,
							 k);
		if (!region->chunks[k].at)
			return false;
	}
	return true;
}

/* Whether this region was found already: a VMM may map a guest's memory twice. */
static bool vm_search_known(const struct braid_vm_region *regions, u32 nr, u64 nonce)
{
	u32 k;

	for (k = 0; k < nr; k++)
		if (regions[k].nonce == nonce)
			return true;
	return false;
}

static void vm_search_regions(struct look *look, struct braid_vm_region *regions)
{
	struct braid_vm_search *search = look->search;
	u32 k, tries = 0;

	for (k = 0; k < search->nr_beacons && tries < BRAID_VM_TRIES &&
	     search->nr_regions < BRAID_VM_REGIONS && !look->err; k++) {
		const struct seen *seen = &look->seen[k];

		if (seen->index || vm_search_known(regions, search->nr_regions, seen->nonce))
			continue;
		tries++;
		if (vm_search_complete(look, seen->at, &regions[search->nr_regions]))
			search->nr_regions++;
		else
			search->nr_incomplete++;
	}
}

int braid_vm_search(struct braid_vm_memory *vm, struct braid_vm_region *regions,
		    struct braid_vm_search *search)
{
	braid_auto_free struct seen *seen = calloc(BRAID_VM_BEACONS, sizeof(*seen));
	struct look look = { .vm = vm, .search = search, .seen = seen };
	size_t k;

	if (!seen)
		return braid_out_of_memory();
	memset(search, 0, sizeof(*search));
	for (k = 0; k < vm->nr_mappings && !look.err; k++)
		vm_search_mapping(&look, &vm->mappings[k]);
	vm_search_regions(&look, regions);
	return look.err ? braid_vm_memory_refused(vm->pid, look.err) : 0;
}

/* Each page ---------------------------------------------------------------------------------- */

/* Keeps where a chunk is. Return: 0, or -ENOMEM with braid_fail(). */
static int vm_search_keep(pid_t pid, u64 at)
{
	const struct place place = { pid, at % STEP };
	size_t k, nr = 0;

	for (k = 0; k < places.nr; k++) {
		if (places.items[k].pid != pid)
			continue;
		if (places.items[k].phase == place.phase)
			return 0;
		nr++;
	}
	if (nr == BRAID_VM_PLACES)
		return 0;
	return braid_array_push(places.items, places.nr, places.capacity, place) ?
	       braid_out_of_memory() : 0;
}

/* A copy of a beacon, as of a dump in the guest's page cache, has no superblock behind it. */
static int vm_search_keep_regions(struct look *look)
{
	struct braid_vm_region region;
	struct braid_superblock sb;
	u32 k, i, tries = 0;
	int err = 0;

	for (k = 0; k < look->search->nr_beacons && tries < BRAID_VM_TRIES && !look->err; k++) {
		if (look->seen[k].index)
			continue;
		tries++;
		if (!vm_search_complete(look, look->seen[k].at, &region) ||
		    braid_vm_region_read(look->vm, &region, 0, &sb, sizeof(sb)) ||
		    braid_region_check(&sb, region.bytes))
			continue;
		for (i = 0; i < region.nr_chunks && !err; i++)
			err = vm_search_keep(look->vm->pid, region.chunks[i].at);
	}
	return err;
}

static void vm_search_pages(struct look *look, const struct braid_vm_mapping *mapping, u64 *at)
{
	u64 addresses[BRAID_VM_SCAN], words[BRAID_VM_SCAN];
	size_t nr, k;

	look->err = braid_vm_memory_scan(look->vm, at, mapping->end, addresses, words, &nr);
	for (k = 0; k < nr && !look->err; k++)
		if (words[k] == BRAID_BEACON_MAGIC)
			vm_search_note(look, addresses[k]);
}

int braid_vm_search_whole(struct braid_vm_memory *vm, braid_vm_search_step *step, void *arg)
{
	braid_auto_free struct seen *seen = calloc(BRAID_VM_BEACONS, sizeof(*seen));
	struct braid_vm_search search = { 0 };
	struct look look = { .vm = vm, .search = &search, .seen = seen };
	u64 total = 0, done = 0, at;
	size_t k;
	int err = 0;

	if (!seen)
		return braid_out_of_memory();
	for (k = 0; k < vm->nr_mappings; k++)
		total += vm->mappings[k].end - vm->mappings[k].start;
	for (k = 0; k < vm->nr_mappings; k++) {
		at = vm->mappings[k].start;
		while (at < vm->mappings[k].end && !look.err && !err) {
			done -= at;
			vm_search_pages(&look, &vm->mappings[k], &at);
			done += at;
			err = step(arg, done, total);
		}
	}
	if (!err)
		err = vm_search_keep_regions(&look);
	return err ? err : look.err ? braid_vm_memory_refused(vm->pid, look.err) : 0;
}

/* Regions ------------------------------------------------------------------------------------ */

size_t braid_vm_region_parts(const struct braid_vm_region *region, u64 offset, void *to, u64 bytes,
			     struct braid_vm_part *parts)
{
	u32 low = 0, high = region->nr_chunks, middle;
	u64 within, room;
	size_t nr = 0;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (region->chunks[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	for (; bytes; low++, nr++) {
		within = region->page_bytes + (offset - region->chunks[low].offset);
		room = region->chunks[low].bytes - within;
		parts[nr] = (struct braid_vm_part){
			region->chunks[low].at + within, to, bytes < room ? bytes : room,
		};
		offset += parts[nr].bytes;
		to = (u8 *)to + parts[nr].bytes;
		bytes -= parts[nr].bytes;
	}
	return nr;
}

int braid_vm_region_read(struct braid_vm_memory *vm, const struct braid_vm_region *region,
			 u64 offset, void *to, u64 bytes)
{
	struct braid_vm_part parts[BRAID_BEACON_CHUNKS + 1];

	if (offset > region->bytes || bytes > region->bytes - offset)
		return -EINVAL;
	return braid_vm_memory_parts(vm, parts,
				     braid_vm_region_parts(region, offset, to, bytes, parts));
}

bool braid_vm_region_holds(struct braid_vm_memory *vm, const struct braid_vm_region *region)
{
	struct braid_beacon beacon;
	u32 k;

	for (k = 0; k < region->nr_chunks; k++)
		if (vm_search_fetch(vm, region->chunks[k].at, &beacon) ||
		    beacon.nonce != region->nonce || beacon.index != k)
			return false;
	return true;
}
