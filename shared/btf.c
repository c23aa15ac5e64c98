// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Walks BTF as <uapi/linux/btf.h> defines it, with all bounds checked. */
#include "shared/btf.h"

/* Newer kernels have a longer header; the running kernel's may be the shorter one. */
#define BYTES_KNOWN	(__builtin_offsetof(struct btf_header, str_len) + sizeof(u32))

bool braid_btf_open(struct braid_btf_view *view, const void *btf, size_t bytes)
{
	const struct btf_header *head = btf;
	u64 room = bytes;

	if (bytes < BYTES_KNOWN || head->magic != BTF_MAGIC || head->version != BTF_VERSION ||
	    head->hdr_len < BYTES_KNOWN || head->hdr_len % 4 || head->type_off % 4 ||
	    (u64)head->hdr_len + head->type_off + head->type_len > room ||
	    (u64)head->hdr_len + head->str_off + head->str_len > room)
		return false;
	view->types = btf + head->hdr_len + head->type_off;
	view->types_bytes = head->type_len;
	view->strings = btf + head->hdr_len + head->str_off;
	view->strings_bytes = head->str_len;
	return !view->strings_bytes || !view->strings[view->strings_bytes - 1];
}

/* Bytes of a type after its struct btf_type, or -1 for a kind that is not known. */
static s64 braid_btf_rest(const struct btf_type *type)
{
	u32 nr = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return 0;
	case BTF_KIND_INT:
		return sizeof(u32);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return (u64)nr * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return (u64)nr * sizeof(struct btf_enum);
	case BTF_KIND_FUNC_PROTO:
		return (u64)nr * sizeof(struct btf_param);
	case BTF_KIND_VAR:
		return sizeof(struct btf_var);
	case BTF_KIND_DATASEC:
		return (u64)nr * sizeof(struct btf_var_secinfo);
	case BTF_KIND_DECL_TAG:
		return sizeof(struct btf_decl_tag);
	case BTF_KIND_ENUM64:
		return (u64)nr * sizeof(struct btf_enum64);
	}
	return -1;
}

const struct btf_type *braid_btf_next(const struct braid_btf_view *view, u32 *at)
{
	const struct btf_type *type = view->types + *at;
	u32 room = view->types_bytes - *at;
	s64 rest;

	if (room < sizeof(*type))
		return NULL;
	rest = braid_btf_rest(type);
	if (rest < 0 || (u64)rest > room - sizeof(*type))
		return NULL;
	*at += sizeof(*type) + rest;
	return type;
}

static bool braid_btf_is_named(const struct braid_btf_view *view, u32 offset, const char *name)
{
	return offset < view->strings_bytes && !strcmp(view->strings + offset, name);
}

/* The type of an id, which is its number in sequence; 0 is void. */
static const struct btf_type *braid_btf_find(const struct braid_btf_view *view, u32 id)
{
	const struct btf_type *type = NULL;
	u32 at = 0;

	while (id-- && (type = braid_btf_next(view, &at)))
		;
	return type;
}

/* Whether a type has so many bytes, or is an array or structure (0). */
static bool braid_btf_is_sized(const struct braid_btf_view *view, u32 id, u32 bytes)
{
	u32 k;

	for (k = 0; k < BRAID_BTF_MOST_ALIASES; k++) {
		const struct btf_type *type = braid_btf_find(view, id);

		if (type && braid_btf_is_alias(type)) {
			id = type->type;
			continue;
		}
		switch (type ? BTF_INFO_KIND(type->info) : BTF_KIND_UNKN) {
		case BTF_KIND_INT:
		case BTF_KIND_ENUM:
			return type->size == bytes;
		case BTF_KIND_PTR:
			return sizeof(void *) == bytes;
		case BTF_KIND_ARRAY:
		case BTF_KIND_STRUCT:
			return !bytes;
		}
		return false;
	}
	return false;
}

/* The member's offset in one structure, in bits, or -1. @width: of a bit field, else 0 */
static s64 braid_btf_member_bits(const struct braid_btf_view *view, const struct btf_type *type,
				 const char *name, u32 size, u32 width)
{
	const struct btf_member *member = (const void *)(type + 1);
	u32 nr = BTF_INFO_VLEN(type->info);
	bool packed = BTF_INFO_KFLAG(type->info);

	while (nr && !braid_btf_is_named(view, member->name_off, name)) {
		member++;
		nr--;
	}
	if (!nr || (packed ? BTF_MEMBER_BITFIELD_SIZE(member->offset) : 0) != width ||
	    (!width && !braid_btf_is_sized(view, member->type, size)))
		return -1;
	return packed ? BTF_MEMBER_BIT_OFFSET(member->offset) : member->offset;
}

/* As braid_btf_member_bits(), of all structures of one name. */
static s64 braid_btf_bits(const void *btf, size_t bytes, const char *structure, const char *member,
			  u32 size, u32 width)
{
	const struct btf_type *type;
	struct braid_btf_view view;
	s64 found = -1, here;
	u32 at = 0;

	if (!braid_btf_open(&view, btf, bytes))
		return -1;
	while ((type = braid_btf_next(&view, &at))) {
		if (BTF_INFO_KIND(type->info) != BTF_KIND_STRUCT ||
		    !braid_btf_is_named(&view, type->name_off, structure))
			continue;
		here = braid_btf_member_bits(&view, type, member, size, width);
		if (here < 0 || (found >= 0 && found != here))
			return -1;
		found = here;
	}
	return at == view.types_bytes ? found : -1;
}

s64 braid_btf_offset(const void *btf, size_t bytes, const char *structure, const char *member,
		     u32 size)
{
	s64 bits = braid_btf_bits(btf, bytes, structure, member, size, 0);

	return bits % 8 ? -1 : bits / 8;
}

s64 braid_btf_bit(const void *btf, size_t bytes, const char *structure, const char *member)
{
	return braid_btf_bits(btf, bytes, structure, member, 0, 1);
}

bool braid_btf_has(const void *btf, size_t bytes, const struct braid_btf_member *want)
{
	return braid_btf_offset(btf, bytes, want->structure, want->member, want->bytes) ==
	       want->offset;
}
