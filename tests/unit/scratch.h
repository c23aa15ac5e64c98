/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of a test, in a folder of its own. */
#ifndef BRAID_TESTS_SCRATCH_H
#define BRAID_TESTS_SCRATCH_H

/* The path of @name in a folder that is removed with all that is in it when the program exits. */
char *scratch(const char *name);

#endif /* BRAID_TESTS_SCRATCH_H */
