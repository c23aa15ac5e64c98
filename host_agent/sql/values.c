// SPDX-License-Identifier: GPL-2.0-or-later
/* What a table's columns are, of the item where a walk is. */
#include <string.h>

#include "host_agent/sql/private.h"

static void value_number(struct braid_sql_value *value, int64_t number)
{
	value->kind = BRAID_SQL_NUMBER;
	value->number = number;
}

static void value_u64(struct braid_sql_value *value, uint64_t number)
{
	if (number != TRACEBRAID_UNKNOWN)
		value_number(value, (int64_t)number);
}

static void value_bytes(struct braid_sql_value *value, const char *data, size_t bytes)
{
	value->kind = BRAID_SQL_STRING;
	value->data = data;
	value->bytes = bytes;
}

/* @text: NULL if memory ran out. */
static void value_text(struct braid_sql_value *value, const char *text)
{
	value_bytes(value, text, text ? strlen(text) : 0);
}

static void value_string(struct braid_sql_cursor *c, struct braid_sql_value *value,
			 const char *data, size_t bytes)
{
	if (braid_text_plain(data, bytes))
		return value_bytes(value, data, bytes);
	c->text.bytes = 0;
	braid_text_safe(&c->text, data, bytes);
	value_bytes(value, c->text.failed ? NULL : c->text.data, c->text.bytes);
}

static void value_field(struct braid_sql_cursor *c, struct braid_sql_value *value,
			const struct tracebraid_field *field)
{
	const void *data;
	int64_t number;
	size_t bytes;

	if (!field)
		return;
	if (tracebraid_field_kind(field) == TRACEBRAID_NUMBER) {
		if (!tracebraid_number(c->walk, field, &number))
			value_number(value, number);
		return;
	}
	data = tracebraid_bytes(c->walk, field, &bytes);
	if (!data)
		return;
	if (tracebraid_field_kind(field) == TRACEBRAID_STRING)
		return value_string(c, value, data, bytes);
	value_bytes(value, data, bytes);
	value->kind = BRAID_SQL_BYTES;
}

static void value_vcpu(struct braid_sql_cursor *c, struct braid_sql_value *value, bool name)
{
	const struct tracebraid_stream *guest;
	uint32_t vcpu;

	guest = tracebraid_vcpu(c->walk, &vcpu);
	if (guest && name) {
		value_text(value, tracebraid_stream_name(guest));
		value->stays = true;
	} else if (guest && vcpu != UINT32_MAX) {
		value_number(value, vcpu);
	}
}

static void value_rest(struct braid_sql_cursor *c, struct braid_sql_value *value,
		       enum braid_sql_from from)
{
	const struct tracebraid_stream *stream = tracebraid_item_stream(c->walk);

	switch (from) {
	case BRAID_SQL_STREAM:
		value_text(value, tracebraid_stream_name(stream));
		value->stays = true;
		return;
	case BRAID_SQL_STREAM_ID:
		return value_number(value, tracebraid_stream_number(stream));
	case BRAID_SQL_HOST:
		value_text(value, tracebraid_host(c->walk));
		value->stays = true;
		return;
	case BRAID_SQL_BUFFER:
		return value_text(value, tracebraid_buffer(c->walk));
	case BRAID_SQL_PID:
		if (tracebraid_pid(c->walk) >= 0)
			value_number(value, tracebraid_pid(c->walk));
		return;
	case BRAID_SQL_COMM:
		if (tracebraid_pid(c->walk) >= 0)
			value_text(value, tracebraid_comm(c->walk));
		return;
	case BRAID_SQL_SYSTEM:
		return value_text(value, tracebraid_type_system(tracebraid_event_type(c->walk)));
	case BRAID_SQL_NAME:
		return value_text(value, tracebraid_type_name(tracebraid_event_type(c->walk)));
	case BRAID_SQL_FIELDS:
		return value_text(value, tracebraid_json(c->walk));
	case BRAID_SQL_TEXT:
		return value_text(value, tracebraid_text(c->walk));
	default:
		return value_vcpu(c, value, from == BRAID_SQL_GUEST);
	}
}

void braid_sql_value_of(struct braid_sql_cursor *c, unsigned int number,
			struct braid_sql_value *value)
{
	const struct braid_sql_column *column = &c->table->columns[number];

	value->kind = BRAID_SQL_NULL;
	value->stays = false;
	switch (column->from) {
	case BRAID_SQL_FIELD:
		return value_field(c, value, c->type->fields[number - BRAID_SQL_NR_TYPE_COLUMNS]);
	case BRAID_SQL_NS:
		return value_number(value, tracebraid_ns(c->walk));
	case BRAID_SQL_BOUND:
		return value_u64(value, tracebraid_bound_ns(c->walk));
	case BRAID_SQL_UNCERTAIN:
		return value_number(value, tracebraid_uncertain(c->walk));
	case BRAID_SQL_CPU:
		return value_number(value, tracebraid_cpu(c->walk));
	case BRAID_SQL_SEQ:
		return value_number(value, (int64_t)tracebraid_seq(c->walk));
	case BRAID_SQL_LOST:
		return value_u64(value, tracebraid_lost(c->walk));
	default:
		return value_rest(c, value, column->from);
	}
}

void braid_sql_put(sqlite3_context *to, const struct braid_sql_value *value)
{
	sqlite3_destructor_type keep = value->stays ? SQLITE_STATIC : SQLITE_TRANSIENT;

	if (value->kind == BRAID_SQL_NUMBER)
		sqlite3_result_int64(to, value->number);
	else if (value->kind == BRAID_SQL_NULL)
		return;
	else if (!value->data)
		sqlite3_result_error_nomem(to);
	else if (value->kind == BRAID_SQL_STRING)
		sqlite3_result_text64(to, value->data, value->bytes, keep, SQLITE_UTF8);
	else
		sqlite3_result_blob64(to, value->data, value->bytes, keep);
}
