// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows the cgroups of a guest's vCPU threads. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/discover/cgroup.h"
#include "host_agent/live/quota.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define READ_NS		100000000ULL
#define LOOK_NS		2000000000ULL
#define LONGEST_NS	1000000000ULL	/* that a throttled time may have begun before a reading */
#define MAX_LEVELS	32u		/* of a thread's cgroup */

struct group {
	u64 id;
	int stat;		/* -1: it cannot be read */
	u64 read_ns, throttled_ns;
	char path[BRAID_CGROUP_PATH];
};

struct member {
	pid_t tid;
	u64 ids[MAX_LEVELS];	/* as the capture has them */
	size_t nr;
};

struct braid_live_quota {
	struct braid_cgroups of;
	bool any;		/* there is a hierarchy */
	u64 due_ns, look_ns, looked_ns;
	struct group *groups;		/* with a quota: libvirt makes one for each vCPU */
	size_t nr_groups, groups_capacity;
	struct member *members;
	size_t nr_members, capacity;
};

/* The group's number, followed from now on; -ENOMEM. */
static ssize_t group_of(struct braid_live_quota *q, u64 id, const char *path, u64 now_ns)
{
	struct group group = { .id = id, .read_ns = now_ns };
	size_t k;

	for (k = 0; k < q->nr_groups; k++)
		if (q->groups[k].id == id)
			return k;
	group.stat = braid_cgroup_stat(&q->of, path);
	snprintf(group.path, sizeof(group.path), "%s", path);
	if (!braid_cgroup_throttled(group.stat, &group.throttled_ns))
		group.throttled_ns = UINT64_MAX;
	if (!braid_array_push(q->groups, q->nr_groups, q->groups_capacity, group))
		return k;
	if (group.stat >= 0)
		close(group.stat);
	return -ENOMEM;
}

static struct member *member_of(struct braid_live_quota *q, pid_t tid)
{
	struct member one = { .tid = tid, .nr = SIZE_MAX };
	size_t k;

	for (k = 0; k < q->nr_members; k++)
		if (q->members[k].tid == tid)
			return &q->members[k];
	return braid_array_push(q->members, q->nr_members, q->capacity, one) ? NULL :
	       &q->members[q->nr_members - 1];
}

/* The cgroup and those above it that have a quota. Return: how many; -ENOMEM. */
static ssize_t find_quotas(struct braid_live_quota *q, char *path, u64 now_ns,
			   ssize_t found[MAX_LEVELS])
{
	ssize_t nr = 0;
	char *end;
	u64 id;

	for (; *path && nr < (ssize_t)MAX_LEVELS; *end = 0) {
		if (braid_cgroup_has_quota(&q->of, path, &id)) {
			found[nr] = group_of(q, id, path, now_ns);
			if (found[nr++] < 0)
				return -ENOMEM;
		}
		end = strrchr(path, '/');
		if (!end)
			break;
	}
	return nr;
}

static bool is_as_before(const struct braid_live_quota *q, const struct member *member,
			 const ssize_t *found, size_t nr)
{
	size_t k;

	for (k = 0; k < nr && member->nr == nr; k++)
		if (member->ids[k] != q->groups[found[k]].id)
			return false;
	return member->nr == nr;
}

/* Whether quotas have only gone. */
static bool is_less(const struct braid_live_quota *q, const struct member *member,
		    const ssize_t *found, size_t nr)
{
	size_t k, j;

	for (k = 0; k < nr; k++) {
		for (j = 0; j < member->nr && member->ids[j] != q->groups[found[k]].id; j++)
			;
		if (j == member->nr)
			return false;
	}
	return true;
}

/* The end of a long path. */
static void quota_copy_path(char to[sizeof(((struct braid_cgroup *)0)->path)], const char *path)
{
	size_t room = sizeof(((struct braid_cgroup *)0)->path), bytes = strlen(path);

	strcpy(to, bytes < room ? path : path + bytes - (room - 1));
}

