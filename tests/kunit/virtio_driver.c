// SPDX-License-Identifier: GPL-2.0
/*
 * The virtio driver, as if it were built into the kernel: suites run before their module is in sysfs,
 * where a driver with an owner would have to link to it.
 */
#include <linux/export.h>

#undef THIS_MODULE
#define THIS_MODULE	((struct module *)NULL)

#include "guest_driver/transport/virtio.c"
