// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads trace_pipe_raw by every available operation, and prints the results, a word and its number
 * per line.
 *
 *   ring_reader EVENT_ID read|splice|mmap|mixed [FILE]
 *	consumes all CPUs' events of the storm module, until none is left and FILE, if given,
 *	exists
 *   ring_reader EVENT_ID compete FILE
 *	the same by one reader with a mapping and two without, concurrently
 *   ring_reader PATH errors		prints the error of each refused operation
 *   ring_reader PATH wait		read, poll and GET_READER wait; needs /sys/kernel/debug/storm
 *   ring_reader EVENT_ID patient	consumes the first CPU's events by a blocking file
 *   ring_reader PATH hold		maps, and waits to be killed
 *   ring_reader PATH unbind DEVICE	waits and maps while the driver is unbound
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/trace_mmap.h>

#include "decode.h"

#define TRACE		"/sys/kernel/debug/tracebraid/trace/"
#define STORM		"/sys/kernel/debug/storm/run"
#define DRIVER		"/sys/bus/pci/drivers/tracebraid/"

/* One CPU's ring. */
struct ring {
	int fd, cpu;
	struct decoder decoder;
	const struct trace_buffer_meta *meta;	/* NULL: not mapped */
	uint32_t subbuf_size;
	uint8_t *page;				/* the data from read() or splice() so far */
	uint32_t have;
	int pipe[2];
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int open_path(const char *path, int flags)
{
	int fd = open(path, O_RDONLY | flags);

	if (fd < 0)
		die(path);
	return fd;
}

static size_t ring_bytes(const struct trace_buffer_meta *meta)
{
	return meta->meta_page_size + (size_t)meta->nr_subbufs * meta->subbuf_size;
}

/* Maps the complete ring; first the meta page, which states its size. */
static const struct trace_buffer_meta *map_ring(int fd)
{
	const struct trace_buffer_meta *meta;
	size_t bytes;

	meta = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, fd, 0);
	if (meta == MAP_FAILED)
		die("mmap of the meta page");
	bytes = ring_bytes(meta);
	munmap((void *)meta, getpagesize());
	meta = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (meta == MAP_FAILED)
		die("mmap of the ring");
	return meta;
}

static bool is_absolute(void)
{
	char text[128] = "";
	int fd = open_path(TRACE "mode", 0);

	if (read(fd, text, sizeof(text) - 1) < 0)
		die("mode");
	close(fd);
	return strstr(text, "[absolute]");
}

static bool open_ring(struct ring *r, int cpu, struct tally *tally, int event_id, bool mapped)
{
	char path[128];

	snprintf(path, sizeof(path), TRACE "per_cpu/cpu%d/trace_pipe_raw", cpu);
	if (access(path, F_OK))
		return false;
	memset(r, 0, sizeof(*r));
	r->fd = open_path(path, O_NONBLOCK);
	r->cpu = cpu;
	r->decoder = (struct decoder){
		.tally = tally,
		.event_id = event_id,
		.cpu = cpu,
		.absolute = is_absolute(),
	};
	r->meta = map_ring(r->fd);
	r->subbuf_size = r->meta->subbuf_size;
	if (!mapped) {
		munmap((void *)r->meta, ring_bytes(r->meta));
		r->meta = NULL;
	}
	r->page = malloc(r->subbuf_size);
	if (!r->page || pipe2(r->pipe, O_NONBLOCK))
		die("pipe");
	return true;
}

