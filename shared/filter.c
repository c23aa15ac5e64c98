// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Checks and runs filter programs. */
#include "shared/filter.h"

/* Checking ----------------------------------------------------------------------------- */

/* Bytes that an instruction reads of the record at its offset. */
static u32 braid_filter_width(const struct braid_filter_insn *insn)
{
	switch (insn->op) {
	case BRAID_FILTER_U8:
	case BRAID_FILTER_S8:
	case BRAID_FILTER_BITS8:
		return 1;
	case BRAID_FILTER_U16:
	case BRAID_FILTER_S16:
	case BRAID_FILTER_BITS16:
		return 2;
	case BRAID_FILTER_U32:
	case BRAID_FILTER_S32:
	case BRAID_FILTER_BITS32:
	case BRAID_FILTER_DATA_LOC:
	case BRAID_FILTER_REL_LOC:
	case BRAID_FILTER_CGROUP:
	case BRAID_FILTER_CGROUP_PATH:
	case BRAID_FILTER_CHOSEN:
		return 4;
	case BRAID_FILTER_U64:
	case BRAID_FILTER_BITS64:
		return 8;
	case BRAID_FILTER_CHARS:
		return insn->bytes;
	}
	return 0;
}

static bool braid_filter_has_text(u8 op)
{
	return (op >= BRAID_FILTER_CHARS && op <= BRAID_FILTER_COMM) ||
	       op == BRAID_FILTER_CGROUP_PATH;
}

static bool braid_filter_check_insn(const struct braid_filter_program *p, u32 at)
{
	const struct braid_filter_insn *insn = &p->insns[at];
	u32 left = p->nr_insns - at - 1;	/* instructions that follow */

	if (insn->op >= BRAID_FILTER_NR_OPS || insn->reserved0)
		return false;
	if (insn->op <= BRAID_FILTER_ACCEPT)
		return true;
	if (insn->if_true >= left || insn->if_false >= left)
		return false;
	if (braid_filter_has_text(insn->op) && insn->low >= p->text_bytes)
		return false;
	return (u32)insn->offset + braid_filter_width(insn) <= p->record_bytes;
}

int braid_filter_check(const struct braid_filter_program *p)
{
	u32 k;

	if (p->version != BRAID_FILTER_VERSION)
		return -EOPNOTSUPP;
	if (!p->nr_insns || p->nr_insns > BRAID_FILTER_INSNS ||
	    p->insns[p->nr_insns - 1].op > BRAID_FILTER_ACCEPT ||
	    p->record_bytes > BRAID_FILTER_RECORD || p->text_bytes > BRAID_FILTER_TEXTS ||
	    (p->text_bytes && p->texts[p->text_bytes - 1]))
		return -EINVAL;
	for (k = 0; k < p->nr_insns; k++)
		if (!braid_filter_check_insn(p, k))
			return -EINVAL;
	return 0;
}

/* Globs --------------------------------------------------------------------------------- */

/*
 * Whether a character is in the class after a '['. Return: the glob after its ']'; NULL: it does
 * not end, so the '[' is an ordinary character.
 */
static const char *braid_filter_class(const char *glob, u8 c, bool *in, u32 *steps)
{
	bool inverted = *glob == '!', found = false;
	const char *at = glob + inverted;
	u8 low, high;

	do {
		low = high = *at++;
		if (low && at[0] == '-' && at[1] && at[1] != ']') {
			high = at[1];
			at += 2;
		}
		if (!low || !*steps)
			return NULL;
		--*steps;		/* a class can be as long as all texts */
		found |= low <= c && c <= high;
	} while (*at != ']');
	*in = found != inverted;
	return at + 1;
}

/* Whether the next element, which is no '*', matches a character. Return: what follows, or NULL. */
static const char *braid_filter_element(const char *glob, u8 c, u32 *steps)
{
	const char *after;
	bool in;

	if (*glob == '?')
		return glob + 1;
	if (*glob == '[') {
		after = braid_filter_class(glob + 1, c, &in, steps);
		if (after)
			return in ? after : NULL;
	}
	if (*glob == '\\' && glob[1])
		glob++;
	return *glob && (u8)*glob == c ? glob + 1 : NULL;
}

