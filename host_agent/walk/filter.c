// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Parses filters. The language is libtraceevent's, its fields too, but not its evaluation: that
 * divides by what a guest says, believes an unfinished expression, takes negative numbers for
 * large ones and a field that is not there for a difference.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/error.h"
#include "host_agent/util/text.h"
#include "host_agent/walk/filter.h"

#define MAX_DEPTH	32u

struct parser {
	struct braid_filter *filter;
	const char *at;
	u32 depth;
};

static int filter_complain(const struct parser *p, const char *what)
{
	char rest[64];

	snprintf(rest, sizeof(rest), "%s", p->at);
	braid_text_clean(rest);
	return braid_fail(-EINVAL, "filter '%s': %s, %s%s%s; an example: 'sched_switch: prev_prio < 100 && next_comm ~ \"q*\"'",
			  p->filter->text, what, *rest ? "at '" : "at its end", rest,
			  *rest ? "'" : "");
}

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool filter_take(struct parser *p, const char *token)
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
static bool filter_take_number(struct parser *p, __int128 *number)
{
	const char *start = p->at;
	bool minus = filter_take(p, "-");
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
static char *filter_take_text(struct parser *p)
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

static struct braid_filter_node *add_node(struct parser *p, enum braid_filter_kind kind,
					  u16 *number)
{
	struct braid_filter *f = p->filter;

	if (f->nr_nodes == BRAID_FILTER_NODES) {
		braid_fail(-EINVAL, "filter '%s': more than %u steps; split it into several filters",
			   f->text, BRAID_FILTER_NODES);
		return NULL;
	}
	*number = f->nr_nodes++;
	f->nodes[*number].kind = kind;
	return &f->nodes[*number];
}

static const struct {
	const char *token;
	enum braid_filter_op op;
	bool of_numbers, of_texts;
} operators[] = {	/* longer ones first */
	{ "==", BRAID_FILTER_EQ, true, true },
	{ "!=", BRAID_FILTER_NE, true, true },
	{ "<=", BRAID_FILTER_LE, true, false },
	{ ">=", BRAID_FILTER_GE, true, false },
	{ "=~", BRAID_FILTER_REGEX, false, true },
	{ "!~", BRAID_FILTER_NOT_REGEX, false, true },
	{ "<", BRAID_FILTER_LT, true, false },
	{ ">", BRAID_FILTER_GT, true, false },
	{ "~", BRAID_FILTER_GLOB, false, true },
	{ "&", BRAID_FILTER_BITS, true, false },
};

#define NR_OPERATORS	(sizeof(operators) / sizeof(operators[0]))

/* The operand after the operator. */
static int take_value(struct parser *p, struct braid_filter_node *node, size_t k)
{
	const char *before = p->at;

	node->op = operators[k].op;
	node->kind = BRAID_FILTER_NUMBER;
	if (filter_take_number(p, &node->number))
		goto number;
	node->text = filter_take_text(p);
	if (node->text) {
		node->kind = BRAID_FILTER_TEXT;
		if (!operators[k].of_texts)
			return p->at = before, filter_complain(p, "strings cannot be compared by this operator");
		if (node->op != BRAID_FILTER_REGEX && node->op != BRAID_FILTER_NOT_REGEX)
			return 0;
		if (regcomp(&node->regex, node->text, REG_ICASE | REG_NOSUB))
			return p->at = before, filter_complain(p, "not a valid regular expression");
		node->compiled = true;
		return 0;
	}
	node->text = take_word(p);
	if (!node->text)
		return filter_complain(p, "a number, a \"text\" or a field is missing");
	node->kind = BRAID_FILTER_FIELD;
number:
	return operators[k].of_numbers ? 0 :
	       (p->at = before, filter_complain(p, "a pattern in quotes is missing"));
}

static int take_comparison(struct parser *p, u16 *out)
{
	struct braid_filter_node *node = add_node(p, BRAID_FILTER_NUMBER, out);
	size_t k;

	if (!node)
		return -EINVAL;
	node->field = take_word(p);
	if (!node->field)
		return filter_complain(p, "the name of a field is missing");
	skip_space(p);
	for (k = 0; k < NR_OPERATORS && strncmp(p->at, "&&", 2); k++)
		if (filter_take(p, operators[k].token))
			return take_value(p, node, k);
	return filter_complain(p, "expected an operator: == != < > <= >= & =~ !~ ~");
}

static int take_any(struct parser *p, u16 *out);

static int take_one(struct parser *p, u16 *out)
{
	struct braid_filter_node *node;
	int err;

	if (++p->depth > MAX_DEPTH)
		return filter_complain(p, "it is nested too deeply");
	if (filter_take(p, "!")) {
		node = add_node(p, BRAID_FILTER_NOT, out);
		err = node ? take_one(p, &node->left) : -EINVAL;
	} else if (filter_take(p, "(")) {
		err = take_any(p, out);
		if (!err && !filter_take(p, ")"))
			err = filter_complain(p, "a ')' is missing");
	} else {
		err = take_comparison(p, out);
	}
	p->depth--;
	return err;
}

/* Operands of one operator, from left to right. */
static int take_chain(struct parser *p, u16 *out, enum braid_filter_kind kind)
{
	const char *token = kind == BRAID_FILTER_AND ? "&&" : "||";
	struct braid_filter_node *node;
	u16 left, right;
	int err;

	err = kind == BRAID_FILTER_AND ? take_one(p, &left) :
					 take_chain(p, &left, BRAID_FILTER_AND);
	while (!err && filter_take(p, token)) {
		err = kind == BRAID_FILTER_AND ? take_one(p, &right) :
						 take_chain(p, &right, BRAID_FILTER_AND);
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
	return take_chain(p, out, BRAID_FILTER_OR);
}

/* Events ---------------------------------------------------------------------------------- */

/* A name is a regular expression of the whole, as it is for trace-cmd. */
static bool compile_name(regex_t *to, const char *from, size_t bytes)
{
	char *whole;
	int err;

	while (bytes && isspace((unsigned char)*from))
		from++, bytes--;
	while (bytes && isspace((unsigned char)from[bytes - 1]))
		bytes--;
	if (!bytes || asprintf(&whole, "^%.*s$", (int)bytes, from) < 0)
		return false;
	err = regcomp(to, whole, REG_ICASE | REG_NOSUB);
	free(whole);
	return !err;
}

/* "EVENT", "SYSTEM" or "SYSTEM/EVENT". */
static bool filter_take_event(struct braid_filter *f, const char *from, size_t bytes)
{
	struct braid_filter_event *event = &f->events[f->nr_events];
	const char *slash = memchr(from, '/', bytes);

	if (f->nr_events == BRAID_FILTER_EVENTS)
		return false;
	f->nr_events++;
	if (slash) {
		event->has_system = compile_name(&event->system, from, slash - from);
		if (!event->has_system)
			return false;
		bytes -= slash + 1 - from;
		from = slash + 1;
	}
	event->has_name = compile_name(&event->name, from, bytes);
	return event->has_name;
}

static int filter_take_events(struct parser *p)
{
	const char *at = p->at, *end = strchr(at, ':'), *next;

	if (!end)
		end = at + strlen(at);
	for (; at <= end; at = next + 1) {
		next = memchr(at, ',', end - at);
		if (!next)
			next = end;
		if (!filter_take_event(p->filter, at, next - at)) {
			p->at = at;
			return filter_complain(p, "expected the name of an event");
		}
	}
	p->at = end;
	return 0;
}

bool braid_filter_names(const struct braid_filter *filter, const char *system, const char *name)
{
	u32 k;

	for (k = 0; k < filter->nr_events; k++) {
		const struct braid_filter_event *e = &filter->events[k];
		bool of_name = !regexec(&e->name, name, 0, NULL, 0);
		const regex_t *of = e->has_system ? &e->system : &e->name;
		bool of_system = !regexec(of, system, 0, NULL, 0);

		if (e->has_system ? of_name && of_system : of_name || of_system)
			return true;
	}
	return false;
}

/* SYSTEM:EVENT, as for -e: no other expression has a single word, or a word and a colon, there. */
static int explain_colon(const struct braid_filter *f, int err)
{
	size_t system = strcspn(f->text, ":,/"), event;
	const char *rest;

	if (f->text[system] != ':')
		return err;
	rest = f->text + system + 1;
	event = strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_*?");
	if (!event || (rest[event] && rest[event] != ':'))
		return err;
	return braid_fail(-EINVAL, "filter '%s': SYSTEM:EVENT is how -e names events; here it is SYSTEM/EVENT: '%.*s/%s'",
			  f->text, (int)system, f->text, rest);
}

int braid_filter_parse(struct braid_filter **out, const char *text)
{
	struct braid_filter *f = calloc(1, sizeof(*f));
	struct parser p = { .filter = f, .at = text };
	u16 root = 0;
	int err;

	if (f)
		f->text = strdup(text);
	if (!f || !f->text) {
		free(f);
		return braid_out_of_memory();
	}
	braid_text_clean(f->text);
	err = filter_take_events(&p);
	if (!err && filter_take(&p, ":")) {
		err = take_any(&p, &root);
		skip_space(&p);
		if (!err && *p.at)
			err = filter_complain(&p, "&& or || is missing");
		f->root = root;
	}
	if (err == -EINVAL)
		err = explain_colon(f, err);
	if (err)
		braid_filter_free(f);
	else
		*out = f;
	return err;
}

void braid_filter_free(struct braid_filter *filter)
{
	u32 k;

	if (!filter)
		return;
	for (k = 0; k < filter->nr_events; k++) {
		if (filter->events[k].has_system)
			regfree(&filter->events[k].system);
		if (filter->events[k].has_name)
			regfree(&filter->events[k].name);
	}
	for (k = 0; k < filter->nr_nodes; k++) {
		free(filter->nodes[k].field);
		free(filter->nodes[k].text);
		if (filter->nodes[k].compiled)
			regfree(&filter->nodes[k].regex);
	}
	free(filter->text);
	free(filter);
}
