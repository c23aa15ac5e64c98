// SPDX-License-Identifier: GPL-2.0-or-later
/* What cgroups say of CPU quotas, and what of that a recorder writes to a capture. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/discover/cgroup.h"
#include "host_agent/live/quota.h"
#include "host_agent/trace/source.h"
#include "host_agent/trace/vcpu.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/monotonic.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

#define VM	1u

static void put(const char *folder, const char *name, const char *text)
{
	braid_auto_free char *path = NULL;

	NEED(asprintf(&path, "%s/%s", folder, name) > 0);
	write_file(path, text, strlen(text));
}

/* A folder with what the kernel has there. */
static void files(void)
{
	struct braid_cgroups v2 = { .is_v2 = true }, v1 = { .is_v2 = false };
	char inner[512];
	struct stat st;
	u64 id = 0, ns = 0;
	int fd;

	snprintf(v2.mount, sizeof(v2.mount), "%s", scratch("cgroups"));
	v1 = v2;
	v1.is_v2 = false;
	snprintf(inner, sizeof(inner), "%s/inner", v2.mount);
	NEED(!mkdir(v2.mount, 0700) && !mkdir(inner, 0700) && !stat(inner, &st));
	CHECK(!braid_cgroup_has_quota(&v2, "/inner", &id) && !braid_cgroup_has_quota(&v2, "/none", &id));
	put(inner, "cpu.max", "max 100000\n");
	put(inner, "cpu.cfs_quota_us", "-1\n");
	CHECK(!braid_cgroup_has_quota(&v2, "/inner", &id) && !braid_cgroup_has_quota(&v1, "/inner", &id));
	put(inner, "cpu.max", "30000 100000\n");
	CHECK(braid_cgroup_has_quota(&v2, "/inner", &id) && id == st.st_ino);
	put(inner, "cpu.cfs_quota_us", "30000\n");
	CHECK(braid_cgroup_has_quota(&v1, "/inner", &id) && id == st.st_ino);
	CHECK(braid_cgroup_stat(&v2, "/inner") < 0 && !braid_cgroup_throttled(-1, &ns));
	put(inner, "cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 12\n");
	fd = braid_cgroup_stat(&v2, "/inner");
	CHECK(fd >= 0 && braid_cgroup_throttled(fd, &ns) && ns == 12000);
	put(inner, "cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 13\n");
	CHECK(braid_cgroup_throttled(fd, &ns) && ns == 13);
	put(inner, "cpu.stat", "usage_usec 5\n");
	CHECK(!braid_cgroup_throttled(fd, &ns));
	close(fd);
}

#define MANY	70u	/* cgroups: libvirt makes one for each vCPU */

/* A process of a new cgroup with a quota, busy or asleep; 0: none can be made here. */
static pid_t process_in(const char *folder, bool is_v2, bool busy)
{
	char text[32];
	pid_t pid;

	if (mkdir(folder, 0755))
		return 0;
	put(folder, is_v2 ? "cpu.max" : "cpu.cfs_quota_us", is_v2 ? "10000 100000" : "10000");
	pid = fork();
	NEED(pid >= 0);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!pid)
		if (!busy)
			pause();
	snprintf(text, sizeof(text), "%d\n", pid);
	put(folder, "cgroup.procs", text);
	return pid;
}

static void end(pid_t pid, const char *folder)
{
	u32 k;

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (k = 0; k < 100 && rmdir(folder); k++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

/* How often a cgroup was throttled, by the kernel's own account. */
static u64 times_throttled(const char *folder)
{
	char path[600], line[128];
	unsigned long long nr = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/cpu.stat", folder);
	f = fopen(path, "r");
	NEED(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "nr_throttled %llu", &nr);
	fclose(f);
	return nr;
}

/* The threads of a VM's vCPUs, until the last one's cgroup was throttled. Return: the time it took. */
static u64 follow(const pid_t *pids, u32 nr, const char *busy, const char *capture)
{
	u64 start_ns = braid_monotonic_ns();

	struct braid_live_sink sink = { .capture = synth_capture(capture) };
	struct braid_live_stream s = { .number = VM, .o.sink = &sink };
	struct braid_chunk_stream head = { .kind = BRAID_STREAM_VM, .name = "vm", .nr_cpus = nr };
	struct braid_chunk_vm vm = { .pid = pids[0] };
	struct braid_vcpu_thread threads[MANY] = { 0 };
	struct braid_live_quota *quota = NULL;
	u32 k;

	for (k = 0; k < nr; k++)
		threads[k] = (struct braid_vcpu_thread){ .vcpu = k, .tid = pids[k] };
	NEED(!braid_live_emit(&s, BRAID_CHUNK_STREAM, &head, sizeof(head), &vm, sizeof(vm)));
	NEED(!braid_live_emit(&s, BRAID_CHUNK_VCPU_THREADS, NULL, 0, threads,
			      nr * sizeof(*threads)));
	for (k = 0; k < 6 || times_throttled(busy) < 2; k++) {
		NEED(!braid_live_quota_poll(&quota, &s, pids, nr, true));
		nanosleep(&(struct timespec){ .tv_nsec = 150000000 }, NULL);
	}
	NEED(!braid_live_quota_poll(&quota, &s, pids, nr, true));
	braid_live_quota_free(quota);
	NEED(!braid_capture_finish(sink.capture));
	return braid_monotonic_ns() - start_ns;
}

/* How long a thread's only cgroup was throttled: it is named, and each interval is one. */
static u64 throttled(const struct braid_stream *vm, pid_t pid)
{
	const struct braid_cgroup *row;
	u64 ns = 0;
	size_t k, nr;

	row = braid_vcpu_cgroups(vm, pid, INT64_MAX, &nr);
	NEED(row && nr == 1);
	CHECK(strstr(row->path, "/braid-unit-") && row->id);
	for (k = 0; k < vm->nr_throttled; k++) {
		CHECK(vm->throttled[k].to_ns > vm->throttled[k].from_ns);
		ns += vm->throttled[k].id == row->id ? vm->throttled[k].ns : 0;
	}
	return ns;
}

/* Of real cgroups, as many; the last one's process is busy. */
static void follow_real(u32 nr)
{
	struct braid_cgroups of;
	struct braid_source *source;
	char *capture = scratch("quota.braid"), folders[MANY][512];
	char *names[] = { capture };
	pid_t pids[MANY];
	u64 ns, took_ns;
	u32 k;

	if (!braid_cgroups_find(&of))
		return;
	for (k = 0; k < nr; k++) {
		snprintf(folders[k], sizeof(folders[k]), "%s/braid-unit-%d-%u", of.mount, getpid(), k);
		pids[k] = process_in(folders[k], of.is_v2, k == nr - 1);
		if (!pids[k]) {
			fprintf(stderr, "     no cgroup can be made here\n");
			while (k--)
				end(pids[k], folders[k]);
			return;
		}
	}
	took_ns = follow(pids, nr, folders[nr - 1], capture);
	for (k = 0; k < nr; k++)
		end(pids[k], folders[k]);
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	for (k = 0; k < nr - 1; k++)
		CHECK(!throttled(source->streams[0], pids[k]));
	/* Of a time that began before the first poll. */
	ns = throttled(source->streams[0], pids[k]);
	CHECK(ns > 0 && ns < took_ns + 1000000000);
	braid_source_free(source);
}

static void real(void)
{
	follow_real(1);
}

static void many(void)
{
	follow_real(MANY);
}

int main(void)
{
	RUN(files);
	RUN(real);
	RUN(many);
	return VERDICT();
}
