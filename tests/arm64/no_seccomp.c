// SPDX-License-Identifier: GPL-2.0-or-later
/* Preloaded into the agent under qemu-user, which has no seccomp: the filter is made, but not loaded. */
#include <seccomp.h>
#include <stdlib.h>

/* Programs of this machine, which a test starts, cannot load it. */
static void __attribute__((__constructor__)) stay_alone(void)
{
	unsetenv("LD_PRELOAD");
}

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
