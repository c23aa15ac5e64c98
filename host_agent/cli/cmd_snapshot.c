// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid snapshot: asks a flight recorder for all that is in the rings now. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/output.h"
#include "host_agent/cli/cli.h"
#include "host_agent/transport/request.h"
#include "host_agent/util/error.h"

#define DEFAULT_FILE	"snapshot.braid"

static const char usage[] =
	"Usage: tracebraid snapshot [OPTION]... [PID]\n"
	"Makes a flight recorder (`tracebraid record --snapshot`) write a capture of everything that\n"
	"the guests' and the host's rings hold now. Tracing continues. A snapshot removes its events\n"
	"from the rings: the next snapshot begins after it.\n"
	"\n"
	"  -o FILE     the capture. Default: " DEFAULT_FILE ", if it does not exist yet\n"
	"  -q          print errors only\n"
	"  --help      this text\n"
	"\n"
	"PID is the recorder's process. Default: this user's only recorder.\n";

static const struct option options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* Asks for it, in a file that was made. */
static int fill(int fd, int out, struct braid_output *output, bool quiet)
{
	const char *file = output->path;
	char line[BRAID_REQUEST_LINE_BYTES];
	char failure[sizeof(line) + 256];
	struct stat st;
	int err, publish_err;

	if (fstat(out, &st) || !S_ISREG(st.st_mode))
		return braid_fail(-EINVAL, "%s: not a regular file; use -o to name a new capture",
				  file);
	err = braid_request_ask(fd, out, file, line);
	/* What was taken before a failure is nowhere else. */
	if (err && !fstat(out, &st) && !st.st_size)
		return err;
	snprintf(failure, sizeof(failure), "%s", braid_failure());
	publish_err = braid_output_publish(output, out);
	if (err)
		return braid_fail(err, "%s", failure);
	err = publish_err;
	if (!err && !quiet)
		fprintf(stderr, "%s\nNext: tracebraid report %s\n", line, file);
	return err;
}

static int ask(const char *file, pid_t pid, bool quiet)
{
	int fd = braid_request_connect(pid), out, err;
	struct braid_output output;

	if (fd < 0)
		return fd;
	out = braid_output_open(&output, file);
	err = out < 0 ? out : fill(fd, out, &output, quiet);
	close(fd);
	if (out < 0)
		return err;
	braid_output_discard(&output, out);
	close(out);
	return err;
}

int braid_cmd_snapshot(int argc, char **argv)
{
	const char *file = NULL;
	bool quiet = false;
	u64 pid = 0;
	int c, err = 0;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "o:qh", options, NULL)) != -1) {
		switch (c) {
		case 'o':
			file = optarg;
			break;
		case 'q':
			quiet = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		default:
			return braid_complain_option("snapshot", argc, argv);
		}
	}
	if (argc - optind > 1)
		err = braid_fail(-EINVAL, "snapshot: expected at most one recorder's PID");
	else if (optind < argc)
		err = braid_parse_u64(argv[optind], INT_MAX, &pid);
	/* What is in it is nowhere else: nobody replaces it by a slip. */
	if (!err && !file && !access(DEFAULT_FILE, F_OK))
		err = braid_fail(-EEXIST, "snapshot: there is a " DEFAULT_FILE " already; -o names another, or that one");
	if (!err)
		err = ask(file ? file : DEFAULT_FILE, pid, quiet);
	return err ? braid_complain() : EXIT_SUCCESS;
}
