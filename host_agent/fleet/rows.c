// SPDX-License-Identifier: GPL-2.0-or-later
/* Rows of all hosts as a table. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/fleet/combine.h"
#include "host_agent/fleet/literal.h"
#include "host_agent/fleet/rows.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/sql_histogram.h"

/* A message whose rows wait. */
struct rows_message {
	struct braid_fleet_packet *packet;
	struct braid_fleet_host *host;
	const char *at, *end;
};

struct braid_fleet_rows {
	struct braid_fleet_rows_options o;
	struct braid_fleet_client *client;
	sqlite3 *db;
	char **names;
	int nr;
	struct rows_message *messages;	/* whole: all; else the one that is read */
	size_t nr_messages, capacity, next;
	struct rows_message *now;	/* NULL: at the end, or not begun */
	struct braid_literal *values;
	int nr_values;
	struct braid_text texts;
	sqlite3_int64 rowid;
	bool began;
};

struct rows_vtab {
	sqlite3_vtab base;
	struct braid_fleet_rows *rows;
};

/* Lines -------------------------------------------------------------------------------------- */

static int rows_parse(struct braid_fleet_rows *r, const char *line, size_t bytes)
{
	return r->o.csv ? braid_csv_read(line, bytes, r->values, BRAID_FLEET_COLUMNS, &r->texts) :
			  braid_literals_read(line, bytes, r->values, BRAID_FLEET_COLUMNS,
					      &r->texts);
}

/* The next line of a message. Return: false: it has none. */
static bool rows_line(struct rows_message *m, const char **line, size_t *bytes)
{
	const char *feed = m->at < m->end ? memchr(m->at, '\n', m->end - m->at) : NULL;

	if (m->at == m->end)
		return false;
	*line = m->at;
	*bytes = (feed ?: m->end) - m->at;
	m->at = feed ? feed + 1 : m->end;
	return true;
}

/* The names of columns: the first host's count; another one's must be the same. */
static int rows_take_names(struct braid_fleet_rows *r, struct rows_message *m)
{
	const char *line;
	size_t bytes;
	int nr, k;

	if (!rows_line(m, &line, &bytes))
		return braid_fail(-EBADMSG, "it has sent no names of columns");
	nr = rows_parse(r, line, bytes);
	if (nr < 0)
		return nr;
	if (r->o.nr_columns)	/* their names are ours */
		return nr == r->o.nr_columns ? 0 :
		       braid_fail(-EBADMSG, "it has sent other columns than were asked for");
	for (k = 0; k < nr; k++)
		if (r->values[k].kind != BRAID_LITERAL_TEXT)
			return braid_fail(-EBADMSG, "it has sent names of columns that are not valid");
	if (!r->names) {
		r->names = calloc(nr, sizeof(*r->names));
		for (k = 0; k < nr && r->names; k++) {
			r->names[k] = strndup(r->texts.data + r->values[k].at, r->values[k].bytes);
			if (!r->names[k])
				return braid_out_of_memory();
		}
		r->nr = nr;
		return r->names ? 0 : braid_out_of_memory();
	}
	for (k = 0; k < nr && nr == r->nr; k++)
		if (strlen(r->names[k]) != r->values[k].bytes ||
		    memcmp(r->names[k], r->texts.data + r->values[k].at, r->values[k].bytes))
			break;
	return k == r->nr && nr == r->nr ? 0 :
	       braid_fail(-EBADMSG, "its columns are not those of other hosts; name them instead of *");
}

/* Messages ----------------------------------------------------------------------------------- */

/* Adds a host's message. Its first one begins with names. */
static int rows_add(struct braid_fleet_rows *r, struct braid_fleet_event *e)
{
	struct rows_message m = {
		.packet = e->packet, .host = e->host, .at = e->message.body,
		.end = e->message.body + e->message.bytes,
	};
	int err = e->host->seq == 1 ? rows_take_names(r, &m) : 0;

	if (err == -EBADMSG) {
		braid_fleet_client_fail(r->client, e->host, braid_failure());
		err = 0;
	} else if (!err && !braid_array_push(r->messages, r->nr_messages, r->capacity, m)) {
		return 0;
	} else if (!err) {
		err = braid_out_of_memory();
	}
	free(e->packet);
	return err;
}

