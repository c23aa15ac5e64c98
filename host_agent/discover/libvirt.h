/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Domains of libvirt: the list, the memory that they share with us, their events. */
#ifndef BRAID_DISCOVER_LIBVIRT_H
#define BRAID_DISCOVER_LIBVIRT_H

#include <stdbool.h>
#include <sys/types.h>

#include "host_agent/discover/discover.h"

#define BRAID_SHM_DIR		"/dev/shm/"	/* where libvirt has the files of <shmem> */

/* A domain. Strings are sanitized. */
struct braid_domain {
	char name[BRAID_GUEST_NAME_BYTES];
	const char *state;	/* as virsh calls it; static */
	bool active;
	char uuid[40];		/* as text */
	uid_t uid;		/* active: the user that libvirt runs its QEMU as */
	pid_t qemu_pid;		/* 0: not running, not visible, or not searched */
	bool attached;		/* it has a region now */
	bool configured;	/* it will have one after its next start */
	char path[256];		/* the region's file, if either */
	u64 bytes;		/* of the region, if either */
	char blank[256];	/* a blank file that may be intended as one, if it has none, or
				   "" */
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
	u64 timeout_ns;		/* detach: timeout for the guest to release it */
};

/* The result. */
struct braid_domain_result {
	struct braid_domain domain;	/* as it is afterwards */
	uid_t uid;		/* owner of the file: the domain's QEMU */
	gid_t gid;
	bool changed_live;
	bool changed_config;
	bool file_made;
	bool file_removed;
	char why_later[256];	/* attach: why it takes effect only at the next start, or "" */
	char note[512];		/* worth a line, or "" */
	char *xml;		/* braid_domain_plan(): the device; free() */
};

/**
 * braid_domain_attach - give a domain a region
 * @request: the domain and size
 * @result: filled on success
 *
 * The file is created first, accessible only to its QEMU and its group. A domain that has a region
 * keeps it. On failure all changes are undone. When a region is attached, SIGINT, SIGTERM and
 * SIGHUP stay blocked, so that the caller can report the result.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_domain_attach(const struct braid_domain_request *request,
			struct braid_domain_result *result);

/**
 * braid_domain_plan - dry run of braid_domain_attach(): changes nothing
 * @request: the domain and size
 * @result: filled on success, with the device's XML
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_domain_plan(const struct braid_domain_request *request,
		      struct braid_domain_result *result);

/**
 * braid_domain_detach - remove a domain's region, now and from its configuration
 * @request: the domain and timeout
 * @result: filled on success
 *
 * The file is removed too if braid_domain_attach() created it. A region that is being recorded is
 * kept.
 *
 * Return: 0, or -errno with braid_fail(): -EBUSY: being recorded; -ETIMEDOUT: not released by the
 * guest.
 */
int braid_domain_detach(const struct braid_domain_request *request,
			struct braid_domain_result *result);

/**
 * braid_qemus_of_domains - find the QEMUs that run domains
 * @domains: uuid, active and uid are filled in; qemu_pid is set where it is found
 * @nr: their number
 */
void braid_qemus_of_domains(struct braid_domain *domains, size_t nr);

/* Events of domains ---------------------------------------------------------------- */

enum braid_domain_change_kind {
	BRAID_DOMAIN_FAILED = 1,	/* the watch can't begin: detail says why */
	BRAID_DOMAIN_REGION,		/* it runs, and path is its region */
	BRAID_DOMAIN_MEMORY,		/* it runs without a device: its driver may lay out a
					   region in the memory of the VMM, which path is */
	BRAID_DOMAIN_BARE,		/* it has none now: detail gives the reason */
	BRAID_DOMAIN_EVENT,		/* it had the event in detail */
	BRAID_DOMAIN_AGENT,		/* its guest agent came */
	BRAID_DOMAIN_LISTED,		/* all existing domains have been reported */
	BRAID_DOMAIN_LOST,		/* no libvirt now: detail */
	BRAID_DOMAIN_FOUND,		/* libvirt is reachable again */
};

/* A message of the watch. Strings are sanitized, and end. */
struct braid_domain_change {
	u32 kind;
	char name[BRAID_GUEST_NAME_BYTES];
	char path[256];
	char detail[256];
};

/* A separate process, to keep libvirt's event loop, threads and files out of the process that reads
 * guest data. */
struct braid_domain_watch {
	int fd;			/* readable when a message is pending; -1: none */
	pid_t pid;
};

/**
 * braid_domain_watch_start - begin to watch
 * @watch: filled on success
 * @uri: as above
 * @names: of the domains; NULL: all
 * @nr: their number
 *
 * Call while the process has one thread. Reports all existing domains, then BRAID_DOMAIN_LISTED or
 * BRAID_DOMAIN_FAILED, then changes.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_domain_watch_start(struct braid_domain_watch *watch, const char *uri,
			     const char *const *names, size_t nr);

/**
 * braid_domain_watch_next - take a message
 * @watch: started
 * @change: filled when 1 is returned
 *
 * Return: 1; 0: none pending; -EPIPE with braid_fail(): the watch has ended.
 */
int braid_domain_watch_next(struct braid_domain_watch *watch, struct braid_domain_change *change);

/** braid_domain_watch_stop - end it, and wait for its end; fine when it was not started */
void braid_domain_watch_stop(struct braid_domain_watch *watch);

#endif /* BRAID_DISCOVER_LIBVIRT_H */
