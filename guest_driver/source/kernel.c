// SPDX-License-Identifier: GPL-2.0
/*
 * Probes of the events of the kernel's own housekeeping.
 */
#include <linux/init.h>
#include <linux/module.h>

#include "guest_driver/source/group.h"

#define BRAID_GROUP	kernel
#define BRAID_HEADERS	"guest_driver/source/kernel_headers.h"
#include "guest_driver/source/generate.h"
