// SPDX-License-Identifier: GPL-2.0
/*
 * The virtio driver as built in: suites run before their module is in sysfs, to which a driver with
 * an owner would link. Whether the guest's memory is encrypted is up to the test.
 */
#include <linux/cc_platform.h>
#include <linux/export.h>
#include <linux/init.h>

#include "tests/kunit/fake_virtio.h"

#define cc_platform_has(attribute) \
	((attribute) == CC_ATTR_GUEST_MEM_ENCRYPT && braid_fake_virtio.encrypted)

#undef THIS_MODULE
#define THIS_MODULE	((struct module *)NULL)

#include "guest_driver/transport/virtio.c"
