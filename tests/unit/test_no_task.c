// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Events that do not say whose they are have no task in any form: unknown is not pid 0, the idle
 * task.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/make_trace_dat.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"
#include "tracebraid/tracebraid.h"

static char dat[64], capture[80], json[80], out[80], states[80];

static const struct synth_dat bare = {
	.version = 7, .clock = "mono_raw", .start = SYNTH_START_NS + 5000, .step = 10000,
	.bare = true,
};

/* The only fields of its records are common_type and the count. */
static void lines(void)
{
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", dat), 0);
	CHECK(!strstr(printed, "idle") && !strstr(printed, "<...>"));
	CHECK(strstr(printed, ".dat:                          [000]   1000.000005000: beat:"));
	CHECK(strstr(printed, "count=299\n"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "--pid=0", "-n", "9", dat), 2);
	CHECK(!strstr(printed, "count="));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "--comm=<idle>", "-n", "9", dat), 2);
	CHECK(!strstr(printed, "count="));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "--json", "-n", "9", dat), 0);
	CHECK(strstr(printed, "\"count\":4}"));
	CHECK(!strstr(printed, "\"pid\"") && !strstr(printed, "\"comm\""));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "--stats", dat), 0);
	CHECK(!strstr(printed, "idle"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_verify, "verify", dat), 0);
}

static void library(void)
{
	struct tracebraid_trace *trace;
	struct tracebraid_walk *walk;

	NEED(!tracebraid_open(&trace, (const char *const[]){ dat }, 1, NULL, NULL, NULL));
	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	CHECK_EQ(tracebraid_walk_next(walk), TRACEBRAID_EVENT);
	CHECK_EQ(tracebraid_pid(walk), -1);
	CHECK(!strcmp(tracebraid_comm(walk), "<...>"));
	tracebraid_walk_free(walk);
	tracebraid_close(trace);
}

static void sql(void)
{
	CHECK_EQ(RUN_COMMAND(braid_cmd_sql, "sql", dat,
			     "SELECT count(*), count(pid), count(comm) FROM events"), 0);
	CHECK(strstr(printed, "600") && strstr(printed, " 0 ") && !strstr(printed, "600 600"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_sql, "sql", dat,
			     "SELECT 'found' FROM events WHERE comm IS NOT NULL OR pid IS NOT NULL"), 0);
	CHECK(!strstr(printed, "found\n"));
}

static bool agrees(const char *form, const char *tool, const char *more)
{
	char command[400];

	snprintf(command, sizeof(command), "rm -rf %s", out);
	NEED(!system(command));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "--json", "-o", json, dat, capture), 0);
	CHECK_EQ(RUN_COMMAND(braid_cmd_export, "export", "--to", form, "-o", out, dat, capture), 0);
	snprintf(command, sizeof(command), "%s %s %s %s", tool, json, out, more);
	return !system(command);
}

static void exports(void)
{
	fclose(fopen(states, "w"));
	CHECK(agrees("perfetto", "tests/unit/compare_perfetto.py", states));
	CHECK(agrees("ctf", "tests/unit/compare_ctf.py", ""));
	CHECK(agrees("html", "! grep -q 'idle>'", ""));
}

/* What it was exported to has none either. */
static void through_trace_dat(void)
{
	snprintf(out, sizeof(out), "%s.again.dat", dat);
	CHECK_EQ(RUN_COMMAND(braid_cmd_export, "export", "--to", "trace.dat", "-o", out, dat), 0);
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "-n", "9", out), 0);
	CHECK(!strstr(printed, "idle"));
	CHECK(strstr(printed, "count=4\n"));
}

int main(void)
{
	char command[200];

	snprintf(dat, sizeof(dat), "/tmp/braid-%d.dat", getpid());
	snprintf(capture, sizeof(capture), "%s.braid", dat);
	snprintf(json, sizeof(json), "%s.json", dat);
	snprintf(out, sizeof(out), "%s.out", dat);
	snprintf(states, sizeof(states), "%s.states", dat);
	synth_trace_dat(dat, &bare);
	synth_standard(capture);
	RUN(lines);
	RUN(library);
	RUN(sql);
	RUN(exports);
	RUN(through_trace_dat);
	snprintf(command, sizeof(command), "rm -rf %s*", dat);
	NEED(!system(command));
	return VERDICT();
}
