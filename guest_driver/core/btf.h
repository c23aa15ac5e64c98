/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the BTF that the running kernel shows in sysfs: of itself and of its modules. */
#ifndef BRAID_CORE_BTF_H
#define BRAID_CORE_BTF_H

#include <linux/types.h>

/**
 * braid_btf_read - read a file of /sys/kernel/btf
 * @name: "vmlinux", or a module
 * @bytes: set on success
 *
 * Context: may sleep. Return: the whole file, for vfree(); NULL: no such file, more than 64 MiB, or
 * no memory.
 */
void *braid_btf_read(const char *name, size_t *bytes);

#endif /* BRAID_CORE_BTF_H */
