/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions of kernels that contain addresses: by the symbols of their streams. */
#ifndef BRAID_ANALYZE_FUNCTIONS_H
#define BRAID_ANALYZE_FUNCTIONS_H

#include "host_agent/analyze/analysis.h"
#include "host_agent/trace/binaries.h"
#include "host_agent/trace/symbols.h"

#define BRAID_FUNCTION_USER	1u	/* stands for all of user space */
#define BRAID_FUNCTION_KERNEL	(1ULL << 63)	/* set in addresses of kernels, on x86 and arm64 */

/* Zeroed: empty. */
struct braid_functions {
	struct braid_symbols **symbols;	/* by stream's number */
	size_t nr;
	bool any;			/* an address was asked for */
};

/**
 * braid_functions_begin - of all guests of a source
 * @hosts: of its hosts, too
 * @binaries: has symbols of guests whose stream has none; or NULL
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_functions_begin(struct braid_functions *f, const struct braid_source *source,
			  bool hosts, const struct braid_binaries *binaries);

/** braid_functions_known - whether any function of a stream's kernel has a name */
bool braid_functions_known(const struct braid_functions *f, const struct braid_stream *of);

/**
 * braid_function_of - what contains an address, for rows
 * @of: whose address it is: a guest, or a host
 * @ip: the address
 *
 * Return: the start of its function; the address itself, if no symbol contains it;
 * BRAID_FUNCTION_USER for user space; 0 for none.
 */
u64 braid_function_of(struct braid_functions *f, const struct braid_stream *of, u64 ip);

/** braid_function_name - the name of what braid_function_of() returned, safe for a terminal */
void braid_function_name(const struct braid_functions *f, const struct braid_stream *of,
			 u64 function, char name[BRAID_NAME_TEXT]);

/** braid_functions_free - free all */
void braid_functions_free(struct braid_functions *f);

#endif /* BRAID_ANALYZE_FUNCTIONS_H */
