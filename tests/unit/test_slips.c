// SPDX-License-Identifier: GPL-2.0-or-later
/* Mistakes on the command line: each is reported, with the probable intention. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/control/control.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"

static char *capture, *region;

/* A command that is refused with one line that contains @what. */
#define REFUSED(what, command, ...)						\
	do {									\
		CHECK_EQ(RUN_COMMAND(command, __VA_ARGS__), EXIT_FAILURE);	\
		if (!strstr(printed, what) || strchr(printed, '\n')[1])		\
			fprintf(stderr, "%s", printed);				\
		CHECK(strstr(printed, what) && !strchr(printed, '\n')[1]);	\
	} while (0)

/* A word without its option is not taken for a command. */
static void words_without_options(void)
{
	REFUSED("a guest is named by -r h4web1", braid_cmd_record, "record", "h4web1");
	REFUSED("a guest is named by -r h4web1", braid_cmd_record, "record", "-t", "1", "h4web1");
	REFUSED("--host=sched", braid_cmd_record, "record", "-r", region, "--host", "sched");
	REFUSED("--try-host=irq", braid_cmd_record, "record", "--try-host", "irq", "-t", "1");
	REFUSED("-r or -d", braid_cmd_top, "top", "h4web1");
}

static void a_captures_name_for_another_form(void)
{
	REFUSED("use -o x.html\n", braid_cmd_record, "record", "--to", "html", "-o", "x.braid");
	REFUSED("use -o a/x.ctf\n", braid_cmd_record, "record", "-o", "a/x.braid", "--to", "ctf");
	REFUSED("json makes no folder; name a file\n", braid_cmd_record, "record", "--to", "json", "-o", "a/");
	REFUSED("html makes no folder; name a file\n", braid_cmd_export, "export", "--to", "html", "-o", "a/",
		"x.braid");
	REFUSED("use -o y.perfetto\n", braid_cmd_export, "export", "--to", "perfetto", "-o",
		"y.braid", capture);
}

/* Two commands, two languages: -e has globs, -F expressions. */
static void events_and_filters(void)
{
	synth_standard(capture);
	REFUSED("'record -f' and 'report -F' take conditions", braid_cmd_record, "record", "-e",
		"sched_switch: prev_state == 0");
	REFUSED("'record -f' and 'report -F' take conditions", braid_cmd_report, "report", "-e",
		"sched:sched_switch: prev_state==0", capture);
	REFUSED("'test/tick: count > 3'", braid_cmd_report, "report", "-F", "test:tick: count > 3",
		capture);
	REFUSED("'test/tick'", braid_cmd_report, "report", "-F", "test:tick", capture);
	/* The options reach what selects. */
	REFUSED("no stream 'nobody'", braid_cmd_report, "report", "--stream=nobody", capture);
	REFUSED("filter 'tick: count'", braid_cmd_report, "report", "-F", "tick: count", capture);
	CHECK(!strstr(printed, "SYSTEM"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "-e", "test/tick", capture), EXIT_SUCCESS);
	CHECK(strstr(printed, " tick: ") && !strstr(printed, " tock: "));
	unlink(capture);
}

static void suggest(struct fake_guest *g, const char *text)
{
	struct braid_directory_copy copy;
	struct braid_superblock sb;
	struct braid_pattern p;
	struct braid_mapping *m;

	NEED(!braid_mapping_open(&m, g->path, false) && !braid_mapping_identify(m, &sb));
	NEED(!braid_directory_load(&copy, m, &sb, 0) && !braid_pattern_parse(&p, text));
	braid_directory_suggest(&copy, &p, "web1");
	braid_directory_free(&copy);
	braid_mapping_close(m);
}

