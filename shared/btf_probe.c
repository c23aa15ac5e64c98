// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Finds a function and members of structures in BTF, and completes the arguments of a probe by
 * them. The number of steps is bounded, because types in invalid BTF may refer to each other in
 * circles.
 */
#include "shared/btf_probe.h"
#include "shared/probe.h"

#define MOST_NESTED	8u	/* anonymous structures and unions in one another */
#define STEPS		(1u << 18)
#define NOT_IN_REGISTER	(~0u)

/* Registers that arguments are passed in, and words that regs_get_kernel_argument() finds. */
#ifdef __aarch64__
#define REGISTERS	8u
#else
#define REGISTERS	6u
#endif
#define WORDS		8u

/* Names ------------------------------------------------------------------------------------- */

/* A part of a path: not terminated. */
struct word {
	const char *text;
	u32 bytes;
};

static bool braid_btf_is_word(const char *name, const struct word *word)
{
	return !strncmp(name, word->text, word->bytes) && !name[word->bytes];
}

static void braid_btf_copy(char to[BRAID_BTF_WORD], const char *from, u32 bytes)
{
	u32 k;

	for (k = 0; k < BRAID_BTF_WORD - 1 && k < bytes && from[k]; k++)
		to[k] = from[k];
	to[k] = 0;
}

/* Insertions, deletions and replacements between two names; what is beyond a word is not seen. */
static u32 braid_btf_distance(const char *a, const char *b)
{
	u8 row[BRAID_BTF_WORD];
	u32 i, k, before, here;

	for (k = 0; k < BRAID_BTF_WORD; k++)
		row[k] = k;
	for (i = 0; i < BRAID_BTF_WORD - 1 && a[i]; i++) {
		before = row[0];
		row[0] = i + 1;
		for (k = 0; k < BRAID_BTF_WORD - 1 && b[k]; k++) {
			here = before + (a[i] != b[k]);
			before = row[k + 1];
			if (here > before + 1)
				here = before + 1;
			if (here > row[k] + 1u)
				here = row[k] + 1u;
			row[k + 1] = here;
		}
	}
	for (k = 0; k < BRAID_BTF_WORD - 1 && b[k]; k++)
		;
	return row[k];
}

/* Keeps the name that is most similar to the wrong one. */
static void braid_btf_offer(struct braid_btf_error *error, const char *name)
{
	u32 most = strlen(error->name) / 3 + 1;
	u32 distance = braid_btf_distance(error->name, name);

	if (*name && distance <= most &&
	    (!*error->nearest || distance < braid_btf_distance(error->name, error->nearest)))
		braid_btf_copy(error->nearest, name, BRAID_BTF_WORD);
}

static int braid_btf_fail(struct braid_btf_error *error, int err, const char *what,
			  const struct word *name)
{
	error->what = what;
	*error->nearest = 0;
	braid_btf_copy(error->name, name->text, name->bytes);
	return err;
}

/* Members ----------------------------------------------------------------------------------- */

struct member {
	u32 type;
	u32 bits;		/* its offset */
	bool is_field;		/* of bits */
};

/*
 * Finds a member, also in anonymous structures; or, for a name that does not exist, the nearest.
 * Return: whether it was found.
 */
static bool braid_btf_find_member(struct braid_btf_types *types, const struct btf_type *type,
				  const struct word *word, u32 depth, struct member *found,
				  struct braid_btf_error *nearest)
{
	const struct btf_member *member = (const void *)(type + 1);
	bool packed = BTF_INFO_KFLAG(type->info);
	u32 nr = BTF_INFO_VLEN(type->info), bits;
	const struct btf_type *inner;
	const char *name;

