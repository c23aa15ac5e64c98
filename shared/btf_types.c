// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Finds types in BTF by their numbers, each in a bounded number of steps. */
#include "shared/btf_types.h"

static int braid_btf_index(struct braid_btf_part *part, const void *btf, size_t bytes, u32 first)
{
	u32 at = 0;

	if (!braid_btf_open(&part->view, btf, bytes))
		return -EINVAL;
	part->first = first;
	for (part->nr = 0;; part->nr++) {
		if (part->nr / BRAID_BTF_STRIDE == BRAID_BTF_MARKS)
			return -EFBIG;
		if (!(part->nr % BRAID_BTF_STRIDE))
			part->marks[part->nr / BRAID_BTF_STRIDE] = at;
		if (!braid_btf_next(&part->view, &at))
			break;
	}
	return at == part->view.types_bytes ? 0 : -EINVAL;
}

int braid_btf_types_open(struct braid_btf_types *types, const void *btf, size_t bytes)
{
	types->nr_parts = 1;
	return braid_btf_index(&types->parts[0], btf, bytes, 1);
}

int braid_btf_types_add(struct braid_btf_types *types, const void *btf, size_t bytes)
{
	types->nr_parts = 2;
	return braid_btf_index(&types->parts[1], btf, bytes, 1 + types->parts[0].nr);
}

const struct btf_type *braid_btf_type(struct braid_btf_types *types, u32 id)
{
	const struct btf_type *type = NULL;
	u32 k, nr, at;

	for (k = 0; k < types->nr_parts; k++) {
		const struct braid_btf_part *part = &types->parts[k];

		if (id < part->first || id - part->first >= part->nr || !types->left)
			continue;
		types->left--;
		nr = id - part->first;
		at = part->marks[nr / BRAID_BTF_STRIDE];
		for (nr %= BRAID_BTF_STRIDE; (type = braid_btf_next(&part->view, &at)) && nr; nr--)
			;
	}
	return type;
}

const struct btf_type *braid_btf_plain(struct braid_btf_types *types, u32 id)
{
	u32 k;

	for (k = 0; k < BRAID_BTF_MOST_ALIASES; k++) {
		const struct btf_type *type = braid_btf_type(types, id);

		if (!type || !braid_btf_is_alias(type))
			return type;
		id = type->type;
	}
	return NULL;
}

const char *braid_btf_name(const struct braid_btf_types *types, u32 offset)
{
	u32 k;

	for (k = 0; k < types->nr_parts; k++) {
		const struct braid_btf_view *view = &types->parts[k].view;

		if (offset < view->strings_bytes)
			return view->strings + offset;
		offset -= view->strings_bytes;
	}
	return "";
}
