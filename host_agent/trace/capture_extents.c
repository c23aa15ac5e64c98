// SPDX-License-Identifier: GPL-2.0-or-later
/* Extents in blocks. The first one of a block is coded by itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_extents.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/varint.h"

#define FIRST_BYTES	256u	/* of a block in memory; it doubles up to */
#define MOST_BYTES	65536u

struct braid_extent_block {
	struct braid_extent_block *next;
	struct braid_index_place place;	/* offset 0: in memory; else the INDEX chunk */
	struct braid_extent before;	/* what the next one differs from, in memory */
	u32 used;
	u32 allocated;
	bool closed;			/* none are added */
	char *data;			/* NULL: in the file */
};

#define NO_TYPES	UINT32_MAX	/* of this block any more */

static struct braid_extent_block *add_block(struct braid_extents *list)
{
	struct braid_extent_block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	if (list->last)
		list->last->next = block;
	else
		list->first = block;
	list->last = block;
	return block;
}

/* The block that the next extent goes to, with enough memory for it. */
static struct braid_extent_block *block_for(struct braid_extents *list, u32 file, u64 ns)
{
	struct braid_extent_block *block = list->last;
	u32 allocated;
	char *grown;

	if (!block || block->closed || MOST_BYTES - block->used < BRAID_PLACE_BYTES) {
		block = add_block(list);
		if (!block)
			return NULL;
		block->before.file = block->place.file = file;
		block->place.ns = ns;
	}
	if (block->allocated - block->used >= BRAID_PLACE_BYTES)
		return block;
	allocated = block->allocated ? 2 * block->allocated : FIRST_BYTES;
	grown = realloc(block->data, allocated);
	if (!grown)
		return NULL;
	block->data = grown;
	block->allocated = allocated;
	return block;
}

int braid_extents_add(struct braid_extents *list, const struct braid_extent *extent, u64 ns,
		      bool latest)
{
	struct braid_extent_block *block = block_for(list, extent->file, ns);

	if (!block)
		return -ENOMEM;
	block->used = braid_extent_put(block->data + block->used, &block->before, extent) -
		      block->data;
	block->before = *extent;
	block->place.nr++;
	if (latest && ns > block->place.ns)
		block->place.ns = ns;
	list->latest = *extent;
	list->nr++;
	return 0;
}

bool braid_extents_seal(struct braid_extents *list, const struct braid_index_place *place,
			const void *data, u32 bytes)
{
	struct braid_extent_block *block = list->last;

	if (!block || block->closed)
		return false;
	block->closed = true;
	if (block->used != bytes || memcmp(block->data, data, bytes) ||
	    block->place.nr != place->nr || block->place.ns != place->ns ||
	    block->place.file != place->file)
		return false;
	block->place = *place;
	free(block->data);
	block->data = NULL;
	return true;
}

int braid_extents_add_block(struct braid_extents *list, const struct braid_index_place *place)
{
	struct braid_extent_block *block = add_block(list);

	if (!block)
		return -ENOMEM;
	block->place = *place;
	block->closed = true;
	list->nr += place->nr;
	return 0;
}

static void forget_loaded(struct braid_extents *list)
{
	free(list->loaded_data);
	free(list->loaded_types);
	list->loaded_data = NULL;
	list->loaded_types = NULL;
	list->loaded = NULL;
}

/* A block's bytes. Return: how many, or -errno. */
static s64 bytes_of(struct braid_extents *list, const struct braid_extent_block *block,
		    const char **data)
{
	s64 n;

	*data = block->data;
	if (block->data)
		return block->used;
	if (list->loaded != block) {
		forget_loaded(list);
		n = list->read(list->arg, &block->place, &list->loaded_data, &list->loaded_types);
		if (n < 0)
			return n;
		list->loaded_bytes = n;
		list->loaded = block;
	}
	*data = list->loaded_data;
	return list->loaded_bytes;
}

/* Where a cursor at the end of a block goes on. */
static const struct braid_extent_block *block_after(const struct braid_extents *list,
						    const struct braid_extent_cursor *c)
{
	return !c->block ? list->first : c->nr_in_block < c->block->place.nr ? c->block : c->block->next;
}

/* The number of the extent that the cursor has come to. */
static void take_types(const struct braid_extents *list, struct braid_extent_cursor *c)
{
	const struct braid_extents_types *types = NULL;

	if (list->loaded == c->block)
		types = list->loaded_types;
	c->types = BRAID_TYPES_READ;
	if (!types || c->types_at == NO_TYPES) {
		c->types_at = NO_TYPES;
		return;
	}
	c->types_at = braid_varint_take(types->numbers + c->types_at, &c->types) - types->numbers;
}

int braid_extents_next(struct braid_extents *list, struct braid_extent_cursor *c)
{
	const struct braid_extent_block *block = block_after(list, c);
	const char *data, *end;
	s64 n;

	if (!block)
		return 0;
	if (block != c->block) {
		c->block = block;
		c->at = c->types_at = c->nr_in_block = 0;
		c->extent = (struct braid_extent){ .file = block->place.file };
	}
	n = bytes_of(list, block, &data);
	if (n < 0)
		return n;
	end = c->at <= n ? braid_extent_take(data + c->at, data + n, &c->extent) : NULL;
	if (!end)
		return braid_fail(-EBADMSG, "the capture changed while it was read");
	c->at = end - data;
	take_types(list, c);
	c->nr_in_block++;
	c->nr++;
	return 1;
}

