/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions of programs and libraries, by the symbols of files in a folder. */
#ifndef BRAID_TRACE_BINARIES_H
#define BRAID_TRACE_BINARIES_H

#include <stdbool.h>

#include "tracebraid/types.h"

#define BRAID_BUILD_ID_BYTES	20u

struct braid_binaries;

/* A file as a guest has it mapped. */
struct braid_binary_name {
	const char *path;
	u8 id[BRAID_BUILD_ID_BYTES];
	u32 id_bytes;			/* 0: it has no build id */
};

/**
 * braid_binaries_open - use the files below a folder
 * @out: set on success
 * @folder: it has them by their paths in the guest, as the root of its file system or a part of it,
 *	or by their build ids: .build-id/12/34...debug, below usr/lib/debug too, or
 *	1234.../debuginfo and 1234.../executable, as debuginfod's clients keep them
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_binaries_open(struct braid_binaries **out, const char *folder);

/**
 * braid_binaries_get - the number of a binary
 * @name: path and build id. A file of another build id is not used
 *
 * Its files are read now. Return: a number; -ENOMEM.
 */
int braid_binaries_get(struct braid_binaries *b, const struct braid_binary_name *name);

/**
 * braid_binaries_find - the function at an offset of a binary's file
 * @number: of braid_binaries_get()
 * @offset: in the file
 * @start: set on success: the function's address, as its symbol has it
 *
 * Return: its name, valid until braid_binaries_free(); NULL: not known.
 */
const char *braid_binaries_find(const struct braid_binaries *b, int number, u64 offset, u64 *start);

/**
 * braid_binaries_kallsyms - a guest kernel's symbols, as in its /proc/kallsyms
 * @guest: its name; the file GUEST.kallsyms or, of any guest, kallsyms is read
 * @text: set on success, from malloc(); NULL: there is no such file
 *
 * Return: 0, or -errno with braid_fail(): the file cannot be read, or has more than 64 MiB.
 */
int braid_binaries_kallsyms(const struct braid_binaries *b, const char *guest, char **text);

/** braid_binaries_free - free; NULL is fine */
void braid_binaries_free(struct braid_binaries *b);

#endif /* BRAID_TRACE_BINARIES_H */
