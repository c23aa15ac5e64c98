/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by all fuzz targets: the input as a stream of choices, and failing checks. */
#ifndef BRAID_TESTS_FUZZ_H
#define BRAID_TESTS_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/platform.h"

/* A false condition is a finding: libFuzzer saves the input. */
#define MUST(cond)								\
	do {									\
		if (!(cond)) {							\
			fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #cond); \
			abort();						\
		}								\
	} while (0)

#define MUST_EQ(a, b)								\
	do {									\
		unsigned long long must_a = (a), must_b = (b);			\
		if (must_a != must_b) {						\
			fprintf(stderr, "%s:%d: %s is %llu, not %s = %llu\n",	\
				__FILE__, __LINE__, #a, must_a, #b, must_b);	\
			abort();						\
		}								\
	} while (0)

/* The input, taken from the front; after its end all bytes are 0. */
struct fuzz_input {
	const u8 *at;
	size_t left;
};

static inline u64 fuzz_take(struct fuzz_input *in, u32 bytes)
{
	u64 value = 0;
	size_t n = bytes < in->left ? bytes : in->left;

	if (n)
		memcpy(&value, in->at, n);
	in->at += n;
	in->left -= n;
	return value;
}

/* The rest in memory of exactly its size, so that a read past its end is detected. */
static inline u8 *fuzz_rest(const struct fuzz_input *in)
{
	u8 *copy = malloc(in->left);

	if (in->left)
		memcpy(copy, in->at, in->left);
	return copy;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

#endif /* BRAID_TESTS_FUZZ_H */
