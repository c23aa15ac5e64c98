// SPDX-License-Identifier: GPL-2.0-or-later
/* An agent is killed at any byte that it writes: the next one finds all events not in a file. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/check.h"
#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

#define EVENTS		3000u
#define FIRST_LIMIT	2000u	/* bytes of the capture; the process dies at the next */
#define LIMIT_STEP	9001u
#define LIMITS		16u

int main(void);

static char *region_path, *capture_paths[2];

static const struct fake_params usual = {
	.name = "fake", .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 64,
};

/* The guest's events in captures that are read together. */
struct reading {
	u64 events, lost, damaged, faults, late;
	u32 contradictions;
};

static void print_fault(void *arg, const struct braid_stream *stream, const char *line)
{
	(void)arg;
	(void)stream;
	printf("  %s\n", line);
}

static struct reading read_captures(u32 first, u32 nr)
{
	char *paths[] = { capture_paths[0], capture_paths[1] };
	struct braid_source_options options = { .fault = print_fault };
	struct braid_source *source;
	struct braid_text why = { 0 };
	struct reading r = { 0 };
	size_t k;

	NEED(!braid_source_open_captures(&source, paths + first, nr, &options));
	NEED(!braid_walk_rings(source));
	for (k = 0; source->nr_streams && k < source->streams[0]->nr_rings; k++) {
		const struct braid_ring *ring = source->streams[0]->rings[k];

		if (ring->cpu == BRAID_RING_NOTES)
			continue;
		r.events += ring->walk.events;
		r.lost += ring->walk.lost;
		r.damaged += ring->walk.damaged;
		r.late += ring->report.nr_parts ? ring->walk.late : 0;
		if (braid_check_account(ring, &why))
			continue;
		r.contradictions++;
		braid_text_putc(&why, 0);
		printf("  ring %u: %s\n", ring->cpu, why.data);
		why.bytes = 0;
	}
	r.faults = source->faults;
	braid_text_free(&why);
	braid_source_free(source);
	return r;
}

/* Dies (SIGXFSZ) in the write that would make its capture larger than @bytes. */
static void agent_dies(struct session *s, u32 bytes)
{
	const struct rlimit no_core = { 0 }, file = { bytes, bytes };
	pid_t pid = fork();
	int status;

	NEED(pid >= 0);
	if (!pid) {
		NEED(!setrlimit(RLIMIT_CORE, &no_core) && !setrlimit(RLIMIT_FSIZE, &file));
		session_begin(s, region_path, capture_paths[0], NULL);
		session_settle(s);
		session_end(s);
		_exit(EXIT_SUCCESS);
	}
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

static void nothing_is_lost_at_any_byte(void)
{
	struct session s;
	struct reading r;
	u32 k, vcpu;

	for (k = 0; k < LIMITS; k++) {
		memset(&s, 0, sizeof(s));
		s.guest = fake_guest_new(region_path, &usual);
		for (vcpu = 0; vcpu < 2; vcpu++)
			fake_guest_write(s.guest, vcpu, EVENTS);
		agent_dies(&s, FIRST_LIMIT + k * LIMIT_STEP);
		session_begin(&s, region_path, capture_paths[1], NULL);
		session_settle(&s);
		session_end(&s);
		r = read_captures(0, 2);
		CHECK_EQ(r.events, 2 * EVENTS);
		CHECK_EQ(r.lost, 0);
		CHECK_EQ(r.damaged, 0);
		CHECK_EQ(r.faults, 1);		/* the first one is truncated */
		CHECK_EQ(r.contradictions, 0);
		fake_guest_free(s.guest);
	}
}

/* Reads all that the guest has written; a reader in the guest has the role in between. */
static void be_reader_twice(struct session *s)
{
	struct braid_ring_map map;

	session_begin(s, region_path, capture_paths[0], NULL);
	session_settle(s);
	fake_guest_ring(s->guest, 0, 0, &map);
	NEED(__sync_bool_compare_and_swap(&map.priv->reader_owner, BRAID_READER_HOST,
					  BRAID_READER_GUEST));
	session_settle(s);	/* accounts for what it has read */
	NEED(__sync_bool_compare_and_swap(&map.priv->reader_owner, BRAID_READER_GUEST,
					  BRAID_READER_NONE));
	fake_guest_write(s->guest, 0, EVENTS);
	while (s->status.events < 2 * EVENTS)
		NEED(session_turn(s) >= 0);
}

/* A ring's account that is older than its pages is not a fault, unless the recording ended. */
static void account_older_than_pages(void)
{
	struct session s = { 0 };
	struct reading r;
	pid_t pid;
	int status;

	s.guest = fake_guest_new(region_path, &usual);
	fake_guest_write(s.guest, 0, EVENTS);
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		be_reader_twice(&s);
		raise(SIGKILL);
	}
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	r = read_captures(0, 1);
	CHECK_EQ(r.events, 2 * EVENTS);
	CHECK(r.late > 0);
	CHECK_EQ(r.faults, 1);		/* it has no end mark */
	CHECK_EQ(r.contradictions, 0);
	fake_guest_free(s.guest);
}

int main(void)
{
	region_path = scratch("region");
	capture_paths[0] = scratch("1.braid");
	capture_paths[1] = scratch("2.braid");
	RUN(nothing_is_lost_at_any_byte);
	RUN(account_older_than_pages);
	return VERDICT();
}
