/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes addresses and bit masks as the kernel's %p extensions do.
 *
 * Invariants: nothing is read beyond @bytes, and what is too short is named invalid. Masks have at
 * most BRAID_MASK_BITS: no kernel has more CPUs, and an event costs no more time or space.
 */
#ifndef BRAID_UTIL_ADDRESS_H
#define BRAID_UTIL_ADDRESS_H

#include "tracebraid/types.h"

#define BRAID_ADDRESS_BYTES	64u
#define BRAID_MASK_BITS		8192u
#define BRAID_MASK_BYTES	(BRAID_MASK_BITS * 5 / 2)	/* "0,2,4,...": at most */

/**
 * braid_address_put - write an address
 * @to: room for BRAID_ADDRESS_BYTES
 * @variant: the letters after "%p": M, m, I4, i4, I6, i6, IS, iS or U, and what modifies them
 * @data: the address
 * @bytes: of it
 *
 * Return: the end of what was written.
 */
char *braid_address_put(char *to, const char *variant, const u8 *data, u32 bytes);

/* Both want room for BRAID_MASK_BYTES. */

/** braid_mask_put - write @bits of a mask in hexadecimal, with a comma after each 32 */
char *braid_mask_put(char *to, const u8 *data, u32 bits);

/** braid_cpus_put - write which of a mask's @bits are set: "0-3,7" */
char *braid_cpus_put(char *to, const u8 *data, u32 bits);

#endif /* BRAID_UTIL_ADDRESS_H */
