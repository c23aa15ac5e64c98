// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses print formats: strings, then C expressions of a few kinds. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/token.h"

#define MAX_DIVISOR	(1ULL << 32)	/* in a format for others */

static struct braid_node *expression(struct braid_parser *p);

static struct braid_node *bad(struct braid_parser *p)
{
	return braid_tree_fail(p->tree, "its print format is not in the kernel's syntax");
}

/* As braid_token_take(), but the format is bad without it. */
static bool need(struct braid_parser *p, const char *token)
{
	return braid_token_take(p, token) || bad(p);
}

static struct braid_node *tree_take_number(struct braid_parser *p)
{
	struct braid_node *n = braid_node_new(p->tree, BRAID_NODE_CONSTANT);
	char *end;

	if (!n)
		return NULL;
	n->text = p->at;
	n->number = strtoull(p->at, &end, 0);
	end += strspn(end, "uUlL");
	n->text_bytes = end - p->at;
	p->at = end;
	return isalnum((unsigned char)*end) || *end == '_' || *end == '.' ? bad(p) : n;
}

/* One plain character. */
static struct braid_node *take_character(struct braid_parser *p)
{
	struct braid_node *n;
	char c = p->at[1];

	if (c < ' ' || c > '~' || c == '\\' || c == '\'' || p->at[2] != '\'')
		return bad(p);
	n = braid_node_new(p->tree, BRAID_NODE_CONSTANT);
	if (!n)
		return NULL;
	n->number = c;
	p->at += 3;
	return n;
}

/* "ent.NAME" is the common field common_NAME: since 7.2, vmscan's print formats name pid so. */
static const struct braid_field *take_common_name(struct braid_parser *p)
{
	const char *word;
	char name[32];
	size_t n = braid_token_take_word(p, &word);

	if (!n || snprintf(name, sizeof(name), "common_%.*s", (int)n, word) >= (int)sizeof(name))
		return NULL;
	p->tree->portable = false;
	return braid_layout_find(p->layout, name);
}

static const struct braid_field *take_name(struct braid_parser *p)
{
	const struct braid_field *field;
	const char *word;
	size_t n = braid_token_take_word(p, &word);

	field = n ? braid_layout_find_bytes(p->layout, word, n) : NULL;
	if (!field && braid_token_is_word(word, n, "ent") && braid_token_take(p, "."))
		field = take_common_name(p);
	if (!field)
		braid_tree_fail(p->tree, "its print format names a nonexistent field");
	return field;
}

static u64 mask_of(u32 bytes)
{
	return bytes && bytes < 8 ? (1ULL << 8 * bytes) - 1 : ~0ULL;
}

/*
 * A type in brackets before an operand. Its node has no operand yet: number is what the type
 * keeps; of a pointer it has a size, and base is the size of what it points to. NULL: it is
 * something else, or ->why.
 */
static struct braid_node *take_cast(struct braid_parser *p)
{
	struct braid_parser try = *p;
	struct braid_node *n;
	char type[BRAID_TYPE_BYTES];
	u32 stars, bytes;
	bool plain;

	if (!braid_token_take(&try, "(") || !braid_token_take_type(&try, type, &stars))
		return NULL;
	braid_token_skip_space(&try);
	plain = isalnum((unsigned char)*try.at) || (*try.at && strchr("_(\"", *try.at));
	bytes = braid_type_bytes(type);
	/* "(A) + 1" is not a cast, "(int) -1" is one. */
	if (!plain && *try.at != '!' && *try.at != '~' &&
	    (*try.at != '-' || (!bytes && !stars)))
		return NULL;
	n = braid_node_new(p->tree, BRAID_NODE_CAST);
	if (!n)
		return NULL;
	p->at = try.at;
	p->tree->portable &= plain;
	n->number = stars ? ~0ULL : mask_of(bytes);
	n->base = stars == 1 ? bytes : stars ? 8 : 0;
	n->size = stars ? 8 : 0;
	return n;
}

/* Calls ------------------------------------------------------------------------------------ */

