// SPDX-License-Identifier: GPL-2.0-or-later
/* Compiles expressions to filter programs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host_agent/control/compile.h"
#include "host_agent/fields/expression.h"
#include "host_agent/fields/layout.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define NAME_BYTES	136	/* of SYSTEM:EVENT */

static const char example[] = "prev_prio < 100 && next_comm ~ \"q*\"";

/* A place that jumps lead to; where it is is known later. */
typedef u16 label;

#define MAX_LABELS	(BRAID_EXPRESSION_NODES + 2)

struct compiler {
	struct braid_filter_program *program;
	struct braid_expression e;
	struct braid_layout *layout;
	char text[256];			/* of the filter, sanitized; cut */
	char event[NAME_BYTES];		/* SYSTEM:EVENT, likewise */
	label if_true[BRAID_FILTER_INSNS], if_false[BRAID_FILTER_INSNS];
	u16 place[MAX_LABELS];
	label nr_labels;
};

/* Errors ------------------------------------------------------------------------------------ */

/* The nearest name of a field. Return: NULL: none is near. */
static const char *nearest_field(const struct compiler *c, const char *name)
{
	u32 best = strlen(name) / 3 + 2, distance, k;
	const char *found = NULL;

	for (k = 0; k < c->layout->nr; k++) {
		distance = strstr(c->layout->at[k].name, name) ? 1 :
			   braid_text_distance(name, c->layout->at[k].name);
		if (distance >= best)
			continue;
		best = distance;
		found = c->layout->at[k].name;
	}
	return found;
}

static int refuse_field(const struct compiler *c, const char *name)
{
	const char *near = nearest_field(c, name);
	char clean[64];

	snprintf(clean, sizeof(clean), "%s", near ? near : "");
	braid_text_clean(clean);
	return braid_fail(-ENOENT, "filter '%s': %s has no field '%.63s'%s%s%s", c->text, c->event,
			  name, near ? "; did you mean '" : "", clean, near ? "'?" : "");
}

static int refuse(const struct compiler *c, const struct braid_expression_node *node,
		  const char *why)
{
	return braid_fail(-EINVAL, "filter '%s': '%.63s' of %s %s", c->text, node->field, c->event,
			  why);
}

/* Instructions ------------------------------------------------------------------------------ */

static struct braid_filter_insn *add_insn(struct compiler *c, u8 op, label if_true, label if_false)
{
	struct braid_filter_program *p = c->program;

	if (p->nr_insns == BRAID_FILTER_INSNS) {
		braid_fail(-EINVAL, "filter '%s': more than %u comparisons", c->text,
			   BRAID_FILTER_INSNS - 2);
		return NULL;
	}
	c->if_true[p->nr_insns] = if_true;
	c->if_false[p->nr_insns] = if_false;
	p->insns[p->nr_insns].op = op;
	return &p->insns[p->nr_insns++];
}

/* An instruction that reads a field. */
static int read_field(struct compiler *c, struct braid_filter_insn *insn,
		      const struct braid_expression_node *node, const struct braid_field *f)
{
	if (f->offset + f->size > BRAID_FILTER_RECORD)
		return refuse(c, node, "is too far from the record's start to be filtered by");
	insn->offset = f->offset;
	if (c->program->record_bytes < f->offset + f->size)
		c->program->record_bytes = f->offset + f->size;
	return 0;
}

/* Numbers ----------------------------------------------------------------------------------- */

/* The values that a number may have. */
struct range {
	__int128 least, most;
};

static struct range range_of(u32 bytes, bool is_signed)
{
	__int128 values = (__int128)1 << (8 * bytes);

	return is_signed ? (struct range){ -(values / 2), values / 2 - 1 } :
			   (struct range){ 0, values - 1 };
}

