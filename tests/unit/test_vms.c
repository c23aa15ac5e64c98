// SPDX-License-Identifier: GPL-2.0-or-later
/* VMs of this host: found by their process, recorded while they have no driver. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/discover/vms.h"
#include "host_agent/live/vm.h"
#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tracebraid/tracebraid.h"

static char path[] = "/tmp/test_vms.XXXXXX";

/* A process that looks like a QEMU with two vCPUs -------------------------------------------- */

static pthread_barrier_t named;

static void *be_vcpu(void *arg)
{
	prctl(PR_SET_NAME, arg);
	pthread_barrier_wait(&named);
	for (;;)
		pause();
	return NULL;
}

static int be_qemu(int up)
{
	static char names[2][16] = { "CPU 0/TCG", "CPU 1/TCG" };
	pthread_t thread;
	u32 k;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	NEED(!pthread_barrier_init(&named, NULL, 3));
	for (k = 0; k < 2; k++)
		NEED(!pthread_create(&thread, NULL, be_vcpu, names[k]));
	pthread_barrier_wait(&named);
	NEED(write(up, "", 1) == 1);
	for (;;)
		pause();
}

static pid_t start(const char *program, const char *name)
{
	char fd[16];
	int up[2];
	pid_t pid;
	char c;

	NEED(!pipe(up));
	snprintf(fd, sizeof(fd), "%d", up[1]);
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		execl("/proc/self/exe", program, "-name", name, fd, NULL);
		_exit(EXIT_FAILURE);
	}
	NEED(read(up[0], &c, 1) == 1);
	close(up[0]);
	close(up[1]);
	return pid;
}

