/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of guests that contain addresses, by the symbols of their streams. */
#ifndef BRAID_ANALYZE_FUNCTIONS_H
#define BRAID_ANALYZE_FUNCTIONS_H

#include "host_agent/trace/symbols.h"

#define BRAID_FUNCTION_TEXT	128u

struct braid_functions {
	struct braid_symbols **symbols;	/* by stream's number; of guests */
	size_t nr;
	bool any;			/* an address was asked for */
};

/** braid_functions_begin - read the symbols, if @wanted. Return: 0, or -ENOMEM with braid_fail() */
int braid_functions_begin(struct braid_functions *f, const struct braid_source *source,
			  bool wanted);

/**
 * braid_function_of - what contains an address, for rows
 * @f: begun
 * @guest: whose address it is
 * @ip: the address; 0: none
 *
 * Return: the start of its function; the address itself, if no symbol contains it; one value for
 *	all addresses of user space; 0 for none.
 */
u64 braid_function_of(struct braid_functions *f, const struct braid_stream *guest, u64 ip);

/** braid_function_name - of a value from braid_function_of(), sanitized; "-": none */
void braid_function_name(const struct braid_functions *f, const struct braid_stream *guest,
			 u64 function, char name[BRAID_FUNCTION_TEXT]);

/** braid_functions_free - free the symbols */
void braid_functions_free(struct braid_functions *f);

#endif /* BRAID_ANALYZE_FUNCTIONS_H */
