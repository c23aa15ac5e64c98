/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of CTF's metadata and files, made of any string. */
#ifndef BRAID_EXPORT_CTF_NAMES_H
#define BRAID_EXPORT_CTF_NAMES_H

#include "host_agent/fields/layout.h"
#include "host_agent/util/hash.h"

#define BRAID_CTF_NAME_BYTES	64u	/* of a file or folder */
#define BRAID_CTF_MEMBER_BYTES	128u	/* of a field */
#define BRAID_CTF_MOST_MEMBERS	(2 * BRAID_MAX_FIELDS + 4)	/* a sequence is two */

/* The names of an event's members, each of which is unique. Zeroed at first. */
struct braid_ctf_names {
	u32 nr;
	char names[BRAID_CTF_MOST_MEMBERS][BRAID_CTF_MEMBER_BYTES];
	u32 next[BRAID_CTF_MOST_MEMBERS];	/* number for the next duplicate of each */
	struct braid_hash by_name;
	bool failed;		/* memory is out: a name may be there twice */
};

/** braid_ctf_names_begin - none is taken, except those that TSDL reserves */
void braid_ctf_names_begin(struct braid_ctf_names *n);

/**
 * braid_ctf_names_field - name a field's member
 * @n: of its event
 * @field: of a layout; in scheduler events "pid" becomes "tid", as in LTTng
 *
 * Return: an identifier, without the leading '_' that the metadata adds.
 */
const char *braid_ctf_names_field(struct braid_ctf_names *n, const struct braid_field *field);

/** braid_ctf_names_length - name the member that has the length of the sequence @name */
const char *braid_ctf_names_length(struct braid_ctf_names *n, const char *name);

/** braid_ctf_names_free - free what it has */
void braid_ctf_names_free(struct braid_ctf_names *n);

#define BRAID_CTF_PATH_BYTES	192u	/* of a file or folder, from the export's folder on */

/* The paths of an export's files and folders; no two differ only in capitals. Zeroed at first. */
struct braid_ctf_paths {
	char **all;
	size_t nr, capacity;
	struct braid_hash by_path;
};

/**
 * braid_ctf_paths_add - a path for a file or folder
 * @p: the paths
 * @folder: its folder's; "": none
 * @name: any string
 * @number: appended if another one has the path; or a higher one
 *
 * Return: the path, which lives as long as @p; NULL: out of memory.
 */
const char *braid_ctf_paths_add(struct braid_ctf_paths *p, const char *folder, const char *name,
				u64 number);

/** braid_ctf_paths_free - free all paths */
void braid_ctf_paths_free(struct braid_ctf_paths *p);

/** braid_ctf_plain - a string of the metadata that needs no escapes: '?' replaces other characters */
void braid_ctf_plain(char *to, size_t size, const char *from);

/** braid_ctf_clock_name - an identifier for a clock */
void braid_ctf_clock_name(char *to, size_t size, const char *from);

#endif /* BRAID_EXPORT_CTF_NAMES_H */
