/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Expressions over an event's fields: what `report -F` evaluates on the host, and what `record -f`
 * has the guest evaluate. Only their syntax is here.
 */
#ifndef BRAID_FIELDS_EXPRESSION_H
#define BRAID_FIELDS_EXPRESSION_H

#include <regex.h>
#include <stdbool.h>

#include "tracebraid/types.h"

#define BRAID_EXPRESSION_NODES	128u

enum braid_expression_kind {
	BRAID_EXPRESSION_OR,
	BRAID_EXPRESSION_AND,
	BRAID_EXPRESSION_NOT,
	BRAID_EXPRESSION_NUMBER,	/* field OP number */
	BRAID_EXPRESSION_FIELD,	/* field OP field, both numbers */
	BRAID_EXPRESSION_TEXT,	/* field OP "text" */
};

enum braid_expression_op {
	BRAID_EXPRESSION_EQ, BRAID_EXPRESSION_NE, BRAID_EXPRESSION_LT, BRAID_EXPRESSION_GT,
	BRAID_EXPRESSION_LE, BRAID_EXPRESSION_GE, BRAID_EXPRESSION_BITS,
	BRAID_EXPRESSION_REGEX, BRAID_EXPRESSION_NOT_REGEX, BRAID_EXPRESSION_GLOB,
};

/* One step of an expression. */
struct braid_expression_node {
	enum braid_expression_kind kind;
	enum braid_expression_op op;
	u16 left, right;	/* OR, AND; NOT: left */
	char *field;
	char *text;		/* TEXT: what to compare with; FIELD: the other field's name */
	__int128 number;	/* any of 64 bits, signed or not */
	bool compiled;
	regex_t regex;
};

struct braid_expression {
	struct braid_expression_node nodes[BRAID_EXPRESSION_NODES];
	u32 nr_nodes;
	u32 root;
};

/**
 * braid_expression_parse - understand an expression
 * @e: zeroed; to be freed on failure too
 * @whole: the sanitized text that complaints name
 * @at: where the expression begins; it ends with the string
 * @example: a correct one, for complaints
 *
 * Return: 0, -EINVAL or -ENOMEM with braid_fail().
 */
int braid_expression_parse(struct braid_expression *e, const char *whole, const char *at,
			   const char *example);

/**
 * braid_expression_complain - report an error in a text of the language
 * @whole: the text, sanitized
 * @at: where the error is
 * @what: the error
 * @example: a correct text
 *
 * Return: -EINVAL, with braid_fail().
 */
int braid_expression_complain(const char *whole, const char *at, const char *what,
			      const char *example);

/** braid_expression_free - free what the nodes hold */
void braid_expression_free(struct braid_expression *e);

/** braid_expression_token - how an operator is written */
const char *braid_expression_token(enum braid_expression_op op);

#endif /* BRAID_FIELDS_EXPRESSION_H */
