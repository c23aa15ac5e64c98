// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Checks that a format text has the shape that kernels give theirs, before
 * libtraceevent sees it: field lines, then strings, then C expressions of a few kinds.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/private.h"

#define MAX_NESTING	64	/* of expressions */
#define MAX_TERMS	512	/* operands of one chain of operators */
#define MAX_DIVISOR	(1ULL << 32)
#define MAX_NUMBER	9999999	/* in a field's line */

static const char *const no_print = "its print format is not in the kernel's form";
static const char *const no_field = "its fields are not described in the kernel's form";

/* Fields ---------------------------------------------------------------------------------- */

/* Skips "KEY:digits;" and the tabs before. NULL when it is not there. */
static const char *skip_number(const char *s, const char *key)
{
	size_t n = strlen(key);
	char *end;

	while (*s == '\t' || *s == ' ')
		s++;
	if (strncmp(s, key, n) || !isdigit((unsigned char)s[n]) ||
	    strtoul(s + n, &end, 10) > MAX_NUMBER)
		return NULL;
	return *end == ';' ? end + 1 : NULL;
}

/* The names of an event's fields: each REC->name must be one, or the parser crashes. */
struct names {
	u32 nr;
	const char *at[BRAID_MAX_FIELDS + 8];
};

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* "type name" or "type name[N]": words, stars, plain brackets. *name: the last word. */
static const char *skip_declaration(const char *s, const char **name)
{
	u32 brackets = 0, words = 0;
	bool inside = false;
	char before = ' ';

	for (; *s && *s != ';'; before = *s++) {
		if (isalpha((unsigned char)*s) || *s == '_') {
			if (!inside && !in_word(before)) {
				words++;
				*name = s;
			}
		} else if (*s == '[' && !inside && ++brackets <= 2) {
			inside = true;
		} else if (*s == ']' && inside) {
			inside = false;
		} else if (!isdigit((unsigned char)*s) && *s != ' ' && (*s != '*' || inside)) {
			return NULL;
		}
	}
	/* The name ends it, or the brackets behind the name. */
	if (inside || words < 2 || *s != ';' || (before != ']' && !in_word(before)))
		return NULL;
	return s + 1;
}

static const char *skip_fields(const char *s, struct names *names)
{
	names->nr = 0;
	if (strncmp(s, "format:", 7))
		return NULL;
	for (s += 7; *s == '\n' || *s == ' '; s++)
		;
	while (!strncmp(s, "\tfield:", 7)) {
		if (names->nr == sizeof(names->at) / sizeof(names->at[0]))
			return NULL;
		s = skip_declaration(s + 7, &names->at[names->nr++]);
		s = s ? skip_number(s, "offset:") : NULL;
		s = s ? skip_number(s, "size:") : NULL;
		if (!s)
			return NULL;
		if (!strncmp(s + strspn(s, "\t "), "signed:", 7))
			s = skip_number(s, "signed:");
		if (!s || *s != '\n')
			return NULL;
		s += strspn(s, "\n");
	}
	return names->nr ? s : NULL;
}

const char *braid_check_fields(const char *text)
{
	struct names names;

	return skip_fields(text, &names);
}

/* Print format ------------------------------------------------------------------------------ */

/* What is left of the text, and how deep we are in it. NULL at: it is not sound. */
struct parser {
	const char *at;
	u32 depth;
	const struct names *names;
};

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool take(struct parser *p, const char *token)
{
	size_t n = strlen(token);

	skip_space(p);
	if (strncmp(p->at, token, n))
		return false;
	p->at += n;
	return true;
}

/* A word. Return: its length, 0 when there is none. */
static size_t take_word(struct parser *p, const char **word)
{
	size_t n = 0;

	skip_space(p);
	if (isalpha((unsigned char)*p->at) || *p->at == '_')
		while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')
			n++;
	*word = p->at;
	p->at += n;
	return n;
}

static bool is_word(const char *word, size_t n, const char *what)
{
	return n == strlen(what) && !strncmp(word, what, n);
}

