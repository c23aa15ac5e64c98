/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clauses of a SELECT, as ranges of its words. */
#ifndef BRAID_FLEET_STATEMENT_H
#define BRAID_FLEET_STATEMENT_H

#include "host_agent/fleet/token.h"

struct braid_sql_range {
	const struct braid_sql_token *at;
	size_t nr;
};

/* Clauses without their first word; empty: it has none. */
struct braid_sql_statement {
	struct braid_sql_tokens tokens;
	struct braid_sql_range with, list, group, having, order, limit;
	struct braid_sql_range from;	/* with this word; and WHERE, WINDOW */
	bool distinct;
};

/**
 * braid_sql_statement_read - find the clauses of one SELECT
 *
 * Return: 0, or -errno with braid_fail(): it is another statement, or more than one.
 */
int braid_sql_statement_read(struct braid_sql_statement *c, const char *text);

/** braid_sql_is_one - whether a token is one of some words */
bool braid_sql_is_one(const struct braid_sql_token *t, const char *const *words, size_t nr);

#define IS_ONE(t, words)	braid_sql_is_one(t, words, sizeof(words) / sizeof(*(words)))

/**
 * braid_sql_range_next - the tokens up to the next comma outside parentheses
 * @rest: moved on
 *
 * Return: false: at the end.
 */
bool braid_sql_range_next(struct braid_sql_range *rest, struct braid_sql_range *one);

/** braid_sql_call - the number of tokens of "name(...) FILTER (...)"; 0: it is no call */
size_t braid_sql_call(const struct braid_sql_token *at, const struct braid_sql_token *end);

/** braid_sql_arguments - what is between the parentheses of a call */
struct braid_sql_range braid_sql_arguments(const struct braid_sql_token *call);

#endif /* BRAID_FLEET_STATEMENT_H */
