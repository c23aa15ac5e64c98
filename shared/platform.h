/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The one place where the two worlds differ, and the only access to shared words.
 *
 * A word that the peer can see is read and written only through these. Each use names its
 * counterpart by a tag such as "(A1)", listed in docs/ring.md. A one-CPU guest has its LOCK
 * prefixes patched out, modules included, though the host runs concurrently: hence sync_cmpxchg and
 * virt_*, never cmpxchg and smp_*.
 */
#ifndef BRAID_SHARED_PLATFORM_H
#define BRAID_SHARED_PLATFORM_H

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tracebraid needs a little-endian machine: all shared words are little endian"
#endif
#if __SIZEOF_POINTER__ != 8
#error "tracebraid needs a 64-bit machine: shared words of 64 bits are read and written in one access"
#endif

#include "tracebraid/types.h"

#ifdef __KERNEL__
#include <asm/barrier.h>
#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/nospec.h>
#include <linux/string.h>
#include <uapi/linux/btf.h>

#define braid_load(p)			READ_ONCE(*(p))
#define braid_store(p, v)		WRITE_ONCE(*(p), v)
#define braid_load_acquire(p)		virt_load_acquire(p)
#define braid_store_release(p, v)	virt_store_release(p, v)
#define braid_fence()			virt_mb()
#define braid_barrier()			barrier()
#define braid_index_nospec(i, n)	array_index_nospec(i, n)

/* Full-strength compare-and-swap against the peer. Returns what was there. */
static inline u64 braid_shared_cmpxchg(u64 *p, u64 old, u64 new)
{
#ifdef CONFIG_X86
	return sync_cmpxchg(p, old, new);
#else
	return cmpxchg(p, old, new);
#endif
}

/*
 * Only against contexts of the same CPU: no LOCK prefix. The compiler moves no access across it;
 * arm64's cmpxchg_local() alone lets it.
 */
static inline bool braid_local_cas(u64 *p, u64 old, u64 new)
{
	bool ok;

	barrier();
	ok = cmpxchg_local(p, old, new) == old;
	barrier();
	return ok;
}

#else /* user space */
#include <errno.h>
#include <linux/btf.h>
#include <string.h>

#ifndef likely
#define likely(x)			__builtin_expect(!!(x), 1)
#define unlikely(x)			__builtin_expect(!!(x), 0)
#endif
#ifndef __always_inline
#define __always_inline			inline __attribute__((__always_inline__))
#endif
#ifndef noinline
#define noinline			__attribute__((__noinline__))
#endif

#define braid_load(p)			__atomic_load_n(p, __ATOMIC_RELAXED)
#define braid_store(p, v)		__atomic_store_n(p, v, __ATOMIC_RELAXED)
#define braid_load_acquire(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define braid_store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define braid_fence()			__atomic_thread_fence(__ATOMIC_SEQ_CST)
#define braid_barrier()			__atomic_signal_fence(__ATOMIC_SEQ_CST)
#define braid_index_nospec(i, n)	(i)

static inline u64 braid_shared_cmpxchg(u64 *p, u64 old, u64 new)
{
	__atomic_compare_exchange_n(p, &old, new, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return old;
}

static inline bool braid_local_cas(u64 *p, u64 old, u64 new)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(BRAID_NO_ASM)
	bool ok;

	__asm__ volatile("cmpxchgq %3, %1"
			 : "=@ccz"(ok), "+m"(*p), "+a"(old)
			 : "r"(new)
			 : "memory");
	return ok;
#else
	bool ok;

	braid_barrier();
	ok = __atomic_compare_exchange_n(p, &old, new, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	braid_barrier();
	return ok;
#endif
}
#endif /* __KERNEL__ */

/*
 * Changes of a word as seen by contexts of the same CPU that nest: an interrupt between load and
 * store finds its own change kept only if this is one instruction.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(BRAID_NO_ASM)
static inline void braid_local_inc(u32 *p)
{
	__asm__ volatile("incl %0" : "+m"(*p) : : "memory", "cc");
}

/* Returns whether 0 is left. */
static inline bool braid_local_dec(u32 *p)
{
	bool zero;

	__asm__ volatile("decl %0" : "+m"(*p), "=@ccz"(zero) : : "memory");
	return zero;
}

static inline void braid_local_or(u32 *p, u32 bits)
{
	__asm__ volatile("orl %1, %0" : "+m"(*p) : "ri"(bits) : "memory", "cc");
}

static inline void braid_local_and(u32 *p, u32 bits)
{
	__asm__ volatile("andl %1, %0" : "+m"(*p) : "ri"(bits) : "memory", "cc");
}
#else
#ifdef __KERNEL__
#define braid_local_update(p, old, new)						\
	do {									\
		u32 seen = READ_ONCE(*(p));					\
										\
		do {								\
			old = seen;						\
		} while ((seen = cmpxchg_local(p, old, new)) != old);		\
	} while (0)
#else
#define braid_local_update(p, old, new)						\
	do {									\
		old = braid_load(p);						\
		braid_barrier();						\
		while (!__atomic_compare_exchange_n(p, &old, new, false,	\
						    __ATOMIC_RELAXED,		\
						    __ATOMIC_RELAXED))		\
			;							\
		braid_barrier();						\
	} while (0)
#endif

static inline void braid_local_inc(u32 *p)
{
	u32 old;

	braid_local_update(p, old, old + 1);
}

static inline bool braid_local_dec(u32 *p)
{
	u32 old;

	braid_local_update(p, old, old - 1);
	return old == 1;
}

static inline void braid_local_or(u32 *p, u32 bits)
{
	u32 old;

	braid_local_update(p, old, old | bits);
}

static inline void braid_local_and(u32 *p, u32 bits)
{
	u32 old;

	braid_local_update(p, old, old & bits);
}
#endif

#endif /* BRAID_SHARED_PLATFORM_H */
