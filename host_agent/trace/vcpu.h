/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which of the host's threads are vCPUs, of which guests, and from when; their names. */
#ifndef BRAID_TRACE_VCPU_H
#define BRAID_TRACE_VCPU_H

#include "host_agent/trace/source.h"

/* A thread of the host that is a vCPU, from a time on. */
struct braid_vcpu_span {
	s32 tid;
	u32 vcpu;				/* or BRAID_VCPU_ALL */
	s64 from_ns;
	u32 host;				/* its number in the source */
	const struct braid_stream *guest;
};

/* A thread of a host that is no vCPU, but of a guest's VMM or of the host's recorder. */
struct braid_vcpu_owned {
	u32 host;				/* its number in the source */
	s32 tid;
	const struct braid_stream *owner;
};

struct braid_vcpu_map {
	struct braid_vcpu_span *spans;		/* by host, tid, then from_ns */
	size_t nr;
	struct braid_vcpu_owned *owned;		/* by host, tid, then the owner's number */
	size_t nr_owned;
};

/**
 * braid_vcpu_map_make - index the threads of all guests
 * @map: filled; braid_vcpu_map_free() it in any case
 * @source: its streams; valid while their threads do not change
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_vcpu_map_make(struct braid_vcpu_map *map, const struct braid_source *source);

/**
 * braid_vcpu_map_find - the vCPU of a thread at a time
 * @map: the index
 * @host: number of the host in the source
 * @tid: of the host
 * @ns: of the host's clock
 *
 * A thread counts as its first vCPU also before it was identified.
 *
 * Return: NULL when it is not a guest's vCPU.
 */
const struct braid_vcpu_span *braid_vcpu_map_find(const struct braid_vcpu_map *map, u32 host,
						  s32 tid, s64 ns);

/**
 * braid_vcpu_part_on - what a host knows of a guest
 * @guest: a stream
 * @host: number of the host in the source
 * @ns: of the timeline
 *
 * Return: the stream, or its part; NULL: it was not there, or may have been on another host.
 */
const struct braid_stream *braid_vcpu_part_on(const struct braid_stream *guest, u32 host, s64 ns);

/** braid_vcpu_map_only - whether a span's thread is this vCPU at all times */
bool braid_vcpu_map_only(const struct braid_vcpu_map *map, const struct braid_vcpu_span *span);

#define BRAID_STREAM_LABEL	96	/* capacity: */

/**
 * braid_stream_label - a stream's name; "guest1 (2)" for a guest's second incarnation; "guest1 (no
 * driver)" for what it was before its driver was loaded. Return: @label
 */
const char *braid_stream_label(const struct braid_stream *stream, char label[BRAID_STREAM_LABEL]);

/** braid_stream_is - whether a name is a stream's: "guest1" all incarnations', "guest1 (2)" one's */
bool braid_stream_is(const struct braid_stream *stream, const char *name);

#define BRAID_VCPU_LABEL	120	/* capacity: */

/** braid_vcpu_label - "guest1/vCPU 0"; "guest1/all vCPUs" for a thread that runs all in turn */
void braid_vcpu_label(const struct braid_vcpu_span *span, char label[BRAID_VCPU_LABEL]);

/** braid_vcpu_map_free - free an index */
void braid_vcpu_map_free(struct braid_vcpu_map *map);

/**
 * braid_vcpu_sort - sort rows by vCPU, then from_ns
 * @threads: the rows
 * @nr: their number; duplicates and rows without a vCPU of the guest are dropped
 * @nr_cpus: of the guest
 */
void braid_vcpu_sort(struct braid_vcpu_thread *threads, size_t *nr, u32 nr_cpus);

/** braid_vcpu_sort_cgroups - sort a stream's cgroups and throttled times */
void braid_vcpu_sort_cgroups(struct braid_stream *stream);

#define BRAID_MAX_QUOTAS	32u	/* of a thread's cgroups, further ones are ignored */

/**
 * braid_vcpu_cgroups - the cgroups with a CPU quota that a thread is in
 * @stream: whose vCPU it is
 * @tid: of the host
 * @ns: when
 * @nr: set to their number
 *
 * Return: the first, in the stream's table; one with id 0 means none. NULL: they are not known.
 */
const struct braid_cgroup *braid_vcpu_cgroups(const struct braid_stream *stream, s32 tid, s64 ns,
					      size_t *nr);

/**
 * braid_vcpu_owner - the stream whose VMM or recorder a thread of a host belongs to
 * @map: the index
 * @host: number of the host in the source
 * @tid: of a thread of it that is no vCPU
 *
 * Return: a guest: its VMM's; a host: its recorder's; NULL: the trace does not say.
 */
const struct braid_stream *braid_vcpu_owner(const struct braid_vcpu_map *map, u32 host, s32 tid);

#endif /* BRAID_TRACE_VCPU_H */
