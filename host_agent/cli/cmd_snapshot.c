// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid snapshot: requests a snapshot of all rings from a flight recorder. */
#include <errno.h>
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

struct arguments {
	const char *file;
	bool quiet;
};

static const struct braid_option options[] = {
	{ 'o', "output", "FILE", BRAID_STRING(struct arguments, file),
	  "the capture. Default: " DEFAULT_FILE ", if it does not exist yet" },
	BRAID_OPTION_QUIET(struct arguments, quiet),
	{ 0 },
};

const struct braid_cli_command braid_command_snapshot = {
	.name = "snapshot", .summary = "make a flight recorder write a capture",
	.run = braid_cmd_snapshot, .usage = "[OPTION]... [PID]",
	.text =
	"Makes a flight recorder (`tracebraid record --snapshot`) write a capture of everything "
	"that the guests' and the host's rings hold now. Tracing continues. A snapshot removes its "
	"events from the rings: the next snapshot begins after it.",
	.options = options,
	.notes = "PID is the recorder's process. Default: this user's only recorder.",
	.most = 1, .expected = "at most one recorder's PID",
};

/* Requests it, with a newly created file. */
static int cmd_snapshot_fill(int fd, int out, struct braid_output *output, bool quiet)
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
	/* Events read before a failure exist nowhere else. */
	if (err && !fstat(out, &st) && !st.st_size)
		return err;
	snprintf(failure, sizeof(failure), "%s", braid_failure());
	publish_err = braid_output_publish(output);
	if (err)
		return braid_fail(err, "%s", failure);
	err = publish_err;
	if (!err && !quiet)
		fprintf(stderr, "%s\nNext: tracebraid report %s\n", line, braid_cli_quoted(file));
	return err;
}

static int ask(const char *file, pid_t pid, bool quiet)
{
	int fd = braid_request_connect(pid), out, err;
	struct braid_output output;

	if (fd < 0)
		return fd;
	out = braid_output_open(&output, file);
	err = out < 0 ? out : cmd_snapshot_fill(fd, out, &output, quiet);
	close(fd);
	if (out < 0)
		return err;
	braid_output_discard(&output);
	close(out);
	return err;
}

int braid_cmd_snapshot(int argc, char **argv)
{
	struct arguments a = { 0 };
	int err = braid_options_parse(&braid_command_snapshot, &a, argc, argv);
	u64 pid = 0;

	if (err)
		return braid_options_exit(err);
	if (optind < argc)
		err = braid_parse_u64(argv[optind], INT_MAX, &pid);
	/* Its content exists nowhere else: avoid an accidental overwrite. */
	if (!err && !a.file && !access(DEFAULT_FILE, F_OK))
		err = braid_fail(-EEXIST, "snapshot: " DEFAULT_FILE " exists; use -o FILE to choose another name or to overwrite it");
	if (!err)
		err = ask(a.file ? a.file : DEFAULT_FILE, pid, a.quiet);
	return err ? braid_complain() : EXIT_SUCCESS;
}
