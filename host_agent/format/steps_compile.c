// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Compiles print formats. What a conversion means is what libtraceevent makes of it; what is
 * not sure to come out the same is left to it.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/steps.h"
#include "host_agent/util/array.h"

#define NUMBER_BYTES	200u	/* that a number takes at most: width, precision, digits */
#define MOST_WIDTH	64

/* A compilation under way. */
struct compiler {
	struct tep_event *event;
	struct braid_steps *steps;
	const char *at;			/* in the format */
	struct tep_print_arg *arg;	/* the next one */
};

/* "%-08.3lx", taken apart. */
struct conversion {
	struct braid_shape shape;
	bool alternate;		/* # */
	bool precise;
	bool counted;		/* .*: an argument says how much */
	char length[3];		/* h, hh, l, ll, L, z, Z */
	char type;
};

static void free_step(struct braid_step *p)
{
	u32 k;

	for (k = 0; k < p->nr_names; k++)
		free(p->names[k].text);
	free(p->names);
	free(p->text);
	braid_value_free(p->value);
}

void braid_steps_free(struct braid_steps *s)
{
	size_t k;

	if (!s)
		return;
	for (k = 0; k < s->nr; k++)
		free_step(&s->at[k]);
	free(s->at);
	free(s);
}

/* Takes over what the step holds, also when it fails. */
static bool add(struct compiler *c, struct braid_step *p, u64 most, u64 most_each)
{
	if (braid_array_push(c->steps->at, c->steps->nr, c->steps->capacity, *p)) {
		free_step(p);
		return false;
	}
	c->steps->most += most;
	c->steps->most_each += most_each;
	return true;
}

/* A copy that put_text() may read blocks of. NULL: out of memory. */
static char *keep_text(const char *text, size_t bytes)
{
	char *copy = calloc(1, bytes + BRAID_STEP_BLOCK);

	if (copy)
		memcpy(copy, text, bytes);
	return copy;
}

static bool add_text(struct compiler *c, const char *text, size_t bytes)
{
	struct braid_step p = { .op = BRAID_STEP_TEXT, .text_bytes = bytes };

	if (!bytes)
		return true;
	p.text = keep_text(text, bytes);
	if (!p.text)
		return false;
	return add(c, &p, bytes, 0);
}

/* The step of a value; @arg may be of a kind that can't be compiled. */
static bool add_value(struct compiler *c, struct braid_step *p, struct tep_print_arg *arg, u64 most)
{
	p->value = braid_value_make(c->event, arg);
	return p->value && add(c, p, most, 0);
}

/* Text between conversions, with its escapes. Return: false: odd. */
static bool take_text(struct compiler *c)
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
	good = good && add_text(c, text, n);
	free(text);
	return good;
}

/* Conversions ------------------------------------------------------------------------------ */

static s16 take_number(struct compiler *c)
{
	unsigned int n = 0;

	for (; isdigit((unsigned char)*c->at) && n <= MOST_WIDTH; c->at++)
		n = 10 * n + *c->at - '0';
	return n <= MOST_WIDTH ? (s16)n : -1;
}

static bool take_length(struct compiler *c, struct conversion *v)
{
	size_t n = 0;

	while (*c->at && strchr("hlLzZ", *c->at)) {
		if (n == 2)
			return false;
		v->length[n++] = *c->at++;
	}
	return n < 2 || !strcmp(v->length, "hh") || !strcmp(v->length, "ll");
}

/* Behind the '%'. Return: false when it is none that is sure. */
static bool take_conversion(struct compiler *c, struct conversion *v)
{
	memset(v, 0, sizeof(*v));
	v->shape.most = -1;
	for (; *c->at && strchr("-0#", *c->at); c->at++) {
		v->shape.left |= *c->at == '-';
		v->shape.zeros |= *c->at == '0';
		v->alternate |= *c->at == '#';
	}
	v->shape.width = take_number(c);
	if (*c->at == '.') {
		c->at++;
		v->precise = true;
		v->counted = *c->at == '*';
		if (v->counted)
			c->at++;
		else
			v->shape.most = take_number(c);
		if (!v->counted && v->shape.most < 0)
			return false;
	}
	if (v->shape.width < 0 || !take_length(c, v) || !*c->at)
		return false;
	v->type = *c->at++;
	return true;
}

static u8 number_bytes(const struct conversion *v)
{
	if (!strcmp(v->length, "hh"))
		return 1;
	if (!strcmp(v->length, "h"))
		return 2;
	return *v->length ? 8 : 4;
}

