// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid serve: the service, by its configuration. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/serve/service.h"
#include "host_agent/transport/request.h"
#include "host_agent/util/error.h"

struct serve_command {
	const char *file;
	bool check;
};

static const struct braid_option options[] = {
	{ 'c', "config", "FILE", BRAID_STRING(struct serve_command, file),
	  "the configuration. Default: " BRAID_CONF_FILE },
	{ 0, "check", NULL, BRAID_FLAG(struct serve_command, check),
	  "read the configuration, and say whether it is valid" },
	{ 0 },
};

const struct braid_cli_command braid_command_serve = {
	.name = "serve", .summary = "watch all guests as a service, with metrics and snapshots",
	.run = braid_cmd_serve, .usage = "[OPTION]...",
	.text =
	"Records the host and its guests into a window in memory, sums up what their vCPUs did and who took "
	"their CPUs, serves that to Prometheus, and takes snapshots when conditions begin to hold. "
	"tracebraid.service runs it. It is configured by " BRAID_CONF_FILE ", in which each setting is "
	"explained (tracebraid.conf(5)); SIGHUP has it read again.",
	.options = options,
};

int braid_serve_confine(void)
{
	return braid_cli_confine(BRAID_CONFINE_SERVE, NULL);
}

static int serve_confine_fleet(void)
{
	return braid_cli_confine_fleet(NULL);
}

void braid_serve_say(const char *line)
{
	fprintf(stderr, "tracebraid: %s\n", braid_cli_clean(line));
}

int braid_serve_program(char *path)
{
	return realpath("/proc/self/exe", path) ? 0 :
	       braid_fail(-errno, "/proc/self/exe: %s", strerror(errno));
}

int braid_serve_directory(char *path, size_t bytes, const char *name, bool own)
{
	const char *manager = getenv("RUNTIME_DIRECTORY"), *user = getenv("XDG_RUNTIME_DIR");
	char parent[PATH_MAX], process[16] = "";
	int n;

	if (own)
		snprintf(process, sizeof(process), "-%d", (int)getpid());
	if (manager && *manager == '/' && !own)
		snprintf(parent, sizeof(parent), "%s", manager);
	else if (!geteuid())
		snprintf(parent, sizeof(parent), "%s", BRAID_ROOTS_FOLDER);
	else if (user && *user == '/')
		snprintf(parent, sizeof(parent), "%s/tracebraid", user);
	else
		return braid_fail(-ENOENT, "no directory for the recording: run as root, or set XDG_RUNTIME_DIR");
	if (mkdir(parent, 0700) && errno != EEXIST)
		return braid_fail(-errno, "%s: cannot be created: %s", parent, strerror(errno));
	n = snprintf(path, bytes, "%s/%s%s", parent, name, process);
	return n < (int)bytes ? 0 : braid_fail(-ENAMETOOLONG, "%s: the name is too long", parent);
}

int braid_cmd_serve(int argc, char **argv)
{
	struct serve_command c = { .file = BRAID_CONF_FILE };
	int err = braid_options_parse(&braid_command_serve, &c, argc, argv);
	char directory[128], program[PATH_MAX];
	static struct braid_conf conf;
	struct braid_service_options o = {
		.path = c.file, .conf = &conf, .directory = directory, .program = program,
		.check = braid_cli_check_chosen,
		.confine = braid_serve_confine, .confine_fleet = serve_confine_fleet,
		.confine_stream = braid_cli_confine_fleet, .say = braid_serve_say,
	};

	if (err)
		return braid_options_exit(err);
	o.path = c.file;
	err = braid_conf_read(&conf, c.file);
	if (err)
		return braid_complain();
	err = braid_cli_check_chosen(&conf, c.file);
	if (err) {
		braid_rules_clear(&conf.rules);
		return braid_complain();
	}
	if (c.check) {
		printf("%s: valid; %zu condition%s, %zu address%s\n", c.file, conf.rules.nr,
		       conf.rules.nr == 1 ? "" : "s", conf.nr_listens,
		       conf.nr_listens == 1 ? "" : "es");
	} else {
		err = braid_serve_directory(directory, sizeof(directory), "window", false);
		if (!err)
			err = braid_serve_program(program);
		if (!err)
			err = braid_service_run(&o);
	}
	braid_rules_clear(&conf.rules);
	return err ? braid_complain() : EXIT_SUCCESS;
}
