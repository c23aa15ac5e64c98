// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid: braids the traces of guests and their host into one timeline. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

static const struct braid_cli_command commands[] = {
	{ "attach", "add trace memory to a running libvirt domain", braid_cmd_attach },
	{ "clock", "show how a guest's times are converted to host times, and their error bounds", braid_cmd_clock },
	{ "create", "create the trace memory file for a plain QEMU", braid_cmd_create },
	{ "detach", "remove a domain's trace memory", braid_cmd_detach },
	{ "export", "write captures in a format that other tools open", braid_cmd_export },
	{ "list", "list guests and their regions", braid_cmd_list },
	{ "merge", "report or export captures together with a trace.dat of their host", braid_cmd_merge },
	{ "record", "record guests and their host into a capture", braid_cmd_record },
	{ "recover", "make a capture from a dead guest's memory", braid_cmd_recover },
	{ "report", "print captures as one timeline", braid_cmd_report },
	{ "snapshot", "make a flight recorder write a capture", braid_cmd_snapshot },
	{ "stat", "print the accounting of a capture or a region", braid_cmd_stat },
	{ "top", "live view of guests' event rates, losses and CPU time", braid_cmd_top },
	{ "verify", "check a capture or a region for faults", braid_cmd_verify },
};

#define NR_COMMANDS	(sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *to)
{
	size_t k;

	fputs("Usage: tracebraid COMMAND [OPTION]...\n\n", to);
	for (k = 0; k < NR_COMMANDS; k++)
		fprintf(to, "  %-8s %s\n", commands[k].name, commands[k].help);
	fputs("\n'tracebraid COMMAND --help' explains a command; 'tracebraid --version' prints the version.\n",
	      to);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Insertions, deletions and exchanges that make a of b; long words are cut. */
static size_t distance(const char *a, const char *b)
{
	size_t row[32], i, j, corner, up;
	size_t na = least(strlen(a), 31), nb = least(strlen(b), 31);

	for (j = 0; j <= nb; j++)
		row[j] = j;
	for (i = 1; i <= na; i++) {
		corner = row[0];
		row[0] = i;
		for (j = 1; j <= nb; j++) {
			up = row[j];
			row[j] = least(least(row[j] + 1, row[j - 1] + 1),
				       corner + (a[i - 1] != b[j - 1]));
			corner = up;
		}
	}
	return row[nb];
}

static int unknown_command(const char *word)
{
	const char *nearest = NULL;
	size_t k, d, best = 3;
	char tame[64];

	snprintf(tame, sizeof(tame), "%s", word);
	braid_text_clean(tame);
	for (k = 0; k < NR_COMMANDS; k++) {
		d = strncmp(commands[k].name, word, strlen(word)) ?
			distance(word, commands[k].name) : 1;
		if (d < best) {
			best = d;
			nearest = commands[k].name;
		}
	}
	if (nearest)
		fprintf(stderr, "tracebraid: unknown command '%s'; did you mean '%s'?\n",
			tame, nearest);
	else
		fprintf(stderr,
			"tracebraid: unknown command '%s'; 'tracebraid --help' lists all\n",
			tame);
	return EXIT_FAILURE;
}

/*
 * A descriptor from 0 to 2 that is closed would be given to the next file opened, a
 * guest's region perhaps, and what is printed would land there. Writing to these fails.
 */
static int occupy_standard_descriptors(void)
{
	int fd;

	for (fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
			return -1;
	return 0;
}

/* A reader that has seen enough, like head, is no error; a full disk is. */
static int flushed(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	if (errno == EPIPE || status)
		return status;
	braid_fail(-errno, "cannot write to standard output: %s", strerror(errno));
	return braid_complain();
}

int main(int argc, char **argv)
{
	size_t k;

	if (occupy_standard_descriptors())
		return EXIT_FAILURE;
	signal(SIGPIPE, SIG_IGN);
	braid_cli_ascii();
	if (argc < 2) {
		print_help(stderr);
		return EXIT_FAILURE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return flushed(EXIT_SUCCESS);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("tracebraid " BRAID_AGENT_VERSION);
		return flushed(EXIT_SUCCESS);
	}
	for (k = 0; k < NR_COMMANDS; k++)
		if (!strcmp(argv[1], commands[k].name))
			return flushed(commands[k].run(argc - 1, argv + 1));
	return unknown_command(argv[1]);
}
