/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one clock that all host times are of: the host trace clock "mono_raw"; and the host's raw
 * counter, which KVM's offsets are relative to.
 */
#ifndef BRAID_CLOCK_SYNC_HOST_H
#define BRAID_CLOCK_SYNC_HOST_H

#include <stdbool.h>

#include "host_agent/capture/chunk.h"
#include "host_agent/util/monotonic.h"

/**
 * braid_host_clock_ns - now, in ns of the host trace clock
 *
 * CLOCK_MONOTONIC_RAW: no step, no slewing, the same in the kernel's trace and here.
 */
static inline u64 braid_host_clock_ns(void)
{
	return braid_clock_read_ns(CLOCK_MONOTONIC_RAW);
}

/**
 * braid_host_clock_pair - the host clock and CLOCK_REALTIME, of one moment
 * @host_ns: set
 * @realtime_ns: set; the two are less than a microsecond apart on a calm machine
 */
void braid_host_clock_pair(u64 *host_ns, u64 *realtime_ns);

/**
 * braid_host_id - identify this host's clock, among other hosts and other boots of this one
 * @id: filled: a hash of machine id, boot id, and the time namespace's offset of the clock
 *
 * Return: false: it cannot be determined; @id is all 0.
 */
bool braid_host_id(u8 id[BRAID_HOST_ID_BYTES]);

/** braid_sleep_ns - sleep for about @ns nanoseconds, less after a signal */
void braid_sleep_ns(u64 ns);

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

#endif /* BRAID_CLOCK_SYNC_HOST_H */
