// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid: braids the traces of guests and their host into one timeline. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

static const struct braid_cli_command *const commands[] = {
	&braid_command_analyze, &braid_command_attach, &braid_command_clock, &braid_command_create,
	&braid_command_detach, &braid_command_export, &braid_command_fleet, &braid_command_list,
	&braid_command_merge, &braid_command_pack, &braid_command_record, &braid_command_recover,
	&braid_command_report, &braid_command_serve, &braid_command_snapshot, &braid_command_sql,
	&braid_command_stat,
	&braid_command_top, &braid_command_unpack, &braid_command_verify, &braid_command_watch,
};

#define NR_COMMANDS	(sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *to)
{
	size_t k;

	fputs("Usage: tracebraid COMMAND [OPTION]...\n\n", to);
	for (k = 0; k < NR_COMMANDS; k++)
		fprintf(to, "  %-8s  %s\n", commands[k]->name, commands[k]->summary);
	fputs("\n'tracebraid help COMMAND' explains a command; 'tracebraid --version' prints the\nversion.\n",
	      to);
}

static const struct braid_cli_command *command_called(const char *word)
{
	size_t k;

	for (k = 0; k < NR_COMMANDS; k++)
		if (!strcmp(word, commands[k]->name))
			return commands[k];
	return NULL;
}

static int unknown_command(const char *word)
{
	struct braid_text_near near = { .word = word };
	size_t k;

	for (k = 0; k < NR_COMMANDS; k++)
		braid_text_nearer(&near, commands[k]->name);
	if (near.nearest)
		braid_fail(-EINVAL, "unknown command '%.63s'; did you mean '%s'?", word,
			   near.nearest);
	else
		braid_fail(-EINVAL, "unknown command '%.63s'; 'tracebraid --help' lists all", word);
	return braid_complain();
}

/* For programs, such as completion: the commands, or the table of one. */
static int main_describe(const char *name)
{
	size_t k;

	for (k = 0; k < NR_COMMANDS; k++)
		if (!name)
			printf("command\t%s\t%s\n", commands[k]->name, commands[k]->summary);
		else if (!strcmp(name, commands[k]->name))
			braid_options_describe(commands[k]);
	return EXIT_SUCCESS;
}

/*
 * A descriptor from 0 to 2 that is closed would be given to the next file opened, a
 * guest's region, for instance, and output would be written there. Writing to these fails.
 */
static int occupy_standard_descriptors(void)
{
	int fd;

	for (fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	const struct braid_cli_command *command;
	char *help[] = { NULL, "--help", NULL };

	if (occupy_standard_descriptors())
		return EXIT_FAILURE;
	signal(SIGPIPE, SIG_IGN);
	braid_cli_ascii();
	if (argc < 2) {
		print_help(stderr);
		return EXIT_FAILURE;
	}
	if (!strcmp(argv[1], "help") && argc > 2) {
		command = command_called(argv[2]);
		help[0] = argv[2];
		return command ? braid_cli_run(command, 2, help) : unknown_command(argv[2]);
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return braid_cli_flushed(EXIT_SUCCESS);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("tracebraid " BRAID_VERSION);
		return braid_cli_flushed(EXIT_SUCCESS);
	}
	if (!strcmp(argv[1], "--describe"))
		return braid_cli_flushed(main_describe(argv[2]));
	command = command_called(argv[1]);
	return command ? braid_cli_run(command, argc - 1, argv + 1) : unknown_command(argv[1]);
}
