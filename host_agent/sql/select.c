// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which constraints of a statement a walk selects by, and the order of its rows.
 *
 * A plan is a letter for each value that SQLite then hands over: its role, small for one value,
 * capital for the list of an IN. If the table sorts, keys follow, +COLUMN or -COLUMN (down), and
 * /COLUMNS, the bits in hexadecimal of those that are needed.
 */
#include <stdlib.h>
#include <string.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/monotonic.h"

#define ROWS		1e7	/* of a trace, for want of knowledge */
#define MOST_IN_LIST	16u	/* names, tasks: all of a selection are at most 64 words */
#define MOST_SECONDS	(INT64_MAX / (int64_t)BRAID_SECOND_NS)

/* A kind of constraint. */
struct role {
	char letter;
	enum braid_sql_from from;
	unsigned char operators[2];
	bool text, lists;	/* compares strings; an IN is taken as a whole */
	double rows, cost;	/* factors: of what is left, and has to be walked */
};

static const struct role roles[] = {
	{ 'e', BRAID_SQL_NS, { SQLITE_INDEX_CONSTRAINT_EQ, 0 }, false, false, 1e-6, 0.5 },
	{ 'g', BRAID_SQL_NS, { SQLITE_INDEX_CONSTRAINT_GE, SQLITE_INDEX_CONSTRAINT_GT },
	  false, false, 0.5, 0.9 },
	{ 'l', BRAID_SQL_NS, { SQLITE_INDEX_CONSTRAINT_LE, SQLITE_INDEX_CONSTRAINT_LT },
	  false, false, 0.5, 0.5 },
	{ 's', BRAID_SQL_STREAM, { SQLITE_INDEX_CONSTRAINT_EQ, 0 }, true, false, 0.3, 0.3 },
	{ 'b', BRAID_SQL_BUFFER, { SQLITE_INDEX_CONSTRAINT_EQ, 0 }, true, false, 0.5, 0.5 },
	{ 'c', BRAID_SQL_CPU, { SQLITE_INDEX_CONSTRAINT_EQ, 0 }, false, false, 0.2, 0.2 },
	{ 'p', BRAID_SQL_PID, { SQLITE_INDEX_CONSTRAINT_EQ, 0 }, false, true, 0.05, 0.9 },
	{ 'm', BRAID_SQL_COMM, { SQLITE_INDEX_CONSTRAINT_EQ, 0 }, true, true, 0.05, 0.9 },
	{ 'n', BRAID_SQL_NAME, { SQLITE_INDEX_CONSTRAINT_EQ, 0 }, true, true, 0.05, 0.7 },
	{ 'y', BRAID_SQL_SYSTEM, { SQLITE_INDEX_CONSTRAINT_EQ, 0 }, true, true, 0.2, 0.7 },
};

#define NR_ROLES	(sizeof(roles) / sizeof(*roles))

/* Best index --------------------------------------------------------------------------------- */

static bool uses(const struct braid_sql_table *table, const sqlite3_index_info *info,
		 enum braid_sql_from from)
{
	size_t k;

	for (k = 0; k < table->nr_columns; k++)
		if (table->columns[k].from == from)
			return info->colUsed >> (k < 63 ? k : 63) & 1;
	return false;
}

static const struct role *role_of(const struct braid_sql_table *table,
				  const struct sqlite3_index_constraint *c)
{
	const struct braid_sql_column *column;
	size_t k;

	if (!c->usable || c->iColumn < 0)
		return NULL;
	column = &table->columns[c->iColumn];
	for (k = 0; k < NR_ROLES; k++)
		if (roles[k].from == column->from && c->op &&
		    (c->op == roles[k].operators[0] || c->op == roles[k].operators[1]))
			return &roles[k];
	return NULL;
}

/* Whether a constraint's order of strings is that of bytes, and an IN can be taken as a whole. */
static bool fits(sqlite3_index_info *info, int number, const struct role *role)
{
	if (role->text && sqlite3_stricmp(sqlite3_vtab_collation(info, number), "BINARY"))
		return false;
	return role->lists || !sqlite3_vtab_in(info, number, -1);
}