/* Waits for a message, or, if hosts are to be whole, for all. Return: 1; 0: no more; or -errno. */
static int rows_wait(struct braid_fleet_rows *r)
{
	struct braid_fleet_event e;
	int ret = 1;

	while (ret > 0 && (r->o.whole || r->next == r->nr_messages)) {
		ret = braid_fleet_client_next(r->client, &e);
		if (ret <= 0 || !e.packet)
			continue;
		if (rows_add(r, &e))
			return -ENOMEM;
		if (r->o.whole)
			braid_fleet_client_grant(r->client, e.host);
	}
	return ret < 0 ? ret : r->next < r->nr_messages;
}

/* The next row of all. Return: 1; 0: at the end; or -errno with braid_fail(). */
static int rows_step(struct braid_fleet_rows *r)
{
	const char *line;
	size_t bytes;
	int ret;

	for (;;) {
		while (r->now && rows_line(r->now, &line, &bytes)) {
			ret = rows_parse(r, line, bytes);
			if (ret == r->nr) {
				r->nr_values = ret;
				r->now->host->rows++;
				r->rowid++;
				return 1;
			}
			if (r->o.whole)	/* some of its rows may be in a sum already */
				return braid_fail(-EBADMSG, "%s: a row is not valid", r->now->host->name);
			braid_fleet_client_fail(r->client, r->now->host, "a row is not valid");
			r->now->at = r->now->end;
		}
		if (r->now) {
			free(r->now->packet);
			r->now->packet = NULL;
			if (!r->o.whole && r->now->host->state == BRAID_FLEET_ASKED)
				braid_fleet_client_grant(r->client, r->now->host);
			r->now = NULL;
			if (r->next == r->nr_messages && !r->o.whole)
				r->next = r->nr_messages = 0;
		}
		ret = r->next < r->nr_messages ? 1 : r->o.whole ? 0 : rows_wait(r);
		if (ret <= 0)
			return ret;
		r->now = &r->messages[r->next++];
		if (r->o.whole && r->now->host->state != BRAID_FLEET_DONE)
			r->now->at = r->now->end;
	}
}

/* The table ---------------------------------------------------------------------------------- */

static int rows_connect(sqlite3 *db, void *arg, int nr, const char *const *words,
			sqlite3_vtab **out, char **error)
{
	sqlite3_str *text = sqlite3_str_new(db);
	struct braid_fleet_rows *r = arg;
	struct rows_vtab *v;
	char *statement;
	int k, n, ret;

	(void)nr;
	(void)words;
	(void)error;
	sqlite3_str_appendf(text, "CREATE TABLE t(host%s", r->o.hides_host ? " HIDDEN" : "");
	for (k = 0; k < r->nr; k++) {
		if (r->o.nr_columns) {
			sqlite3_str_appendf(text, ", c%d", k);
			continue;
		}
		for (n = 0; n < k && sqlite3_stricmp(r->names[n], r->names[k]); n++)
			;
		if (n < k || !sqlite3_stricmp(r->names[k], "host"))
			sqlite3_str_appendf(text, ", \"%w:%d\"", r->names[k], k + 1);
		else
			sqlite3_str_appendf(text, ", \"%w\"", r->names[k]);
	}
	sqlite3_str_appendall(text, ")");
	statement = sqlite3_str_finish(text);
	ret = statement ? sqlite3_declare_vtab(db, statement) : SQLITE_NOMEM;
	sqlite3_free(statement);
	v = ret ? NULL : calloc(1, sizeof(*v));
	if (!v)
		return ret ?: SQLITE_NOMEM;
	v->rows = r;
	*out = &v->base;
	return SQLITE_OK;
}

static int rows_disconnect(sqlite3_vtab *vtab)
{
	free(vtab);
	return SQLITE_OK;
}

static int rows_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	(void)vtab;
	info->estimatedCost = 1e6;
	return SQLITE_OK;
}

static struct braid_fleet_rows *rows_of(sqlite3_vtab *vtab)
{
	return ((struct rows_vtab *)vtab)->rows;
}

static int rows_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor)
{
	(void)vtab;
	*cursor = calloc(1, sizeof(**cursor));
	return *cursor ? SQLITE_OK : SQLITE_NOMEM;
}

static int rows_close(sqlite3_vtab_cursor *cursor)
{
	free(cursor);
	return SQLITE_OK;
}

