// SPDX-License-Identifier: GPL-2.0-or-later
/* Compiles what %s prints: constants, fields, names of numbers and bits, and arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/builder.h"
#include "host_agent/util/address.h"
#include "host_agent/util/array.h"

/* What a conversion makes of a text that is known. NULL: out of memory. */
static char *render(const struct braid_conversion *v, const char *text, size_t n, u32 *bytes)
{
	size_t width = v->shape.width;
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

static bool add_constant(struct braid_compiler *c, const struct braid_conversion *v,
			 const char *text, size_t n)
{
	u32 bytes = 0;
	char *rendered;
	bool good;

	if (v->counted)
		return braid_compile_fail(c, "a width in its print format comes from the event");
	rendered = render(v, text, n, &bytes);
	good = rendered && braid_add_text(c, rendered, bytes);
	free(rendered);
	return good || braid_compile_fail(c, "out of memory");
}

static bool set_count(struct braid_compiler *c, struct braid_step *p,
		      const struct braid_node *count)
{
	p->value = count;
	return !count || braid_node_is_number(count) ||
	       braid_compile_fail(c, "a width in its print format is not a number");
}

static bool add_field(struct braid_compiler *c, const struct braid_conversion *v,
		      const struct braid_node *arg, const struct braid_node *count)
{
	struct braid_step p = { .op = BRAID_STEP_CHARS, .shape = v->shape };
	const struct braid_field *field = arg->field;

	if (!(field->flags & BRAID_FIELD_ARRAY) && field->size == 8) {
		/* A pointer: its text is known by the kernel's list, or not at all. */
		p.op = c->steps->constants ? BRAID_STEP_CONSTANT : BRAID_STEP_HEX;
		if (p.op == BRAID_STEP_HEX)
			memset(&p.shape, 0, sizeof(p.shape));
		p.shape.bytes = 8;
		return braid_add_value(c, &p, arg, BRAID_NUMBER_BYTES);
	}
	p.offset = field->offset;
	p.bytes = field->size;
	return set_count(c, &p, count) &&
	       braid_add_step(c, &p, BRAID_MOST_WIDTH + p.bytes, !p.bytes);
}

static bool add_dynamic(struct braid_compiler *c, const struct braid_conversion *v,
			const struct braid_node *arg, const struct braid_node *count)
{
	struct braid_step p = { .op = BRAID_STEP_STRING, .shape = v->shape };

	p.offset = arg->offset;
	p.base = arg->base;
	return set_count(c, &p, count) && braid_add_step(c, &p, BRAID_MOST_WIDTH, 1);
}

static bool add_mask(struct braid_compiler *c, const struct braid_conversion *v,
		     const struct braid_node *arg)
{
	struct braid_step p = { .op = BRAID_STEP_MASK, .shape = v->shape };

	if (arg->op == BRAID_NODE_CPUS)
		p.op = BRAID_STEP_CPUS;
	if (v->counted)
		return braid_compile_fail(c, "a width in its print format comes from the event");
	return braid_set_place(c, &p, arg) && braid_add_step(c, &p, BRAID_MASK_BYTES + BRAID_MOST_WIDTH, 0);
}

static bool add_names(struct braid_step *p, const struct braid_conversion *v,
		      const struct braid_node *list, u64 *most)
{
	const struct braid_node *s;
	u32 nr = 0;

	for (s = list; s; s = s->next)
		nr++;
	p->names = calloc(nr + 1, sizeof(*p->names));
	if (!p->names)
		return false;
	for (s = list; s; s = s->next) {
		struct braid_value_name *name = &p->names[p->nr_names];

		name->value = s->number;
		name->order = p->nr_names;
		name->text = render(v, s->text, strlen(s->text), &name->bytes);
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

	return braid_compare(x->value, y->value) ?: braid_compare(x->order, y->order);
}

/* Sorted; of two for one number the first applies. */
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

static bool add_symbolic(struct braid_compiler *c, const struct braid_conversion *v,
			 const struct braid_node *arg)
{
	bool flags = arg->op == BRAID_NODE_FLAGS;
	struct braid_step p = { .op = flags ? BRAID_STEP_FLAGS : BRAID_STEP_NAME };
	u64 most = BRAID_NUMBER_BYTES;

	if (v->counted)
		return braid_compile_fail(c, "a width in its print format comes from the event");
	if (flags) {
		p.text_bytes = strlen(arg->text);
		p.text = braid_step_text(arg->text, p.text_bytes);
		most += p.text_bytes;
	}
	if ((flags && !p.text) || !add_names(&p, v, arg->other, &most)) {
		braid_step_free(&p);
		return braid_compile_fail(c, "out of memory");
	}
	if (!flags && p.nr_names)
		sort_names(&p);
	p.value = arg->right;
	return braid_add_step(c, &p, most, 0);
}

/* libtraceevent prints nothing. */
static bool add_frames(struct braid_compiler *c, const struct braid_node *arg)
{
	struct braid_step p = { .op = BRAID_STEP_FRAMES };

	c->steps->frames = true;
	c->steps->portable = false;
	return braid_set_place(c, &p, arg) && braid_add_step(c, &p, 0, 0);
}

/* Others compute these lengths alike: they read as much without a check. */
static bool plain_count(const struct braid_node *n)
{
	if ((n->op == BRAID_NODE_DIVIDE || n->op == BRAID_NODE_TIMES) &&
	    n->right->op == BRAID_NODE_CONSTANT)
		n = n->left;
	return n->op == BRAID_NODE_CONSTANT || n->op == BRAID_NODE_FIELD ||
	       n->op == BRAID_NODE_LENGTH;
}

/* Bytes, or numbers, of a field: at most "ff " or "0xff," for each byte; and the numbers' braces. */
static bool add_array(struct braid_compiler *c, const struct braid_node *arg)
{
	struct braid_step p = {
		.op = arg->op == BRAID_NODE_ARRAY ? BRAID_STEP_ARRAY : BRAID_STEP_BYTES,
		.between = arg->op == BRAID_NODE_HEX_STR ? 0 : ' ',
		.element = arg->size,
		.value = arg->right,
	};

	c->steps->arrays = true;
	c->steps->portable &= plain_count(arg->right);
	return braid_set_place(c, &p, arg->left) && braid_add_step(c, &p, 2, 5);
}

/* Both sides of ?: are compiled, and one is gone round. */
static bool add_choice(struct braid_compiler *c, const struct braid_conversion *v,
		       const struct braid_node *arg, const struct braid_node *count)
{
	struct braid_step choose = { .op = BRAID_STEP_CHOOSE }, go = { .op = BRAID_STEP_GO };
	size_t chosen, gone;

	if (!braid_add_value(c, &choose, arg->left, 0))
		return false;
	chosen = c->steps->nr;
	if (!braid_add_string(c, v, arg->right, count) || !braid_add_step(c, &go, 0, 0))
		return false;
	gone = c->steps->nr;
	if (!braid_add_string(c, v, arg->other, count))
		return false;
	c->steps->at[chosen - 1].target = gone;
	c->steps->at[gone - 1].target = c->steps->nr;
	return true;
}

bool braid_add_string(struct braid_compiler *c, const struct braid_conversion *v,
		       const struct braid_node *arg, const struct braid_node *count)
{
	char number[24];

	if (arg->op == BRAID_NODE_CAST) {	/* libtraceevent prints nothing */
		c->steps->portable = false;
		while (arg->op == BRAID_NODE_CAST)
			arg = arg->right;
		if (arg->op == BRAID_NODE_CONSTANT)
			return true;		/* a null pointer */
	}
	switch (arg->op) {
	case BRAID_NODE_TEXT:
		return add_constant(c, v, arg->text, strlen(arg->text));
	case BRAID_NODE_CONSTANT:
		if (arg->text)
			return add_constant(c, v, arg->text, arg->text_bytes);
		snprintf(number, sizeof(number), "%lld", (long long)arg->number);
		return add_constant(c, v, number, strlen(number));
	case BRAID_NODE_FIELD:
		return add_field(c, v, arg, count);
	case BRAID_NODE_STRING:
	case BRAID_NODE_DYNAMIC:
		c->steps->portable &= arg->op == BRAID_NODE_STRING;
		return add_dynamic(c, v, arg, count);
	case BRAID_NODE_FRAMES:
		return add_frames(c, arg);
	case BRAID_NODE_MASK:
	case BRAID_NODE_CPUS:
		return add_mask(c, v, arg);
	case BRAID_NODE_FLAGS:
	case BRAID_NODE_SYMBOLIC:
		return add_symbolic(c, v, arg);
	case BRAID_NODE_HEX:
	case BRAID_NODE_HEX_STR:
	case BRAID_NODE_ARRAY:
		return add_array(c, arg);
	case BRAID_NODE_CHOICE:
		return add_choice(c, v, arg, count);
	default:
		return true;		/* no other operator gives a string */
	}
}
