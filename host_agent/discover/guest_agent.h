/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events that are enabled in a guest by QEMU's guest agent, which libvirt asks.
 *
 * A separate process has the connection to libvirt that may write, and knows the domains that the
 * user has named. It takes names of events, no command and no path: whoever takes over the recorder
 * can switch events of these domains, and do nothing else in them. Of what a guest answers it takes
 * one number.
 */
#ifndef BRAID_DISCOVER_GUEST_AGENT_H
#define BRAID_DISCOVER_GUEST_AGENT_H

#include <sys/types.h>

#include "host_agent/discover/discover.h"

#define BRAID_GUEST_AGENT_NAME_BYTES	64
#define BRAID_GUEST_AGENT_PATH_BYTES	256

/* The file in a guest that switches an event of the driver, or all events of a system. */
struct braid_guest_agent_file {
	char domain[BRAID_GUEST_NAME_BYTES];
	u8 boot_id[16];		/* of its kernel: the next one has other files */
	char buffer[BRAID_GUEST_AGENT_NAME_BYTES];
	char system[BRAID_GUEST_AGENT_NAME_BYTES];
	char event[BRAID_GUEST_AGENT_NAME_BYTES];	/* "": all of the system */
};

/** braid_guest_agent_same - whether it is the same file of the same boot of the guest */
bool braid_guest_agent_same(const struct braid_guest_agent_file *a,
			    const struct braid_guest_agent_file *b);

/**
 * braid_guest_agent_path - the path of a file, in the guest
 * @file: its names are the guest's, and not trusted
 * @path: set on success
 *
 * Return: 0, or -EINVAL with braid_fail(): a name has other characters than letters, digits, '_',
 * '-' and '.', or begins with '.'.
 */
int braid_guest_agent_path(const struct braid_guest_agent_file *file,
			   char path[BRAID_GUEST_AGENT_PATH_BYTES]);

/* The process. */
struct braid_guest_agent {
	int fd;			/* readable when there is an answer; -1: none */
	pid_t pid;
};

/**
 * braid_guest_agent_start - start the process; it sends nothing to a guest until it is asked
 * @agent: filled on success
 * @uri: libvirt's; NULL: $LIBVIRT_DEFAULT_URI or qemu:///system
 * @names: of the domains, or UUIDs
 * @nr: their number
 *
 * Call while the process has one thread. If this process dies, what is enabled is disabled.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_guest_agent_start(struct braid_guest_agent *agent, const char *uri,
			    const char *const *names, size_t nr);

/**
 * braid_guest_agent_set - ask for an event to be enabled or disabled; does not wait
 * @agent: started; the former answer was taken
 * @file: which
 * @on: or off
 *
 * Return: 0, or -EPIPE with braid_fail(): the process has ended.
 */
int braid_guest_agent_set(struct braid_guest_agent *agent,
			  const struct braid_guest_agent_file *file, bool on);

/**
 * braid_guest_agent_answer - take an answer; does not wait
 * @agent: asked
 * @err: set if 1 is returned: 0, or -errno with braid_fail(): -ENOENT: the guest has no such file;
 *	-ESHUTDOWN: the domain does not run
 * @maybe: set if 1 is returned: the event may be switched, whatever @err is
 *
 * Return: 1; 0: none yet; -EPIPE with braid_fail(): the process has ended.
 */
int braid_guest_agent_answer(struct braid_guest_agent *agent, int *err, bool *maybe);

/** braid_guest_agent_stop - end it, and wait for its end; fine when it was not started */
void braid_guest_agent_stop(struct braid_guest_agent *agent);

#endif /* BRAID_DISCOVER_GUEST_AGENT_H */
