// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid clock: how a guest's times become host times. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/record.h"
#include "host_agent/util/error.h"

#define LIVE_SECONDS	2.0

static const char usage[] =
	"Usage: tracebraid clock [OPTION]... GUEST|FILE\n"
	"Shows how a guest's times are converted to host times: from which source and why, how\n"
	"exactly, and since when. FILE is a capture; GUEST is a running guest as `tracebraid list`\n"
	"shows it: its name or its region's file. A running guest's clock is measured briefly; no\n"
	"event is enabled or consumed.\n"
	"\n"
	"      --json          one JSON object\n"
	"  -t SECONDS          how long to measure a running guest. Default: 2\n"
	"      --help          this text\n";

static bool has_guest(const struct braid_source *source)
{
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if (source->streams[k]->kind == BRAID_STREAM_GUEST)
			return true;
	return false;
}

/* @guest: whom the file is of, which must be in it; NULL: whoever is. */
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

/* A running guest: a recording of nothing but its clock, read like any other. */
static int print_guest(const char *guest, double seconds, bool json)
{
	struct braid_recording r = {
		.signal_fd = -1, .child = { .pidfd = -1, .go_fd = -1, .failure_fd = -1 },
		.domains.watch.fd = -1, .flight.requests = { .fd = -1, .listener.fd = -1 },
		.live = { .memory_fd = -1, .pidfd = -1, .marks_fd = -1 },
		.quiet = true, .clock_only = true, .seconds = seconds,
	};
	char dir[] = "/tmp/tracebraid-clock.XXXXXX", path[sizeof(dir) + 8];
	int err;

	if (!mkdtemp(dir))
		return braid_fail(-errno, "cannot make a directory in /tmp: %s", strerror(errno));
	snprintf(path, sizeof(path), "%s/c.braid", dir);
	r.file = path;
	err = braid_record_add_guest(&r, guest);
	if (!err)
		err = braid_record_whole(&r);
	if (!err)
		err = print_file(path, guest, seconds, json);
	unlink(path);
	rmdir(dir);
	return err;
}

int braid_cmd_clock(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "time", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	double seconds = LIVE_SECONDS;
	bool json = false;
	int option, err;
	char *end;

	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "jt:h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (option == '?')
			return braid_complain_option("clock", argc, argv);
		if (option == 'j')
			json = true;
		else
			seconds = strtod(optarg, &end);
		if (option == 't' && (end == optarg || *end || !(seconds > 0 && seconds < 1e9))) {
			braid_fail(-EINVAL, "-t %s: not a number of seconds", optarg);
			return braid_complain();
		}
	}
	if (optind + 1 != argc) {
		braid_fail(-EINVAL, "clock: expected one guest or capture: 'tracebraid clock GUEST'");
		return braid_complain();
	}
	if (!braid_is_capture(argv[optind])) {
		err = print_guest(argv[optind], seconds, json);
	} else {
		err = braid_cli_confine_to(BRAID_CONFINE_FILES, argv + optind, 1);
		if (!err)
			err = print_file(argv[optind], NULL, 0, json);
	}
	return err ? braid_complain() : EXIT_SUCCESS;
}