/* One that is seldom is left to sprintf(), which takes a long long then. */
static void make_printf(struct braid_step *p, const struct conversion *v)
{
	char precision[8] = "";

	if (v->precise)
		snprintf(precision, sizeof(precision), ".%d", v->shape.most);
	p->op = BRAID_STEP_PRINTF;
	snprintf(p->shape.format, sizeof(p->shape.format), "%%%s%s%s%.0d%sll%c",
		 v->alternate ? "#" : "", v->shape.zeros ? "0" : "", v->shape.left ? "-" : "",
		 v->shape.width, precision, v->type);
}

static bool add_number(struct compiler *c, const struct conversion *v, struct tep_print_arg *arg)
{
	struct braid_step p = { .op = BRAID_STEP_DECIMAL, .shape = v->shape };

	if (v->counted)
		return false;
	p.shape.bytes = number_bytes(v);
	p.shape.sign = v->type == 'd' || v->type == 'i';
	p.shape.prefix = v->alternate;
	p.shape.upper = v->type == 'X';
	p.shape.zeros &= !v->shape.left;
	if (v->type == 'x' || v->type == 'X')
		p.op = BRAID_STEP_HEX;
	if (v->precise || v->type == 'o' || (v->alternate && p.op != BRAID_STEP_HEX))
		make_printf(&p, v);
	return add_value(c, &p, arg, NUMBER_BYTES);
}

/* Behind "%p". */
static bool add_pointer(struct compiler *c, const struct conversion *v, struct tep_print_arg *arg)
{
	struct braid_step p = { .op = BRAID_STEP_POINTER };

	if (v->counted)
		return false;
	if (*c->at && strchr("FfSs", *c->at)) {
		p.op = BRAID_STEP_FUNCTION;
		p.offset_too = *c->at == 'F' || *c->at == 'S';
		c->at++;
	} else if (*c->at && strchr("MmIiUh", *c->at)) {
		return false;	/* addresses of networks, and bytes */
	}
	return add_value(c, &p, arg, NUMBER_BYTES);
}

/* Strings ---------------------------------------------------------------------------------- */

static bool add_string(struct compiler *c, const struct conversion *v, struct tep_print_arg *arg,
		       struct tep_print_arg *count);

/* What a conversion makes of a text that is known. NULL: out of memory. */
static char *render(const struct conversion *v, const char *text, u32 *bytes)
{
	size_t n = strlen(text), width = v->shape.width;
	char *to;

	if (v->shape.most >= 0 && (size_t)v->shape.most < n)
		n = v->shape.most;
	width = width > n ? width : n;
	to = malloc(width + BRAID_STEP_BLOCK);
	if (!to)
		return NULL;
	memset(to, ' ', width + BRAID_STEP_BLOCK);
	memcpy(v->shape.left ? to : to + width - n, text, n);
	*bytes = width;
	return to;
}

static bool add_constant(struct compiler *c, const struct conversion *v, const char *text)
{
	u32 bytes = 0;
	char *rendered = v->counted ? NULL : render(v, text, &bytes);
	bool good = rendered && add_text(c, rendered, bytes);

	free(rendered);
	return good;
}

static bool add_field(struct compiler *c, const struct conversion *v, struct tep_print_arg *arg,
		      struct tep_print_arg *count)
{
	struct tep_format_field *field = arg->field.field;
	struct braid_step p = { .op = BRAID_STEP_CHARS, .shape = v->shape };

	if (!field)
		field = tep_find_any_field(c->event, arg->field.name);
	if (!field)
		return false;
	if (!(field->flags & TEP_FIELD_IS_ARRAY) && field->size == 8) {
		p.op = BRAID_STEP_HEX;	/* a pointer to a text that is not known */
		memset(&p.shape, 0, sizeof(p.shape));
		p.shape.bytes = 8;
		return add_value(c, &p, arg, NUMBER_BYTES);
	}
	p.offset = field->offset;
	p.bytes = field->size;
	if (count) {
		p.value = braid_value_make(c->event, count);
		if (!p.value)
			return false;
	}
	return add(c, &p, MOST_WIDTH + p.bytes, !p.bytes);
}

static bool add_dynamic(struct compiler *c, const struct conversion *v, struct tep_print_arg *arg,
			struct tep_print_arg *count)
{
	const struct tep_format_field *field = arg->string.field;
	struct braid_step p = { .op = BRAID_STEP_STRING, .shape = v->shape };

	if (!field)
		field = tep_find_any_field(c->event, arg->string.string);
	if (!field || !(field->flags & TEP_FIELD_IS_DYNAMIC))
		return false;
	p.offset = field->offset;
	p.base = field->flags & TEP_FIELD_IS_RELATIVE ? field->offset + field->size : 0;
	if (count) {
		p.value = braid_value_make(c->event, count);
		if (!p.value)
			return false;
	}
	return add(c, &p, MOST_WIDTH, 1);
}

