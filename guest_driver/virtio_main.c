// SPDX-License-Identifier: GPL-2.0
/* The module that delivers memory to the driver through virtio. */
#include <linux/module.h>

#include "guest_driver/attach.h"
#include "shared/version.h"

static int __init braid_virtio_module_init(void)
{
	return braid_virtio_ops.init(&braid_attach_client);
}

static void __exit braid_virtio_module_exit(void)
{
	braid_virtio_ops.exit();
}

module_init(braid_virtio_module_init);
module_exit(braid_virtio_module_exit);
MODULE_DESCRIPTION("Shares this guest's trace with its host through a virtio device");
MODULE_VERSION(BRAID_VERSION);
MODULE_LICENSE("GPL");