static void end(pid_t pid)
{
	NEED(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
}

/* Finding them -------------------------------------------------------------------------------- */

static void found_and_gone(void)
{
	pid_t vm = start("qemu-system-fake", "guest=fake1,debug-threads=on");
	pid_t tool = start("qemu-nbd", "fake2"), other = start("sleep", "fake3");
	struct braid_vms vms = { 0 };

	NEED(!braid_vms_look(&vms) && braid_vms_find(&vms, vm));
	CHECK(!strcmp(braid_vms_find(&vms, vm)->name, "fake1"));
	CHECK(braid_vms_find(&vms, vm)->start_ticks);
	CHECK(braid_vms_find(&vms, tool));	/* it has vCPUs */
	CHECK(!braid_vms_find(&vms, other) && !braid_vms_find(&vms, getpid()));
	NEED(!braid_vms_look(&vms) && braid_vms_find(&vms, vm));
	NEED(!kill(vm, SIGKILL));
	while (waitid(P_PID, vm, &(siginfo_t){ 0 }, WEXITED | WNOWAIT))
		;
	NEED(!braid_vms_look(&vms));
	CHECK(!braid_vms_find(&vms, vm));	/* nobody has waited for it yet */
	NEED(waitpid(vm, NULL, 0) == vm);
	end(tool);
	end(other);
	braid_vms_free(&vms);
}

/* Recording them ------------------------------------------------------------------------------ */

struct recording {
	struct braid_live_sink sink;
	struct braid_vm_sources *sources;
};

static void begin(struct recording *r, struct braid_vm_taken *taken, size_t nr)
{
	struct braid_vm_options o = { .sink = &r->sink };

	*r = (struct recording){ .sink = { .capture = synth_capture(path), .next_stream = 1 } };
	NEED(!braid_vm_sources_open(&r->sources, &o));
	NEED(!braid_vm_sources_poll(r->sources, taken, nr));
	CHECK(!braid_vm_sources_due(r->sources));
}

static void finish(struct recording *r, struct braid_vm_taken *taken, size_t nr)
{
	NEED(!braid_vm_sources_finish(r->sources, taken, nr));
	CHECK_EQ(braid_vm_sources_number(r->sources), 0);
	braid_vm_sources_close(r->sources);
	NEED(!braid_capture_finish(r->sink.capture));
}

/* The stream of that name ends so; NULL: there is none. */
static void recorded(const char *name, const char *how)
{
	struct tracebraid_trace *trace;
	const struct tracebraid_stream *s;
	const char *found = NULL;
	size_t k;

	NEED(!tracebraid_open(&trace, &(const char *){ path }, 1, NULL, NULL, NULL));
	for (k = 0; (s = tracebraid_stream(trace, k)); k++) {
		if (strcmp(tracebraid_stream_name(s), name))
			continue;
		found = tracebraid_stream_end(s);
		CHECK_EQ(tracebraid_stream_nr_cpus(s), 2);
	}
	if (!found != !how || (how && strcmp(found, how)))
		fprintf(stderr, "%s: %s, expected %s\n", name, found, how);
	CHECK(!found == !how && (!how || !strcmp(found, how)));
	tracebraid_close(trace);
}

static void ends(void)
{
	pid_t stays = start("qemu-system-fake", "stays"), goes = start("qemu-system-fake", "goes");
	pid_t loads = start("qemu-system-fake", "loads"), has = start("qemu-system-fake", "has");
	struct braid_vm_taken taken[] = {
		{ .pid = has, .from_ns = 1, .name = "has" }, { .pid = loads, .name = "region" },
		{ .pid = loads, .from_ns = 2000, .name = "region" },
	};
	struct recording r;

	begin(&r, taken, 2);
	end(goes);
	taken[1].from_ns = braid_host_clock_ns();
	finish(&r, taken, 3);
	recorded("stays", "recording stopped");
	recorded("goes", "VM ended");
	recorded("region", "driver loaded");
	recorded("loads", NULL);
	recorded("has", NULL);
	end(stays);
	end(loads);
	end(has);
}

static void names(void)
{
	pid_t one = start("qemu-system-fake", "twin"), two = start("qemu-system-fake", "twin");
	pid_t host = start("qemu-system-fake", "host");
	char second[32], third[32];
	struct recording r;

	snprintf(second, sizeof(second), "twin[%d]", (int)(one < two ? two : one));
	snprintf(third, sizeof(third), "host[%d]", (int)host);
	begin(&r, NULL, 0);
	finish(&r, NULL, 0);
	recorded("twin", "recording stopped");
	recorded(second, "recording stopped");
	recorded(third, "recording stopped");
	end(one);
	end(two);
	end(host);
}

/* Flight recorders: nothing is written until a snapshot is taken; each one has all of them. */
static struct braid_capture_writer *begin_snapshot(struct recording *r)
{
	struct braid_capture_writer *out = synth_capture(path);

	NEED(!braid_capture_tee(r->sink.capture, out));
	NEED(!braid_vm_sources_take(r->sources));
	return out;
}

static void finish_snapshot(struct recording *r, struct braid_capture_writer *out)
{
	NEED(!braid_vm_sources_took(r->sources, out));
	NEED(!braid_capture_tee(r->sink.capture, NULL));
	NEED(!braid_capture_finish(out));
}

static void poll_again(struct recording *r)
{
	u64 start_ns = braid_host_clock_ns();

	while (braid_host_clock_ns() - start_ns < 1100000000)
		NEED(!braid_vm_sources_poll(r->sources, NULL, 0));
}

static void vcpus_of(const char *name, pid_t pid)
{
	struct braid_source *source;
	const struct braid_stream *s = NULL;
	char *names[] = { path };
	size_t k;

	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	for (k = 0; k < source->nr_streams; k++)
		if (!strcmp(source->streams[k]->name, name))
			s = source->streams[k];
	CHECK_EQ(source->faults, 0);
	CHECK(s && s->kind == BRAID_STREAM_VM && s->pid == pid && s->nr_threads == 2);
	braid_source_free(source);
}

static void snapshots(void)
{
	pid_t stays = start("qemu-system-fake", "stays"), goes = start("qemu-system-fake", "goes");
	pid_t comes;
	struct braid_capture_writer *out;
	struct recording r = { .sink = { .next_stream = 1 } };
	struct braid_vm_options o = { .sink = &r.sink };

	NEED(!braid_capture_create_history(&r.sink.capture, false));
	NEED(!braid_vm_sources_open(&r.sources, &o));
	NEED(!braid_vm_sources_poll(r.sources, NULL, 0));
	finish_snapshot(&r, begin_snapshot(&r));
	recorded("stays", "recording stopped");
	recorded("goes", "recording stopped");
	vcpus_of("stays", stays);
	/* What changes while a snapshot is made is in it. */
	out = begin_snapshot(&r);
	end(goes);
	comes = start("qemu-system-fake", "comes");
	poll_again(&r);
	finish_snapshot(&r, out);
	recorded("stays", "recording stopped");
	recorded("goes", "VM ended");
	recorded("comes", "recording stopped");
	vcpus_of("comes", comes);
	finish_snapshot(&r, begin_snapshot(&r));
	recorded("goes", NULL);
	vcpus_of("stays", stays);
	vcpus_of("comes", comes);
	NEED(!braid_vm_sources_finish(r.sources, NULL, 0));
	braid_vm_sources_close(r.sources);
	NEED(!braid_capture_finish(r.sink.capture));
	end(stays);
	end(comes);
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "-name"))
		return be_qemu(atoi(argv[3]));
	NEED(mkstemp(path) >= 0);
	RUN(found_and_gone);
	RUN(ends);
	RUN(names);
	RUN(snapshots);
	unlink(path);
	return VERDICT();
}
