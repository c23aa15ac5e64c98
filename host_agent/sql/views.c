// SPDX-License-Identifier: GPL-2.0-or-later
/* Small tables: views of a JSON array that a function makes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

static void views_put_number(struct braid_text *to, const char *name, uint64_t number)
{
	if (number == TRACEBRAID_UNKNOWN)
		braid_text_printf(to, ",\"%s\":null", name);
	else
		braid_text_printf(to, ",\"%s\":%lld", name, (long long)number);
}

static void put_counts(struct braid_text *to, const struct tracebraid_counts *counts)
{
	views_put_number(to, "written", counts->written);
	views_put_number(to, "read", counts->read);
	views_put_number(to, "lost", counts->lost);
	views_put_number(to, "left", counts->left);
}

static void views_begin(struct braid_text *to, const struct tracebraid_stream *stream)
{
	braid_text_printf(to, "%s{\"stream_id\":%u", to->bytes > 1 ? "," : "",
			  tracebraid_stream_number(stream));
	braid_text_member(to, "stream", tracebraid_stream_name(stream));
}

static void put_streams(struct braid_text *to, const struct tracebraid_trace *trace)
{
	const struct tracebraid_stream *stream;
	struct tracebraid_counts counts;
	size_t k;

	for (k = 0; (stream = tracebraid_stream(trace, k)); k++) {
		views_begin(to, stream);
		views_put_number(to, "host", tracebraid_stream_is_host(stream));
		braid_text_member(to, "kernel", tracebraid_stream_kernel(stream));
		braid_text_member(to, "machine", tracebraid_stream_machine(stream));
		views_put_number(to, "cpus", tracebraid_stream_nr_cpus(stream));
		braid_text_member(to, "clock", tracebraid_stream_clock(stream));
		views_put_number(to, "bound_ns", tracebraid_stream_bound_ns(stream));
		braid_text_member(to, "ended", tracebraid_stream_end(stream));
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
			views_begin(to, stream);
			braid_text_member(to, "buffer", ring.buffer);
			views_put_number(to, "cpu", ring.cpu);
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
		if (!*tracebraid_stream_clock(stream))	/* a VM without the driver */
			continue;
		views_begin(to, stream);
		braid_text_member(to, "source", tracebraid_stream_clock(stream));
		views_put_number(to, "bound_ns", tracebraid_stream_bound_ns(stream));
		braid_text_putc(to, '}');
	}
}

static void put_moment(struct braid_text *to, const char *name, int64_t ns)
{
	if (ns != INT64_MIN && ns != INT64_MAX)
		braid_text_printf(to, ",\"%s\":%lld", name, (long long)ns);
}

static void put_epochs(struct braid_text *to, const struct tracebraid_trace *trace)
{
	const struct tracebraid_stream *stream;
	struct tracebraid_epoch epoch;
	size_t k, n;

	for (k = 0; (stream = tracebraid_stream(trace, k)); k++)
		for (n = 0; !tracebraid_stream_epoch(stream, n, &epoch); n++) {
			views_begin(to, stream);
			if (epoch.vcpu != UINT32_MAX)
				views_put_number(to, "vcpu", epoch.vcpu);
			views_put_number(to, "number", epoch.number);
			put_moment(to, "from_ns", epoch.from_ns);
			put_moment(to, "begun_ns", epoch.begun_ns);
			braid_text_printf(to, ",\"step_ns\":%lld", (long long)epoch.step_ns);
			braid_text_member(to, "cause", epoch.cause);
			views_put_number(to, "disrupted", epoch.disrupted);
			braid_text_printf(to, ",\"drift_ppm\":%.6f}", epoch.drift_ppm);
		}
}

/* "": of several events. */
static void put_event(struct braid_text *to, const char *system, const char *event)
{
	if (*event) {
		braid_text_member(to, "system", system);
		braid_text_member(to, "event", event);
	}
}

static void put_filters(struct braid_text *to, const struct tracebraid_trace *trace)
{
	const struct tracebraid_stream *stream;
	struct tracebraid_filter filter;
	size_t k, n;

	for (k = 0; (stream = tracebraid_stream(trace, k)); k++)
		for (n = 0; !tracebraid_stream_filter(stream, n, &filter); n++) {
			views_begin(to, stream);
			put_event(to, filter.system, filter.event);
			views_put_number(to, "events", filter.nr_events);
			views_put_number(to, "offered", filter.offered);
			views_put_number(to, "filtered", filter.filtered);
			views_put_number(to, "written", filter.written);
			views_put_number(to, "lost", filter.lost);
			views_put_number(to, "unjudged", filter.unjudged);
			braid_text_putc(to, '}');
		}
}

