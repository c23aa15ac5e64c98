// SPDX-License-Identifier: GPL-2.0
/* Brings the rooms up in order, and down in reverse. */
#include <linux/module.h>

#include "guest_driver/attach.h"
#include "guest_driver/event/debugfs.h"
#include "guest_driver/event/mapping.h"
#include "guest_driver/event/online.h"
#include "guest_driver/event/probe.h"
#include "guest_driver/event/select.h"
#include "guest_driver/event/stacks.h"
#include "guest_driver/event/trigger.h"
#include "guest_driver/marker/marker.h"
#include "guest_driver/source/export.h"
#include "guest_driver/source/native.h"
#include "guest_driver/source/sample.h"
#include "shared/version.h"

static int __init braid_module_init(void)
{
	int err;

	braid_debugfs_init();
	err = braid_attach_init();
	if (err)
		goto err_debugfs;
	err = braid_native_init();
	if (err)
		goto err_attach;
	err = braid_online_init();
	if (err)
		goto err_native;
	braid_probe_init();
	err = braid_trigger_init();
	if (err)
		goto err_probe;
	err = braid_mapping_init();
	if (err)
		goto err_trigger;
	err = braid_stacks_init();
	if (err)
		goto err_mapping;
	err = braid_sample_init();
	if (err)
		goto err_stacks;
	err = braid_marker_init();
	if (err)
		goto err_sample;
	err = braid_select_init();
	if (err)
		goto err_marker;
	err = braid_transports_init(&braid_attach_client);
	if (err)
		goto err_select;
	return 0;

err_select:
	braid_select_exit();
err_marker:
	braid_marker_exit();
err_sample:
	braid_sample_exit();
err_stacks:
	braid_stacks_exit();
err_mapping:
	braid_mapping_exit();
err_trigger:
	braid_trigger_exit();
err_probe:
	braid_probe_exit();
	braid_online_exit();
err_native:
	braid_native_exit();
err_attach:
	braid_attach_exit();
err_debugfs:
	braid_debugfs_exit();
	return err;
}

static void __exit braid_module_exit(void)
{
	braid_transports_exit();
	braid_export_exit();
	braid_select_exit();
	braid_marker_exit();
	braid_sample_exit();
	braid_stacks_exit();
	braid_mapping_exit();
	braid_trigger_exit();
	braid_probe_exit();
	braid_online_exit();
	braid_native_exit();
	braid_attach_exit();
	braid_debugfs_exit();
}

module_init(braid_module_init);
module_exit(braid_module_exit);
MODULE_DESCRIPTION("Writes this guest's trace to memory that the host shares");
MODULE_VERSION(BRAID_VERSION);
MODULE_LICENSE("GPL");
