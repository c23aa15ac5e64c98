// SPDX-License-Identifier: GPL-2.0-or-later
/* Compiles the tree of a print format to steps: conversions behave as in libtraceevent. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/builder.h"
#include "host_agent/util/address.h"


/* Text between conversions, with its escapes. Return: false: odd. */
static bool compile_take_text(struct braid_compiler *c)
{
	char *text = malloc(strlen(c->at) + 1);
	size_t n = 0;
	bool good;

	for (good = text; good && *c->at && (*c->at != '%' || c->at[1] == '%'); c->at++) {
		char ch = *c->at;

		if (ch == '%') {
			c->at++;
		} else if (ch == '\\') {
			ch = *++c->at;
			good = ch;
			ch = ch == 'n' ? '\n' : ch == 't' ? '\t' : ch == 'r' ? '\r' : ch;
		}
		if (good)
			text[n++] = ch;
	}
	good = good && braid_add_text(c, text, n);
	free(text);
	return good || braid_compile_fail(c, BRAID_NO_CONVERSION);
}

/* Conversions ------------------------------------------------------------------------------ */

static s16 compile_take_number(struct braid_compiler *c)
{
	unsigned int n = 0;

	for (; isdigit((unsigned char)*c->at) && n <= BRAID_MOST_WIDTH; c->at++)
		n = 10 * n + *c->at - '0';
	return n <= BRAID_MOST_WIDTH ? (s16)n : -1;
}

static bool take_length(struct braid_compiler *c, struct braid_conversion *v)
{
	size_t n = 0;

	while (*c->at && strchr("hlLzZ", *c->at)) {
		if (n == 2)
			return false;
		v->length[n++] = *c->at++;
	}
	return n < 2 || !strcmp(v->length, "hh") || !strcmp(v->length, "ll");
}

static bool take_star(struct braid_compiler *c)
{
	bool star = *c->at == '*';

	c->at += star;
	return star;
}

/* After the '%'. */
static bool take_conversion(struct braid_compiler *c, struct braid_conversion *v)
{
	memset(v, 0, sizeof(*v));
	v->shape.most = -1;
	for (; *c->at && strchr("-0#+ ", *c->at); c->at++) {
		v->shape.left |= *c->at == '-';
		v->shape.zeros |= *c->at == '0';
		v->alternate |= *c->at == '#';
		v->plus |= *c->at == '+';
		v->space |= *c->at == ' ';
	}
	v->wide = take_star(c);
	v->shape.width = compile_take_number(c);
	if (*c->at == '.') {
		c->at++;
		v->precise = true;
		v->counted = take_star(c);
		if (!v->counted)
			v->shape.most = compile_take_number(c);
		if (!v->counted && v->shape.most < 0)
			return braid_compile_fail(c, "a width in its print format is too large");
	}
	if (v->shape.width < 0)
		return braid_compile_fail(c, "a width in its print format is too large");
	if (!take_length(c, v) || !*c->at)
		return braid_compile_fail(c, BRAID_NO_CONVERSION);
	v->type = *c->at++;
	return true;
}

static u8 number_bytes(const struct braid_conversion *v)
{
	if (!strcmp(v->length, "hh"))
		return 1;
	if (!strcmp(v->length, "h"))
		return 2;
	return *v->length ? 8 : 4;
}

/* One that is seldom is left to sprintf(), which takes a long long then. */
static void make_printf(struct braid_step *p, const struct braid_conversion *v)
{
	char precision[8] = "";

	if (v->precise)
		snprintf(precision, sizeof(precision), ".%d", v->shape.most);
	p->op = BRAID_STEP_PRINTF;
	snprintf(p->shape.format, sizeof(p->shape.format), "%%%s%s%s%s%s%.0d%sll%c",
		 v->plus ? "+" : "", v->space ? " " : "", v->alternate ? "#" : "",
		 v->shape.zeros ? "0" : "", v->shape.left ? "-" : "", v->shape.width, precision,
		 v->type);
}

