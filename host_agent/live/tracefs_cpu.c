// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes sub-buffers of one CPU's trace_pipe_raw, by mapping it or by read(). */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_agent/capture/host_event.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/live/tracefs_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

#define GET_READER	_IO('R', 0x20)	/* TRACE_MMAP_IOCTL_GET_READER */
#define PART_NS		100000000ULL	/* a read() consumes partial pages: limits its rate */
#define EXTENT_NS	500000000ULL	/* of a mapped page: what is not put by a second is late */

/* Bytes of a sub-buffer in use: header, data, and the lost count when it is stored. */
static u32 used_bytes(const struct braid_tracefs_source *s, u64 commit)
{
	u32 data = commit & ~(u64)(BRAID_MISSED_EVENTS | BRAID_MISSED_STORED);
	u32 room = s->subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES;

	if (commit & BRAID_MISSED_STORED)
		data += sizeof(u64);
	return BRAID_SUBBUF_HEADER_BYTES + (data < room ? data : room);
}

static u64 stored_loss(const struct braid_host_cpu *cpu, u64 commit)
{
	u64 lost = 0;

	if (commit & BRAID_MISSED_STORED)
		memcpy(&lost, cpu->page + cpu->page_bytes - sizeof(lost), sizeof(lost));
	return lost;
}

/* Puts bytes as a sub-buffer. Returns 1, or the capture's error. */
static int put_subbuf(struct braid_tracefs_source *s, struct braid_host_cpu *cpu, const u8 *subbuf,
		      u32 bytes, u64 lost)
{
	struct braid_chunk_host_page head = {
		.cpu = cpu->cpu, .bytes = bytes, .lost_before = lost,
	};
	int err = braid_host_emit(s, BRAID_CHUNK_HOST_PAGE, &head, sizeof(head), subbuf, bytes);

	s->bytes += bytes;
	return err ? err : 1;
}

/* The end of the current page's events; a stored loss follows. */
static u32 data_end(const struct braid_tracefs_source *s, const struct braid_host_cpu *cpu)
{
	u64 commit = ((const struct braid_subbuf *)cpu->page)->commit;

	return used_bytes(s, commit & ~(u64)BRAID_MISSED_STORED);
}

/*
 * Writes the rest of the page as a sub-buffer that begins where the last one ended: times in a
 * sub-buffer are relative to the preceding event. Returns 1, 0 or the capture's error.
 */
static int tracefs_cpu_put_rest(struct braid_tracefs_source *s, struct braid_host_cpu *cpu)
{
	struct braid_subbuf *extent = (struct braid_subbuf *)s->extent;
	u32 bytes = data_end(s, cpu) - cpu->put_bytes;

	if (!bytes)
		return 0;
	extent->time_stamp = cpu->put_stamp;
	extent->commit = bytes;
	memcpy(s->extent + BRAID_SUBBUF_HEADER_BYTES, cpu->page + cpu->put_bytes, bytes);
	return put_subbuf(s, cpu, s->extent, BRAID_SUBBUF_HEADER_BYTES + bytes, 0);
}

/* Writes what of the page is not in the capture yet. Returns 1, 0 or the capture's error. */
static int put_new(struct braid_tracefs_source *s, struct braid_host_cpu *cpu)
{
	u64 stored = stored_loss(cpu, ((const struct braid_subbuf *)cpu->page)->commit);

	if (cpu->put_bytes)
		return tracefs_cpu_put_rest(s, cpu);
	return put_subbuf(s, cpu, cpu->page, cpu->page_bytes, stored ? stored : cpu->page_lost);
}

/* The same of a finished page, which is done with then. */
static int put_page(struct braid_tracefs_source *s, struct braid_host_cpu *cpu)
{
	int ret = put_new(s, cpu);

	cpu->page_bytes = 0;
	cpu->page_lost = 0;
	cpu->put_bytes = 0;
	return ret;
}

static int prepare_extents(struct braid_tracefs_source *s)
{
	if (!s->extent)
		s->extent = calloc(1, s->subbuf_bytes);
	return s->extent ? 0 : braid_out_of_memory();
}

/* The time of the last event in the extent. */
static u64 last_stamp(const struct braid_tracefs_source *s)
{
	const struct braid_subbuf *extent = (const struct braid_subbuf *)s->extent;
	u32 at = 0, room = s->subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES, payload_bytes;
	u32 bytes = extent->commit & BRAID_HOST_COMMIT_MASK;
	u64 time = extent->time_stamp;
	const u8 *payload;

	while (braid_host_event_take(s->extent + BRAID_SUBBUF_HEADER_BYTES,
				     bytes < room ? bytes : room, &at, &time, &payload,
				     &payload_bytes))
		;
	return time;
}

