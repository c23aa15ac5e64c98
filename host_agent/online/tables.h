/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tables of an engine: guests by name, their rows, their histograms. */
#ifndef BRAID_ONLINE_TABLES_H
#define BRAID_ONLINE_TABLES_H

#include "host_agent/online/online.h"

/* All guests. */
struct braid_online_table {
	struct braid_online_guest **items;
	size_t nr, capacity;
};

/**
 * braid_online_guest_of - find a guest by its name, or add it
 * @t: the guests
 * @name: of a stream
 * @max: guests
 * @out: set on success; NULL: there are too many
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_online_guest_of(struct braid_online_table *t, const char *name, u32 max,
			  struct braid_online_guest **out);

/** braid_online_vcpus - make place for that many. Return: 0, or -ENOMEM with braid_fail() */
int braid_online_vcpus(struct braid_online_guest *g, size_t nr);

/**
 * braid_online_add - add to a row
 * @rows: the rows
 * @max: of them; more are added to the others
 * @key: of the row
 * @name: likewise
 * @ns: added, and counted
 * @now_ns: when
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_online_add(struct braid_online_rows *rows, u32 max, u64 key, const char *name, u64 ns,
		     s64 now_ns);

/** braid_online_of_key - find the first row with a key. Return: NULL: not found */
struct braid_online_row *braid_online_of_key(const struct braid_online_rows *rows, u64 key);

/** braid_online_add_to - add to a row; as braid_online_add() */
void braid_online_add_to(struct braid_online_row *row, u64 ns, s64 now_ns);

/** braid_online_drop - drop what has been gone since before a time. Return: guests of it */
u64 braid_online_drop(struct braid_online_table *t, s64 before_ns);

/** braid_online_count - add a duration that ended at a time */
void braid_online_count(struct braid_online_histogram *h, u64 ns, s64 at_ns);

/** braid_online_compare - the worst of a second, perhaps; it need not have ended */
void braid_online_compare(struct braid_online_histogram *h, u64 ns, s64 at_ns);

/** braid_online_table_free - free all guests */
void braid_online_table_free(struct braid_online_table *t);

#endif /* BRAID_ONLINE_TABLES_H */
