// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds regions in a dump: their superblocks, and the place of the rest. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/transport/beacon.h"
#include "host_agent/transport/dump.h"
#include "host_agent/transport/post_mortem.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "shared/region.h"

#define CHUNKS_MOST	1024u	/* that the driver announces */
#define MOST_FOUND	65536u	/* superblocks, and lists: more are forged */
#define MOST_TRIED	64u	/* lists of one region */
#define MOST_TIMES	4u	/* the dump's size: regions that a liar lays over one another */

/*
 * What may be a list of a region's chunks: the announcement that the driver keeps in its memory, or
 * the first beacon of a region that is in the guest's own.
 */
struct list {
	u64 first;		/* address of its first chunk, without a beacon */
	u64 address;		/* of the list */
	u32 nr_chunks;
	bool beacon;
};

struct scan {
	struct braid_dump *dump;
	const char *path;
	const struct braid_post_mortem_options *o;
	u64 *superblocks;	/* their addresses */
	size_t nr_superblocks;
	size_t superblocks_capacity;
	u64 there_bytes;	/* in the dump */
	struct list *lists;
	size_t nr_lists;
	size_t lists_capacity;
};

/* Placement of a region's bytes in the guest's memory. */
struct place {
	struct braid_virtio_chunk chunks[CHUNKS_MOST];
	u32 nr_chunks;
};

/* The search ---------------------------------------------------------------------------- */

static bool can_be_chunk(const struct braid_virtio_chunk *chunk)
{
	u64 address = le64toh(chunk->address), bytes = le64toh(chunk->bytes);

	return bytes && bytes <= BRAID_REGION_MAX_BYTES &&
	       !((address | bytes) & (BRAID_PAGE_BYTES - 1));
}

/* The driver's memory is aligned to 8 bytes at least; a chunk after the page is looked up. */
static int find_lists(struct scan *s, u64 address, const u64 *page)
{
	const u32 words = BRAID_PAGE_BYTES / 8;
	struct braid_virtio_chunk chunk;
	u32 k;

	for (k = 0; k < words; k++) {
		u64 word = le64toh(page[k]);	/* struct braid_virtio_control */
		struct list list = { .address = address + 8 * k, .nr_chunks = word >> 32 };

		if ((u32)word != BRAID_VIRTIO_ANNOUNCE || !list.nr_chunks ||
		    list.nr_chunks > CHUNKS_MOST)
			continue;
		if (k + 2 < words)
			memcpy(&chunk, &page[k + 1], sizeof(chunk));
		else if (braid_dump_read(s->dump, list.address + 8, &chunk, sizeof(chunk)))
			continue;
		list.first = le64toh(chunk.address);
		if (!can_be_chunk(&chunk) || s->nr_lists >= MOST_FOUND)
			continue;
		if (braid_array_push(s->lists, s->nr_lists, s->lists_capacity, list))
			return braid_fail(-ENOMEM, "%s: out of memory", s->path);
	}
	return 0;
}

/* Chunk 0's beacon. The page after it has the superblock. */
static int find_beacon(struct scan *s, u64 address, const struct braid_beacon *beacon)
{
	struct list list = {
		.first = address + beacon->page_bytes, .address = address, .beacon = true,
	};

	if (braid_beacon_check(beacon) || beacon->index || beacon->address != address ||
	    s->nr_lists >= MOST_FOUND)
		return 0;
	return braid_array_push(s->lists, s->nr_lists, s->lists_capacity, list) ?
	       braid_fail(-ENOMEM, "%s: out of memory", s->path) : 0;
}

