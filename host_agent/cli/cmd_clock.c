// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid clock: how a guest's times become host times. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/record/record.h"
#include "host_agent/util/error.h"

#define LIVE_SECONDS	2.0

struct arguments {
	bool json;
	double seconds;
};

static const struct braid_option options[] = {
	{ 'j', "json", NULL, BRAID_FLAG(struct arguments, json), "one JSON object" },
	{ 't', "time", "SECONDS", BRAID_DURATION(struct arguments, seconds),
	  "how long to measure a running guest. Default: 2" },
	{ 0 },
};

const struct braid_cli_command braid_command_clock = {
	.name = "clock",
	.summary = "show how a guest's times become host times, and how accurately",
	.run = braid_cmd_clock, .usage = "[OPTION]... GUEST|FILE",
	.text =
	"Shows how a guest's times are converted to host times: from which source and why, how "
	"accurately, and since when. FILE is a capture; GUEST is a running guest as `tracebraid list` "
	"shows it: its name or its region's file. A running guest's clock is measured briefly; no "
	"event is enabled or consumed.",
	.options = options, .operands = "@region",
	.least = 1, .most = 1, .expected = "one guest or capture: 'tracebraid clock GUEST'",
};

static bool has_guest(const struct braid_source *source)
{
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if (source->streams[k]->kind == BRAID_STREAM_GUEST)
			return true;
	return false;
}

/* @guest: the guest that must be in the file; NULL: any. */
static int print_file(char *path, const char *guest, double seconds, bool json)
{
	struct braid_source *source = NULL;
	struct braid_progress progress;
	struct braid_source_options options = {
		.progress = braid_progress_show, .progress_arg = &progress,
	};
	int err;

	braid_progress_begin(&progress);
	err = braid_source_open_captures(&source, &path, 1, &options);
	braid_progress_end(&progress);
	if (!err && guest && !has_guest(source))
		err = braid_fail(-ENODATA, "%s: no driver within %g s; in the guest: modprobe tracebraid",
				 guest, seconds);
	if (!err)
		err = braid_clock_print(source, json);
	braid_source_free(source);
	return err;
}

/* A running guest: records only its clock, and reads that like any capture. */
static int print_guest(const char *guest, double seconds, bool json)
{
	struct braid_record_options o = { .quiet = true, .clock_only = true, .seconds = seconds };
	struct braid_record_result result;
	char path[32];
	int err;

	o.fd = memfd_create("tracebraid-clock", MFD_CLOEXEC);
	if (o.fd < 0)
		return braid_fail(-errno, "no memory for the clock's record: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", o.fd);
	o.file = path;
	err = braid_record_add_guest(&o, guest);
	if (!err)
		err = braid_record_show(&o, 0, &result);
	if (!err)
		err = print_file(path, guest, seconds, json);
	braid_record_options_free(&o);
	close(o.fd);
	return err;
}

int braid_cmd_clock(int argc, char **argv)
{
	struct arguments a = { .seconds = LIVE_SECONDS };
	int err = braid_options_parse(&braid_command_clock, &a, argc, argv);

	if (err)
		return braid_options_exit(err);
	if (!braid_is_capture(argv[optind])) {
		err = print_guest(argv[optind], a.seconds, a.json);
	} else {
		err = braid_cli_confine_to(NULL, argv + optind, 1);
		if (!err)
			err = print_file(argv[optind], NULL, 0, a.json);
	}
	return err ? braid_complain() : EXIT_SUCCESS;
}
