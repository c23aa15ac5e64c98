// SPDX-License-Identifier: GPL-2.0-or-later
/* The sources of a recording's wait: timers, descriptors that are replaced, busy doorbells. */
#include <sys/eventfd.h>
#include <unistd.h>

#include "host_agent/record/wait.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

int main(void);

static struct braid_wait w;
static struct braid_woke woke;

static int made(void)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	NEED(fd >= 0);
	return fd;
}

static void ring(int fd)
{
	u64 one = 1;

	NEED(write(fd, &one, sizeof(one)) == sizeof(one));
}

static bool is_quiet(void)
{
	braid_wait(&w, false, &woke);
	return !woke.sources && !woke.nr_guests;
}

static void listen_to(struct braid_wait_guest *guest, u32 index, int fd)
{
	const struct pollfd fds[] = { { .fd = fd, .events = POLLIN } };

	braid_wait_for_guest(&w, guest, index, fds, 1);
}

static void begin(void)
{
	w = BRAID_WAIT_NONE;
	NEED(!braid_wait_open(&w));
	CHECK(is_quiet());
}

static void timers(void)
{
	int times = 0;

	begin();
	braid_wait_timer(&w, BRAID_WAIT_END, 3600000000000ULL, 0);
	braid_wait_timer(&w, BRAID_WAIT_TICK, 1000000, 0);
	braid_wait(&w, true, &woke);
	CHECK_EQ(woke.sources, 1u << BRAID_WAIT_TICK);
	CHECK(is_quiet());		/* once */
	braid_wait_timer(&w, BRAID_WAIT_PROGRESS, 1000000, 1000000);
	while (times < 3) {
		braid_wait(&w, true, &woke);
		CHECK_EQ(woke.sources, 1u << BRAID_WAIT_PROGRESS);
		times++;
	}
	braid_wait_timer(&w, BRAID_WAIT_PROGRESS, 0, 0);
	CHECK(is_quiet());
	braid_wait_close(&w);
}

/* Like a process that has ended, which stays ready. */
static void sources_are_added_and_removed(void)
{
	int first = made(), second = made();

	begin();
	braid_wait_for(&w, BRAID_WAIT_CHILD, first);
	braid_wait_for(&w, BRAID_WAIT_VIEWER, second);
	ring(first);
	braid_wait(&w, true, &woke);
	CHECK(braid_woke_by(&woke, BRAID_WAIT_CHILD) && !braid_woke_by(&woke, BRAID_WAIT_VIEWER));
	braid_wait(&w, true, &woke);
	CHECK_EQ(woke.sources, 1u << BRAID_WAIT_CHILD);
	braid_wait_for(&w, BRAID_WAIT_CHILD, -1);
	CHECK(is_quiet());
	ring(second);
	braid_wait(&w, true, &woke);
	CHECK_EQ(woke.sources, 1u << BRAID_WAIT_VIEWER);
	close(second);			/* unannounced, and its number is reused */
	second = made();
	braid_wait_for(&w, BRAID_WAIT_VIEWER, -1);
	braid_wait_for(&w, BRAID_WAIT_VIEWER, second);
	CHECK(is_quiet());
	ring(second);
	braid_wait(&w, true, &woke);
	CHECK_EQ(woke.sources, 1u << BRAID_WAIT_VIEWER);
	close(first);
	close(second);
	braid_wait_close(&w);
}

/* More than one wait reports; each is reported until it is removed. */
static void many_guests_ring(void)
{
	static struct braid_wait_guest guests[3 * BRAID_WAIT_EVENTS];
	static bool rang[3 * BRAID_WAIT_EVENTS];
	static int fds[3 * BRAID_WAIT_EVENTS];
	const u32 nr = sizeof(fds) / sizeof(*fds);
	u32 k, seen = 0;

	begin();
	for (k = 0; k < nr; k++) {
		guests[k] = BRAID_WAIT_GUEST_NONE;
		fds[k] = made();
		listen_to(&guests[k], k, fds[k]);
	}
	CHECK(is_quiet());
	for (k = 0; k < nr; k++)
		ring(fds[k]);
	while (seen < nr) {
		braid_wait(&w, true, &woke);
		NEED(woke.nr_guests);
		for (k = 0; k < woke.nr_guests; k++) {
			seen += !rang[woke.guests[k]];
			rang[woke.guests[k]] = true;
			braid_wait_forget(&guests[woke.guests[k]]);
		}
	}
	CHECK(is_quiet());		/* they still ring */
	listen_to(&guests[7], 7, fds[7]);
	braid_wait(&w, true, &woke);
	CHECK(woke.nr_guests == 1 && woke.guests[0] == 7);
	for (k = 0; k < nr; k++) {
		braid_wait_forget(&guests[k]);
		close(fds[k]);
	}
	braid_wait_close(&w);
}

/* A QEMU still holds it and rings: it wakes once, and the new one of that number is reported. */
static void closed_descriptor_is_forgotten(void)
{
	struct braid_wait_guest guest = BRAID_WAIT_GUEST_NONE;
	int ours = made(), theirs = dup(ours), number = ours;

	NEED(theirs >= 0);
	begin();
	listen_to(&guest, 3, ours);
	close(ours);
	ours = made();
	NEED(ours == number);
	ring(theirs);
	braid_wait(&w, true, &woke);
	CHECK(woke.nr_guests == 1 && woke.guests[0] == 3);
	braid_wait_forget(&guest);
	listen_to(&guest, 3, ours);
	CHECK(is_quiet());
	ring(ours);
	braid_wait(&w, true, &woke);
	CHECK(woke.nr_guests == 1 && woke.guests[0] == 3);
	braid_wait_forget(&guest);
	close(ours);
	close(theirs);
	braid_wait_close(&w);
}

int main(void)
{
	RUN(timers);
	RUN(sources_are_added_and_removed);
	RUN(many_guests_ring);
	RUN(closed_descriptor_is_forgotten);
	return VERDICT();
}
