// SPDX-License-Identifier: GPL-2.0-or-later
/* Adds steps to a program that is being compiled. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/builder.h"
#include "host_agent/util/array.h"

bool braid_compile_fail(struct braid_compiler *c, const char *why)
{
	if (!c->why)
		c->why = why;
	return false;
}

void braid_step_free(struct braid_step *p)
{
	u32 k;

	for (k = 0; k < p->nr_names; k++)
		free(p->names[k].text);
	free(p->names);
	free(p->text);
}

void braid_program_free(struct braid_format_program *s)
{
	size_t k;

	if (!s)
		return;
	for (k = 0; k < s->nr; k++)
		braid_step_free(&s->at[k]);
	braid_tree_free(&s->tree);
	free(s->quick);
	free(s->at);
	free(s);
}

/* Takes over what the step holds, also when it fails. */
bool braid_add_step(struct braid_compiler *c, struct braid_step *p, u64 most, u64 most_each)
{
	if (braid_array_push(c->steps->at, c->steps->nr, c->steps->capacity, *p)) {
		braid_step_free(p);
		return braid_compile_fail(c, "out of memory");
	}
	c->steps->most += most;
	c->steps->most_each += most_each;
	return true;
}

/* A copy that put_text() may read blocks of. NULL: out of memory. */
char *braid_step_text(const char *text, size_t bytes)
{
	char *copy = calloc(1, bytes + BRAID_STEP_BLOCK);

	if (copy)
		memcpy(copy, text, bytes);
	return copy;
}

bool braid_add_text(struct braid_compiler *c, const char *text, size_t bytes)
{
	struct braid_step p = { .op = BRAID_STEP_TEXT, .text_bytes = bytes };

	if (!bytes)
		return true;
	p.text = braid_step_text(text, bytes);
	return p.text ? braid_add_step(c, &p, bytes, 0) : braid_compile_fail(c, "out of memory");
}

/* The step of a number. */
bool braid_add_value(struct braid_compiler *c, struct braid_step *p, const struct braid_node *arg,
		      u64 most)
{
	p->value = arg;
	if (!braid_node_is_number(arg))
		return braid_compile_fail(c, "its print format prints a string as a number");
	return braid_add_step(c, p, most, 0);
}

/* Where a field's bytes are. */
bool braid_set_place(struct braid_compiler *c, struct braid_step *p, const struct braid_node *where)
{
	while (where->op == BRAID_NODE_CAST)
		where = where->right;
	p->dynamic = where->op != BRAID_NODE_FIELD;
	if ((p->dynamic && where->op != BRAID_NODE_DYNAMIC && where->op != BRAID_NODE_MASK &&
	     where->op != BRAID_NODE_CPUS && where->op != BRAID_NODE_FRAMES) ||
	    (!p->dynamic && where->field->flags & BRAID_FIELD_DYNAMIC))
		return braid_compile_fail(c, "its print format reads an array that is not a field");
	p->offset = where->offset;
	p->bytes = where->field->size;
	p->base = where->base;
	return true;
}