/*
 * Writes the available part of a page that the kernel still writes. 0 or -errno with braid_fail().
 */
static int put_extent(struct braid_tracefs_source *s, struct braid_host_cpu *cpu)
{
	u32 end = data_end(s, cpu);
	int ret = prepare_extents(s);

	if (ret)
		return ret;
	if (!cpu->put_bytes)
		memcpy(s->extent, cpu->page, cpu->page_bytes);
	ret = put_new(s, cpu);
	if (ret <= 0)
		return ret;
	cpu->put_stamp = last_stamp(s);
	cpu->put_bytes = end;
	return 0;
}

/*
 * The kernel swaps the reader's sub-buffer only when all that was in it at the call
 * before had been there to take. So: copy after each call, put when the id changes.
 */
static int drain_mapped(struct braid_tracefs_source *s, struct braid_host_cpu *cpu, u32 budget)
{
	const struct braid_subbuf *subbuf;
	u32 id, bytes, nr = 0;
	u64 commit;
	int ret;

	while (nr < budget) {
		if (ioctl(cpu->fd, GET_READER) < 0)
			return errno == EAGAIN || errno == EINTR ? (int)nr :
			       braid_fail(-errno, "the host's trace of CPU %u cannot be read: %s",
					  cpu->cpu, strerror(errno));
		id = braid_load_acquire(&cpu->meta->reader.id);
		if (cpu->page_bytes && id != cpu->id) {
			ret = put_page(s, cpu);
			if (ret < 0)
				return ret;
			nr += ret;
		}
		if (!cpu->page_bytes && braid_load(&cpu->meta->reader.lost_events))
			cpu->page_lost = braid_load(&cpu->meta->reader.lost_events);
		if ((u64)id * s->subbuf_bytes >= cpu->data_bytes)
			return braid_fail(-EPROTO, "the host's trace of CPU %u is invalid",
					  cpu->cpu);
		subbuf = (const struct braid_subbuf *)(cpu->data + (size_t)id * s->subbuf_bytes);
		commit = braid_load_acquire(&subbuf->commit);
		bytes = used_bytes(s, commit);
		if (bytes == BRAID_SUBBUF_HEADER_BYTES || bytes == cpu->page_bytes)
			break;
		memcpy(cpu->page, subbuf, bytes);
		((struct braid_subbuf *)cpu->page)->commit = commit;
		cpu->page_bytes = bytes;
		cpu->id = id;
	}
	return nr;
}

/* The same; what the reader's sub-buffer has is put extent by extent, before it is full. */
static int drain_extents(struct braid_tracefs_source *s, struct braid_host_cpu *cpu, u32 budget)
{
	u64 now_ns = braid_host_clock_ns();
	int nr = drain_mapped(s, cpu, budget), err = 0;

	if (nr < 0 || (u32)nr >= budget)
		return nr;
	if (cpu->page_bytes && cpu->put_bytes != data_end(s, cpu)) {
		if (now_ns - cpu->extent_ns < (s->o.sink->prompt_ns ?: EXTENT_NS))
			return nr;
		cpu->extent_ns = now_ns;
		err = put_extent(s, cpu);
	}
	cpu->complete_ns = now_ns;
	return err ? err : nr;
}

u64 braid_host_cpu_due_ns(const struct braid_tracefs_source *s, const struct braid_host_cpu *cpu)
{
	return cpu->read_ns ? cpu->read_ns + (s->o.sink->prompt_ns ?: PART_NS) : 0;
}