/* Events from GET_READER after those taken of the same sub-buffer before. True: there were some. */
static bool take_mapped(struct ring *r)
{
	uint32_t id = r->meta->reader.id, from = r->meta->reader.read;
	const struct trace_buffer_meta *meta = r->meta;
	uint64_t time_stamp, commit, read = meta->read;
	const uint8_t *subbuf;

	if (ioctl(r->fd, TRACE_MMAP_IOCTL_GET_READER))
		die("GET_READER");
	if (meta->read == read)
		return false;
	if (meta->reader.id != id || from >= meta->reader.read)
		from = 0;
	subbuf = (const uint8_t *)meta + meta->meta_page_size +
		 (size_t)meta->reader.id * meta->subbuf_size;
	memcpy(&time_stamp, subbuf, 8);
	memcpy(&commit, subbuf + 8, 8);
	decode(&r->decoder, time_stamp, subbuf + 16, from, meta->reader.read);
	if (!from)
		r->decoder.tally->lost += meta->reader.lost_events;
	/* The header has the same length, for readers that use only that, and the loss. */
	if ((commit & 0x3fffffff) < meta->reader.read ||
	    (!from && !(commit & 1u << 31) != !meta->reader.lost_events))
		r->decoder.tally->bad++;
	return true;
}

/* By read() with buffers of any size; the first is large enough for an event. */
static bool take_read(struct ring *r)
{
	uint32_t want = r->subbuf_size - r->have, some = 128 + rand() % r->subbuf_size;
	ssize_t n = read(r->fd, r->page + r->have, some < want ? some : want);

	if (n < 0 && errno == EAGAIN && !r->have)
		return false;
	if (n <= 0)
		die("read");
	r->have += n;
	if (r->have == r->subbuf_size) {
		decode_page(&r->decoder, r->page, r->subbuf_size);
		r->have = 0;
	}
	return true;
}

static bool take_spliced(struct ring *r)
{
	ssize_t n = splice(r->fd, NULL, r->pipe[1], NULL, r->subbuf_size - r->have,
			   SPLICE_F_NONBLOCK);

	if (n < 0 && errno == EAGAIN && !r->have)
		return false;
	if (n <= 0)
		die("splice");
	while (n > 0) {
		ssize_t got = read(r->pipe[0], r->page + r->have, n);

		if (got <= 0)
			die("read of the pipe");
		n -= got;
		r->have += got;
	}
	if (r->have == r->subbuf_size) {
		decode_page(&r->decoder, r->page, r->subbuf_size);
		r->have = 0;
	}
	return true;
}

static bool take(struct ring *r, const char *how)
{
	if (!strcmp(how, "mixed") && !r->have)
		how = rand() & 1 ? "mmap" : "read";
	if (!strcmp(how, "mmap"))
		return take_mapped(r);
	return strcmp(how, "splice") ? take_read(r) : take_spliced(r);
}

/* Until @file exists and no event is left; @lock: one step at a time among all processes. */
static void take_all(struct tally *tally, int event_id, const char *how, const char *file,
		     int *lock, bool alone)
{
	struct ring rings[MAX_CPUS];
	bool last = !file, any, mapped = !strcmp(how, "mmap") || !strcmp(how, "mixed");
	int nr = 0, k;

	while (nr < MAX_CPUS && open_ring(&rings[nr], nr, tally, event_id, mapped))
		nr++;
	for (;;) {
		any = false;
		for (k = 0; k < nr; k++) {
			while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
				sched_yield();
			any |= take(&rings[k], how);
			/* Others may have taken a part: order holds within one page. */
			if (!alone)
				rings[k].decoder.last = 0;
			__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
		}
		if (any)
			continue;
		if (last)
			return;
		last = !access(file, F_OK);
		sched_yield();
	}
}

static void *shared(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("mmap");
	return at;
}

static int read_events(int event_id, const char *how, const char *file)
{
	static const char *const competitors[] = { "mmap", "read", "splice" };
	struct tally *tally = shared(sizeof(*tally));
	int *lock = shared(sizeof(*lock)), status = 0, child;
	size_t k;

	if (strcmp(how, "compete")) {
		take_all(tally, event_id, how, file, lock, true);
	} else {
		for (k = 0; k < 3; k++)
			if (!fork()) {
				take_all(tally, event_id, competitors[k], file, lock, false);
				_exit(0);
			}
		while (wait(&child) > 0)
			status |= child != 0;
	}
	printf("events %llu\nlost %llu\nunreported %llu\nbad %llu\n"
	       "duplicated %llu\ndisordered %llu\n",
	       (unsigned long long)tally->events, (unsigned long long)tally->lost,
	       (unsigned long long)tally->unreported, (unsigned long long)tally->bad,
	       (unsigned long long)tally->duplicated, (unsigned long long)tally->disordered);
	return status;
}

