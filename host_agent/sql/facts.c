// SPDX-License-Identifier: GPL-2.0-or-later
/* Tables of the analyses' results: each makes a separate pass over all events. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/error.h"

#define COST	1e8	/* of a pass, beside the walks of other tables */

enum from { FROM, TO, DURATION, BOUND, STREAM, STREAM_ID, HOST, VCPU, PID, COMM, STATE, CULPRIT,
	    REASON, CALL, LEVEL, IP, WAKER, NS };

struct column {
	const char *declaration;
	enum from from;
	const char *state;	/* NS: of this one */
};

static const struct column states[] = {
	{ "from_ns INTEGER", FROM, NULL }, { "to_ns INTEGER", TO, NULL },
	{ "duration_ns INTEGER", DURATION, NULL }, { "stream TEXT", STREAM, NULL },
	{ "vcpu INTEGER", VCPU, NULL }, { "state TEXT", STATE, NULL },
	{ "pid INTEGER", PID, NULL }, { "comm TEXT", COMM, NULL },
	{ "culprit TEXT", CULPRIT, NULL }, { "reason TEXT", REASON, NULL },
	{ "bound_ns INTEGER", BOUND, NULL }, { "stream_id INTEGER HIDDEN", STREAM_ID, NULL },
	{ "host TEXT HIDDEN", HOST, NULL },
	{ NULL, 0, NULL },
};

/* A task's are those of its vCPU while it is current, and "queued". */
static const struct column tasks[] = {
	{ "from_ns INTEGER", FROM, NULL }, { "to_ns INTEGER", TO, NULL },
	{ "duration_ns INTEGER", DURATION, NULL }, { "stream TEXT", STREAM, NULL },
	{ "pid INTEGER", PID, NULL }, { "comm TEXT", COMM, NULL }, { "state TEXT", STATE, NULL },
	{ "vcpu INTEGER", VCPU, NULL }, { "culprit TEXT", CULPRIT, NULL },
	{ "bound_ns INTEGER", BOUND, NULL }, { "stream_id INTEGER HIDDEN", STREAM_ID, NULL },
	{ "host TEXT HIDDEN", HOST, NULL },
	{ NULL, 0, NULL },
};

static const struct column exits[] = {
	{ "from_ns INTEGER", FROM, NULL }, { "to_ns INTEGER", TO, NULL },
	{ "duration_ns INTEGER", DURATION, NULL }, { "stream TEXT", STREAM, NULL },
	{ "vcpu INTEGER", VCPU, NULL }, { "reason TEXT", REASON, NULL },
	{ "pid INTEGER", PID, NULL }, { "comm TEXT", COMM, NULL }, { "call TEXT", CALL, NULL },
	{ "level INTEGER", LEVEL, NULL }, { "ip INTEGER", IP, NULL },
	{ "hypervisor_ns INTEGER", NS, "hypervisor" }, { "vmm_ns INTEGER", NS, "VMM" },
	{ "stolen_ns INTEGER", NS, "stolen" },
	{ "throttled_ns INTEGER", NS, "throttled" }, { "halted_ns INTEGER", NS, "halted" },
	{ "blocked_ns INTEGER", NS, "blocked" }, { "stopped_ns INTEGER", NS, "stopped" },
	{ "offline_ns INTEGER", NS, "offline" },
	{ "unknown_ns INTEGER", NS, "unknown" },
	{ "stream_id INTEGER HIDDEN", STREAM_ID, NULL },
	{ "host TEXT HIDDEN", HOST, NULL }, { NULL, 0, NULL },
};

static const struct column wakeups[] = {
	{ "from_ns INTEGER", FROM, NULL }, { "to_ns INTEGER", TO, NULL },
	{ "duration_ns INTEGER", DURATION, NULL }, { "stream TEXT", STREAM, NULL },
	{ "pid INTEGER", PID, NULL }, { "comm TEXT", COMM, NULL }, { "vcpu INTEGER", VCPU, NULL },
	{ "waker_vcpu INTEGER", WAKER, NULL }, { "guest_ns INTEGER", NS, "guest" },
	{ "hypervisor_ns INTEGER", NS, "hypervisor" }, { "vmm_ns INTEGER", NS, "VMM" },
	{ "running_ns INTEGER", NS, "running" }, { "stolen_ns INTEGER", NS, "stolen" },
	{ "throttled_ns INTEGER", NS, "throttled" }, { "halted_ns INTEGER", NS, "halted" }, { "blocked_ns INTEGER", NS, "blocked" },
	{ "sleeping_ns INTEGER", NS, "sleeping" }, { "stopped_ns INTEGER", NS, "stopped" },
	{ "offline_ns INTEGER", NS, "offline" },
	{ "unknown_ns INTEGER", NS, "unknown" }, { "bound_ns INTEGER", BOUND, NULL },
	{ "stream_id INTEGER HIDDEN", STREAM_ID, NULL },
	{ "host TEXT HIDDEN", HOST, NULL }, { NULL, 0, NULL },
};