static bool add_number(struct braid_compiler *c, const struct braid_conversion *v,
		       const struct braid_node *arg)
{
	struct braid_step p = { .op = BRAID_STEP_DECIMAL, .shape = v->shape };

	if (v->counted || v->wide)
		return braid_compile_fail(c, "a width in its print format comes from the event");
	if (v->type == 'c') {
		p.op = BRAID_STEP_CHAR;
		c->steps->portable = false;
		return braid_add_value(c, &p, arg, BRAID_NUMBER_BYTES);
	}
	p.shape.bytes = number_bytes(v);
	p.shape.sign = v->type == 'd' || v->type == 'i';
	p.shape.prefix = v->alternate;
	p.shape.upper = v->type == 'X';
	p.shape.zeros &= !v->shape.left;
	if (v->type == 'x' || v->type == 'X')
		p.op = BRAID_STEP_HEX;
	if (v->precise || v->type == 'o' || v->plus || v->space ||
	    (v->alternate && p.op != BRAID_STEP_HEX))
		make_printf(&p, v);
	return braid_add_value(c, &p, arg, BRAID_NUMBER_BYTES);
}

/* %pI4 etc.: libtraceevent prints these of static fields only, or reads past them. */
static bool add_address(struct braid_compiler *c, const struct braid_conversion *v,
			const struct braid_node *arg)
{
	static const char *const letters[][2] = {
		{ "M", "RF" }, { "m", "RF" }, { "I4", "hnbl" }, { "i4", "hnbl" }, { "I6", "c" },
		{ "i6", "" }, { "IS", "pfschnbl" }, { "iS", "pfshnbl" }, { "U", "bBlL" },
	};
	struct braid_step p = { .op = BRAID_STEP_ADDRESS };
	size_t k, n;

	for (k = 0; k < sizeof(letters) / sizeof(letters[0]); k++) {
		n = strlen(letters[k][0]);
		if (strncmp(c->at, letters[k][0], n))
			continue;
		n += strspn(c->at + n, letters[k][1]);
		if (n >= sizeof(p.variant))
			break;
		memcpy(p.variant, c->at, n);
		c->at += n;
		if (v->counted || v->wide || !braid_set_place(c, &p, arg))
			return braid_compile_fail(c, BRAID_NO_CONVERSION);
		c->steps->portable &= !p.dynamic;
		return braid_add_step(c, &p, BRAID_ADDRESS_BYTES, 0);
	}
	return braid_compile_fail(c, BRAID_NO_CONVERSION);
}

/* Of %16ph and %16pb: a number like the argument of %*ph. NULL: out of memory. */
static const struct braid_node *width_node(struct braid_compiler *c,
					   const struct braid_conversion *v)
{
	struct braid_node *n = braid_node_new(&c->steps->tree, BRAID_NODE_CONSTANT);

	if (n)
		n->number = v->shape.width;
	return n;
}

/* %*ph and %*pb: an argument gives the number of bytes or bits, or the width does. */
static bool add_counted(struct braid_compiler *c, const struct braid_node *count,
			const struct braid_node *arg)
{
	struct braid_step p = { .op = BRAID_STEP_DUMP, .value = count, .element = 1 };
	static const char names[] = "CDN", between[] = { ':', '-', 0 };
	const char *found;

	c->steps->portable = false;
	if (!braid_node_is_number(count) || !braid_set_place(c, &p, arg))
		return braid_compile_fail(c, BRAID_NO_CONVERSION);
	if (*c->at++ == 'b') {
		p.op = *c->at == 'l' ? BRAID_STEP_CPUS : BRAID_STEP_MASK;
		c->at += *c->at == 'l';
		return braid_add_step(c, &p, BRAID_MASK_BYTES + BRAID_MOST_WIDTH, 0);
	}
	found = *c->at ? strchr(names, *c->at) : NULL;
	c->at += !!found;
	p.between = found ? between[found - names] : ' ';
	return braid_add_step(c, &p, 0, 3);
}

