// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid report: captures as one timeline. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/export/export.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

static const char usage[] =
	"Usage: tracebraid report [OPTION]... FILE...\n"
	"Prints captures as one timeline: every guest and its host, in order of time.\n"
	"\n"
	"      --json          one JSON object a line\n"
	"  -o, --output=OUT    write to OUT instead of standard output\n"
	"      --clock=CLOCK   show times of CLOCK: host, the default, or realtime, to put captures\n"
	"                      of several hosts side by side; bounds are then of that\n"
	"      --clock-source=SOURCE\n"
	"                      place guests by kvm, exchange, pairs or nominal alone, not by the\n"
	"                      best there is (auto)\n"
	"      --uncertain     mark with ~ each event that may have been before one above it: their\n"
	"                      clocks' bounds don't tell. The last line counts such events, marked\n"
	"                      or not; what filters leave out is not looked at\n"
	"      --no-header     nothing but the lines of the timeline\n"
	"  -n, --lines=COUNT   stop after COUNT lines\n"
	"      --stream=NAME   only this guest, or 'host'\n"
	"      --cpu=N         only this CPU of each stream\n"
	"  -B, --buffer=NAME   only guests' buffers of this name\n"
	"  -e, --event=GLOB    only events SYSTEM:EVENT, or sub-events of that name; may be\n"
	"                      given several times\n"
	"      --help          this text\n";

struct report {
	struct braid_export_options options;
	char **events;
	size_t nr_events, events_capacity;
	const char *out;
	bool json;
	struct braid_progress progress;
};

enum {
	OPT_JSON = 256, OPT_NO_HEADER, OPT_STREAM, OPT_CPU, OPT_CLOCK, OPT_CLOCK_SOURCE,
	OPT_UNCERTAIN, OPT_HELP
};

static const struct option long_options[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "output", required_argument, NULL, 'o' },
	{ "uncertain", no_argument, NULL, OPT_UNCERTAIN },
	{ "clock", required_argument, NULL, OPT_CLOCK },
	{ "clock-source", required_argument, NULL, OPT_CLOCK_SOURCE },
	{ "no-header", no_argument, NULL, OPT_NO_HEADER },
	{ "lines", required_argument, NULL, 'n' },
	{ "stream", required_argument, NULL, OPT_STREAM },
	{ "cpu", required_argument, NULL, OPT_CPU },
	{ "buffer", required_argument, NULL, 'B' },
	{ "event", required_argument, NULL, 'e' },
	{ "help", no_argument, NULL, OPT_HELP },
	{ 0 },
};

static int take_clock(struct report *r, const char *name)
{
	r->options.realtime = !strcmp(name, "realtime");
	return r->options.realtime || !strcmp(name, "host") ? 0 :
	       braid_fail(-EINVAL, "--clock=%s: the clocks are host and realtime", name);
}

static int take_clock_source(struct report *r, const char *name)
{
	enum braid_clock_kind kind;

	r->options.clock_asked = strcmp(name, "auto");
	r->options.clock = BRAID_CLOCK_HOST;
	for (kind = BRAID_CLOCK_KVM; kind < BRAID_CLOCK_KINDS; kind++)
		if (!strcmp(name, braid_clock_kind_name(kind)))
			r->options.clock = kind;
	return r->options.clock != BRAID_CLOCK_HOST || !r->options.clock_asked ? 0 :
	       braid_fail(-EINVAL, "--clock-source=%s: the sources are auto, kvm, exchange, pairs and nominal",
			  name);
}

/* One option. Return: 0, 1 when there is nothing left to do, -errno. */
static int take_option(struct report *r, int option)
{
	u64 value;
	int err;

	switch (option) {
	case OPT_JSON:
		r->json = true;
		return 0;
	case 'o':
		r->out = optarg;
		return 0;
	case OPT_NO_HEADER:
		r->options.no_header = true;
		return 0;
	case OPT_UNCERTAIN:
		r->options.uncertain = true;
		return 0;
	case OPT_CLOCK:
		return take_clock(r, optarg);
	case OPT_CLOCK_SOURCE:
		return take_clock_source(r, optarg);
	case 'n':
		return braid_parse_u64(optarg, INT64_MAX, &r->options.max_lines);
	case OPT_STREAM:
		r->options.stream = optarg;
		return 0;
	case OPT_CPU:
		err = braid_parse_u64(optarg, 65535, &value);
		if (err)
			return err;
		r->options.one_cpu = true;
		r->options.cpu = value;
		return 0;
	case 'B':
		r->options.buffer = optarg;
		return 0;
	case 'e':
		return braid_array_push(r->events, r->nr_events, r->events_capacity, optarg) ?
			braid_fail(-ENOMEM, "out of memory") : 0;
	case OPT_HELP:
		fputs(usage, stdout);
		return 1;
	}
	return -EINVAL;
}

static int check_buffer(const struct report *r, const struct braid_source *source)
{
	size_t k;
	u32 b;

	for (k = 0; k < source->nr_streams; k++)
		for (b = 0; b < source->streams[k]->nr_buffers; b++)
			if (!strcmp(source->streams[k]->buffers[b].name, r->options.buffer))
				return 0;
	return braid_fail(-ENOENT, "there is no buffer '%s'; 'tracebraid stat' lists all",
			  r->options.buffer);
}

