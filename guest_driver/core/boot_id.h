/* SPDX-License-Identifier: GPL-2.0 */
/* The boot id, to distinguish a reboot from a reload. */
#ifndef BRAID_CORE_BOOT_ID_H
#define BRAID_CORE_BOOT_ID_H

#include <linux/types.h>

/**
 * braid_boot_id - the value of /proc/sys/kernel/random/boot_id
 * @id: 16 bytes; zero when the kernel has no procfs with sysctls
 *
 * Context: may sleep.
 */
void braid_boot_id(u8 id[16]);

#endif /* BRAID_CORE_BOOT_ID_H */
