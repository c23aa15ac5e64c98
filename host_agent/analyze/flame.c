// SPDX-License-Identifier: GPL-2.0-or-later
/* Folded stacks as a tree of frames, of which the narrowest can be combined. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/flame.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define OTHERS	"[others]"

/* Names -------------------------------------------------------------------------------------- */

struct name_key {
	const char *text;
	size_t bytes;
};

static bool flame_same_name(const void *in, u32 number, const void *key)
{
	const struct braid_flame *f = in;
	const struct braid_flame_name *name = &f->names[number];
	const struct name_key *k = key;

	return name->bytes == k->bytes && !memcmp(f->texts.data + name->at, k->text, k->bytes);
}

/* Return: 0 or -ENOMEM. */
static int flame_number_name(struct braid_flame *f, const char *text, size_t bytes, u32 *number)
{
	const struct name_key key = { text, bytes };
	struct braid_flame_name name = { .at = f->texts.bytes, .bytes = bytes };
	u32 hash = braid_hash_of(text, bytes, 0);

	*number = braid_hash_find(&f->by_name, hash, flame_same_name, f, &key);
	if (*number != BRAID_HASH_NONE)
		return 0;
	*number = f->nr_names;
	braid_text_put(&f->texts, text, bytes);
	braid_text_putc(&f->texts, '\0');
	if (f->texts.failed || braid_hash_reserve(&f->by_name, UINT32_MAX / 4) ||
	    braid_array_push(f->names, f->nr_names, f->names_capacity, name))
		return -ENOMEM;
	braid_hash_put(&f->by_name, hash, *number);
	return 0;
}

/* Frames ------------------------------------------------------------------------------------- */

static bool flame_same_frame(const void *in, u32 number, const void *key)
{
	const struct braid_flame_frame *a = &((const struct braid_flame_frame *)in)[number];
	const struct braid_flame_frame *b = key;

	return a->parent == b->parent && a->name == b->name;
}

/* The frame of a name below @parent. Return: 0 or -ENOMEM. */
static int flame_number_frame(struct braid_flame *f, struct braid_hash *by_place, u32 parent,
			      u32 name, u32 *number)
{
	const struct braid_flame_frame frame = { .parent = parent, .name = name };
	u32 hash = braid_hash_of_number((u64)parent << 32 | name);

	*number = braid_hash_find(by_place, hash, flame_same_frame, f->frames, &frame);
	if (*number != BRAID_HASH_NONE)
		return 0;
	*number = f->nr;
	if (braid_hash_reserve(by_place, UINT32_MAX / 4) ||
	    braid_array_push(f->frames, f->nr, f->capacity, frame))
		return -ENOMEM;
	braid_hash_put(by_place, hash, *number);
	return 0;
}

/* @end: of the stack, where its weight begins. Return: 0 or -ENOMEM. */
static int flame_add_stack(struct braid_flame *f, struct braid_hash *by_place, const char *at,
			   const char *end, u64 ns)
{
	u32 frame = BRAID_FLAME_ROOT, name;
	const char *next;
	int err = 0;

	for (; at < end && !err; at = next + 1) {
		next = memchr(at, ';', end - at) ?: end;
		err = flame_number_name(f, at, next - at, &name);
		if (!err)
			err = flame_number_frame(f, by_place, frame, name, &frame);
		if (!err)
			f->frames[frame].total_ns += ns;
	}
	if (!err && frame != BRAID_FLAME_ROOT) {
		f->frames[frame].own_ns += ns;
		f->total_ns += ns;
	}
	return err;
}

static int flame_add_all(struct braid_flame *f, struct braid_hash *by_place,
			 const struct braid_text *folded)
{
	const char *at = folded->data, *end = at + folded->bytes, *line, *space;
	int err = 0;

	for (; at < end && !err; at = line + 1) {
		line = memchr(at, '\n', end - at) ?: end;
		space = memrchr(at, ' ', line - at);
		if (space)
			err = flame_add_stack(f, by_place, at, space, strtoull(space, NULL, 10));
	}
	return err;
}