static u8 number_op(const struct braid_field *f)
{
	bool is_signed = f->flags & BRAID_FIELD_SIGNED;

	switch (f->size) {
	case 1:
		return is_signed ? BRAID_FILTER_S8 : BRAID_FILTER_U8;
	case 2:
		return is_signed ? BRAID_FILTER_S16 : BRAID_FILTER_U16;
	case 4:
		return is_signed ? BRAID_FILTER_S32 : BRAID_FILTER_U32;
	}
	return BRAID_FILTER_U64;	/* its order does not matter to a difference */
}

static u8 bits_op(u32 bytes)
{
	return bytes == 1 ? BRAID_FILTER_BITS8 : bytes == 2 ? BRAID_FILTER_BITS16 :
	       bytes == 4 ? BRAID_FILTER_BITS32 : BRAID_FILTER_BITS64;
}

static void swap(label *a, label *b)
{
	label was = *a;

	*a = *b;
	*b = was;
}

/* Narrows the range to the values for which a comparison is true, or (Return: true) is not. */
static bool narrow(struct range *range, enum braid_expression_op op, __int128 value)
{
	bool inverted = op == BRAID_EXPRESSION_NE || op == BRAID_EXPRESSION_GE ||
			op == BRAID_EXPRESSION_GT;

	if (op == BRAID_EXPRESSION_EQ || op == BRAID_EXPRESSION_NE)
		range->least = range->most = value;
	else if (op == BRAID_EXPRESSION_LT || op == BRAID_EXPRESSION_GE)
		range->most = value - 1;	/* a > is no <=, and a >= no < */
	else
		range->most = value;
	return inverted;
}

/* Tasks ------------------------------------------------------------------------------------- */

/* A glob, or a text that becomes one which matches it alone. Return: false: no room. */
static bool add_text(struct compiler *c, struct braid_filter_insn *insn, const char *text,
		     bool is_glob)
{
	struct braid_filter_program *p = c->program;
	u32 at = p->text_bytes;

	for (insn->low = at; *text; text++) {
		if (at + 3 > sizeof(p->texts))
			return false;
		if (!is_glob && strchr("*?[\\", *text))
			p->texts[at++] = '\\';
		p->texts[at++] = *text;
	}
	if (at == sizeof(p->texts))
		return false;
	p->texts[at++] = 0;
	p->text_bytes = at;
	return true;
}

/* "CGROUP_OF_next_pid": the field that the question about a task is for; NULL: none such. */
static const struct braid_field *asked_task(const struct compiler *c, const char *name,
					    const char *question)
{
	size_t n = strlen(question);

	if (strncasecmp(name, question, n) || braid_layout_find(c->layout, name))
		return NULL;
	if (!name[n])
		return braid_layout_find(c->layout, "common_pid");
	return !strncasecmp(name + n, "_of_", 4) ? braid_layout_find(c->layout, name + n + 4) : NULL;
}

/* A question about a task, whose number is 4 bytes of the record. */
static int emit_task(struct compiler *c, const struct braid_expression_node *node, u8 op,
		     const struct braid_field *f, label if_true, label if_false)
{
	struct braid_filter_insn *insn;

	if (node->op == BRAID_EXPRESSION_NE)
		swap(&if_true, &if_false);
	else if (node->op != BRAID_EXPRESSION_EQ)
		return refuse(c, node, "can be compared with == and != alone");
	if (f->size != 4)
		return refuse(c, node, "is not about the number of a task");
	insn = add_insn(c, op, if_true, if_false);
	if (!insn)
		return -EINVAL;
	insn->low = node->number;
	if (op == BRAID_FILTER_CGROUP_PATH && !add_text(c, insn, node->text, true))
		return braid_fail(-EINVAL, "filter '%s': its texts have more than %u bytes", c->text,
				  BRAID_FILTER_TEXTS);
	return read_field(c, insn, node, f);
}

