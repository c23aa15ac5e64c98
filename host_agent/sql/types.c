// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A table for each event type, by system and name. Streams and buffers may define it
 * differently: its fields are those of all. A name that several systems have, or that is a table's
 * of ours, becomes SYSTEM_NAME.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define MOST_TRIES	16u	/* to find a name that is not taken */

/* A type that a stream defines. */
struct found {
	const struct tracebraid_type *type;
	const char *system, *name;
	size_t order;
};

struct finder {
	struct found *found;
	size_t nr, capacity;
	void *names;		/* of tables, as tsearch() has them; of the columns of one */
};

static int compare_names(const void *a, const void *b)
{
	return strcasecmp(a, b);
}

static void types_keep(void *name)
{
	(void)name;
}

static bool taken(void **names, const char *name)
{
	return tfind(name, names, compare_names);
}

/* Return: 0 or -ENOMEM. */
static int types_take(void **names, const char *name)
{
	return tsearch(name, names, compare_names) ? 0 : braid_out_of_memory();
}

static int types_find(void *arg, const struct tracebraid_stream *stream,
		      const struct tracebraid_type *type)
{
	struct finder *f = arg;
	const struct found found = {
		type, tracebraid_type_system(type), tracebraid_type_name(type), f->nr,
	};

	(void)stream;
	if (strlen(found.system) + strlen(found.name) > BRAID_SQL_MOST_NAME || !found.name[0])
		return 0;
	return braid_array_push(f->found, f->nr, f->capacity, found) ? braid_out_of_memory() : 0;
}

static int compare_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	int ret = strcasecmp(x->name, y->name);

	if (!ret)
		ret = strcmp(x->name, y->name);
	if (!ret)
		ret = strcmp(x->system, y->system);
	return ret ?: x->order < y->order ? -1 : 1;
}

static bool types_same(const struct found *a, const struct found *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->system, b->system);
}

/* Columns ------------------------------------------------------------------------------------- */

/* A field's name as a column's, different from those before. NULL: out of memory. */
static char *column_name(void **names, const char *field)
{
	struct braid_text text = { 0 };

	braid_text_safe(&text, field, strlen(field));
	braid_text_putc(&text, '\0');
	while (!text.failed && taken(names, text.data)) {
		text.bytes--;
		braid_text_puts(&text, "_field");
		braid_text_putc(&text, '\0');
	}
	if (text.failed) {
		braid_text_free(&text);
		return NULL;
	}
	return text.data;
}

static const char *sql_type(const struct tracebraid_field *field)
{
	switch (tracebraid_field_kind(field)) {
	case TRACEBRAID_NUMBER:
		return "INTEGER";
	case TRACEBRAID_STRING:
		return "TEXT";
	default:
		return "BLOB";
	}
}

/* Columns of a table that is being made; the others of the same name are of the same field. */
struct maker {
	struct braid_sql_column *columns;
	size_t nr, capacity;
	void *names, *fields;
};

static int add_column(struct maker *m, const struct tracebraid_field *field)
{
	struct braid_sql_column column = { .type = sql_type(field), .from = BRAID_SQL_FIELD };
	const char *name = tracebraid_field_name(field);

	if (!name[0] || m->nr == BRAID_SQL_MOST_COLUMNS ||
	    tfind(name, &m->fields, (int (*)(const void *, const void *))strcmp))
		return 0;
	column.field = strdup(name);
	column.name = column.field ? column_name(&m->names, name) : NULL;
	if (!column.name || braid_array_push(m->columns, m->nr, m->capacity, column)) {
		free((char *)column.field);
		free((char *)column.name);
		return braid_out_of_memory();
	}
	if (!tsearch(column.field, &m->fields, (int (*)(const void *, const void *))strcmp))
		return braid_out_of_memory();
	return types_take(&m->names, column.name);
}

static int make_columns(struct maker *m, const struct found *found, size_t nr)
{
	const struct tracebraid_field *field;
	size_t k, n;
	int err = 0;

	for (k = 0; k < BRAID_SQL_NR_TYPE_COLUMNS && !err; k++)
		err = braid_array_push(m->columns, m->nr, m->capacity, braid_sql_type_columns[k]) ?
		      braid_out_of_memory() : types_take(&m->names, braid_sql_type_columns[k].name);
	for (k = 0; k < nr && !err; k++)
		for (n = 0; !err && (field = tracebraid_type_field(found[k].type, n)); n++)
			err = add_column(m, field);
	tdestroy(m->names, types_keep);
	tdestroy(m->fields, types_keep);
	return err;
}

