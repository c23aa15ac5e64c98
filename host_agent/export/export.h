/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes a merged trace out, in one of several forms.
 *
 * Invariants:
 * - Every form gets its items from a walk (walk.h), which alone merges and selects. No form reads a capture itself.
 * - Items come in the merge's order, that of the host's clock: wall time, if it is shown, may go back. The conversion
 *   to wall time makes a bound larger, never smaller.
 * - A regular file gets its name when it is complete; after a failure the partial file is removed. Standard output
 *   and files that are not regular are written directly. A file of options.inputs is never replaced.
 * - A run begins with a rewound source, and leaves it anywhere.
 * - The callbacks of options and source run in the caller's thread. With cpus, a form may have threads of its own, each
 *   with its own source (walk/parts.h).
 */
#ifndef BRAID_EXPORT_EXPORT_H
#define BRAID_EXPORT_EXPORT_H

#include <stdio.h>
#include <sys/stat.h>

#include "host_agent/walk/options.h"

/* A form to write in: of one file, or of several that belong together. */
struct braid_export_form {
	const char *name;
	const char *help;	/* one line: the output, and the tool that opens it */
	bool makes_many;	/* OUT is not a single file: run() creates and names the files */
	bool takes_states;	/* options.states */
	/* One of both; as braid_export_run(). Of one file: writes to it. */
	int (*write)(FILE *to, struct braid_source *source,
		     const struct braid_walk_options *options,
		     struct braid_walk_totals *totals);
	int (*run)(const char *out, struct braid_source *source,
		   const struct braid_walk_options *options,
		   struct braid_walk_totals *totals);
};

/**
 * braid_export_run - write in a form
 * @form: the form
 * @out: its output, which is replaced, with mode 0600, like the capture; partial output is removed.
 *	"-": standard output, unless the form makes several files
 * @source: rewound
 * @options: the selection
 * @totals: filled
 *
 * Return: 0, -EPIPE when the reader is gone, -errno with braid_fail().
 */
int braid_export_run(const struct braid_export_form *form, const char *out,
		     struct braid_source *source, const struct braid_walk_options *options,
		     struct braid_walk_totals *totals);

/** braid_export_form_by_number - iterate over the forms from 0; NULL after the last */
const struct braid_export_form *braid_export_form_by_number(size_t number);

/** braid_export_form_by_name - the form of that name, or NULL */
const struct braid_export_form *braid_export_form_by_name(const char *name);

/**
 * braid_export_create - create an output file that is renamed when complete
 * @folder: of braid_folder_open(@path)
 * @path: its final name, and ...
 * @part: ... its temporary one in @folder; an incomplete old one is replaced
 * @options: for checking that neither is an input
 * @made: filled, for braid_folder_rename() or braid_folder_remove()
 *
 * Return: its descriptor, of mode 0600; or -errno with braid_fail().
 */
int braid_export_create(int folder, const char *path, const char *part,
			const struct braid_walk_options *options, struct stat *made);

/**
 * braid_export_complete - give a complete file its name
 * Parameters as above. Return: 0, or -errno with braid_fail(); then it is still to be removed.
 */
int braid_export_complete(int folder, const char *path, const char *part, const struct stat *made);

/* An output file while it is written. */
struct braid_export_file {
	FILE *to;
	const char *out;
	bool direct;			/* not a regular file, or standard output; else: */
	int folder;			/* that the file is in */
	char part[256 + 8];		/* its name until it is complete */
	struct stat made;
};

/**
 * braid_export_file_open - begin to write one file, completely or not at all
 * @f: filled; f->to is to be written
 * @out: its name; replaced on success. "-" is standard output; a file that is not regular is
 *	written directly. Must stay valid
 * @options: for checking that it is not an input
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_export_file_open(struct braid_export_file *f, const char *out,
			   const struct braid_walk_options *options);

/** braid_export_file_close - rename it, or remove it if @err is an error. Return: @err, or -errno with braid_fail() */
int braid_export_file_close(struct braid_export_file *f, int err);

/**
 * braid_export_to_file - write one file completely, or not at all
 * @out: as for braid_export_file_open()
 * @write: writes to a file
 * Other parameters and return as braid_export_run().
 */
int braid_export_to_file(const char *out, struct braid_source *source,
			 const struct braid_walk_options *options,
			 struct braid_walk_totals *totals,
			 int (*write)(FILE *to, struct braid_source *source,
				      const struct braid_walk_options *options,
				      struct braid_walk_totals *totals));

#endif /* BRAID_EXPORT_EXPORT_H */