static const struct table {
	const char *name;
	unsigned int kinds;
	const struct column *columns;
	bool of_tasks, woken;	/* rows of known tasks; of woken ones */
} tables[] = {
	{ "vcpu_state", TRACEBRAID_FACT_STATE, states, false, false },
	{ "task_state", TRACEBRAID_FACT_STATE | TRACEBRAID_FACT_WAIT, tasks, true, false },
	{ "exits", TRACEBRAID_FACT_EXIT, exits, false, false },
	{ "wakeups", TRACEBRAID_FACT_WAIT, wakeups, true, true },
};

#define NR_TABLES	(sizeof(tables) / sizeof(*tables))

struct vtab {
	sqlite3_vtab base;
	struct braid_sql *sql;
	const struct table *table;
};

struct cursor {
	sqlite3_vtab_cursor base;
	struct tracebraid_trace *trace;
	struct tracebraid_facts *facts;	/* NULL: at the end */
	struct tracebraid_fact fact;
	sqlite3_int64 rowid;
};

static struct cursor *facts_inner(sqlite3_vtab_cursor *cursor)
{
	return (struct cursor *)cursor;
}

static const struct vtab *outer(const struct cursor *c)
{
	return (const struct vtab *)c->base.pVtab;
}

/* Tables -------------------------------------------------------------------------------------- */

static int connect(sqlite3 *db, void *arg, int nr, const char *const *words, sqlite3_vtab **out,
		   char **error)
{
	sqlite3_str *text = sqlite3_str_new(db);
	const struct table *table = tables;
	const struct column *c;
	struct vtab *v;
	char *statement;
	int ret;

	(void)nr;
	(void)error;
	while (table < tables + NR_TABLES - 1 && strcmp(table->name, words[0]))
		table++;
	for (c = table->columns; c->declaration; c++)
		sqlite3_str_appendf(text, "%s%s", c == table->columns ? "CREATE TABLE t(" : ", ",
				    c->declaration);
	sqlite3_str_appendall(text, ")");
	statement = sqlite3_str_finish(text);
	ret = statement ? sqlite3_declare_vtab(db, statement) : SQLITE_NOMEM;
	sqlite3_free(statement);
	v = ret ? NULL : calloc(1, sizeof(*v));
	if (!v)
		return ret ?: SQLITE_NOMEM;
	sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
	v->sql = arg;
	v->table = table;
	*out = &v->base;
	return SQLITE_OK;
}

static int facts_disconnect(sqlite3_vtab *vtab)
{
	free(vtab);
	return SQLITE_OK;
}

/* A state depends on all events before it: nothing can be left out. */
static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	(void)vtab;
	info->estimatedCost = COST;
	return SQLITE_OK;
}

/* Rows ---------------------------------------------------------------------------------------- */

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor)
{
	struct cursor *c = calloc(1, sizeof(*c));

	(void)vtab;
	if (!c)
		return SQLITE_NOMEM;
	*cursor = &c->base;
	return SQLITE_OK;
}

static void end_facts(struct cursor *c)
{
	tracebraid_facts_free(c->facts);
	if (c->trace)
		braid_sql_give_trace(outer(c)->sql, c->trace);
	c->facts = NULL;
	c->trace = NULL;
}

static int close_cursor(sqlite3_vtab_cursor *cursor)
{
	end_facts(facts_inner(cursor));
	free(cursor);
	return SQLITE_OK;
}

static int facts_fail(struct cursor *c, int err)
{
	sqlite3_free(c->base.pVtab->zErrMsg);
	c->base.pVtab->zErrMsg = sqlite3_mprintf("%s", tracebraid_error());
	end_facts(c);
	return err == -ENOMEM ? SQLITE_NOMEM : err == -EINTR ? SQLITE_INTERRUPT : SQLITE_ERROR;
}

static bool facts_wants(const struct table *table, const struct tracebraid_fact *fact)
{
	return (!table->of_tasks || fact->pid > 0) && (!table->woken || fact->woken);
}

