/* SPDX-License-Identifier: GPL-2.0 */
/* The raw counter that events are stamped with. */
#ifndef BRAID_CORE_COUNTER_H
#define BRAID_CORE_COUNTER_H

#if defined(CONFIG_X86)
#include <asm/tsc.h>
#elif defined(CONFIG_UML)
#include <linux/timekeeping.h>
#else
#include <asm/arch_timer.h>
#include <asm/barrier.h>
#include <clocksource/arm_arch_timer.h>
#endif

#include "guest_driver/compat.h"
#include "tracebraid/abi.h"

/**
 * braid_counter - read the counter of this CPU
 *
 * Not ordered after preceding instructions: an event's stamp may be a few nanoseconds early, like
 * the kernel's own trace clock.
 * Context: any, NMI included.
 */
static __always_inline u64 braid_counter(void)
{
#if defined(CONFIG_X86)
	return rdtsc();
#elif defined(CONFIG_UML)
	return ktime_get_mono_fast_ns();	/* the kernel does not know the TSC's frequency */
#else
	return arch_timer_read_counter();	/* with what the CPU's errata need */
#endif
}

/** braid_counter_ordered - the same, not before any load that precedes it */
static inline u64 braid_counter_ordered(void)
{
#if defined(CONFIG_X86)
	return rdtsc_ordered();
#elif defined(CONFIG_UML)
	return braid_counter();
#else
	dsb(ishld);	/* the counter's ISB alone does not wait for a load to complete */
	return braid_counter();
#endif
}

/** braid_counter_hz - its nominal frequency */
static inline u64 braid_counter_hz(void)
{
#if defined(CONFIG_X86)
	return tsc_khz * 1000ULL;
#elif defined(CONFIG_UML)
	return NSEC_PER_SEC;
#else
	return arch_timer_get_cntfrq();
#endif
}

/** braid_counter_type - which counter it is */
static inline enum braid_counter_type braid_counter_type(void)
{
#if defined(CONFIG_X86)
	return braid_cpuid_base_hypervisor("TCGTCGTCGTCG", 0) ? BRAID_COUNTER_TSC_EMULATED :
								BRAID_COUNTER_TSC;
#elif defined(CONFIG_UML)
	return BRAID_COUNTER_SYNTHETIC;
#else
	return BRAID_COUNTER_CNTVCT;
#endif
}

/**
 * braid_counter_unstable - whether the kernel has marked the counter unstable; permanent once set
 */
static inline bool braid_counter_unstable(void)
{
#if defined(CONFIG_X86)
	return check_tsc_unstable();
#else
	return false;
#endif
}

#endif /* BRAID_CORE_COUNTER_H */