/*
 * Finds the keys of few values that are asked for; rows of one key are in the order of time already.
 * Return: whether rows come in the order that is asked for.
 */
static bool find_order(const struct braid_sql_table *table, const sqlite3_index_info *info,
		       struct braid_sql_order *order)
{
	int k;

	for (k = 0; k < info->nOrderBy; k++) {
		const struct sqlite3_index_orderby *by = &info->aOrderBy[k];

		if (by->iColumn < 0)
			return false;
		switch (table->columns[by->iColumn].from) {
		case BRAID_SQL_NS:
			return k == info->nOrderBy - 1 && !by->desc;
		case BRAID_SQL_STREAM:
		case BRAID_SQL_STREAM_ID:
		case BRAID_SQL_BUFFER:
		case BRAID_SQL_CPU:
		case BRAID_SQL_PID:
		case BRAID_SQL_COMM:
		case BRAID_SQL_SYSTEM:
		case BRAID_SQL_NAME:
		case BRAID_SQL_GUEST:
		case BRAID_SQL_VCPU:
			if (order->nr == BRAID_SQL_MOST_KEYS)
				return false;
			order->keys[order->nr].column = (unsigned char)by->iColumn;
			order->keys[order->nr++].down = by->desc;
			break;
		default:
			return false;
		}
	}
	return info->nOrderBy > 0;
}

static char *plan_of(const char *roles, const struct braid_sql_order *order,
		     const sqlite3_index_info *info)
{
	sqlite3_str *text = sqlite3_str_new(NULL);
	unsigned int k;

	sqlite3_str_appendall(text, roles);
	for (k = 0; k < order->nr; k++)
		sqlite3_str_appendf(text, "%c%d", order->keys[k].down ? '-' : '+',
				    order->keys[k].column);
	if (order->nr)
		sqlite3_str_appendf(text, "/%llx", info->colUsed);
	return sqlite3_str_finish(text);
}

void braid_sql_order_of(struct braid_sql_order *order, int number, const char *plan)
{
	char *end = (char *)plan;

	memset(order, 0, sizeof(*order));
	order->once = number;
	for (; *end == '+' || *end == '-'; order->nr++) {
		order->keys[order->nr].down = *end == '-';
		order->keys[order->nr].column = (unsigned char)strtoul(end + 1, &end, 10);
	}
	if (*end == '/')
		order->columns = strtoull(end + 1, NULL, 16);
}

int braid_sql_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	const struct braid_sql_table *table = ((struct braid_sql_vtab *)vtab)->table;
	/* An order is uncertain by the events before it: all of them must be walked. */
	bool whole = uses(table, info, BRAID_SQL_UNCERTAIN);
	struct braid_sql_order order = { .nr = 0 };
	char plan[NR_ROLES + 1] = "";
	double rows = table->event ? ROWS / 10 : ROWS, cost = ROWS;
	int k, nr = 0;

	for (k = 0; k < info->nConstraint; k++) {
		const struct role *role = role_of(table, &info->aConstraint[k]);

		if (!role || strchr(plan, role->letter) || (whole && role->letter != 'l') ||
		    strchr(plan, role->letter - 'a' + 'A') || !fits(info, k, role))
			continue;
		plan[nr++] = sqlite3_vtab_in(info, k, 1) ? role->letter - 'a' + 'A' : role->letter;
		info->aConstraintUsage[k].argvIndex = nr;
		rows *= role->rows;
		cost *= role->cost;
	}
	info->orderByConsumed = find_order(table, info, &order);
	if (!info->orderByConsumed)
		order.nr = 0;
	info->idxStr = plan_of(plan, &order, info);
	info->needToFreeIdxStr = 1;
	/* For SELECT DISTINCT, equal rows may be one. */
	info->idxNum = order.nr && sqlite3_vtab_distinct(info) >= 2;
	info->estimatedCost = cost + rows;
	info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
	return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

