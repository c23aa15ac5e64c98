// SPDX-License-Identifier: GPL-2.0-or-later
/* The options of walks, exports and analyses, and how they are taken from words. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/library/options.h"
#include "host_agent/library/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/moment.h"
#include "host_agent/walk/select.h"

#define MOST_TOP	10000
#define MOST_CPU	65535
#define MOST_CPUS	256

#define SELECT	struct braid_library_select

static int take_cpu(const struct braid_option *o, void *to, const char *text)
{
	struct braid_library_select *s = to;
	u64 value;
	int err = braid_take_count(o, &value, text);

	s->options.one_cpu = true;
	s->options.cpu = err ? 0 : value;
	return err;
}

static int take_pid(const struct braid_option *o, void *to, const char *text)
{
	struct braid_library_select *s = to;
	u64 value;
	int err = braid_take_count(o, &value, text);

	if (!err && braid_array_push(s->pids, s->options.nr_pids, s->pids_capacity, (s32)value))
		err = braid_out_of_memory();
	return err;
}

/* "filter" and "filter-not". */
static int take_filter(const struct braid_option *o, void *to, const char *text)
{
	struct braid_library_select *s = to;
	struct braid_walk_filter filter = { .text = text, .invert = strcmp(o->name, "filter") };

	return braid_array_push(s->filters, s->options.nr_filters, s->filters_capacity, filter) ?
	       braid_out_of_memory() : 0;
}

static int take_moment(const struct braid_option *o, void *to, const char *text)
{
	(void)o;
	return braid_moment_parse(to, text) ?
	       braid_fail(-EINVAL, "not a time: expected SECONDS, +SECONDS, -SECONDS or, as wall time, 2026-01-31T12:00:00 or 12:00:00") :
	       0;
}

#define MOMENT(member)	BRAID_TAKE(take_moment, struct braid_walk_moment, SELECT, member)

#define EXPORT		BRAID_LIBRARY_EXPORT
#define ITEMS		(BRAID_LIBRARY_WALK | EXPORT)
#define ANY		(ITEMS | ANALYSES)
#define ANALYSES	(BRAID_LIBRARY_ANALYSIS | TABLES)
#define TABLES		BRAID_LIBRARY_TABLES
#define LIMITS		BRAID_LIBRARY_LIMITS