static int emit_number(struct compiler *c, const struct braid_expression_node *node, label if_true,
		       label if_false)
{
	const struct braid_field *task = asked_task(c, node->field, "CGROUP");
	const struct braid_field *f = braid_layout_find(c->layout, node->field);
	bool is_cpu = !f && !strcasecmp(node->field, "cpu");
	bool bits = node->op == BRAID_EXPRESSION_BITS;
	struct braid_filter_insn *insn;
	struct range range;
	char why[128];

	if (task)
		return emit_task(c, node, BRAID_FILTER_CGROUP, task, if_true, if_false);
	task = asked_task(c, node->field, "CHOSEN");
	if (task)
		return emit_task(c, node, BRAID_FILTER_CHOSEN, task, if_true, if_false);
	if (!f && !is_cpu)
		return refuse_field(c, node->field);
	if (f && !braid_field_is_number(f))
		return refuse(c, node, f->flags & BRAID_FIELD_STRING ?
			      "is a string, not a number: compare it with \"TEXT\"" :
			      "is not a number");
	if (bits && is_cpu)
		return refuse(c, node, "cannot be tested for bits");
	range = range_of(f ? f->size : 4, f && f->flags & BRAID_FIELD_SIGNED);
	if (bits)			/* a mask may be written without its sign */
		range.most = range_of(f->size, false).most;
	if (node->number < range.least || node->number > range.most) {
		snprintf(why, sizeof(why), "cannot have that value: it is from %lld to %llu",
			 (long long)range.least, (unsigned long long)range.most);
		return refuse(c, node, why);
	}
	if (!bits && narrow(&range, node->op, node->number))
		swap(&if_true, &if_false);
	if (!bits && range.most < range.least) {	/* no value: as if none were equal */
		range = range_of(f ? f->size : 4, f && f->flags & BRAID_FIELD_SIGNED);
		swap(&if_true, &if_false);
	}
	insn = add_insn(c, is_cpu ? BRAID_FILTER_CPU : bits ? bits_op(f->size) : number_op(f),
			if_true, if_false);
	if (!insn)
		return -EINVAL;
	insn->low = bits ? node->number : range.least;
	insn->range = bits ? 0 : range.most - range.least;
	return f ? read_field(c, insn, node, f) : 0;
}

/* Strings ----------------------------------------------------------------------------------- */

static int emit_text(struct compiler *c, const struct braid_expression_node *node, label if_true,
		     label if_false)
{
	const struct braid_field *f = braid_layout_find(c->layout, node->field);
	bool is_comm = !f && !strcasecmp(node->field, "comm");
	const struct braid_field *task = asked_task(c, node->field, "CGROUP");
	struct braid_filter_insn *insn;
	u8 op = BRAID_FILTER_COMM;

	if (task)
		return emit_task(c, node, BRAID_FILTER_CGROUP_PATH, task, if_true, if_false);
	if (node->op == BRAID_EXPRESSION_REGEX || node->op == BRAID_EXPRESSION_NOT_REGEX)
		return refuse(c, node, "cannot be compared with a regular expression in the guest; use ~ and a glob, as in \"*text*\"");
	if (!f && !is_comm)
		return refuse_field(c, node->field);
	if (f && (!(f->flags & BRAID_FIELD_STRING) || !f->size))
		return refuse(c, node, f->flags & BRAID_FIELD_POINTER ?
			      "is a pointer: the string is not in the record" : "is not a string");
	if (f)
		op = !(f->flags & BRAID_FIELD_DYNAMIC) ? BRAID_FILTER_CHARS :
		     f->flags & BRAID_FIELD_RELATIVE ? BRAID_FILTER_REL_LOC : BRAID_FILTER_DATA_LOC;
	if (node->op == BRAID_EXPRESSION_NE)
		swap(&if_true, &if_false);
	insn = add_insn(c, op, if_true, if_false);
	if (!insn)
		return -EINVAL;
	if (!add_text(c, insn, node->text, node->op == BRAID_EXPRESSION_GLOB))
		return braid_fail(-EINVAL, "filter '%s': its texts have more than %u bytes", c->text,
				  BRAID_FILTER_TEXTS);
	insn->bytes = op == BRAID_FILTER_CHARS ? f->size : 0;
	return f ? read_field(c, insn, node, f) : 0;
}

