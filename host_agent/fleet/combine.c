// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes a SELECT apart. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/fleet/combine.h"
#include "host_agent/fleet/statement.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/sql_histogram.h"

#define MOST_ITEMS	64u

struct item {
	struct braid_sql_range expr;
	struct braid_sql_range alias;	/* without one: empty */
	bool aggregate;
	int key;		/* that it is; -1: none */
	bool host;
};

struct combine {
	struct braid_sql_statement of;
	bool aggregate;
	struct item items[MOST_ITEMS];
	size_t nr_items;
	struct braid_sql_range keys[MOST_ITEMS];	/* of GROUP BY, without host */
	size_t nr_keys;
	bool by_host;
	struct braid_text partials;	/* of the inner statement, behind the keys */
	int nr_partials;
	sqlite3 *db;
	sqlite3_stmt *functions;
	struct braid_fleet_plan *plan;
};

/* Functions -------------------------------------------------------------------------------- */

/* As SQLite says. Functions that it does not know are left to it. */
static bool combine_aggregates(const struct combine *c, const struct braid_sql_token *call)
{
	struct braid_sql_range rest = braid_sql_arguments(call), one;
	int nr = 0;
	bool is;

	if (!(rest.nr == 1 && braid_sql_token_is(rest.at, "*")))
		while (braid_sql_range_next(&rest, &one))
			nr++;
	sqlite3_bind_text(c->functions, 1, call->at, call->bytes, SQLITE_STATIC);
	sqlite3_bind_int(c->functions, 2, nr);
	is = sqlite3_step(c->functions) == SQLITE_ROW;
	sqlite3_reset(c->functions);
	return is;
}

static int combine_open(struct combine *c)
{
	static const char text[] =
		"SELECT 1 FROM pragma_function_list WHERE name = lower(?1) AND type IN ('a', 'w') "
		"AND (narg = ?2 OR narg < 0)";

	if (sqlite3_open_v2(":memory:", &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, NULL) ||
	    braid_sql_add_histograms(c->db) ||
	    sqlite3_prepare_v2(c->db, text, -1, &c->functions, NULL))
		return braid_out_of_memory();
	return 0;
}

/* Subqueries are each host's own, so what is in them is not looked at. Return: behind it. */
static const struct braid_sql_token *combine_subquery(const struct braid_sql_token *at,
						      const struct braid_sql_token *end)
{
	static const char *const begins[] = { "SELECT", "WITH", "VALUES" };
	u32 depth = at->depth;

	if (!braid_sql_token_is(at, "(") || at + 1 >= end || !IS_ONE(at + 1, begins))
		return at;
	while (++at < end && at->depth != depth)
		;
	return at < end ? at + 1 : end;
}

/* Whether there is an aggregate in it. -errno with braid_fail(): a window function. */
static int combine_scan(const struct combine *c, struct braid_sql_range r)
{
	const struct braid_sql_token *t = r.at, *end, *next;
	int found = 0;
	size_t n;

	end = r.nr ? t + r.nr : t;
	while (t < end) {
		next = combine_subquery(t, end);
		if (next != t) {
			t = next;
			continue;
		}
		n = braid_sql_call(t, end);
		if (n && t + n < end && braid_sql_token_is(t + n, "OVER"))
			return braid_fail(-EOPNOTSUPP, "%.*s() OVER is not computed across hosts; in a subquery it is computed on each",
					  (int)t->bytes, t->at);
		found |= n && combine_aggregates(c, t);
		t++;
	}
	return found;
}

/* Partial results ---------------------------------------------------------------------------- */

/* Adds a column to the inner statement: FUNCTION(...) of a call's arguments. Return: its number. */
static int combine_partial(struct combine *c, const char *function,
			   const struct braid_sql_token *call, size_t nr)
{
	braid_text_puts(&c->partials, c->nr_partials + c->nr_keys ? ", " : "");
	braid_text_puts(&c->partials, function);
	braid_sql_tokens_put(&c->partials, call + 1, nr - 1);
	return c->nr_keys + c->nr_partials++;
}

