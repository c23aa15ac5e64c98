/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Words of a statement in SQLite's dialect. */
#ifndef BRAID_FLEET_TOKEN_H
#define BRAID_FLEET_TOKEN_H

#include "host_agent/util/text.h"

#define BRAID_SQL_TOKENS	2048u

struct braid_sql_token {
	enum { BRAID_SQL_NAME_TOKEN, BRAID_SQL_QUOTED, BRAID_SQL_STRING, BRAID_SQL_NUMBER,
	       BRAID_SQL_SIGN } kind;
	const char *at;
	size_t bytes;
	u32 depth;		/* of parentheses around it */
};

struct braid_sql_tokens {
	struct braid_sql_token items[BRAID_SQL_TOKENS + 1];
	size_t nr;
};

/** braid_sql_tokens_read - split a statement. Return: 0, or -EINVAL with braid_fail() */
int braid_sql_tokens_read(struct braid_sql_tokens *t, const char *text);

/** braid_sql_token_is - whether it is this word, in any case, or this sign */
bool braid_sql_token_is(const struct braid_sql_token *token, const char *word);

/** braid_sql_tokens_equal - whether two sequences are the same, but for the case of names */
bool braid_sql_tokens_equal(const struct braid_sql_token *a, size_t nr_a,
			    const struct braid_sql_token *b, size_t nr_b);

/** braid_sql_tokens_put - append a sequence, with blanks between tokens */
void braid_sql_tokens_put(struct braid_text *to, const struct braid_sql_token *from, size_t nr);

#endif /* BRAID_FLEET_TOKEN_H */
