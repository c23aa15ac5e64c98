// SPDX-License-Identifier: GPL-2.0-or-later
/* Small tables: views of a JSON array that a function makes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

static void put_member(struct braid_text *to, const char *name, const char *text)
{
	braid_text_printf(to, ",\"%s\":", name);
	braid_text_json(to, text, strlen(text));
}

static void put_number(struct braid_text *to, const char *name, uint64_t number)
{
	if (number == TRACEBRAID_UNKNOWN)
		braid_text_printf(to, ",\"%s\":null", name);
	else
		braid_text_printf(to, ",\"%s\":%lld", name, (long long)number);
}

static void put_counts(struct braid_text *to, const struct tracebraid_counts *counts)
{
	put_number(to, "written", counts->written);
	put_number(to, "read", counts->read);
	put_number(to, "lost", counts->lost);
	put_number(to, "left", counts->left);
}

static void begin(struct braid_text *to, const struct tracebraid_stream *stream)
{
	braid_text_printf(to, "%s{\"stream_id\":%u", to->bytes > 1 ? "," : "",
			  tracebraid_stream_number(stream));
	put_member(to, "stream", tracebraid_stream_name(stream));
}

static void put_streams(struct braid_text *to, const struct tracebraid_trace *trace)
{
	const struct tracebraid_stream *stream;
	struct tracebraid_counts counts;
	size_t k;

	for (k = 0; (stream = tracebraid_stream(trace, k)); k++) {
		begin(to, stream);
		put_number(to, "host", tracebraid_stream_is_host(stream));
		put_member(to, "kernel", tracebraid_stream_kernel(stream));
		put_member(to, "machine", tracebraid_stream_machine(stream));
		put_number(to, "cpus", tracebraid_stream_nr_cpus(stream));
		put_member(to, "clock", tracebraid_stream_clock(stream));
		put_number(to, "bound_ns", tracebraid_stream_bound_ns(stream));
		put_member(to, "ended", tracebraid_stream_end(stream));
		if (!tracebraid_stream_counts(stream, &counts))
			put_counts(to, &counts);
		braid_text_putc(to, '}');
	}
}

static void put_rings(struct braid_text *to, const struct tracebraid_trace *trace)
{
	const struct tracebraid_stream *stream;
	struct tracebraid_ring ring;
	size_t k, n;

	for (k = 0; (stream = tracebraid_stream(trace, k)); k++)
		for (n = 0; !tracebraid_stream_ring(stream, n, &ring); n++) {
			begin(to, stream);
			put_member(to, "buffer", ring.buffer);
			put_number(to, "cpu", ring.cpu);
			if (ring.counted)
				put_counts(to, &ring.counts);
			braid_text_putc(to, '}');
		}
}

static void put_clocks(struct braid_text *to, const struct tracebraid_trace *trace)
{
	const struct tracebraid_stream *stream;
	size_t k;

	for (k = 0; (stream = tracebraid_stream(trace, k)); k++) {
		begin(to, stream);
		put_member(to, "source", tracebraid_stream_clock(stream));
		put_number(to, "bound_ns", tracebraid_stream_bound_ns(stream));
		braid_text_putc(to, '}');
	}
}

static void put_recordings(struct braid_text *to, const struct tracebraid_trace *trace)
{
	int64_t start_ns, stop_ns;
	size_t k;

	for (k = 0; !tracebraid_window(trace, k, &start_ns, &stop_ns); k++) {
		braid_text_printf(to, "%s{\"number\":%zu,\"start_ns\":%lld", k ? "," : "", k,
				  (long long)start_ns);
		if (stop_ns != INT64_MAX)
			braid_text_printf(to, ",\"stop_ns\":%lld", (long long)stop_ns);
		braid_text_putc(to, '}');
	}
}

/* The view has a column for each member of the objects, in this order. */
static const struct view {
	const char *name, *members;
	void (*put)(struct braid_text *to, const struct tracebraid_trace *trace);
} views[] = {
	{ "streams", "stream_id stream host kernel machine cpus clock bound_ns ended written read lost left",
	  put_streams },
	{ "rings", "stream_id stream buffer cpu written read lost left", put_rings },
	{ "clocks", "stream_id stream source bound_ns", put_clocks },
	{ "recordings", "number start_ns stop_ns", put_recordings },
};

#define NR_VIEWS	(sizeof(views) / sizeof(*views))

/* tracebraid_rows(VIEW): what a view shows. */
static void rows(sqlite3_context *context, int nr, sqlite3_value **values)
{
	struct braid_sql *sql = sqlite3_user_data(context);
	const char *name = (const char *)sqlite3_value_text(values[0]);
	struct braid_text text = { 0 };
	size_t k;

	(void)nr;
	braid_text_putc(&text, '[');
	for (k = 0; k < NR_VIEWS && name; k++)
		if (!strcmp(name, views[k].name))
			views[k].put(&text, sql->traces[0].trace);
	braid_text_putc(&text, ']');
	if (text.failed)
		sqlite3_result_error_nomem(context);
	else
		sqlite3_result_text64(context, text.data, text.bytes, SQLITE_TRANSIENT, SQLITE_UTF8);
	braid_text_free(&text);
}

static int add_view(struct braid_sql *sql, const struct view *view)
{
	sqlite3_str *text = sqlite3_str_new(sql->db);
	const char *member = view->members;
	char *statement;
	int ret;

	sqlite3_str_appendf(text, "CREATE TEMP VIEW %s AS SELECT", view->name);
	for (;; member++) {
		int n = strcspn(member, " ");

		sqlite3_str_appendf(text, "%s value->>'$.%.*s' AS \"%.*s\"",
				    member == view->members ? "" : ",", n, member, n, member);
		member += n;
		if (!*member)
			break;
	}
	sqlite3_str_appendf(text, " FROM json_each(tracebraid_rows('%s'))", view->name);
	statement = sqlite3_str_finish(text);
	ret = statement ? sqlite3_exec(sql->db, statement, NULL, NULL, NULL) : SQLITE_NOMEM;
	sqlite3_free(statement);
	if (ret)
		return braid_fail(-EIO, "SQLite: %s", sqlite3_errmsg(sql->db));
	return braid_array_push(sql->names, sql->nr_names, sql->names_capacity, view->name) ?
	       braid_out_of_memory() : 0;
}

int braid_sql_add_views(struct braid_sql *sql)
{
	size_t k;
	int err = 0;

	if (sqlite3_create_function(sql->db, "tracebraid_rows", 1,
				    SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, sql, rows,
				    NULL, NULL))
		return braid_fail(-EIO, "SQLite: %s", sqlite3_errmsg(sql->db));
	for (k = 0; k < NR_VIEWS && !err; k++)
		err = add_view(sql, &views[k]);
	return err;
}
