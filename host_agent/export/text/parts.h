/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Texts that lines consist of, made once and found by a dense number: of a stream, ring or event type. */
#ifndef BRAID_EXPORT_TEXT_PARTS_H
#define BRAID_EXPORT_TEXT_PARTS_H

#include <errno.h>
#include <stdlib.h>

#include "host_agent/util/array.h"
#include "host_agent/util/text.h"

struct braid_part {
	char *text;		/* NULL: not made yet */
	u32 bytes;
};

struct braid_parts {
	struct braid_part *at;
	size_t nr;
};

/** braid_parts_at - the part of a number; NULL: out of memory */
static inline struct braid_part *braid_parts_at(struct braid_parts *parts, size_t number)
{
	return braid_array_cover(parts->at, parts->nr, number) ? NULL : &parts->at[number];
}

/** braid_parts_keep - @text, which the part owns from now on, is its text */
static inline void braid_parts_keep(struct braid_part *part, struct braid_text *text)
{
	braid_text_pad(text);
	if (text->failed)
		braid_text_free(text);
	else
		*part = (struct braid_part){ .text = text->data, .bytes = text->bytes };
}

/** braid_parts_put - append a part's text; NULL, or one without text: @out has failed */
static inline void braid_parts_put(struct braid_text *out, const struct braid_part *part)
{
	if (part && part->text)
		braid_text_put_blocks(out, part->text, part->bytes);
	else
		out->failed = true;
}

/** braid_parts_free - free all texts */
static inline void braid_parts_free(struct braid_parts *parts)
{
	size_t k;

	for (k = 0; k < parts->nr; k++)
		free(parts->at[k].text);
	free(parts->at);
}

#endif /* BRAID_EXPORT_TEXT_PARTS_H */
