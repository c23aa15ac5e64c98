/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Filters, which the host has the guest run over records: programs, and what they have counted. */
#ifndef TRACEBRAID_FILTER_H
#define TRACEBRAID_FILTER_H

#include "tracebraid/types.h"

/*
 * The command FILTER sets the program of events, before the host enables them. It is in effect
 * while the host alone has the event on. The same program again changes nothing. A host's ENABLE
 * removes filters unless its arg0 has BRAID_KEEP_FILTERS. After DISABLE nothing is added to an
 * account; ACCOUNT reads the sum of accounts. The guest copies a program before it checks it.
 */

/*
 * A filter: a program over one record, which decides whether the record is written. An instruction
 * compares one value, and skips if_true or if_false of those that follow; so jumps go forward only,
 * and each instruction runs once at most. The last one is ACCEPT or REJECT.
 */
enum braid_filter_op {
	BRAID_FILTER_REJECT, BRAID_FILTER_ACCEPT,
	/* true: value - low <= range, in 64 bits without sign: ==, <, <=, >, >= in one */
	BRAID_FILTER_U8, BRAID_FILTER_U16, BRAID_FILTER_U32, BRAID_FILTER_U64,
	BRAID_FILTER_S8, BRAID_FILTER_S16, BRAID_FILTER_S32,
	BRAID_FILTER_CPU,	/* the number of the CPU, likewise */
	/* true: value & low is not 0 */
	BRAID_FILTER_BITS8, BRAID_FILTER_BITS16, BRAID_FILTER_BITS32, BRAID_FILTER_BITS64,
	/* true: the glob at texts[low] matches the string, up to its NUL: */
	BRAID_FILTER_CHARS,	/* at offset, of so many bytes */
	BRAID_FILTER_DATA_LOC,	/* to which the word at offset points: length << 16 | offset, ... */
	BRAID_FILTER_REL_LOC,	/* ... counted from the end of that word */
	BRAID_FILTER_COMM,	/* the name of the current task */
	/* true, of the task whose number is at offset, as an s32; since minor 9: */
	BRAID_FILTER_CGROUP,	/* it is in the cgroup (v2) with the id low, or below */
	BRAID_FILTER_CGROUP_PATH,	/* likewise; the path is at texts[low] */
	BRAID_FILTER_CHOSEN,	/* CHOOSE has chosen it, or the task that has forked it */
	BRAID_FILTER_NR_OPS,
};

struct braid_filter_insn {
	u8 op;				/* enum braid_filter_op */
	u8 if_true, if_false;
	u8 reserved0;
	u16 offset;			/* from the start of struct braid_record */
	u16 bytes;			/* CHARS */
	u64 low, range;
};

#define BRAID_KEEP_FILTERS	1u	/* arg0 of ENABLE */
#define BRAID_ANY_BUFFER	(~0ULL)	/* arg0 of FILTER and ACCOUNT, else an index */

#define BRAID_FILTER_VERSION	1u
#define BRAID_FILTER_INSNS	48u
#define BRAID_FILTER_TEXTS	512u
#define BRAID_FILTER_RECORD	4096u	/* a longer record is written unfiltered, and counted */

/* A glob has *, ?, [a-z], [!a-z] and a backslash, which escapes the next character. */
struct braid_filter_program {
	u32 version;			/* of this struct; a guest refuses another one */
	u32 record_bytes;		/* that all fields are in; a shorter record is written */
	u32 nr_insns;			/* 0: no filter */
	u32 text_bytes;
	struct braid_filter_insn insns[BRAID_FILTER_INSNS];
	char texts[BRAID_FILTER_TEXTS];	/* globs, each with its NUL */
};

/* offered = filtered + written + lost */
struct braid_filter_account {
	u64 offered;			/* records while the filter was in effect */
	u64 filtered;			/* rejected */
	u64 written;			/* into the ring */
	u64 lost;			/* no room in the ring */
	u64 unjudged;			/* of those written or lost: no verdict was possible */
};

static_assert(sizeof(struct braid_filter_insn) == 24, "filter instruction");

#endif /* TRACEBRAID_FILTER_H */