bool braid_extents_skip(const struct braid_extents *list, struct braid_extent_cursor *c, u64 ns,
			bool first)
{
	const struct braid_extent_block *block = block_after(list, c), *target = NULL;
	size_t nr = c->nr, target_nr = 0;

	while (block && (first ? block->next && block->next->place.ns < ns : block->place.ns < ns)) {
		if (block != c->block) {
			target = block;
			target_nr = nr;
		}
		nr += block->place.nr - (block == c->block ? c->nr_in_block : 0);
		block = block->next;
	}
	if (!target)
		return false;
	*c = (struct braid_extent_cursor){
		.block = target, .nr = target_nr, .extent.file = target->place.file,
	};
	return true;
}

bool braid_extents_has_beginning(struct braid_extents *list, struct braid_extent_cursor c)
{
	const struct braid_extent_block *block = c.block;

	while (braid_extents_next(list, &c) > 0 && c.block == block)
		if (!c.extent.from_bytes)
			return true;
	return false;
}

#define FEW_STARTS	64u	/* of which none is looked at before they are found */

/* A place to begin at, and the extent there. */
struct start {
	struct braid_extent_cursor at;
	struct braid_extent extent;
};

/*
 * Those of the present block and the next one, up to one that is not before; @out is the caller's
 * to free. Memory is that of what is found, not of the number that the index states. Return: how
 * many, or -ENOMEM with braid_fail().
 */
static ssize_t find_starts(struct braid_extents *list, struct braid_extent_cursor c,
			   bool (*before)(void *arg, const struct braid_extent *extent),
			   bool (*begins)(const struct braid_extent *extent), void *arg,
			   struct start **out)
{
	const struct braid_extent_block *block = block_after(list, &c), *stop;
	struct braid_extent_cursor at = c;
	size_t nr = 0, capacity = 0;

	if (!block)
		return 0;
	stop = block->next ? block->next->next : NULL;
	for (; braid_extents_next(list, &c) > 0 && c.block != stop; at = c) {
		struct start start = { at, c.extent };

		if (!begins(&c.extent))
			continue;
		if (braid_array_push(*out, nr, capacity, start))
			return braid_out_of_memory();
		if (nr >= FEW_STARTS && !(nr & (nr - 1)) && !before(arg, &c.extent))
			break;
	}
	return nr;
}

int braid_extents_skip_near(struct braid_extents *list, struct braid_extent_cursor *c,
			    bool (*before)(void *arg, const struct braid_extent *extent),
			    bool (*begins)(const struct braid_extent *extent), void *arg)
{
	struct start *starts = NULL;
	ssize_t nr = find_starts(list, *c, before, begins, arg, &starts), k;
	bool moved;

	if (nr < 0) {
		free(starts);
		return nr;
	}
	braid_array_first(k, nr, !before(arg, &starts[k].extent));
	moved = k >= 2 && starts[k - 2].at.nr != c->nr;
	if (moved)
		*c = starts[k - 2].at;
	free(starts);
	return moved;
}

const struct braid_index_place *braid_extents_block(const struct braid_extents *list,
						    const struct braid_index_place *place)
{
	const struct braid_extent_block *block = list->first;

	if (place)
		block = ((const struct braid_extent_block *)
			 ((const char *)place - offsetof(struct braid_extent_block, place)))->next;
	return block ? &block->place : NULL;
}

static void free_block(struct braid_extent_block *block)
{
	free(block->data);
	free(block);
}

void braid_extents_forget(struct braid_extents *list, const struct braid_extent_cursor *c)
{
	struct braid_extent_block *next;

	while (c->nr && list->first != c->block) {
		next = list->first->next;
		if (list->loaded == list->first)	/* a later block may get its address */
			list->loaded = NULL;
		free_block(list->first);
		list->first = next;
	}
}

int braid_extents_sort(struct braid_extents *list,
		       int (*compare)(const void *a, const void *b, void *arg), void *arg)
{
	struct braid_extents sorted = { .read = list->read, .arg = list->arg };
	struct braid_extent_cursor c = { 0 };
	size_t k = 0, nr = list->nr;
	struct braid_extent *all;
	int err = 0;

	if (!nr)
		return 0;
	all = reallocarray(NULL, nr, sizeof(*all));
	if (!all)
		return -ENOMEM;
	while (k < nr && (err = braid_extents_next(list, &c)) > 0)
		all[k++] = c.extent;
	if (err >= 0)
		qsort_r(all, k, sizeof(*all), compare, arg);
	err = err < 0 ? err : 0;
	for (nr = 0; nr < k && !err; nr++)
		err = braid_extents_add(&sorted, &all[nr], ~0ULL, false);
	free(all);
	if (err) {
		braid_extents_free(&sorted);
		return err;
	}
	braid_extents_free(list);
	*list = sorted;
	return 0;
}

void braid_extents_free(struct braid_extents *list)
{
	struct braid_extent_block *block, *next;

	for (block = list->first; block; block = next) {
		next = block->next;
		free_block(block);
	}
	forget_loaded(list);
	memset(list, 0, sizeof(*list));
}
