/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Reads BTF, the kernel's description of its own types, and finds members of structures in it. */
#ifndef BRAID_SHARED_BTF_H
#define BRAID_SHARED_BTF_H

#include "shared/platform.h"

/* The parts of BTF; both are within it. */
struct braid_btf_view {
	const void *types;
	u32 types_bytes;
	const char *strings;	/* end with a NUL, unless there are none */
	u32 strings_bytes;
};

/**
 * braid_btf_open() - Check the header of BTF.
 * @view: Filled on success.
 * @btf: The BTF, aligned to 4 bytes.
 * @bytes: Its size.
 *
 * Return: whether it is BTF.
 */
bool braid_btf_open(struct braid_btf_view *view, const void *btf, size_t bytes);

/**
 * braid_btf_next() - Walk the types.
 * @view: The BTF.
 * @at: Offset of the type, from 0; moved to the next one.
 *
 * Return: the type, with all that follows it; NULL at the end, or if the type is not valid or of a
 * kind that is newer than this file.
 */
const struct btf_type *braid_btf_next(const struct braid_btf_view *view, u32 *at);

#define BRAID_BTF_MOST_ALIASES	16u	/* typedefs and qualifiers of a type that are followed */

/**
 * braid_btf_is_alias() - Whether a type is another one, with a name or a qualifier.
 * @type: The type; its member type is the number of the other one.
 */
static inline bool braid_btf_is_alias(const struct btf_type *type)
{
	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_TYPE_TAG:
		return true;
	}
	return false;
}

/**
 * struct braid_btf_member - Where a member is expected.
 * @structure: Name of the structure.
 * @member: Name of the member, not in an anonymous structure or union.
 * @offset: In bytes.
 * @bytes: Size of the integer, enumeration or pointer; 0: an array or structure, of any size.
 */
struct braid_btf_member {
	const char *structure;
	const char *member;
	u32 offset;
	u32 bytes;
};

/**
 * braid_btf_offset() - Where BTF has a member.
 * @btf: The BTF, aligned to 4 bytes.
 * @bytes: Its size.
 * @structure: Name of the structure.
 * @member: Name of the member, not in an anonymous structure or union, and no bit field.
 * @size: As in struct braid_btf_member.
 *
 * BTF may have several structures of one name: they must agree.
 *
 * Return: the offset in bytes; -1 if there is no such member, or for invalid BTF, or BTF with types
 * that are newer than this file.
 */
s64 braid_btf_offset(const void *btf, size_t bytes, const char *structure, const char *member,
		     u32 size);

/**
 * braid_btf_bit() - Where BTF has a member of one bit, a bit field.
 * @btf: As for braid_btf_offset().
 * @bytes: Likewise.
 * @structure: Likewise.
 * @member: Likewise.
 *
 * Return: the offset in bits; -1 as braid_btf_offset(), or if it is no such field.
 */
s64 braid_btf_bit(const void *btf, size_t bytes, const char *structure, const char *member);

/**
 * braid_btf_has() - Whether BTF describes a member as expected.
 * @btf: As for braid_btf_offset().
 * @bytes: Likewise.
 * @want: The expectation.
 *
 * Return: true if the member is there.
 */
bool braid_btf_has(const void *btf, size_t bytes, const struct braid_btf_member *want);

#endif /* BRAID_SHARED_BTF_H */
