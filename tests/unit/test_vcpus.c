// SPDX-License-Identifier: GPL-2.0-or-later
/* vCPU threads: found by their names, stored in the capture, and named in each form. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/clock_sync/kvm.h"
#include "host_agent/live/tracefs.h"
#include "host_agent/trace/vcpu.h"
#include "host_agent/util/helper.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/scratch.h"

#define NO_NAMESPACE	77	/* an exit status */
#define HOST_PID	55	/* synth_host()'s task, "qemu" */

static char *path;

/* Threads' names ------------------------------------------------------------------------------ */

static struct named {
	const char *name;
	pthread_t thread;
	pid_t tid;
} named[] = {
	{ .name = "CPU 2/KVM" }, { .name = "CPU 0/TCG" }, { .name = "CPU 1" }, { .name = "CPU x/TCG" },
	{ .name = "CPU 9999/KVM" }, { .name = "ALL CPUs/TCG" }, { .name = "worker" },
	{ .name = "vcpu3" }, { .name = "fc_vcpu 4" }, { .name = "crosvm_vcpu5" },
	{ .name = "vcpu6_stall" }, { .name = "CPU 7/KVM 1" }, { .name = "vcpu" },
};

static pthread_barrier_t up, down;

static void *wait_named(void *arg)
{
	struct named *n = arg;

	prctl(PR_SET_NAME, n->name);
	n->tid = syscall(SYS_gettid);
	pthread_barrier_wait(&up);
	pthread_barrier_wait(&down);
	return NULL;
}

static void by_names(void)
{
	size_t k, nr = sizeof(named) / sizeof(*named);
	struct braid_qemu_threads t;

	NEED(!pthread_barrier_init(&up, NULL, nr + 1) &&
	     !pthread_barrier_init(&down, NULL, nr + 1));
	for (k = 0; k < nr; k++)
		NEED(!pthread_create(&named[k].thread, NULL, wait_named, &named[k]));
	pthread_barrier_wait(&up);
	braid_vcpu_threads(getpid(), &t);	/* this process is not a KVM machine */
	CHECK_EQ(t.nr, 6);
	CHECK_EQ(t.of[0], named[1].tid);
	CHECK_EQ(t.of[1], 0);
	CHECK_EQ(t.of[2], named[0].tid);
	CHECK_EQ(t.of[3], named[7].tid);
	CHECK_EQ(t.of[4], named[8].tid);
	CHECK_EQ(t.of[5], named[9].tid);
	CHECK_EQ(t.all, named[5].tid);
	pthread_barrier_wait(&down);
	for (k = 0; k < nr; k++)
		pthread_join(named[k].thread, NULL);
	braid_vcpu_threads(getpid(), &t);
	CHECK(!t.nr && !t.all);
}

/* In a PID namespace of its own, a process has numbers that are others' in the host's trace. */
static void in_another_namespace(void)
{
	struct braid_pattern pattern;
	struct braid_kvm_vm *vm;
	int status;
	pid_t pid;

	NEED(!braid_pattern_parse(&pattern, "sched"));
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWPID : CLONE_NEWPID))
			_exit(NO_NAMESPACE);
		pid = fork();
		if (!pid) {
			check_failures = 0;
			CHECK(!braid_pids_of_host());
			CHECK_EQ(braid_kvm_open(&vm, getpid()), -ENOENT);
			CHECK_EQ(braid_tracefs_check(&pattern, 1, false, NULL), -EXDEV);
			CHECK(strstr(braid_failure(), "PID namespace"));
			_exit(VERDICT());
		}
		NEED(pid > 0 && waitpid(pid, &status, 0) == pid);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
	}
	NEED(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_NAMESPACE)
		printf("  skipped: no PID namespace may be made here\n");
	else
		CHECK_EQ(WEXITSTATUS(status), EXIT_SUCCESS);
}

/* Rows ---------------------------------------------------------------------------------------- */

