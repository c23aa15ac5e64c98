// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes the probes of CPU quotas and packets, in a helper process, and removes them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/live/tracefs_private.h"
#include "host_agent/live/tracefs_quota.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/helper.h"
#include "host_agent/util/instance.h"
#include "shared/btf.h"

#define MOST_LINE	256u
#define TRIES		50	/* events of a removed instance stay in use for a while */
#define STEP_NS		2000000

#define HEAD_WORDS	13u	/* of a packet: IP and TCP with 12 bytes of options */

static const char *const names[] = { "throttle", "throttled", "unthrottle", "held_back" };
static const char *const packet_names[] = { "sent", "received" };
static const char *const systems[] = { BRAID_QUOTA_SYSTEM, BRAID_PACKETS_SYSTEM };

#define NR_NAMES	(sizeof(names) / sizeof(*names))
#define NR_PACKET_NAMES	(sizeof(packet_names) / sizeof(*packet_names))
#define NR_SYSTEMS	(sizeof(systems) / sizeof(*systems))

/* What the helper is to do. */
struct job {
	pid_t agent;
	const char *btf;
	u32 wanted;		/* BRAID_PROBES_* */
	int (*confine)(void);
	int fd;			/* tracefs' dynamic_events */
};

/* Offsets of the members on the way from a run queue to its cgroup's number, and to its CPU. */
struct way {
	s64 tg, css, cgroup, kn, id;
	s64 rq, cpu;
	bool of_threads;	/* this kernel throttles each thread, and of its run queues: */
	char throttled[64];	/* how a probe reads whether it is */
};

/* An integer, or one bit. Return: whether it is there. */
static bool find_throttled(struct way *way, const void *btf, size_t bytes)
{
	s64 offset = braid_btf_offset(btf, bytes, "cfs_rq", "throttled", sizeof(u32));
	s64 bit = braid_btf_bit(btf, bytes, "cfs_rq", "throttled");

	if (offset >= 0)
		snprintf(way->throttled, sizeof(way->throttled), "+%lld($arg1):s32",
			 (long long)offset);
	else
		snprintf(way->throttled, sizeof(way->throttled), "+%lld($arg1):b1@%lld/8",
			 (long long)bit / 8, (long long)bit % 8);
	return offset >= 0 || bit >= 0;
}

/* Return: whether all are known. */
static bool find_way(struct way *way, const char *path)
{
	const struct {
		const char *structure, *member;
		u32 bytes;
		s64 *offset;
	} members[] = {
		{ "cfs_rq", "tg", sizeof(void *), &way->tg },
		{ "task_group", "css", 0, &way->css },
		{ "cgroup_subsys_state", "cgroup", sizeof(void *), &way->cgroup },
		{ "cgroup", "kn", sizeof(void *), &way->kn },
		{ "kernfs_node", "id", sizeof(u64), &way->id },
		{ "cfs_rq", "rq", sizeof(void *), &way->rq },
		{ "rq", "cpu", sizeof(u32), &way->cpu },
	};
	size_t bytes = 0, k;
	braid_auto_free void *btf = braid_host_read_file(path, &bytes);

	for (k = 0; btf && k < sizeof(members) / sizeof(*members); k++) {
		*members[k].offset = braid_btf_offset(btf, bytes, members[k].structure,
						      members[k].member, members[k].bytes);
		if (*members[k].offset < 0)
			return false;
	}
	way->of_threads = btf && braid_btf_offset(btf, bytes, "task_struct", "sched_throttle_work",
						  0) >= 0;
	return btf && (!way->of_threads || find_throttled(way, btf, bytes));
}

/* The kernel takes or refuses a line as a whole. Return: 0 or -errno. */
static int put_line(int fd, const char *line)
{
	return write(fd, line, strlen(line)) < 0 ? -errno : 0;
}

/* Return: 0 or -errno. */
static int remove_probe(int fd, const char *group, const char *name)
{
	char line[MOST_LINE];

	snprintf(line, sizeof(line), "-:%s/%s\n", group, name);
	return put_line(fd, line);
}

static void group_of(char group[MOST_LINE / 4], const char *system, pid_t pid)
{
	snprintf(group, MOST_LINE / 4, "%s%d", system, (int)pid);
}

