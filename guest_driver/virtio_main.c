// SPDX-License-Identifier: GPL-2.0
/* The module that brings memory over virtio to the driver. */
#include <linux/module.h>

#include "guest_driver/attach.h"

static int __init tracebraid_virtio_init(void)
{
	return braid_virtio_ops.init(&braid_attach_client);
}

static void __exit tracebraid_virtio_exit(void)
{
	braid_virtio_ops.exit();
}

module_init(tracebraid_virtio_init);
module_exit(tracebraid_virtio_exit);
MODULE_DESCRIPTION("Shares this guest's trace with its host through a virtio device");
MODULE_LICENSE("GPL");