static void put_probes(struct braid_text *to, const struct tracebraid_trace *trace)
{
	const struct tracebraid_stream *stream;
	struct tracebraid_probe probe;
	size_t k, n;

	for (k = 0; (stream = tracebraid_stream(trace, k)); k++)
		for (n = 0; !tracebraid_stream_probe(stream, n, &probe); n++) {
			views_begin(to, stream);
			put_event(to, probe.system, probe.event);
			views_put_number(to, "placed", probe.placed);
			views_put_number(to, "missed", probe.missed);
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

#define MOST_STALLS	"1000"

/* The view has a column for each member of the objects, in this order. */
static const struct view {
	const char *name, *members;
	void (*put)(struct braid_text *to, const struct tracebraid_trace *trace);
} views[] = {
	{ "streams", "stream_id stream host kernel machine cpus clock bound_ns ended written read lost left",
	  put_streams },
	{ "rings", "stream_id stream buffer cpu written read lost left", put_rings },
	{ "clocks", "stream_id stream source bound_ns", put_clocks },
	{ "epochs", "stream_id stream vcpu number from_ns begun_ns step_ns cause disrupted drift_ppm",
	  put_epochs },
	{ "filters", "stream_id stream system event events offered filtered written lost unjudged",
	  put_filters },
	{ "probes", "stream_id stream system event placed missed", put_probes },
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

/* tracebraid_stalls(): the longest ones, as `tracebraid analyze stalls --json` has them. */
static void stalls(sqlite3_context *context, int nr, sqlite3_value **values)
{
	static const char *const options[] = { "top=" MOST_STALLS, NULL };
	struct braid_sql *sql = sqlite3_user_data(context);
	struct tracebraid_trace *trace;
	char *json = NULL;
	int err = braid_sql_take_trace(sql, &trace);

	(void)nr;
	(void)values;
	if (!err) {
		err = tracebraid_analyze(trace, "stalls", options, &json);
		braid_sql_give_trace(sql, trace);
	}
	if (err)
		sqlite3_result_error(context, tracebraid_error(), -1);
	else
		sqlite3_result_text(context, json, -1, SQLITE_TRANSIENT);
	tracebraid_free(json);
}

/* A vCPU is "GUEST/vCPU N" there. */
static const char stalls_view[] =
	"CREATE TEMP VIEW stalls AS SELECT v->>'at_ns' AS from_ns, v->>'at_ns' + v->>'duration_ns' AS to_ns,"
	" v->>'duration_ns' AS duration_ns, v->>'idle_ns' AS idle_ns, v->>'stall_ns' AS stall_ns,"
	" substr(v->>'vcpu', 1, instr(v->>'vcpu', '/vCPU ') - 1) AS stream,"
	" CAST(substr(v->>'vcpu', instr(v->>'vcpu', '/vCPU ') + 6) AS INTEGER) AS vcpu,"
	" v->>'task' AS task, v->>'guest_ns' AS guest_ns, v->>'hypervisor_ns' AS hypervisor_ns,"
	" v->>'vmm_ns' AS vmm_ns, v->>'running_ns' AS running_ns, v->>'stolen_ns' AS stolen_ns,"
	" v->>'halted_ns' AS halted_ns, v->>'blocked_ns' AS blocked_ns,"
	" v->>'throttled_ns' AS throttled_ns, v->>'sleeping_ns' AS sleeping_ns, v->>'stopped_ns' AS stopped_ns,"
	" v->>'offline_ns' AS offline_ns,"
	" v->>'unknown_ns' AS unknown_ns, v->>'cause' AS cause,"
	" v->>'until_end' AS until_end, v->'culprits' AS culprits"
	" FROM (SELECT value AS v FROM json_each(tracebraid_stalls(), '$.stalls'))";

static int add_stalls(struct braid_sql *sql)
{
	int ret = sqlite3_create_function(sql->db, "tracebraid_stalls", 0,
					  SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, sql,
					  stalls, NULL, NULL);

	if (!ret)
		ret = sqlite3_exec(sql->db, stalls_view, NULL, NULL, NULL);
	return ret ? braid_sql_fail(sql, ret) : braid_sql_push_name(sql, "stalls");
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
	return ret ? braid_sql_fail(sql, ret) : braid_sql_push_name(sql, view->name);
}

int braid_sql_add_views(struct braid_sql *sql)
{
	size_t k;
	int ret, err = 0;

	ret = sqlite3_create_function(sql->db, "tracebraid_rows", 1,
				      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, sql, rows,
				      NULL, NULL);
	if (ret)
		return braid_sql_fail(sql, ret);
	for (k = 0; k < NR_VIEWS && !err; k++)
		err = add_view(sql, &views[k]);
	return err ?: add_stalls(sql);
}