static const struct braid_option options[] = {
	{ 0, "clock", "CLOCK", BRAID_WORD(SELECT, clock),
	  "show times of CLOCK: host (default), or realtime, to compare captures of several hosts; "
	  "error bounds then refer to that clock. A report shows realtime as a date in UTC, "
	  "2026-01-31T12:00:00.500000000Z; JSON has the date in \"time\", and the ns since 1970",
	  .values = "host realtime", .of = ITEMS },
	{ 0, "stream", "NAME", BRAID_STRING(SELECT, options.stream), "only this guest, or 'host'",
	  .values = "@stream", .of = ITEMS | LIMITS },
	{ 0, "stream", "NAME", BRAID_STRING(SELECT, options.stream), "only this guest",
	  .values = "@stream", .of = ANALYSES },
	{ 0, "cpu", "N", .take = take_cpu, .help = "only this CPU of each stream", .most = MOST_CPU,
	  .of = ITEMS | LIMITS },
	{ 0, "cpu", "N", .take = take_cpu, .help = "only this vCPU of each guest", .most = MOST_CPU,
	  .of = ANALYSES },
	{ 'B', "buffer", "NAME", BRAID_STRING(SELECT, options.buffer),
	  "only guests' buffers of this name", .of = ITEMS | LIMITS },
	{ 'e', "event", "GLOB", BRAID_LIST(SELECT, events),
	  "only events SYSTEM:EVENT, or sub-events of that name; several are separated by commas; "
	  "may be repeated", .values = "@event", .of = ITEMS | LIMITS },
	{ 'F', "filter", "FILTER", .take = take_filter, .help =
	  "only events that match FILTER, 'EVENTS: EXPRESSION' as in trace-cmd: "
	  "'sched_switch: prev_prio < 100 && next_comm ~ \"q*\"'. EVENTS are regular expressions "
	  "EVENT or SYSTEM/EVENT, separated by commas; fields are compared by == != < > <= >= & "
	  "(bits), strings by == != ~ (glob) =~ !~ (regular expression), joined by && || ! (); "
	  "CPU and COMM can be used like fields. With several filters, one must match",
	  .of = ITEMS | LIMITS },
	{ 0, "filter-not", "FILTER", .take = take_filter, .help = "only events that do not match FILTER",
	  .of = ITEMS | LIMITS },
	{ 0, "pid", "PID", .take = take_pid, .help = "only events of this task; may be repeated",
	  .most = INT32_MAX, .of = ITEMS | LIMITS },
	{ 0, "comm", "GLOB", BRAID_LIST(SELECT, comms),
	  "only events of tasks of that name; may be repeated", .of = ITEMS | LIMITS },
	{ 0, "since", "TIME", MOMENT(options.from),
	  "from TIME on: seconds as the report shows them, +SECONDS from the first event, or "
	  "-SECONDS from the recording's end; or wall time, '2026-01-31 12:00:00.5' or, of the "
	  "recording's day, 12:00:00.5: in this time zone, or in UTC with a Z appended",
	  .of = ANY | LIMITS },
	{ 0, "until", "TIME", MOMENT(options.to), "up to TIME, in the same formats", .of = ANY | LIMITS },
	{ 'n', "lines", "COUNT", BRAID_COUNT(SELECT, options.max_lines), "stop after COUNT lines",
	  .most = UINT64_MAX, .of = ITEMS },
	{ 0, "around", "EVENT", BRAID_STRING(SELECT, options.around),
	  "only 10 ms before and after each EVENT, a GLOB as of --event, of any stream",
	  .values = "@event", .of = EXPORT | LIMITS },
	{ 0, "uncertain", NULL, BRAID_FLAG(SELECT, options.uncertain),
	  "mark with ~ each event that may have happened before an event printed above it, because "
	  "their error bounds overlap. The last line counts such events, marked or not; "
	  "filtered-out events are not considered", .of = EXPORT },
	{ 0, "no-header", NULL, BRAID_FLAG(SELECT, options.no_header),
	  "print only the lines of the timeline", .of = EXPORT },
	{ 0, "states", NULL, BRAID_FLAG(SELECT, options.states),
	  "trace.dat and ctf: add vCPUs' states as events of a buffer 'tracebraid'", .of = EXPORT },
	{ 0, "cpus", "N", BRAID_COUNT(SELECT, cpus),
	  "use N CPUs, where the format can; by default all that the command may run on",
	  .least = 1, .most = MOST_CPUS, .of = EXPORT },
	{ 'n', "top", "COUNT", BRAID_COUNT(SELECT, top),
	  "maximum rows of each table. Default: 10. In JSON and CSV it limits only the tables of "
	  "longest episodes, waits and stalls", .least = 1, .most = MOST_TOP, .of = ANALYSES },
	{ 'j', "json", NULL, BRAID_FLAG(SELECT, json), "one JSON object; times and durations in ns",
	  .of = TABLES },
	{ 0, "csv", NULL, BRAID_FLAG(SELECT, csv),
	  "comma-separated values; the first line names the columns", .of = TABLES },
	{ 0, "against-since", "TIME", MOMENT(against[0]),
	  "compare with OTHER from TIME on; without --against, OTHER is FILE: two times of one capture. "
	  "--since and --until are then of FILE only", .of = TABLES },
	{ 0, "against-until", "TIME", MOMENT(against[1]), "compare with OTHER up to TIME", .of = TABLES },
	{ 0, "task", "PID", BRAID_COUNT(SELECT, task),
	  "only while this task of a guest is current on its vCPU", .most = INT32_MAX, .of = ANALYSES },
	{ 0, "by", "WHAT", BRAID_WORD(SELECT, by),
	  "group rows by vcpu (default), task, syscall or function of the guest, or by guest",
	  .values = "vcpu task syscall function guest", .of = ANALYSES },
	{ 0, "folded", NULL, BRAID_FLAG(SELECT, folded),
	  "print stacks for flamegraph.pl and speedscope; of --by, only function has an effect",
	  .of = TABLES },
	{ 0, "speedscope", NULL, BRAID_FLAG(SELECT, speedscope),
	  "with --folded: write a file for speedscope", .of = TABLES },
	{ 0, "symbols", "DIRECTORY", BRAID_STRING(SELECT, options.symbols),
	  "where the guests' programs and libraries are: as the root of their file system, or by build id; and "
	  "GUEST.kallsyms or kallsyms, copies of /proc/kallsyms, of guests without the driver",
	  .of = ANALYSES | EXPORT },
	{ 0, "weight", "WHAT", BRAID_WORD(SELECT, weight),
	  "weight of a folded stack: time in ns (default) or count", .values = "time count", .of = TABLES },
	{ 0 },
};