	for (; nr && types->left; nr--, member++, types->left--) {
		name = braid_btf_name(types, member->name_off);
		bits = packed ? BTF_MEMBER_BIT_OFFSET(member->offset) : member->offset;
		if (*name && nearest)
			braid_btf_offer(nearest, name);
		if (*name && !nearest && braid_btf_is_word(name, word)) {
			found->type = member->type;
			found->bits = bits;
			found->is_field = packed && BTF_MEMBER_BITFIELD_SIZE(member->offset);
			return true;
		}
		inner = *name || depth == MOST_NESTED ? NULL :
			braid_btf_plain(types, member->type);
		if (braid_btf_is_composite(inner) &&
		    braid_btf_find_member(types, inner, word, depth + 1, found, nearest)) {
			found->bits += bits;
			return true;
		}
	}
	return false;
}

/* Functions --------------------------------------------------------------------------------- */

/* Its prototype; NULL: not described, or twice in different ways. */
static const struct btf_type *braid_btf_find_function(struct braid_btf_types *types,
						      const char *name)
{
	const struct braid_btf_part *part = &types->parts[types->nr_parts - 1];
	const struct btf_type *type;
	u32 at = 0, found = 0;

	while ((type = braid_btf_next(&part->view, &at))) {
		if (BTF_INFO_KIND(type->info) != BTF_KIND_FUNC ||
		    strcmp(braid_btf_name(types, type->name_off), name))
			continue;
		if (found && found != type->type)
			return NULL;
		found = type->type;
	}
	type = braid_btf_type(types, found);
	return braid_btf_kind(type) == BTF_KIND_FUNC_PROTO ? type : NULL;
}

/* Bytes of an argument; 0: not known. */
static u32 braid_btf_bytes(const struct btf_type *type)
{
	switch (braid_btf_kind(type)) {
	case BTF_KIND_PTR:
		return sizeof(u64);
	case BTF_KIND_INT:
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return type->size;
	}
	return 0;
}

/*
 * Where a parameter is, as the calling convention has it: large structures are on the stack (of
 * arm64: elsewhere), others in registers as far as these suffice.
 *
 * Return: as N of $argN, from 0; or NOT_IN_REGISTER.
 */
static u32 braid_btf_register(struct braid_btf_types *types, const struct btf_param *params, u32 at)
{
	u32 k, next = 0, bytes, words;
	bool stacked = false;		/* what is on the stack is not in words */

	for (k = 0;; k++) {
		const struct btf_type *type = braid_btf_plain(types, params[k].type);

		bytes = braid_btf_bytes(type);
		words = (bytes + 7) / 8;
		if (!words || words > 2 || (words == 2 && (braid_btf_kind(type) == BTF_KIND_INT ||
							   next + words > REGISTERS))) {
			if (k == at)
				return NOT_IN_REGISTER;
			/* What follows a structure is known only if that took no register. */
			if (REGISTERS == WORDS || !bytes || braid_btf_kind(type) == BTF_KIND_INT)
				return NOT_IN_REGISTER;
			stacked = true;
			continue;
		}
		if (k == at)
			return words == 1 && next < WORDS && (next < REGISTERS || !stacked) ?
			       next : NOT_IN_REGISTER;
		next += words;
	}
}

/* Values ------------------------------------------------------------------------------------ */

static const u8 unsigned_types[] = {
	[1] = BRAID_PROBE_U8, [2] = BRAID_PROBE_U16, [4] = BRAID_PROBE_U32, [8] = BRAID_PROBE_U64,
};

static const u8 signed_types[] = {
	[1] = BRAID_PROBE_S8, [2] = BRAID_PROBE_S16, [4] = BRAID_PROBE_S32, [8] = BRAID_PROBE_S64,
};

