// SPDX-License-Identifier: GPL-2.0-or-later
/* A cursor of a table: a walk, the types that it meets, and the order of its rows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/sql/private.h"

static struct braid_sql_cursor *cursor_inner(sqlite3_vtab_cursor *cursor)
{
	return (struct braid_sql_cursor *)cursor;
}

static int cursor_fail(struct braid_sql_cursor *c, int err)
{
	if (err == -ENOMEM)
		return SQLITE_NOMEM;
	sqlite3_free(c->base.pVtab->zErrMsg);
	c->base.pVtab->zErrMsg = sqlite3_mprintf("%s", tracebraid_error());
	return err == -EINTR ? SQLITE_INTERRUPT : SQLITE_ERROR;
}

/* Open, close --------------------------------------------------------------------------------- */

int braid_sql_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor)
{
	struct braid_sql_cursor *c = calloc(1, sizeof(*c));

	if (!c)
		return SQLITE_NOMEM;
	c->table = ((struct braid_sql_vtab *)vtab)->table;
	*cursor = &c->base;
	return SQLITE_OK;
}

static void end_walk(struct braid_sql_cursor *c)
{
	size_t k;

	tracebraid_walk_free(c->walk);
	for (k = 0; k < c->nr_types; k++)
		free(c->types[k].fields);
	free(c->types);
	c->walk = NULL;
	c->types = NULL;
	c->nr_types = 0;
}

static void cursor_end(struct braid_sql_cursor *c)
{
	end_walk(c);
	if (c->trace)
		braid_sql_give_trace(c->table->sql, c->trace);
	c->trace = NULL;
	braid_sql_sort_free(c->sort);
	c->sort = NULL;
	c->direct = false;
	braid_sql_selection_free(&c->selection);
}

int braid_sql_cursor_close(sqlite3_vtab_cursor *cursor)
{
	cursor_end(cursor_inner(cursor));
	braid_text_free(&cursor_inner(cursor)->text);
	free(cursor);
	return SQLITE_OK;
}

/* Rows ---------------------------------------------------------------------------------------- */

static int cursor_grow_types(struct braid_sql_cursor *c, size_t number)
{
	size_t nr = c->nr_types ?: 64;
	struct braid_sql_type *types;

	while (nr <= number)
		nr *= 2;
	types = realloc(c->types, nr * sizeof(*types));
	if (!types)
		return -ENOMEM;
	memset(types + c->nr_types, 0, (nr - c->nr_types) * sizeof(*types));
	c->types = types;
	c->nr_types = nr;
	return 0;
}

static int meet_type(struct braid_sql_cursor *c, struct braid_sql_type *t,
		     const struct tracebraid_type *type)
{
	const struct braid_sql_table *table = c->table;
	size_t own = BRAID_SQL_NR_TYPE_COLUMNS, k;

	t->state = BRAID_SQL_TYPE_WANTED;
	if (!table->event)
		return 0;
	if (strcmp(tracebraid_type_name(type), table->event) ||
	    strcmp(tracebraid_type_system(type), table->system)) {
		t->state = BRAID_SQL_TYPE_LEFT_OUT;
		return 0;
	}
	t->fields = calloc(table->nr_columns - own + 1, sizeof(*t->fields));
	if (!t->fields)
		return -ENOMEM;
	for (k = own; k < table->nr_columns; k++)
		t->fields[k - own] = tracebraid_type_find(type, table->columns[k].field);
	return 0;
}

/* Whether the walk is at a row. Return: 1, 0, or -ENOMEM. */
static int cursor_wants(struct braid_sql_cursor *c, int got)
{
	const struct tracebraid_type *type;
	size_t number;
	int err = 0;

	if (got != (int)c->table->kind)
		return 0;
	if (got != TRACEBRAID_EVENT)
		return 1;
	type = tracebraid_event_type(c->walk);
	number = tracebraid_type_number(type);
	if (number >= c->nr_types)
		err = cursor_grow_types(c, number);
	if (!err && c->types[number].state == BRAID_SQL_TYPE_NEW)
		err = meet_type(c, &c->types[number], type);
	if (err)
		return err;
	c->type = &c->types[number];
	return c->type->state == BRAID_SQL_TYPE_WANTED;
}

