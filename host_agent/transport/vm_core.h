/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The core file of a VMM: its memory, as that of a process. */
#ifndef BRAID_TRANSPORT_VM_CORE_H
#define BRAID_TRANSPORT_VM_CORE_H

#include "host_agent/transport/vm_memory.h"

/**
 * braid_vm_core_is - whether a file is the core of a process
 * @fd: a file
 *
 * That has the note NT_AUXV, which dumps of a guest's memory and /proc/vmcore lack.
 */
bool braid_vm_core_is(int fd);

/**
 * braid_vm_core_open - get ready to read the memory in it
 * @out: set on success; its mappings are those that the file has bytes of
 * @fd: of a core, as the kernel and gcore write it; not closed by braid_vm_memory_close()
 * @cut_off: set to whether the file lacks its end
 *
 * All mappings together are no larger than the file.
 *
 * Return: 0; or -errno with braid_fail().
 */
int braid_vm_core_open(struct braid_vm_memory *out, int fd, bool *cut_off);

#endif /* BRAID_TRANSPORT_VM_CORE_H */
