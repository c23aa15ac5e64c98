/* SPDX-License-Identifier: GPL-2.0 */
/* The declaration of an event of user space: what its records hold. */
#ifndef BRAID_MARKER_DECLARATION_H
#define BRAID_MARKER_DECLARATION_H

#include <linux/types.h>

#include "tracebraid/marker.h"

struct seq_file;

enum braid_marker_kind {
	BRAID_MARKER_NUMBER,
	BRAID_MARKER_ARRAY,		/* of bytes */
	BRAID_MARKER_STRING,		/* in a fixed number of bytes */
	BRAID_MARKER_TAIL,		/* a text to the end of the record */
};

struct braid_marker_field {
	const char *name;
	const char *type;
	enum braid_marker_kind kind;
	u16 offset;			/* from the first byte of the payload */
	u16 bytes;			/* of the field; of a tail 0 */
	bool is_signed;
};

struct braid_marker_declaration {
	char *text;			/* cut into the words that the fields point to */
	const char *name;
	u32 nr;
	struct braid_marker_field fields[BRAID_MARKER_FIELDS];
	u32 bytes;			/* of a record, without a tail's */
	bool has_tail;			/* the last field */
	char *format;			/* its lines of a format file ... */
	char *print_fmt;		/* ... and its print format */
};

/**
 * braid_marker_parse - read a declaration
 * @d: filled; braid_marker_forget() frees it, also after an error
 * @text: as for BRAID_MARKER_DECLARE; copied
 *
 * Context: may sleep. Return: 0, -EINVAL or -ENOMEM.
 */
int braid_marker_parse(struct braid_marker_declaration *d, const char *text);

/** braid_marker_forget - free what a declaration holds */
void braid_marker_forget(struct braid_marker_declaration *d);

/** braid_marker_equal - whether two declarations describe the same records */
bool braid_marker_equal(const struct braid_marker_declaration *a,
			const struct braid_marker_declaration *b);

/** braid_marker_print - a record's fields, "name=value", after the event's name */
void braid_marker_print(struct seq_file *out, const struct braid_marker_declaration *d,
			const u8 *record, u32 bytes);

#endif /* BRAID_MARKER_DECLARATION_H */
