/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Texts of a kernel at constant addresses, by its list of them (tracefs' printk_formats). */
#ifndef BRAID_FORMAT_CONSTANTS_H
#define BRAID_FORMAT_CONSTANTS_H

#include "tracebraid/types.h"

struct braid_constants;

/**
 * braid_constants_new - read a list
 * @list: lines '0xffffffff82000000 : "text\n"'; others are skipped; NULL: none
 *
 * Return: NULL: there are none, or out of memory.
 */
struct braid_constants *braid_constants_new(const char *list);

/** braid_constants_free - free; NULL is fine */
void braid_constants_free(struct braid_constants *c);

/** braid_constants_find - the text at an address, as long as @c; NULL: none is known, or @c is NULL */
const char *braid_constants_find(const struct braid_constants *c, u64 address);

#endif /* BRAID_FORMAT_CONSTANTS_H */