static bool take_number(struct parser *p, unsigned long long *value)
{
	char *end;

	skip_space(p);
	if (!isdigit((unsigned char)*p->at))
		return false;
	*value = strtoull(p->at, &end, 0);
	while (*end && strchr("uUlL", *end))
		end++;
	if (isalnum((unsigned char)*end) || *end == '_' || *end == '.')
		return false;
	p->at = end;
	return true;
}

/* One or more strings, which C joins. */
static bool take_string(struct parser *p)
{
	bool any = false;

	for (;;) {
		skip_space(p);
		if (*p->at != '"')
			return any;
		for (p->at++; *p->at != '"'; p->at++) {
			if (*p->at == '\\')
				p->at++;
			if (!*p->at)
				return false;
		}
		p->at++;
		any = true;
	}
}

static bool take_character(struct parser *p)
{
	char c = p->at[1];

	if (c < ' ' || c > '~' || c == '\\' || c == '\'' || p->at[2] != '\'')
		return false;
	p->at += 3;
	return true;
}

static bool take_expression(struct parser *p);
static bool take_name(struct parser *p);

/* { value, "name" }; the newest kernels end a list by { 0, ((void *)0) }. */
static bool take_pair(struct parser *p)
{
	if (!take(p, "{") || !take_expression(p) || !take(p, ","))
		return false;
	return (take(p, "((void *)0)") || take_string(p)) && take(p, "}");
}

/* __print_flags() and __print_symbolic(), behind the opening bracket. */
static bool take_names(struct parser *p, bool flags)
{
	if (!take_expression(p) || !take(p, ",") || (flags && (!take_string(p) || !take(p, ","))))
		return false;
	do {
		if (!take_pair(p))
			return false;
	} while (take(p, ","));
	return take(p, ")");
}

static bool take_arguments(struct parser *p, u32 nr)
{
	while (nr--)
		if (!take_expression(p) || !take(p, nr ? "," : ")"))
			return false;
	return true;
}

/* What a call may be, and how many expressions it takes; 0: the name of a field. */
static const struct {
	const char *name;
	u32 nr;
} calls[] = {
	{ "__print_hex", 2 }, { "__print_hex_str", 2 }, { "__print_array", 3 },
	{ "__get_str", 0 }, { "__get_rel_str", 0 },
	{ "__get_dynamic_array", 0 }, { "__get_rel_dynamic_array", 0 },
	{ "__get_dynamic_array_len", 0 }, { "__get_rel_dynamic_array_len", 0 },
	{ "__get_bitmask", 0 }, { "__get_rel_bitmask", 0 },
	{ "__get_cpumask", 0 }, { "__get_rel_cpumask", 0 },
};

/* Behind "name(". */
static bool take_call(struct parser *p, const char *name, size_t n)
{
	const char *word;
	size_t k;

	if (is_word(name, n, "__print_flags") || is_word(name, n, "__print_symbolic"))
		return take_names(p, is_word(name, n, "__print_flags"));
	if (is_word(name, n, "sizeof")) {
		while (take_word(p, &word))
			;
		return take(p, ")");
	}
	for (k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
		if (!is_word(name, n, calls[k].name))
			continue;
		return calls[k].nr ? take_arguments(p, calls[k].nr) :
				     take_name(p) && take(p, ")");
	}
	return false;
}

/* A type in brackets before an operand: "(unsigned long)", "(void *)". */
static bool take_cast(struct parser *p)
{
	struct parser try = *p;
	const char *word;
	size_t n, words = 0;

	if (!take(&try, "("))
		return false;
	while ((n = take_word(&try, &word))) {
		if (is_word(word, n, "REC"))
			return false;
		words++;
	}
	while (take(&try, "*"))
		;
	if (!words || !take(&try, ")"))
		return false;
	skip_space(&try);
	/* "(A) + 1" is no cast; "(A) -1" is not worth the guess. */
	if (!isalnum((unsigned char)*try.at) && !strchr("_(\"!~", *try.at))
		return false;
	if (!*try.at)
		return false;
	*p = try;
	return true;
}

