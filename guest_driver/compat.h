/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between kernel versions: the only place that asks for one.
 */
#ifndef BRAID_COMPAT_H
#define BRAID_COMPAT_H

#include <linux/version.h>

/*
 * Where struct workqueue_struct has its name, which only a load-time check
 * can confirm (source/twin.c).
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
#define BRAID_WORKQUEUE_NAME_OFFSET	208
#else
#define BRAID_WORKQUEUE_NAME_OFFSET	200
#endif

#endif /* BRAID_COMPAT_H */
