// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid create: creates a region's file for a plain QEMU. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/discover/region_file.h"
#include "host_agent/util/error.h"

#define MIB	(1ull << 20)

static const char usage[] =
	"Usage: tracebraid create [OPTION]... FILE\n"
	"Creates the file of the shared memory to which a guest's driver writes the trace, for a\n"
	"QEMU that is not run by libvirt, and prints the QEMU options for it. The driver accepts\n"
	"only memory that this command or `tracebraid attach` has marked.\n"
	"\n"
	"  -s, --size SIZE     size of the memory, a power of two: 16M, 1G. Default: 16M\n"
	"      --owner USER[:GROUP]\n"
	"                      the user that QEMU runs as. Default: the user of this command\n"
	"      --help          this text\n"
	"\n"
	"The file has mode 0600, because whoever can read it can read the trace. A blank file of\n"
	"this size, owner and mode is marked; a file that a driver has already used is unchanged.\n";

enum { OPT_OWNER = 256 };

static const struct option options[] = {
	{ "size", required_argument, NULL, 's' },
	{ "owner", required_argument, NULL, OPT_OWNER },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* 0, 1 when help was printed, -ENOEXEC, or -errno with braid_fail(). */
static int parse(struct braid_region_file *file, int argc, char **argv)
{
	int c, err = 0;

	optind = 0;
	opterr = 0;
	while (!err && (c = getopt_long(argc, argv, "s:h", options, NULL)) != -1) {
		switch (c) {
		case 's':
			err = braid_parse_region_size(optarg, &file->bytes);
			break;
		case OPT_OWNER:
			err = braid_owner_parse(optarg, &file->uid, &file->gid);
			break;
		default:
			return braid_other_option(c, usage);
		}
	}
	if (!err && optind + 1 != argc)
		return braid_fail(-EINVAL, "create: expected one FILE, such as /dev/shm/web1");
	file->path = argv[optind];
	return err;
}

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
	int err = parse(&file, argc, argv);
	bool made = false;

	if (err > 0)
		return EXIT_SUCCESS;
	if (err == -ENOEXEC)
		return braid_complain_option("create", argc, argv);
	if (!err)
		err = braid_region_file_make(&file, &made);
	if (!err && !made)
		err = braid_region_file_invite(&file);
	if (err)
		return braid_complain();
	print_next(&file, made);
	return EXIT_SUCCESS;
}
