/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a recording sleeps on. */
#ifndef BRAID_RECORD_WAIT_H
#define BRAID_RECORD_WAIT_H

#include <poll.h>
#include <stdbool.h>

#include "host_agent/transport/endpoint.h"

/* One epoll set, level-triggered; a guest with descriptors has a set of its own within it. */
enum braid_wait_source {
	BRAID_WAIT_TICK = 0,	/* timers: the next turn is due, ... */
	BRAID_WAIT_PROGRESS,	/* ... the next progress line, ... */
	BRAID_WAIT_END,		/* ... the end */
	BRAID_WAIT_TIMERS,
	BRAID_WAIT_SIGNAL = BRAID_WAIT_TIMERS,
	BRAID_WAIT_CHILD,	/* the command has ended */
	BRAID_WAIT_VIEWER,	/* the live view has ended */
	BRAID_WAIT_REQUEST,	/* of a snapshot */
	BRAID_WAIT_DOMAINS,	/* libvirt's */
	BRAID_WAIT_AGENT,	/* a guest agent has answered */
	BRAID_WAIT_GUESTS,	/* and the guest's index */
};

#define BRAID_WAIT_EVENTS	64	/* reported at once; others are ready at the next call */

struct braid_wait {
	int epoll_fd;
	int timers[BRAID_WAIT_TIMERS];
	int fds[BRAID_WAIT_GUESTS];	/* in the set; or -1 */
};

#define BRAID_WAIT_NONE	((struct braid_wait){				\
	.epoll_fd = -1, .timers = { -1, -1, -1 },			\
	.fds = { -1, -1, -1, -1, -1, -1, -1, -1, -1 },				\
})

/* The descriptors of one guest. */
struct braid_wait_guest {
	int epoll_fd;		/* or -1 */
	size_t nr;
	struct pollfd fds[BRAID_ENDPOINT_FDS];
};

#define BRAID_WAIT_GUEST_NONE	((struct braid_wait_guest){ .epoll_fd = -1 })

/* What is ready. */
struct braid_woke {
	u32 sources;		/* bits of enum braid_wait_source */
	u32 guests[BRAID_WAIT_EVENTS];
	u32 nr_guests;
};

static inline bool braid_woke_by(const struct braid_woke *woke, enum braid_wait_source source)
{
	return woke->sources >> source & 1;
}

/** braid_wait_open - make set and timers, before we are confined. 0 or -errno with braid_fail() */
int braid_wait_open(struct braid_wait *w);

/** braid_wait_close - fine for BRAID_WAIT_NONE */
void braid_wait_close(struct braid_wait *w);

/**
 * braid_wait_for - listen to a descriptor
 * @source: not a timer
 * @fd: replaces the source's former one; -1: none
 *
 * Call with -1 before a descriptor is closed that another process holds too.
 */
void braid_wait_for(struct braid_wait *w, enum braid_wait_source source, int fd);

/** braid_wait_timer - set a timer: in @ns, 0: off; then each @interval_ns, 0: once */
void braid_wait_timer(struct braid_wait *w, enum braid_wait_source timer, u64 ns, u64 interval_ns);

/** braid_wait_for_guest - listen to a guest's descriptors, which may have changed */
void braid_wait_for_guest(struct braid_wait *w, struct braid_wait_guest *guest, u32 index,
			  const struct pollfd *fds, size_t nr);

/**
 * braid_wait_forget - do not listen to a guest until the next braid_wait_for_guest()
 *
 * Call when its descriptors were ready: serving them may close and reuse them.
 */
void braid_wait_forget(struct braid_wait_guest *guest);

/** braid_wait - sleep until something is ready; or only check, without @block */
void braid_wait(struct braid_wait *w, bool block, struct braid_woke *woke);

#endif /* BRAID_RECORD_WAIT_H */
