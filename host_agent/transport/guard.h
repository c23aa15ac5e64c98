/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Survives the SIGBUS of a mapped file that was made shorter under us. */
#ifndef BRAID_TRANSPORT_GUARD_H
#define BRAID_TRANSPORT_GUARD_H

#include <stddef.h>

#include "tracebraid/types.h"

/**
 * braid_guard_run - call a function that touches a mapping
 * @base: the mapping's start
 * @bytes: of the mapping
 * @fn: called with @arg; its result is returned
 * @arg: handed to @fn
 *
 * When @fn touches a page of the mapping that the file no longer has, it is aborted at that
 * instruction: at any access it must not hold a lock or have state half updated. No other code is
 * interrupted. A SIGBUS elsewhere still kills the process. Calls nest; the state is per thread.
 *
 * Return: the result of @fn, or -EFAULT with braid_fail() when the mapping has a hole.
 */
int braid_guard_run(const void *base, u64 bytes, int (*fn)(void *arg), void *arg);

/**
 * braid_guard_copy - copy out of a mapping
 * @base: the mapping's start
 * @bytes: of the mapping
 * @to: room for @nr bytes; partly written on failure
 * @from: in the mapping; what is there may change meanwhile, even within a word
 * @nr: bytes
 *
 * Return: 0, or as braid_guard_run().
 */
int braid_guard_copy(const void *base, u64 bytes, void *to, const void *from, size_t nr);

#endif /* BRAID_TRANSPORT_GUARD_H */