static int search(struct scan *s)
{
	u64 end = braid_dump_end_address(s->dump), address = 0;
	u64 page[BRAID_PAGE_BYTES / 8];
	int err = 0;

	while (!err && braid_dump_next(s->dump, &address, page)) {
		if (page[0] == BRAID_MAGIC && s->nr_superblocks < MOST_FOUND &&
		    braid_array_push(s->superblocks, s->nr_superblocks, s->superblocks_capacity,
				     address))
			err = braid_fail(-ENOMEM, "%s: out of memory", s->path);
		if (!err)
			err = page[0] == BRAID_BEACON_MAGIC ?
				find_beacon(s, address, (void *)page) :
				find_lists(s, address, page);
		if (s->o->progress)
			s->o->progress(s->o->progress_arg, "searching", address, end);
		s->there_bytes += BRAID_PAGE_BYTES;
		address += BRAID_PAGE_BYTES;
		if (!address)
			break;
	}
	return err;
}

/* Placement of a region ------------------------------------------------------------------- */

/* Copies bytes of a region; returns how many pages are missing. */
static u64 read_region(struct scan *s, const struct place *place, u64 offset, void *to, u64 bytes)
{
	u64 missing = 0, at = 0, chunk_bytes, extent;
	u32 k;

	for (k = 0; k < place->nr_chunks && bytes; at += chunk_bytes, k++) {
		chunk_bytes = le64toh(place->chunks[k].bytes);
		if (offset - at >= chunk_bytes)
			continue;
		extent = chunk_bytes - (offset - at);
		if (extent > bytes)
			extent = bytes;
		missing += braid_dump_read(s->dump, le64toh(place->chunks[k].address) + offset - at,
					   to, extent);
		to = (u8 *)to + extent;
		offset += extent;
		bytes -= extent;
	}
	return missing;
}

/*
 * Counts rings at the places that the superblock gives: only a true region repeats the incarnation
 * so often.
 */
static u64 count_rings(struct scan *s, const struct place *place, const struct braid_superblock *sb)
{
	struct braid_ring_private priv;
	u64 found = 0;
	u32 k, vcpu;

	for (k = 0; k < sb->nr_buffers; k++) {
		const struct braid_buffer_desc *desc = &sb->buffers[k];

		for (vcpu = 0; vcpu < desc->nr_rings; vcpu++) {
			memset(&priv, 0, sizeof(priv));
			read_region(s, place, braid_ring_offset(desc, vcpu) +
				    (desc->private_bytes ? 0 : BRAID_OLD_PRIVATE_OFFSET),
				    &priv, sizeof(priv));
			found += priv.incarnation == sb->incarnation && priv.buffer == k &&
				 priv.vcpu == vcpu;
		}
	}
	return found;
}

/*
 * Each chunk that is in the dump has its beacon: a set is complete, or it is dead, as after a
 * reset. Return: whether this is.
 */
static bool load_beacons(struct scan *s, const struct list *list,
			 const struct braid_superblock *sb, struct place *place)
{
	struct braid_beacon first, beacon;
	u32 k;

	if (braid_dump_read(s->dump, list->address, &first, sizeof(first)) ||
	    braid_beacon_check(&first) || first.index || first.region_bytes < sb->region_bytes)
		return false;
	place->nr_chunks = first.nr_chunks;
	for (k = 0; k < first.nr_chunks; k++) {
		const struct braid_beacon_chunk *chunk = &first.chunks[k];

		if (!braid_dump_read(s->dump, chunk->address, &beacon, sizeof(beacon)) &&
		    (braid_beacon_check(&beacon) || !braid_beacon_is_chunk(&beacon, &first, k)))
			return false;
		place->chunks[k] = (struct braid_virtio_chunk){
			htole64(chunk->address + first.page_bytes),
			htole64(chunk->bytes - first.page_bytes),
		};
	}
	return true;
}

/* Reads a list's chunks; false when they can't be this region's. */
static bool load_list(struct scan *s, const struct list *list, const struct braid_superblock *sb,
		      struct place *place)
{
	u64 sum = 0;
	u32 k;

	if (list->beacon)
		return load_beacons(s, list, sb, place);
	if (braid_dump_read(s->dump, list->address + sizeof(struct braid_virtio_control),
			    place->chunks, list->nr_chunks * sizeof(*place->chunks)))
		return false;
	place->nr_chunks = list->nr_chunks;
	for (k = 0; k < place->nr_chunks; k++) {
		if (!can_be_chunk(&place->chunks[k]))
			return false;
		sum += le64toh(place->chunks[k].bytes);
	}
	return sum == sb->region_bytes;
}

