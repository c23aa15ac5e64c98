// SPDX-License-Identifier: GPL-2.0-or-later
/* Tables of facts add up to what the analyses say. */
#include <string.h>

#include "host_agent/sql/sql.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tracebraid/tracebraid.h"

#define MAKE	"build/make_big_capture"
#define EVENTS	60000

static char *path;
static struct braid_sql *sql;
static struct tracebraid_trace *trace;

/* The first value of a statement, whose parameter is an analysis' JSON. */
static s64 value(const char *statement, const char *analysis)
{
	static const char *const options[] = { "top=1000", NULL };
	sqlite3_stmt *s = NULL;
	char *json = NULL;
	s64 value;

	NEED(!sqlite3_prepare_v2(braid_sql_database(sql), statement, -1, &s, NULL));
	if (analysis) {
		NEED(!tracebraid_analyze(trace, analysis, options, &json));
		NEED(!sqlite3_bind_text(s, 1, json, -1, SQLITE_STATIC));
	}
	NEED(sqlite3_step(s) == SQLITE_ROW);
	value = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	tracebraid_free(json);
	return value;
}

/* @of: an expression of the JSON. */
#define SAME(statement, analysis, of)	do {					\
		CHECK_EQ(value(statement, NULL), value("SELECT " of, analysis)); \
		CHECK(value(statement, NULL) > 0);				\
	} while (0)

static void states_fill_the_observed_time(void)
{
	SAME("SELECT sum(duration_ns) FROM vcpu_state", "states", "?1->>'$.observed_ns'");
	SAME("SELECT sum(duration_ns) FROM vcpu_state WHERE state = 'unknown'", "states", "?1->>'$.unknown_ns'");
	SAME("SELECT count(DISTINCT stream || vcpu) FROM vcpu_state", "states", "?1->>'$.vcpus'");
	CHECK_EQ(value("SELECT sum(before != from_ns) FROM (SELECT from_ns, lag(to_ns) OVER (PARTITION BY stream_id, vcpu ORDER BY from_ns) AS before FROM vcpu_state)",
		       NULL), 0);
	CHECK_EQ(value("SELECT count(*) FROM vcpu_state WHERE (culprit IS NULL) != (state != 'stolen')", NULL), 0);
}

static void tasks_have_their_vcpus_states(void)
{
	CHECK_EQ(value("SELECT sum(duration_ns) FROM task_state WHERE state != 'queued'", NULL),
		 value("SELECT sum(duration_ns) FROM vcpu_state WHERE pid > 0", NULL));
	CHECK(value("SELECT count(*) FROM task_state WHERE state = 'queued'", NULL) >
	      value("SELECT count(*) FROM wakeups", NULL));
}

static void exits_and_wakeups(void)
{
	SAME("SELECT count(*) FROM exits", "exits", "?1->>'$.count'");
	SAME("SELECT sum(duration_ns) FROM exits", "exits", "?1->>'$.total_ns'");
	SAME("SELECT max(duration_ns) FROM exits", "exits", 
	     "max(value->>'$.worst_ns') FROM json_each(?1, '$.exits')");
	SAME("SELECT sum(duration_ns) FROM exits WHERE reason = 'MSR_WRITE' AND vcpu = 1", "exits",
	     "sum(value->>'$.total_ns') FROM json_each(?1, '$.exits') WHERE value->>'$.reason' = 'MSR_WRITE' AND value->>'$.vcpu' LIKE '%/vCPU 1'");
	SAME("SELECT count(*) FROM wakeups", "wake", "?1->>'$.count'");
	SAME("SELECT sum(duration_ns) FROM wakeups", "wake", "?1->>'$.total_ns'");
}

static void stalls_are_the_longest(void)
{
	SAME("SELECT count(*) FROM stalls", "stalls", "json_array_length(?1, '$.stalls')");
	SAME("SELECT max(duration_ns) FROM stalls", "stalls", "?1->>'$.stalls[0].duration_ns'");
	SAME("SELECT from_ns FROM stalls LIMIT 1", "stalls", "?1->>'$.stalls[0].at_ns'");
	CHECK_EQ(value("SELECT count(*) FROM stalls WHERE vcpu NOT BETWEEN 0 AND 3 OR stream NOT LIKE 'guest_'", NULL), 0);
}

int main(void)
{
	const char *const paths[] = { path = scratch("file") };
	const struct braid_sql_options options = { .paths = paths, .nr_paths = 1 };
	char command[200];

	snprintf(command, sizeof(command), MAKE " %s %u >/dev/null", path, EVENTS);
	NEED(!system(command));
	NEED(!tracebraid_open(&trace, paths, 1, NULL, NULL, NULL));
	NEED(!braid_sql_open(&sql, &options));
	RUN(states_fill_the_observed_time);
	RUN(tasks_have_their_vcpus_states);
	RUN(exits_and_wakeups);
	RUN(stalls_are_the_longest);
	braid_sql_close(sql);
	tracebraid_close(trace);
	return VERDICT();
}