/* What libtraceevent takes a name in the place of a number for. */
static s64 named_value(const char *word)
{
	static const struct {
		const char *name;
		s64 value;
	} known[] = {
		{ "HI_SOFTIRQ", 0 }, { "TIMER_SOFTIRQ", 1 }, { "NET_TX_SOFTIRQ", 2 },
		{ "NET_RX_SOFTIRQ", 3 }, { "BLOCK_SOFTIRQ", 4 }, { "IRQ_POLL_SOFTIRQ", 5 },
		{ "TASKLET_SOFTIRQ", 6 }, { "SCHED_SOFTIRQ", 7 }, { "HRTIMER_SOFTIRQ", 8 },
		{ "RCU_SOFTIRQ", 9 }, { "HRTIMER_NORESTART", 0 }, { "HRTIMER_RESTART", 1 },
	};
	size_t k;

	if (isdigit((unsigned char)*word))
		return strtoull(word, NULL, 0);
	for (k = 0; k < sizeof(known) / sizeof(known[0]); k++)
		if (!strcmp(known[k].name, word))
			return known[k].value;
	return -1;
}

static bool add_names(struct braid_step *p, const struct conversion *v,
		      const struct tep_print_flag_sym *list, u64 *most)
{
	const struct tep_print_flag_sym *s;
	u32 nr = 0;

	for (s = list; s; s = s->next)
		nr++;
	p->names = calloc(nr + 1, sizeof(*p->names));
	if (!p->names)
		return false;
	for (s = list; s; s = s->next) {
		struct braid_value_name *name = &p->names[p->nr_names];

		name->value = named_value(s->value);
		name->order = p->nr_names;
		name->text = render(v, s->str, &name->bytes);
		if (!name->text)
			return false;
		p->nr_names++;
		*most += name->bytes + p->text_bytes;
	}
	return true;
}

