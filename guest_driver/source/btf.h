/* SPDX-License-Identifier: GPL-2.0 */
/* Finds structure members in BTF, the kernel's description of its own types. */
#ifndef BRAID_SOURCE_BTF_H
#define BRAID_SOURCE_BTF_H

#include <linux/types.h>

/**
 * struct braid_btf_member - Where a member is expected.
 * @structure: Name of the structure.
 * @member: Name of the member, not in an anonymous structure or union.
 * @offset: In bytes.
 * @bytes: Size of the integer, enumeration or pointer; 0: an array of any length.
 */
struct braid_btf_member {
	const char *structure;
	const char *member;
	u32 offset;
	u32 bytes;
};

/**
 * braid_btf_has() - Whether BTF describes a member as expected.
 * @btf: The BTF, aligned to 4 bytes.
 * @bytes: Its size.
 * @want: The expectation.
 *
 * Return: true if there is a structure of this name, and each one (BTF may have several) has the
 * member there; false also for invalid BTF, or BTF with types that are newer than this file.
 */
bool braid_btf_has(const void *btf, size_t bytes, const struct braid_btf_member *want);

#endif /* BRAID_SOURCE_BTF_H */