bool braid_filter_glob(const char *glob, const char *text, u32 bytes, u32 *steps)
{
	const char *again = NULL, *next;	/* after the last '*' */
	u32 k = 0, again_at = 0;

	while (k < bytes && text[k]) {
		if (!*steps)
			return false;
		--*steps;
		if (*glob == '*') {
			again = ++glob;
			again_at = k;
			continue;
		}
		next = braid_filter_element(glob, text[k], steps);
		if (next) {
			glob = next;
			k++;
		} else if (again) {
			glob = again;
			k = ++again_at;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return !*glob;
}

/* Running --------------------------------------------------------------------------------- */

static u64 braid_filter_load(const u8 *from, u32 bytes)
{
	u64 value = 0;

	memcpy(&value, from, bytes);
	return value;
}

/* A string to which a word points; one outside the record is empty. */
static bool braid_filter_pointed(const struct braid_filter_program *p,
				 const struct braid_filter_insn *insn,
				 const struct braid_filter_record *r, u32 *steps)
{
	u32 word = braid_filter_load(r->bytes + insn->offset, 4);
	u32 at = (word & 0xffff) + (insn->op == BRAID_FILTER_REL_LOC ? insn->offset + 4 : 0);
	u32 bytes = word >> 16;

	if (at > r->nr_bytes || bytes > r->nr_bytes - at)
		at = bytes = 0;
	return braid_filter_glob(p->texts + insn->low, (const char *)r->bytes + at, bytes, steps);
}

/* One switch for load and comparison. */
static __always_inline bool braid_filter_is(const struct braid_filter_program *p,
					    const struct braid_filter_insn *insn,
					    const struct braid_filter_record *r, u32 *steps)
{
	const u8 *from = r->bytes + insn->offset;

	switch (insn->op) {
	case BRAID_FILTER_U8:
		return *from - insn->low <= insn->range;
	case BRAID_FILTER_U16:
		return braid_filter_load(from, 2) - insn->low <= insn->range;
	case BRAID_FILTER_U32:
		return braid_filter_load(from, 4) - insn->low <= insn->range;
	case BRAID_FILTER_U64:
		return braid_filter_load(from, 8) - insn->low <= insn->range;
	case BRAID_FILTER_S8:
		return (u64)(s8)*from - insn->low <= insn->range;
	case BRAID_FILTER_S16:
		return (u64)(s16)braid_filter_load(from, 2) - insn->low <= insn->range;
	case BRAID_FILTER_S32:
		return (u64)(s32)braid_filter_load(from, 4) - insn->low <= insn->range;
	case BRAID_FILTER_CPU:
		return r->cpu - insn->low <= insn->range;
	case BRAID_FILTER_BITS8:
		return *from & insn->low;
	case BRAID_FILTER_BITS16:
		return braid_filter_load(from, 2) & insn->low;
	case BRAID_FILTER_BITS32:
		return braid_filter_load(from, 4) & insn->low;
	case BRAID_FILTER_BITS64:
		return braid_filter_load(from, 8) & insn->low;
	case BRAID_FILTER_CHARS:
		return braid_filter_glob(p->texts + insn->low, (const char *)from, insn->bytes,
					 steps);
	case BRAID_FILTER_COMM:
		return braid_filter_glob(p->texts + insn->low, r->comm, BRAID_COMM_BYTES, steps);
	case BRAID_FILTER_DATA_LOC:
	case BRAID_FILTER_REL_LOC:
		return braid_filter_pointed(p, insn, r, steps);
	case BRAID_FILTER_CGROUP:
		return r->tasks->in_cgroup(braid_filter_load(from, 4), insn->low);
	case BRAID_FILTER_CHOSEN:
		return r->tasks->is_chosen(braid_filter_load(from, 4));
	}
	return false;
}

enum braid_filter_verdict braid_filter_run(const struct braid_filter_program *p,
					   const struct braid_filter_record *r)
{
	const struct braid_filter_insn *insn = p->insns;
	u32 steps = BRAID_FILTER_GLOB_STEPS;

	if (r->nr_bytes < p->record_bytes)
		return BRAID_FILTER_UNJUDGED;
	while (insn->op > BRAID_FILTER_ACCEPT) {
		bool is = braid_filter_is(p, insn, r, &steps);

		insn += 1 + (is ? insn->if_true : insn->if_false);
	}
	if (unlikely(!steps))		/* a glob had no result */
		return BRAID_FILTER_UNJUDGED;
	return insn->op == BRAID_FILTER_ACCEPT ? BRAID_FILTER_PASS : BRAID_FILTER_DROP;
}
