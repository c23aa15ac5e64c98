// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the words, strings and types of a print format. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/format/token.h"

void braid_token_skip_space(struct braid_parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

bool braid_token_take(struct braid_parser *p, const char *token)
{
	size_t n = strlen(token);

	braid_token_skip_space(p);
	if (strncmp(p->at, token, n))
		return false;
	p->at += n;
	return true;
}

/* A word. Return: its length, 0 when there is none. */
size_t braid_token_take_word(struct braid_parser *p, const char **word)
{
	size_t n = 0;

	braid_token_skip_space(p);
	if (isalpha((unsigned char)*p->at) || *p->at == '_')
		while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')
			n++;
	*word = p->at;
	p->at += n;
	return n;
}

bool braid_token_is_word(const char *word, size_t n, const char *what)
{
	return n == strlen(what) && !strncmp(word, what, n);
}

/* One or more strings, which C joins, as they are written. NULL: none. */
const char *braid_token_take_string(struct braid_parser *p)
{
	const char *text = p->pool;
	bool any = false;

	for (;; any = true) {
		braid_token_skip_space(p);
		if (*p->at != '"') {
			if (!any)
				return NULL;
			*p->pool++ = 0;
			return text;
		}
		for (p->at++; *p->at != '"'; *p->pool++ = *p->at++) {
			if (*p->at == '\\')
				*p->pool++ = *p->at++;
			if (!*p->at)
				return NULL;
		}
		p->at++;
	}
}

/* Words, with one space between, then stars. Return: whether it is that, up to ")". */
bool braid_token_take_type(struct braid_parser *p, char type[BRAID_TYPE_BYTES], u32 *stars)
{
	size_t n, at = 0;
	const char *word;

	while ((n = braid_token_take_word(p, &word))) {
		if (braid_token_is_word(word, n, "REC") || at + n + 4 > BRAID_TYPE_BYTES)
			return false;
		if (at)
			type[at++] = ' ';
		memcpy(type + at, word, n);
		at += n;
	}
	for (*stars = 0; braid_token_take(p, "*"); ++*stars)
		;
	type[at] = 0;
	return at && braid_token_take(p, ")");
}
