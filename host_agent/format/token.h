/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the words, strings and types of a print format: white space before them is skipped. */
#ifndef BRAID_FORMAT_TOKEN_H
#define BRAID_FORMAT_TOKEN_H

#include "host_agent/format/tree.h"

struct braid_parser {
	const char *at;
	char *pool;			/* its rest */
	struct braid_tree *tree;
	const struct braid_layout *layout;
	u32 depth;
	bool divided;			/* the last operator of this chain was a division */
	bool seldom;			/* an operator that libtraceevent lacks in lists */
};

void braid_token_skip_space(struct braid_parser *p);

/** braid_token_take - take a token, if it comes next */
bool braid_token_take(struct braid_parser *p, const char *token);

/** braid_token_take_word - take a word; Return: its length, 0 when there is none */
size_t braid_token_take_word(struct braid_parser *p, const char **word);

/** braid_token_is_word - whether @n bytes at @word are @what */
bool braid_token_is_word(const char *word, size_t n, const char *what);

/** braid_token_take_string - take strings, which C joins, as they are written; NULL: none */
const char *braid_token_take_string(struct braid_parser *p);

/** braid_token_take_type - take words, then @stars and ")"; Return: whether it is that */
bool braid_token_take_type(struct braid_parser *p, char type[BRAID_TYPE_BYTES], u32 *stars);

#endif /* BRAID_FORMAT_TOKEN_H */