static bool combine_has(struct braid_sql_range r, const char *word)
{
	size_t k;

	for (k = 0; k < r.nr; k++)
		if (braid_sql_token_is(&r.at[k], word))
			return true;
	return false;
}

/* One aggregate of all hosts, of those of each. */
static int combine_aggregate(struct combine *c, const struct braid_sql_token *call, size_t nr,
			     struct braid_text *to)
{
	static const char *const same[] = { "sum", "total", "min", "max", "histogram_sum" };
	static const char *const extremes[] = { "min", "max" };
	char name[32];
	int k;

	snprintf(name, sizeof(name), "%.*s", (int)call->bytes, call->at);
	if (braid_sql_token_is(call + 2, "DISTINCT") && !IS_ONE(call, extremes))
		return braid_fail(-EOPNOTSUPP, "%s(DISTINCT ...) cannot be combined across hosts; SELECT DISTINCT lists the values of all",
				  name);
	if (combine_has((struct braid_sql_range){ call, nr }, "COLLATE"))
		return braid_fail(-EOPNOTSUPP, "COLLATE in an aggregate cannot be combined across hosts");
	if (braid_sql_token_is(call, "count")) {
		k = combine_partial(c, "count", call, nr);
		braid_text_printf(to, "ifnull(sum(c%d), 0)", k);
	} else if (braid_sql_token_is(call, "avg")) {
		k = combine_partial(c, "total", call, nr);
		combine_partial(c, "count", call, nr);
		braid_text_printf(to, "(total(c%d) / sum(c%d))", k, k + 1);
	} else if (braid_sql_token_is(call, "histogram")) {
		k = combine_partial(c, "histogram", call, nr);
		braid_text_printf(to, "histogram_sum(c%d)", k);
	} else if (IS_ONE(call, same)) {
		k = combine_partial(c, name, call, nr);
		braid_text_printf(to, "%s(c%d)", name, k);
	} else {
		return braid_fail(-EOPNOTSUPP, "%s() cannot be combined across hosts; sum, total, count, min, max, avg, histogram and histogram_sum can",
				  name);
	}
	return 0;
}

static int combine_key_of(const struct combine *c, struct braid_sql_range r)
{
	size_t k;

	for (k = 0; k < c->nr_keys; k++)
		if (braid_sql_tokens_equal(c->keys[k].at, c->keys[k].nr, r.at, r.nr))
			return k;
	return -1;
}

static bool combine_is_host(struct braid_sql_range r)
{
	return r.nr == 1 && braid_sql_token_is(r.at, "host");
}

/* An expression of aggregates: nothing else of it may depend on a row. */
static int combine_expression(struct combine *c, struct braid_sql_range r, struct braid_text *to)
{
	static const char *const words[] = {
		"CASE", "WHEN", "THEN", "ELSE", "END", "AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN",
		"CAST", "AS", "INTEGER", "REAL", "TEXT", "ISNULL", "NOTNULL", "TRUE", "FALSE",
	};
	const struct braid_sql_token *t = r.at, *end;
	int key = combine_key_of(c, r), err;
	size_t n;

	if (!r.nr)
		return braid_fail(-EINVAL, "an expression is missing");
	end = t + r.nr;
	if (key >= 0 || combine_is_host(r)) {
		if (key >= 0)
			braid_text_printf(to, "c%d", key);
		else
			braid_text_puts(to, "host");
		return 0;
	}
	while (t < end) {
		n = braid_sql_call(t, end);
		if (n && combine_aggregates(c, t)) {
			err = combine_aggregate(c, t, n, to);
			if (err)
				return err;
			t += n;
			braid_text_putc(to, ' ');
			continue;
		}
		if (combine_subquery(t, end) != t)
			return braid_fail(-EOPNOTSUPP, "a subquery beside aggregates cannot be combined across hosts");
		if (!n && (t->kind == BRAID_SQL_QUOTED ||
			   (t->kind == BRAID_SQL_NAME_TOKEN && !IS_ONE(t, words))))
			return braid_fail(-EOPNOTSUPP, "'%.*s' is neither in an aggregate nor a term of GROUP BY",
					  (int)t->bytes, t->at);
		braid_text_put(to, t->at, t->bytes);
		braid_text_putc(to, ' ');
		t++;
	}
	return 0;
}

