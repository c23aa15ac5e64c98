// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program of a guest that writes events to /dev/tracebraid:
 *
 *	markers storm NR [NR_THREADS]	NR typed events of each thread, of known content
 *	markers declare TEXT [BYTES...]	declares an event, and writes records of these sizes:
 *					prints what each returned
 *	markers cost NR			ns of a write: to the device, to trace_marker
 *	markers fuzz NR SEED		declarations, writes and ioctls of random bytes
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tracebraid/marker.h"

#define STORM	"request u64 number; s32 status; u8 trace_id[16]; u16 thread; char path[12]"
#define PRIME	0x9E3779B97F4A7C15ULL

int main(int argc, char **argv);

struct request {
	uint64_t number;
	int32_t status;
	uint8_t trace_id[16];
	uint16_t thread;
	char path[12];
};

static long nr_events;
static void *volatile nowhere = (void *)1;

static void *storm_thread(void *arg)
{
	struct request r = { .thread = (uintptr_t)arg };
	int fd = braid_marker_open(STORM);
	uint64_t k;

	if (fd < 0)
		return (void *)1;
	for (k = 0; k < (uint64_t)nr_events; k++) {
		r.number = k * PRIME;
		r.status = -(int32_t)k;
		memcpy(r.trace_id, &r.number, 8);
		memcpy(r.trace_id + 8, &k, 8);
		snprintf(r.path, sizeof(r.path), "/%u/%u", (unsigned int)k % 10000,
			 r.thread % 100U);
		if (braid_marker_write(fd, &r, sizeof(r)))
			return (void *)1;
	}
	close(fd);
	return NULL;
}

static int storm(int nr_threads)
{
	pthread_t threads[64];
	void *failed;
	int k, ret = 0;

	for (k = 0; k < nr_threads; k++)
		if (pthread_create(&threads[k], NULL, storm_thread, (void *)(uintptr_t)k))
			return 1;
	for (k = 0; k < nr_threads; k++) {
		pthread_join(threads[k], &failed);
		ret |= !!failed;
	}
	return ret;
}

static int declare(int argc, char **argv)
{
	static char record[4096];
	int fd = braid_marker_open(*argv[0] ? argv[0] : NULL), k;

	memset(record, 'x', sizeof(record));
	if (fd < 0)
		printf("%s\n", strerror(-fd));
	for (k = 1; k < argc && fd >= 0; k++)
		printf("%s\n", strerror(-braid_marker_write(fd, record, atoi(argv[k]))));
	return 0;
}

static double ns_of_a_write(int fd, const char *text, long nr)
{
	struct timespec a, b;
	long k;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (k = 0; k < nr; k++)
		if (write(fd, text, strlen(text)) < 0)
			return -1;
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / nr;
}

static int cost(long nr)
{
	static const char text[] = "a text of forty bytes, as programs write";
	int theirs = open("/sys/kernel/tracing/trace_marker", O_WRONLY);
	int ours = braid_marker_open(NULL);
	double our_ns, their_ns;

	if (ours < 0 || theirs < 0)
		return 1;
	our_ns = ns_of_a_write(ours, text, nr);
	their_ns = ns_of_a_write(theirs, text, nr);
	printf("%.0f %.0f\n", our_ns, their_ns);
	return our_ns < 0 || their_ns < 0;
}

/* Mostly of the characters that declarations have. */
static void scramble(char *text, size_t bytes, unsigned int *seed)
{
	static const char usual[] = "us8136240 char[];  _ab\t\n";
	size_t k;

	for (k = 0; k < bytes; k++)
		text[k] = rand_r(seed) % 16 ? usual[rand_r(seed) % (sizeof(usual) - 1)] :
					      rand_r(seed);
}

static int fuzz(long nr, unsigned int seed)
{
	static const char *const good[] = {
		STORM, "one char text[]", "two u64 a; u8 b[3]; char c[]", "", NULL
	};
	char text[BRAID_MARKER_TEXT + 8];
	const char *declaration;
	int fd;

	while (nr--) {
		declaration = good[rand_r(&seed) % 5];
		scramble(text, sizeof(text), &seed);
		text[rand_r(&seed) % (rand_r(&seed) % 2 ? 64 : sizeof(text))] = 0;
		fd = braid_marker_open(rand_r(&seed) % 2 ? text : declaration);
		if (fd < 0)
			continue;
		if (!(rand_r(&seed) % 4))
			memcpy(text, "trace_id=0123456789abcdef0123456789abcdef", rand_r(&seed) % 42);
		braid_marker_write(fd, text, rand_r(&seed) % sizeof(text));
		braid_marker_write(fd, text, rand_r(&seed) % 64);
		braid_marker_write(fd, nowhere, 40);
		ioctl(fd, rand_r(&seed) % 2 ? BRAID_MARKER_DECLARE : (unsigned long)rand_r(&seed),
		      text);
		ioctl(fd, BRAID_MARKER_DECLARE, nowhere);
		close(fd);
	}
	return 0;
}

int main(int argc, char **argv)
{
	nr_events = argc > 2 ? atol(argv[2]) : 0;
	if (argc > 2 && !strcmp(argv[1], "storm"))
		return storm(argc > 3 ? atoi(argv[3]) : 1);
	if (argc > 2 && !strcmp(argv[1], "declare"))
		return declare(argc - 2, argv + 2);
	if (argc > 2 && !strcmp(argv[1], "cost"))
		return cost(nr_events);
	if (argc > 3 && !strcmp(argv[1], "fuzz"))
		return fuzz(nr_events, atoi(argv[3]));
	return 2;
}
