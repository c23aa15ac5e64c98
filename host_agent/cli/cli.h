/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The commands, and their common parts. Only this room prints for people.
 *
 * Invariants:
 * - A process runs one command, which may keep state in static variables. braid_cmd_*() returns the exit code.
 * - Other rooms report failures by braid_fail(), and progress and messages by callbacks that this room gives them.
 * - Standard output has the command's result alone, which may be a capture; messages and progress go to standard
 *   error.
 * - braid_complain() sanitizes the line that it prints, because paths and guests' bytes may be in it.
 * - A command confines itself before it reads a guest or a capture; until then it reads at most the first bytes of a
 *   file, to learn what it is. What needs other processes, libvirt or privileges is done before.
 * - Regions are mapped read-only or privately here; only record/ drains shared ones, and sends commands.
 */
#ifndef BRAID_CLI_CLI_H
#define BRAID_CLI_CLI_H

#include <stdbool.h>

#include "host_agent/cli/options.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/confine.h"
#include "shared/version.h"

struct braid_conf;
struct braid_record_options;
struct braid_record_result;

#define BRAID_EXIT_LACKS	3	/* a capture was made, but not of all that was requested */

int braid_cmd_analyze(int argc, char **argv);
int braid_cmd_attach(int argc, char **argv);
int braid_cmd_clock(int argc, char **argv);
int braid_cmd_create(int argc, char **argv);
int braid_cmd_detach(int argc, char **argv);
int braid_cmd_export(int argc, char **argv);
int braid_cmd_fleet(int argc, char **argv);
int braid_cmd_list(int argc, char **argv);
int braid_cmd_merge(int argc, char **argv);
int braid_cmd_pack(int argc, char **argv);
int braid_cmd_record(int argc, char **argv);
int braid_cmd_recover(int argc, char **argv);
int braid_cmd_report(int argc, char **argv);
int braid_cmd_serve(int argc, char **argv);
int braid_cmd_snapshot(int argc, char **argv);
int braid_cmd_sql(int argc, char **argv);
int braid_cmd_stat(int argc, char **argv);
int braid_cmd_top(int argc, char **argv);
int braid_cmd_unpack(int argc, char **argv);
int braid_cmd_verify(int argc, char **argv);
int braid_cmd_watch(int argc, char **argv);

extern const struct braid_cli_command
	braid_command_analyze, braid_command_attach, braid_command_clock, braid_command_create, braid_command_detach,
	braid_command_export, braid_command_fleet, braid_command_list, braid_command_merge, braid_command_pack, braid_command_record,
	braid_command_recover, braid_command_report, braid_command_serve, braid_command_snapshot,
	braid_command_sql, braid_command_stat, braid_command_top, braid_command_unpack,
	braid_command_verify, braid_command_watch;

/* cmd_serve.c: what `serve` and `watch` have in common; 0 or -errno with braid_fail(). */
int braid_serve_confine(void);		/* of the process that reads the recording */
void braid_serve_say(const char *line);
int braid_serve_program(char *path);	/* of PATH_MAX bytes: this program */
/* A directory for the recording; @own: of this process alone. */
int braid_serve_directory(char *path, size_t bytes, const char *name, bool own);

/**
 * braid_cli_check_chosen - check what a configuration has guests record, as `record` would
 * @conf: the configuration
 * @name: of its file, for the message; NULL: they are options of `watch`
 *
 * Return: 0, or -errno with braid_fail(), which names the line.
 */
int braid_cli_check_chosen(const struct braid_conf *conf, const char *name);

/**
 * braid_stat_region - `stat` of a live region, or of one whose guest is dead
 * @path: not a capture
 * @json: machine readable
 * @buffer: only this buffer; NULL: all
 *
 * Prints on standard output; errors of @path go to standard error.
 *
 * Return: the exit code.
 */
int braid_stat_region(const char *path, bool json, const char *buffer);

/**
 * braid_clock_print - print the clock data of a trace
 * @source: the trace; its cursors are not moved
 * @json: one JSON object
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_clock_print(const struct braid_source *source, bool json);

/** braid_verify_region - `verify` of a region; else as braid_stat_region() */
int braid_verify_region(const char *path);

/**
 * braid_is_capture - whether a file is a capture rather than a region
 * @path: a file, or "-"; one that is empty, or not a regular file, counts as a capture, so that the
 *	capture's reader reports the problem; else its first bytes decide
 */
bool braid_is_capture(const char *path);

#define BRAID_TARGET_CAPTURE	1

/**
 * braid_cli_needs_mapping - refuse a region in a guest's own memory, which cannot be mapped
 * @word: as the user named it
 * @path: as braid_resolve() found it
 *
 * Return: 0; or -EOPNOTSUPP with braid_fail(), which says what reads it.
 */