static int drain_read(struct braid_tracefs_source *s, struct braid_host_cpu *cpu, u32 budget,
		      bool rest)
{
	u64 now_ns = braid_host_clock_ns();
	u32 nr = 0;
	ssize_t n;
	int ret, err;

	if (!rest && now_ns < braid_host_cpu_due_ns(s, cpu))
		return 0;
	while (nr < budget) {
		n = read(cpu->fd, cpu->page, s->subbuf_bytes);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return braid_fail(-errno, "the host's trace of CPU %u cannot be read: %s",
					  cpu->cpu, strerror(errno));
		if (n <= (ssize_t)BRAID_SUBBUF_HEADER_BYTES)
			break;
		cpu->page_bytes = used_bytes(s, ((struct braid_subbuf *)cpu->page)->commit);
		if (cpu->page_bytes == BRAID_SUBBUF_HEADER_BYTES) {
			cpu->page_bytes = 0;
			break;
		}
		/*
		 * A partly filled page is the last one: wait until another read is worthwhile. The
		 * first may be the rest of a page from an earlier call, with others after it.
		 */
		ret = cpu->page_bytes < s->subbuf_bytes / 2 && !rest && nr;
		err = put_page(s, cpu);
		if (err < 0)
			return err;
		nr++;
		if (ret)
			break;
	}
	if (nr < budget) {
		cpu->read_ns = now_ns;
		cpu->complete_ns = now_ns;
	}
	return nr;
}

int braid_host_cpu_drain(struct braid_tracefs_source *s, struct braid_host_cpu *cpu, u32 budget,
			 bool rest)
{
	int nr, ret;

	if (!cpu->meta)
		return drain_read(s, cpu, budget, rest);
	if (!rest)
		return drain_extents(s, cpu, budget);
	nr = drain_mapped(s, cpu, budget);
	if (nr < 0 || !cpu->page_bytes || (u32)nr >= budget)
		return nr;
	ret = put_page(s, cpu);
	return ret < 0 ? ret : nr + ret;
}

/* Opening ---------------------------------------------------------------------------------- */

/* Maps meta page and sub-buffers; leaves ->meta NULL where the kernel can't. */
static void map_cpu(struct braid_tracefs_source *s, struct braid_host_cpu *cpu)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct braid_meta *meta;
	void *data;

	meta = mmap(NULL, page, PROT_READ, MAP_SHARED, cpu->fd, 0);
	if (meta == MAP_FAILED)
		return;
	cpu->meta_bytes = page;
	cpu->data_bytes = (size_t)meta->subbuf_size * meta->nr_subbufs;
	data = MAP_FAILED;
	if (meta->subbuf_size == s->subbuf_bytes && cpu->data_bytes)
		data = mmap(NULL, cpu->data_bytes, PROT_READ, MAP_SHARED, cpu->fd,
			    meta->meta_page_size);
	if (data == MAP_FAILED) {
		munmap(meta, page);
		return;
	}
	cpu->meta = meta;
	cpu->data = data;
}

static int open_cpu(struct braid_tracefs_source *s, u32 number)
{
	struct braid_host_cpu cpu = { .cpu = number };
	char file[64];
	size_t capacity = s->nr_cpus;
	size_t nr = s->nr_cpus;

	snprintf(file, sizeof(file), "per_cpu/cpu%u/trace_pipe_raw", number);
	cpu.fd = tracefs_instance_file_open(s->instance, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (cpu.fd < 0)
		return braid_fail(-errno, "the host's trace of CPU %u cannot be opened: %s", number,
				  strerror(errno));
	cpu.page = calloc(1, s->subbuf_bytes);
	if (!cpu.page || braid_array_push(s->cpus, nr, capacity, cpu)) {
		free(cpu.page);
		close(cpu.fd);
		return braid_out_of_memory();
	}
	s->nr_cpus = nr;
	if (!s->o.without_mmap)
		map_cpu(s, &s->cpus[nr - 1]);
	return 0;
}

int braid_host_cpus_open(struct braid_tracefs_source *s)
{
	char *path = tracefs_instance_get_file(s->instance, "per_cpu");
	braid_auto_dir DIR *dir = path ? opendir(path) : NULL;
	struct dirent *entry;
	int err = 0;

	tracefs_put_tracing_file(path);
	while (dir && !err && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "cpu", 3) && isdigit((unsigned char)entry->d_name[3]))
			err = open_cpu(s, atoi(entry->d_name + 3));
	if (!err && !s->nr_cpus)
		err = braid_fail(-ENOENT, "the host's tracefs shows no CPUs");
	return err;
}

void braid_host_cpus_close(struct braid_tracefs_source *s)
{
	struct braid_host_cpu *cpu;

	for (cpu = s->cpus; cpu && cpu < s->cpus + s->nr_cpus; cpu++) {
		if (cpu->meta) {
			munmap(cpu->data, cpu->data_bytes);
			munmap(cpu->meta, cpu->meta_bytes);
		}
		close(cpu->fd);
		free(cpu->page);
	}
	free(s->cpus);
	s->cpus = NULL;
	s->nr_cpus = 0;
}