/* Expressions ------------------------------------------------------------------------------- */

static int refuse_other_field(const struct compiler *c, const struct braid_expression_node *node)
{
	if (braid_layout_find(c->layout, node->text))
		return refuse(c, node, "cannot be compared with another field in the guest");
	return braid_fail(-EINVAL, "filter '%s': '%.63s' is not a field of %s; a text needs quotes: \"%.63s\"",
			  c->text, node->text, c->event, node->text);
}

static int emit(struct compiler *c, u32 number, label if_true, label if_false)
{
	const struct braid_expression_node *node = &c->e.nodes[number];
	label between;
	int err;

	switch (node->kind) {
	case BRAID_EXPRESSION_NOT:
		return emit(c, node->left, if_false, if_true);
	case BRAID_EXPRESSION_AND:
	case BRAID_EXPRESSION_OR:
		between = c->nr_labels++;
		if (node->kind == BRAID_EXPRESSION_AND)
			err = emit(c, node->left, between, if_false);
		else
			err = emit(c, node->left, if_true, between);
		c->place[between] = c->program->nr_insns;
		return err ? err : emit(c, node->right, if_true, if_false);
	case BRAID_EXPRESSION_NUMBER:
		return emit_number(c, node, if_true, if_false);
	case BRAID_EXPRESSION_TEXT:
		return emit_text(c, node, if_true, if_false);
	case BRAID_EXPRESSION_FIELD:
		break;
	}
	return refuse_other_field(c, node);
}

static int emit_all(struct compiler *c)
{
	struct braid_filter_program *p = c->program;
	label accept = 0, reject = 1;
	u32 k, nr;
	int err;

	c->nr_labels = 2;
	err = emit(c, c->e.root, accept, reject);
	if (err)
		return err;
	nr = p->nr_insns;
	c->place[accept] = nr;
	c->place[reject] = nr + 1;
	if (!add_insn(c, BRAID_FILTER_ACCEPT, 0, 0) || !add_insn(c, BRAID_FILTER_REJECT, 0, 0))
		return -EINVAL;
	for (k = 0; k < nr; k++) {
		p->insns[k].if_true = c->place[c->if_true[k]] - k - 1;
		p->insns[k].if_false = c->place[c->if_false[k]] - k - 1;
	}
	return 0;
}

static int parse(struct compiler *c, const char *text)
{
	snprintf(c->text, sizeof(c->text), "%s", text);
	braid_text_clean(c->text);
	return braid_expression_parse(&c->e, c->text, text, example);
}

int braid_filter_syntax(const char *text)
{
	struct compiler *c = calloc(1, sizeof(*c));
	int err = c ? parse(c, text) : braid_out_of_memory();

	if (c)
		braid_expression_free(&c->e);
	free(c);
	return err;
}

int braid_filter_compile(struct braid_filter_program *out, const char *text,
			 const struct braid_schema_event *event)
{
	const char *format = strstr(event->format, "format:"), *rest, *why;
	struct compiler *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return braid_out_of_memory();
	memset(out, 0, sizeof(*out));
	out->version = BRAID_FILTER_VERSION;
	out->record_bytes = sizeof(struct braid_record);
	c->program = out;
	snprintf(c->event, sizeof(c->event), "%.63s:%.63s", event->system, event->name);
	braid_text_clean(c->event);
	err = parse(c, text);
	if (!err) {
		why = braid_layout_parse(&c->layout, format ? format : "", event->system, &rest);
		err = why ? braid_fail(-EINVAL, "filter '%s': the format of %s cannot be used: %s",
				       c->text, c->event, why) : emit_all(c);
	}
	braid_layout_free(c->layout);
	braid_expression_free(&c->e);
	free(c);
	return err;
}
