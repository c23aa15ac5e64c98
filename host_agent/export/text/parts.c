// SPDX-License-Identifier: GPL-2.0-or-later
/* Texts by number. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/text/parts.h"

struct braid_part *braid_parts_grow(struct braid_parts *parts, size_t number)
{
	size_t more = parts->nr ? parts->nr : 16;
	struct braid_part *grown;

	while (more <= number)
		more *= 2;
	grown = reallocarray(parts->at, more, sizeof(*grown));
	if (!grown)
		return NULL;
	memset(grown + parts->nr, 0, (more - parts->nr) * sizeof(*grown));
	parts->at = grown;
	parts->nr = more;
	return &parts->at[number];
}

void braid_parts_keep(struct braid_part *part, struct braid_text *text)
{
	braid_text_pad(text);
	if (text->failed) {
		braid_text_free(text);
		return;
	}
	part->text = text->data;
	part->bytes = text->bytes;
}

void braid_parts_free(struct braid_parts *parts)
{
	size_t k;

	for (k = 0; k < parts->nr; k++)
		free(parts->at[k].text);
	free(parts->at);
}
