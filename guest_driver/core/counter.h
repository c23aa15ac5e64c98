/* SPDX-License-Identifier: GPL-2.0 */
/* The raw counter that events are stamped with. */
#ifndef BRAID_CORE_COUNTER_H
#define BRAID_CORE_COUNTER_H

#if defined(CONFIG_X86)
#include <asm/msr.h>
#include <asm/processor.h>
#include <asm/tsc.h>
#elif defined(CONFIG_UML)
#include <linux/timekeeping.h>
#else
#include <clocksource/arm_arch_timer.h>
#endif

#include "tracebraid/abi.h"

/**
 * braid_counter - read the counter of this CPU
 *
 * Not ordered against what comes before: an event's stamp may be a few
 * nanoseconds early, as the kernel's own trace clock is.
 * Context: any, NMI included.
 */
static __always_inline u64 braid_counter(void)
{
#if defined(CONFIG_X86)
	return rdtsc();
#elif defined(CONFIG_UML)
	return ktime_get_mono_fast_ns();	/* the kernel does not know the TSC's frequency */
#else
	return __arch_counter_get_cntvct();
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
	return __arch_counter_get_cntvct();
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
	return hypervisor_cpuid_base("TCGTCGTCGTCG", 0) ? BRAID_COUNTER_TSC_EMULATED :
							  BRAID_COUNTER_TSC;
#elif defined(CONFIG_UML)
	return BRAID_COUNTER_SYNTHETIC;
#else
	return BRAID_COUNTER_CNTVCT;
#endif
}

/** braid_counter_unstable - whether the kernel has marked the counter unstable; then it stays so */
static inline bool braid_counter_unstable(void)
{
#if defined(CONFIG_X86)
	return check_tsc_unstable();
#else
	return false;
#endif
}

#endif /* BRAID_CORE_COUNTER_H */
