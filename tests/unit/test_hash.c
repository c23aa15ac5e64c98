// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The table of numbers by hash: what is in it, its bound, and how long a search is with chosen
 * keys.
 */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/util/hash.h"
#include "tests/unit/check.h"

#define NR	20000u
#define MAX	(NR + 7)

static u64 keys[NR];
static u64 compared;

static bool same(const void *in, u32 number, const void *key)
{
	compared++;
	return ((const u64 *)in)[number] == *(const u64 *)key;
}

static u32 find(const struct braid_hash *h, u64 key)
{
	return braid_hash_find(h, braid_hash_of_number(key), same, keys, &key);
}

static int add(struct braid_hash *h, u32 number, u64 key)
{
	int err = braid_hash_reserve(h, MAX);

	keys[number] = key;
	if (!err)
		braid_hash_put(h, braid_hash_of_number(key), number);
	return err;
}

static void test_elements(void)
{
	struct braid_hash h = { 0 };
	u32 k;

	CHECK_EQ(find(&h, 5), BRAID_HASH_NONE);
	for (k = 0; k < NR; k++)
		CHECK(!add(&h, k, (u64)k * k));
	CHECK_EQ(h.nr, NR);
	for (k = 0; k < NR; k++)
		CHECK_EQ(find(&h, (u64)k * k), k);
	CHECK_EQ(find(&h, 3), BRAID_HASH_NONE);
	/* Every third one. What is left is still found, and only that. */
	for (k = 0; k < NR; k += 3)
		braid_hash_remove(&h, braid_hash_of_number(keys[k]), k);
	CHECK_EQ(h.nr, NR - (NR + 2) / 3);
	for (k = 0; k < NR; k++)
		CHECK_EQ(find(&h, (u64)k * k), k % 3 ? k : BRAID_HASH_NONE);
	braid_hash_clear(&h);
	CHECK_EQ(find(&h, 1), BRAID_HASH_NONE);
	CHECK(!add(&h, 0, 1));
	CHECK_EQ(find(&h, 1), 0);
	braid_hash_free(&h);
}

static void test_bound(void)
{
	struct braid_hash h = { 0 };
	u32 k;

	for (k = 0; k < 3; k++) {
		CHECK(!braid_hash_reserve(&h, 3));
		braid_hash_put(&h, braid_hash_of_number(k), k);
	}
	CHECK_EQ(braid_hash_reserve(&h, 3), -ENOSPC);
	CHECK(!braid_hash_reserve(&h, 4));
	braid_hash_free(&h);
}

/* Multiples of what undoes a multiplication by the golden ratio: with that, all are in one slot. */
static void test_chosen(void)
{
	const u64 inverse = 0xf1de83e19937733dULL;
	struct braid_hash h = { 0 };
	u32 k, slot, run = 0, longest = 0;

	CHECK_EQ(inverse * 0x9e3779b97f4a7c15ULL, 1);
	for (k = 0; k < NR; k++)
		CHECK(!add(&h, k, inverse * k));
	compared = 0;
	for (k = 0; k < NR; k++)
		CHECK_EQ(find(&h, inverse * k), k);
	CHECK(compared < NR + NR / 100);
	for (slot = 0; slot < h.nr_slots; slot++) {
		run = h.slots[slot].number ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	CHECK(longest < 400);
	braid_hash_free(&h);
}

static void test_texts(void)
{
	char text[300];
	u32 bytes;

	memset(text, 'a', sizeof(text));
	for (bytes = 1; bytes < sizeof(text); bytes++) {
		CHECK(braid_hash_of(text, bytes, 0) != braid_hash_of(text, bytes - 1, 0));
		CHECK(braid_hash_of(text, bytes, 1) != braid_hash_of(text, bytes, 2));
		CHECK_EQ(braid_hash_of(text, bytes, 9), braid_hash_of(text, bytes, 9));
	}
}

/* Another process has another secret. */
static void test_secret(char *self)
{
	const u32 here = braid_hash_of_number(1);
	char text[32];
	int status;
	pid_t pid;

	snprintf(text, sizeof(text), "%u", here);
	pid = fork();
	if (!pid) {
		execl(self, self, text, NULL);
		_exit(127);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return braid_hash_of_number(1) == strtoul(argv[1], NULL, 10);
	RUN(test_elements);
	RUN(test_bound);
	RUN(test_chosen);
	RUN(test_texts);
	test_secret(argv[0]);
	return VERDICT();
}
