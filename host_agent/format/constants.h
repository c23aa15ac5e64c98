/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Texts of a kernel at constant addresses, by its list of them (tracefs' printk_formats). */
#ifndef BRAID_FORMAT_CONSTANTS_H
#define BRAID_FORMAT_CONSTANTS_H

#include "host_agent/util/text.h"
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

/**
 * braid_constants_put - append the list, safe for libtraceevent
 * @c: the list, or NULL: none
 * @out: lines as in tracefs, but with each text as it is printed: nothing is escaped, and control
 *	characters are replaced. Texts of less than two bytes are left out: libtraceevent would read
 *	before its copy.
 */
void braid_constants_put(const struct braid_constants *c, struct braid_text *out);

#endif /* BRAID_FORMAT_CONSTANTS_H */
