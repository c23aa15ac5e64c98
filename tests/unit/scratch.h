/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of a test, in a folder of its own; and files as a whole. */
#ifndef BRAID_TESTS_SCRATCH_H
#define BRAID_TESTS_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

/* The path of @name in a folder that is removed with all that is in it when the program exits. */
char *scratch(const char *name);

/* The bytes of a file, and a zero behind them; free() them. */
void *read_file(const char *path, size_t *bytes);
void write_file(const char *path, const void *data, size_t bytes);
bool same_files(const char *a, const char *b);

#endif /* BRAID_TESTS_SCRATCH_H */
