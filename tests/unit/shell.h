/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What another program prints. */
#ifndef BRAID_TESTS_SHELL_H
#define BRAID_TESTS_SHELL_H

/*
 * The output of a shell command that must succeed, or ends the test with what it printed; free()
 * it.
 */
char *shell_output(const char *format, ...) __attribute__((__format__(printf, 1, 2)));

#endif /* BRAID_TESTS_SHELL_H */