/* One thread's cgroups, if they are others than before. */
static int look_at(struct braid_live_quota *q, struct braid_live_stream *s, pid_t tid, u64 now_ns)
{
	struct braid_cgroup rows[MAX_LEVELS];
	u64 from_ns = 0;
	ssize_t found[MAX_LEVELS], got;
	char path[BRAID_CGROUP_PATH];
	struct member *member;
	size_t nr, k;

	if (braid_cgroup_of_thread(&q->of, tid, path))
		return 0;
	got = find_quotas(q, path, now_ns, found);
	member = member_of(q, tid);
	if (got < 0 || !member)
		return braid_out_of_memory();
	nr = got;
	if (is_as_before(q, member, found, nr))
		return 0;
	if (member->nr != SIZE_MAX)
		from_ns = is_less(q, member, found, nr) ? now_ns : q->looked_ns;
	memset(rows, 0, sizeof(rows));
	for (k = 0; k < nr || !k; k++) {
		rows[k].tid = tid;
		rows[k].from_ns = from_ns;
		if (k == nr)
			break;
		rows[k].id = member->ids[k] = q->groups[found[k]].id;
		quota_copy_path(rows[k].path, q->groups[found[k]].path);
	}
	member->nr = nr;
	return braid_live_emit(s, BRAID_CHUNK_CGROUPS, NULL, 0, rows,
			       (nr ? nr : 1) * sizeof(*rows));
}

/* What a cgroup's cpu.stat has counted since the reading before. */
static int read_group(struct braid_live_stream *s, struct group *group, u64 now_ns)
{
	struct braid_throttled row = { .id = group->id, .to_ns = now_ns };
	u64 before_ns = group->throttled_ns, began_ns;

	if (group->stat < 0 || !braid_cgroup_throttled(group->stat, &group->throttled_ns))
		return 0;
	row.ns = group->throttled_ns - before_ns;
	began_ns = row.ns < LONGEST_NS ? row.ns : LONGEST_NS;
	row.from_ns = group->read_ns > began_ns ? group->read_ns - began_ns : 0;
	group->read_ns = now_ns;
	return before_ns >= group->throttled_ns ? 0 :
	       braid_live_emit(s, BRAID_CHUNK_THROTTLED, NULL, 0, &row, sizeof(row));
}

bool braid_live_quota_due(const struct braid_live_quota *q, u64 now_ns)
{
	return !q || (q->any && now_ns >= (q->nr_groups && q->due_ns < q->look_ns ? q->due_ns :
										   q->look_ns));
}

/* Return: -ENOMEM with braid_fail(). */
static int quota_begin(struct braid_live_quota **out)
{
	struct braid_live_quota *q = calloc(1, sizeof(*q));

	if (!q)
		return braid_out_of_memory();
	q->any = braid_cgroups_find(&q->of);
	*out = q;
	return 0;
}

int braid_live_quota_poll(struct braid_live_quota **out, struct braid_live_stream *s,
			  const pid_t *tids, size_t nr, bool at_once)
{
	u64 now_ns = braid_live_now_ns(s);
	struct braid_live_quota *q;
	int err = *out ? 0 : quota_begin(out);
	size_t k;

	q = *out;
	if (err || !q->any || !(at_once || braid_live_quota_due(q, now_ns)))
		return err;
	for (k = 0; k < q->nr_groups && !err; k++)
		err = read_group(s, &q->groups[k], now_ns);
	q->due_ns = now_ns + READ_NS;
	if (now_ns < q->look_ns)
		return err;
	for (k = 0; k < nr && !err; k++)
		if (tids[k])
			err = look_at(q, s, tids[k], now_ns);
	q->looked_ns = now_ns;
	q->look_ns = now_ns + LOOK_NS;
	return err;
}

void braid_live_quota_free(struct braid_live_quota *q)
{
	size_t k;

	for (k = 0; q && k < q->nr_groups; k++)
		if (q->groups[k].stat >= 0)
			close(q->groups[k].stat);
	if (q) {
		free(q->groups);
		free(q->members);
	}
	free(q);
}