/* Refusals ------------------------------------------------------------------------------ */

static void say(const char *what, long ret)
{
	printf("%s: %s\n", what, ret < 0 ? strerror(errno) : "done");
}

static void try_map(const char *what, int fd, size_t bytes, int prot, int flags, off_t at)
{
	void *map = mmap(NULL, bytes, prot, flags, fd, at);

	say(what, map == MAP_FAILED ? -1 : 0);
	if (map != MAP_FAILED)
		munmap(map, bytes);
}

static int show_errors(const char *path)
{
	int page = getpagesize(), fd = open(path, O_RDWR | O_NONBLOCK);
	const struct trace_buffer_meta *meta;
	uint8_t bytes[64];
	size_t whole;

	if (fd < 0)
		die(path);
	while (read(fd, bytes, sizeof(bytes)) > 0)
		;
	say("read when empty", read(fd, bytes, sizeof(bytes)));
	say("read of nothing", read(fd, bytes, 0));
	say("GET_READER when not mapped", ioctl(fd, TRACE_MMAP_IOCTL_GET_READER));
	say("another ioctl", ioctl(fd, _IO('R', 0x21)));
	say("ioctl 0", ioctl(fd, 0));
	say("seek", lseek(fd, 0, SEEK_SET));
	say("write", write(fd, "1", 1));
	try_map("private", fd, page, PROT_READ, MAP_PRIVATE, 0);
	try_map("writable", fd, page, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	try_map("executable", fd, page, PROT_READ | PROT_EXEC, MAP_SHARED, 0);
	meta = map_ring(fd);
	whole = ring_bytes(meta);
	say("mprotect", mprotect((void *)meta, page, PROT_READ | PROT_WRITE));
	say("GET_READER when empty", ioctl(fd, TRACE_MMAP_IOCTL_GET_READER));
	try_map("a page too much", fd, whole + page, PROT_READ, MAP_SHARED, 0);
	try_map("after the end", fd, page, PROT_READ, MAP_SHARED, whole);
	try_map("the last page", fd, page, PROT_READ, MAP_SHARED, whole - page);
	try_map("all but the meta page", fd, whole - meta->meta_page_size, PROT_READ, MAP_SHARED,
		meta->meta_page_size);
	return 0;
}

/* Waiting ------------------------------------------------------------------------------- */

/* Until @pid sleeps in the kernel: it waits. */
static void await_sleep(pid_t pid)
{
	char path[64], state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	do {
		sched_yield();
		file = fopen(path, "r");
		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			die(path);
		fclose(file);
	} while (state != 'S');
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die(path);
	close(fd);
}

static int wait_to_read(int fd)
{
	static uint8_t page[65536];

	return read(fd, page, sizeof(page)) > 16 ? 0 : errno;
}

static int wait_to_poll(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, -1) == 1 && p.revents == POLLIN ? wait_to_read(fd) : 1;
}

static int wait_for_reader(int fd)
{
	const struct trace_buffer_meta *meta = map_ring(fd);
	uint64_t read = meta->read;

	return ioctl(fd, TRACE_MMAP_IOCTL_GET_READER) ? errno : meta->read > read ? 0 : 200;
}

static pid_t start(int (*what)(int), int fd)
{
	pid_t pid = fork();

	if (!pid)
		_exit(what(fd));
	await_sleep(pid);
	return pid;
}

