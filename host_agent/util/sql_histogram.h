/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions of SQLite: histograms with the slots of the analyses, and percentiles of these. */
#ifndef BRAID_UTIL_SQL_HISTOGRAM_H
#define BRAID_UTIL_SQL_HISTOGRAM_H

#include <sqlite3.h>

/**
 * braid_sql_add_histograms - register the functions histogram(), histogram_sum() and
 * histogram_percentile()
 * @db: a connection
 *
 * A histogram is a JSON array of the slots that have values: [[least value, count], ...], in
 * ascending order (docs/sql.md). histogram(x) counts numbers from 0; histogram_sum(h) adds up
 * histograms; both skip NULL and return [] for no rows. histogram_percentile(h, percent) is the
 * least value of the slot of that percentile, as braid_histogram_percentile() computes it; NULL
 * if @h is NULL or empty.
 *
 * Return: SQLite's code.
 */
int braid_sql_add_histograms(sqlite3 *db);

#endif /* BRAID_UTIL_SQL_HISTOGRAM_H */