/* The type of a field; BRAID_PROBE_AUTO: none fits. */
static u8 braid_btf_field(const struct btf_type *type)
{
	u32 kind = braid_btf_kind(type), info;
	bool is_signed = kind != BTF_KIND_INT;

	if (kind == BTF_KIND_PTR)
		return BRAID_PROBE_X64;
	if ((kind != BTF_KIND_INT && kind != BTF_KIND_ENUM && kind != BTF_KIND_ENUM64) ||
	    type->size > 8 || !type->size || type->size & (type->size - 1))
		return BRAID_PROBE_AUTO;
	if (kind == BTF_KIND_INT) {
		info = *(const u32 *)(type + 1);
		if (BTF_INT_OFFSET(info) || BTF_INT_BITS(info) != 8 * type->size)
			return BRAID_PROBE_AUTO;
		is_signed = BTF_INT_ENCODING(info) & BTF_INT_SIGNED;
	}
	return is_signed ? signed_types[type->size] : unsigned_types[type->size];
}

static bool braid_btf_is_char(const struct btf_type *type)
{
	return braid_btf_kind(type) == BTF_KIND_INT && type->size == 1;
}

/* Whether it is an array of characters. */
static bool braid_btf_is_text(struct braid_btf_types *types, const struct btf_type *type)
{
	const struct btf_array *array = (const void *)(type + 1);

	return braid_btf_is_char(braid_btf_plain(types, array->type));
}

/* A value that a path leads to. */
struct value {
	struct braid_probe_arg *arg;	/* its reads so far */
	u32 type;
	bool in_memory;			/* the last read is not over: it has the place */
	struct word word;		/* the last name */
};

static int braid_btf_add_read(struct value *v, s32 offset, struct braid_btf_error *error)
{
	if (v->arg->nr_reads == BRAID_PROBE_READS)
		return braid_btf_fail(error, -E2BIG, "too many reads of memory", &v->word);
	v->arg->offsets[v->arg->nr_reads++] = offset;
	v->in_memory = true;
	return 0;
}

/* Follows "->member" or ".member". */
static int braid_btf_follow(struct value *v, struct braid_btf_types *types, bool pointer,
			    const struct word *word, struct braid_btf_error *error)
{
	const struct btf_type *type = braid_btf_plain(types, v->type);
	struct member member = { 0 };
	s64 offset;

	if (pointer && braid_btf_kind(type) != BTF_KIND_PTR)
		return braid_btf_fail(error, -EINVAL, "not a pointer", &v->word);
	if (pointer)
		type = braid_btf_plain(types, type->type);
	if (!braid_btf_is_composite(type) || (!pointer && !v->in_memory))
		return braid_btf_fail(error, -EINVAL, pointer ? "not a pointer to a structure" :
				      "not a structure in memory; use '->'", &v->word);
	v->word = *word;
	if (!braid_btf_find_member(types, type, word, 0, &member, NULL)) {
		braid_btf_fail(error, -ENOENT, "no such member", word);
		braid_btf_find_member(types, type, word, 0, &member, error);
		return -ENOENT;
	}
	if (member.is_field || member.bits % 8)
		return braid_btf_fail(error, -EINVAL, "a bit field", word);
	offset = member.bits / 8;
	v->type = member.type;
	if (pointer)
		return braid_btf_add_read(v, offset, error);
	offset += v->arg->offsets[v->arg->nr_reads - 1];
	if (offset > 0x7fffffff)
		return braid_btf_fail(error, -EINVAL, "its offset is too large", word);
	v->arg->offsets[v->arg->nr_reads - 1] = offset;
	return 0;
}

