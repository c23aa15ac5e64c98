// SPDX-License-Identifier: GPL-2.0-or-later
/* The process that asks daemons and devices of this host for the time's error. */
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/clock_sync/declared.h"
#include "host_agent/clock_sync/declared_reply.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/helper.h"
#include "shared/platform.h"

#define TURN_MS		1000
#define DAEMON_TURNS	4u	/* a program is executed to ask a daemon */
#define ABSENT_TURNS	60u	/* one that did not answer may be started later */
#define ANSWER_MS	2000
#define LAST_MS		500	/* for which a recording that ends waits */
#define TRIES		8
#define MOST		(BRAID_DECLARED_KINDS - 1)
#define PTP4L_SOCKET	"/var/run/ptp4l"
#define VMCLOCK		"/dev/vmclock0"
#define REPLY_BYTES	8192

extern char **environ;

struct declared_helper {
	struct braid_declared_trust trust;
	int set_fd;			/* reports when CLOCK_REALTIME is set; -1: not available */
	const struct braid_vmclock_page *page;	/* NULL: none */
	u32 page_bytes;
	u32 absent[BRAID_DECLARED_KINDS];	/* turns in which it is not asked */
	struct braid_declared_time taken[MOST];	/* in this turn */
	u32 nr;
};

/* Clocks ------------------------------------------------------------------------------------ */

/* The tightest reading of a few. Return: false: the clock cannot be read. */
static bool read_clock(clockid_t id, u64 asked_ns, struct braid_declared_moment *m)
{
	struct timespec time;
	u64 best = ~0ULL;
	int k;

	for (k = 0; k < TRIES; k++) {
		u64 h1 = braid_host_clock_ns(), h2;

		if (clock_gettime(id, &time))
			return false;
		h2 = braid_host_clock_ns();
		if (h2 - h1 >= best)
			continue;
		best = h2 - h1;
		*m = (struct braid_declared_moment){
			.h1_ns = h1, .h2_ns = h2, .asked_ns = asked_ns,
			.time_ns = (u64)time.tv_sec * 1000000000 + (u64)time.tv_nsec,
		};
	}
	return true;
}

/* Programs ---------------------------------------------------------------------------------- */

