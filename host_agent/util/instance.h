/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Removes tracefs instances that the agent has made. */
#ifndef BRAID_UTIL_INSTANCE_H
#define BRAID_UTIL_INSTANCE_H

struct tracefs_instance;

/**
 * braid_instance_remove - stop an instance, remove it, and free it
 * @instance: NULL is fine; the caller's own files of it are closed
 *
 * While another process holds a file of it the kernel refuses (EBUSY): it is tried for 100 ms. An
 * instance that is left does not trace; the next recording of the host removes it.
 */
void braid_instance_remove(struct tracefs_instance *instance);

#endif /* BRAID_UTIL_INSTANCE_H */
