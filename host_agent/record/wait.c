// SPDX-License-Identifier: GPL-2.0-or-later
/* An epoll set of timers, signals, processes, sockets and guests. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "host_agent/record/wait.h"
#include "host_agent/util/error.h"

#define SECOND_NS	1000000000ULL

static int wait_add(int epoll_fd, int fd, u32 events, u64 number)
{
	struct epoll_event event = { .events = events, .data.u64 = number };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int braid_wait_open(struct braid_wait *w)
{
	int k;

	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll_fd < 0)
		return braid_fail(-errno, "cannot create an epoll set: %s", strerror(errno));
	for (k = 0; k < BRAID_WAIT_TIMERS; k++) {
		w->timers[k] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
		if (w->timers[k] < 0 || wait_add(w->epoll_fd, w->timers[k], EPOLLIN, k))
			return braid_fail(-errno, "cannot create a timer: %s", strerror(errno));
	}
	return 0;
}

void braid_wait_close(struct braid_wait *w)
{
	int k;

	for (k = 0; k < BRAID_WAIT_TIMERS; k++)
		if (w->timers[k] >= 0)
			close(w->timers[k]);
	if (w->epoll_fd >= 0)
		close(w->epoll_fd);
	*w = BRAID_WAIT_NONE;
}

void braid_wait_for(struct braid_wait *w, enum braid_wait_source source, int fd)
{
	if (w->fds[source] == fd)
		return;
	if (w->fds[source] >= 0)	/* fails for one that was closed: it has left the set */
		epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, w->fds[source], NULL);
	w->fds[source] = -1;
	if (fd >= 0 && !wait_add(w->epoll_fd, fd, EPOLLIN, source))
		w->fds[source] = fd;
}

void braid_wait_timer(struct braid_wait *w, enum braid_wait_source timer, u64 ns, u64 interval_ns)
{
	struct itimerspec t = {
		.it_value = { ns / SECOND_NS, ns % SECOND_NS },
		.it_interval = { interval_ns / SECOND_NS, interval_ns % SECOND_NS },
	};

	timerfd_settime(w->timers[timer], 0, &t, NULL);
}

/* Guests --------------------------------------------------------------------------------------- */

static bool is_same(const struct braid_wait_guest *g, const struct pollfd *fds, size_t nr)
{
	size_t k;

	if (g->nr != nr)
		return false;
	for (k = 0; k < nr; k++)
		if (g->fds[k].fd != fds[k].fd || g->fds[k].events != fds[k].events)
			return false;
	return true;
}

/*
 * A descriptor that was closed here and that a QEMU still holds would stay in a set, and could not
 * be removed. So a guest's set is made again when its descriptors change, and after each time that
 * one was ready.
 */
void braid_wait_forget(struct braid_wait_guest *guest)
{
	if (guest->epoll_fd >= 0)
		close(guest->epoll_fd);
	*guest = BRAID_WAIT_GUEST_NONE;
}

void braid_wait_for_guest(struct braid_wait *w, struct braid_wait_guest *guest, u32 index,
			  const struct pollfd *fds, size_t nr)
{
	size_t k;

	if (is_same(guest, fds, nr))
		return;
	braid_wait_forget(guest);
	if (!nr)
		return;
	guest->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (guest->epoll_fd < 0)	/* the timer is there, and the next turn tries again */
		return;
	for (k = 0; k < nr; k++)
		wait_add(guest->epoll_fd, fds[k].fd, fds[k].events & POLLOUT ? EPOLLOUT : EPOLLIN,
			 0);
	memcpy(guest->fds, fds, nr * sizeof(*fds));
	guest->nr = nr;
	wait_add(w->epoll_fd, guest->epoll_fd, EPOLLIN, BRAID_WAIT_GUESTS + (u64)index);
}

/* Waiting -------------------------------------------------------------------------------------- */

void braid_wait(struct braid_wait *w, bool block, struct braid_woke *woke)
{
	struct epoll_event events[BRAID_WAIT_EVENTS];
	int k, nr = epoll_wait(w->epoll_fd, events, BRAID_WAIT_EVENTS, block ? -1 : 0);
	u64 at, expired;

	woke->sources = 0;
	woke->nr_guests = 0;
	for (k = 0; k < nr; k++) {
		at = events[k].data.u64;
		if (at >= BRAID_WAIT_GUESTS)
			woke->guests[woke->nr_guests++] = at - BRAID_WAIT_GUESTS;
		else if (at >= BRAID_WAIT_TIMERS ||
			 read(w->timers[at], &expired, sizeof(expired)) == sizeof(expired))
			woke->sources |= 1u << at;
	}
}