/* Items -------------------------------------------------------------------------------------- */

static bool combine_is_name(const struct braid_sql_token *t)
{
	static const char *const not[] = { "END", "NULL", "ISNULL", "NOTNULL", "TRUE", "FALSE" };

	return t->kind == BRAID_SQL_QUOTED || (t->kind == BRAID_SQL_NAME_TOKEN && !IS_ONE(t, not));
}

static struct item combine_item(struct braid_sql_range r)
{
	static const char *const operators[] = {
		"AND", "OR", "NOT", "IS", "IN", "LIKE", "GLOB", "BETWEEN", "COLLATE", "FROM",
		"DISTINCT", "ESCAPE", "MATCH", "REGEXP",
	};
	const struct braid_sql_token *last = r.at + r.nr - 1;
	struct item item = { .expr = r, .key = -1, .host = combine_is_host(r) };

	if (r.nr < 2 || !combine_is_name(last))
		return item;
	if (braid_sql_token_is(last - 1, "AS")) {
		item.expr.nr -= 2;
	} else if (braid_sql_token_is(last - 1, ")") || last[-1].kind == BRAID_SQL_NUMBER ||
		   last[-1].kind == BRAID_SQL_STRING ||
		   (combine_is_name(last - 1) && !IS_ONE(last - 1, operators)) ||
		   braid_sql_token_is(last - 1, "END")) {
		item.expr.nr--;
	} else {
		return item;
	}
	item.alias = (struct braid_sql_range){ last, 1 };
	item.host = combine_is_host(item.expr);
	return item;
}

static int combine_items(struct combine *c)
{
	struct braid_sql_range rest = c->of.list, one;
	int found;

	while (braid_sql_range_next(&rest, &one)) {
		if (c->nr_items == MOST_ITEMS || !one.nr)
			return braid_fail(-EINVAL, "expected from 1 to %u columns", MOST_ITEMS);
		c->items[c->nr_items] = combine_item(one);
		found = combine_scan(c, c->items[c->nr_items].expr);
		if (found < 0)
			return found;
		c->items[c->nr_items++].aggregate = found;
		c->aggregate |= found;
	}
	return 0;
}

/* What a term of GROUP BY or ORDER BY stands for: an item by its number or alias, or itself. */
static struct braid_sql_range combine_term(const struct combine *c, struct braid_sql_range r)
{
	unsigned long number;
	size_t k;

	if (r.nr != 1)
		return r;
	number = r.at->kind == BRAID_SQL_NUMBER ? strtoul(r.at->at, NULL, 10) : 0;
	if (number && number <= c->nr_items)
		return c->items[number - 1].expr;
	for (k = 0; k < c->nr_items; k++)
		if (braid_sql_tokens_equal(c->items[k].alias.at, c->items[k].alias.nr, r.at, 1))
			return c->items[k].expr;
	return r;
}

static int combine_keys(struct combine *c)
{
	struct braid_sql_range rest = c->of.group, one;
	int found;

	while (braid_sql_range_next(&rest, &one)) {
		one = combine_term(c, one);
		found = combine_scan(c, one);
		if (found < 0)
			return found;
		if (found)
			return braid_fail(-EINVAL, "GROUP BY has an aggregate");
		if (combine_has(one, "COLLATE") || c->nr_keys == MOST_ITEMS)
			return braid_fail(-EOPNOTSUPP, "GROUP BY with COLLATE, or of more than %u terms, cannot be combined across hosts",
					  MOST_ITEMS);
		if (combine_is_host(one))
			c->by_host = true;
		else
			c->keys[c->nr_keys++] = one;
	}
	return 0;
}

/* Statements --------------------------------------------------------------------------------- */

