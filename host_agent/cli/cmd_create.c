// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid create: creates a region's file for a plain QEMU. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/discover/region_file.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

#define MIB	(1ull << 20)

#define LIST		"/etc/tracebraid/memory"

struct creation {
	struct braid_region_file file;
	const char *list;
};

static int take_owner(const struct braid_option *o, void *to, const char *value)
{
	struct creation *c = to;

	(void)o;
	return braid_owner_parse(value, &c->file.uid, &c->file.gid);
}

static const struct braid_option options[] = {
	BRAID_OPTION_REGION_SIZE(struct creation, file.bytes),
	{ 0, "owner", "USER[:GROUP]", .take = take_owner, .help =
	  "the user that QEMU runs as. Default: the user of this command", .values = "@user" },
	{ 0, "from", "LIST", BRAID_STRING(struct creation, list),
	  "create the files that LIST names, one a line: SIZE USER:GROUP FILE. The service "
	  "tracebraid-memory does this at each start of the host, with " LIST },
	{ 0 },
};

const struct braid_cli_command braid_command_create = {
	.name = "create", .summary = "create the trace memory file for a plain QEMU",
	.run = braid_cmd_create, .usage = "[OPTION]... FILE\n--from LIST",
	.text =
	"Creates the file of the shared memory to which a guest's driver writes the trace, for a "
	"QEMU that is not run by libvirt, and prints the QEMU options for it. The driver accepts "
	"only memory that this command or `tracebraid attach` has marked.",
	.options = options,
	.notes =
	"The file has mode 0600, because whoever can read it can read the trace. A blank file of "
	"this size, owner and mode is marked; a file that a driver has already used is unchanged.\n"
	"/dev/shm is empty after a restart of the host. `systemctl enable tracebraid-memory`, once, and a "
	"line in " LIST " bring a file back before its guest starts.",
	.most = 1, .expected = "one FILE, such as /dev/shm/web1",
};

static void print_next(const struct braid_region_file *file, bool made)
{
	unsigned long long mib = file->bytes / MIB;

	printf("%s: %llu MiB for user %u, %s\n"
	       "QEMU's options: -object memory-backend-file,id=braid,mem-path=%s,size=%lluM,share=on -device ivshmem-plain,memdev=braid\n",
	       file->path, mib, (unsigned int)file->uid, made ? "created" : "ready already",
	       file->path, mib);
}

static int create(const struct braid_region_file *file)
{
	struct stat made;
	int err = braid_region_file_make(file, &made);

	if (!err && !made.st_mode)
		err = braid_region_file_invite(file);
	if (!err)
		print_next(file, made.st_mode);
	return err;
}

static int create_line(const char *line)
{
	char size[32], owner[80], path[256];
	struct braid_region_file file = { .path = path, .mode = 0600 };
	int err;

	if (sscanf(line, "%31s %79s %255[^\n]", size, owner, path) != 3)
		return braid_fail(-EINVAL, "\"%s\" is not SIZE USER:GROUP FILE", line);
	err = braid_parse_region_size(size, &file.bytes);
	if (!err)
		err = braid_owner_parse(owner, &file.uid, &file.gid);
	return err ? err : create(&file);
}

/* A file that can't be made does not keep the others from it. Return: the exit code. */
static int create_all(const char *list)
{
	braid_auto_file FILE *f = fopen(list, "re");
	char line[400], why[400];
	int ret = EXIT_SUCCESS;
	u32 nr = 0;

	if (!f) {
		braid_fail(-errno, "%s: %s", list, strerror(errno));
		return braid_complain();
	}
	while (fgets(line, sizeof(line), f)) {
		nr++;
		line[strcspn(line, "\n")] = 0;
		if (!*line || *line == '#' || !create_line(line))
			continue;
		snprintf(why, sizeof(why), "%s", braid_failure());
		braid_fail(-EINVAL, "%s: line %u: %s", list, nr, why);
		ret = braid_complain();
	}
	return ret;
}

int braid_cmd_create(int argc, char **argv)
{
	struct creation c = { .file = {
		.bytes = BRAID_USUAL_REGION_BYTES, .uid = geteuid(), .gid = getegid(), .mode = 0600,
	} };
	int err = braid_options_parse(&braid_command_create, &c, argc, argv);

	if (err)
		return braid_options_exit(err);
	if (!c.list == (optind == argc)) {
		braid_fail(-EINVAL, "create takes one FILE, such as /dev/shm/web1, or --from LIST");
		return braid_complain();
	}
	if (c.list)
		return create_all(c.list);
	c.file.path = argv[optind];
	return create(&c.file) ? braid_complain() : EXIT_SUCCESS;
}