/*
 * Finds a probe that an agent left in a line "p:GROUP/NAME SYMBOL ...", which is cut.
 * Return: its group, or NULL.
 */
static char *stale_group(char *line, pid_t agent, char **name)
{
	char *group = strchr(line, ':'), *end;
	size_t k = 0;
	long pid;

	if (!group++)
		return NULL;
	while (k < NR_SYSTEMS && strncmp(group, systems[k], strlen(systems[k])))
		k++;
	if (k == NR_SYSTEMS)
		return NULL;
	pid = strtol(group + strlen(systems[k]), &end, 10);
	if (*end != '/' || pid <= 0 || (pid != agent && !braid_instance_owner_is_dead(pid)))
		return NULL;
	*end = 0;
	*name = end + 1;
	end[1 + strcspn(end + 1, " \n")] = 0;
	return group;
}

static void remove_stale(const struct job *job, const char *path)
{
	braid_auto_free char *text = braid_host_read_file(path, NULL);
	char *at = text, *line, *group, *name;

	while ((line = strsep(&at, "\n"))) {
		group = stale_group(line, job->agent, &name);
		if (group)
			remove_probe(job->fd, group, name);
	}
}

static void remove_group(const struct job *job, const char *system, const char *const *of,
			 size_t nr)
{
	const struct timespec step = { .tv_nsec = STEP_NS };
	char group[MOST_LINE / 4];
	size_t k, tries;

	group_of(group, system, job->agent);
	for (k = 0; k < nr; k++)
		for (tries = 0; tries < TRIES; tries++) {
			if (remove_probe(job->fd, group, of[k]) != -EBUSY)
				break;
			nanosleep(&step, NULL);
		}
}

/* @of: BRAID_PROBES_* */
static void remove_all(const struct job *job, u32 of)
{
	if (of & BRAID_PROBES_QUOTA)
		remove_group(job, BRAID_QUOTA_SYSTEM, names, NR_NAMES);
	if (of & BRAID_PROBES_PACKETS)
		remove_group(job, BRAID_PACKETS_SYSTEM, packet_names, NR_PACKET_NAMES);
}

/*
 * The return probes show whether a call changed anything. throttle_cfs_rq() returns without
 * throttling if the cgroup has time left. On kernels that throttle threads, unthrottle_cfs_rq()
 * returns with the queue still throttled if there is none. Both run with interrupts off.
 * throttle_cfs_rq_work() does not: while a kprobe there is handled, probes that are hit in an
 * interrupt on this CPU are missed. An fprobe ("f") does not have this effect.
 * Return: 0, or -errno of the first that the kernel refused.
 */
static int make_probes(const struct job *job, const struct way *way)
{
	char group[MOST_LINE / 4], lines[NR_NAMES][MOST_LINE];
	u32 nr = 0, k;
	int err = 0;

	group_of(group, BRAID_QUOTA_SYSTEM, job->agent);
	snprintf(lines[nr++], MOST_LINE,
		 "p:%s/throttle throttle_cfs_rq queue=$arg1:x64 cgroup=+%lld(+%lld(+%lld(+%lld($arg1)))):u64 cpu=+%lld(+%lld($arg1)):s32\n",
		 group, (long long)way->id, (long long)way->kn, (long long)(way->css + way->cgroup),
		 (long long)way->tg, (long long)way->cpu, (long long)way->rq);
	snprintf(lines[nr++], MOST_LINE, "r:%s/throttled throttle_cfs_rq ret=$retval:u8\n", group);
	if (way->of_threads) {
		snprintf(lines[nr++], MOST_LINE,
			 "r:%s/unthrottle unthrottle_cfs_rq queue=$arg1:x64 throttled=%s\n", group,
			 way->throttled);
		snprintf(lines[nr++], MOST_LINE, "f:%s/held_back throttle_cfs_rq_work\n", group);
	} else {
		snprintf(lines[nr++], MOST_LINE, "p:%s/unthrottle unthrottle_cfs_rq queue=$arg1:x64\n",
			 group);
	}
	for (k = 0; k < nr && !err; k++)
		err = put_line(job->fd, lines[k]);
	return err;
}

