// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid pack, unpack: captures for keeping. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/output.h"
#include "host_agent/capture/pack.h"
#include "host_agent/capture/packer.h"
#include "host_agent/cli/trace_options.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/input.h"

#define MOST_LEVEL	19

struct pack {
	struct braid_trace_options trace;	/* of which it uses progress */
	const char *out;
	u64 level;
};

#define PACK	struct pack

static const struct braid_option pack_options[] = {
	{ 'o', "output", "OUT", BRAID_STRING(PACK, out), "the output file" },
	{ 'l', "level", "LEVEL", BRAID_COUNT(PACK, level),
	  "zstd level, 1 to 19 (default 3); higher levels are slower and save little",
	  .least = 1, .most = MOST_LEVEL },
	{ 0 },
};

static const struct braid_option unpack_options[] = {
	{ 'o', "output", "OUT", BRAID_STRING(PACK, out), "the output file" },
	{ 0 },
};

const struct braid_cli_command braid_command_pack = {
	.name = "pack", .summary = "compress a capture; all commands read it directly",
	.run = braid_cmd_pack, .usage = "[-l LEVEL] FILE -o OUT",
	.text =
	"Writes a compressed copy of the capture FILE. All commands that read captures read it "
	"directly, and `tracebraid unpack` restores it byte for byte. Both sizes and their ratio are "
	"printed on standard error.",
	.options = pack_options, .least = 1, .most = 1,
	.expected = "one capture and -o OUT: 'tracebraid pack x.braid -o x.packed.braid'",
};

const struct braid_cli_command braid_command_unpack = {
	.name = "unpack", .summary = "decompress a capture that 'tracebraid pack' made",
	.run = braid_cmd_unpack, .usage = "FILE -o OUT",
	.text =
	"Writes the capture that the packed FILE contains. Only programs that do not know packed "
	"captures need it: all commands read FILE directly. A damaged FILE is refused; `tracebraid "
	"report` reads its intact segments.",
	.options = unpack_options, .least = 1, .most = 1,
	.expected = "one packed capture and -o OUT: 'tracebraid unpack x.packed.braid -o x.braid'",
};

typedef int convert(int to, int from, const char *path, struct braid_pack_run *run);

static int cmd_pack_check(const struct pack *p, const char *name, const char *path, int from)
{
	struct stat in, out;

	if (from < 0)
		return braid_fail(from, "cannot open '%s': %s", path, strerror(-from));
	if (fstat(from, &in))
		return braid_fail(-errno, "cannot read '%s': %s", path, strerror(errno));
	if (!S_ISREG(in.st_mode))
		return braid_fail(-EINVAL, "'%s' is not a regular file, so not a capture", path);
	if (!stat(p->out, &out) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
		return braid_fail(-EINVAL, "%s: -o %s is the input; name another file", name, p->out);
	return 0;
}

static int cmd_pack_make(struct pack *p, convert *to_do, int from, const char *path,
			 struct braid_pack_run *run)
{
	struct braid_output output;
	braid_auto_fd int to = braid_output_open(&output, p->out);
	int err;

	if (to < 0)
		return to;
	err = to_do(to, from, path, run);
	braid_progress_end(&p->trace.progress);
	if (!err && fsync(to) && errno != EINVAL && errno != EROFS)
		err = braid_fail(-errno, "cannot write '%s': %s", p->out, strerror(errno));
	if (!err)
		err = braid_output_publish(&output);
	if (err)
		braid_output_discard(&output);
	return err;
}

static int run(const struct braid_cli_command *c, convert *to_do, int argc, char **argv)
{
	struct pack p = { .level = BRAID_PACKER_LEVEL };
	struct braid_pack_run result = { 0 };
	int err = braid_options_parse(c, &p, argc, argv);
	char **paths = argv + optind;

	if (!err && !p.out)
		err = braid_fail(-EINVAL, "%s: expected -o OUT", c->name);
	if (!err)
		err = braid_cli_confine_to(p.out, paths, 1);
	if (!err) {
		braid_auto_fd int from = braid_input_open(paths[0]);

		braid_progress_begin(&p.trace.progress);
		result = (struct braid_pack_run){
			.level = p.level, .progress = braid_progress_show,
			.progress_arg = &p.trace.progress, .stop = braid_trace_stoppable(),
		};
		err = cmd_pack_check(&p, c->name, paths[0], from);
		if (!err)
			err = cmd_pack_make(&p, to_do, from, paths[0], &result);
	}
	if (!err)
		fprintf(stderr, "tracebraid: %.1f MB into %.1f MB: %.2f times %s\n",
			result.read_bytes / 1e6, result.written_bytes / 1e6,
			result.written_bytes < result.read_bytes ?
			(double)result.read_bytes / result.written_bytes :
			(double)result.written_bytes / result.read_bytes,
			result.written_bytes < result.read_bytes ? "smaller" : "larger");
	return braid_trace_exit(&p.trace, err);
}

int braid_cmd_pack(int argc, char **argv)
{
	return run(&braid_command_pack, braid_pack, argc, argv);
}

int braid_cmd_unpack(int argc, char **argv)
{
	return run(&braid_command_unpack, braid_unpack, argc, argv);
}
