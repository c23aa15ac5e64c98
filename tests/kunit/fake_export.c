// SPDX-License-Identifier: GPL-2.0
/* Replaces source/export.c and tracefs.c, which user-mode Linux cannot use: takes nothing from tracefs. */
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/slab.h>

#include "guest_driver/source/export.h"
#include "guest_driver/source/tracefs.h"
#include "tests/kunit/rooms.h"

bool braid_fake_looks_up;

char *braid_tracefs_printk_formats(void)
{
	return kstrdup(BRAID_FAKE_TEXTS, GFP_KERNEL) ?: ERR_PTR(-ENOMEM);
}

int braid_export_start(struct braid_buffer *buffer)
{
	return -EOPNOTSUPP;
}

void braid_export_stop(void)
{
}

void braid_export_flush(void)
{
}

bool braid_export_settle(bool first)
{
	return !READ_ONCE(braid_fake_looks_up);
}
