/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Preconditions of tests. */
#ifndef BRAID_TESTS_NEED_H
#define BRAID_TESTS_NEED_H

#include <stdio.h>
#include <stdlib.h>

#define NEED(cond)								\
	do {									\
		if (!(cond)) {							\
			fprintf(stderr, "%s:%d: needed: %s\n", __FILE__, __LINE__, #cond); \
			exit(EXIT_FAILURE);					\
		}								\
	} while (0)

#endif /* BRAID_TESTS_NEED_H */
