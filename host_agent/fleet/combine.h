/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Takes a SELECT apart: what each host computes of its captures, and what is computed of the rows
 * of all hosts.
 *
 * Invariants:
 * - FROM, WHERE, WITH and subqueries see one host: a row never comes from two of them. What is
 *   computed over the rows of all hosts are the outermost aggregates, GROUP BY, HAVING, DISTINCT,
 *   ORDER BY and LIMIT.
 * - What would be another result then is refused, by its name. Nothing is guessed: what is not
 *   understood is refused, too.
 */
#ifndef BRAID_FLEET_COMBINE_H
#define BRAID_FLEET_COMBINE_H

#include "host_agent/util/text.h"

#define BRAID_FLEET_ROWS	"fleet_rows"	/* the table of all hosts' rows, first column host */

struct braid_fleet_plan {
	struct braid_text inner;	/* for each host */
	struct braid_text outer;	/* of BRAID_FLEET_ROWS */
	bool hides_host;	/* it is no column of SELECT * */
	bool whole;		/* needs all rows of a host: one that fails gives none */
	int nr_columns;		/* of the inner statement; 0: as many as the hosts say. If they are
				   known they are called c0, c1...; else as the hosts say */
};

/**
 * braid_fleet_combine - take a statement apart
 * @plan: set on success; braid_fleet_plan_free() frees it in any case
 * @text: one SELECT
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_fleet_combine(struct braid_fleet_plan *plan, const char *text);

/** braid_fleet_plan_free - free its texts */
void braid_fleet_plan_free(struct braid_fleet_plan *plan);

#endif /* BRAID_FLEET_COMBINE_H */