static void in_order(void)
{
	struct braid_vcpu_thread rows[] = {
		{ 1, 71, 500 }, { 0, 70, 0 }, { 1, 72, 900 }, { 0, 70, 0 }, { 1, 71, 0 },
		{ 7, 73, 0 }, { 0, -5, 0 }, { BRAID_VCPU_ALL, 74, 0 }, { 0, 70, 40 },
	};
	size_t nr = sizeof(rows) / sizeof(*rows);

	braid_vcpu_sort(rows, &nr, 2);
	NEED(nr == 4);
	CHECK(rows[0].vcpu == 0 && rows[0].tid == 70 && !rows[0].from_ns);
	CHECK(rows[1].vcpu == 1 && rows[1].tid == 71 && !rows[1].from_ns);
	CHECK(rows[2].vcpu == 1 && rows[2].tid == 72 && rows[2].from_ns == 900);
	CHECK(rows[3].vcpu == BRAID_VCPU_ALL);
	nr = 0;
	braid_vcpu_sort(NULL, &nr, 2);
	CHECK_EQ(nr, 0);
}

static void by_time(void)
{
	struct braid_vcpu_thread first[] = { { 0, 70, 0 }, { 1, 71, 0 } },
				 later[] = { { 3, 70, 0 } };
	struct braid_stream a = {
		.number = 0, .name = "a", .found_ns = 1000, .threads = first, .nr_threads = 2,
	};
	struct braid_stream b = {
		.number = 1, .name = "b", .found_ns = 5000, .threads = later, .nr_threads = 1,
	};
	struct braid_stream *streams[] = { &b, &a };
	struct braid_source source = { .streams = streams, .nr_streams = 2 };
	char label[BRAID_VCPU_LABEL];
	struct braid_vcpu_map map;

	NEED(!braid_vcpu_map_make(&map, &source));
	CHECK(!braid_vcpu_map_find(&map, 0, 69, 2000) && !braid_vcpu_map_find(&map, 0, 72, 2000));
	/* Also before it was found. */
	CHECK(braid_vcpu_map_find(&map, 0, 70, 10)->guest == &a);
	CHECK(braid_vcpu_map_find(&map, 0, 70, 4999)->guest == &a);
	CHECK(braid_vcpu_map_find(&map, 0, 70, 5000)->guest == &b);
	CHECK(!braid_vcpu_map_only(&map, braid_vcpu_map_find(&map, 0, 70, 1)));
	CHECK(braid_vcpu_map_only(&map, braid_vcpu_map_find(&map, 0, 71, 1)));
	braid_vcpu_label(braid_vcpu_map_find(&map, 0, 70, 9000), label);
	CHECK(!strcmp(label, "b/vCPU 3"));
	braid_vcpu_map_free(&map);
}

/* Captures ------------------------------------------------------------------------------------ */

