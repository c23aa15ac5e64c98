/* SPDX-License-Identifier: GPL-2.0 */
/* Splits raw_syscalls:sys_enter and sys_exit by system call. */
#ifndef BRAID_SOURCE_SYSCALLS_H
#define BRAID_SOURCE_SYSCALLS_H

#include "guest_driver/event/event.h"

/**
 * braid_syscalls_add - give raw_syscalls' events a sub-event for each system call
 * @events: registered; those two may be among them
 * @nr: of them
 *
 * Context: may sleep. Return: 0, also when this machine's calls are unknown; -ENOMEM.
 */
int braid_syscalls_add(struct braid_event *events, unsigned int nr);

/** braid_syscalls_exit - free what the sub-events were made of; the events are removed */
void braid_syscalls_exit(void);

#endif /* BRAID_SOURCE_SYSCALLS_H */