/* What libtraceevent takes a name in the place of a number for. */
static u64 named_value(const char *word, size_t n)
{
	static const struct {
		const char *name;
		u64 value;
	} known[] = {
		{ "HI_SOFTIRQ", 0 }, { "TIMER_SOFTIRQ", 1 }, { "NET_TX_SOFTIRQ", 2 },
		{ "NET_RX_SOFTIRQ", 3 }, { "BLOCK_SOFTIRQ", 4 }, { "IRQ_POLL_SOFTIRQ", 5 },
		{ "TASKLET_SOFTIRQ", 6 }, { "SCHED_SOFTIRQ", 7 }, { "HRTIMER_SOFTIRQ", 8 },
		{ "RCU_SOFTIRQ", 9 }, { "HRTIMER_NORESTART", 0 }, { "HRTIMER_RESTART", 1 },
	};
	size_t k;

	for (k = 0; k < sizeof(known) / sizeof(known[0]); k++)
		if (braid_token_is_word(word, n, known[k].name))
			return known[k].value;
	return -1;
}

/* { value, "name" }; some lists end with { 0, ((void *)0) }, { -1, 0 } or { }. */
static bool take_pair(struct braid_parser *p, struct braid_node ***to)
{
	struct braid_node *value, *name;
	const char *text;

	if (!need(p, "{"))
		return false;
	if (braid_token_take(p, "}")) {
		p->tree->portable = false;
		return true;
	}
	p->seldom = false;
	value = expression(p);
	if (!value || value->op != BRAID_NODE_CONSTANT || !need(p, ","))
		return bad(p);
	p->tree->portable &= !p->seldom;
	if (braid_token_take(p, "((void *)0)") || braid_token_take(p, "0"))
		return need(p, "}");
	text = braid_token_take_string(p);
	if (!text || !need(p, "}"))
		return bad(p);
	name = braid_node_new(p->tree, BRAID_NODE_NAME);
	if (!name)
		return false;
	name->number = value->number;
	if (value->text && !isdigit((unsigned char)*value->text))
		name->number = named_value(value->text, value->text_bytes);
	name->text = text;
	**to = name;
	*to = &name->next;
	return true;
}

/* __print_flags() and __print_symbolic(), after the opening bracket. */
static struct braid_node *take_names(struct braid_parser *p, bool flags)
{
	enum braid_node_op op = flags ? BRAID_NODE_FLAGS : BRAID_NODE_SYMBOLIC;
	struct braid_node *n = braid_node_new(p->tree, op), **to;

	if (!n)
		return NULL;
	n->right = expression(p);
	if (!n->right || !braid_node_is_number(n->right) || !need(p, ","))
		return bad(p);
	if (flags) {
		n->text = braid_token_take_string(p);
		if (!n->text || !need(p, ","))
			return bad(p);
	}
	to = &n->other;
	do {
		if (!take_pair(p, &to))
			return NULL;
	} while (braid_token_take(p, ","));
	return need(p, ")") ? n : NULL;
}

/* __print_hex() and __print_array(), after the opening bracket. */
static struct braid_node *take_array(struct braid_parser *p, enum braid_node_op op)
{
	struct braid_node *n = braid_node_new(p->tree, op), *size = NULL;

	if (!n)
		return NULL;
	n->left = expression(p);
	n->right = n->left && need(p, ",") ? expression(p) : NULL;
	if (n->right && op == BRAID_NODE_ARRAY)
		size = need(p, ",") ? expression(p) : NULL;
	if (!n->right || !braid_node_is_number(n->right) || !need(p, ")"))
		return bad(p);
	n->size = 1;
	if (op != BRAID_NODE_ARRAY)
		return n;
	if (!size || size->op != BRAID_NODE_CONSTANT || !size->number || size->number > 8 ||
	    size->number & (size->number - 1))
		return braid_tree_fail(p->tree,
				       "the elements of an array in its print format have no size");
	n->size = size->number;
	return n;
}

/* A dynamic field's name, after the opening bracket. */
static struct braid_node *take_dynamic(struct braid_parser *p, enum braid_node_op op)
{
	const struct braid_field *field = take_name(p);
	struct braid_node *n;

