/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host's raw counter: what KVM's offsets are relative to. */
#ifndef BRAID_CLOCK_SYNC_COUNTER_H
#define BRAID_CLOCK_SYNC_COUNTER_H

#include "tracebraid/types.h"

/**
 * braid_host_counter - read the counter, ordered with the surrounding code
 *
 * Return: 0 if unavailable.
 */
static inline u64 braid_host_counter(void)
{
#if defined(__x86_64__)
	u64 counter;

	__builtin_ia32_lfence();
	counter = __builtin_ia32_rdtsc();
	__builtin_ia32_lfence();
	return counter;
#elif defined(__aarch64__)
	u64 counter;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(counter) : : "memory");
	return counter;
#else
	return 0;
#endif
}

/**
 * braid_host_counter_name - "tsc", "cntvct"; NULL: the host itself does not use one for timekeeping
 */
const char *braid_host_counter_name(void);

#endif /* BRAID_CLOCK_SYNC_COUNTER_H */