/* Selections --------------------------------------------------------------------------------- */

/* Values of one role; none of an IN's if one of them cannot be selected by. */
struct list {
	char *items[MOST_IN_LIST];
	size_t nr;
};

struct lists {
	struct list names, systems;
};

static void select_add(struct braid_sql_selection *s, char *word)
{
	s->failed |= !word;
	if (word && s->nr + 1 < sizeof(s->words) / sizeof(*s->words))
		s->words[s->nr++] = word;
	else
		sqlite3_free(word);
}

static void clear(struct list *list)
{
	while (list->nr)
		sqlite3_free(list->items[--list->nr]);
}

/* A string as a glob that matches it alone. NULL: it has none, or out of memory. */
static char *literal(sqlite3_value *value, const char *forbidden)
{
	const char *text = sqlite3_value_type(value) == SQLITE_TEXT ?
			   (const char *)sqlite3_value_text(value) : NULL;
	size_t n = text ? strlen(text) : 0;
	char *glob, *to;

	if (!n || n > BRAID_SQL_MOST_NAME || n != (size_t)sqlite3_value_bytes(value) ||
	    strpbrk(text, forbidden))
		return NULL;
	glob = to = sqlite3_malloc(2 * n + 1);
	for (; to && *text; *to++ = *text++)
		if (strchr("*?[]\\", *text))
			*to++ = '\\';
	if (to)
		*to = 0;
	return glob;
}

/* The word of a value, without its option. NULL: it cannot be selected by. */
static char *word_of(char role, sqlite3_value *value)
{
	sqlite3_int64 number = sqlite3_value_int64(value);
	char *word;

	switch (role) {
	case 'p':
		return sqlite3_value_type(value) == SQLITE_INTEGER && number >= 0 &&
		       number <= INT32_MAX ? sqlite3_mprintf("%lld", number) : NULL;
	case 'm':	/* what a task is called that is not known, or that an event does not have */
		word = literal(value, "");
		if (word && !strcmp(word, "<...>")) {
			sqlite3_free(word);
			return NULL;
		}
		return word;
	default:
		word = literal(value, ":/");
		if (word && strlen(word) > 120) {	/* a selection's limit */
			sqlite3_free(word);
			return NULL;
		}
		return word;
	}
}

static void select_fill(struct list *list, char role, bool in, sqlite3_value *value)
{
	sqlite3_value *one = in ? NULL : value;
	int ret = in ? sqlite3_vtab_in_first(value, &one) : SQLITE_OK;

	for (; ret == SQLITE_OK && one; ret = in ? sqlite3_vtab_in_next(value, &one) : SQLITE_DONE) {
		char *word = list->nr < MOST_IN_LIST ? word_of(role, one) : NULL;

		if (!word)
			return clear(list);
		list->items[list->nr++] = word;
	}
	if (ret != SQLITE_DONE && ret != SQLITE_OK)
		clear(list);
}

static void add_list(struct braid_sql_selection *s, const char *option, struct list *list)
{
	size_t k;

	for (k = 0; k < list->nr; k++)
		select_add(s, sqlite3_mprintf("%s=%s", option, list->items[k]));
	clear(list);
}

/* Events of each system with each name. An event's and its sub-event's name select both. */
static void add_events(struct braid_sql_selection *s, struct lists *lists)
{
	struct list *names = &lists->names, *systems = &lists->systems;
	size_t nr_names = names->nr ?: 1, nr_systems = systems->nr ?: 1, k, n;

	if (nr_names * nr_systems > MOST_IN_LIST)
		clear(systems), nr_systems = 1;
	for (k = 0; k < nr_systems && (names->nr || systems->nr); k++)
		for (n = 0; n < nr_names; n++)
			select_add(s, sqlite3_mprintf("event=%s:%s", systems->nr ? systems->items[k] : "",
						      names->nr ? names->items[n] : ""));
	clear(names);
	clear(systems);
}

