/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A flame graph: folded stacks as a tree of frames.
 *
 * - A frame's parent precedes it. Each frame's time is its own and that of its children, to the ns.
 * - Of frames beyond a limit the narrowest are combined, at most one for each parent.
 */
#ifndef BRAID_ANALYZE_FLAME_H
#define BRAID_ANALYZE_FLAME_H

#include "host_agent/util/hash.h"
#include "host_agent/util/text.h"

#define BRAID_FLAME_ROOT	UINT32_MAX	/* the parent of the first frames */

struct braid_flame_frame {
	u32 parent;		/* or BRAID_FLAME_ROOT */
	u32 name;		/* in names */
	u64 own_ns;		/* without its children */
	u64 total_ns;
	u32 nr_combined;	/* 0: it is a frame; else it stands for so many below the parent */
};

/* Zeroed: empty. */
struct braid_flame {
	struct braid_flame_frame *frames;
	size_t nr, capacity;
	struct braid_hash by_name;
	struct braid_flame_name {
		size_t at, bytes;	/* in texts; a NUL follows */
	} *names;
	size_t nr_names, names_capacity;
	struct braid_text texts;
	u64 total_ns;
	s64 begin_ns;			/* of the time that it is about; set by others */
};

/**
 * braid_flame_make - make the tree of folded stacks
 * @f: zeroed; braid_flame_free() it in any case
 * @folded: lines of braid_folded_end(), in ns
 * @most: frames that are kept, beside those that stand for others
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_flame_make(struct braid_flame *f, const struct braid_text *folded, u32 most);

/** braid_flame_name - of a frame; that of combined ones is "[others]" */
const char *braid_flame_name(const struct braid_flame *f, const struct braid_flame_frame *frame);

/** braid_flame_free - free it */
void braid_flame_free(struct braid_flame *f);

#endif /* BRAID_ANALYZE_FLAME_H */