/* A guest, and a host whose only task runs it as of @type. */
static void make(u16 type, const void *rows, u32 bytes)
{
	struct synth_guest_params params = {
		.name = "guest1", .incarnation = 11, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 8, .subbuf_bytes = 512,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	synth_host(w, 2, 3, SYNTH_START_NS + 1000, 40000);
	NEED(!braid_capture_put(w, type, 1, NULL, 0, rows, bytes));
	g.now = 1000000;
	synth_sample(w, &g, 900, 600);
	synth_tick(&g, 0, 1, "hello");
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
}

static void check_text(bool json, const char *want, u32 times)
{
	char *text = report_text(path, json, NULL, NULL);

	if (count_of(text, want) != times)
		fprintf(stderr, "%u times \"%s\" in:\n%s", count_of(text, want), want, text);
	CHECK_EQ(count_of(text, want), times);
	free(text);
}

static void in_reports(void)
{
	struct braid_vcpu_thread rows[] = { { 1, HOST_PID, 0 }, { 0, 54, 0 }, { 0, 56, 77 } };

	make(BRAID_CHUNK_VCPU_THREADS, rows, sizeof(rows));
	check_text(false, "host:               qemu-55      [guest1/vCPU 1] [001]   1000.", 3);
	check_text(false, "[guest1/", 3);
	check_text(true, "\"pid\":55,\"guest\":\"guest1\",\"vcpu\":1,", 3);
	check_text(true, "\"vcpus\":[{\"vcpu\":0,\"tid\":54},{\"vcpu\":0,\"tid\":56,\"from_ns\":77},"
			 "{\"vcpu\":1,\"tid\":55}]", 1);
}

/* From the second of three events on. */
static void from_a_time(void)
{
	struct braid_vcpu_thread rows[] = {
		{ 0, HOST_PID, 0 }, { 1, HOST_PID, SYNTH_START_NS + 30000 },
	};

	make(BRAID_CHUNK_VCPU_THREADS, rows, sizeof(rows));
	check_text(false, "[guest1/vCPU 0]", 1);
	check_text(false, "[guest1/vCPU 1]", 2);
}

static void all_in_one(void)
{
	struct braid_vcpu_thread row = { BRAID_VCPU_ALL, HOST_PID, 0 };

	make(BRAID_CHUNK_VCPU_THREADS, &row, sizeof(row));
	check_text(false, "[guest1/all vCPUs] [001]", 3);
	check_text(true, "\"pid\":55,\"guest\":\"guest1\",\"vcpu\":null,", 3);
	check_text(true, "\"vcpus\":[{\"vcpu\":null,\"tid\":55}]", 1);
}

/* Threads of a VMM that are no vCPU are not shown as one. */
static void of_the_vmm(void)
{
	struct braid_vcpu_thread rows[] = {
		{ 0, 70, 0 }, { BRAID_VCPU_NONE, HOST_PID, 0 }, { BRAID_VCPU_NONE, 54, 9 },
	};
	char *paths[] = { path };
	struct braid_source *source;
	const struct braid_stream *owner;
	struct braid_vcpu_map map;

	make(BRAID_CHUNK_VCPU_THREADS, rows, sizeof(rows));
	check_text(false, "[guest1/", 0);
	check_text(true, "\"vcpus\":[{\"vcpu\":0,\"tid\":70}]", 1);
	NEED(!braid_source_open_captures(&source, paths, 1, NULL));
	NEED(!braid_vcpu_map_make(&map, source));
	owner = braid_vcpu_owner(&map, 0, HOST_PID);
	CHECK(owner && !strcmp(owner->name, "guest1"));
	CHECK(braid_vcpu_owner(&map, 0, 54) == owner);
	CHECK(!braid_vcpu_owner(&map, 0, 70) && !braid_vcpu_owner(&map, 0, 53));
	braid_vcpu_map_free(&map);
	braid_source_free(source);
}

/* How often a reader that follows has to restart, with this row in the capture. */
static u32 generations(u32 vcpu)
{
	struct braid_vcpu_thread row = { vcpu, HOST_PID, 0 };
	struct braid_source *source;
	u32 generation;

	make(BRAID_CHUNK_VCPU_THREADS, &row, sizeof(row));
	NEED(!braid_source_follow(&source, path, NULL));
	NEED(!braid_source_grow(source, UINT64_MAX, INT64_MAX));
	generation = source->generation;
	braid_source_free(source);
	return generation;
}

static void followed(void)
{
	CHECK_EQ(generations(0), generations(BRAID_VCPU_NONE) + 1);
}

/* A process' threads, and those that it has started for itself. */
static void of_this_process(void)
{
	pid_t tids[8], children[BRAID_CHILDREN];

	CHECK_EQ(braid_process_threads(getpid(), tids, 8), 1);
	CHECK_EQ(tids[0], getpid());
	CHECK_EQ(braid_children_get(children), 0);
	braid_children_add(7);
	braid_children_add(8);
	braid_children_remove(7);
	CHECK_EQ(braid_children_get(children), 1);
	CHECK_EQ(children[0], 8);
	braid_children_remove(8);
}

static void of_minor_2(void)
{
	struct braid_vcpu_untimed rows[] = { { 0, HOST_PID }, { 1, 56 } };

	make(BRAID_CHUNK_VCPUS, rows, sizeof(rows));
	check_text(false, "[guest1/vCPU 0]", 3);
	check_text(true, "\"vcpus\":[{\"vcpu\":0,\"tid\":55},{\"vcpu\":1,\"tid\":56}]", 1);
}

int main(void)
{

	path = scratch("file");
	RUN(by_names);
	RUN(in_another_namespace);
	RUN(in_order);
	RUN(by_time);
	RUN(in_reports);
	RUN(from_a_time);
	RUN(all_in_one);
	RUN(of_the_vmm);
	RUN(followed);
	RUN(of_this_process);
	RUN(of_minor_2);
	return VERDICT();
}