/* After "%p". */
static bool add_pointer(struct braid_compiler *c, const struct braid_conversion *v,
			const struct braid_node *count, const struct braid_node *arg)
{
	struct braid_step p = { .op = BRAID_STEP_POINTER };

	if (!v->wide && v->shape.width && (*c->at == 'h' || *c->at == 'b'))
		count = width_node(c, v);
	if (count && (*c->at == 'h' || *c->at == 'b'))
		return add_counted(c, count, arg);
	if (v->counted || v->wide)
		return braid_compile_fail(c, "a width in its print format comes from the event");
	if (*c->at && strchr("MmIiU", *c->at))
		return add_address(c, v, arg);
	if (*c->at && strchr("FfSsB", *c->at)) {
		p.op = BRAID_STEP_FUNCTION;
		p.offset_too = *c->at != 'f' && *c->at != 's';
		c->steps->portable &= *c->at != 'B';
		c->at++;
	} else if (*c->at == 'h') {
		return braid_compile_fail(c, BRAID_NO_CONVERSION);
	} else {
		c->at += *c->at == 'K' || *c->at == 'x';
	}
	return braid_add_value(c, &p, arg, BRAID_NUMBER_BYTES);
}

/* The format ------------------------------------------------------------------------------- */

/* What is no conversion is shown, and takes no argument. */
static bool add_unknown(struct braid_compiler *c, const struct braid_conversion *v)
{
	const char shown[] = { '>', v->type, '<' };

	if (v->counted || v->wide || isdigit((unsigned char)v->type) ||
	    strchr("-#.*hlLzZ", v->type))
		return braid_compile_fail(c, BRAID_NO_CONVERSION);
	return braid_add_text(c, shown, sizeof(shown));
}

static const struct braid_node *take_arg(struct braid_compiler *c)
{
	const struct braid_node *arg = c->arg;

	if (arg)
		c->arg = arg->next;
	else
		braid_compile_fail(c, "its print format lacks an argument");
	return arg;
}

/* After a '%'. */
static bool compile_conversion(struct braid_compiler *c)
{
	const struct braid_node *arg, *count = NULL;
	struct braid_conversion v;

	if (!take_conversion(c, &v))
		return false;
	if (!strchr("diuxXospc", v.type))
		return add_unknown(c, &v);
	c->steps->portable &= !v.wide && !v.counted && !v.plus && !v.space;
	if (v.counted || v.wide)
		count = take_arg(c);
	arg = take_arg(c);
	if (!arg || (v.counted && v.wide))
		return braid_compile_fail(c, BRAID_NO_CONVERSION);
	if (v.type == 'p')
		return add_pointer(c, &v, count, arg);
	if (v.type != 's')
		return add_number(c, &v, arg);
	if (*v.length)
		return braid_compile_fail(c, "a string in its print format has a size");
	if (v.wide)
		return braid_compile_fail(c, "a width in its print format comes from the event");
	return braid_add_string(c, &v, arg, count);
}

const char *braid_program_compile(struct braid_format_program **out, const char *text,
				  const struct braid_layout *layout)
{
	struct braid_compiler c = { 0 };
	bool good = true;

	c.steps = calloc(1, sizeof(*c.steps));
	if (!c.steps)
		return "out of memory";
	c.why = braid_tree_parse(&c.steps->tree, text, layout);
	if (c.why) {
		free(c.steps);
		return c.why;
	}
	c.steps->portable = c.steps->tree.portable;
	c.steps->symbols = layout->symbols;
	c.steps->constants = layout->constants;
	c.steps->most = BRAID_STEP_BLOCK;
	c.at = c.steps->tree.format;
	c.arg = c.steps->tree.args;
	while (good && *c.at) {
		if (*c.at == '%' && c.at[1] != '%') {
			c.at++;
			good = compile_conversion(&c);
		} else {
			good = compile_take_text(&c);
		}
	}
	if (good && !braid_program_finish(c.steps))
		good = braid_compile_fail(&c, "out of memory");
	if (good)
		*out = c.steps;
	else
		braid_program_free(c.steps);
	return c.why;
}
