/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Made-up BTF of a kernel and of a module, for tests of what is looked up in it. */
#ifndef BRAID_TESTS_MADE_BTF_H
#define BRAID_TESTS_MADE_BTF_H

#include <stdlib.h>

#include "shared/btf.h"

/*
 * struct { long wide[3]; } as "big", struct { long a, b; } as "pair":
 *
 *	long work(struct file *file, const char *name, char byte, unsigned short half, bool flag,
 *		  enum kind kind);
 *	void nothing(void);
 *	int many(long a, struct big big, long b, struct pair pair, long c, long d, long e, long f,
 *		 ...);
 *	char *text(struct pair pair, void *opaque);
 *	struct file { struct inode *inode; char label[8]; struct pair pair; u32 low:4;
 *		      struct { struct { int deep; union { s64 either; u8 other; }; }; }; };
 *	struct inode { u64 number; const char *title; struct inode *next; };
 *
 * twice() is there two times, in different ways. The module has:
 *
 *	int of_module(struct file *file, struct own *own);
 *	struct own { struct inode *inode; s8 sign; };
 */
struct made_btf {
	u32 types[512], nr;		/* words */
	char strings[1024];
	u32 strings_bytes, strings_before;
	u32 ids;			/* of the last type */
};

static inline u32 made_btf_name(struct made_btf *m, const char *name)
{
	u32 at = m->strings_bytes;

	if (!*name)
		return 0;
	if (at + strlen(name) >= sizeof(m->strings))
		abort();
	strcpy(m->strings + at, name);
	m->strings_bytes += strlen(name) + 1;
	return m->strings_before + at;
}

static inline void made_btf_put(struct made_btf *m, u32 word)
{
	if (m->nr == sizeof(m->types) / sizeof(*m->types))
		abort();
	m->types[m->nr++] = word;
}

/* Return: its number. */
static inline u32 made_btf_type(struct made_btf *m, u32 kind, const char *name, u32 nr, u32 third)
{
	made_btf_put(m, made_btf_name(m, name));
	made_btf_put(m, kind << 24 | nr);
	made_btf_put(m, third);
	return ++m->ids;
}

static inline u32 made_btf_int(struct made_btf *m, const char *name, u32 bytes, u32 encoding)
{
	u32 id = made_btf_type(m, BTF_KIND_INT, name, 0, bytes);

	made_btf_put(m, encoding << 24 | 8 * bytes);
	return id;
}

static inline void made_btf_param(struct made_btf *m, const char *name, u32 type)
{
	made_btf_put(m, made_btf_name(m, name));
	made_btf_put(m, type);
}

static inline void made_btf_member(struct made_btf *m, const char *name, u32 type, u32 offset)
{
	made_btf_param(m, name, type);
	made_btf_put(m, offset * 8);
}

static inline u32 made_btf_pointer(struct made_btf *m, u32 to)
{
	return made_btf_type(m, BTF_KIND_PTR, "", 0, to);
}

/* Its prototype's parameters follow. Return: the prototype's number. */
static inline u32 made_btf_function(struct made_btf *m, const char *name, u32 result, u32 params)
{
	made_btf_type(m, BTF_KIND_FUNC, name, 0, m->ids + 2);
	return made_btf_type(m, BTF_KIND_FUNC_PROTO, "", params, result);
}

static inline size_t made_btf_bytes(const struct made_btf *m)
{
	return sizeof(struct btf_header) + 4 * m->nr + m->strings_bytes;
}

static inline void made_btf_write(const struct made_btf *m, u8 *out)
{
	struct btf_header head = {
		.magic = BTF_MAGIC, .version = BTF_VERSION, .hdr_len = sizeof(head),
		.type_len = 4 * m->nr, .str_off = 4 * m->nr, .str_len = m->strings_bytes,
	};

	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), m->types, 4 * m->nr);
	memcpy(out + sizeof(head) + 4 * m->nr, m->strings, m->strings_bytes);
}

struct made_btf_ids {
	u32 number, character, file_pointer, inode_pointer, sign;
};