/* The status of the waiting process after it was woken. */
static int status_of(pid_t pid)
{
	int status;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int show_waits(const char *path)
{
	int fd = open_path(path, 0);
	pid_t pid;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (!wait_to_read(fd))
		;
	fcntl(fd, F_SETFL, 0);
	pid = start(wait_to_read, fd);
	write_file(STORM, "3");
	printf("read %d\n", status_of(pid));
	while (fcntl(fd, F_SETFL, O_NONBLOCK), !wait_to_read(fd))
		;
	fcntl(fd, F_SETFL, 0);
	pid = start(wait_to_poll, fd);
	write_file(STORM, "3");
	printf("poll %d\n", status_of(pid));
	while (fcntl(fd, F_SETFL, O_NONBLOCK), !wait_to_read(fd))
		;
	fcntl(fd, F_SETFL, 0);
	pid = start(wait_for_reader, fd);
	write_file(STORM, "3");
	printf("GET_READER %d\n", status_of(pid));
	while (fcntl(fd, F_SETFL, O_NONBLOCK), !wait_to_read(fd))
		;
	fcntl(fd, F_SETFL, 0);
	pid = start(wait_for_reader, fd);
	ioctl(fd, 0);
	printf("woken %d\n", status_of(pid));
	return 0;
}

static uint64_t unread(const struct trace_buffer_meta *meta)
{
	return meta->entries - meta->overrun - meta->read;
}

/* GET_READER on a blocking file returns all events; a poll in between consumes none. */
static int show_patience(int event_id)
{
	struct tally *tally = shared(sizeof(*tally));
	struct ring r;
	struct pollfd p = { .events = POLLIN };
	int moved = 0, k;

	if (!open_ring(&r, 0, tally, event_id, true))
		die("cpu0");
	fcntl(r.fd, F_SETFL, 0);
	p.fd = r.fd;
	while (unread(r.meta)) {
		uint32_t id;

		take_mapped(&r);
		id = r.meta->reader.id;
		for (k = 0; k < 20 && unread(r.meta); k++)
			if (poll(&p, 1, -1) != 1 || r.meta->reader.id != id)
				moved++;
	}
	printf("seen %llu\nbad %llu\nmoved %d\n", (unsigned long long)tally->events,
	       (unsigned long long)tally->bad, moved);
	return 0;
}

static void hold(const char *path)
{
	map_ring(open_path(path, 0));
	printf("mapped\n");
	fflush(stdout);
	for (;;)
		pause();
}

/* Removal of a ring ------------------------------------------------------------------------ */

static sigjmp_buf back;

static void on_bus_error(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

static bool readable(const volatile uint8_t *at)
{
	if (sigsetjmp(back, 1))
		return false;
	return *at | 1;
}

static int unbind(const char *path, const char *device)
{
	int fd = open_path(path, 0), other = open_path(path, O_NONBLOCK);
	const struct trace_buffer_meta *meta;
	const uint8_t *again;
	size_t whole;
	pid_t pid;

	signal(SIGBUS, on_bus_error);
	meta = map_ring(fd);
	whole = ring_bytes(meta);
	while (!wait_to_read(other))
		;
	pid = start(wait_to_read, fd);
	printf("before %d %d\n", readable((void *)meta), readable((uint8_t *)meta + whole - 1));
	write_file(DRIVER "unbind", device);
	printf("waiting: %s\n", strerror(status_of(pid)));
	printf("after %d %d\n", readable((void *)meta), readable((uint8_t *)meta + whole - 1));
	say("read", read(other, &pid, sizeof(pid)));
	say("GET_READER", ioctl(other, TRACE_MMAP_IOCTL_GET_READER));
	try_map("mmap", other, getpagesize(), PROT_READ, MAP_SHARED, 0);
	write_file(DRIVER "bind", device);
	printf("again %d\n", readable((void *)meta));
	again = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, other, 0);
	printf("remapped %d\n", again != MAP_FAILED && readable(again));
	munmap((void *)meta, whole);
	printf("still %d\n", readable(again));
	say("read", read(other, &pid, sizeof(pid)));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (!strcmp(argv[2], "errors"))
		return show_errors(argv[1]);
	if (!strcmp(argv[2], "wait"))
		return show_waits(argv[1]);
	if (!strcmp(argv[2], "patient"))
		return show_patience(atoi(argv[1]));
	if (!strcmp(argv[2], "hold"))
		hold(argv[1]);
	if (!strcmp(argv[2], "unbind"))
		return unbind(argv[1], argv[3]);
	return read_events(atoi(argv[1]), argv[2], argv[3]);
}