	if (!field || !need(p, ")"))
		return NULL;
	if (!(field->flags & BRAID_FIELD_DYNAMIC))
		return braid_tree_fail(p->tree,
				       "its print format uses a static field as a dynamic one");
	n = braid_node_new(p->tree, op);
	if (!n)
		return NULL;
	n->field = field;
	n->offset = field->offset;
	n->base = braid_field_base(field);
	/* Others can't read the length of such an array. */
	p->tree->portable &= op != BRAID_NODE_LENGTH || !n->base;
	return n;
}

static struct braid_node *take_sizeof(struct braid_parser *p)
{
	struct braid_node *n = braid_node_new(p->tree, BRAID_NODE_CONSTANT);
	const struct braid_field *field;
	char type[BRAID_TYPE_BYTES];
	u32 stars;

	if (!n)
		return NULL;
	if (braid_token_take(p, "REC->")) {
		field = take_name(p);
		p->tree->portable = false;
		n->number = field ? field->size : 0;
		return n->number && !(field->flags & BRAID_FIELD_DYNAMIC) && need(p, ")") ? n :
			bad(p);
	}
	if (!braid_token_take_type(p, type, &stars))
		return bad(p);
	n->number = stars ? 8 : braid_type_bytes(type);
	/* Others know no more types than these. */
	p->tree->portable &= !stars && !strchr(type, '_') &&
			     (strstr(type, "int") || strstr(type, "long"));
	return n->number ? n :
	       braid_tree_fail(p->tree, "its print format asks for the size of an unknown type");
}

/* After "name(". */
static struct braid_node *take_call(struct braid_parser *p, const char *name, size_t n)
{
	static const struct {
		const char *name;
		enum braid_node_op op;
	} calls[] = {
		{ "__get_str", BRAID_NODE_STRING }, { "__get_rel_str", BRAID_NODE_STRING },
		{ "__get_dynamic_array", BRAID_NODE_DYNAMIC },
		{ "__get_rel_dynamic_array", BRAID_NODE_DYNAMIC },
		{ "__get_sockaddr", BRAID_NODE_DYNAMIC },
		{ "__get_rel_sockaddr", BRAID_NODE_DYNAMIC },
		{ "__get_dynamic_array_len", BRAID_NODE_LENGTH },
		{ "__get_rel_dynamic_array_len", BRAID_NODE_LENGTH },
		{ "__get_stacktrace", BRAID_NODE_FRAMES },
		{ "__get_rel_stacktrace", BRAID_NODE_FRAMES },
		{ "__get_bitmask", BRAID_NODE_MASK }, { "__get_rel_bitmask", BRAID_NODE_MASK },
		{ "__get_cpumask", BRAID_NODE_CPUS }, { "__get_rel_cpumask", BRAID_NODE_CPUS },
		{ "__print_flags", BRAID_NODE_FLAGS },
		{ "__print_symbolic", BRAID_NODE_SYMBOLIC },
		{ "__print_hex", BRAID_NODE_HEX }, { "__print_hex_str", BRAID_NODE_HEX_STR },
		{ "__print_array", BRAID_NODE_ARRAY },
	};
	struct braid_node *value;
	size_t k;

	for (k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
		enum braid_node_op op = calls[k].op;

		if (!braid_token_is_word(name, n, calls[k].name))
			continue;
		if (op == BRAID_NODE_FLAGS || op == BRAID_NODE_SYMBOLIC)
			return take_names(p, op == BRAID_NODE_FLAGS);
		return op >= BRAID_NODE_HEX ? take_array(p, op) : take_dynamic(p, op);
	}
	if (braid_token_is_word(name, n, "sizeof"))
		return take_sizeof(p);
	p->tree->portable = false;
	if (!braid_token_is_word(name, n, "__builtin_expect"))
		return braid_tree_fail(p->tree, "its print format calls a function");
	value = expression(p);
	return value && need(p, ",") && expression(p) && need(p, ")") ? value : NULL;
}

/* Expressions ------------------------------------------------------------------------------ */

static struct braid_node *field_node(struct braid_parser *p, const struct braid_field *field)
{
	struct braid_node *n = field ? braid_node_new(p->tree, BRAID_NODE_FIELD) : NULL;

