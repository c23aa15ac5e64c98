/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the chunks of an exported HTML page. */
#ifndef BRAID_TESTS_PAGE_CHUNKS_H
#define BRAID_TESTS_PAGE_CHUNKS_H

#include "host_agent/util/text.h"
#include "tracebraid/types.h"

/* Takes the next chunk of a kind, and moves @*at after it. Returns whether there is one. */
bool page_chunk(const char **at, const char *kind, struct braid_text *bytes);

/* The columns of a chunk; returns the rows. */
u64 page_columns(const struct braid_text *bytes, const char **columns, u32 nr);

#endif /* BRAID_TESTS_PAGE_CHUNKS_H */