/* The name of a field that there is. */
static bool take_name(struct parser *p)
{
	const char *word;
	size_t n = take_word(p, &word);
	u32 k;

	for (k = 0; n && k < p->names->nr; k++)
		if (!strncmp(p->names->at[k], word, n) && !in_word(p->names->at[k][n]))
			return true;
	return false;
}

/* REC->field and what may follow it. */
static bool take_field(struct parser *p)
{
	if (!take(p, "->") || !take_name(p))
		return false;
	if (take(p, "["))
		return take_expression(p) && take(p, "]");
	return true;
}

static bool take_operand(struct parser *p)
{
	unsigned long long value;
	const char *word;
	size_t n;

	while (take_cast(p))
		if (++p->depth > MAX_NESTING)
			return false;
	skip_space(p);
	if (*p->at && strchr("!~-+", *p->at)) {
		p->at++;
		return ++p->depth <= MAX_NESTING && take_operand(p);
	}
	if (take(p, "(")) {
		if (!take_expression(p) || !take(p, ")"))
			return false;
		/* ((type)__get_dynamic_array(x))[1] */
		return !take(p, "[") || (take_expression(p) && take(p, "]"));
	}
	if (*p->at == '"')
		return take_string(p);
	if (*p->at == '\'')	/* one plain character */
		return take_character(p);
	if (isdigit((unsigned char)*p->at))
		return take_number(p, &value);
	n = take_word(p, &word);
	if (!n)
		return false;
	if (is_word(word, n, "REC"))
		return take_field(p);
	return take(p, "(") ? take_call(p, word, n) : true;
}

/* An operator between two operands; 0 when there is none. */
static char take_operator(struct parser *p)
{
	static const char *const two[] = { "<<", ">>", "<=", ">=", "==", "!=", "&&", "||" };
	size_t k;
	char c;

	for (k = 0; k < sizeof(two) / sizeof(two[0]); k++)
		if (take(p, two[k]))
			return two[k][0];
	skip_space(p);
	c = *p->at;
	if (!c || !strchr("+-*/%&|^<>", c))
		return 0;
	p->at++;
	return c;
}

/* What may be divided by: a constant that is not 0, and the end of its expression. */
static bool take_divisor(struct parser *p)
{
	bool bracket = take(p, "(");
	unsigned long long value;
	struct parser next;
	const char *word;
	size_t n;

	skip_space(p);
	if (isdigit((unsigned char)*p->at)) {
		if (!take_number(p, &value) || !value || value > MAX_DIVISOR)
			return false;
	} else {
		n = take_word(p, &word);
		if (!is_word(word, n, "sizeof") || !take(p, "(") || !take_call(p, word, n))
			return false;
	}
	if (bracket && !take(p, ")"))
		return false;
	next = *p;
	return !take_operator(&next);
}

static bool take_chain(struct parser *p)
{
	u32 terms = 0, depth = p->depth;
	char op;

	if (!take_operand(p))
		return false;
	while ((op = take_operator(p))) {
		p->depth = depth;
		if (++terms > MAX_TERMS)
			return false;
		if (op == '/' || op == '%') {
			if (!take_divisor(p))
				return false;
		} else if (!take_operand(p)) {
			return false;
		}
	}
	return true;
}

static bool take_expression(struct parser *p)
{
	u32 depth = p->depth;

	if (++p->depth > MAX_NESTING || !take_chain(p))
		return false;
	if (take(p, "?") && (!take_expression(p) || !take(p, ":") || !take_expression(p)))
		return false;
	p->depth = depth;
	return true;
}

const char *braid_check_grammar(const char *text, bool *whole)
{
	struct names names;
	struct parser p = { .at = skip_fields(text, &names), .names = &names };

	*whole = false;
	if (!p.at)
		return no_field;
	if (!take(&p, "print fmt:"))
		return no_print;
	if (!take_string(&p))
		return no_print;
	while (take(&p, ",")) {
		p.depth = 0;
		if (!take_expression(&p))
			return no_print;
	}
	skip_space(&p);
	if (*p.at)
		return no_print;
	*whole = true;
	return NULL;
}