/*
 * A region is contiguous (an ivshmem device's memory), or where a list says: the driver's
 * own, or an old one that was freed. The rings decide; after a beacon, a list of beacons alone.
 * Returns how many were found.
 */
static u64 find_place(struct scan *s, u64 address, const struct braid_superblock *sb,
		      struct place *best)
{
	struct place place = { .nr_chunks = 1 };
	u32 tried = 0;
	u64 most, found;
	size_t k;

	place.chunks[0] = (struct braid_virtio_chunk){ htole64(address), htole64(sb->region_bytes) };
	*best = place;
	most = count_rings(s, best, sb);
	for (k = 0; k < s->nr_lists; k++)
		if (s->lists[k].first == address && s->lists[k].beacon)
			most = 0;
	for (k = 0; k < s->nr_lists && tried < MOST_TRIED; k++) {
		if (s->lists[k].first != address || !load_list(s, &s->lists[k], sb, &place))
			continue;
		tried++;
		found = count_rings(s, &place, sb);
		if (found <= most)
			continue;
		most = found;
		*best = place;
	}
	return most;
}

/* Regions ------------------------------------------------------------------------------- */

static int add_region(struct scan *s, struct braid_post_mortem_regions *regions, u64 address,
		      const struct braid_superblock *sb, const struct place *place)
{
	struct braid_post_mortem_region region = {
		.address = address,
		.pages = (sb->region_bytes + BRAID_PAGE_BYTES - 1) / BRAID_PAGE_BYTES,
		.mapping = braid_mapping_private(sb->region_bytes, s->path),
	};

	if (!region.mapping)
		return -ENOMEM;
	region.missing_pages = read_region(s, place, 0, region.mapping->base, sb->region_bytes);
	if (!braid_array_push(regions->items, regions->nr, regions->capacity, region))
		return 0;
	braid_mapping_close(region.mapping);
	return braid_fail(-ENOMEM, "%s: out of memory", s->path);
}

static int take_regions(struct scan *s, struct braid_post_mortem_regions *regions)
{
	braid_auto_free struct place *place = malloc(sizeof(*place));
	u64 budget_bytes = s->there_bytes * MOST_TIMES;
	struct braid_superblock sb;
	int err = 0;
	size_t k;

	if (!place)
		return braid_fail(-ENOMEM, "%s: out of memory", s->path);
	for (k = 0; k < s->nr_superblocks && !err; k++) {
		if (braid_dump_read(s->dump, s->superblocks[k], &sb, sizeof(sb)) ||
		    braid_region_check(&sb, budget_bytes) || sb.state == BRAID_STATE_INIT)
			continue;	/* other bytes, or a driver at its start */
		budget_bytes -= sb.region_bytes;
		if (find_place(s, s->superblocks[k], &sb, place))
			err = add_region(s, regions, s->superblocks[k], &sb, place);
		else
			regions->unplaced++;
	}
	return err;
}

int braid_dump_open(struct braid_post_mortem_regions *regions, int fd, const char *path,
		    const struct braid_post_mortem_options *o)
{
	struct scan s = { .path = path, .o = o };
	size_t before = regions->nr;
	int err;

	err = braid_dump_begin(&s.dump, fd, o->folder, path, &regions->cut_off);
	if (!err)
		err = search(&s);
	if (!err)
		regions->cut_off |= braid_dump_claims_more(s.dump);
	if (!err)
		err = take_regions(&s, regions);
	if (!err && regions->nr == before)
		err = braid_fail(-ENOENT, regions->unplaced ?
				 "%s: this dump has a region's first page but not its rings: dump all memory (makedumpfile -d 1, not -d 31)" :
				 "%s: no region in this dump: the driver may not have been loaded; a guest's own kdump does not contain ivshmem memory, which is a file on the host",
				 path);
	braid_dump_end(s.dump);
	free(s.superblocks);
	free(s.lists);
	return err;
}
