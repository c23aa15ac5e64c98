// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Parses expressions. The language is libtraceevent's, its fields too, but not its evaluation: that
 * divides by what a guest says, believes an unfinished expression, takes negative numbers for
 * large ones and a field that is not there for a difference.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/fields/expression.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define MAX_DEPTH	32u

struct parser {
	struct braid_expression *e;
	const char *whole, *example;
	const char *at;
	u32 depth;
};

int braid_expression_complain(const char *whole, const char *at, const char *what,
			      const char *example)
{
	char rest[64];

	snprintf(rest, sizeof(rest), "%s", at);
	braid_text_clean(rest);
	return braid_fail(-EINVAL, "filter '%s': %s, %s%s%s; an example: '%s'", whole, what,
			  *rest ? "at '" : "at its end", rest, *rest ? "'" : "", example);
}

static int expression_complain(const struct parser *p, const char *what)
{
	return braid_expression_complain(p->whole, p->at, what, p->example);
}

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool expression_take(struct parser *p, const char *token)
{
	size_t n = strlen(token);

	skip_space(p);
	if (strncmp(p->at, token, n))
		return false;
	p->at += n;
	return true;
}

/* A word; NULL: none, or out of memory. */
static char *take_word(struct parser *p)
{
	size_t n = 0;

	skip_space(p);
	if (isalpha((unsigned char)*p->at) || *p->at == '_')
		while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')
			n++;
	p->at += n;
	return n ? strndup(p->at - n, n) : NULL;
}

/* Decimal, 0x... or 0..., with or without a sign. */
static bool expression_take_number(struct parser *p, __int128 *number)
{
	const char *start = p->at;
	bool minus = expression_take(p, "-");
	char *end;

	skip_space(p);
	errno = 0;
	if (isdigit((unsigned char)*p->at))
		*number = strtoull(p->at, &end, 0);
	else
		end = (char *)p->at;
	if (end == p->at || errno || isalnum((unsigned char)*end) || *end == '_' ||
	    *end == '.' || (minus && *number > (__int128)1 << 63)) {
		p->at = start;
		return false;
	}
	if (minus)
		*number = -*number;
	p->at = end;
	return true;
}

/* "text" or 'text'; a backslash escapes the next character. NULL: none, or out of memory. */
static char *expression_take_text(struct parser *p)
{
	char quote, *text, *to;
	const char *at;

	skip_space(p);
	quote = *p->at;
	if (quote != '"' && quote != '\'')
		return NULL;
	text = to = malloc(strlen(p->at));
	if (!text)
		return NULL;
	for (at = p->at + 1; *at && *at != quote; at++) {
		if (*at == '\\' && at[1] == quote)
			at++;
		*to++ = *at;
	}
	*to = 0;
	if (*at != quote) {
		free(text);
		return NULL;
	}
	p->at = at + 1;
	return text;
}

static struct braid_expression_node *add_node(struct parser *p, enum braid_expression_kind kind,
					  u16 *number)
{
	struct braid_expression *e = p->e;

	if (e->nr_nodes == BRAID_EXPRESSION_NODES) {
		braid_fail(-EINVAL, "filter '%s': more than %u steps; split it into several filters",
			   p->whole, BRAID_EXPRESSION_NODES);
		return NULL;
	}
	*number = e->nr_nodes++;
	e->nodes[*number].kind = kind;
	return &e->nodes[*number];
}

static const struct {
	const char *token;
	enum braid_expression_op op;
	bool of_numbers, of_texts;
} operators[] = {	/* longer ones first */
	{ "==", BRAID_EXPRESSION_EQ, true, true },
	{ "!=", BRAID_EXPRESSION_NE, true, true },
	{ "<=", BRAID_EXPRESSION_LE, true, false },
	{ ">=", BRAID_EXPRESSION_GE, true, false },
	{ "=~", BRAID_EXPRESSION_REGEX, false, true },
	{ "!~", BRAID_EXPRESSION_NOT_REGEX, false, true },
	{ "<", BRAID_EXPRESSION_LT, true, false },
	{ ">", BRAID_EXPRESSION_GT, true, false },
	{ "~", BRAID_EXPRESSION_GLOB, false, true },
	{ "&", BRAID_EXPRESSION_BITS, true, false },
};

#define NR_OPERATORS	(sizeof(operators) / sizeof(operators[0]))

