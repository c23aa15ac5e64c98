/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file that a capture is written to: created next to its final name, and renamed when
 * published.
 */
#ifndef BRAID_CAPTURE_OUTPUT_H
#define BRAID_CAPTURE_OUTPUT_H

#include <stdbool.h>
#include <sys/stat.h>

struct braid_output {
	char path[4096];
	char part[4096];	/* its name until it is published; "": it is written to directly */
	int folder;		/* that it is in; open while there is a part */
	struct stat made;	/* of the part */
	bool keep_former;	/* an existing file becomes PATH.old when this one is published */
};

/**
 * braid_output_open - open the file for a capture
 * @o: filled
 * @path: an existing file is left unchanged; a FIFO or a device is written to directly
 *
 * A new file, PATH.part, with mode 0600. A link is never followed, and a guest's region is refused.
 *
 * Return: a descriptor, or -errno with braid_fail(); then there is no file to discard.
 */
int braid_output_open(struct braid_output *o, const char *path);

/**
 * braid_output_publish - give the file its name, replacing an existing file, or keeping it as PATH.old
 * @o: of braid_output_open(); publishing twice is fine
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_output_publish(struct braid_output *o);

/** braid_output_discard - remove the file, unless it was published or is written to directly */
void braid_output_discard(struct braid_output *o);

#endif /* BRAID_CAPTURE_OUTPUT_H */
