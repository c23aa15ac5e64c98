/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The host's probes: events at instructions of the kernel and of programs.
 *
 * They are placed by the kernel's own registration, not by tracefs: the dynamic events of the
 * guest's user are neither listed with them nor blocked by them. Only the poll thread adds or
 * removes them, and detaching, when that thread does not run.
 */
#ifndef BRAID_EVENT_PROBE_H
#define BRAID_EVENT_PROBE_H

#include "guest_driver/event/refusal.h"

#ifdef CONFIG_KPROBES
/** braid_probe_init - follow modules that are loaded and unloaded. May sleep */
void braid_probe_init(void);

/** braid_probe_exit - the reverse. May sleep */
void braid_probe_exit(void);

/**
 * braid_probe_set - make an event of a probe, or remove all probes
 * @system: of the event
 * @name: likewise
 * @probe: a private copy, not yet checked; of kind NONE: remove all
 * @refusal: set on failure, and if it is pending
 *
 * Context: may sleep, without locks. Return: 0 or -errno.
 */
int braid_probe_set(const char *system, const char *name, const struct braid_probe *probe,
		    struct braid_refusal *refusal);

/**
 * braid_probe_hits - read how many hits of a probe were missed, and whether it was ever placed
 * @system: of the event
 * @name: likewise
 * @hits: filled on success
 *
 * Context: as braid_probe_set(). Return: 0; -ENOENT: no such probe.
 */
int braid_probe_hits(const char *system, const char *name, struct braid_probe_hits *hits);

/** braid_probe_remove_all - remove all; no handler of theirs runs on return. May sleep */
void braid_probe_remove_all(void);

#else
static inline void braid_probe_init(void)
{
}

static inline void braid_probe_exit(void)
{
}

static inline int braid_probe_hits(const char *system, const char *name,
				   struct braid_probe_hits *hits)
{
	return -ENOENT;
}

static inline int braid_probe_set(const char *system, const char *name,
				  const struct braid_probe *probe, struct braid_refusal *refusal)
{
	return probe->kind == BRAID_PROBE_NONE ? 0 :
	       braid_refuse(refusal, -EOPNOTSUPP, "the guest's kernel has no kprobes");
}

static inline void braid_probe_remove_all(void)
{
}
#endif

#endif /* BRAID_EVENT_PROBE_H */