	if (!n)
		return NULL;
	n->field = field;
	n->offset = field->offset;
	n->size = braid_node_size(field->size);
	return n;
}

/* After REC. */
static struct braid_node *take_field(struct braid_parser *p)
{
	return need(p, "->") ? field_node(p, take_name(p)) : NULL;
}

static struct braid_node *take_named(struct braid_parser *p)
{
	struct braid_node *n;
	const char *word;
	size_t bytes = braid_token_take_word(p, &word);

	if (!bytes)
		return bad(p);
	if (braid_token_is_word(word, bytes, "REC"))
		return take_field(p);
	if (braid_token_take(p, "("))
		return take_call(p, word, bytes);
	/* Names are not known, and count as 0. */
	n = braid_node_new(p->tree, BRAID_NODE_CONSTANT);
	if (!n)
		return NULL;
	n->text = word;
	n->text_bytes = bytes;
	return n;
}

static struct braid_node *take_primary(struct braid_parser *p)
{
	struct braid_node *n, *index;
	const char *text;

	braid_token_skip_space(p);
	if (braid_token_take(p, "(REC)")) {
		p->tree->portable = false;
		n = take_field(p);
	} else if (braid_token_take(p, "(")) {
		n = expression(p);
		n = n && need(p, ")") ? n : NULL;
	} else if (*p->at == '"') {
		text = braid_token_take_string(p);
		n = text ? braid_node_new(p->tree, BRAID_NODE_TEXT) : bad(p);
		if (n)
			n->text = text;
	} else if (*p->at == '\'') {
		n = take_character(p);
	} else {
		n = isdigit((unsigned char)*p->at) ? tree_take_number(p) : take_named(p);
	}
	if (!n || !braid_token_take(p, "["))
		return n;
	index = expression(p);
	return index && need(p, "]") ? braid_node_element(p->tree, n, index) : NULL;
}

static struct braid_node *take_operand(struct braid_parser *p)
{
	static const char unary[] = "!~-+";
	static const enum braid_node_op ops[] = {
		BRAID_NODE_NOT, BRAID_NODE_INVERT, BRAID_NODE_NEGATE,
	};
	struct braid_node *n = take_cast(p);
	const char *found;

	if (p->tree->why || ++p->depth > BRAID_MAX_NESTING)
		return braid_tree_fail(p->tree, "its print format is too complicated");
	if (n) {
		n->right = take_operand(p);
		if (!n->right)
			return NULL;
		n = braid_node_join(p->tree, n);
		return n && !n->size ? braid_node_fold(n) : n;	/* a pointer stays one */
	}
	braid_token_skip_space(p);
	found = *p->at ? strchr(unary, *p->at) : NULL;
	if (!found)
		return take_primary(p);
	p->at++;
	p->seldom |= *found == '!';
	n = take_operand(p);
	return !n || *found == '+' ? n : braid_node_operation(p->tree, ops[found - unary], NULL, n);
}

/* Longer ones before their beginnings. */
static const struct {
	const char *token;
	enum braid_node_op op;
	u32 level;
} operators[] = {
	{ "<<", BRAID_NODE_SHIFT_LEFT, 8 }, { ">>", BRAID_NODE_SHIFT_RIGHT, 8 },
	{ "<=", BRAID_NODE_LESS_EQUAL, 7 }, { ">=", BRAID_NODE_GREATER_EQUAL, 7 },
	{ "==", BRAID_NODE_EQUAL, 6 }, { "!=", BRAID_NODE_UNEQUAL, 6 },
	{ "&&", BRAID_NODE_AND, 2 }, { "||", BRAID_NODE_OR, 1 },
	{ "+", BRAID_NODE_PLUS, 9 }, { "-", BRAID_NODE_MINUS, 9 }, { "*", BRAID_NODE_TIMES, 10 },
	{ "/", BRAID_NODE_DIVIDE, 10 }, { "%", BRAID_NODE_MODULO, 10 },
	{ "&", BRAID_NODE_BIT_AND, 5 }, { "|", BRAID_NODE_BIT_OR, 3 },
	{ "^", BRAID_NODE_BIT_XOR, 4 }, { "<", BRAID_NODE_LESS, 7 }, { ">", BRAID_NODE_GREATER, 7 },
};

