/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Creates files in trace-cmd's format. */
#ifndef BRAID_TESTS_MAKE_TRACE_DAT_H
#define BRAID_TESTS_MAKE_TRACE_DAT_H

#include "tracebraid/types.h"

#define SYNTH_DAT_PAGES		3u	/* of each CPU */
#define SYNTH_DAT_PER_PAGE	100u	/* events "dat:beat" with a u64 count from 0, in each CPU */
#define SYNTH_DAT_EVENTS	(2 * SYNTH_DAT_PAGES * SYNTH_DAT_PER_PAGE)	/* in a buffer */

struct synth_dat {
	u32 version;			/* 6 or 7 */
	bool compressed;		/* of version 7 */
	const char *compression;	/* stated; NULL: as it is */
	bool zlib;			/* compressed by that, else by zstd */
	const char *instance;		/* a second buffer's name; NULL: none */
	bool top_empty;			/* the first has no pages */
	const char *clock;		/* of the first recorded, in brackets; NULL: missing */
	const char *buffer_clock;	/* of all buffers, as the file states; NULL: mono_raw */
	const char *uname;		/* NULL: missing */
	const char *kallsyms;		/* NULL: none */
	bool shifted;			/* a guest's: ... */
	u64 shift_fraction;		/* ... times * 3 >> this, + shift_ns at the first event, and */
	s64 shift_ns;			/* twice that 6 ms later */
	bool by_kvm;			/* not that, nor interpolated: times + shift_ns; but ... */
	u64 shift_scale;		/* ... times * this; 0: 1 */
	s64 shift_step;			/* ... + this at the second sample */
	u32 shift_cpus;			/* ... of so many CPUs; 0: both */
	u64 peer;			/* the host's trace_id; 0: 77 */
	u64 trace_id;			/* 0: missing */
	const char *guest;		/* listed: its name, ... */
	u64 guest_id;			/* ... trace_id, ... */
	s32 guest_tids[2];		/* ... and threads */
	u32 guest_cpus;			/* as stated; 0: 2 */
	u32 tsc_multiplier;		/* of TSC2NSEC, by 2^31; 0: missing */
	const char *offset;		/* option OFFSET; NULL: missing */
	u64 start;			/* the first event's stamp */
	u64 step;			/* between two events of a CPU */
	u64 back;			/* by which the second page of CPU 1 is too early */
	bool bare;			/* records begin with common_type alone */
	bool small;			/* pages of 256 bytes, with 8 events */
	u32 bloated;			/* chunks of each CPU of zeros, without events: ... */
	u32 bloated_bytes;		/* ... each claims so many; 0: 8 MiB */
	u32 aliases;			/* version 7: number of CPUs, all with the pages of CPU 1 */
	u32 overrun;			/* of CPU 1 by its stats, which add 4 and 3; 0: no stats */
	u64 lost;			/* reported by the second page of CPU 1; ~0: some */
};

/* Writes it. */
void synth_trace_dat(const char *path, const struct synth_dat *params);

#endif /* BRAID_TESTS_MAKE_TRACE_DAT_H */