/* The options fit the trace? A name that is not there is a slip, not an empty report. */
static int check_options(const struct report *r, const struct braid_source *source)
{
	size_t k;
	int err;

	err = r->options.buffer ? check_buffer(r, source) : 0;
	if (err)
		return err;
	for (k = 0; r->options.stream && k < source->nr_streams; k++)
		if (!strcmp(source->streams[k]->name, r->options.stream))
			return 0;
	if (!r->options.stream)
		return 0;
	if (!source->nr_streams)
		return braid_fail(-ENOENT, "there is no stream in the capture");
	return braid_fail(-ENOENT, "there is no stream '%s'; the first one is '%s', 'tracebraid stat' lists all",
			  r->options.stream, source->streams[0]->name);
}

/* Nothing passed -e: a slip perhaps, so it is said. */
static void tell_empty(struct report *r)
{
	char line[256];
	size_t k;

	braid_progress_end(&r->progress);
	fputs("tracebraid: no event matches", stderr);
	for (k = 0; k < r->nr_events; k++) {
		snprintf(line, sizeof(line), "%s", r->events[k]);
		braid_text_clean(line);
		fprintf(stderr, "%s '%s'", k ? " or" : "", line);
	}
	fputc('\n', stderr);
}

static int run(struct report *r, struct braid_source *source, FILE *to)
{
	struct braid_export_totals totals;
	int err;

	err = check_options(r, source);
	if (err)
		return err;
	r->options.events = r->events;
	r->options.nr_events = r->nr_events;
	r->options.progress = braid_progress_show;
	r->options.progress_arg = &r->progress;
	err = r->json ? braid_export_json(to, source, &r->options, &totals) :
			braid_export_text(to, source, &r->options, &totals);
	if (!err && r->nr_events && !totals.events && !r->options.max_lines)
		tell_empty(r);
	return err;
}

/* The report of a capture is not to take its place. */
static int check_output(const char *out, char **paths, size_t nr)
{
	struct stat a, b;
	size_t k;

	if (!out || !strcmp(out, "-") || stat(out, &a))
		return 0;
	for (k = 0; k < nr; k++)
		if (!stat(paths[k], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			return braid_fail(-EINVAL, "'%s' is the capture itself; -o names another file",
					  out);
	return 0;
}

/* As private as the capture: it tells the same. */
static FILE *create_private(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return fd < 0 ? NULL : fdopen(fd, "w");
}

/* Writes beside OUT and renames, so that OUT is whole or not there. */
static int run_to_file(struct report *r, struct braid_source *source)
{
	char part[4096];
	struct stat st;
	bool direct;
	FILE *to;
	int err;

	direct = !stat(r->out, &st) && !S_ISREG(st.st_mode);
	if (snprintf(part, sizeof(part), direct ? "%s" : "%s.part", r->out) >= (int)sizeof(part))
		return braid_fail(-ENAMETOOLONG, "the name of the output file is too long");
	to = create_private(part);
	if (!to)
		return braid_fail(-errno, "cannot create '%s': %s", part, strerror(errno));
	err = run(r, source, to);
	if (fclose(to) && !err)
		err = braid_fail(-errno, "cannot write '%s': %s", part, strerror(errno));
	if (!err && !direct && rename(part, r->out))
		err = braid_fail(-errno, "cannot rename '%s' to '%s': %s", part, r->out,
				 strerror(errno));
	if (err && !direct)
		unlink(part);
	return err;
}

static int report(struct report *r, char **paths, size_t nr)
{
	struct braid_source_options options = {
		.progress = braid_progress_show, .progress_arg = &r->progress,
		.force_clock = r->options.clock_asked, .clock = r->options.clock,
	};
	struct braid_source *source = NULL;
	int err;

	err = braid_cli_confine(r->out && strcmp(r->out, "-") ? BRAID_CONFINE_CONVERT :
				BRAID_CONFINE_READ, NULL);
	if (!err)
		err = check_output(r->out, paths, nr);
	if (err)
		return err;
	braid_progress_begin(&r->progress);
	err = braid_source_open_captures(&source, paths, nr, &options);
	if (!err)
		err = r->out && strcmp(r->out, "-") ? run_to_file(r, source) :
						      run(r, source, stdout);
	braid_progress_end(&r->progress);
	braid_source_free(source);
	return err;
}

int braid_cmd_report(int argc, char **argv)
{
	struct report r = { 0 };
	int option, err = 0;

	optind = 1;
	opterr = 0;
	while (!err && (option = getopt_long(argc, argv, "o:n:B:e:h", long_options, NULL)) != -1) {
		if (option == '?') {
			free(r.events);
			return braid_complain_option("report", argv[optind - 1]);
		}
		err = take_option(&r, option == 'h' ? OPT_HELP : option);
	}
	if (!err && optind == argc)
		err = braid_fail(-EINVAL, "report: which capture? 'tracebraid report FILE...'");
	if (!err) {
		err = report(&r, argv + optind, argc - optind);
	}
	free(r.events);
	return err >= 0 || err == -EPIPE ? EXIT_SUCCESS : braid_complain();
}
