/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names for addresses, from a guest's symbol table or a host's kallsyms. */
#ifndef BRAID_TRACE_SYMBOLS_H
#define BRAID_TRACE_SYMBOLS_H

#include "host_agent/trace/source.h"
#include "host_agent/util/text.h"

struct braid_symbols;

/** braid_symbols_new - a stream's symbols, sorted; NULL: out of memory */
struct braid_symbols *braid_symbols_new(const struct braid_stream *stream);

/**
 * braid_symbols_from - likewise, of lines of /proc/kallsyms
 * @text: from malloc(); it belongs to the symbols, also on failure
 *
 * Return: NULL: out of memory.
 */
struct braid_symbols *braid_symbols_from(char *text);

/** braid_symbols_free - free; NULL is fine */
void braid_symbols_free(struct braid_symbols *s);

/** braid_symbols_any - whether there are any */
bool braid_symbols_any(const struct braid_symbols *s);

/**
 * braid_symbols_find - the function that contains an address
 * @s: the symbols
 * @address: any; set to the function's start on success
 *
 * Return: its name, or NULL.
 */
char *braid_symbols_find(struct braid_symbols *s, unsigned long long *address);

/** braid_symbols_text - append all as lines of /proc/kallsyms, ends too */
void braid_symbols_text(const struct braid_symbols *s, struct braid_text *out);

#endif /* BRAID_TRACE_SYMBOLS_H */
