// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes the options that commands which read captures have in common, and checks them. */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/control/control.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define NS_PER_SECOND	1000000000ULL

static int take_clock(struct braid_trace_options *t, const char *name)
{
	t->options.realtime = !strcmp(name, "realtime");
	return t->options.realtime || !strcmp(name, "host") ? 0 :
	       braid_fail(-EINVAL, "--clock=%s: the clocks are host and realtime", name);
}

static int take_clock_source(struct braid_trace_options *t, const char *name)
{
	enum braid_clock_kind kind;

	t->options.clock_asked = strcmp(name, "auto");
	t->options.clock = BRAID_CLOCK_HOST;
	for (kind = BRAID_CLOCK_KVM; kind < BRAID_CLOCK_KINDS; kind++)
		if (!strcmp(name, braid_clock_kind_name(kind)))
			t->options.clock = kind;
	return t->options.clock != BRAID_CLOCK_HOST || !t->options.clock_asked ? 0 :
	       braid_fail(-EINVAL, "--clock-source=%s: the sources are auto, kvm, exchange, pairs and nominal",
			  name);
}

static int take_cpu(struct braid_trace_options *t, const char *text)
{
	u64 value;
	int err = braid_parse_u64(text, 65535, &value);

	if (err)
		return err;
	t->options.one_cpu = true;
	t->options.cpu = value;
	return 0;
}

/* Digits, perhaps a point and up to nine more. NULL: it is none. */
static const char *parse_seconds(const char *s, s64 *ns)
{
	u64 seconds = 0, fraction = 0, unit = NS_PER_SECOND;

	if (!isdigit((unsigned char)*s))
		return NULL;
	for (; isdigit((unsigned char)*s); s++)
		if ((seconds = 10 * seconds + (*s - '0')) >= INT64_MAX / NS_PER_SECOND)
			return NULL;
	if (*s == '.')
		for (s++; isdigit((unsigned char)*s); s++)
			if (unit > 1)
				fraction += (*s - '0') * (unit /= 10);
	*ns = seconds * NS_PER_SECOND + fraction;
	return s;
}

/* 2026-01-31T12:00:00.5, with or without Z. */
static bool parse_date(const char *text, s64 *ns)
{
	struct tm tm = { .tm_isdst = -1 };
	const char *seconds, *rest = strptime(text, "%Y-%m-%dT%H:%M:", &tm);
	s64 second_ns;
	time_t t;

	seconds = rest;
	rest = rest ? parse_seconds(seconds, &second_ns) : NULL;
	if (!rest || (*rest && strcmp(rest, "Z")))
		return false;
	t = *rest ? timegm(&tm) : mktime(&tm);
	return t > 0 && !__builtin_mul_overflow(t, (s64)NS_PER_SECOND, ns) &&
	       !__builtin_add_overflow(*ns, second_ns, ns);
}

static int take_moment(struct braid_trace_options *t, struct braid_export_moment *m,
		       const char *text)
{
	const char *rest;

	m->kind = *text == '+' ? BRAID_MOMENT_SINCE : *text == '-' ? BRAID_MOMENT_BEFORE :
		  BRAID_MOMENT_AT;
	rest = parse_seconds(text + (m->kind != BRAID_MOMENT_AT), &m->ns);
	if (rest && !*rest)
		return 0;
	if (!parse_date(text, &m->ns))
		return braid_fail(-EINVAL, "'%s' is not a time: SECONDS, +SECONDS, -SECONDS, or 2026-01-31T12:00:00 with --clock=realtime",
				  text);
	t->date = text;
	return 0;
}

static int take_pid(struct braid_trace_options *t, const char *text)
{
	u64 value;
	int err = braid_parse_u64(text, INT32_MAX, &value);

	if (!err && braid_array_push(t->pids, t->nr_pids, t->pids_capacity, (s32)value))
		err = braid_fail(-ENOMEM, "out of memory");
	return err;
}

static int take_filter(struct braid_trace_options *t, const char *text)
{
	struct braid_export_filter filter = { .text = text, .invert = t->invert };

	return braid_array_push(t->filters, t->nr_filters, t->filters_capacity, filter) ?
	       braid_fail(-ENOMEM, "out of memory") : 0;
}

int braid_trace_take(struct braid_trace_options *t, int option, char *value)
{
	switch (option) {
	case BRAID_OPT_CLOCK:
		return take_clock(t, value) ?: 1;
	case BRAID_OPT_CLOCK_SOURCE:
		return take_clock_source(t, value) ?: 1;
	case BRAID_OPT_STREAM:
		t->options.stream = value;
		return 1;
	case BRAID_OPT_CPU:
		return take_cpu(t, value) ?: 1;
	case 'B':
		t->options.buffer = value;
		return 1;
	case 'e':
		return braid_pattern_check(value) ?: braid_array_push(t->events, t->nr_events, t->events_capacity, value) ?
			braid_fail(-ENOMEM, "out of memory") : 1;
	case 'F':
		return take_filter(t, value) ?: 1;
	case 'v':
		t->invert = true;
		return 1;
	case BRAID_OPT_PID:
		return take_pid(t, value) ?: 1;
	case BRAID_OPT_COMM:
		return braid_array_push(t->comms, t->nr_comms, t->comms_capacity, value) ?
			braid_fail(-ENOMEM, "out of memory") : 1;
	case BRAID_OPT_SINCE:
		return take_moment(t, &t->options.from, value) ?: 1;
	case BRAID_OPT_UNTIL:
		return take_moment(t, &t->options.to, value) ?: 1;
	}
	return 0;
}


