/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Makes files as trace-cmd writes them. */
#ifndef BRAID_TESTS_MAKE_TRACE_DAT_H
#define BRAID_TESTS_MAKE_TRACE_DAT_H

#include "tracebraid/types.h"

#define SYNTH_DAT_PAGES		3u	/* of each CPU */
#define SYNTH_DAT_PER_PAGE	100u	/* events "dat:beat" with a u64 count from 0, in each CPU */
#define SYNTH_DAT_EVENTS	(2 * SYNTH_DAT_PAGES * SYNTH_DAT_PER_PAGE)	/* in a buffer */

struct synth_dat {
	u32 version;			/* 6 or 7 */
	bool compressed;		/* of version 7 */
	const char *compression;	/* NULL: as it is */
	const char *instance;		/* a second buffer's name; NULL: there is none */
	bool top_empty;			/* the first has no pages */
	const char *clock;		/* of the first recorded, in brackets; NULL: not told */
	const char *buffer_clock;	/* of all buffers, they say; NULL: mono_raw */
	const char *uname;		/* NULL: not told */
	const char *kallsyms;		/* NULL: none */
	bool shifted;			/* a guest's */
	u64 start;			/* the first event's stamp */
	u64 step;			/* from one to the next, CPU by CPU */
	bool small;			/* pages of 256 bytes, with 8 events */
	u32 bloated;			/* chunks of each CPU that are 8 MiB of nothing, for all else */
	u32 aliases;			/* version 7: so many CPUs, all with the pages of CPU 1 */
	u64 lost;			/* told by the second page of CPU 1; ~0: some */
};

/* Writes it. */
void synth_trace_dat(const char *path, const struct synth_dat *params);

#endif /* BRAID_TESTS_MAKE_TRACE_DAT_H */