const char *braid_library_dashes(const char *word)
{
	return strncmp(word, "--", 2) ? "" : "--";
}

const char *braid_library_word(const char *const *words, const char *name)
{
	const char *found = NULL, *at;
	size_t n = strlen(name);

	for (; words && *words; words++) {
		at = *words + strlen(braid_library_dashes(*words));
		if (!strncmp(at, name, n) && (!at[n] || at[n] == '='))
			found = *words;
	}
	return found;
}

const struct braid_option *braid_library_find(const struct braid_option *o, const char *word,
					      unsigned int use)
{
	const char *name = word + strlen(braid_library_dashes(word));
	size_t n = strcspn(name, "=");

	while (o->name && (!(o->of & use) || strlen(o->name) != n || memcmp(o->name, name, n)))
		o++;
	return o->name ? o : NULL;
}

const struct braid_option *braid_library_option(const char *word, unsigned int use)
{
	return braid_library_find(options, word, use);
}

const char *braid_library_value(const char *word)
{
	const char *equals = strchr(word, '=');

	return equals ? equals + 1 : NULL;
}

int braid_library_take(const struct braid_option *o, void *to, const char *word, const char *value)
{
	char why[512];
	int err;

	if (!value != !o->argument)
		err = braid_fail(-EINVAL, o->argument ? "value missing" : "takes no value");
	else
		err = o->take(o, (char *)to + o->at, value);
	if (!err || err == -ENOMEM)
		return err;
	snprintf(why, sizeof(why), "%s", braid_failure());
	return braid_fail(err, "%.80s: %s", word, why);
}

static int select_take(struct braid_library_select *s, const char *word,
		       enum braid_library_use use)
{
	const struct braid_option *o = braid_library_option(word, use);
	const char *value = braid_library_value(word);
	char *copy = value ? strdup(value) : NULL;

	s->word = word;
	if ((value && !copy) || (copy && braid_take_list(o, &s->strings, copy))) {
		free(copy);
		return braid_out_of_memory();
	}
	if (o)
		return braid_library_take(o, s, word, copy);
	return braid_fail(-EINVAL, "'%.63s' is not an option of %s: expected OPTION=VALUE, such as %s", word,
			  use == BRAID_LIBRARY_WALK ? "a walk" : use == BRAID_LIBRARY_EXPORT ? "an export" :
			  "an analysis", use & ITEMS ? "event=sched:*" : "stream=guest1");
}

int braid_library_parse(struct braid_library_select *s, const char *const *words,
			enum braid_library_use use)
{
	int err = 0;

	memset(s, 0, sizeof(*s));
	for (; words && *words && !err; words++)
		err = select_take(s, *words, use);
	s->options.realtime = s->clock;
	s->options.cpus = s->cpus;
	s->options.events = (char *const *)s->events.items;
	s->options.nr_events = s->events.nr;
	s->options.comms = (char *const *)s->comms.items;
	s->options.nr_comms = s->comms.nr;
	s->options.filters = s->filters;
	s->options.pids = s->pids;
	return err;
}

int braid_library_select(struct braid_library_select *s, const struct braid_source *source,
			 const char *const *words, enum braid_library_use use)
{
	return braid_library_parse(s, words, use) ?: braid_select_check(&s->options, source);
}

void braid_library_select_free(struct braid_library_select *s)
{
	while (s->strings.nr)
		free((char *)s->strings.items[--s->strings.nr]);
	free(s->strings.items);
	free(s->events.items);
	free(s->comms.items);
	free(s->filters);
	free(s->pids);
}
