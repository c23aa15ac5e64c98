// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes the options that commands which read captures have in common, and checks them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

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
		return braid_array_push(t->events, t->nr_events, t->events_capacity, value) ?
			braid_fail(-ENOMEM, "out of memory") : 1;
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
	return braid_fail(-ENOENT, "there is no buffer '%s'; 'tracebraid stat' lists all",
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
		return braid_fail(-ENOENT, "there is no stream in the capture");
	return braid_fail(-ENOENT, "there is no stream '%s'; the first one is '%s', 'tracebraid stat' lists all",
			  t->options.stream, source->streams[0]->name);
}

/* What is made of a capture is not to take its place. */
static int check_output(const char *to, char *const *paths, size_t nr)
{
	struct stat a, b;
	size_t k;

	if (!to || !strcmp(to, "-") || stat(to, &a))
		return 0;
	for (k = 0; k < nr; k++)
		if (!stat(paths[k], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			return braid_fail(-EINVAL, "'%s' is the capture itself; -o names another file",
					  to);
	return 0;
}

int braid_trace_open(struct braid_trace_options *t, struct braid_source **out,
		     char *const *paths, size_t nr, const char *to)
{
	struct braid_source_options options = {
		.progress = braid_progress_show, .progress_arg = &t->progress,
		.force_clock = t->options.clock_asked, .clock = t->options.clock,
	};
	struct braid_source *source;
	int err;

	t->options.events = t->events;
	t->options.nr_events = t->nr_events;
	t->options.progress = braid_progress_show;
	t->options.progress_arg = &t->progress;
	err = check_output(to, paths, nr);
	if (err)
		return err;
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

void braid_trace_tell_empty(struct braid_trace_options *t,
			    const struct braid_export_totals *totals)
{
	char line[256];
	size_t k;

	if (!t->nr_events || totals->events || t->options.max_lines)
		return;
	braid_progress_end(&t->progress);
	fputs("tracebraid: no event matches", stderr);
	for (k = 0; k < t->nr_events; k++) {
		snprintf(line, sizeof(line), "%s", t->events[k]);
		braid_text_clean(line);
		fprintf(stderr, "%s '%s'", k ? " or" : "", line);
	}
	fputc('\n', stderr);
}

void braid_trace_free(struct braid_trace_options *t)
{
	free(t->events);
	t->events = NULL;
}
