/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of probes share: probe.c keeps them, site.c places them, hit.c records hits. */
#ifndef BRAID_EVENT_PROBE_PRIVATE_H
#define BRAID_EVENT_PROBE_PRIVATE_H

#include <linux/kprobes.h>
#include <linux/path.h>

#include "guest_driver/compat.h"
#include "guest_driver/event/event.h"
#include "guest_driver/event/probe.h"
#include "shared/probe.h"

/* A function that sleeps returns later: so many calls at a time can be followed. */
#define BRAID_PROBE_CALLS	512

struct braid_probe_event {
	struct list_head list;
	struct braid_event ev;
	struct braid_probe asked;	/* as the host has it; checked */
	struct braid_probe probe;	/* the same, complete */
	char system[BRAID_PATTERN_BYTES];
	char name[BRAID_PATTERN_BYTES];
	u16 offsets[BRAID_PROBE_ARGS];	/* of the arguments in a record */
	u16 registers[BRAID_PROBE_ARGS];	/* in struct pt_regs */
	u32 bytes;			/* of a record without its strings */
	bool on;			/* hits are recorded */
	bool pending;			/* its module is not loaded: not placed */
	bool placed;			/* at some time */
	u64 missed;			/* missed hits, of all times that it was armed before */
	u64 missed_before;		/* the kernel's count when it was last armed */
	union {
		struct kretprobe kernel;	/* of KERNEL only its kp */
#ifdef CONFIG_UPROBES
		struct {
			struct uprobe_consumer consumer;
			struct path path;
			struct inode *inode;
			loff_t offset;
			void *handle;
			bool draining;	/* disarmed, and not yet waited for */
		} user;
#endif
	};
};

/* hit.c ------------------------------------------------------------------------------------- */

/**
 * braid_probe_hit - record a hit
 * @p: the probe
 * @regs: of the code that was hit
 * @ip: where; of a RETURN the function
 * @ret_ip: of a RETURN, where it returns to
 *
 * Context: any; of a USER probe one that may fault.
 */
void braid_probe_hit(struct braid_probe_event *p, struct pt_regs *regs, unsigned long ip,
		     unsigned long ret_ip);

/** braid_probe_register - the offset of a register in struct pt_regs. Return: -EINVAL: none */
int braid_probe_register(const char *name);

/* site.c ------------------------------------------------------------------------------------ */

/**
 * braid_site_find - find and reserve the place of a probe; nothing is hit yet
 * @p: its probe is checked
 * @refusal: set on failure, and if it is pending
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int braid_site_find(struct braid_probe_event *p, struct braid_refusal *refusal);

/** braid_site_release - undo braid_site_find(); it is disarmed. May sleep */
void braid_site_release(struct braid_probe_event *p);

/**
 * braid_site_release_all - the same for all of a list; no handler runs on return
 * @probes: disarmed, and braid_site_synchronize() was called
 *
 * Context: may sleep; waits once for many probes.
 */
void braid_site_release_all(const struct list_head *probes);

/**
 * braid_site_came - place a pending probe if its module is the one that was loaded
 * @p: the probe
 * @module: the module; NULL: any
 *
 * Must hold braid_registry_lock().
 */
void braid_site_came(struct braid_probe_event *p, const char *module);

/** braid_site_goes - remove a probe of a module that is unloaded. As braid_site_came() */
void braid_site_goes(struct braid_probe_event *p, const char *module);

/** braid_site_missed - the number of missed hits. Must hold braid_registry_lock() */
u64 braid_site_missed(const struct braid_probe_event *p);

/** braid_site_arm - from now on it is hit. May sleep. Return: 0 or -errno */
int braid_site_arm(struct braid_probe_event *p);

/** braid_site_disarm - the reverse; a handler may run until braid_site_synchronize(). May sleep */
void braid_site_disarm(struct braid_probe_event *p);

/** braid_site_synchronize - wait until no handler of a disarmed probe runs. May sleep */
void braid_site_synchronize(void);

/* named.c ----------------------------------------------------------------------------------- */

/**
 * braid_named_resolve - complete the arguments of a probe by the kernel's BTF
 * @p: the probe; its place is known, or it is pending
 * @refusal: set on failure
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int braid_named_resolve(struct braid_probe_event *p, struct braid_refusal *refusal);

/* elf.c ------------------------------------------------------------------------------------- */

/**
 * braid_elf_find - the offset of a symbol's code in a file
 * @path: of the file
 * @symbol: its name
 * @offset: set on success
 *
 * Context: may sleep. Return: 0; -ENOENT; -ENOEXEC: not a usable ELF file; or another error.
 */
int braid_elf_find(const struct path *path, const char *symbol, u64 *offset);

#endif /* BRAID_EVENT_PROBE_PRIVATE_H */
