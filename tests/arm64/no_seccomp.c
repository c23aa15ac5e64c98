// SPDX-License-Identifier: GPL-2.0-or-later
/* Preloaded into the agent under qemu-user, which has no seccomp: the filter is made, but not loaded. */
#include <seccomp.h>

/* The library asks the kernel for what an attribute needs. */
int seccomp_attr_set(scmp_filter_ctx ctx, enum scmp_filter_attr attr, uint32_t value)
{
	(void)attr;
	(void)value;
	return ctx ? 0 : -1;
}

int seccomp_load(const scmp_filter_ctx ctx)
{
	return ctx ? 0 : -1;
}
