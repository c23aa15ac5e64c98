/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Probes, which the host has the guest place at instructions: where, and what they record. */
#ifndef TRACEBRAID_PROBE_H
#define TRACEBRAID_PROBE_H

#include "tracebraid/types.h"

/*
 * The command PROBE makes an event of a probe, in the buffer "trace", with the names that the
 * mailbox has. ENABLE places it. The same probe again changes nothing; another one of that name
 * replaces it. A probe of kind NONE removes all probes. The guest removes them, too, when no agent
 * has been present for BRAID_PROBE_LINGER_MS. It copies a probe before it checks it.
 *
 * A record has struct braid_record, then where it was hit: u64 ip; or for a RETURN u64 func and u64
 * ret_ip. Then the arguments in order, each aligned to its size: a number, or for a string a word
 * as of __data_loc. The format text of the event says the same.
 */
enum braid_probe_kind {
	BRAID_PROBE_NONE,
	BRAID_PROBE_KERNEL,		/* target: [MODULE:]SYMBOL, and the offset in it */
	BRAID_PROBE_KERNEL_RETURN,	/* when the function returns */
	BRAID_PROBE_USER,		/* target: a file, and the offset in it or in its symbol */
	BRAID_PROBE_USER_RETURN,
	BRAID_PROBE_NR_KINDS,
};

/* Where an argument's value begins. */
enum braid_probe_base {
	BRAID_PROBE_REGISTER,	/* of the name, as tracefs has it */
	BRAID_PROBE_STACK,	/* the stack pointer */
	BRAID_PROBE_RETVAL,	/* RETURN kinds */
	BRAID_PROBE_ARG,	/* KERNEL, at offset 0: function argument number value, from 0 */
	BRAID_PROBE_VALUE,	/* value itself: a constant or an address */
	BRAID_PROBE_COMM,	/* the name of the current task: a STRING, without reads */
	/* Since region minor BRAID_PROBE_NAMES_MINOR, and of KERNEL kinds alone: */
	BRAID_PROBE_NAMED,	/* NAME[->MEMBER|.MEMBER]... at byte value of symbol; NAME is an
				   argument, at offset 0 of a function, or $retval */
	BRAID_PROBE_ALL,	/* KERNEL, at offset 0: stands for all arguments; without a name */
	BRAID_PROBE_NR_BASES,
};

enum braid_probe_type {
	BRAID_PROBE_U8, BRAID_PROBE_U16, BRAID_PROBE_U32, BRAID_PROBE_U64,
	BRAID_PROBE_S8, BRAID_PROBE_S16, BRAID_PROBE_S32, BRAID_PROBE_S64,
	BRAID_PROBE_X8, BRAID_PROBE_X16, BRAID_PROBE_X32, BRAID_PROBE_X64,
	BRAID_PROBE_SYMBOL,	/* a kernel address */
	BRAID_PROBE_STRING,	/* at the address that the last read has; needs one, or NAMED */
	BRAID_PROBE_AUTO,	/* as BTF has it: RETVAL, NAMED and ALL, without reads; of RETVAL
				   X64 if there is no BTF; since BRAID_PROBE_NAMES_MINOR */
	BRAID_PROBE_NR_TYPES,
};

#define BRAID_PROBE_VERSION	1u
#define BRAID_PROBE_ARGS	16u
#define BRAID_PROBE_READS	6u
#define BRAID_PROBE_NAME_BYTES	32u
#define BRAID_PROBE_TARGET	256u
#define BRAID_PROBE_STRING_BYTES	256u	/* with its NUL; a longer one is cut */
#define BRAID_PROBE_LINGER_MS	10000u
#define BRAID_PROBE_NAMES_MINOR	12u	/* of the region; since then there is HITS, too */

/*
 * value = base; then for each read: value = the word at value + offset. The last read has the
 * type's size. What cannot be read is 0; a string then is "(fault)", as in tracefs.
 */
struct braid_probe_arg {
	char name[BRAID_PROBE_NAME_BYTES];
	char reg[8];			/* REGISTER: its name */
	u64 value;			/* ARG, VALUE, NAMED */
	s32 offsets[BRAID_PROBE_READS];
	u8 base, type;			/* enum braid_probe_base, braid_probe_type */
	u8 nr_reads;
	u8 user;			/* bit k: read k is of user memory, whatever the address;
					   bit 0 of a NAMED STRING without reads: the string is */
	u32 reserved0;
};

struct braid_probe {
	u32 version;			/* of this struct; a guest refuses another one */
	u8 kind;			/* enum braid_probe_kind */
	u8 nr_args;
	u16 reserved0;
	u64 offset;
	char target[BRAID_PROBE_TARGET];
	char symbol[BRAID_PROBE_TARGET];	/* USER: of the file; "": offset is the file's.
						   KERNEL: texts of NAMED, each with its NUL */
	struct braid_probe_arg args[BRAID_PROBE_ARGS];
};

/*
 * The answer of HITS. A KERNEL probe of MODULE:SYMBOL is pending while its module is not loaded:
 * the event exists, and is placed when the module is loaded, before its first function runs.
 */
struct braid_probe_hits {
	u64 missed;			/* missed hits while it was enabled */
	u32 placed;			/* 1: it was placed at some time */
	u32 reserved;
};

static_assert(sizeof(struct braid_probe_arg) == 80, "probe argument");
static_assert(sizeof(struct braid_probe) <= 2048, "a probe fits the mailbox");

#endif /* TRACEBRAID_PROBE_H */
