/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Domains of libvirt: which there are, the memory that they share with us, what befalls them. */
#ifndef BRAID_DISCOVER_LIBVIRT_H
#define BRAID_DISCOVER_LIBVIRT_H

#include <stdbool.h>
#include <sys/types.h>

#include "host_agent/discover/discover.h"

#define BRAID_SHM_DIR		"/dev/shm/"	/* where libvirt has the files of <shmem> */

/* A domain. Strings are tamed. */
struct braid_domain {
	char name[BRAID_GUEST_NAME_BYTES];
	const char *state;	/* as virsh calls it; static */
	bool active;
	char uuid[40];		/* as text */
	uid_t uid;		/* active: whom libvirt runs its QEMU as */
	pid_t qemu_pid;		/* 0: it does not run, is not ours to see, or was not looked for */
	bool attached;		/* it has a region now */
	bool configured;	/* it will have one when it is started again */
	char path[256];		/* the region's file, if either */
	u64 bytes;		/* of the region, if either */
	char blank[256];	/* a blank file that may be meant for one, if it has none, or "" */
};

/**
 * braid_domains_list - all domains of a connection
 * @uri: libvirt's; NULL: $LIBVIRT_DEFAULT_URI or qemu:///system
 * @domains: set on success; free()
 * @nr: their number
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_domains_list(const char *uri, struct braid_domain **domains, size_t *nr);

/* What braid_domain_attach() and braid_domain_detach() are to do. */
struct braid_domain_request {
	const char *uri;	/* as above */
	const char *domain;	/* its name or UUID */
	u64 bytes;		/* attach: of the region; a power of two of MiB */
	bool config;		/* attach: also from each start of the domain on */
	u64 timeout_ns;		/* detach: how long the guest may take to let go */
};

/* What came of it. */
struct braid_domain_result {
	struct braid_domain domain;	/* as it is afterwards */
	uid_t uid;		/* whom the file belongs to: the domain's QEMU */
	gid_t gid;
	bool changed_live;
	bool changed_config;
	bool file_made;
	bool file_removed;
	char why_later[256];	/* attach: why it gets it at its next start alone, or "" */
	char note[512];		/* worth a line, or "" */
	char *xml;		/* braid_domain_plan(): the device; free() */
};

/**
 * braid_domain_attach - give a domain a region
 * @request: which, and how large
 * @result: filled on success
 *
 * The file is made first, for its QEMU and its group alone. A domain that has a region
 * keeps it. Upon failure all is as it was before. When it gives one, SIGINT, SIGTERM and
 * SIGHUP are blocked from then on: the caller can still say how things stand.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_domain_attach(const struct braid_domain_request *request,
			struct braid_domain_result *result);

/**
 * braid_domain_plan - what braid_domain_attach() would do; changes nothing
 * @request: which, and how large
 * @result: filled on success, with the device's XML
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_domain_plan(const struct braid_domain_request *request,
		      struct braid_domain_result *result);

/**
 * braid_domain_detach - take a domain's region away, now and from its configuration
 * @request: which, and how long the guest may take
 * @result: filled on success
 *
 * The file goes too if it is what braid_domain_attach() makes. What is being recorded stays.
 *
 * Return: 0, or -errno with braid_fail(): -EBUSY: recorded; -ETIMEDOUT: the guest keeps it.
 */
int braid_domain_detach(const struct braid_domain_request *request,
			struct braid_domain_result *result);

/**
 * braid_qemus_of_domains - find the QEMUs that run domains
 * @domains: uuid, active and uid are filled in; qemu_pid is set where it is found
 * @nr: their number
 */
void braid_qemus_of_domains(struct braid_domain *domains, size_t nr);

/* What befalls domains ---------------------------------------------------------------- */

enum braid_domain_change_kind {
	BRAID_DOMAIN_FAILED = 1,	/* the watch can't begin: detail says why */
	BRAID_DOMAIN_REGION,		/* it runs, and path is its region */
	BRAID_DOMAIN_BARE,		/* it has none now: detail says why */
	BRAID_DOMAIN_EVENT,		/* detail befell it */
	BRAID_DOMAIN_LISTED,		/* those that were there have been told */
	BRAID_DOMAIN_LOST,		/* no libvirt now: detail */
	BRAID_DOMAIN_FOUND,		/* libvirt again */
};

/* A message of the watch. Strings are tamed, and end. */
struct braid_domain_change {
	u32 kind;
	char name[BRAID_GUEST_NAME_BYTES];
	char path[256];
	char detail[256];
};

/* A process of its own, since libvirt's event loop, its threads and its files are no
 * company for who reads guests' bytes. */
struct braid_domain_watch {
	int fd;			/* readable when it has something to tell; -1: none */
	pid_t pid;
};

/**
 * braid_domain_watch_start - begin to watch
 * @watch: filled on success
 * @uri: as above
 * @names: of the domains; NULL: all
 * @nr: their number
 *
 * To be called while the process has one thread. First all that is is told, then
 * BRAID_DOMAIN_LISTED or BRAID_DOMAIN_FAILED, then what changes.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_domain_watch_start(struct braid_domain_watch *watch, const char *uri,
			     const char *const *names, size_t nr);

/**
 * braid_domain_watch_next - take a message
 * @watch: started
 * @change: filled when there is one
 *
 * Return: 1; 0: none now; -EPIPE with braid_fail(): the watch has ended.
 */
int braid_domain_watch_next(struct braid_domain_watch *watch, struct braid_domain_change *change);

/** braid_domain_watch_stop - end it, and wait for its end; fine when it was not started */
void braid_domain_watch_stop(struct braid_domain_watch *watch);

#endif /* BRAID_DISCOVER_LIBVIRT_H */