/* Combining ---------------------------------------------------------------------------------- */

static int flame_by_width(const void *a, const void *b, void *frames)
{
	const struct braid_flame_frame *all = frames;
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return braid_compare(all[y].total_ns, all[x].total_ns) ?: braid_compare(x, y);
}


/*
 * The @most widest frames stay. A frame is at least as wide as its children, and precedes them: so
 * the parents of frames that stay do. @order: all, the widest first. @of: scratch space: what is
 * where a frame was. @others: by the frame that stays; the last one: of the first frames.
 */
static int flame_combine_into(struct braid_flame *f, const u32 *order, u32 most, u32 *of,
			      u32 *others)
{
	struct braid_flame_frame *was = f->frames, rest = { .nr_combined = 0 };
	size_t nr = f->nr, k;
	u32 *at;
	int err = flame_number_name(f, OTHERS, strlen(OTHERS), &rest.name);

	f->frames = NULL;
	f->nr = f->capacity = 0;
	memset(of, 0xff, nr * sizeof(*of));
	memset(others, 0xff, (nr + 1) * sizeof(*others));
	for (k = 0; k < most; k++)
		of[order[k]] = 0;
	for (k = 0; k < nr && !err; k++) {
		if (of[k])
			continue;
		of[k] = f->nr;
		if (was[k].parent != BRAID_FLAME_ROOT)
			was[k].parent = of[was[k].parent];
		err = braid_array_push(f->frames, f->nr, f->capacity, was[k]);
	}
	for (k = 0; k < nr && !err; k++) {
		if (of[k] < most)
			continue;
		rest.parent = was[k].parent == BRAID_FLAME_ROOT ? BRAID_FLAME_ROOT :
			      of[was[k].parent];
		if (rest.parent != BRAID_FLAME_ROOT && rest.parent >= most) {
			of[k] = rest.parent;	/* within others */
			f->frames[of[k]].nr_combined++;
			continue;
		}
		at = &others[rest.parent == BRAID_FLAME_ROOT ? nr : rest.parent];
		if (*at == BRAID_FLAME_ROOT) {
			*at = f->nr;
			err = braid_array_push(f->frames, f->nr, f->capacity, rest);
			if (err)
				break;
		}
		of[k] = *at;
		f->frames[*at].own_ns += was[k].total_ns;
		f->frames[*at].total_ns += was[k].total_ns;
		f->frames[*at].nr_combined++;
	}
	free(was);
	return err;
}

static int flame_combine(struct braid_flame *f, u32 most)
{
	u32 *order = calloc(f->nr, sizeof(*order)), *of = calloc(f->nr, sizeof(*of));
	u32 *others = calloc(f->nr + 1, sizeof(*others)), k;
	int err = order && of && others ? 0 : -ENOMEM;

	for (k = 0; k < f->nr && !err; k++)
		order[k] = k;
	if (!err) {
		qsort_r(order, f->nr, sizeof(*order), flame_by_width, f->frames);
		err = flame_combine_into(f, order, most, of, others);
	}
	free(order);
	free(of);
	free(others);
	return err;
}

/* -------------------------------------------------------------------------------------------- */

int braid_flame_make(struct braid_flame *f, const struct braid_text *folded, u32 most)
{
	struct braid_hash by_place = { 0 };
	int err = flame_add_all(f, &by_place, folded);

	braid_hash_free(&by_place);
	if (!err && f->nr > most)
		err = flame_combine(f, most);
	return err ? braid_out_of_memory() : 0;
}

const char *braid_flame_name(const struct braid_flame *f, const struct braid_flame_frame *frame)
{
	return f->texts.data + f->names[frame->name].at;
}

void braid_flame_free(struct braid_flame *f)
{
	braid_hash_free(&f->by_name);
	braid_text_free(&f->texts);
	free(f->frames);
	free(f->names);
}