static int rows_next(sqlite3_vtab_cursor *cursor)
{
	struct braid_fleet_rows *r = rows_of(cursor->pVtab);
	int ret = rows_step(r);

	if (ret > 0)
		return SQLITE_OK;
	r->nr_values = -1;
	if (!ret)
		return SQLITE_OK;
	sqlite3_free(cursor->pVtab->zErrMsg);
	cursor->pVtab->zErrMsg = sqlite3_mprintf("%s", braid_failure());
	return ret == -EINTR ? SQLITE_INTERRUPT : ret == -ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
}

/* What was taken is gone: a second pass would find nothing, which is worse than an error. */
static int rows_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int nr,
		       sqlite3_value **values)
{
	struct braid_fleet_rows *r = rows_of(cursor->pVtab);

	(void)number;
	(void)plan;
	(void)nr;
	(void)values;
	if (r->began) {
		cursor->pVtab->zErrMsg = sqlite3_mprintf("the rows of the hosts can be read once");
		return SQLITE_ERROR;
	}
	r->began = true;
	return rows_next(cursor);
}

static int rows_eof(sqlite3_vtab_cursor *cursor)
{
	return rows_of(cursor->pVtab)->nr_values < 0;
}

static int rows_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int k)
{
	struct braid_fleet_rows *r = rows_of(cursor->pVtab);
	const struct braid_literal *l = &r->values[k - 1];

	if (!k) {
		sqlite3_result_text(to, r->now->host->name, -1, SQLITE_TRANSIENT);
		return SQLITE_OK;
	}
	switch (l->kind) {
	case BRAID_LITERAL_NULL:
		break;
	case BRAID_LITERAL_NUMBER:
		sqlite3_result_int64(to, l->number);
		break;
	case BRAID_LITERAL_REAL:
		sqlite3_result_double(to, l->real);
		break;
	case BRAID_LITERAL_TEXT:
		sqlite3_result_text(to, l->bytes ? r->texts.data + l->at : "", l->bytes,
				    SQLITE_TRANSIENT);
		break;
	case BRAID_LITERAL_BLOB:
		sqlite3_result_blob(to, l->bytes ? r->texts.data + l->at : "", l->bytes,
				    SQLITE_TRANSIENT);
	}
	return SQLITE_OK;
}

static int rows_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *number)
{
	*number = rows_of(cursor->pVtab)->rowid;
	return SQLITE_OK;
}

static const sqlite3_module rows_module = {
	.xConnect = rows_connect, .xDisconnect = rows_disconnect, .xBestIndex = rows_best_index,
	.xOpen = rows_open, .xClose = rows_close, .xFilter = rows_filter, .xNext = rows_next,
	.xEof = rows_eof, .xColumn = rows_column, .xRowid = rows_rowid,
};

int braid_fleet_rows_open(struct braid_fleet_rows **out, struct braid_fleet_client *c,
			  const struct braid_fleet_rows_options *o)
{
	struct braid_fleet_rows *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return braid_out_of_memory();
	r->o = *o;
	r->client = c;
	r->values = calloc(BRAID_FLEET_COLUMNS, sizeof(*r->values));
	err = r->values ? rows_wait(r) : braid_out_of_memory();
	if (err > 0)
		err = 0;
	if (!err && o->nr_columns)
		r->nr = o->nr_columns;
	if (!err && !r->nr)
		err = braid_fail(-ENODATA, "no host has sent rows");
	if (!err && (sqlite3_open(":memory:", &r->db) || braid_sql_add_histograms(r->db) ||
		     sqlite3_create_module(r->db, BRAID_FLEET_ROWS, &rows_module, r)))
		err = braid_out_of_memory();
	if (err) {
		braid_fleet_rows_close(r);
		return err;
	}
	*out = r;
	return 0;
}

sqlite3 *braid_fleet_rows_database(const struct braid_fleet_rows *r)
{
	return r->db;
}

void braid_fleet_rows_close(struct braid_fleet_rows *r)
{
	int k;

	if (!r)
		return;
	sqlite3_close(r->db);
	for (; r->next < r->nr_messages; r->next++)
		free(r->messages[r->next].packet);
	for (k = 0; k < r->nr && r->names; k++)
		free(r->names[k]);
	free(r->names);
	free(r->messages);
	free(r->values);
	braid_text_free(&r->texts);
	free(r);
}
