/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of an HTML page: the head, and chunks of packed data. */
#ifndef BRAID_EXPORT_HTML_OUT_H
#define BRAID_EXPORT_HTML_OUT_H

#include <stdio.h>

#include "host_agent/util/text.h"
#include "host_agent/util/varint.h"

/* The page up to its data: markup, style, program. */
extern const char braid_html_page[], braid_html_page_end[];

struct braid_html_packer;
struct braid_html_deflate;

/* A page under way. */
struct braid_html_out {
	struct braid_html_packer *packer;	/* the thread that packs and writes chunks; NULL: none */
	FILE *to;
	struct braid_html_deflate *deflate;
	char pairs[4096][2];		/* letters of 12 bits */
	struct braid_text plain;	/* a chunk of columns ... */
	struct braid_text packed;	/* ... any chunk, deflated ... */
	struct braid_text coded;	/* ... and in letters */
};

/**
 * braid_html_out_begin - write the part before the data
 * @o: filled; braid_html_out_free() it in any case
 * @to: the output
 *
 * Return: 0, -EPIPE when the reader is gone, -errno with braid_fail().
 */
int braid_html_out_begin(struct braid_html_out *o, FILE *to);

/** braid_html_out_pack_apart - let a thread pack and write later chunks, if it has a CPU */
void braid_html_out_pack_apart(struct braid_html_out *o);

/**
 * braid_html_out_chunk - write one chunk of data
 * @o: begun
 * @kind: the word by which the program finds it
 * @data: any bytes; in the page they are letters, digits, + and / alone
 * @bytes: of it
 *
 * Return: as braid_html_out_begin().
 */
int braid_html_out_chunk(struct braid_html_out *o, const char *kind, const void *data,
			 size_t bytes);

/**
 * braid_html_out_columns - write one chunk of columns, and empty them
 * @o: begun
 * @kind: as above
 * @rows: their number
 * @columns: of braid_html_put() numbers, one for each row
 * @nr: of columns
 *
 * Return: as braid_html_out_begin().
 */
int braid_html_out_columns(struct braid_html_out *o, const char *kind, u64 rows,
			   struct braid_text *columns, size_t nr);

/** braid_html_out_end - close the page; returns as braid_html_out_begin() */
int braid_html_out_end(struct braid_html_out *o);

/**
 * braid_html_out_settle - wait until all chunks are written; only braid_html_out_free() may follow
 *
 * Return: as braid_html_out_begin(), for the first chunk that failed.
 */
int braid_html_out_settle(struct braid_html_out *o);

/** braid_html_out_free - free what it holds */
void braid_html_out_free(struct braid_html_out *o);

/** braid_html_put - append a number */
static inline void braid_html_put(struct braid_text *t, u64 value)
{
	char *at = braid_text_reserve(t, BRAID_VARINT_BYTES);

	if (at)
		t->bytes = braid_varint_put(at, value) - t->data;
}

/** braid_html_put_signed - likewise one that may be negative: 0, -1, 1, -2 ... */
static inline void braid_html_put_signed(struct braid_text *t, s64 value)
{
	braid_html_put(t, braid_varint_fold(value));
}

#endif /* BRAID_EXPORT_HTML_OUT_H */
