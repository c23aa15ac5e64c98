/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The basics of a unit test: checks that print where they failed, and a verdict. */
#ifndef BRAID_TESTS_CHECK_H
#define BRAID_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

static int check_failures;

#define CHECK(cond)								\
	do {									\
		if (!(cond)) {							\
			check_failures++;					\
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
		}								\
	} while (0)

#define CHECK_EQ(a, b)								\
	do {									\
		long long check_a = (long long)(a), check_b = (long long)(b);	\
		if (check_a != check_b) {					\
			check_failures++;					\
			fprintf(stderr, "%s:%d: %s is %lld, not %s = %lld\n",	\
				__FILE__, __LINE__, #a, check_a, #b, check_b);	\
		}								\
	} while (0)

/* Runs one test function and prints "ok name" or "FAIL name". */
#define RUN(test)								\
	do {									\
		int check_before = check_failures;				\
		test();								\
		printf("%s %s\n", check_failures == check_before ? "ok" : "FAIL", #test); \
		fflush(stdout);							\
	} while (0)

#define VERDICT()	(check_failures ? EXIT_FAILURE : EXIT_SUCCESS)

#endif /* BRAID_TESTS_CHECK_H */
