/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One line that describes an error, passed to the caller in addition to the errno. */
#ifndef BRAID_UTIL_ERROR_H
#define BRAID_UTIL_ERROR_H

/**
 * braid_fail - note why, and return the errno
 * @err: a negative errno
 * @format: one line, no newline: what failed, on what, and what to do next
 *
 * The line is the thread's; a later call replaces it. Only cli/ prints it.
 *
 * Return: @err.
 */
int braid_fail(int err, const char *format, ...) __attribute__((__format__(printf, 2, 3)));

/** braid_out_of_memory - braid_fail() for an allocation that failed. Return: -ENOMEM */
int braid_out_of_memory(void);

/**
 * braid_fail_output - braid_fail() for an output that could not be written, as errno says
 * @what: the output
 *
 * Return: -errno; -EPIPE, without a message: the reader is gone.
 */
int braid_fail_output(const char *what);

/**
 * braid_failure - the message of this thread's last braid_fail(), "" if none
 */
const char *braid_failure(void);

#endif /* BRAID_UTIL_ERROR_H */
