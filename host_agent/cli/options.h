/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A command's table: from it come the parsing of its options, --help, and what --describe prints,
 * of which completion (tracebraid.bash) and the man pages (docs/man/generate.awk) are made.
 */
#ifndef BRAID_CLI_OPTIONS_H
#define BRAID_CLI_OPTIONS_H

#include <getopt.h>	/* optind */

#include "host_agent/util/option.h"

braid_option_take braid_take_duration;	/* seconds, a double */
braid_option_take braid_take_region_size;	/* a u64: bytes */

#define BRAID_DURATION(type, member)	BRAID_TAKE(braid_take_duration, double, type, member)

/* Options of several commands. */
#define BRAID_OPTION_CONNECT(type, member, more) \
	{ 'c', "connect", "URI", BRAID_STRING(type, member), \
	  "libvirt's URI; default: $LIBVIRT_DEFAULT_URI or qemu:///system" more, \
	  .values = "qemu:///system qemu:///session" }
#define BRAID_OPTION_REGION_SIZE(type, member) \
	{ 's', "size", "SIZE", BRAID_TAKE(braid_take_region_size, u64, type, member), \
	  "size of the memory, a power of two: 16M, 1G. Default: 16M" }
#define BRAID_OPTION_QUIET(type, member) \
	{ 'q', "quiet", NULL, BRAID_FLAG(type, member), "print errors only" }

#define BRAID_ANY_NUMBER	(~0u)

struct braid_cli_command {
	const char *name;
	const char *summary;		/* one line */
	int (*run)(int argc, char **argv);	/* argv[0] is the name; returns the exit code */
	const char *usage;		/* what follows the name; a line for each form */
	const char *text;		/* paragraphs, a line each, as is ->notes */
	/* The last one has no name. One with ->of is the library's: its text is there. */
	const struct braid_option *options;
	const struct braid_option *common;	/* likewise: shown after them; or NULL */
	const char *notes;		/* NULL: none */
	const char *status;		/* what it exits with; NULL: 0 and 1 */
	unsigned int least, most;	/* number of operands ... */
	const char *expected;		/* ... and which they are; NULL: the command checks them */
	const char *operands;		/* as ->values of an option */
	bool stops;			/* no option follows the first operand */
	/* A form of its output and what that is; NULL: no more. Itself NULL: it has none. */
	const char *(*form)(size_t k, const char **help);
	const char *forms;		/* what they are called, if not "Forms" */
};

/**
 * braid_option_by_number - an option of a command, with all that the library says of it
 * @c: the command
 * @number: from 0; --help is the last one, which nothing takes
 * @o: filled
 *
 * Return: false: there are fewer.
 */
bool braid_option_by_number(const struct braid_cli_command *c, size_t number,
			    struct braid_option *o);

/**
 * braid_options_parse - take a command's options, and check the number of its operands
 * @c: the command
 * @state: the options' destinations are in it
 * @argc: as for the command; operands begin at optind after it
 * @argv: likewise
 *
 * Return: 0, 1 when --help was printed, or -errno with braid_fail().
 */
int braid_options_parse(const struct braid_cli_command *c, void *state, int argc, char **argv);

/**
 * braid_print_wrapped - print words of a line on lines of 80 columns
 * @text: up to a line's end
 * @at: the column where it begins
 * @indent: the column where further lines begin
 *
 * Return: where the next line of @text begins.
 */
const char *braid_print_wrapped(const char *text, int at, int indent);

/**
 * braid_options_exit - end a command whose options were not taken
 * @ret: of braid_options_parse(), not 0; an error is printed
 *
 * Return: the exit code.
 */
int braid_options_exit(int ret);

/**
 * braid_options_describe - print a command's table, for programs
 *
 * A line for each entry; its columns are separated by tabs.
 */
void braid_options_describe(const struct braid_cli_command *c);

#endif /* BRAID_CLI_OPTIONS_H */