/*
 * __ip_local_out() has each packet that a socket of this host sends, with its IP header, before
 * anybody else can see it; netif_receive_skb each that has come, of whatever device. Both have the
 * IP header at the beginning of the data.
 */
static bool make_packets(const struct job *job)
{
	char group[MOST_LINE / 4], line[MOST_LINE];
	size_t bytes = 0;
	braid_auto_free void *btf = braid_host_read_file(job->btf, &bytes);
	s64 data = btf ? braid_btf_offset(btf, bytes, "sk_buff", "data", sizeof(void *)) : -1;
	int err;

	if (data < 0)
		return false;
	group_of(group, BRAID_PACKETS_SYSTEM, job->agent);
	snprintf(line, sizeof(line), "p:%s/sent __ip_local_out head=+0(+%lld($arg3)):x32[%u]\n",
		 group, (long long)data, HEAD_WORDS);
	err = put_line(job->fd, line);
	snprintf(line, sizeof(line),
		 "e:%s/received net.netif_receive_skb head=+0(+%lld($skbaddr)):x32[%u]\n",
		 group, (long long)data, HEAD_WORDS);
	if (!err && !put_line(job->fd, line))
		return true;
	remove_all(job, BRAID_PROBES_PACKETS);
	return false;
}

static bool make_quota(const struct job *job)
{
	struct way way = { 0 };

	if (!find_way(&way, job->btf))
		return false;
	if (!make_probes(job, &way))
		return true;
	remove_all(job, BRAID_PROBES_QUOTA);
	return false;
}

/* Return: BRAID_PROBES_*, those that are made. */
static u32 make_all(struct job *job)
{
	const char *root;
	char path[512];
	u32 made = 0;

	if (braid_host_tracefs(&root))
		return 0;
	snprintf(path, sizeof(path), "%s/kprobe_events", root);
	if (faccessat(AT_FDCWD, path, F_OK, AT_EACCESS))
		return 0;	/* events of other kinds are dynamic, too */
	snprintf(path, sizeof(path), "%s/dynamic_events", root);
	job->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (job->fd < 0)
		return 0;
	braid_instance_remove_stale();	/* their probes are enabled in them */
	remove_stale(job, path);
	if (job->wanted & BRAID_PROBES_QUOTA && make_quota(job))
		made |= BRAID_PROBES_QUOTA;
	if (job->wanted & BRAID_PROBES_PACKETS && make_packets(job))
		made |= BRAID_PROBES_PACKETS;
	return made;
}

static void serve(void *arg, int socket)
{
	struct job *job = arg;
	u8 made = (u8)make_all(job), none;

	if (made && job->confine()) {
		remove_all(job, made);
		made = 0;
	}
	if (write(socket, &made, 1) != 1 || !made)
		return;
	while (read(socket, &none, 1) < 0 && errno == EINTR)
		;	/* until the agent says so, or is gone */
	remove_all(job, made);
}

int braid_tracefs_quota_start(struct braid_tracefs_quota *q, const char *btf, u32 wanted,
			      int (*confine)(void))
{
	struct job job = {
		.agent = getpid(), .btf = btf, .wanted = wanted, .confine = confine, .fd = -1,
	};
	u8 made = 0;
	int err;

	*q = BRAID_TRACEFS_QUOTA_NONE;
	err = braid_helper_start(&q->fd, &q->pid, serve, &job);
	if (err)
		return err;
	while (read(q->fd, &made, 1) < 0 && errno == EINTR)
		;
	if (!made)
		braid_tracefs_quota_stop(q);
	q->made = made;
	return 0;
}

void braid_tracefs_quota_stop(struct braid_tracefs_quota *q)
{
	if (q->fd < 0)
		return;
	/* Closing the socket is not enough: processes forked since may have it open, too. */
	send(q->fd, "", 1, MSG_NOSIGNAL);
	close(q->fd);
	while (waitpid(q->pid, NULL, 0) < 0 && errno == EINTR)
		;
	braid_children_remove(q->pid);
	*q = BRAID_TRACEFS_QUOTA_NONE;
}