/* Completes the value of a path by its type, or the one that was asked for. */
static int braid_btf_finish(struct value *v, struct braid_btf_types *types,
			    const struct braid_probe_arg *asked, struct braid_btf_error *error)
{
	const struct btf_type *type = braid_btf_plain(types, v->type);
	u32 k;

	if (asked->nr_reads && v->in_memory && braid_btf_kind(type) != BTF_KIND_PTR)
		return braid_btf_fail(error, -EINVAL, "not a pointer", &v->word);
	for (k = 0; k < asked->nr_reads; k++) {
		v->arg->user |= (asked->user >> k & 1) << v->arg->nr_reads;
		if (braid_btf_add_read(v, asked->offsets[k], error))
			return -E2BIG;
	}
	if (asked->nr_reads)
		return 0;
	if (asked->type == BRAID_PROBE_STRING) {
		bool in_place = v->in_memory && braid_btf_kind(type) == BTF_KIND_ARRAY &&
				braid_btf_is_text(types, type);

		if (!in_place && (braid_btf_kind(type) != BTF_KIND_PTR ||
				  !braid_btf_is_char(braid_btf_plain(types, type->type))))
			return braid_btf_fail(error, -EINVAL, "not a string", &v->word);
		if (!in_place && braid_btf_add_read(v, 0, error))
			return -E2BIG;
		v->arg->user |= !!asked->user << (v->arg->nr_reads - 1);
		return 0;
	}
	if (asked->type != BRAID_PROBE_AUTO)
		return 0;
	v->arg->type = braid_btf_field(type);
	if (v->arg->type == BRAID_PROBE_AUTO && !v->in_memory)
		v->arg->type = BRAID_PROBE_X64;		/* a structure in a register */
	return v->arg->type == BRAID_PROBE_AUTO ?
	       braid_btf_fail(error, -EINVAL, "not a number or pointer; give a member or a type",
			      &v->word) : 0;
}

/* Arguments --------------------------------------------------------------------------------- */

struct function {
	struct braid_btf_types *types;
	const struct btf_type *proto;
	const struct btf_param *params;
	u32 nr;				/* without "..." */
};

static bool braid_btf_open_function(struct function *f, struct braid_btf_types *types,
				    const struct braid_probe *probe)
{
	const char *colon = strchr(probe->target, ':');

	f->types = types;
	f->proto = types ? braid_btf_find_function(types, colon ? colon + 1 : probe->target) : NULL;
	if (!f->proto)
		return false;
	f->params = (const void *)(f->proto + 1);
	f->nr = BTF_INFO_VLEN(f->proto->info);
	f->nr -= f->nr && !f->params[f->nr - 1].type;
	return true;
}

static int braid_btf_begin_argument(const struct function *f, u32 at, struct value *v,
				    struct braid_btf_error *error)
{
	u32 place = braid_btf_register(f->types, f->params, at);

	if (place == NOT_IN_REGISTER)
		return braid_btf_fail(error, -EINVAL, "an argument that is not in a register",
				      &v->word);
	v->arg->base = BRAID_PROBE_ARG;
	v->arg->value = place;
	v->type = f->params[at].type;
	return 0;
}

static int braid_btf_begin(const struct function *f, const struct braid_probe *probe,
			   struct value *v, struct braid_btf_error *error)
{
	u32 k;

	if (*v->word.text == '$') {
		v->arg->base = BRAID_PROBE_RETVAL;
		v->arg->value = 0;
		v->type = f->proto->type;
		return v->type ? 0 : braid_btf_fail(error, -EINVAL, "the function returns nothing",
						    &v->word);
	}
	if (braid_probe_is_return(probe))
		return braid_btf_fail(error, -EINVAL, "arguments are unknown at the return",
				      &v->word);
	for (k = 0; k < f->nr; k++)
		if (braid_btf_is_word(braid_btf_name(f->types, f->params[k].name_off), &v->word))
			return braid_btf_begin_argument(f, k, v, error);
	braid_btf_fail(error, -ENOENT, "no such argument", &v->word);
	for (k = 0; k < f->nr; k++)
		braid_btf_offer(error, braid_btf_name(f->types, f->params[k].name_off));
	return -ENOENT;
}

static struct word braid_btf_cut(const char **path)
{
	struct word word = { .text = *path };

	while (**path && **path != '-' && **path != '.')
		(*path)++;
	word.bytes = *path - word.text;
	return word;
}

