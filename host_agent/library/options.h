/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options of walks, exports, analyses: the library parses them, the command line shows them. */
#ifndef BRAID_LIBRARY_OPTIONS_H
#define BRAID_LIBRARY_OPTIONS_H

#include "host_agent/util/option.h"

/* What options are for: bits of braid_option.of. */
enum braid_library_use {
	BRAID_LIBRARY_WALK = 1,
	BRAID_LIBRARY_EXPORT = 2,
	BRAID_LIBRARY_ANALYSIS = 4,
	BRAID_LIBRARY_TABLES = 8,	/* an analysis that is written to a file */
	BRAID_LIBRARY_OPENING = 32,	/* opening captures */
};

#define BRAID_LIBRARY_LIMITS	16u	/* a further bit: limits which events there are */

#define BRAID_MOST_WANDER_US	10000u	/* of hosts' clocks, in a second */
#define BRAID_WORDS_SOURCE	"auto kvm exchange pairs nominal windows reads"	/* by enum braid_clock_kind */

/**
 * braid_library_option - find an option
 * @word: its name, perhaps after "--", perhaps before "=VALUE"
 * @use: enum braid_library_use
 *
 * Return: the row from which the library parses and the command line prints; NULL: not found.
 */
const struct braid_option *braid_library_option(const char *word, unsigned int use);

/** braid_library_limited - an option that only some analyses take, from 0: "by=task"; NULL: no more */
const char *braid_library_limited(size_t number);

#endif /* BRAID_LIBRARY_OPTIONS_H */
