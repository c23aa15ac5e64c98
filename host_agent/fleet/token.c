// SPDX-License-Identifier: GPL-2.0-or-later
/* Splits a statement into words. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "host_agent/fleet/token.h"
#include "host_agent/util/error.h"

static bool token_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool token_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Space and comments. Return: NULL: a comment without an end. */
static const char *token_skip(const char *at)
{
	for (;;) {
		at += strspn(at, " \t\r\n\f");
		if (!strncmp(at, "--", 2)) {
			at += strcspn(at, "\n");
		} else if (!strncmp(at, "/*", 2)) {
			at = strstr(at + 2, "*/");
			if (!at)
				return NULL;
			at += 2;
		} else {
			return at;
		}
	}
}

/* Up to a quote that is not doubled. Return: behind it; NULL: there is none. */
static const char *token_quoted(const char *at, char quote)
{
	for (at++; *at; at++) {
		if (*at != quote)
			continue;
		if (at[1] != quote || quote == ']')
			return at + 1;
		at++;
	}
	return NULL;
}

static const char *token_number(const char *at)
{
	while (token_is_digit(*at) || *at == '.' || token_is_letter(*at) ||
	       ((*at == '+' || *at == '-') && (at[-1] == 'e' || at[-1] == 'E')))
		at++;
	return at;
}

static const char *token_sign(const char *at)
{
	static const char *const signs[] = {
		"->>", "->", "||", "<=", ">=", "<>", "!=", "==", "<<", ">>",
	};
	size_t k;

	for (k = 0; k < sizeof(signs) / sizeof(*signs); k++)
		if (!strncmp(at, signs[k], strlen(signs[k])))
			return at + strlen(signs[k]);
	return strchr("()+-*/%,.<>=&|~;", *at) ? at + 1 : NULL;
}

/* Return: behind it; NULL: it is not valid. */
static const char *token_read(struct braid_sql_token *t, const char *at)
{
	t->at = at;
	if (*at == '\'' || ((*at == 'x' || *at == 'X') && at[1] == '\'')) {
		t->kind = BRAID_SQL_STRING;
		return token_quoted(at + (*at != '\''), '\'');
	}
	if (strchr("\"`[", *at)) {
		t->kind = BRAID_SQL_QUOTED;
		return token_quoted(at, *at == '[' ? ']' : *at);
	}
	if (token_is_digit(*at) || (*at == '.' && token_is_digit(at[1]))) {
		t->kind = BRAID_SQL_NUMBER;
		return token_number(at);
	}
	if (token_is_letter(*at)) {
		t->kind = BRAID_SQL_NAME_TOKEN;
		while (token_is_letter(*at) || token_is_digit(*at) || *at == '$')
			at++;
		return at;
	}
	t->kind = BRAID_SQL_SIGN;
	return token_sign(at);
}

int braid_sql_tokens_read(struct braid_sql_tokens *t, const char *text)
{
	const char *at = token_skip(text), *end;
	struct braid_sql_token *token;
	u32 depth = 0;

	t->nr = 0;
	while (at && *at) {
		if (t->nr == BRAID_SQL_TOKENS)
			return braid_fail(-E2BIG, "the statement has more than %u words", BRAID_SQL_TOKENS);
		token = &t->items[t->nr];
		end = token_read(token, at);
		if (!end)
			return braid_fail(-EINVAL, "the statement is not valid at: %.40s", at);
		token->bytes = end - at;
		if (*at == ')' && !depth--)
			return braid_fail(-EINVAL, "the statement has a ')' too many");
		token->depth = depth;
		depth += *at == '(';
		t->nr++;
		at = token_skip(end);
	}
	if (!at)
		return braid_fail(-EINVAL, "the statement has a comment without an end");
	/* One more, of no bytes, which is no word. */
	t->items[t->nr] = (struct braid_sql_token){ .kind = BRAID_SQL_SIGN, .at = "" };
	return depth ? braid_fail(-EINVAL, "the statement lacks a ')'") : 0;
}

bool braid_sql_token_is(const struct braid_sql_token *token, const char *word)
{
	return (token->kind == BRAID_SQL_NAME_TOKEN || token->kind == BRAID_SQL_SIGN) &&
	       strlen(word) == token->bytes && !strncasecmp(token->at, word, token->bytes);
}

bool braid_sql_tokens_equal(const struct braid_sql_token *a, size_t nr_a,
			    const struct braid_sql_token *b, size_t nr_b)
{
	size_t k;

	if (nr_a != nr_b)
		return false;
	for (k = 0; k < nr_a; k++) {
		if (a[k].kind != b[k].kind || a[k].bytes != b[k].bytes)
			return false;
		if (a[k].kind == BRAID_SQL_NAME_TOKEN ? strncasecmp(a[k].at, b[k].at, a[k].bytes) :
							memcmp(a[k].at, b[k].at, a[k].bytes))
			return false;
	}
	return true;
}

void braid_sql_tokens_put(struct braid_text *to, const struct braid_sql_token *from, size_t nr)
{
	size_t k;

	for (k = 0; k < nr; k++) {
		/* "x (" would be another function call than "x(": only for people. */
		if (k && from[k].at != from[k - 1].at + from[k - 1].bytes)
			braid_text_putc(to, ' ');
		braid_text_put(to, from[k].at, from[k].bytes);
	}
}
