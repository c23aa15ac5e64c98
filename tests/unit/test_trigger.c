// SPDX-License-Identifier: GPL-2.0-or-later
/* Triggers as the user writes them, and the conditions of events and sub-events. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/control/compile.h"
#include "host_agent/control/trigger.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"

static void reads_what_is_valid(void)
{
	struct braid_trigger_wish wish;

	CHECK_EQ(braid_trigger_parse(&wish, "sched:sched_switch: traceoff"), 0);
	CHECK(!strcmp(wish.event.system, "sched") && !strcmp(wish.event.event, "sched_switch"));
	CHECK(!wish.event.filter && !braid_trigger_is_pair(&wish));
	CHECK_EQ(wish.action, BRAID_TRIGGER_TRACEOFF);
	CHECK_EQ(wish.after, 0);
	braid_trigger_wish_free(&wish);

	CHECK_EQ(braid_trigger_parse(&wish, " a:b  if comm == \"x: if\" && n > 3 :stop  after 12"), 0);
	CHECK(!strcmp(wish.event.event, "b"));
	CHECK(wish.event.filter && !strcmp(wish.event.filter, "comm == \"x: if\" && n > 3"));
	CHECK_EQ(wish.action, BRAID_TRIGGER_STOP);
	CHECK_EQ(wish.after, 12);
	braid_trigger_wish_free(&wish);

	CHECK_EQ(braid_trigger_parse(&wish, "syscalls:sys_enter_fsync..sys_exit_fsync > 50ms if fd == 3: snapshot"), 0);
	CHECK(braid_trigger_is_pair(&wish));
	CHECK(!strcmp(wish.end.system, "syscalls") && !strcmp(wish.end.event, "sys_exit_fsync"));
	CHECK(!strcmp(wish.event.filter, "fd == 3"));
	CHECK_EQ(wish.more_than_ns, 50000000);
	braid_trigger_wish_free(&wish);

	CHECK_EQ(braid_trigger_parse(&wish, "a:b..c:d>1.5us: snapshot"), 0);
	CHECK(!strcmp(wish.end.system, "c"));
	CHECK_EQ(wish.more_than_ns, 1500);
	braid_trigger_wish_free(&wish);
}

static void refuses_the_rest(void)
{
	static const char *const bad[] = {
		"", ":", "a", "a:b", "a: stop", "a:b:", "a:b: go", "a:b: stop after", "a:b: stop after x",
		"a:b: stop after 0", "a:b if : stop", "a:b if n: stop", "a:*: stop", "a:b..c: stop",
		"a:b..c > : stop", "a:b..c > 5: stop", "a:b..c > -5ms: stop", "a:b..c > 1e9s: stop",
		"..c > 5ms: stop", "a:b.. > 5ms: stop", "a:b if n == 1 if n == 2: stop",
	};
	struct braid_trigger_wish wish;
	size_t k;

	for (k = 0; k < sizeof(bad) / sizeof(*bad); k++) {
		int err = braid_trigger_parse(&wish, bad[k]);

		if (err != -EINVAL || !*braid_failure())
			fprintf(stderr, "'%s' is not refused\n", bad[k]);
		CHECK_EQ(err, -EINVAL);
	}
}

static void tells_sub_events_apart(void)
{
	struct braid_schema_event event = {
		.id = 7, .system = "syscalls", .name = "sys_enter_x", .number = 74,
		.flags = BRAID_EVENT_SUB | 8u << BRAID_SUB_BYTES_SHIFT |
			 8u << BRAID_SUB_OFFSET_SHIFT,
		.format = "name: x\nID: 7\nformat:\n"
			  "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
			  "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
			  "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
			  "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
			  "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"
			  "\tfield:unsigned int fd;\toffset:16;\tsize:8;\tsigned:0;\n\nprint fmt: \"\"\n",
	};
	struct braid_filter_program program;
	char *text;

	CHECK_EQ(braid_trigger_condition(&text, &event, "fd == 3 || fd == 4"), 0);
	CHECK(!strcmp(text, "__syscall_nr == 74 && (fd == 3 || fd == 4)"));
	CHECK_EQ(braid_filter_compile(&program, text, &event), 0);
	CHECK_EQ(program.nr_insns, 5);
	free(text);
	CHECK_EQ(braid_trigger_condition(&text, &event, NULL), 0);
	CHECK(!strcmp(text, "__syscall_nr == 74"));
	free(text);
	event.flags = 0;
	CHECK_EQ(braid_trigger_condition(&text, &event, NULL), 0);
	CHECK(!text);
	event.flags = BRAID_EVENT_SUB;		/* its number is not in the record */
	CHECK_EQ(braid_trigger_condition(&text, &event, NULL), -EINVAL);
}

int main(void)
{
	RUN(reads_what_is_valid);
	RUN(refuses_the_rest);
	RUN(tells_sub_events_apart);
	return VERDICT();
}
