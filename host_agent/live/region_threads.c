// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes to the capture which threads of the host are a guest's vCPUs and its QEMU's, later ones
 * too.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host_agent/live/threads.h"
#include "host_agent/util/error.h"

#define CHECK_NS		1000000000ULL	/* has the QEMU as many threads as before? */
#define CHECKS		10u		/* all are checked again after this many */

/* The number of threads of a process; 0: unknown. */
static u64 count_threads(pid_t pid)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return stat(path, &st) ? 0 : st.st_nlink;
}

/* A row for each vCPU whose thread has changed. */
static size_t region_threads_compare(struct braid_live_threads *t,
				     const struct braid_live_stream *s,
				     const struct braid_qemu_threads *now,
				     struct braid_vcpu_thread *rows)
{
	size_t nr = 0;
	u32 k;

	for (k = 0; k < s->sb.nr_vcpus && k < now->nr; k++) {
		if (!now->of[k] || now->of[k] == t->of[k])
			continue;
		t->of[k] = now->of[k];
		rows[nr++] = (struct braid_vcpu_thread){
			.vcpu = k, .tid = now->of[k], .from_ns = t->checked_ns,
		};
	}
	if (now->all && now->all != t->all) {
		t->all = now->all;
		rows[nr++] = (struct braid_vcpu_thread){
			.vcpu = BRAID_VCPU_ALL, .tid = now->all, .from_ns = t->checked_ns,
		};
	}
	return nr;
}

static bool has(const pid_t *tids, size_t nr, pid_t tid)
{
	size_t k;

	for (k = 0; k < nr && tids[k] != tid; k++)
		;
	return k < nr;
}

/* A row for each further thread that is new. */
static int put_others(struct braid_live_threads *t, struct braid_live_stream *s)
{
	struct braid_vcpu_thread rows[BRAID_LIVE_OTHERS];
	pid_t tids[2 * BRAID_LIVE_OTHERS];
	size_t k, nr = braid_process_threads(s->qemu_pid, tids, 2 * BRAID_LIVE_OTHERS), nr_rows = 0;

	for (k = 0; k < nr && t->nr_others < BRAID_LIVE_OTHERS; k++) {
		if (tids[k] == t->all || has(t->of, BRAID_QEMU_VCPUS, tids[k]) ||
		    has(t->others, t->nr_others, tids[k]))
			continue;
		t->others[t->nr_others++] = tids[k];
		rows[nr_rows++] = (struct braid_vcpu_thread){
			.vcpu = BRAID_VCPU_NONE, .tid = tids[k], .from_ns = t->checked_ns,
		};
	}
	return nr_rows ? braid_live_emit(s, BRAID_CHUNK_VCPU_THREADS, NULL, 0, rows,
					 nr_rows * sizeof(*rows)) : 0;
}

static int region_threads_check(struct braid_live_threads *t, struct braid_live_stream *s)
{
	struct braid_vcpu_thread rows[BRAID_QEMU_VCPUS + 1];
	u64 now_ns = braid_live_now_ns(s);
	struct braid_qemu_threads now;
	size_t nr;
	int err;

	braid_vcpu_threads(s->qemu_pid, &now);
	nr = region_threads_compare(t, s, &now, rows);
	err = nr ? braid_live_emit(s, BRAID_CHUNK_VCPU_THREADS, NULL, 0, rows,
				   nr * sizeof(*rows)) : 0;
	if (!err)
		err = put_others(t, s);
	t->checked_ns = now_ns;
	return err;
}

static int follow_quotas(struct braid_live_threads *t, struct braid_live_stream *s, bool at_once)
{
	pid_t tids[BRAID_QEMU_VCPUS + 1];

	if (!s->qemu_pid || s->o.clock_only || !braid_pids_of_host())
		return 0;
	memcpy(tids, t->of, sizeof(t->of));
	tids[BRAID_QEMU_VCPUS] = t->all;
	return braid_live_quota_poll(&t->quota, s, tids, BRAID_QEMU_VCPUS + 1, at_once);
}

static const char *why_unknown(const struct braid_live_stream *s)
{
	return !s->qemu_pid || braid_pids_of_host() ? BRAID_VCPUS_UNKNOWN :
		"vCPU threads unknown (this PID namespace is not the host's: threads have other numbers)";
}

int braid_live_threads_begin(struct braid_live_threads *t, struct braid_live_stream *s)
{
	bool reported = t->reported_unknown;
	size_t k;
	int err;

	braid_live_threads_free(t);
	memset(t, 0, sizeof(*t));
	t->reported_unknown = reported;
	t->due_ns = braid_live_now_ns(s) + CHECK_NS;
	if (s->qemu_pid && braid_pids_of_host()) {
		t->count = count_threads(s->qemu_pid);
		err = region_threads_check(t, s);
		if (!err)
			err = follow_quotas(t, s, true);
		if (err || t->all)
			return err;
		for (k = 0; k < BRAID_QEMU_VCPUS; k++)
			if (t->of[k])
				return 0;
	}
	if (!reported && s->o.say && !s->o.clock_only)
		s->o.say(s->o.say_arg, s->name, why_unknown(s));
	t->reported_unknown = true;
	return 0;
}

int braid_live_threads_poll(struct braid_live_threads *t, struct braid_live_stream *s)
{
	u64 now_ns, count;
	int err = 0;

	if (!s->qemu_pid || !braid_pids_of_host())
		return 0;
	now_ns = braid_live_now_ns(s);
	if (braid_live_quota_due(t->quota, now_ns))
		err = follow_quotas(t, s, false);
	if (err || now_ns < t->due_ns)
		return err;
	t->due_ns = now_ns + CHECK_NS;
	count = count_threads(s->qemu_pid);
	if (count == t->count && ++t->checks % CHECKS)
		return 0;
	t->count = count;
	return region_threads_check(t, s);
}

int braid_live_threads_finish(struct braid_live_threads *t, struct braid_live_stream *s)
{
	return t->quota ? follow_quotas(t, s, true) : 0;
}

void braid_live_threads_free(struct braid_live_threads *t)
{
	braid_live_quota_free(t->quota);
	t->quota = NULL;
}
