/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of guests' user code: by the mappings that the guest recorded, and the symbols of
 * binaries that the user has.
 *
 * - An address that is sampled before its mapping was recorded gets a number, which stands for it
 *   until braid_user_code_settle().
 */
#ifndef BRAID_ANALYZE_USER_CODE_H
#define BRAID_ANALYZE_USER_CODE_H

#include "host_agent/analyze/functions.h"
#include "host_agent/trace/binaries.h"

/* Functions, as of braid_function_of(): */
#define BRAID_FUNCTION_ENDS	2u	/* the stack ends here, although it has more frames */
#define BRAID_FUNCTION_CODE	3u	/* of user code: from here on, below the kernel's */

/* Zeroed, and then ->binaries: empty. */
struct braid_user_code {
	struct braid_binaries *binaries;	/* or NULL */
	struct user_mapping {
		u32 stream;
		u64 space, start, end, offset;
		u32 file;
		u32 before;			/* in mappings: of the same space; or none */
		u32 last;			/* of the first one of a space: its last one */
	} *mappings;
	size_t nr_mappings, mappings_capacity;
	struct user_file {
		char *path;
		int binary;			/* of binaries; or negative */
	} *files;
	size_t nr_files, files_capacity;
	struct user_function {
		u32 file;			/* or none: its mapping is not known yet */
		u32 stream;
		bool named;
		u64 space;
		u64 start;			/* of its symbol; else in the file; or address */
		const char *name;
	} *functions;
	size_t nr_functions, functions_capacity;
	u64 nr_unmapped;			/* mappings beyond the limit: not used */
	u64 nr_unnamed;				/* addresses, for lists that are too long */
	struct braid_hash by_key;		/* numbers in functions */
	struct braid_hash by_space;		/* numbers in mappings: each space's first one */
};

/**
 * braid_user_code_map - take a mapping: it replaces earlier ones that it overlaps
 * @guest: whose
 * @m: ->space, ->start, ->end, ->offset
 * @name: of the file
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_user_code_map(struct braid_user_code *u, const struct braid_stream *guest,
			const struct user_mapping *m, const struct braid_binary_name *name);

/**
 * braid_user_code_of - the function that contains an address
 * @space: of the sample
 * @caller: it is one of a caller: where a call returns to
 * @function: set
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_user_code_of(struct braid_user_code *u, const struct braid_stream *guest, u64 space,
		       u64 address, bool caller, u64 *function);

/**
 * braid_user_code_settle - what a function is now that all mappings are known
 * @function: of braid_user_code_of()
 *
 * Return: the same; another one; or 0: no code is there.
 */
u64 braid_user_code_settle(struct braid_user_code *u, u64 function);

/** braid_user_code_name - the name of a settled function, safe for a terminal */
void braid_user_code_name(const struct braid_user_code *u, u64 function,
			  char name[BRAID_NAME_TEXT]);

void braid_user_code_free(struct braid_user_code *u);

#endif /* BRAID_ANALYZE_USER_CODE_H */
