// SPDX-License-Identifier: GPL-2.0-or-later
/* Accounts of filters and probes: stat, SQL and the library give the same numbers. */
#include <errno.h>
#include <string.h>

#include "host_agent/capture/account.h"
#include "host_agent/cli/cli.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"
#include "tracebraid/tracebraid.h"

static struct braid_capture_writer *writer;

static void put(u32 kind, u32 flags, u32 nr_events, const char *event, u64 offered)
{
	struct braid_account row = { .kind = kind, .flags = flags, .nr_events = nr_events };

	if (event) {
		strcpy(row.system, "sched");
		strcpy(row.event, event);
	}
	if (kind == BRAID_ACCOUNT_PROBE)
		row.hits = (struct braid_probe_hits){ .missed = offered, .placed = 1 };
	else
		row.filter = (struct braid_filter_account){ offered, offered - 3, 2, 1, 1 };
	NEED(!braid_capture_put(writer, BRAID_CHUNK_ACCOUNTS, 1, NULL, 0, &row, sizeof(row)));
}

static void put_forged(void)
{
	struct braid_account row = { .kind = BRAID_ACCOUNT_KINDS };

	NEED(!braid_capture_put(writer, BRAID_CHUNK_ACCOUNTS, 1, NULL, 0, &row, sizeof(row)));
	row.kind = BRAID_ACCOUNT_PROBE;
	memset(row.system, 'x', sizeof(row.system) + sizeof(row.event));
	row.event[0] = '\n';
	NEED(!braid_capture_put(writer, BRAID_CHUNK_ACCOUNTS, 1, NULL, 0, &row, sizeof(row)));
	NEED(!braid_capture_put(writer, BRAID_CHUNK_ACCOUNTS, 1, NULL, 0, &row, sizeof(row) - 1));
}

static void make(const char *path)
{
	static const struct synth_guest_params params = {
		.name = "guest", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 64, .subbuf_bytes = 4096,
	};
	struct synth_guest guest;

	writer = synth_capture(path);
	synth_guest_init(&guest, &params);
	synth_begin(writer, &guest, 1);
	synth_sample(writer, &guest, 100, 100);
	put(BRAID_ACCOUNT_FILTER, BRAID_ACCOUNT_UNKNOWN, 1, "sched_switch", 0);
	put(BRAID_ACCOUNT_FILTER, BRAID_ACCOUNT_UNKNOWN, 1, "sched_waking", 0);
	put(BRAID_ACCOUNT_FILTER, BRAID_ACCOUNT_UNKNOWN, 7, NULL, 0);
	put(BRAID_ACCOUNT_PROBE, 0, 1, "sched_switch", 12);
	put(BRAID_ACCOUNT_FILTER, 0, 1, "sched_switch", 5);
	put(BRAID_ACCOUNT_FILTER, 0, 7, NULL, 9);
	put_forged();
	synth_drain(writer, &guest, 0);
	synth_end(writer, &guest, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(writer));
	synth_guest_free(&guest);
}

static bool prints_line(const char *words)
{
	char line[256] = "";
	const char *from = printed, *end;
	size_t used;

	for (; (end = strchr(from, '\n')); from = end + 1) {
		for (used = 0; from < end && used < sizeof(line) - 1; from++)
			if (*from != ' ' || (used && line[used - 1] != ' '))
				line[used++] = *from;
		line[used] = 0;
		if (!strcmp(line, words))
			return true;
	}
	fprintf(stderr, "no \"%s\" in:\n%s", words, printed);
	return false;
}

static void stat_and_sql(char *path)
{
	static const char json[] =
		"\"filters\":[\n"
		"{\"stream\":\"guest\",\"system\":\"sched\",\"event\":\"sched_switch\",\"events\":1,"
		"\"offered\":5,\"filtered\":2,\"written\":2,\"lost\":1,\"unjudged\":1},\n"
		"{\"stream\":\"guest\",\"system\":\"sched\",\"event\":\"sched_waking\",\"events\":1,"
		"\"offered\":null,\"filtered\":null,\"written\":null,\"lost\":null,"
		"\"unjudged\":null},\n"
		"{\"stream\":\"guest\",\"system\":null,\"event\":null,\"events\":7,"
		"\"offered\":9,\"filtered\":6,\"written\":2,\"lost\":1,\"unjudged\":1}\n"
		"],\"probes\":[\n"
		"{\"stream\":\"guest\",\"system\":\"sched\",\"event\":\"sched_switch\","
		"\"placed\":1,\"missed\":12},\n";
	static const char csv[] =
		"stream,system,event,events,offered,filtered,written,lost,unjudged\n"
		"guest,sched,sched_switch,1,5,2,2,1,1\n"
		"guest,sched,sched_waking,1,,,,,\n"
		"guest,,,7,9,6,2,1,1\n"
		"stream,system,event,placed,missed\n"
		"guest,sched,sched_switch,1,12\n";

	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", path), 0);
	CHECK(prints_line("guest sched:sched_switch 5 2 2 1 1"));
	CHECK(prints_line("guest sched:sched_waking ? ? ? ? ?"));
	CHECK(prints_line("guest 7 events 9 6 2 1 1"));
	CHECK(prints_line("guest sched:sched_switch yes 12"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", "--json", path), 0);
	CHECK(strstr(printed, json));
	CHECK_EQ(RUN_COMMAND(braid_cmd_sql, "sql", "--csv", path,
			     "SELECT stream, system, event, events, offered, filtered, written, "
			     "lost, unjudged FROM filters; "
			     "SELECT stream, system, event, placed, missed FROM probes LIMIT 1"), 0);
	CHECK(!strcmp(printed, csv));
}

static void library(char *path)
{
	const char *const paths[] = { path };
	const struct tracebraid_stream *stream;
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_filter filter;
	struct tracebraid_probe probe;

	NEED(!tracebraid_open(&trace, paths, 1, NULL, NULL, NULL));
	stream = tracebraid_stream(trace, 0);
	NEED(!tracebraid_stream_filter(stream, 0, &filter));
	CHECK(!strcmp(filter.event, "sched_switch"));
	CHECK_EQ(filter.offered, 5);
	NEED(!tracebraid_stream_filter(stream, 1, &filter));
	CHECK(filter.lost == TRACEBRAID_UNKNOWN);
	NEED(!tracebraid_stream_filter(stream, 2, &filter));
	CHECK(!*filter.event);
	CHECK_EQ(filter.nr_events, 7);
	CHECK_EQ(tracebraid_stream_filter(stream, 3, &filter), -ENOENT);
	NEED(!tracebraid_stream_probe(stream, 0, &probe));
	CHECK_EQ(probe.missed, 12);
	/* The forged one's names end, and have no control characters. */
	NEED(!tracebraid_stream_probe(stream, 1, &probe));
	CHECK_EQ(strlen(probe.system), BRAID_PATTERN_BYTES - 1);
	CHECK(!strchr(probe.event, '\n'));
	CHECK_EQ(tracebraid_stream_probe(stream, 2, &probe), -ENOENT);
	tracebraid_close(trace);
}

static void same_everywhere(void)
{
	char *path = scratch("capture");

	make(path);
	stat_and_sql(path);
	library(path);
}

int main(void)
{
	RUN(same_everywhere);
	return VERDICT();
}
