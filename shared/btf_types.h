/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The types of BTF by their numbers: of the kernel's, and of a module's that is based on it. */
#ifndef BRAID_SHARED_BTF_TYPES_H
#define BRAID_SHARED_BTF_TYPES_H

#include "shared/btf.h"

#define BRAID_BTF_STRIDE	64u
#define BRAID_BTF_MARKS		8192u

/* One BTF: every BRAID_BTF_STRIDE-th type is marked, so that a type is found by its number. */
struct braid_btf_part {
	struct braid_btf_view view;
	u32 first;		/* number of its first type */
	u32 nr;
	u32 marks[BRAID_BTF_MARKS];
};

/* The kernel's BTF, and perhaps that of a module, which continues its numbers and strings. */
struct braid_btf_types {
	struct braid_btf_part parts[2];
	u32 nr_parts;
	u32 left;		/* steps until the search ends: bounds what invalid BTF costs */
};

/**
 * braid_btf_types_open() - Index the kernel's BTF.
 * @types: Filled on success; large, so not on a stack.
 * @btf: The BTF, aligned to 4 bytes. It must not change, and outlives @types.
 * @bytes: Its size.
 *
 * Return: 0; -EINVAL for what is not BTF, or has newer kinds of types; -EFBIG.
 */
int braid_btf_types_open(struct braid_btf_types *types, const void *btf, size_t bytes);

/**
 * braid_btf_types_add() - Index a module's BTF, which is based on the kernel's.
 * @types: Opened.
 * @btf: As for braid_btf_types_open().
 * @bytes: Likewise.
 *
 * Return: as braid_btf_types_open().
 */
int braid_btf_types_add(struct braid_btf_types *types, const void *btf, size_t bytes);

/** braid_btf_type() - The type of a number; NULL: void, or none. Takes a step. */
const struct btf_type *braid_btf_type(struct braid_btf_types *types, u32 id);

/** braid_btf_plain() - The same, without typedefs and qualifiers. */
const struct btf_type *braid_btf_plain(struct braid_btf_types *types, u32 id);

/** braid_btf_name() - A name by its offset; a module's strings continue those of the kernel. */
const char *braid_btf_name(const struct braid_btf_types *types, u32 offset);

static inline u32 braid_btf_kind(const struct btf_type *type)
{
	return type ? BTF_INFO_KIND(type->info) : BTF_KIND_UNKN;
}

static inline bool braid_btf_is_composite(const struct btf_type *type)
{
	return braid_btf_kind(type) == BTF_KIND_STRUCT || braid_btf_kind(type) == BTF_KIND_UNION;
}

#endif /* BRAID_SHARED_BTF_TYPES_H */
