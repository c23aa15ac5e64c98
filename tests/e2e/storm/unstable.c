// SPDX-License-Identifier: GPL-2.0
/* Marks the TSC unstable when it is loaded, as the kernel's clocksource watchdog does. */
#include <asm/tsc.h>
#include <linux/module.h>

static int __init unstable_init(void)
{
	mark_tsc_unstable("a test");
	return 0;
}

static void __exit unstable_exit(void)
{
}

module_init(unstable_init);
module_exit(unstable_exit);
MODULE_DESCRIPTION("Marks the TSC unstable");
MODULE_LICENSE("GPL");