static void add_time(struct braid_sql_selection *s, const char *option, sqlite3_value *value)
{
	sqlite3_int64 ns = sqlite3_value_int64(value);

	/* A fraction is between two ns: SQLite checks again, so that one more does not matter. */
	if (sqlite3_value_type(value) == SQLITE_FLOAT && *option == 'u' && ns < INT64_MAX)
		ns++;
	else if (sqlite3_value_type(value) != SQLITE_INTEGER &&
		 sqlite3_value_type(value) != SQLITE_FLOAT)
		return;
	if (ns >= 0 && ns / (int64_t)BRAID_SECOND_NS < MOST_SECONDS)
		select_add(s, sqlite3_mprintf("%s=%lld.%09lld", option, ns / (int64_t)BRAID_SECOND_NS,
					      ns % (int64_t)BRAID_SECOND_NS));
}

static void add_text(struct braid_sql_selection *s, const char *option, sqlite3_value *value)
{
	const char *text = sqlite3_value_type(value) == SQLITE_TEXT ?
			   (const char *)sqlite3_value_text(value) : NULL;

	if (text && strlen(text) == (size_t)sqlite3_value_bytes(value))
		select_add(s, sqlite3_mprintf("%s=%s", option, text));
}

static void add_value(struct braid_sql_selection *s, struct lists *lists, char letter,
		      sqlite3_value *value)
{
	bool in = letter < 'a';
	char role = in ? letter - 'A' + 'a' : letter;
	struct list list = { .nr = 0 };

	switch (role) {
	case 'e':
	case 'g':
		add_time(s, "since", value);
		if (role == 'g')
			return;
		/* fall through */
	case 'l':
		return add_time(s, "until", value);
	case 's':
		return add_text(s, "stream", value);
	case 'b':
		return add_text(s, "buffer", value);
	case 'c':
		if (sqlite3_value_type(value) == SQLITE_INTEGER && sqlite3_value_int64(value) >= 0 &&
		    sqlite3_value_int64(value) <= 65535)
			select_add(s, sqlite3_mprintf("cpu=%lld", sqlite3_value_int64(value)));
		return;
	case 'n':
		return select_fill(&lists->names, role, in, value);
	case 'y':
		return select_fill(&lists->systems, role, in, value);
	default:
		select_fill(&list, role, in, value);
		return add_list(s, role == 'p' ? "pid" : "comm", &list);
	}
}

/* A table's own type, as a value would be. */
static void add_type(struct lists *lists, const struct braid_sql_table *table)
{
	const char *const words[] = { table->event, table->system };
	struct list *const to[] = { &lists->names, &lists->systems };
	size_t k;

	for (k = 0; k < 2; k++)
		if (strlen(words[k]) < 60 && words[k][0] && !strpbrk(words[k], ":/*?[]\\"))
			to[k]->items[to[k]->nr++] = sqlite3_mprintf("%s", words[k]);
}

void braid_sql_select(struct braid_sql_selection *s, const struct braid_sql_table *table,
		      const char *plan, sqlite3_value **values, int nr)
{
	struct lists lists = { .names = { .nr = 0 } };
	int k;

	memset(s, 0, sizeof(*s));
	if (table->sql->options.since)
		select_add(s, sqlite3_mprintf("since=%s", table->sql->options.since));
	if (table->event)
		add_type(&lists, table);
	for (k = 0; k < nr; k++)
		add_value(s, &lists, plan[k], values[k]);
	add_events(s, &lists);
	/* Losses and notes are there whatever events are selected: none is. */
	if (table->kind != TRACEBRAID_EVENT)
		select_add(s, sqlite3_mprintf("event=\x1f:\x1f"));
}

void braid_sql_selection_free(struct braid_sql_selection *s)
{
	while (s->nr)
		sqlite3_free(s->words[--s->nr]);
}
