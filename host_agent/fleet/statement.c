// SPDX-License-Identifier: GPL-2.0-or-later
/* The clauses of a SELECT. */
#include <errno.h>
#include <string.h>

#include "host_agent/fleet/statement.h"
#include "host_agent/util/error.h"

/* Clauses ---------------------------------------------------------------------------------- */

bool braid_sql_is_one(const struct braid_sql_token *t, const char *const *words, size_t nr)
{
	size_t k;

	for (k = 0; k < nr; k++)
		if (braid_sql_token_is(t, words[k]))
			return true;
	return false;
}

/* The next word of the list outside parentheses, or the end of the statement. */
static const struct braid_sql_token *statement_find(const struct braid_sql_token *at,
						  const struct braid_sql_token *end,
						  const char *const *words, size_t nr)
{
	for (; at < end; at++)
		if (!at->depth && braid_sql_is_one(at, words, nr) &&
		    !(braid_sql_token_is(at, "FROM") && braid_sql_token_is(at - 1, "DISTINCT")))
			break;
	return at;
}

/* The tokens of a clause that begins with two words or one; empty: it has none. */
static struct braid_sql_range statement_take(const struct braid_sql_token **at, const char *word,
					     size_t skip)
{
	static const char *const ends[] = { "FROM", "GROUP", "HAVING", "ORDER", "LIMIT" };
	struct braid_sql_range r = { 0 };
	const struct braid_sql_token *end = *at;

	if (!braid_sql_token_is(*at, word))
		return r;
	while (end->bytes)
		end++;
	r.at = *at + skip;
	*at = statement_find(*at + 1, end, ends, sizeof(ends) / sizeof(*ends));
	r.nr = *at > r.at ? *at - r.at : 0;
	return r;
}

int braid_sql_statement_read(struct braid_sql_statement *c, const char *text)
{
	static const char *const select[] = { "SELECT" };
	static const char *const compound[] = { "UNION", "INTERSECT", "EXCEPT", "VALUES", ";" };
	const struct braid_sql_token *begin = c->tokens.items, *end, *at;
	int err = braid_sql_tokens_read(&c->tokens, text);

	if (err)
		return err;
	while (c->tokens.nr && braid_sql_token_is(&begin[c->tokens.nr - 1], ";"))
		c->tokens.items[--c->tokens.nr] = (struct braid_sql_token){ .kind = BRAID_SQL_SIGN, .at = "" };
	end = begin + c->tokens.nr;
	at = statement_find(begin, end, select, 1);
	if (at == end || (at != begin && !braid_sql_token_is(begin, "WITH")))
		return braid_fail(-EINVAL, "expected one SELECT");
	c->with = (struct braid_sql_range){ begin, at - begin };
	begin = statement_find(at, end, compound, sizeof(compound) / sizeof(*compound));
	if (begin < end)
		return braid_fail(-EOPNOTSUPP, "%.*s cannot be combined across hosts; ask in several statements",
				  (int)begin->bytes, begin->at);
	begin = at + 1;
	c->distinct = braid_sql_token_is(begin, "DISTINCT");
	c->list = statement_take(&at, "SELECT", 1 + (c->distinct || braid_sql_token_is(begin, "ALL")));
	c->from = statement_take(&at, "FROM", 0);
	c->group = statement_take(&at, "GROUP", 2);
	c->having = statement_take(&at, "HAVING", 1);
	c->order = statement_take(&at, "ORDER", 2);
	c->limit = statement_take(&at, "LIMIT", 1);
	return at == end && c->list.nr ? 0 :
	       braid_fail(-EINVAL, "the statement is not understood at: %.40s", at->at);
}

/* The tokens up to the next comma outside parentheses. Return: false: at the end. */
bool braid_sql_range_next(struct braid_sql_range *rest, struct braid_sql_range *one)
{
	u32 depth = rest->nr ? rest->at->depth : 0;
	size_t k = 0;

	if (!rest->nr)
		return false;
	while (k < rest->nr && !(rest->at[k].depth == depth && braid_sql_token_is(&rest->at[k], ",")))
		k++;
	*one = (struct braid_sql_range){ rest->at, k };
	k += k < rest->nr;
	rest->at += k;
	rest->nr -= k;
	return true;
}

/* Calls ---------------------------------------------------------------------------------- */

/* The number of tokens of a call: "name(...) FILTER (...)"; 0: it is none. */
size_t braid_sql_call(const struct braid_sql_token *at, const struct braid_sql_token *end)
{
	const struct braid_sql_token *t = at;
	u32 depth = at->depth;

	if (at->kind != BRAID_SQL_NAME_TOKEN || at + 1 >= end || !braid_sql_token_is(at + 1, "("))
		return 0;
	for (t = at + 2; t < end && !(t->depth == depth && braid_sql_token_is(t, ")")); t++)
		;
	if (t + 2 < end && braid_sql_token_is(t + 1, "FILTER"))
		for (t += 2; t < end && !(t->depth == depth && braid_sql_token_is(t, ")")); t++)
			;
	return t < end ? t + 1 - at : 0;
}

/* What is between the parentheses. */
struct braid_sql_range braid_sql_arguments(const struct braid_sql_token *call)
{
	const struct braid_sql_token *t = call + 2;

	while (!(t->depth == call->depth && braid_sql_token_is(t, ")")))
		t++;
	return (struct braid_sql_range){ call + 2, t - call - 2 };
}