/* Return: 1: the walk is at its next row; 0: at its end; or -errno with an error. */
static int step(struct braid_sql_cursor *c)
{
	int got, ret = 0;

	do {
		got = tracebraid_walk_next(c->walk);
		if (got > 0)
			ret = cursor_wants(c, got);
	} while (got > 0 && !ret);
	return got < 0 ? got : ret;
}

static int begin_walk(struct braid_sql_cursor *c)
{
	return tracebraid_walk_new(&c->walk, c->trace, (const char *const *)c->selection.words);
}

/* Rows that are sorted ------------------------------------------------------------------------- */

/* The next row of the key that is taken along the walk. Return: as step() */
static int step_direct(struct braid_sql_cursor *c)
{
	int got, ret = 0;

	do {
		got = step(c);
		if (got > 0)
			ret = braid_sql_sort_is_direct(c->sort);
	} while (got > 0 && !ret);
	if (got <= 0) {
		end_walk(c);
		c->direct = false;
	}
	return got > 0 ? ret : got;
}

/* Return: enum braid_sql_pass, or -errno with an error. */
static int pass(struct braid_sql_cursor *c)
{
	int err = c->walk ? 0 : begin_walk(c), got, ret = 0;

	if (err)
		return err;
	while (!ret && (got = step(c)) > 0)
		ret = braid_sql_sort_keep(c->sort);
	end_walk(c);
	if (ret || got < 0)
		return ret ? ret : got;
	ret = braid_sql_sort_end_pass(c->sort);
	c->direct = ret == BRAID_SQL_PASS_DIRECT;
	err = c->direct ? begin_walk(c) : 0;
	return err ? err : ret;
}

static int step_sorted(struct braid_sql_cursor *c)
{
	int ret = 0;

	while (!ret) {
		ret = c->direct ? step_direct(c) : braid_sql_sort_next(c->sort);
		if (ret)
			break;
		if (!braid_sql_sort_more(c->sort))
			return 0;
		ret = pass(c);
		if (ret >= 0)
			ret = 0;
	}
	return ret;
}

/* Next, filter --------------------------------------------------------------------------------- */

int braid_sql_cursor_next(sqlite3_vtab_cursor *cursor)
{
	struct braid_sql_cursor *c = cursor_inner(cursor);
	int ret = c->sort ? step_sorted(c) : step(c);

	if (ret > 0) {
		c->nr_sorted++;
		return SQLITE_OK;
	}
	if (ret < 0)
		ret = cursor_fail(c, ret);
	cursor_end(c);
	return ret;
}

int braid_sql_cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int nr,
			    sqlite3_value **values)
{
	struct braid_sql_cursor *c = cursor_inner(cursor);
	struct braid_sql_order order;
	int err;

	cursor_end(c);
	c->nr_sorted = 0;
	err = braid_sql_take_trace(c->table->sql, &c->trace);
	if (err)
		return cursor_fail(c, err);
	braid_sql_select(&c->selection, c->table, plan, values, nr);
	braid_sql_order_of(&order, number, plan + nr);
	if (order.nr)
		c->sort = braid_sql_sort_new(c, &order);
	if (c->selection.failed || (order.nr && !c->sort))
		err = -ENOMEM;
	else
		err = begin_walk(c);
	if (!err)
		return braid_sql_cursor_next(cursor);
	cursor_end(c);
	/* A stream or buffer that is not there has no rows. */
	return err == -ENOENT ? SQLITE_OK : cursor_fail(c, err);
}

int braid_sql_cursor_eof(sqlite3_vtab_cursor *cursor)
{
	return !cursor_inner(cursor)->trace;
}

int braid_sql_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid)
{
	struct braid_sql_cursor *c = cursor_inner(cursor);
	int err = 0;

	*rowid = c->nr_sorted;
	if (!c->sort)
		err = braid_sql_row_id(&c->table->sql->rings, c->walk, rowid);
	return err ? cursor_fail(c, err) : SQLITE_OK;
}

int braid_sql_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int number)
{
	struct braid_sql_cursor *c = cursor_inner(cursor);
	const struct braid_sql_value *kept;
	struct braid_sql_value value;

	if (c->walk) {
		braid_sql_value_of(c, (unsigned int)number, &value);
		braid_sql_put(to, &value);
		return SQLITE_OK;
	}
	kept = braid_sql_sort_value(c->sort, (unsigned int)number);
	if (kept)
		braid_sql_put(to, kept);
	else
		sqlite3_result_error(to, "SQLite reads a column that it did not ask for", -1);
	return SQLITE_OK;
}