/* Return: whether it has ended with something said, before silence or a full buffer. */
static bool read_reply(int fd, char *reply, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t used = 0;
	ssize_t n = -1;

	while (used < size - 1 && poll(&p, 1, ANSWER_MS) > 0) {
		n = read(fd, reply + used, size - 1 - used);
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	reply[used] = 0;
	return !n && used;
}

/* Return: whether the program has printed something, and succeeded. */
static bool run_program(char *const argv[], char *reply, size_t size)
{
	posix_spawn_file_actions_t actions;
	int fds[2], status = -1, err;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return false;
	err = posix_spawn_file_actions_init(&actions);
	if (!err) {
		err = posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
		if (!err)
			err = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
							       O_WRONLY, 0);
		if (!err)
			err = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(fds[1]);
	if (!err) {
		bool ended = read_reply(fds[0], reply, size);

		if (!ended)
			kill(pid, SIGKILL);	/* it hangs, says too much, or has failed */
		if (waitpid(pid, &status, 0) != pid || !ended)
			status = -1;
	}
	close(fds[0]);
	return !status;
}

/* Sources ----------------------------------------------------------------------------------- */

static bool ask_kernel(struct declared_helper *h, struct braid_declared_time *t)
{
	struct braid_declared_moment m;
	struct timex x = { .modes = 0 };
	u64 asked_ns = braid_host_clock_ns();
	int state = adjtimex(&x);

	(void)h;
	return state >= 0 && read_clock(CLOCK_REALTIME, asked_ns, &m) &&
	       braid_declared_kernel(t, &x, state, &m);
}

static bool ask_chrony(struct declared_helper *h, struct braid_declared_time *t)
{
	static char *const argv[] = { "chronyc", "-c", "tracking", NULL };
	struct braid_declared_moment m;
	u64 asked_ns = braid_host_clock_ns();
	char reply[REPLY_BYTES];

	(void)h;
	return run_program(argv, reply, sizeof(reply)) &&
	       read_clock(CLOCK_REALTIME, asked_ns, &m) &&
	       braid_declared_chrony(t, reply, &m);
}

/* The clock of a network card: the kernel's clock id of /dev/ptpN's descriptor. -1: none. */
static int open_card(const char *interface)
{
	struct ethtool_ts_info info = { .cmd = ETHTOOL_GET_TS_INFO };
	struct ifreq request = { .ifr_data = (char *)&info };
	braid_auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char path[32];

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	if (fd < 0 || ioctl(fd, SIOCETHTOOL, &request) || info.phc_index < 0)
		return -1;
	snprintf(path, sizeof(path), "/dev/ptp%d", info.phc_index);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static bool ask_ptp(struct declared_helper *h, struct braid_declared_time *t)
{
	static char *const argv[] = { "pmc", "-u", "-b", "0", BRAID_DECLARED_PMC, NULL };
	u64 asked_ns = braid_host_clock_ns();
	struct braid_declared_moment m;
	struct braid_declared_pmc pmc;
	braid_auto_fd int fd = -1;
	char reply[REPLY_BYTES];
	clockid_t id = CLOCK_REALTIME;

	(void)h;
	if (access(PTP4L_SOCKET, F_OK) || !run_program(argv, reply, sizeof(reply)) ||
	    !braid_declared_read_pmc(&pmc, reply))
		return false;
	if (pmc.hardware) {
		fd = open_card(pmc.interface);
		if (fd < 0)
			return false;
		id = (clockid_t)((~(unsigned int)fd << 3) | 3);	/* CLOCKFD of the kernel */
	}
	return read_clock(id, asked_ns, &m) && braid_declared_ptp(t, &pmc, &m);
}

static u8 counter_id(void)
{
	const char *name = braid_host_counter_name();

	if (!name)
		return BRAID_VMCLOCK_NONE;
	return strcmp(name, "tsc") ? BRAID_VMCLOCK_CNTVCT : BRAID_VMCLOCK_TSC;
}

static void open_vmclock(struct declared_helper *h)
{
	long bytes = sysconf(_SC_PAGESIZE);
	braid_auto_fd int fd = open(VMCLOCK, O_RDONLY | O_CLOEXEC);
	void *memory;

	if (fd < 0)
		return;
	memory = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return;
	h->page_bytes = braid_vmclock_check(memory, (u64)bytes);
	if (h->page_bytes)
		h->page = memory;
}

static bool ask_vmclock(struct declared_helper *h, struct braid_declared_time *t)
{
	struct braid_vmclock_page copy;
	struct braid_declared_moment m;
	struct braid_vmclock now;
	int tries;

	for (tries = 0; h->page && tries < TRIES; tries++) {
		u32 seq = braid_load_acquire(&h->page->seq_count);
		u64 counter;

		if (seq & 1)
			continue;
		braid_vmclock_copy(&copy, h->page, h->page_bytes);
		m.h1_ns = m.asked_ns = braid_host_clock_ns();
		counter = braid_host_counter();
		m.h2_ns = braid_host_clock_ns();
		m.time_ns = 0;
		braid_fence();
		if (braid_load(&h->page->seq_count) != seq)
			continue;
		braid_vmclock_evaluate(&copy, counter_id(), counter, &now);
		braid_declared_marker(&h->trust, now.marker, m.h2_ns);
		return braid_declared_vmclock(t, &copy, &now, &m);
	}
	return false;
}

/* Turns ------------------------------------------------------------------------------------- */

static const struct {
	bool (*ask)(struct declared_helper *h, struct braid_declared_time *t);
	u32 turns;		/* it is asked each */
} sources[BRAID_DECLARED_KINDS] = {
	[BRAID_DECLARED_CHRONY] = { ask_chrony, DAEMON_TURNS },
	[BRAID_DECLARED_PTP] = { ask_ptp, DAEMON_TURNS },
	[BRAID_DECLARED_VMCLOCK] = { ask_vmclock, 1 },
	[BRAID_DECLARED_NTP] = { ask_kernel, 1 },
};

/* A timer that is never due, and is cancelled whenever CLOCK_REALTIME is set. */
static void arm(struct declared_helper *h)
{
	const struct itimerspec far = { .it_value.tv_sec = INT64_MAX / 1000000000 / 2 };

	timerfd_settime(h->set_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL);
}

static void see_settings(struct declared_helper *h)
{
	u64 expired;

	if (h->set_fd < 0 || read(h->set_fd, &expired, sizeof(expired)) >= 0 || errno != ECANCELED)
		return;
	braid_declared_disrupted(&h->trust, braid_host_clock_ns());
	arm(h);
}

static void ask_all(struct declared_helper *h, u32 turn, bool last)
{
	struct braid_declared_time t;
	u32 kind;

	h->nr = 0;
	for (kind = 1; kind < BRAID_DECLARED_KINDS; kind++) {
		if (h->absent[kind] && h->absent[kind]--)
			continue;
		if (!last && turn % sources[kind].turns)
			continue;
		if (sources[kind].ask(h, &t))
			h->taken[h->nr++] = t;
		else if (kind != BRAID_DECLARED_VMCLOCK)
			h->absent[kind] = ABSENT_TURNS;
	}
	see_settings(h);	/* after all were asked: what was disrupted meanwhile shows */
}

static void answer_turns(void *unused, int socket)
{
	struct declared_helper h = { .nr = 0 };
	struct pollfd p = { .fd = socket, .events = POLLIN };
	bool last = false;
	u32 turn, k;

	(void)unused;
	open_vmclock(&h);
	h.set_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	arm(&h);
	for (turn = 0; ; turn++) {
		ask_all(&h, turn, last);
		for (k = 0; k < h.nr; k++)
			braid_declared_judge(&h.trust, &h.taken[k]);
		/* A recorder that is slow loses some. */
		if (h.nr && send(socket, h.taken, h.nr * sizeof(*h.taken),
				 MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
			return;
		if (last)
			return;
		if (poll(&p, 1, TURN_MS) > 0) {
			char word;

			if (recv(socket, &word, sizeof(word), 0) <= 0)
				return;
			last = true;
		}
	}
}

/* The recorder ------------------------------------------------------------------------------ */

int braid_declared_start(struct braid_declared *d)
{
	return braid_helper_start(&d->fd, &d->pid, answer_turns, NULL);
}

/* Return: bytes of the next message; 0: none is there, or the helper has ended. */
static size_t receive(struct braid_declared *d, struct braid_declared_time *taken, bool wait)
{
	struct pollfd p = { .fd = d->fd, .events = POLLIN };
	ssize_t n;

	if (d->fd < 0 || (wait && poll(&p, 1, LAST_MS) <= 0))
		return 0;
	n = recv(d->fd, taken, MOST * sizeof(*taken), MSG_DONTWAIT);
	return n > 0 ? (size_t)n : 0;
}

int braid_declared_turn(struct braid_declared *d, struct braid_capture_writer *capture, bool last)
{
	struct braid_declared_time taken[MOST];
	char word = 0;
	size_t bytes;
	int err = 0;

	if (d->fd < 0)
		return 0;
	last = last && send(d->fd, &word, sizeof(word), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
	while (!err && (bytes = receive(d, taken, last)))
		err = braid_capture_put(capture, BRAID_CHUNK_DECLARED, 0, taken, bytes, NULL, 0);
	return err;
}

void braid_declared_stop(struct braid_declared *d)
{
	braid_helper_stop(&d->fd, &d->pid);
}
