// SPDX-License-Identifier: GPL-2.0
/* BTF: members found by name, their place and size, and input that is not valid. */
#include <kunit/test.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <uapi/linux/btf.h>

#include "shared/btf.h"

#define INFO(kind, nr)	(BTF_KIND_##kind << 24 | (nr))

/* Names by their offset: 1 int, 5 flags_t, 13 cache, 19 size, 24 flags, 30 name. */
static const char strings[36] = "\0int\0flags_t\0cache\0size\0flags\0name";

static const u32 types[] = {
	1, INFO(INT, 0), 4, 32,				/* 1: int */
	5, INFO(TYPEDEF, 0), 7,				/* 2: flags_t */
	0, INFO(PTR, 0), 1,				/* 3: int * */
	0, INFO(ARRAY, 0), 0, 1, 1, 10,			/* 4: int [10] */
	0, INFO(ENUM64, 2), 8, 19, 0, 0, 24, 1, 0,	/* 5 */
	13, INFO(UNION, 1), 4, 30, 1, 0,		/* 6: union cache */
	0, INFO(CONST, 0), 1,				/* 7: const int */
	0, INFO(FUNC_PROTO, 1), 1, 19, 1,		/* 8 */
	13, INFO(STRUCT, 4), 72,			/* 9: struct cache */
	19, 7, 0,					/* const int size */
	24, 2, 32,					/* flags_t flags */
	30, 4, 64,					/* int name[10] */
	5, 3, 448,					/* int *flags_t */
};

static const u32 other[] = { 13, INFO(STRUCT, 1), 4, 19, 1, 32 };	/* another struct cache */

/* A header, the types and the strings; freed with the case. */
static void *make(struct kunit *test, const u32 *more, size_t more_bytes, size_t *bytes)
{
	size_t types_bytes = sizeof(types) + more_bytes;
	struct btf_header head = {
		.magic = BTF_MAGIC, .version = BTF_VERSION, .hdr_len = sizeof(head),
		.type_len = types_bytes, .str_off = types_bytes, .str_len = sizeof(strings),
	};
	u8 *btf;

	*bytes = sizeof(head) + types_bytes + sizeof(strings);
	btf = kunit_kzalloc(test, *bytes, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, btf);
	memcpy(btf, &head, sizeof(head));
	memcpy(btf + sizeof(head), types, sizeof(types));
	memcpy(btf + sizeof(head) + sizeof(types), more, more_bytes);
	memcpy(btf + sizeof(head) + types_bytes, strings, sizeof(strings));
	return btf;
}

static void btf_members(struct kunit *test)
{
	static const struct braid_btf_member right[] = {
		{ "cache", "size", 0, 4 }, { "cache", "flags", 4, 4 },
		{ "cache", "name", 8, 0 }, { "cache", "flags_t", 56, sizeof(void *) },
	}, wrong[] = {
		{ "cache", "size", 4, 4 }, { "cache", "size", 0, 8 }, { "cache", "size", 0, 0 },
		{ "cache", "name", 8, 4 }, { "cache", "nam", 8, 0 }, { "cach", "name", 8, 0 },
		{ "cache", "flags_t", 56, 4 }, { "int", "size", 0, 4 },
	};
	size_t bytes;
	void *btf = make(test, NULL, 0, &bytes);
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(right); k++)
		KUNIT_EXPECT_TRUE_MSG(test, braid_btf_has(btf, bytes, &right[k]), "%u", k);
	for (k = 0; k < ARRAY_SIZE(wrong); k++)
		KUNIT_EXPECT_FALSE_MSG(test, braid_btf_has(btf, bytes, &wrong[k]), "%u", k);
}

/* Two structures of one name: one that differs is enough. */
static void btf_ambiguous(struct kunit *test)
{
	static const struct braid_btf_member size = { "cache", "size", 0, 4 };
	size_t bytes;
	void *btf = make(test, other, sizeof(other), &bytes);

	KUNIT_EXPECT_FALSE(test, braid_btf_has(btf, bytes, &size));
}

static void btf_unknown_kind(struct kunit *test)
{
	static const u32 newer[] = { 0, 31 << 24, 0 };
	static const struct braid_btf_member size = { "cache", "size", 0, 4 };
	size_t bytes;
	void *btf = make(test, newer, sizeof(newer), &bytes);

	KUNIT_EXPECT_FALSE(test, braid_btf_has(btf, bytes, &size));
}

/* A type that refers to itself, each truncation, and each byte changed: an answer, and no fault. */
static void btf_invalid(struct kunit *test)
{
	static const u32 circle[] = { 30, INFO(STRUCT, 1), 4, 19, 11, 0, 0, INFO(CONST, 0), 11 };
	static const struct braid_btf_member size = { "cache", "size", 0, 4 };
	static const struct braid_btf_member endless = { "name", "size", 0, 4 };
	size_t bytes, k;
	u8 *btf = make(test, circle, sizeof(circle), &bytes);

	KUNIT_EXPECT_TRUE(test, braid_btf_has(btf, bytes, &size));
	KUNIT_EXPECT_FALSE(test, braid_btf_has(btf, bytes, &endless));
	for (k = 0; k < bytes; k++) {
		u8 *cut = kmemdup(btf, k, GFP_KERNEL);

		KUNIT_EXPECT_FALSE(test, k && braid_btf_has(cut, k, &size));
		kfree(cut);
		btf[k] ^= 0xff;
		braid_btf_has(btf, bytes, &size);
		btf[k] ^= 0xff;
	}
}

static struct kunit_case btf_cases[] = {
	KUNIT_CASE(btf_members),
	KUNIT_CASE(btf_ambiguous),
	KUNIT_CASE(btf_unknown_kind),
	KUNIT_CASE(btf_invalid),
	{}
};

static struct kunit_suite btf_suite = {
	.name = "btf",
	.test_cases = btf_cases,
};

kunit_test_suite(btf_suite);