/* "LIMIT 10 OFFSET 5", "LIMIT 5, 10": the number of rows that a host needs to send; 0: all. */
static u64 combine_limit(struct braid_sql_range r)
{
	u64 one = 0, two = 0;

	if (!r.nr || r.at[0].kind != BRAID_SQL_NUMBER || (r.nr != 1 && r.nr != 3) ||
	    (r.nr == 3 && r.at[2].kind != BRAID_SQL_NUMBER) || r.at[0].bytes > 9 ||
	    (r.nr == 3 && r.at[2].bytes > 9))
		return 0;
	one = strtoull(r.at[0].at, NULL, 10);
	two = r.nr == 3 ? strtoull(r.at[2].at, NULL, 10) : 0;
	return one + two;
}

static void combine_put(struct braid_text *to, const char *word, struct braid_sql_range r)
{
	if (!r.nr)
		return;
	braid_text_puts(to, word);
	braid_sql_tokens_put(to, r.at, r.nr);
}

/* ORDER BY of aggregates and keys. */
static int combine_order(struct combine *c, struct braid_text *to)
{
	static const char *const tails[] = { "ASC", "DESC", "NULLS", "FIRST", "LAST" };
	struct braid_sql_range rest = c->of.order, one, expr;
	const char *word = " ORDER BY ";
	int err = 0;

	while (!err && braid_sql_range_next(&rest, &one)) {
		expr = one;
		while (expr.nr && IS_ONE(&expr.at[expr.nr - 1], tails))
			expr.nr--;
		braid_text_puts(to, word);
		err = combine_expression(c, combine_term(c, expr), to);
		combine_put(to, " ", (struct braid_sql_range){ one.at + expr.nr, one.nr - expr.nr });
		word = ", ";
	}
	return err;
}

static void combine_put_name(struct braid_text *to, const struct item *item)
{
	struct braid_text name = { 0 };
	size_t k;

	if (item->alias.nr)
		return combine_put(to, " AS ", item->alias);
	braid_sql_tokens_put(&name, item->expr.at, item->expr.nr);
	braid_text_puts(to, " AS \"");
	for (k = 0; k < name.bytes; k++) {
		if (name.data[k] == '"')
			braid_text_putc(to, '"');
		braid_text_putc(to, name.data[k]);
	}
	braid_text_putc(to, '"');
	to->failed |= name.failed;
	braid_text_free(&name);
}

static void combine_put_inner(struct combine *c)
{
	struct braid_text *inner = &c->plan->inner;
	size_t k;

	combine_put(inner, "", c->of.with);
	braid_text_puts(inner, c->of.with.nr ? " SELECT " : "SELECT ");
	for (k = 0; k < c->nr_keys; k++)
		combine_put(inner, k ? ", " : "", c->keys[k]);
	braid_text_put(inner, c->partials.data, c->partials.bytes);
	if (!c->nr_keys && !c->nr_partials)
		braid_text_puts(inner, "1");
	combine_put(inner, " ", c->of.from);
	for (k = 0; k < c->nr_keys; k++) {
		/* In parentheses it is no number of a column, and no alias. */
		combine_put(inner, k ? ", (" : " GROUP BY (", c->keys[k]);
		braid_text_putc(inner, ')');
	}
	c->plan->nr_columns = c->nr_keys + c->nr_partials ?: 1;
}

static int combine_groups(struct combine *c)
{
	struct braid_text *outer = &c->plan->outer;
	int err = combine_keys(c);
	size_t k;

	braid_text_puts(outer, c->of.distinct ? "SELECT DISTINCT " : "SELECT ");
	for (k = 0; k < c->nr_items && !err; k++) {
		braid_text_puts(outer, k ? ", " : "");
		if (c->items[k].host && !c->by_host)
			return braid_fail(-EOPNOTSUPP, "'host' is not a term of GROUP BY");
		err = combine_expression(c, c->items[k].expr, outer);
		combine_put_name(outer, &c->items[k]);
	}
	braid_text_puts(outer, " FROM " BRAID_FLEET_ROWS);
	for (k = 0; k < c->nr_keys; k++)
		braid_text_printf(outer, "%s c%zu", k ? "," : " GROUP BY", k);
	if (c->by_host)
		braid_text_puts(outer, c->nr_keys ? ", host" : " GROUP BY host");
	if (!err && c->of.having.nr) {
		braid_text_puts(outer, " HAVING ");
		err = combine_expression(c, c->of.having, outer);
	}
	if (!err)
		err = combine_order(c, outer);
	combine_put(outer, " LIMIT ", c->of.limit);
	combine_put_inner(c);
	c->plan->whole = true;
	return err;
}

