// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes of compiled steps what is run: texts go with the step after them, usual numbers are loads. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/program.h"

struct maker {
	struct braid_format_program *program;
	struct braid_quick next;	/* as yet only a text */
	u32 *from;			/* where a step is run, or the end */
};

static void quick_put(struct maker *m, u8 op)
{
	m->next.op = op;
	m->program->quick[m->program->nr_quick++] = m->next;
	memset(&m->next, 0, sizeof(m->next));
}

static void quick_put_text(struct maker *m, const char *text, u32 bytes)
{
	u32 n;

	for (; bytes; bytes -= n, text += n) {
		if (m->next.text_bytes == BRAID_STEP_BLOCK)
			quick_put(m, BRAID_QUICK_TEXT);
		n = BRAID_STEP_BLOCK - m->next.text_bytes;
		n = bytes < n ? bytes : n;
		memcpy(m->next.text + m->next.text_bytes, text, n);
		m->next.text_bytes += n;
	}
}

/* A number that lies in the payload as it is. Return: its bytes, 4 or 8; 0: it is something else. */
static u32 number_at(const struct braid_node *n, u32 *offset)
{
	u32 bytes;

	switch (n->op) {
	case BRAID_NODE_FIELD:
		*offset = n->offset;
		return n->size == 4 || n->size == 8 ? n->size : 0;
	case BRAID_NODE_ITEM:
		if ((n->size != 4 && n->size != 8) || n->left->op != BRAID_NODE_CONSTANT ||
		    n->left->number >= n->field->size / n->size)
			return 0;
		*offset = n->offset + n->left->number * n->size;
		return n->size;
	case BRAID_NODE_CAST:
		bytes = number_at(n->right, offset);
		if (n->number == ~0ULL)
			return bytes;
		return bytes && n->number == 0xffffffff ? 4 : 0;
	default:
		return 0;
	}
}

static u8 decimal(struct maker *m, const struct braid_step *p)
{
	u32 bytes = number_at(p->value, &m->next.offset);
	bool sign = p->shape.sign && bytes >= p->shape.bytes;

	bytes = bytes < p->shape.bytes ? bytes : p->shape.bytes;
	if (p->shape.width || (bytes != 4 && bytes != 8))
		return BRAID_QUICK_STEP;
	if (bytes == 4)
		return sign ? BRAID_QUICK_S32 : BRAID_QUICK_U32;
	return sign ? BRAID_QUICK_S64 : BRAID_QUICK_U64;
}

static u8 hex(struct maker *m, const struct braid_step *p)
{
	u32 bytes = number_at(p->value, &m->next.offset);

	bytes = bytes < p->shape.bytes ? bytes : p->shape.bytes;
	if (p->shape.prefix || p->shape.upper || (p->shape.width && !p->shape.zeros) ||
	    p->shape.width > 16 || (bytes != 4 && bytes != 8))
		return BRAID_QUICK_STEP;
	m->next.digits = p->shape.width ? p->shape.width : 1;
	return bytes == 4 ? BRAID_QUICK_HEX32 : BRAID_QUICK_HEX64;
}

static u8 chars(struct maker *m, const struct braid_step *p)
{
	m->next.offset = p->offset;
	return p->bytes == 16 && !p->value && !p->shape.width && p->shape.most < 0 ?
	       BRAID_QUICK_COMM : BRAID_QUICK_STEP;
}

static void put_step(struct maker *m, const struct braid_step *p)
{
	m->next.step = p;
	m->next.value = p->value;
	m->next.target = p->target;
	switch (p->op) {
	case BRAID_STEP_TEXT:
		quick_put_text(m, p->text, p->text_bytes);
		break;
	case BRAID_STEP_DECIMAL:
		quick_put(m, decimal(m, p));
		break;
	case BRAID_STEP_HEX:
		quick_put(m, hex(m, p));
		break;
	case BRAID_STEP_CHARS:
		quick_put(m, chars(m, p));
		break;
	case BRAID_STEP_CHOOSE:
		quick_put(m, BRAID_QUICK_CHOOSE);
		break;
	case BRAID_STEP_GO:
		quick_put(m, BRAID_QUICK_GO);
		break;
	default:
		quick_put(m, BRAID_QUICK_STEP);
	}
}

static bool is_simple(const struct braid_step *p)
{
	u32 k;

	for (k = 0; k < p->nr_names; k++)
		if (!braid_text_simple(p->names[k].text, p->names[k].bytes))
			return false;
	return !p->text || braid_text_simple(p->text, p->text_bytes);
}

/* Most that these steps can take: each its own, and the blocks of its text. */
static size_t most_quick(const struct braid_format_program *s)
{
	size_t k, nr = 1;

	for (k = 0; k < s->nr; k++)
		nr += 2 + s->at[k].text_bytes / BRAID_STEP_BLOCK;
	return nr;
}

/* Text waits for the step after it, unless a jump leads there. */
static void quick_make(struct maker *m, const bool *reached)
{
	struct braid_format_program *s = m->program;
	size_t k;

	for (k = 0; k < s->nr; k++) {
		if (reached[k] && m->next.text_bytes)
			quick_put(m, BRAID_QUICK_TEXT);
		m->from[k] = s->nr_quick;
		s->special |= !is_simple(&s->at[k]);
		put_step(m, &s->at[k]);
	}
	if (m->next.text_bytes)
		quick_put(m, BRAID_QUICK_TEXT);
	m->from[s->nr] = s->nr_quick;
	for (k = 0; k < s->nr_quick; k++)
		s->quick[k].target = m->from[s->quick[k].target];
}

bool braid_program_finish(struct braid_format_program *s)
{
	struct maker m = { .program = s, .from = calloc(s->nr + 1, sizeof(*m.from)) };
	bool *reached = calloc(s->nr + 1, sizeof(*reached));	/* by a jump */
	bool good;
	size_t k;

	s->quick = aligned_alloc(sizeof(*s->quick), most_quick(s) * sizeof(*s->quick));
	good = m.from && reached && s->quick;
	for (k = 0; good && k < s->nr; k++)
		reached[s->at[k].target] = true;
	if (good)
		quick_make(&m, reached);
	free(m.from);
	free(reached);
	return good;
}