/* Whether others may divide by what comes next. */
static bool plain_divisor(const struct braid_parser *p)
{
	struct braid_parser next = *p;
	bool bracket = braid_token_take(&next, "(");
	unsigned long long value;
	char *end;

	braid_token_skip_space(&next);
	if (!isdigit((unsigned char)*next.at))
		return !bracket && !strncmp(next.at, "sizeof", 6);
	value = strtoull(next.at, &end, 0);
	next.at = end + strspn(end, "uUlL");
	return value && value <= MAX_DIVISOR && (!bracket || braid_token_take(&next, ")"));
}

/* A chain of operators of at least @level. */
static struct braid_node *chain(struct braid_parser *p, u32 level)
{
	struct braid_node *left, *right;
	u32 depth = p->depth;
	size_t k;

	for (left = take_operand(p); left;) {
		p->depth = depth;
		braid_token_skip_space(p);
		for (k = 0; k < sizeof(operators) / sizeof(operators[0]); k++)
			if (!strncmp(p->at, operators[k].token, strlen(operators[k].token)))
				break;
		if (k == sizeof(operators) / sizeof(operators[0]) || operators[k].level < level)
			return left;
		p->at += strlen(operators[k].token);
		/* Others may divide by all that follows. */
		p->tree->portable &= !p->divided;
		p->divided = *operators[k].token == '/' || *operators[k].token == '%';
		p->tree->portable &= !p->divided || plain_divisor(p);
		p->seldom |= !!strchr("*/%^", *operators[k].token);
		p->tree->portable &= *operators[k].token != '^';
		right = chain(p, operators[k].level + 1);
		left = right ? braid_node_operation(p->tree, operators[k].op, left, right) : NULL;
	}
	return NULL;
}

static struct braid_node *expression(struct braid_parser *p)
{
	struct braid_node *n, *choice;
	bool divided = p->divided;
	u32 depth = p->depth;

	if (++p->depth > BRAID_MAX_NESTING)
		return braid_tree_fail(p->tree, "its print format is too complicated");
	p->divided = false;
	n = chain(p, 1);
	if (n && braid_token_take(p, "?")) {
		if (!braid_node_is_number(n))
			return bad(p);
		p->seldom = true;
		choice = braid_node_new(p->tree, BRAID_NODE_CHOICE);
		if (!choice)
			return NULL;
		choice->left = n;
		choice->right = expression(p);
		choice->other = choice->right && need(p, ":") ? expression(p) : NULL;
		n = choice->other ? braid_node_join(p->tree, choice) : NULL;
		if (n && braid_node_is_number(n))
			n = braid_node_fold(n);
	}
	p->divided = divided;
	p->depth = depth;
	return n;
}

const char *braid_tree_parse(struct braid_tree *tree, const char *text,
			     const struct braid_layout *layout)
{
	struct braid_parser p = { .at = text, .tree = tree, .layout = layout };
	struct braid_node **to = &tree->args;
	const struct braid_field *f;
	const char *why;

	memset(tree, 0, sizeof(*tree));
	tree->portable = true;
	/* A string is shorter than with its quotes. */
	tree->pool = p.pool = malloc(strlen(text) + 1);
	if (!tree->pool)
		return "out of memory";
	if (need(&p, "print fmt:")) {
		tree->format = braid_token_take_string(&p);
		if (!tree->format)
			bad(&p);
	}
	while (!tree->why && braid_token_take(&p, ",")) {
		*to = expression(&p);
		if (*to)
			to = &(*to)->next;
		else
			bad(&p);
	}
	braid_token_skip_space(&p);
	if (!tree->why && *p.at)
		bad(&p);
	/* Print formats of the system ftrace may have no arguments: these are all fields. */
	f = tree->args || strcmp(layout->system, "ftrace") ? NULL : layout->fields;
	for (; f && !tree->why; f = f->next) {
		*to = field_node(&p, f);
		to = *to ? &(*to)->next : to;
	}
	why = tree->why;
	if (why)
		braid_tree_free(tree);
	return why;
}
