/* SPDX-License-Identifier: GPL-2.0 */
/* Makes the kernel's tracepoints events of the registry. */
#ifndef BRAID_SOURCE_NATIVE_H
#define BRAID_SOURCE_NATIVE_H

/**
 * braid_native_init - add every tracepoint that has a probe
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int braid_native_init(void);

/** braid_native_exit - remove them; no probe is running on return */
void braid_native_exit(void);

#endif /* BRAID_SOURCE_NATIVE_H */
