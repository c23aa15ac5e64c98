/* SPDX-License-Identifier: GPL-2.0 */
/* A mutex that contexts which cannot sleep may try, NMIs included. */
#ifndef BRAID_CORE_LOCK_H
#define BRAID_CORE_LOCK_H

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>

/*
 * A function that may sleep takes the mutex, then the word. One for any context tries the word
 * only, and holds it for a short time with preemption off; the holder of the mutex spins meanwhile.
 * Which of the two a function does never depends on its caller's context: no kernel can tell a
 * read-side section of RCU, or with CONFIG_PREEMPT_RT a spinlock, from a context that may sleep.
 */
struct braid_lock {
	struct mutex mutex;
	atomic_t word;
};

#define BRAID_LOCK_INIT(name) { .mutex = __MUTEX_INITIALIZER(name.mutex) }

#define braid_lock_init(lock)				\
	do {						\
		mutex_init(&(lock)->mutex);		\
		atomic_set(&(lock)->word, 0);		\
	} while (0)

/**
 * braid_synchronize_writers - wait until every context that had preemption off has left. May sleep
 *
 * The function tracer calls its exports from where RCU does not watch, too, such as the entry to
 * idle. On kernels that allow tracing there, only a switch of tasks on each CPU shows that it left.
 */
static inline void braid_synchronize_writers(void)
{
	synchronize_rcu();
#ifdef CONFIG_TASKS_RUDE_RCU	/* each kernel with a function tracer has it */
	synchronize_rcu_tasks_rude();
#endif
}

/** braid_lock_try_any - take it from any context; braid_lock_end_any() releases it */
static inline bool braid_lock_try_any(struct braid_lock *lock)
{
	preempt_disable_notrace();
	if (!atomic_cmpxchg_acquire(&lock->word, 0, 1))
		return true;
	preempt_enable_notrace();
	return false;
}

static inline void braid_lock_end_any(struct braid_lock *lock)
{
	atomic_set_release(&lock->word, 0);
	preempt_enable_notrace();
}

/* For the holder of the mutex: waits until no other context holds the word. */
static inline void braid_lock_take_word(struct braid_lock *lock)
{
	while (atomic_cmpxchg_acquire(&lock->word, 0, 1))
		cpu_relax();
}

/** braid_lock_nested - braid_lock() for the second of two locks of a class */
static inline void braid_lock_nested(struct braid_lock *lock, unsigned int subclass)
{
	mutex_lock_nested(&lock->mutex, subclass);
	braid_lock_take_word(lock);
}

/** braid_lock - take it. May sleep */
static inline void braid_lock(struct braid_lock *lock)
{
	braid_lock_nested(lock, 0);
}

/**
 * braid_lock_try - take it unless a sleeping context holds it. May sleep, but never waits for it
 */
static inline bool braid_lock_try(struct braid_lock *lock)
{
	if (!mutex_trylock(&lock->mutex))
		return false;
	braid_lock_take_word(lock);
	return true;
}

static inline void braid_unlock(struct braid_lock *lock)
{
	atomic_set_release(&lock->word, 0);
	mutex_unlock(&lock->mutex);
}

#endif /* BRAID_CORE_LOCK_H */