static inline void made_btf_structures(struct made_btf *m, struct made_btf_ids *ids, u32 *pair,
				       u32 *big, u32 text)
{
	u32 array, inner, outer, either, inode, file, small, other;

	inode = made_btf_type(m, BTF_KIND_STRUCT, "inode", 3, 24);
	made_btf_member(m, "number", ids->number, 0);
	made_btf_member(m, "title", text, 8);
	made_btf_member(m, "next", inode + 1, 16);
	ids->inode_pointer = made_btf_pointer(m, inode);
	*pair = made_btf_type(m, BTF_KIND_STRUCT, "pair", 2, 16);
	made_btf_member(m, "a", ids->number, 0);
	made_btf_member(m, "b", ids->number, 8);
	*big = made_btf_type(m, BTF_KIND_STRUCT, "big", 1, 24);
	made_btf_member(m, "wide", ids->number, 0);
	array = made_btf_type(m, BTF_KIND_ARRAY, "", 0, 0);
	made_btf_put(m, ids->character), made_btf_put(m, ids->number), made_btf_put(m, 8);
	small = made_btf_int(m, "int", 4, BTF_INT_SIGNED);
	other = made_btf_int(m, "u8", 1, 0);
	either = made_btf_type(m, BTF_KIND_UNION, "", 2, 8);
	made_btf_member(m, "either", ids->sign, 0);
	made_btf_member(m, "other", other, 0);
	inner = made_btf_type(m, BTF_KIND_STRUCT, "", 2, 16);
	made_btf_member(m, "deep", small, 0);
	made_btf_member(m, "", either, 8);
	outer = made_btf_type(m, BTF_KIND_STRUCT, "", 1, 16);
	made_btf_member(m, "", inner, 0);
	file = made_btf_type(m, BTF_KIND_STRUCT, "file", 5 | 1u << 31, 64);
	made_btf_member(m, "inode", ids->inode_pointer, 0);
	made_btf_member(m, "label", array, 8);
	made_btf_member(m, "pair", *pair, 16);
	made_btf_param(m, "low", small), made_btf_put(m, 4u << 24 | 32 * 8);
	made_btf_member(m, "", outer, 40);
	ids->file_pointer = made_btf_pointer(m, file);
}

static inline void made_btf_kernel(struct made_btf *m, struct made_btf_ids *ids)
{
	u32 text, constant, pair, big, kind, half, flag, alias, anything, k;

	memset(m, 0, sizeof(*m));
	m->strings_bytes = 1;
	ids->number = made_btf_int(m, "unsigned long", 8, 0);
	ids->sign = made_btf_int(m, "long", 8, BTF_INT_SIGNED);
	ids->character = made_btf_int(m, "char", 1, BTF_INT_SIGNED);
	constant = made_btf_type(m, BTF_KIND_CONST, "", 0, ids->character);
	text = made_btf_pointer(m, constant);
	made_btf_structures(m, ids, &pair, &big, text);
	half = made_btf_int(m, "unsigned short", 2, 0);
	flag = made_btf_int(m, "_Bool", 1, BTF_INT_BOOL);
	kind = made_btf_type(m, BTF_KIND_ENUM, "kind", 1, 4);
	made_btf_param(m, "FIRST", 0);
	alias = made_btf_type(m, BTF_KIND_TYPEDEF, "long_t", 0, ids->sign);
	anything = made_btf_pointer(m, 0);

	made_btf_function(m, "work", alias, 6);
	made_btf_param(m, "file", ids->file_pointer);
	made_btf_param(m, "name", text);
	made_btf_param(m, "byte", ids->character);
	made_btf_param(m, "half", half);
	made_btf_param(m, "flag", flag);
	made_btf_param(m, "kind", kind);
	made_btf_function(m, "nothing", 0, 0);
	made_btf_function(m, "many", alias, 9);
	for (k = 0; k < 8; k++) {
		char name[] = { 'a' + k - (k > 1) - (k > 3), 0 };

		made_btf_param(m, k == 1 ? "big" : k == 3 ? "pair" : name,
			       k == 1 ? big : k == 3 ? pair : ids->sign);
	}
	made_btf_param(m, "", 0);
	made_btf_function(m, "text", text, 2);
	made_btf_param(m, "pair", pair);
	made_btf_param(m, "opaque", anything);
	made_btf_function(m, "twice", 0, 0);
	made_btf_function(m, "twice", alias, 0);
}

static inline void made_btf_module(struct made_btf *m, const struct made_btf *kernel,
				   const struct made_btf_ids *ids)
{
	u32 own;

	memset(m, 0, sizeof(*m));
	m->ids = kernel->ids;
	m->strings_before = kernel->strings_bytes;
	own = made_btf_type(m, BTF_KIND_STRUCT, "own", 2, 16);
	made_btf_member(m, "inode", ids->inode_pointer, 0);
	made_btf_member(m, "sign", ids->character, 8);
	own = made_btf_pointer(m, own);
	made_btf_function(m, "of_module", ids->sign, 2);
	made_btf_param(m, "file", ids->file_pointer);
	made_btf_param(m, "own", own);
}

#endif /* BRAID_TESTS_MADE_BTF_H */
