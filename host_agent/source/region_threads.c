// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes to the capture which threads of the host are a guest's vCPUs, later ones too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host_agent/source/region_private.h"
#include "host_agent/source/vcpu.h"
#include "host_agent/util/error.h"

#define LOOK_NS		1000000000ULL	/* has the QEMU as many threads as before? */
#define LOOKS		10u		/* all are looked at anew after so many */

/* Grows with each thread of a process that comes, shrinks when one goes; 0: not known. */
static u64 count_threads(pid_t pid)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return stat(path, &st) ? 0 : st.st_nlink;
}

/* A row for each vCPU whose thread is another one than it was. */
static size_t compare(struct braid_region_source *s, const struct braid_qemu_threads *now,
		      struct braid_vcpu_thread *rows)
{
	struct braid_live_threads *t = &s->threads;
	size_t nr = 0;
	u32 k;

	for (k = 0; k < s->sb.nr_vcpus && k < now->nr; k++) {
		if (!now->of[k] || now->of[k] == t->of[k])
			continue;
		t->of[k] = now->of[k];
		rows[nr++] = (struct braid_vcpu_thread){
			.vcpu = k, .tid = now->of[k], .from_ns = t->looked_ns,
		};
	}
	if (now->all && now->all != t->all) {
		t->all = now->all;
		rows[nr++] = (struct braid_vcpu_thread){
			.vcpu = BRAID_VCPU_ALL, .tid = now->all, .from_ns = t->looked_ns,
		};
	}
	return nr;
}

static int look(struct braid_region_source *s)
{
	struct braid_vcpu_thread rows[BRAID_QEMU_VCPUS + 1];
	u64 now_ns = braid_live_now_ns(s);
	struct braid_qemu_threads now;
	size_t nr;

	braid_vcpu_threads(s->qemu_pid, &now);
	nr = compare(s, &now, rows);
	s->threads.looked_ns = now_ns;
	return nr ? braid_live_emit(s, BRAID_CHUNK_VCPU_THREADS, NULL, 0, rows,
				    nr * sizeof(*rows)) : 0;
}

int braid_live_threads_begin(struct braid_region_source *s)
{
	bool told = s->threads.told_unknown;
	size_t k;
	int err;

	memset(&s->threads, 0, sizeof(s->threads));
	s->threads.told_unknown = told;
	s->threads.due_ns = braid_live_now_ns(s) + LOOK_NS;
	if (s->qemu_pid) {
		s->threads.count = count_threads(s->qemu_pid);
		err = look(s);
		if (err || s->threads.all)
			return err;
		for (k = 0; k < BRAID_QEMU_VCPUS; k++)
			if (s->threads.of[k])
				return 0;
	}
	if (!told && s->o.say && !s->o.clock_only)
		s->o.say(s->o.say_arg, s->name, BRAID_VCPUS_UNKNOWN);
	s->threads.told_unknown = true;
	return 0;
}

int braid_live_threads_poll(struct braid_region_source *s)
{
	struct braid_live_threads *t = &s->threads;
	u64 now_ns, count;

	if (!s->qemu_pid)
		return 0;
	now_ns = braid_live_now_ns(s);
	if (now_ns < t->due_ns)
		return 0;
	t->due_ns = now_ns + LOOK_NS;
	count = count_threads(s->qemu_pid);
	if (count == t->count && ++t->looks % LOOKS)
		return 0;
	t->count = count;
	return look(s);
}
