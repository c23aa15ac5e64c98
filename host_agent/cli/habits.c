// SPDX-License-Identifier: GPL-2.0-or-later
/* What stands here for options that users of trace-cmd and perf type by reflex. */
#include <string.h>

#include "host_agent/cli/options.h"

#define READERS		"report export merge analyze sql stat verify clock"
#define IN_THE_GUEST	"; its events are recorded too (docs/ftrace.md)"

static const struct {
	const char *commands;	/* separated by spaces */
	char letter;
	const char *hint;
} habits[] = {
	{ READERS, 'i', "name the file alone, without -i" },
	{ "export merge", 'j', "JSON is a form: --to json; two CPUs are used without an option" },
	{ "record", 'p', "tracers are the guest's: there, echo function >/sys/kernel/tracing/current_tracer" IN_THE_GUEST },
	{ "record", 'g', "call graphs are the guest's: there, echo function_graph >/sys/kernel/tracing/current_tracer" IN_THE_GUEST },
	{ "record", 'l', "filters of functions are the guest's: there, echo FUNCTION >/sys/kernel/tracing/set_ftrace_filter" IN_THE_GUEST },
	{ "record", 'f', "whole events are recorded; when reading, report -F 'EVENT: FIELD == VALUE' selects" },
	{ "record", 'F', "to record while a command runs: record ... -- COMMAND; when reading, report --comm NAME selects" },
	{ "record", 'P', "all tasks are recorded; when reading, report --pid PID selects" },
	{ "record", 'T', "stack traces are the guest's: there, echo 1 >/sys/kernel/tracing/options/stacktrace, for events of its tracefs" IN_THE_GUEST },
	{ "record", 'b', "the size of rings is the guest driver's: modprobe tracebraid ring_size_kb=N (modinfo lists all)" },
	{ "record", 'A', "guests need no agent: -r GUEST or -d DOMAIN names them, as 'tracebraid list' does" },
	{ "record", 'm', "a capture has no largest size: -t SECONDS ends it, and --snapshot keeps what is recent" },
};

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (; words; words = strchr(words, ' '), words += words ? 1 : 0)
		if (!strncmp(words, word, n) && (!words[n] || words[n] == ' '))
			return true;
	return false;
}

const char *braid_habit(const char *command, char letter)
{
	size_t k;

	for (k = 0; k < sizeof(habits) / sizeof(*habits); k++)
		if (habits[k].letter == letter && has_word(habits[k].commands, command))
			return habits[k].hint;
	return NULL;
}
