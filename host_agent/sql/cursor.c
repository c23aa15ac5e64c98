// SPDX-License-Identifier: GPL-2.0-or-later
/* A cursor of a table: a walk, and the fields of the types that it meets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/sql/private.h"

/* What a type of the walk is to the table; fields are looked up when it is met. */
struct type {
	enum { TYPE_NEW = 0, TYPE_WANTED, TYPE_LEFT_OUT } state;
	const struct tracebraid_field **fields;	/* by column after the table's own; NULL: none */
};

struct cursor {
	sqlite3_vtab_cursor base;
	const struct braid_sql_table *table;
	struct tracebraid_trace *trace;	/* NULL: at the end */
	struct tracebraid_walk *walk;
	sqlite3_int64 rowid;
	struct type *types;		/* by number */
	size_t nr_types;
	const struct type *type;	/* of the row */
	struct braid_text text;
};

static struct cursor *cursor_inner(sqlite3_vtab_cursor *cursor)
{
	return (struct cursor *)cursor;
}

static int cursor_fail(struct cursor *c, int err)
{
	sqlite3_free(c->base.pVtab->zErrMsg);
	c->base.pVtab->zErrMsg = sqlite3_mprintf("%s", tracebraid_error());
	return err == -ENOMEM ? SQLITE_NOMEM : err == -EINTR ? SQLITE_INTERRUPT : SQLITE_ERROR;
}

/* Open, close --------------------------------------------------------------------------------- */

int braid_sql_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor)
{
	struct cursor *c = calloc(1, sizeof(*c));

	if (!c)
		return SQLITE_NOMEM;
	c->table = ((struct braid_sql_vtab *)vtab)->table;
	*cursor = &c->base;
	return SQLITE_OK;
}

static void end_walk(struct cursor *c)
{
	size_t k;

	tracebraid_walk_free(c->walk);
	if (c->trace)
		braid_sql_give_trace(c->table->sql, c->trace);
	for (k = 0; k < c->nr_types; k++)
		free(c->types[k].fields);
	free(c->types);
	c->walk = NULL;
	c->trace = NULL;
	c->types = NULL;
	c->nr_types = 0;
}

int braid_sql_cursor_close(sqlite3_vtab_cursor *cursor)
{
	end_walk(cursor_inner(cursor));
	braid_text_free(&cursor_inner(cursor)->text);
	free(cursor);
	return SQLITE_OK;
}

/* Rows ---------------------------------------------------------------------------------------- */

static int cursor_grow_types(struct cursor *c, size_t number)
{
	size_t nr = c->nr_types ?: 64;
	struct type *types;

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

static int meet_type(struct cursor *c, struct type *t, const struct tracebraid_type *type)
{
	const struct braid_sql_table *table = c->table;
	size_t own = BRAID_SQL_NR_TYPE_COLUMNS, k;

	t->state = TYPE_WANTED;
	if (!table->event)
		return 0;
	if (strcmp(tracebraid_type_name(type), table->event) ||
	    strcmp(tracebraid_type_system(type), table->system)) {
		t->state = TYPE_LEFT_OUT;
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
static int cursor_wants(struct cursor *c, int got)
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
	if (!err && c->types[number].state == TYPE_NEW)
		err = meet_type(c, &c->types[number], type);
	if (err)
		return err;
	c->type = &c->types[number];
	return c->type->state == TYPE_WANTED;
}

int braid_sql_cursor_next(sqlite3_vtab_cursor *cursor)
{
	struct cursor *c = cursor_inner(cursor);
	int got, ret = 0;

	do {
		got = tracebraid_walk_next(c->walk);
		if (got > 0)
			ret = cursor_wants(c, got);
	} while (got > 0 && !ret);
	if (got > 0 && ret > 0) {
		c->rowid++;
		return SQLITE_OK;
	}
	end_walk(c);
	return got < 0 ? cursor_fail(c, got) : ret < 0 ? SQLITE_NOMEM : SQLITE_OK;
}

int braid_sql_cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int nr,
			    sqlite3_value **values)
{
	struct cursor *c = cursor_inner(cursor);
	struct braid_sql_selection selection;
	int err;

	(void)number;
	end_walk(c);
	c->rowid = 0;
	err = braid_sql_take_trace(c->table->sql, &c->trace);
	if (err)
		return cursor_fail(c, err);
	braid_sql_select(&selection, c->table, plan, values, nr);
	err = selection.failed ? -ENOMEM :
	      tracebraid_walk_new(&c->walk, c->trace, (const char *const *)selection.words);
	braid_sql_selection_free(&selection);
	if (!err)
		return braid_sql_cursor_next(cursor);
	end_walk(c);
	/* A stream or buffer that is not there has no rows. */
	return err == -ENOENT ? SQLITE_OK : cursor_fail(c, err);
}

int braid_sql_cursor_eof(sqlite3_vtab_cursor *cursor)
{
	return !cursor_inner(cursor)->walk;
}

int braid_sql_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid)
{
	*rowid = cursor_inner(cursor)->rowid;
	return SQLITE_OK;
}

/* Values -------------------------------------------------------------------------------------- */

