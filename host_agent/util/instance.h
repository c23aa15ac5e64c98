/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The agent's own tracefs instances: their names, and how they are made and removed. An instance is called
 * "tracebraid-<pid>", with a suffix that says what it is for.
 */
#ifndef BRAID_UTIL_INSTANCE_H
#define BRAID_UTIL_INSTANCE_H

#include <stdbool.h>

struct tracefs_instance;

#define BRAID_INSTANCE_RECORD	""		/* the host's recording */
#define BRAID_INSTANCE_CLOCK	"-clock"	/* changes of KVM's offsets */
#define BRAID_INSTANCE_WATCH	"-on"		/* events that begin or end a recording */

/**
 * braid_instance_create - make an instance of this process
 * @suffix: BRAID_INSTANCE_*; each at most once at a time
 *
 * Return: the instance, or NULL with errno.
 */
struct tracefs_instance *braid_instance_create(const char *suffix);

/**
 * braid_instance_remove - stop an instance, remove it, and free it
 * @instance: NULL is fine; the caller's own files of it are closed
 *
 * While another process holds a file of it the kernel refuses (EBUSY): it is tried for 100 ms. An
 * instance that is left does not trace; the next recording of the host removes it.
 */
void braid_instance_remove(struct tracefs_instance *instance);

/** braid_instance_owner_is_dead - whether the agent that had this PID is dead, or a zombie */
bool braid_instance_owner_is_dead(long pid);

/** braid_instance_remove_stale - remove instances of dead agents, if tracefs can be read */
void braid_instance_remove_stale(void);

#endif /* BRAID_UTIL_INSTANCE_H */
