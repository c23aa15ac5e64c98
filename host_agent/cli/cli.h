/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands, and what they share. Only this room prints for people. */
#ifndef BRAID_CLI_CLI_H
#define BRAID_CLI_CLI_H

#include <stdbool.h>

#include "host_agent/source/source.h"
#include "host_agent/util/confine.h"

#ifndef BRAID_AGENT_VERSION
#define BRAID_AGENT_VERSION	"0.1.0"
#endif

/* A word after `tracebraid`. */
struct braid_cli_command {
	const char *name;
	const char *help;			/* one line */
	int (*run)(int argc, char **argv);	/* argv[0] is the name; returns the exit code */
};

int braid_cmd_attach(int argc, char **argv);
int braid_cmd_clock(int argc, char **argv);
int braid_cmd_create(int argc, char **argv);
int braid_cmd_detach(int argc, char **argv);
int braid_cmd_export(int argc, char **argv);
int braid_cmd_list(int argc, char **argv);
int braid_cmd_merge(int argc, char **argv);
int braid_cmd_record(int argc, char **argv);
int braid_cmd_recover(int argc, char **argv);
int braid_cmd_report(int argc, char **argv);
int braid_cmd_snapshot(int argc, char **argv);
int braid_cmd_stat(int argc, char **argv);
int braid_cmd_top(int argc, char **argv);
int braid_cmd_verify(int argc, char **argv);

/**
 * braid_stat_region - `stat` of a live region, or of one whose guest is dead
 * @path: no capture
 * @json: machine readable
 * @buffer: only the one of this name; NULL: all
 *
 * Prints on standard output; what is wrong with @path goes to standard error.
 *
 * Return: the exit code.
 */
int braid_stat_region(const char *path, bool json, const char *buffer);

/**
 * braid_clock_print - what is known of a trace's time
 * @source: the trace; its rings are not moved
 * @json: one JSON object
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_clock_print(const struct braid_source *source, bool json);

/** braid_verify_region - `verify` of a region; else as braid_stat_region() */
int braid_verify_region(const char *path);

/**
 * braid_is_capture - is this a capture rather than a region?
 * @path: a file, or "-"; one that is empty, or no ordinary file, counts as a capture, so that
 *	the capture's reader says what is wrong; else its first bytes decide
 */
bool braid_is_capture(const char *path);

#define BRAID_TARGET_CAPTURE	1

/**
 * braid_cli_target - what a command is to look at: a capture or a region
 * @word: a file, or a region as braid_resolve() takes it; a capture goes first
 * @path: set to the region's
 *
 * Return: 0: the region at @path; BRAID_TARGET_CAPTURE: @word; or -errno with braid_fail().
 */
int braid_cli_target(const char *word, char path[256]);

/**
 * braid_complain - print the line of the last failure on standard error
 *
 * Return: 1, to be returned as the exit code.
 */
int braid_complain(void);

/**
 * braid_cli_ascii - have what goes to a terminal converted to ASCII, unless it is of UTF-8
 *
 * By LC_ALL, LC_CTYPE and LANG. Files and pipes always get UTF-8.
 */
void braid_cli_ascii(void);

/**
 * braid_complain_option - complain in getopt's place, and refer to --help
 * @command: its name
 * @argc: the command's ...
 * @argv: ... arguments, as getopt left them when it did not understand one, with opterr at 0
 *
 * Return: 1, to be returned as the exit code.
 */
int braid_complain_option(const char *command, int argc, char *const *argv);

/**
 * braid_other_option - take --help, and every option that a command does not know
 * @option: what getopt_long() returned: 'h' for --help
 * @usage: the command's help text, printed on standard output for --help
 *
 * Return: 1 when the help was printed, -ENOEXEC for an unknown option.
 */
int braid_other_option(int option, const char *usage);

/**
 * braid_cli_confine - braid_confine(), before the first byte of a guest is read
 * @what: is left to do
 * @children: the processes that may still be killed, each 0 or its id; NULL: none
 *
 * Does nothing in a build with a sanitizer: their runtimes fork, and trace their own threads.
 * For BRAID_CONFINE_LOOK and _RECORD it starts braid_peek_start()'s process first.
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_cli_confine(enum braid_confine what, const pid_t children[BRAID_CONFINE_CHILDREN]);

/** braid_cli_confines - whether this build does: one without a sanitizer */
bool braid_cli_confines(void);

/**
 * braid_cli_input - make standard input a file if it is among the captures, as "-"
 * @paths: the captures
 * @nr: of them
 *
 * What comes from a pipe is kept in memory, up to 1 GiB. Called before braid_cli_confine().
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_cli_input(char *const *paths, size_t nr);

/**
 * braid_cli_confine_to - braid_cli_confine(), once the files that are read are open
 * @what: BRAID_CONFINE_FILES or BRAID_CONFINE_CONVERT
 * @paths: of them
 * @nr: their number
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_cli_confine_to(enum braid_confine what, char *const *paths, size_t nr);

/**
 * braid_cli_confine_for - confine a command that reads one capture or one region
 * @word: the argument that says which, as braid_cli_target() takes it
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_cli_confine_for(char *const *word);

/**
 * braid_cli_capture_head - what a capture that begins now says of its host
 * @head: filled
 */
void braid_cli_capture_head(struct braid_chunk_file *head);

/**
 * braid_parse_u64 - read a decimal number that an option was given
 * @text: all of it must be digits
 * @max: the largest allowed
 * @value: set on success
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_parse_u64(const char *text, u64 max, u64 *value);

#define BRAID_USUAL_REGION_BYTES	(16ull << 20)

/**
 * braid_parse_region_size - read the size of a region's memory
 * @text: of an option; 16 is 16M
 * @bytes: set on success
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_parse_region_size(const char *text, u64 *bytes);

/**
 * braid_human - a number for those who watch it: 950, 12.3k, 4.5M
 * @to: room for @bytes
 *
 * Return: @to.
 */
const char *braid_human(char *to, size_t bytes, double value);

/* A percentage on standard error, when that is a terminal and it takes a while. */
struct braid_progress {
	u64 begin_ns;
	u64 shown_ns;
	bool terminal;
	bool shown;
};

/** braid_progress_begin - start to measure */
void braid_progress_begin(struct braid_progress *p);

/** braid_progress_show - the callback for sources and exports; @arg: the progress */
void braid_progress_show(void *arg, const char *what, u64 done, u64 total);

/** braid_progress_end - wipe the line, if there is one */
void braid_progress_end(struct braid_progress *p);

#endif /* BRAID_CLI_CLI_H */
