// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid create: creates a region's file for a plain QEMU. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/discover/region_file.h"
#include "host_agent/util/error.h"

#define MIB	(1ull << 20)

static int take_owner(const struct braid_option *o, void *to, const char *value)
{
	struct braid_region_file *file = to;

	(void)o;
	return braid_owner_parse(value, &file->uid, &file->gid);
}

static const struct braid_option options[] = {
	BRAID_OPTION_REGION_SIZE(struct braid_region_file, bytes),
	{ 0, "owner", "USER[:GROUP]", .take = take_owner, .help =
	  "the user that QEMU runs as. Default: the user of this command", .values = "@user" },
	{ 0 },
};

const struct braid_cli_command braid_command_create = {
	.name = "create", .summary = "create the trace memory file for a plain QEMU",
	.run = braid_cmd_create, .usage = "[OPTION]... FILE",
	.text =
	"Creates the file of the shared memory to which a guest's driver writes the trace, for a "
	"QEMU that is not run by libvirt, and prints the QEMU options for it. The driver accepts "
	"only memory that this command or `tracebraid attach` has marked.",
	.options = options,
	.notes =
	"The file has mode 0600, because whoever can read it can read the trace. A blank file of "
	"this size, owner and mode is marked; a file that a driver has already used is unchanged.",
	.least = 1, .most = 1, .expected = "one FILE, such as /dev/shm/web1",
};

static void print_next(const struct braid_region_file *file, bool made)
{
	unsigned long long mib = file->bytes / MIB;

	printf("%s: %llu MiB for user %u, %s\n"
	       "QEMU's options: -object memory-backend-file,id=braid,mem-path=%s,size=%lluM,share=on -device ivshmem-plain,memdev=braid\n",
	       file->path, mib, (unsigned int)file->uid, made ? "created" : "ready already",
	       file->path, mib);
}

int braid_cmd_create(int argc, char **argv)
{
	struct braid_region_file file = {
		.bytes = BRAID_USUAL_REGION_BYTES, .uid = geteuid(), .gid = getegid(), .mode = 0600,
	};
	int err = braid_options_parse(&braid_command_create, &file, argc, argv);
	bool made = false;

	if (err)
		return braid_options_exit(err);
	file.path = argv[optind];
	err = braid_region_file_make(&file, &made);
	if (!err && !made)
		err = braid_region_file_invite(&file);
	if (err)
		return braid_complain();
	print_next(&file, made);
	return EXIT_SUCCESS;
}