static int next(sqlite3_vtab_cursor *cursor)
{
	struct cursor *c = facts_inner(cursor);
	int got;

	do
		got = tracebraid_facts_next(c->facts, &c->fact);
	while (got > 0 && !facts_wants(outer(c)->table, &c->fact));
	c->rowid++;
	if (got < 0)
		return facts_fail(c, got);
	if (!got)
		end_facts(c);
	return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int nr,
		  sqlite3_value **values)
{
	struct cursor *c = facts_inner(cursor);
	int err;

	(void)number;
	(void)plan;
	(void)nr;
	(void)values;
	end_facts(c);
	c->rowid = 0;
	if (outer(c)->sql->options.since)
		return facts_fail(c, braid_fail(-EINVAL, "a table of states cannot be limited by --since; compare to_ns in WHERE"));
	err = braid_sql_take_trace(outer(c)->sql, &c->trace);
	if (!err)
		err = tracebraid_facts_new(&c->facts, c->trace, outer(c)->table->kinds);
	return err ? facts_fail(c, err) : next(cursor);
}

static int eof(sqlite3_vtab_cursor *cursor)
{
	return !facts_inner(cursor)->facts;
}

static int rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *number)
{
	*number = facts_inner(cursor)->rowid;
	return SQLITE_OK;
}

/* Values -------------------------------------------------------------------------------------- */

static void facts_put_text(sqlite3_context *to, const char *text)
{
	if (*text)
		sqlite3_result_text(to, text, -1, SQLITE_TRANSIENT);
}

static void put_ns(sqlite3_context *to, const struct tracebraid_fact *f, const char *state)
{
	const char *name;
	unsigned int k;

	for (k = 0; f->known && (name = tracebraid_state_name(k)); k++)
		if (!strcmp(name, state))
			sqlite3_result_int64(to, (sqlite3_int64)f->ns[k]);
}

static void facts_put_number(sqlite3_context *to, const struct tracebraid_fact *f, enum from from)
{
	switch (from) {
	case FROM:
		return sqlite3_result_int64(to, f->from_ns);
	case TO:
		return sqlite3_result_int64(to, f->to_ns);
	case DURATION:
		return sqlite3_result_int64(to, f->to_ns - f->from_ns);
	case BOUND:
		return f->bound_ns == TRACEBRAID_UNKNOWN ? sqlite3_result_null(to) :
		       sqlite3_result_int64(to, (sqlite3_int64)f->bound_ns);
	case STREAM_ID:
		return sqlite3_result_int64(to, tracebraid_stream_number(f->guest));
	case VCPU:
		return sqlite3_result_int64(to, f->vcpu);
	case PID:
		return f->pid < 0 ? sqlite3_result_null(to) : sqlite3_result_int64(to, f->pid);
	case LEVEL:
		return sqlite3_result_int64(to, f->level);
	case IP:
		return f->ip ? sqlite3_result_int64(to, (sqlite3_int64)f->ip) : sqlite3_result_null(to);
	default:
		return f->waker == UINT32_MAX ? sqlite3_result_null(to) :
		       sqlite3_result_int64(to, f->waker);
	}
}

static int put_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int number)
{
	struct cursor *c = facts_inner(cursor);
	const struct column *column = &outer(c)->table->columns[number];
	const struct tracebraid_fact *f = &c->fact;

	switch (column->from) {
	case STREAM:
		sqlite3_result_text(to, tracebraid_stream_name(f->guest), -1, SQLITE_STATIC);
		break;
	case HOST:
		facts_put_text(to, tracebraid_stream_host_at(f->guest, f->from_ns));
		break;
	case COMM:
		facts_put_text(to, f->comm);
		break;
	case STATE:
		facts_put_text(to, f->kind == TRACEBRAID_FACT_WAIT ? "queued" : f->state);
		break;
	case CULPRIT:
		facts_put_text(to, f->culprit);
		break;
	case REASON:
		facts_put_text(to, f->reason);
		break;
	case CALL:
		facts_put_text(to, f->call);
		break;
	case NS:
		put_ns(to, f, column->state);
		break;
	default:
		facts_put_number(to, f, column->from);
	}
	return SQLITE_OK;
}

static const sqlite3_module module = {
	.iVersion = 1,
	.xConnect = connect,
	.xDisconnect = facts_disconnect,
	.xBestIndex = best_index,
	.xOpen = open_cursor,
	.xClose = close_cursor,
	.xFilter = filter,
	.xNext = next,
	.xEof = eof,
	.xColumn = put_column,
	.xRowid = rowid,
};

int braid_sql_add_facts(struct braid_sql *sql)
{
	size_t k;
	int ret = SQLITE_OK, err = 0;

	for (k = 0; k < NR_TABLES && !ret && !err; k++) {
		ret = sqlite3_create_module_v2(sql->db, tables[k].name, &module, sql, NULL);
		err = braid_sql_push_name(sql, tables[k].name);
	}
	return ret ? braid_sql_fail(sql, ret) : err;
}