int braid_cli_needs_mapping(const char *word, const char *path);

/**
 * braid_cli_target - confine a command that reads one capture or one region, and find which
 * @word: a file, or a region as braid_resolve() takes it; a capture takes precedence
 * @path: set to the region's
 *
 * Return: 0: the region at @path; BRAID_TARGET_CAPTURE: @word; or -errno with braid_fail().
 */
int braid_cli_target(char *const *word, char path[256]);

/**
 * braid_record_show - record, and print on standard error what happens
 * @o: what to record
 * @status_fd: also write JSON lines there; 0: none
 * @result: filled on success
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_record_show(struct braid_record_options *o, u64 status_fd,
		      struct braid_record_result *result);

/**
 * braid_cli_clean - sanitize a path or another untrusted string, to be printed
 * @untrusted: at most 1023 bytes of it are used
 *
 * Return: a copy, good until the next call.
 */
const char *braid_cli_clean(const char *untrusted);

/**
 * braid_cli_quoted - a word, quoted if a shell needs it; for suggested commands
 * @word: at most 500 bytes of it are used
 *
 * Return: a sanitized copy, quoted if that is needed; good until the next call.
 */
const char *braid_cli_quoted(const char *word);

/**
 * braid_cli_called - set what precedes a command's name in messages
 * @prefix: "tracebraid " (the default), or "tracebraid-" for a program that is one command; must
 *	stay valid
 */
void braid_cli_called(const char *prefix);

/** braid_cli_program - get the prefix of braid_cli_called() */
const char *braid_cli_program(void);

/** braid_complain_as - the command that lines about options are headed by; lives on */
void braid_complain_as(const char *command);

/**
 * braid_complain - print the line of the last failure on standard error
 *
 * Return: 1, to be returned as the exit code.
 */
int braid_complain(void);

/**
 * braid_cli_flushed - finish the output
 * @status: of the command
 *
 * A reader that exits early, like head, is not an error; a full disk is.
 *
 * Return: the exit code.
 */
int braid_cli_flushed(int status);

/** braid_is_of_store - whether a word names captures of the fleet's store, "nats://HOST:PORT/NAME" */
bool braid_is_of_store(const char *word);

/**
 * braid_cli_run - run a command, on files that were fetched if a word names some of the store
 *
 * Return: the exit code.
 */
int braid_cli_run(const struct braid_cli_command *command, int argc, char **argv);

/** braid_cli_warn - print a line on standard error, sanitized by the library; its callback */
void braid_cli_warn(void *arg, const char *line);

/**
 * braid_cli_ascii - convert output to a terminal to ASCII, unless it supports UTF-8
 *
 * By LC_ALL, LC_CTYPE and LANG. Files and pipes always get UTF-8.
 */
void braid_cli_ascii(void);

/**
 * braid_cli_confine - braid_confine(), before the first byte of a guest is read
 * @what: the remaining work
 * @children: the processes that may be killed later, each 0 or its id; NULL: none
 *
 * No effect in a build with a sanitizer: their runtimes fork, and trace their own threads. For
 * BRAID_CONFINE_INSPECT and _RECORD it first starts the helper of braid_peek_start().
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_cli_confine(enum braid_confine what, const pid_t children[BRAID_CONFINE_CHILDREN]);

/**
 * braid_cli_confine_fleet - likewise, before a connection to the fleet's server
 * @folder: where files are made; NULL: none are
 *
 * Files that names of hosts and certificates need can be read, and no other.
 */
int braid_cli_confine_fleet(const char *folder);

/** braid_cli_confines - whether this build does: one without a sanitizer */
bool braid_cli_confines(void);

/**
 * braid_cli_confine_to - braid_cli_confine(), after opening the input files
 * @out: the only output, whose folder stays writable; NULL or "-": no file is written
 * @paths: the input files; "-": standard input, of which a pipe's data is kept in memory, up to 1 GiB
 * @nr: their number
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_cli_confine_to(const char *out, char *const *paths, size_t nr);

/**
 * braid_cli_capture_head - the description of the host in a capture that begins now
 * @head: filled
 */
void braid_cli_capture_head(struct braid_chunk_file *head);

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
 * braid_human - a human-readable number: 950, 12.3k, 4.5M
 * @to: a buffer of @bytes
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

#define BRAID_SEARCHING	"searching memory"	/* of VMs, page by page */

/** braid_progress_end - erase the line, if any */
void braid_progress_end(struct braid_progress *p);

#endif /* BRAID_CLI_CLI_H */
