// SPDX-License-Identifier: GPL-2.0-or-later
/* The columns that tables have whatever a trace contains. */
#include "host_agent/sql/private.h"

#define NR(list)	(sizeof(list) / sizeof(*(list)))

const struct braid_sql_column braid_sql_event_columns[] = {
	{ "ns", "INTEGER", BRAID_SQL_NS, false, NULL },
	{ "bound_ns", "INTEGER", BRAID_SQL_BOUND, false, NULL },
	{ "uncertain", "INTEGER", BRAID_SQL_UNCERTAIN, false, NULL },
	{ "stream", "TEXT", BRAID_SQL_STREAM, false, NULL },
	{ "buffer", "TEXT", BRAID_SQL_BUFFER, false, NULL },
	{ "cpu", "INTEGER", BRAID_SQL_CPU, false, NULL },
	{ "seq", "INTEGER", BRAID_SQL_SEQ, false, NULL },
	{ "pid", "INTEGER", BRAID_SQL_PID, false, NULL },
	{ "comm", "TEXT", BRAID_SQL_COMM, false, NULL },
	{ "system", "TEXT", BRAID_SQL_SYSTEM, false, NULL },
	{ "name", "TEXT", BRAID_SQL_NAME, false, NULL },
	{ "guest", "TEXT", BRAID_SQL_GUEST, false, NULL },
	{ "vcpu", "INTEGER", BRAID_SQL_VCPU, false, NULL },
	{ "fields", "TEXT", BRAID_SQL_FIELDS, false, NULL },
	{ "text", "TEXT", BRAID_SQL_TEXT, false, NULL },
	{ "stream_id", "INTEGER", BRAID_SQL_STREAM_ID, true, NULL },
};

/* Before the fields of the type, and hidden. */
const struct braid_sql_column braid_sql_type_columns[] = {
	{ "ns", "INTEGER", BRAID_SQL_NS, false, NULL },
	{ "bound_ns", "INTEGER", BRAID_SQL_BOUND, false, NULL },
	{ "stream", "TEXT", BRAID_SQL_STREAM, false, NULL },
	{ "cpu", "INTEGER", BRAID_SQL_CPU, false, NULL },
	{ "pid", "INTEGER", BRAID_SQL_PID, false, NULL },
	{ "comm", "TEXT", BRAID_SQL_COMM, false, NULL },
	{ "stream_id", "INTEGER", BRAID_SQL_STREAM_ID, true, NULL },
	{ "buffer", "TEXT", BRAID_SQL_BUFFER, true, NULL },
	{ "seq", "INTEGER", BRAID_SQL_SEQ, true, NULL },
	{ "guest", "TEXT", BRAID_SQL_GUEST, true, NULL },
	{ "vcpu", "INTEGER", BRAID_SQL_VCPU, true, NULL },
	{ "text", "TEXT", BRAID_SQL_TEXT, true, NULL },
};

const struct braid_sql_column braid_sql_loss_columns[] = {
	{ "ns", "INTEGER", BRAID_SQL_NS, false, NULL },
	{ "bound_ns", "INTEGER", BRAID_SQL_BOUND, false, NULL },
	{ "stream", "TEXT", BRAID_SQL_STREAM, false, NULL },
	{ "buffer", "TEXT", BRAID_SQL_BUFFER, false, NULL },
	{ "cpu", "INTEGER", BRAID_SQL_CPU, false, NULL },
	{ "lost", "INTEGER", BRAID_SQL_LOST, false, NULL },
	{ "stream_id", "INTEGER", BRAID_SQL_STREAM_ID, true, NULL },
};

const struct braid_sql_column braid_sql_note_columns[] = {
	{ "ns", "INTEGER", BRAID_SQL_NS, false, NULL },
	{ "stream", "TEXT", BRAID_SQL_STREAM, false, NULL },
	{ "text", "TEXT", BRAID_SQL_TEXT, false, NULL },
	{ "stream_id", "INTEGER", BRAID_SQL_STREAM_ID, true, NULL },
};

_Static_assert(NR(braid_sql_event_columns) == BRAID_SQL_NR_EVENT_COLUMNS, "its number");
_Static_assert(NR(braid_sql_type_columns) == BRAID_SQL_NR_TYPE_COLUMNS, "its number");
_Static_assert(NR(braid_sql_loss_columns) == BRAID_SQL_NR_LOSS_COLUMNS, "its number");
_Static_assert(NR(braid_sql_note_columns) == BRAID_SQL_NR_NOTE_COLUMNS, "its number");
