// SPDX-License-Identifier: GPL-2.0-or-later
/* Records the host: by mmap and by read(), exact; removes its instance. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tracefs.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/tracefs.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "host_agent/util/instance.h"
#include "tests/unit/check.h"
#include "tests/unit/scratch.h"

#define SYSCALLS	50000
#define BUFFER_KB	(32 << 10)	/* so that all of a busy machine's system calls fit */

static char *path;

static bool instance_exists(pid_t pid)
{
	char file[512];

	snprintf(file, sizeof(file), "%s/instances/tracebraid-%d", tracefs_tracing_dir(), (int)pid);
	return !access(file, F_OK);
}

static void open_sink(struct braid_live_sink *sink)
{
	struct braid_chunk_file head = { .version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw" };

	*sink = (struct braid_live_sink){ .next_stream = 1 };
	CHECK_EQ(braid_capture_create(&sink->capture, path, &head), 0);
}

struct tally {
	u32 pages;
	u32 formats;
	u32 header_pages;
	u32 kallsyms;
	u32 comms;
	u32 ends, steals;
	u32 own;		/* rows of threads that are the recorder's: of this one */
	u64 read;
	u64 lost, left;
	u64 first_ns, last_ns;
	bool own_comm;
};

static void tally_comms(struct tally *t, const struct braid_chunk_view *v)
{
	struct braid_comm comm;
	u32 at;

	for (at = 0; at < v->bytes; at += sizeof(comm)) {
		memcpy(&comm, v->payload + at, sizeof(comm));
		t->comms++;
		t->own_comm |= comm.pid == getpid() && *comm.comm;
	}
}

static void tally_chunk(struct tally *t, const struct braid_chunk_view *v)
{
	struct braid_chunk_ring_end end;
	struct braid_chunk_host_page page;
	struct braid_vcpu_thread row;
	u32 kind;
	u64 stamp;

	switch (v->type) {
	case BRAID_CHUNK_HOST_PAGE:
		memcpy(&page, v->payload, sizeof(page));
		memcpy(&stamp, v->payload + sizeof(page), sizeof(stamp));
		CHECK_EQ(page.bytes, v->bytes - sizeof(page));
		CHECK(stamp >= t->first_ns && stamp <= t->last_ns);
		t->pages++;
		break;
	case BRAID_CHUNK_TEXT:
		memcpy(&kind, v->payload, sizeof(kind));
		t->formats += kind == BRAID_TEXT_FORMAT;
		t->header_pages += kind == BRAID_TEXT_HEADER_PAGE;
		t->kallsyms += kind == BRAID_TEXT_KALLSYMS;
		break;
	case BRAID_CHUNK_COMMS:
		tally_comms(t, v);
		break;
	case BRAID_CHUNK_STREAM_END:
		t->ends++;
		break;
	case BRAID_CHUNK_HOST_STEAL:
		t->steals++;
		break;
	case BRAID_CHUNK_VCPU_THREADS:
		memcpy(&row, v->payload, sizeof(row));
		t->own += row.vcpu == BRAID_VCPU_NONE && row.tid == getpid();
		break;
	case BRAID_CHUNK_RING_END:
		memcpy(&end, v->payload, sizeof(end));
		CHECK_EQ(end.written, end.read + end.lost + end.left);
		t->read += end.read;
		t->lost += end.lost;
		t->left += end.left;
		break;
	}
}

static void tally_capture(struct tally *t)
{
	struct braid_capture_reader *r;
	struct braid_chunk_file head;
	struct braid_chunk_view v;

	CHECK_EQ(braid_capture_open(&r, path, &head), 0);
	while (braid_capture_next(r, &v) > 0)
		tally_chunk(t, &v);
	braid_capture_close(r);
}

/* The number of host events in the capture's first @bytes, checked to be in order of time. */
static u64 decoded(u64 bytes)
{
	struct braid_source *source;
	u64 events = 0;
	size_t k;

	CHECK_EQ(braid_source_follow(&source, path, NULL), 0);
	CHECK_EQ(braid_source_grow(source, bytes, INT64_MAX), 0);
	CHECK_EQ(source->nr_streams, 1);
	for (k = 0; k < source->streams[0]->nr_rings; k++) {
		struct braid_ring *ring = source->streams[0]->rings[k];
		s64 last_ns = 0;

		while (braid_ring_next(ring) > 0) {
			CHECK(ring->item.host_ns >= last_ns);
			last_ns = ring->item.host_ns;
		}
		CHECK_EQ(ring->walk.faults, 0);
		events += ring->walk.events;
	}
	braid_source_free(source);
	return events;
}

/* The size of the capture once all events up to now are complete. */
static u64 complete_bytes(struct braid_live_sink *sink, struct braid_tracefs_source *s)
{
	u64 now_ns = braid_host_clock_ns();

	while (braid_tracefs_source_complete(s) < now_ns)
		CHECK(braid_tracefs_source_poll(s) >= 0);
	return braid_capture_bytes(sink->capture);
}

static void record(bool without_mmap, bool prompt)
{
	struct braid_pattern pattern;
	struct braid_live_sink sink;
	struct braid_tracefs_options o = { .sink = &sink, .patterns = &pattern, .nr_patterns = 1,
					   .buffer_kb = BUFFER_KB, .without_mmap = without_mmap };
	struct tally t = { .first_ns = braid_host_clock_ns() };
	struct braid_tracefs_status status;
	struct braid_tracefs_source *s;
	u64 bytes;
	int k;

	open_sink(&sink);
	sink.prompt_ns = prompt ? BRAID_PROMPT_NS : 0;
	CHECK_EQ(braid_pattern_parse(&pattern, "raw_syscalls:sys_enter"), 0);
	CHECK_EQ(braid_tracefs_source_open(&s, &o), 0);
	CHECK_EQ(braid_tracefs_source_start(s), 0);
	CHECK(instance_exists(getpid()));
	for (k = 0; k < SYSCALLS; k++) {
		getppid();
		if (k % 1000 == 0)
			CHECK(braid_tracefs_source_poll(s) >= 0);
	}
	bytes = complete_bytes(&sink, s);
	CHECK_EQ(braid_tracefs_source_finish(s), 0);
	status = braid_tracefs_source_status(s);
	CHECK(!without_mmap || !status.mapped);
	braid_tracefs_source_close(s);
	CHECK(!instance_exists(getpid()));
	CHECK_EQ(braid_capture_finish(sink.capture), 0);
	t.last_ns = braid_host_clock_ns();
	tally_capture(&t);
	CHECK(t.read >= SYSCALLS);
	CHECK(decoded(bytes) >= SYSCALLS);	/* unfinished sub-buffers too */
	CHECK_EQ(decoded(BRAID_CAPTURE_ALL), t.read);
	CHECK_EQ(t.lost + t.left, 0);
	CHECK(t.pages > SYSCALLS / 200);
	CHECK_EQ(t.formats, 1);
	CHECK_EQ(t.header_pages, 1);
	CHECK_EQ(t.ends, 1);
	CHECK_EQ(t.own, 1);
	CHECK_EQ(t.steals, 2);
	CHECK(t.comms > 1 && t.own_comm);
}

static void test_mapped(void)
{
	record(false, false);
}

static void test_read(void)
{
	record(true, false);
}

static void test_promptly(void)
{
	record(false, true);
	record(true, true);
}

static void test_no_such_event(void)
{
	struct braid_pattern pattern;

	CHECK_EQ(braid_pattern_parse(&pattern, "sched:sched_swich"), 0);
	CHECK_EQ(braid_tracefs_check(&pattern, 1, true, NULL), 0);
	CHECK_EQ(braid_tracefs_check(&pattern, 1, false, NULL), -ENOENT);
	CHECK(strstr(braid_failure(), "sched:sched_switch"));
}

/* An agent that was killed leaves an instance; the next one removes it. */
static void test_killed(void)
{
	struct braid_pattern pattern;
	struct braid_live_sink sink;
	struct braid_tracefs_options o = { .sink = &sink, .patterns = &pattern, .nr_patterns = 1 };
	struct braid_tracefs_source *s;
	int pipe_fds[2];
	siginfo_t info;
	pid_t pid;
	char c;

	CHECK_EQ(braid_pattern_parse(&pattern, "sched:sched_switch"), 0);
	CHECK_EQ(pipe(pipe_fds), 0);
	pid = fork();
	if (!pid) {
		open_sink(&sink);
		if (braid_tracefs_source_open(&s, &o) || braid_tracefs_source_start(s) ||
		    write(pipe_fds[1], "!", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipe_fds[1]);
	CHECK_EQ(read(pipe_fds[0], &c, 1), 1);
	close(pipe_fds[0]);
	braid_instance_remove_stale();
	CHECK(instance_exists(pid));
	kill(pid, SIGKILL);
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);	/* still a zombie */
	braid_instance_remove_stale();	/* or another agent has removed it since */
	CHECK(!instance_exists(pid));
	waitpid(pid, NULL, 0);
}

int main(void)
{
	struct braid_pattern none;

	path = scratch("file");
	if (braid_tracefs_check(&none, 0, true, NULL)) {
		printf("skip: %s\n", braid_failure());
		unlink(path);
		return EXIT_SUCCESS;
	}
	RUN(test_no_such_event);
	RUN(test_mapped);
	RUN(test_read);
	RUN(test_promptly);
	RUN(test_killed);
	return VERDICT();
}