/* An event of tracefs is a sub-event here. */
static void system_calls(void)
{
	const struct fake_params params = {
		.name = "fake", .bytes = 1 << 20, .nr_vcpus = 1, .subbuf_bytes = 1024, .nr_slots = 16,
	};
	struct braid_schema_event event = {
		.id = 77, .system = "raw_syscalls", .name = "sys_enter", .format = "",
	}, sub = {
		.id = 77, .number = 257, .system = "raw_syscalls", .name = "sys_enter_openat",
		.format = "", .flags = BRAID_EVENT_SUB,
	};
	struct fake_guest *g = fake_guest_new(region, &params);

	fake_guest_tell(g, &event);
	fake_guest_tell(g, &sub);
	suggest(g, "syscalls:sys_enter_openat");
	CHECK(strstr(braid_failure(), "record -e raw_syscalls:sys_enter, then report -e 'sys_enter_openat'"));
	suggest(g, "sys_enter_open*");
	CHECK(strstr(braid_failure(), "record -e raw_syscalls:sys_enter, then report -e 'sys_enter_open*'"));
	suggest(g, "syscalls");
	CHECK(strstr(braid_failure(), "did you mean raw_syscalls?"));
	suggest(g, "x:sys_enter");
	CHECK(strstr(braid_failure(), "did you mean raw_syscalls:sys_enter?"));
	suggest(g, "syscalls:sys_enter");
	CHECK(strstr(braid_failure(), "did you mean raw_syscalls:sys_enter?"));
	fake_guest_free(g);
}

/* Each option with a value gets an invalid one: the message names that option. */
static void invalid_values(void)
{
	const struct {
		int (*command)(int argc, char **argv);
		const char *words[5], *what;
	} bad[] = {
		{ braid_cmd_record, { "record", "--snapshot", "--on-count=x" }, "record: --on-count=x: expected" },
		{ braid_cmd_record, { "record", "--snapshot", "--hold-off=x" }, "record: --hold-off=x: " },
		{ braid_cmd_record, { "record", "-t", "x" }, "record: --time=x: " },
		{ braid_cmd_record, { "record", "-t" }, "'-t'" },
		{ braid_cmd_record, { "record", "--to", "x" }, "x" },
		{ braid_cmd_record, { "record", "-e", "" }, "record: --event=: " },
		{ braid_cmd_record, { "record", "--host=" }, "record: --host=: " },
		{ braid_cmd_record, { "record", "-C", "nosuch", "-r", "/none" }, "/none" },
		{ braid_cmd_record, { "record", "-r", "/nosuch", "-t", "1" }, "/nosuch" },
		{ braid_cmd_record, { "record", "-r", "/none", "-xq" }, "'-x'" },
		{ braid_cmd_record, { "record", "-r", "/none", "-qx" }, "'-x'" },
		{ braid_cmd_record, { "record", "-r", "/none", "--nosuch" }, "'--nosuch'" },
		{ braid_cmd_top, { "top", "-n", "x" }, "top: --count=x: " },
		{ braid_cmd_top, { "top", "-i", "x" }, "x" },
		{ braid_cmd_top, { "top", "-s", "x" }, "x" },
		{ braid_cmd_top, { "top", "-xb" }, "'-x'" },
		{ braid_cmd_recover, { "recover", "-xq" }, "'-x'" },
		{ braid_cmd_recover, { "recover", "/nosuch" }, "/nosuch" },
		{ braid_cmd_recover, { "recover" }, "expected a source" },
		{ braid_cmd_snapshot, { "snapshot", "x" }, "'x'" },
		{ braid_cmd_snapshot, { "snapshot", "-xq" }, "'-x'" },
		{ braid_cmd_report, { "report", "--cpu", "x", capture }, "--cpu=x: " },
		{ braid_cmd_report, { "report", "--pid", "x", capture }, "--pid=x: " },
		{ braid_cmd_report, { "report", "--since", "x", capture }, "--since=x: " },
		{ braid_cmd_report, { "report", "--clock", "x", capture }, "x" },
		{ braid_cmd_report, { "report", "--clock-source", "x", capture }, "x" },
		{ braid_cmd_report, { "report", "-B", "x", capture }, "'x'" },
		{ braid_cmd_report, { "report", "--stream", "x", capture }, "'x'" },
	};
	size_t k;

	synth_standard(capture);
	for (k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		braid_fail(-EIO, "a stale line");
		CHECK_EQ(run_command(bad[k].command, bad[k].words), EXIT_FAILURE);
		if (!strstr(printed, bad[k].what))
			fprintf(stderr, "%s %s: %s", bad[k].words[0], bad[k].words[1], printed);
		CHECK(strstr(printed, bad[k].what));
		CHECK(!strstr(printed, "a stale line"));
	}
	unlink(capture);
}

int main(void)
{
	capture = scratch("c.braid");
	region = scratch("region");
	RUN(words_without_options);
	RUN(a_captures_name_for_another_form);
	RUN(events_and_filters);
	RUN(system_calls);
	RUN(invalid_values);
	return VERDICT();
}