/* ORDER BY of columns by their names, or numbers, which host precedes. */
static int combine_order_rows(struct combine *c, bool named)
{
	struct braid_text *to = &c->plan->outer;
	struct braid_sql_range rest = c->of.order, one;
	const char *word = " ORDER BY ";

	for (; braid_sql_range_next(&rest, &one); word = ", ") {
		braid_text_puts(to, word);
		if (!one.nr || one.at->kind != BRAID_SQL_NUMBER) {
			combine_put(to, "", one);
			continue;
		}
		if (named)
			return braid_fail(-EOPNOTSUPP, "ORDER BY with a column's number, where host is a column; name the column");
		braid_text_printf(to, "%lu", strtoul(one.at->at, NULL, 10) + !c->plan->hides_host);
		combine_put(to, " ", (struct braid_sql_range){ one.at + 1, one.nr - 1 });
	}
	return 0;
}

/* Rows as they are found; host is the first column, unless equal rows are to count once. */
static int combine_rows(struct combine *c)
{
	struct braid_text *inner = &c->plan->inner, *outer = &c->plan->outer;
	u64 most = combine_limit(c->of.limit);
	bool some = false, host = false;
	int found = combine_scan(c, c->of.order), err;
	size_t k;

	if (found || c->of.having.nr)
		return found < 0 ? found : braid_fail(-EINVAL, "HAVING, or an aggregate in ORDER BY, without GROUP BY");
	combine_put(inner, "", c->of.with);
	braid_text_puts(inner, c->of.distinct ? " SELECT DISTINCT " : " SELECT ");
	for (k = 0; k < c->nr_items; k++) {
		host |= c->items[k].host;
		if (c->items[k].host)
			continue;
		combine_put(inner, some ? ", " : "", c->items[k].expr);
		combine_put(inner, " AS ", c->items[k].alias);
		some = true;
	}
	braid_text_puts(inner, some ? " " : "1 AS one ");
	combine_put(inner, "", c->of.from);
	if (most) {
		if (!combine_has(c->of.order, "host"))
			combine_put(inner, " ORDER BY ", c->of.order);
		if (!c->of.order.nr || !combine_has(c->of.order, "host"))
			braid_text_printf(inner, " LIMIT %llu", (unsigned long long)most);
	}
	c->plan->hides_host = c->of.distinct && !host;
	braid_text_puts(outer, c->of.distinct ? "SELECT DISTINCT " : "SELECT ");
	braid_text_puts(outer, some ? "*" : "host");
	braid_text_puts(outer, " FROM " BRAID_FLEET_ROWS);
	err = combine_order_rows(c, host);
	combine_put(outer, " LIMIT ", c->of.limit);
	return err;
}

int braid_fleet_combine(struct braid_fleet_plan *plan, const char *text)
{
	braid_auto_free struct combine *c = calloc(1, sizeof(*c));
	int err;

	*plan = (struct braid_fleet_plan){ 0 };
	if (!c)
		return braid_out_of_memory();
	c->plan = plan;
	err = combine_open(c);
	if (!err)
		err = braid_sql_statement_read(&c->of, text);
	if (!err)
		err = combine_items(c);
	if (!err)
		err = c->aggregate || c->of.group.nr ? combine_groups(c) : combine_rows(c);
	if (!err && (plan->inner.failed || plan->outer.failed || c->partials.failed))
		err = braid_out_of_memory();
	braid_text_putc(&plan->inner, 0);
	braid_text_putc(&plan->outer, 0);
	braid_text_free(&c->partials);
	sqlite3_finalize(c->functions);
	sqlite3_close(c->db);
	return err;
}

void braid_fleet_plan_free(struct braid_fleet_plan *plan)
{
	braid_text_free(&plan->inner);
	braid_text_free(&plan->outer);
}