static void put_u64(sqlite3_context *to, uint64_t value)
{
	if (value == TRACEBRAID_UNKNOWN)
		sqlite3_result_null(to);
	else
		sqlite3_result_int64(to, (sqlite3_int64)value);
}

/* Text of a walk lives as long as the walk is at the item. */
static void cursor_put_text(sqlite3_context *to, const char *text)
{
	if (text)
		sqlite3_result_text(to, text, -1, SQLITE_TRANSIENT);
	else
		sqlite3_result_error_nomem(to);
}

static void cursor_put_string(struct cursor *c, sqlite3_context *to, const char *data, size_t bytes)
{
	c->text.bytes = 0;
	if (braid_text_plain(data, bytes)) {
		sqlite3_result_text64(to, data, bytes, SQLITE_TRANSIENT, SQLITE_UTF8);
		return;
	}
	braid_text_safe(&c->text, data, bytes);
	if (c->text.failed)
		sqlite3_result_error_nomem(to);
	else
		sqlite3_result_text64(to, c->text.data, c->text.bytes, SQLITE_TRANSIENT,
				      SQLITE_UTF8);
}

static void put_field(struct cursor *c, sqlite3_context *to, const struct tracebraid_field *field)
{
	const void *data;
	int64_t number;
	size_t bytes;

	if (!field)
		return;
	if (tracebraid_field_kind(field) == TRACEBRAID_NUMBER) {
		if (!tracebraid_number(c->walk, field, &number))
			sqlite3_result_int64(to, number);
		return;
	}
	data = tracebraid_bytes(c->walk, field, &bytes);
	if (!data)
		return;
	if (tracebraid_field_kind(field) == TRACEBRAID_STRING)
		cursor_put_string(c, to, data, bytes);
	else
		sqlite3_result_blob64(to, data, bytes, SQLITE_TRANSIENT);
}

static void cursor_put_vcpu(struct cursor *c, sqlite3_context *to, bool name)
{
	const struct tracebraid_stream *guest;
	uint32_t vcpu;

	guest = tracebraid_vcpu(c->walk, &vcpu);
	if (guest && name)
		sqlite3_result_text(to, tracebraid_stream_name(guest), -1, SQLITE_STATIC);
	else if (guest && vcpu != UINT32_MAX)
		sqlite3_result_int64(to, vcpu);
}

static void cursor_put_rest(struct cursor *c, sqlite3_context *to, enum braid_sql_from from)
{
	const struct tracebraid_stream *stream = tracebraid_item_stream(c->walk);
	int32_t pid;

	switch (from) {
	case BRAID_SQL_STREAM:
		return sqlite3_result_text(to, tracebraid_stream_name(stream), -1, SQLITE_STATIC);
	case BRAID_SQL_STREAM_ID:
		return sqlite3_result_int64(to, tracebraid_stream_number(stream));
	case BRAID_SQL_BUFFER:
		return cursor_put_text(to, tracebraid_buffer(c->walk));
	case BRAID_SQL_PID:
		pid = tracebraid_pid(c->walk);
		return pid < 0 ? sqlite3_result_null(to) : sqlite3_result_int64(to, pid);
	case BRAID_SQL_COMM:
		return tracebraid_pid(c->walk) < 0 ? sqlite3_result_null(to) :
						     cursor_put_text(to, tracebraid_comm(c->walk));
	case BRAID_SQL_SYSTEM:
		return cursor_put_text(to, tracebraid_type_system(tracebraid_event_type(c->walk)));
	case BRAID_SQL_NAME:
		return cursor_put_text(to, tracebraid_type_name(tracebraid_event_type(c->walk)));
	case BRAID_SQL_FIELDS:
		return cursor_put_text(to, tracebraid_json(c->walk));
	case BRAID_SQL_TEXT:
		return cursor_put_text(to, tracebraid_text(c->walk));
	default:
		return cursor_put_vcpu(c, to, from == BRAID_SQL_GUEST);
	}
}

int braid_sql_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int number)
{
	struct cursor *c = cursor_inner(cursor);
	const struct braid_sql_column *column = &c->table->columns[number];

	switch (column->from) {
	case BRAID_SQL_FIELD:
		put_field(c, to, c->type->fields[number - (int)BRAID_SQL_NR_TYPE_COLUMNS]);
		break;
	case BRAID_SQL_NS:
		sqlite3_result_int64(to, tracebraid_ns(c->walk));
		break;
	case BRAID_SQL_BOUND:
		put_u64(to, tracebraid_bound_ns(c->walk));
		break;
	case BRAID_SQL_UNCERTAIN:
		sqlite3_result_int(to, tracebraid_uncertain(c->walk));
		break;
	case BRAID_SQL_CPU:
		sqlite3_result_int64(to, tracebraid_cpu(c->walk));
		break;
	case BRAID_SQL_SEQ:
		sqlite3_result_int64(to, (sqlite3_int64)tracebraid_seq(c->walk));
		break;
	case BRAID_SQL_LOST:
		put_u64(to, tracebraid_lost(c->walk));
		break;
	default:
		cursor_put_rest(c, to, column->from);
	}
	return SQLITE_OK;
}