static int by_value(const void *a, const void *b)
{
	const struct braid_value_name *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* Sorted; of two for one number the first that was told holds. */
static void sort_names(struct braid_step *p)
{
	u32 k, nr = 0;

	qsort(p->names, p->nr_names, sizeof(*p->names), by_value);
	for (k = 0; k < p->nr_names; k++) {
		if (nr && p->names[nr - 1].value == p->names[k].value)
			free(p->names[k].text);
		else
			p->names[nr++] = p->names[k];
	}
	p->nr_names = nr;
}

static bool add_symbolic(struct compiler *c, const struct conversion *v, struct tep_print_arg *arg)
{
	bool flags = arg->type == TEP_PRINT_FLAGS;
	struct tep_print_arg *number = flags ? arg->flags.field : arg->symbol.field;
	struct braid_step p = { .op = flags ? BRAID_STEP_FLAGS : BRAID_STEP_NAME };
	u64 most = NUMBER_BYTES;

	if (v->counted)
		return false;
	if (flags && arg->flags.delim) {
		p.text_bytes = strlen(arg->flags.delim);
		p.text = keep_text(arg->flags.delim, p.text_bytes);
		most += p.text_bytes;
	}
	if ((flags && arg->flags.delim && !p.text) ||
	    !add_names(&p, v, flags ? arg->flags.flags : arg->symbol.symbols, &most)) {
		free_step(&p);
		return false;
	}
	if (!flags && p.nr_names)
		sort_names(&p);
	p.value = braid_value_make(c->event, number);
	if (!p.value) {
		free_step(&p);
		return false;
	}
	return add(c, &p, most, 0);
}

/* Bytes, or numbers, of a field. */
static bool add_array(struct compiler *c, struct tep_print_arg *where, struct tep_print_arg *count,
		      struct braid_step *p)
{
	const struct tep_format_field *field;

	if (where->type == TEP_PRINT_DYNAMIC_ARRAY)
		field = where->dynarray.field;
	else if (where->type != TEP_PRINT_FIELD)
		field = NULL;
	else
		field = where->field.field ? where->field.field :
					     tep_find_any_field(c->event, where->field.name);
	p->dynamic = where->type == TEP_PRINT_DYNAMIC_ARRAY;
	if (!field || p->dynamic != !!(field->flags & TEP_FIELD_IS_DYNAMIC))
		return false;
	p->offset = field->offset;
	p->base = field->flags & TEP_FIELD_IS_RELATIVE ? field->offset + field->size : 0;
	p->value = braid_value_make(c->event, count);
	/* At most "ff " or "255 " for each byte. */
	return p->value && add(c, p, 0, 4);
}

static bool add_ints(struct compiler *c, struct tep_print_arg *arg)
{
	struct braid_step p = { .op = BRAID_STEP_ARRAY };
	struct tep_print_arg *size = arg->int_array.el_size;

	if (size->type != TEP_PRINT_ATOM)
		return false;
	p.element = strtoull(size->atom.atom, NULL, 0);
	if (p.element != 1 && p.element != 2 && p.element != 4 && p.element != 8)
		return false;
	return add_array(c, arg->int_array.field, arg->int_array.count, &p);
}

static bool add_hex(struct compiler *c, struct tep_print_arg *arg)
{
	struct braid_step p = {
		.op = BRAID_STEP_BYTES, .element = 1,
		.between = arg->type == TEP_PRINT_HEX ? ' ' : 0,
	};

	return add_array(c, arg->hex.field, arg->hex.size, &p);
}

/* Both sides of ?: are compiled, and one is gone round. */
static bool add_choice(struct compiler *c, const struct conversion *v, struct tep_print_arg *arg,
		       struct tep_print_arg *count)
{
	struct braid_step choose = { .op = BRAID_STEP_CHOOSE }, go = { .op = BRAID_STEP_GO };
	struct tep_print_arg *both = arg->op.right;
	size_t chosen, gone;

	if (!both || both->type != TEP_PRINT_OP || !both->op.left || !both->op.right)
		return false;
	if (!add_value(c, &choose, arg->op.left, 0))
		return false;
	chosen = c->steps->nr;
	if (!add_string(c, v, both->op.left, count) || !add(c, &go, 0, 0))
		return false;
	gone = c->steps->nr;
	if (!add_string(c, v, both->op.right, count))
		return false;
	c->steps->at[chosen - 1].target = gone;
	c->steps->at[gone - 1].target = c->steps->nr;
	return true;
}

static bool add_string(struct compiler *c, const struct conversion *v, struct tep_print_arg *arg,
		       struct tep_print_arg *count)
{
	switch (arg->type) {
	case TEP_PRINT_ATOM:
		return add_constant(c, v, arg->atom.atom);
	case TEP_PRINT_FIELD:
		return add_field(c, v, arg, count);
	case TEP_PRINT_STRING:
		return add_dynamic(c, v, arg, count);
	case TEP_PRINT_FLAGS:
	case TEP_PRINT_SYMBOL:
		return add_symbolic(c, v, arg);
	case TEP_PRINT_HEX:
	case TEP_PRINT_HEX_STR:
		return add_hex(c, arg);
	case TEP_PRINT_INT_ARRAY:
		return add_ints(c, arg);
	case TEP_PRINT_OP:
		/* Any other operator makes no string. */
		return arg->op.op[0] != '?' || add_choice(c, v, arg, count);
	case TEP_PRINT_NULL:
	case TEP_PRINT_TYPE:
		return true;
	default:
		return false;
	}
}

/* The format ------------------------------------------------------------------------------- */

/* What libtraceevent knows no meaning of is shown, and takes no argument. */
static bool add_unknown(struct compiler *c, const struct conversion *v)
{
	const char shown[] = { '>', v->type, '<' };

	if (v->counted || isdigit((unsigned char)v->type) || strchr("-#.*hlLzZ", v->type))
		return false;
	return add_text(c, shown, sizeof(shown));
}

/* Behind a '%'. */
static bool compile_conversion(struct compiler *c)
{
	struct tep_print_arg *arg, *count = NULL;
	struct conversion v;

	if (!take_conversion(c, &v))
		return false;
	if (!strchr("diuxXosp", v.type))
		return add_unknown(c, &v);
	if (v.counted) {
		count = c->arg;
		c->arg = count ? count->next : NULL;
	}
	arg = c->arg;
	if (!arg)
		return false;
	c->arg = arg->next;
	if (v.type == 'p')
		return add_pointer(c, &v, arg);
	if (v.type != 's')
		return add_number(c, &v, arg);
	if (v.alternate || v.shape.zeros || *v.length)
		return false;
	return add_string(c, &v, arg, count);
}

struct braid_steps *braid_steps_compile(struct tep_event *event, struct braid_symbols *symbols)
{
	struct compiler c = {
		.event = event, .at = event->print_fmt.format, .arg = event->print_fmt.args,
	};
	bool good = true;

	c.steps = calloc(1, sizeof(*c.steps));
	if (!c.steps)
		return NULL;
	c.steps->symbols = symbols;
	c.steps->most = BRAID_STEP_BLOCK;
	while (good && *c.at) {
		if (*c.at == '%' && c.at[1] != '%') {
			c.at++;
			good = compile_conversion(&c);
		} else {
			good = take_text(&c);
		}
	}
	if (good)
		return c.steps;
	braid_steps_free(c.steps);
	return NULL;
}
