// SPDX-License-Identifier: GPL-2.0
/* Starts the transports that the user wants: devices, the guest's own memory, or what there is. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/module.h>
#include <linux/string.h>

#include "guest_driver/transport/transport.h"

/* User-mode Linux has no PCI; virtio is a separate module. */
#define HAVE_IVSHMEM	IS_ENABLED(CONFIG_PCI)

static char *transport = "";
module_param(transport, charp, 0444);
MODULE_PARM_DESC(transport, "device: only memory that a device provides, now or later (ivshmem, virtio); memory: only this guest's own, which the host finds and reads (memory_mb=); default: a device's, and until there is one this guest's own");

static bool braid_choose_devices(void)
{
	return HAVE_IVSHMEM && strcmp(transport, "memory");
}

static bool braid_choose_memory(void)
{
	return strcmp(transport, "device");
}

int __init braid_transports_init(const struct braid_transport_client *client)
{
	int err = 0;

	if (*transport && strcmp(transport, "device") && strcmp(transport, "memory")) {
		pr_err("transport=%s is unknown; use device, memory, or neither\n", transport);
		return -EINVAL;
	}
	if (braid_choose_devices())
		err = braid_ivshmem_ops.init(client);
	if (err || !braid_choose_memory() || client->in_use())
		return err;
	err = braid_memory_init(client, !*transport);
	if (err && braid_choose_devices())
		braid_ivshmem_ops.exit();
	return err;
}

/* Devices first: none takes over while the memory is freed. */
void braid_transports_exit(void)
{
	if (braid_choose_devices())
		braid_ivshmem_ops.exit();
	if (braid_choose_memory())
		braid_memory_exit();
}