/* NAME[->MEMBER|.MEMBER]... */
static int braid_btf_path(const struct function *f, const struct braid_probe *probe,
			  const struct braid_probe_arg *asked, const char *path,
			  struct braid_probe_arg *arg, struct braid_btf_error *error)
{
	struct value v = { .arg = arg };
	struct word word = braid_btf_cut(&path);
	int err;

	if (!f->proto)
		return braid_btf_fail(error, -ENOENT, "no BTF of the function", &word);
	arg->nr_reads = arg->user = 0;
	v.word = word;
	err = braid_btf_begin(f, probe, &v, error);
	while (!err && *path) {
		bool pointer = *path == '-';

		path += pointer ? strlen("->") : strlen(".");
		word = braid_btf_cut(&path);
		err = braid_btf_follow(&v, f->types, pointer, &word, error);
	}
	return err ? err : braid_btf_finish(&v, f->types, asked, error);
}

static int braid_btf_push(struct braid_probe *out, const struct braid_probe_arg *arg,
			  struct braid_btf_error *error)
{
	static const struct word all = { "$arg*", 5 };

	if (out->nr_args == BRAID_PROBE_ARGS)
		return braid_btf_fail(error, -E2BIG, "too many arguments", &all);
	out->args[out->nr_args++] = *arg;
	return 0;
}

/* $arg* */
static int braid_btf_push_all(const struct function *f, struct braid_probe *out,
			      struct braid_btf_error *error)
{
	static const struct word all = { "$arg*", 5 };
	u32 k;
	int err;

	if (!f->proto)
		return braid_btf_fail(error, -ENOENT, "no BTF of the function", &all);
	for (k = 0; k < f->nr; k++) {
		struct braid_probe_arg asked = { .type = BRAID_PROBE_AUTO }, arg = asked;
		const char *name = braid_btf_name(f->types, f->params[k].name_off);
		struct word word = { name, strlen(name) };
		struct value v = { .arg = &arg, .word = word };

		if (!*name || word.bytes >= sizeof(arg.name))
			return braid_btf_fail(error, -EINVAL, "an argument without a usable name",
					      &word);
		memcpy(arg.name, name, word.bytes + 1);
		err = braid_btf_begin_argument(f, k, &v, error);
		if (!err)
			err = braid_btf_finish(&v, f->types, &asked, error);
		if (!err)
			err = braid_btf_push(out, &arg, error);
		if (err)
			return err;
	}
	return 0;
}

static int braid_btf_resolve_arg(const struct function *f, const struct braid_probe *probe,
				 const struct braid_probe_arg *asked, struct braid_probe *out,
				 struct braid_btf_error *error)
{
	struct braid_probe_arg arg = *asked;
	int err = 0;

	if (asked->base == BRAID_PROBE_ALL)
		return braid_btf_push_all(f, out, error);
	if (asked->base == BRAID_PROBE_NAMED)
		err = braid_btf_path(f, probe, asked, probe->symbol + asked->value, &arg, error);
	else if (asked->type == BRAID_PROBE_AUTO && !f->proto)
		arg.type = BRAID_PROBE_X64;
	else if (asked->type == BRAID_PROBE_AUTO)
		err = braid_btf_path(f, probe, asked, "$retval", &arg, error);
	return err ? err : braid_btf_push(out, &arg, error);
}

int braid_btf_resolve(struct braid_probe *out, const struct braid_probe *probe,
		      struct braid_btf_types *types, struct braid_btf_error *error)
{
	struct function f;
	int err = 0;
	u32 k;

	if (types)
		types->left = STEPS;
	braid_btf_open_function(&f, types, probe);
	*out = *probe;
	memset(out->symbol, 0, sizeof(out->symbol));
	out->nr_args = 0;
	for (k = 0; k < probe->nr_args && !err; k++)
		err = braid_btf_resolve_arg(&f, probe, &probe->args[k], out, error);
	for (k = out->nr_args; k < BRAID_PROBE_ARGS; k++)
		memset(&out->args[k], 0, sizeof(out->args[k]));
	return err;
}