static int check_buffer(const struct braid_trace_options *t, const struct braid_source *source)
{
	size_t k;
	u32 b;

	for (k = 0; k < source->nr_streams; k++)
		for (b = 0; b < source->streams[k]->nr_buffers; b++)
			if (!strcmp(source->streams[k]->buffers[b].name, t->options.buffer))
				return 0;
	return braid_fail(-ENOENT, "no buffer '%s'; 'tracebraid stat' lists all",
			  t->options.buffer);
}

/* The options fit the trace? A name that is not there is a slip, not an empty report. */
static int check_names(const struct braid_trace_options *t, const struct braid_source *source)
{
	size_t k;
	int err;

	err = t->options.buffer ? check_buffer(t, source) : 0;
	if (err)
		return err;
	for (k = 0; t->options.stream && k < source->nr_streams; k++)
		if (!strcmp(source->streams[k]->name, t->options.stream))
			return 0;
	if (!t->options.stream)
		return 0;
	if (!source->nr_streams)
		return braid_fail(-ENOENT, "the capture has no streams");
	return braid_fail(-ENOENT, "no stream '%s'; the first one is '%s', 'tracebraid stat' lists all",
			  t->options.stream, source->streams[0]->name);
}

static void say(void *arg, const char *line)
{
	(void)arg;
	fprintf(stderr, "tracebraid: %s\n", line);
}

int braid_trace_open(struct braid_trace_options *t, struct braid_source **out,
		     char *const *paths, size_t nr)
{
	struct braid_source_options options = {
		.progress = braid_progress_show, .progress_arg = &t->progress,
		.force_clock = t->options.clock_asked, .clock = t->options.clock, .say = say,
	};
	struct braid_source *source;
	int err;

	t->options.events = t->events;
	t->options.nr_events = t->nr_events;
	t->options.filters = t->filters;
	t->options.nr_filters = t->nr_filters;
	t->options.pids = t->pids;
	t->options.nr_pids = t->nr_pids;
	t->options.comms = t->comms;
	t->options.nr_comms = t->nr_comms;
	t->options.progress = braid_progress_show;
	t->options.progress_arg = &t->progress;
	t->options.inputs = paths;
	t->options.nr_inputs = nr;
	if (t->date && !t->options.realtime)
		return braid_fail(-EINVAL, "'%s' is wall time: it needs --clock=realtime", t->date);
	braid_progress_begin(&t->progress);
	err = braid_source_open_captures(&source, paths, nr, &options);
	if (err)
		return err;
	err = check_names(t, source);
	if (err) {
		braid_source_free(source);
		return err;
	}
	*out = source;
	return 0;
}

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	stopped = signal;
}

void braid_trace_stoppable(struct braid_trace_options *t)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = stop, .sa_flags = SA_RESTART | SA_RESETHAND };
	size_t k;

	for (k = 0; k < sizeof(signals) / sizeof(*signals); k++)
		sigaction(signals[k], &action, NULL);
	t->options.stop = &stopped;
}

int braid_trace_check_output(const char *form, const char *out)
{
	size_t n = strlen(out), end = strlen(".braid");

	if (n < end || strcmp(out + n - end, ".braid"))
		return 0;
	return braid_fail(-EINVAL, "-o %s: *.braid names a capture, and --to makes another kind of file; use -o %.*s.%s",
			  out, (int)(n - end), out, form);
}

static bool selects(const struct braid_export_options *o)
{
	return o->nr_events || o->nr_filters || o->nr_pids || o->nr_comms ||
	       o->from.kind || o->to.kind || o->stream || o->buffer || o->one_cpu;
}

int braid_trace_verdict(struct braid_trace_options *t, const struct braid_export_totals *totals)
{
	const struct braid_export_options *o = &t->options;
	char line[256];
	size_t k;

	if (totals->events || !selects(o) || (o->max_lines && totals->lines >= o->max_lines))
		return 0;
	braid_progress_end(&t->progress);
	fputs("tracebraid: no event matches", stderr);
	for (k = 0; k < o->nr_events; k++) {
		snprintf(line, sizeof(line), "%s", o->events[k]);
		braid_text_clean(line);
		fprintf(stderr, "%s '%s'", k ? " or" : "", line);
	}
	fputs(o->nr_events ? "\n" : " what was selected\n", stderr);
	return BRAID_TRACE_NOTHING;
}

int braid_trace_exit(struct braid_trace_options *t, int ret)
{
	braid_progress_end(&t->progress);
	braid_trace_free(t);
	if (ret == BRAID_TRACE_NOTHING)
		return ret;
	return ret >= 0 || ret == -EPIPE ? EXIT_SUCCESS : braid_complain();
}

void braid_trace_free(struct braid_trace_options *t)
{
	free(t->events);
	free(t->filters);
	free(t->pids);
	free(t->comms);
	t->events = t->comms = NULL;
	t->filters = NULL;
	t->pids = NULL;
}