/* The operand after the operator. */
static int take_value(struct parser *p, struct braid_expression_node *node, size_t k)
{
	const char *before = p->at;

	node->op = operators[k].op;
	node->kind = BRAID_EXPRESSION_NUMBER;
	if (expression_take_number(p, &node->number))
		goto number;
	node->text = expression_take_text(p);
	if (node->text) {
		node->kind = BRAID_EXPRESSION_TEXT;
		if (!operators[k].of_texts)
			return p->at = before, expression_complain(p, "strings cannot be compared by this operator");
		if (node->op != BRAID_EXPRESSION_REGEX && node->op != BRAID_EXPRESSION_NOT_REGEX)
			return 0;
		if (regcomp(&node->regex, node->text, REG_ICASE | REG_NOSUB))
			return p->at = before, expression_complain(p, "not a valid regular expression");
		node->compiled = true;
		return 0;
	}
	node->text = take_word(p);
	if (!node->text)
		return expression_complain(p, "a number, a \"text\" or a field is missing");
	node->kind = BRAID_EXPRESSION_FIELD;
number:
	return operators[k].of_numbers ? 0 :
	       (p->at = before, expression_complain(p, "a pattern in quotes is missing"));
}

static int take_comparison(struct parser *p, u16 *out)
{
	struct braid_expression_node *node = add_node(p, BRAID_EXPRESSION_NUMBER, out);
	size_t k;

	if (!node)
		return -EINVAL;
	node->field = take_word(p);
	if (!node->field)
		return expression_complain(p, "the name of a field is missing");
	skip_space(p);
	for (k = 0; k < NR_OPERATORS && strncmp(p->at, "&&", 2); k++)
		if (expression_take(p, operators[k].token))
			return take_value(p, node, k);
	return expression_complain(p, "expected an operator: == != < > <= >= & =~ !~ ~");
}

static int take_any(struct parser *p, u16 *out);

static int take_one(struct parser *p, u16 *out)
{
	struct braid_expression_node *node;
	int err;

	if (++p->depth > MAX_DEPTH)
		return expression_complain(p, "it is nested too deeply");
	if (expression_take(p, "!")) {
		node = add_node(p, BRAID_EXPRESSION_NOT, out);
		err = node ? take_one(p, &node->left) : -EINVAL;
	} else if (expression_take(p, "(")) {
		err = take_any(p, out);
		if (!err && !expression_take(p, ")"))
			err = expression_complain(p, "a ')' is missing");
	} else {
		err = take_comparison(p, out);
	}
	p->depth--;
	return err;
}

/* Operands of one operator, from left to right. */
static int take_chain(struct parser *p, u16 *out, enum braid_expression_kind kind)
{
	const char *token = kind == BRAID_EXPRESSION_AND ? "&&" : "||";
	struct braid_expression_node *node;
	u16 left, right;
	int err;

	err = kind == BRAID_EXPRESSION_AND ? take_one(p, &left) :
					 take_chain(p, &left, BRAID_EXPRESSION_AND);
	while (!err && expression_take(p, token)) {
		err = kind == BRAID_EXPRESSION_AND ? take_one(p, &right) :
						 take_chain(p, &right, BRAID_EXPRESSION_AND);
		if (err)
			break;
		node = add_node(p, kind, out);
		if (!node)
			return -EINVAL;
		node->left = left;
		node->right = right;
		left = *out;
	}
	*out = left;
	return err;
}

static int take_any(struct parser *p, u16 *out)
{
	return take_chain(p, out, BRAID_EXPRESSION_OR);
}

int braid_expression_parse(struct braid_expression *e, const char *whole, const char *at,
			   const char *example)
{
	struct parser p = { .e = e, .whole = whole, .example = example, .at = at };
	u16 root = 0;
	int err = take_any(&p, &root);

	skip_space(&p);
	e->root = root;
	return err ? err : *p.at ? expression_complain(&p, "&& or || is missing") : 0;
}

void braid_expression_free(struct braid_expression *e)
{
	u32 k;

	for (k = 0; k < e->nr_nodes; k++) {
		free(e->nodes[k].field);
		free(e->nodes[k].text);
		if (e->nodes[k].compiled)
			regfree(&e->nodes[k].regex);
	}
	e->nr_nodes = 0;
}

const char *braid_expression_token(enum braid_expression_op op)
{
	size_t k;

	for (k = 0; k < NR_OPERATORS - 1 && operators[k].op != op; k++)
		;
	return operators[k].token;
}
