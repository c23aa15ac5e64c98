/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A dump of a guest's memory, read page by page. */
#ifndef BRAID_TRANSPORT_DUMP_H
#define BRAID_TRANSPORT_DUMP_H

#include <stdbool.h>
#include <stddef.h>

#include "tracebraid/abi.h"
#include "tracebraid/virtio.h"

struct braid_dump;

/**
 * braid_dump_begin - have a dump read
 * @out: set on success
 * @fd: ELF as QEMU, libvirt and /proc/vmcore write it, or compressed by makedumpfile or QEMU; or
 *	one of these flattened
 * @folder: with space for a flattened one in order, in a file without a name
 * @path: for messages
 * @cut_off: set to whether its end is missing, and reads as zeros: of ELF and flattened dumps
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_dump_begin(struct braid_dump **out, int fd, const char *folder, const char *path,
		     bool *cut_off);

/** braid_dump_end - NULL is fine */
void braid_dump_end(struct braid_dump *d);

/**
 * braid_dump_next - the next page in the dump
 * @address: guest-physical; where to begin, then the page's address
 * @page: room for BRAID_PAGE_BYTES
 *
 * Return: whether there was one. Their number is bounded by the size of the dump.
 */
bool braid_dump_next(struct braid_dump *d, u64 *address, void *page);

/** braid_dump_claims_more - whether it claimed more pages than that */
bool braid_dump_claims_more(const struct braid_dump *d);

/**
 * braid_dump_read - read memory, page by page
 * @address: guest-physical
 * @to: room for @bytes
 *
 * Return: the number of missing pages; their part of @to is unchanged.
 */
u64 braid_dump_read(struct braid_dump *d, u64 address, void *to, u64 bytes);

/** braid_dump_end_address - end of the last page, if the dump states it; else 0 */
u64 braid_dump_end_address(const struct braid_dump *d);

#endif /* BRAID_TRANSPORT_DUMP_H */
