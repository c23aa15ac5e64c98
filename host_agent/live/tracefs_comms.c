// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of the host's tasks, from tracefs' own table and from /proc. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/discover/discover.h"
#include "host_agent/live/tracefs_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/helper.h"

#define MAX_COMMS	(1u << 23)	/* more pids than the kernel has */

/* One scan of all names; new ones are collected at the end of items[]. */
struct scan {
	struct braid_host_comms *c;
	struct braid_comm *fresh;
	size_t nr_fresh;
	size_t fresh_capacity;
	u64 before_ns;		/* a change happened after this */
};

static bool tracefs_comms_same(const void *in, u32 number, const void *pid)
{
	return ((const struct braid_comm *)in)[number].pid == *(const s32 *)pid;
}

/* Notes that @pid is called @name now. */
static int note_comm(struct scan *scan, s32 pid, const char *name)
{
	struct braid_host_comms *c = scan->c;
	struct braid_comm comm = { .seq = 2, .pid = pid };
	u32 hash = braid_hash_of_number(pid);
	u32 number = braid_hash_find(&c->by_pid, hash, tracefs_comms_same, c->items, &pid);

	strncpy(comm.comm, name, sizeof(comm.comm) - 1);
	if (number != BRAID_HASH_NONE) {
		struct braid_comm *known = &c->items[number];

		if (!strncmp(known->comm, comm.comm, sizeof(comm.comm)))
			return 0;
		comm.since_counter = scan->before_ns;
		*known = comm;
	} else {
		if (braid_hash_reserve(&c->by_pid, MAX_COMMS) ||
		    braid_array_push(c->items, c->nr, c->capacity, comm))
			return braid_out_of_memory();
		braid_hash_put(&c->by_pid, hash, c->nr - 1);
	}
	if (braid_array_push(scan->fresh, scan->nr_fresh, scan->fresh_capacity, comm))
		return braid_out_of_memory();
	return 0;
}

/* Lines "pid comm"; a comm may hold spaces. */
static int scan_saved(struct scan *scan)
{
	char *text = tracefs_instance_file_read(NULL, "saved_cmdlines", NULL);
	char *line = text, *next, *name;
	int err = 0;

	for (; line && *line && !err; line = next) {
		long pid = strtol(line, &name, 10);

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (pid > 0 && *name == ' ' && strcmp(name + 1, "<...>"))
			err = note_comm(scan, pid, name + 1);
	}
	free(text);
	return err;
}

static int scan_task(struct scan *scan, const char *pid, const char *tid)
{
	braid_auto_file FILE *f = NULL;
	char path[64], name[64] = "";

	snprintf(path, sizeof(path), "/proc/%.10s/task/%.10s/comm", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return 0;	/* it ended meanwhile */
	if (fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = 0;
	return *name ? note_comm(scan, atoi(tid), name) : 0;
}

static int scan_process(struct scan *scan, const char *pid)
{
	braid_auto_dir DIR *tasks = NULL;
	struct dirent *entry;
	char path[64];
	int err = 0;

	snprintf(path, sizeof(path), "/proc/%.10s/task", pid);
	tasks = opendir(path);
	while (tasks && !err && (entry = readdir(tasks)))
		if (isdigit((unsigned char)*entry->d_name))
			err = scan_task(scan, pid, entry->d_name);
	return err;
}

static int scan_proc(struct scan *scan)
{
	braid_auto_dir DIR *proc = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	while (proc && !err && (entry = readdir(proc)))
		if (isdigit((unsigned char)*entry->d_name))
			err = scan_process(scan, entry->d_name);
	return err;
}

/* Which threads are the recorder's: its own, and the processes that it has started for itself. */
static int put_own(struct braid_tracefs_source *s)
{
	pid_t tids[BRAID_HOST_OWN + BRAID_CHILDREN];
	struct braid_vcpu_thread rows[BRAID_HOST_OWN];
	size_t nr = braid_process_threads(getpid(), tids, BRAID_HOST_OWN), nr_rows = 0, k, j;

	nr += braid_children_get(tids + nr);
	for (k = 0; k < nr && s->nr_own < BRAID_HOST_OWN; k++) {
		for (j = 0; j < s->nr_own && s->own[j] != tids[k]; j++)
			;
		if (j < s->nr_own)
			continue;
		s->own[s->nr_own++] = tids[k];
		rows[nr_rows++] = (struct braid_vcpu_thread){
			.vcpu = BRAID_VCPU_NONE, .tid = tids[k],
		};
	}
	return nr_rows ? braid_host_emit(s, BRAID_CHUNK_VCPU_THREADS, NULL, 0, rows,
					 nr_rows * sizeof(*rows)) : 0;
}

int braid_host_send_comms(struct braid_tracefs_source *s, bool all)
{
	struct scan scan = { .c = &s->comms, .before_ns = s->comms.scan_ns };
	size_t k, some = BRAID_CHUNK_MAX_BYTES / 4 / sizeof(*scan.fresh);
	int err;

	s->comms.scan_ns = braid_host_clock_ns();
	err = scan_saved(&scan);
	if (!err && all)
		err = scan_proc(&scan);
	for (k = 0; k < scan.nr_fresh && !err; k += some) {
		if (some > scan.nr_fresh - k)
			some = scan.nr_fresh - k;
		err = braid_host_emit(s, BRAID_CHUNK_COMMS, NULL, 0, scan.fresh + k,
				      some * sizeof(*scan.fresh));
	}
	free(scan.fresh);
	return err || !all ? err : put_own(s);
}

void braid_host_comms_free(struct braid_host_comms *c)
{
	free(c->items);
	braid_hash_free(&c->by_pid);
	memset(c, 0, sizeof(*c));
}
