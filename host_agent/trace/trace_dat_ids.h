/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The numbers in a trace.dat of trace-cmd, versions 6 and 7, for those who read and who write one. */
#ifndef BRAID_TRACE_TRACE_DAT_IDS_H
#define BRAID_TRACE_TRACE_DAT_IDS_H

#define BRAID_TRACE_DAT_MAGIC	"\x17\x08\x44tracing"	/* its first bytes */

/* Options, and sections that an option of the same number finds. */
enum braid_dat_id {
	BRAID_DAT_DONE = 0,		/* as a section: the options */
	BRAID_DAT_DATE = 1,
	BRAID_DAT_CPU_STAT = 2,
	BRAID_DAT_BUFFER = 3,
	BRAID_DAT_TRACE_CLOCK = 4,
	BRAID_DAT_UNAME = 5,
	BRAID_DAT_OFFSET = 7,
	BRAID_DAT_CPU_COUNT = 8,
	BRAID_DAT_VERSION = 9,
	BRAID_DAT_TRACE_ID = 11,
	BRAID_DAT_TIME_SHIFT = 12,
	BRAID_DAT_GUEST = 13,
	BRAID_DAT_TSC2NSEC = 14,
	BRAID_DAT_STRINGS = 15,
	BRAID_DAT_HEADER_INFO = 16,
	BRAID_DAT_FTRACE_EVENTS = 17,
	BRAID_DAT_EVENT_FORMATS = 18,
	BRAID_DAT_KALLSYMS = 19,
	BRAID_DAT_PRINTK = 20,
	BRAID_DAT_CMDLINES = 21,
	BRAID_DAT_IDS
};

#endif /* BRAID_TRACE_TRACE_DAT_IDS_H */
