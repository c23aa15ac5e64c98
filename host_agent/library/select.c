// SPDX-License-Identifier: GPL-2.0-or-later
/* Selections: the options of commands, as words. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/moment.h"
#include "host_agent/export/select.h"
#include "host_agent/library/private.h"
#include "host_agent/util/error.h"

#define NR(list)	(sizeof(list) / sizeof(*(list)))
#define MOST_TOP	10000

/* One option; @text lives with the selection. Return: 0, or -errno with braid_fail(). */
struct option {
	const char *name;
	bool walks, analyzes;	/* what takes it */
	int (*take)(struct braid_library_select *s, const char *text);
};

static int fail_number(const char *text)
{
	return braid_fail(-EINVAL, "'%.63s' is not a number in range", text);
}

static bool number(const char *text, u64 most, u64 *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *value <= most;
}

static int full(const char *what)
{
	return braid_fail(-E2BIG, "too many values of %s", what);
}

static int take_stream(struct braid_library_select *s, const char *text)
{
	s->options.stream = text;
	return 0;
}

static int take_buffer(struct braid_library_select *s, const char *text)
{
	s->options.buffer = text;
	return 0;
}

static int take_cpu(struct braid_library_select *s, const char *text)
{
	u64 value;

	if (!number(text, 65535, &value))
		return fail_number(text);
	s->options.one_cpu = true;
	s->options.cpu = value;
	return 0;
}

static int take_event(struct braid_library_select *s, const char *text)
{
	if (s->options.nr_events == NR(s->events))
		return full("event");
	s->options.events = s->events;
	s->events[s->options.nr_events++] = (char *)text;
	return 0;
}

static int take_comm(struct braid_library_select *s, const char *text)
{
	if (s->options.nr_comms == NR(s->comms))
		return full("comm");
	s->options.comms = s->comms;
	s->comms[s->options.nr_comms++] = (char *)text;
	return 0;
}

static int add_filter(struct braid_library_select *s, const char *text, bool invert)
{
	if (s->options.nr_filters == NR(s->filters))
		return full("filter");
	s->options.filters = s->filters;
	s->filters[s->options.nr_filters++] = (struct braid_export_filter){ text, invert };
	return 0;
}

static int take_filter(struct braid_library_select *s, const char *text)
{
	return add_filter(s, text, false);
}

static int take_filter_not(struct braid_library_select *s, const char *text)
{
	return add_filter(s, text, true);
}

static int take_pid(struct braid_library_select *s, const char *text)
{
	u64 value;

	if (!number(text, INT32_MAX, &value))
		return fail_number(text);
	if (s->options.nr_pids == NR(s->pids))
		return full("pid");
	s->options.pids = s->pids;
	s->pids[s->options.nr_pids++] = value;
	return 0;
}

static int take_moment(struct braid_library_select *s, struct braid_export_moment *m,
		       const char *text)
{
	bool date;
	int err = braid_moment_parse(m, text, &date);

	s->date |= !err && date;
	return err;
}

static int take_since(struct braid_library_select *s, const char *text)
{
	return take_moment(s, &s->options.from, text);
}

static int take_until(struct braid_library_select *s, const char *text)
{
	return take_moment(s, &s->options.to, text);
}

static int take_clock(struct braid_library_select *s, const char *text)
{
	s->options.realtime = !strcmp(text, "realtime");
	return s->options.realtime || !strcmp(text, "host") ? 0 :
	       braid_fail(-EINVAL, "clock '%.63s': expected host or realtime", text);
}

static int take_lines(struct braid_library_select *s, const char *text)
{
	return number(text, UINT64_MAX, &s->options.max_lines) ? 0 : fail_number(text);
}

static int take_top(struct braid_library_select *s, const char *text)
{
	return number(text, MOST_TOP, &s->top) && s->top ? 0 : fail_number(text);
}

static int take_task(struct braid_library_select *s, const char *text)
{
	u64 value;

	if (!number(text, INT32_MAX, &value))
		return fail_number(text);
	s->one_task = true;
	s->task = value;
	return 0;
}

static int take_by(struct braid_library_select *s, const char *text)
{
	s->by = (char *)text;
	return 0;
}

static const struct option options[] = {
	{ "stream", true, true, take_stream },
	{ "cpu", true, true, take_cpu },
	{ "buffer", true, false, take_buffer },
	{ "event", true, false, take_event },
	{ "filter", true, false, take_filter },
	{ "filter-not", true, false, take_filter_not },
	{ "pid", true, false, take_pid },
	{ "comm", true, false, take_comm },
	{ "since", true, true, take_since },
	{ "until", true, true, take_until },
	{ "clock", true, false, take_clock },
	{ "lines", true, false, take_lines },
	{ "top", false, true, take_top },
	{ "task", false, true, take_task },
	{ "by", false, true, take_by },
};

static int take(struct braid_library_select *s, const char *word, bool analysis)
{
	const char *equals = strchr(word, '=');
	size_t k, n = equals ? (size_t)(equals - word) : 0;
	char *text;

	for (k = 0; equals && k < NR(options); k++) {
		const struct option *o = &options[k];

		if (strlen(o->name) != n || memcmp(o->name, word, n) ||
		    !(analysis ? o->analyzes : o->walks))
			continue;
		if (s->nr_strings == NR(s->strings))
			return full("options");
		text = strdup(equals + 1);
		if (!text)
			return braid_out_of_memory();
		s->strings[s->nr_strings++] = text;
		return o->take(s, text);
	}
	return braid_fail(-EINVAL, "'%.63s' is not an option: expected OPTION=VALUE, such as event=sched:*",
			  word);
}

int braid_library_select(struct braid_library_select *s, const struct braid_source *source,
			 const char *const *words, bool analysis)
{
	int err = 0;

	memset(s, 0, sizeof(*s));
	for (; words && *words && !err; words++)
		err = take(s, *words, analysis);
	if (!err && s->date && !s->options.realtime)
		err = braid_fail(-EINVAL, "a date is wall time: use it with clock=realtime");
	return err ? err : braid_select_check(&s->options, source);
}

void braid_library_select_free(struct braid_library_select *s)
{
	while (s->nr_strings)
		free(s->strings[--s->nr_strings]);
}