/* Tables -------------------------------------------------------------------------------------- */

/* What a type's table is called. NULL: out of memory, or too many are called so. */
static char *table_name(struct finder *f, const struct found *found, bool alone)
{
	char *name;
	u32 k;

	if (alone && !taken(&f->names, found->name) && strncasecmp(found->name, "sqlite_", 7) &&
	    strncasecmp(found->name, "pragma_", 7) && strncasecmp(found->name, "json_", 5))
		return strdup(found->name);
	if (asprintf(&name, "%s_%s", found->system, found->name) < 0)
		return NULL;
	for (k = 2; taken(&f->names, name) && k < MOST_TRIES; k++) {
		free(name);
		if (asprintf(&name, "%s_%s_%u", found->system, found->name, k) < 0)
			return NULL;
	}
	if (k < MOST_TRIES)
		return name;
	free(name);
	return NULL;
}

static void free_table(struct braid_sql_table *t)
{
	size_t k;

	for (k = BRAID_SQL_NR_TYPE_COLUMNS; k < t->nr_columns; k++) {
		free((char *)t->columns[k].name);
		free((char *)t->columns[k].field);
	}
	free((void *)t->columns);
	free((char *)t->name);
	free((char *)t->system);
	free((char *)t->event);
}

/* A table of @nr equal types. */
static int add_table(struct braid_sql *sql, struct finder *f, const struct found *found, size_t nr,
		     bool alone)
{
	struct braid_sql_table table = {
		.sql = sql, .kind = TRACEBRAID_EVENT, .of_types = true,
		.name = table_name(f, found, alone),
		.system = strdup(found->system), .event = strdup(found->name),
	};
	struct maker m = { .nr = 0 };
	int err = table.system && table.event ? 0 : braid_out_of_memory();

	if (!err && table.name)
		err = make_columns(&m, found, nr);
	table.columns = m.columns;
	table.nr_columns = m.nr;
	if (!err && table.name)
		err = types_take(&f->names, table.name);
	if (!err && table.name &&
	    braid_array_push(sql->tables, sql->nr_tables, sql->tables_capacity, table))
		err = braid_out_of_memory();
	if (err || !table.name)
		free_table(&table);
	return err;
}

static int add_tables(struct braid_sql *sql, struct finder *f)
{
	const struct found *at = f->found, *end = f->found + f->nr;
	size_t nr;
	int err = 0;

	for (; at < end && !err && sql->nr_tables < BRAID_SQL_MOST_TABLES; at += nr) {
		for (nr = 1; at + nr < end && types_same(at, at + nr); nr++)
			;
		err = add_table(sql, f, at, nr,
				(at == f->found || strcasecmp(at[-1].name, at->name)) &&
				(at + nr == end || strcasecmp(at[nr].name, at->name)));
	}
	return err;
}

int braid_sql_add_types(struct braid_sql *sql)
{
	struct finder f = { .nr = 0 };
	struct tracebraid_trace *trace;
	struct tracebraid_walk *walk = NULL;
	size_t k;
	int err = braid_sql_take_trace(sql, &trace);

	if (err)
		return err;
	for (k = 0; k < sql->nr_names && !err; k++)
		err = types_take(&f.names, sql->names[k]);
	if (!err)
		err = tracebraid_walk_new(&walk, trace, NULL);
	if (!err)
		err = tracebraid_types(walk, types_find, &f);
	if (!err && f.nr) {
		qsort(f.found, f.nr, sizeof(*f.found), compare_found);
		err = add_tables(sql, &f);
	}
	free(f.found);
	tdestroy(f.names, types_keep);
	tracebraid_walk_free(walk);
	braid_sql_give_trace(sql, trace);
	return err;
}

void braid_sql_free_types(struct braid_sql *sql)
{
	size_t k;

	for (k = 0; k < sql->nr_tables; k++)
		if (sql->tables[k].of_types)
			free_table(&sql->tables[k]);
	free(sql->tables);
}
