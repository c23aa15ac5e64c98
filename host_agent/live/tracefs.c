// SPDX-License-Identifier: GPL-2.0-or-later
/* The life of the host's recording: an instance is made, drained, accounted, removed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/clock_model/timeline.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/live/tracefs_private.h"
#include "host_agent/util/error.h"
#include "host_agent/util/instance.h"

#define BUFFER_KB	4096
#define TURN_PAGES	64u		/* of one CPU per turn */
#define COMMS_NS	1000000000ULL
#define PROMPT_COMMS_NS	200000000ULL

/* Making ------------------------------------------------------------------------------------ */

static int make_instance(struct braid_tracefs_source *s)
{
	const char *clock = s->o.clock ? s->o.clock : BRAID_HOST_CLOCK, *root;
	int err = braid_host_tracefs(&root);

	if (err)
		return err;
	braid_instance_remove_stale();
	s->instance = braid_instance_create(BRAID_INSTANCE_RECORD);
	if (!s->instance)
		return braid_fail(errno == EACCES || errno == EPERM ? -EACCES : -EIO,
				  "the host cannot be recorded: no instance can be made in %s: %s",
				  root, strerror(errno));
	if (tracefs_instance_file_write(s->instance, "trace_clock", clock) < 0)
		return braid_fail(-EIO, "the host cannot be recorded: its trace clock \"%s\": %s",
				  clock, strerror(errno));
	if (tracefs_instance_set_buffer_size(s->instance,
					     s->o.buffer_kb ? s->o.buffer_kb : BUFFER_KB, -1) < 0)
		return braid_fail(-ENOMEM, "the host cannot be recorded: no memory for its buffers");
	s->stats = tracefs_instance_get_file(s->instance, "per_cpu/cpu0/stats");
	return s->stats ? 0 : braid_out_of_memory();
}

static int tracefs_put_stream(struct braid_tracefs_source *s)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST,
		.nr_cpus = s->nr_cpus,
		.subbuf_bytes = s->subbuf_bytes,
		.host_ns = braid_host_clock_ns(),
		.name = "host",
	};

	return braid_host_emit(s, BRAID_CHUNK_STREAM, &head, sizeof(head), NULL, 0);
}

static int read_header_page(struct braid_tracefs_source *s)
{
	char *text = tracefs_instance_file_read(NULL, "events/header_page", NULL);

	s->subbuf_bytes = text ? braid_host_subbuf_bytes(text) : 0;
	free(text);
	if (s->subbuf_bytes)
		return 0;
	return braid_fail(-EPROTO, "the host cannot be recorded: unknown format of its events/header_page");
}

int braid_tracefs_source_open(struct braid_tracefs_source **out,
			      const struct braid_tracefs_options *o)
{
	struct braid_tracefs_source *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return braid_out_of_memory();
	s->o = *o;
	/* Reads consume: part of a mapped sub-buffer can't be consumed alone. */
	s->o.without_mmap |= o->flight || o->rotates;
	err = make_instance(s);
	if (!err)
		err = read_header_page(s);
	if (!err)
		err = braid_host_cpus_open(s);
	s->stream = s->o.sink->next_stream++;
	if (!err)
		err = tracefs_put_stream(s);
	if (!err)
		err = braid_host_put_texts(s);
	if (err) {
		braid_tracefs_source_close(s);
		return err;
	}
	*out = s;
	return 0;
}

const char *braid_tracefs_source_stats(const struct braid_tracefs_source *s)
{
	return s->stats;
}

/* What the host's own host took from all its CPUs, if it is known. */
static int tracefs_put_steal(struct braid_tracefs_source *s)
{
	struct braid_host_steal now = { .host_ns = braid_host_clock_ns() };
	FILE *f = s->o.flight ? NULL : fopen("/proc/stat", "re");
	unsigned long long ticks = 0;
	long hz = sysconf(_SC_CLK_TCK);
	int got = f ? fscanf(f, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) : 0;

	if (f)
		fclose(f);
	if (got != 1 || hz <= 0)
		return 0;
	now.steal_ns = ticks * (1000000000ULL / hz);
	return braid_host_emit(s, BRAID_CHUNK_HOST_STEAL, &now, sizeof(now), NULL, 0);
}

static int cannot_switch(void)
{
	return braid_fail(-EIO, "the host cannot be recorded: tracing cannot be turned on or off: %s",
			  strerror(errno));
}

int braid_tracefs_source_start(struct braid_tracefs_source *s)
{
	int err = 0;

	if (s->o.held && tracefs_trace_off(s->instance) < 0)
		return cannot_switch();
	err = braid_host_enable_events(s, false);
	if (!err)
		err = tracefs_put_steal(s);
	/* After the events: a name that changes now is seen by both. */
	return err || s->o.held ? err : braid_host_send_comms(s, true);
}

int braid_tracefs_source_on(struct braid_tracefs_source *s)
{
	return tracefs_trace_on(s->instance) < 0 ? cannot_switch() : 0;
}

int braid_tracefs_source_name_tasks(struct braid_tracefs_source *s)
{
	return braid_host_send_comms(s, true);
}

void braid_tracefs_source_off(struct braid_tracefs_source *s)
{
	tracefs_trace_off(s->instance);
}

/* Working -------------------------------------------------------------------------------------- */

int braid_tracefs_source_poll(struct braid_tracefs_source *s)
{
	u64 comms_ns = s->o.sink->prompt_ns ? PROMPT_COMMS_NS : COMMS_NS;
	int result = BRAID_POLL_IDLE, nr;
	u32 k;

	for (k = 0; k < s->nr_cpus && !s->o.flight; k++) {
		if (braid_capture_full(s->o.sink->capture))	/* the kernel counts losses */
			return BRAID_POLL_BUSY;
		nr = braid_host_cpu_drain(s, &s->cpus[(s->first_cpu + k) % s->nr_cpus], TURN_PAGES,
					  false);
		if (nr < 0)
			return nr;
		if (nr == (int)TURN_PAGES)
			result = BRAID_POLL_MORE;
		else if (nr && result == BRAID_POLL_IDLE)
			result = BRAID_POLL_BUSY;
	}
	s->first_cpu = (s->first_cpu + 1) % s->nr_cpus;
	if (braid_host_clock_ns() - s->comms.scan_ns >= comms_ns) {
		nr = braid_host_send_comms(s, false);
		if (nr)
			return nr;
	}
	return result;
}

u64 braid_tracefs_source_rest_ns(const struct braid_tracefs_source *s)
{
	u64 now_ns = braid_host_clock_ns(), ns = ~0ULL, due_ns, left_ns;
	u32 k;

	for (k = 0; k < s->nr_cpus && !s->o.flight; k++) {
		due_ns = braid_host_cpu_due_ns(s, &s->cpus[k]);
		left_ns = due_ns > now_ns ? due_ns - now_ns : 0;
		ns = left_ns < ns ? left_ns : ns;
	}
	return ns;
}

u64 braid_tracefs_source_complete(const struct braid_tracefs_source *s)
{
	u64 ns = BRAID_TAKEN_UNKNOWN;
	u32 k;

	for (k = 0; k < s->nr_cpus; k++)
		if (s->cpus[k].complete_ns < ns)
			ns = s->cpus[k].complete_ns;
	return ns;
}

/* The number after @key in a stats file. */
static u64 stat_value(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (; text && *text; text = strchr(text, '\n'), text += !!text)
		if (!strncmp(text, key, n) && text[n] == ':')
			return strtoull(text + n + 1, NULL, 10);
	return 0;
}

static int put_accounting(struct braid_tracefs_source *s, struct braid_host_cpu *cpu)
{
	struct braid_chunk_ring_end end = {
		.vcpu = cpu->cpu, .read_before = cpu->reported_read,
		.lost_before = cpu->reported_lost,
		.before = cpu->reported_read + cpu->reported_lost,
	};
	char file[64], *text;
	int err;

	snprintf(file, sizeof(file), "per_cpu/cpu%u/stats", cpu->cpu);
	text = tracefs_instance_file_read(s->instance, file, NULL);
	if (!text)
		return 0;
	end.read = stat_value(text, "read events");
	end.lost = stat_value(text, "overrun") + stat_value(text, "commit overrun") +
		   stat_value(text, "dropped events");
	end.left = stat_value(text, "entries");
	end.written = end.read + end.lost + end.left;
	end.lost_within = end.lost - cpu->reported_lost;
	end.left_within = end.left;
	free(text);
	s->events += end.read - cpu->reported_read;
	s->lost += end.lost - cpu->reported_lost;
	cpu->reported_read = end.read;
	cpu->reported_lost = end.lost;
	err = braid_host_emit(s, BRAID_CHUNK_RING_END, &end, sizeof(end), NULL, 0);
	return err;
}

/* What a file needs beside its stream and pages. */
static int tracefs_put_tables(struct braid_tracefs_source *s)
{
	int err = braid_host_put_texts(s);

	if (!err)
		err = braid_host_enable_events(s, true);
	return err ? err : braid_host_send_comms(s, true);
}

/* All that the buffers hold now. Each is read once: later events are left to the next file. */
static int tracefs_take_now(struct braid_tracefs_source *s)
{
	u32 most = (s->o.buffer_kb ? s->o.buffer_kb : BUFFER_KB) * 1024 / s->subbuf_bytes + 2, k;
	int ret = 0;

	s->taken_ns = braid_host_clock_ns();
	for (k = 0; k < s->nr_cpus && ret >= 0; k++)
		ret = braid_host_cpu_drain(s, &s->cpus[k], most, true);
	for (k = 0; k < s->nr_cpus && ret >= 0; k++)
		ret = put_accounting(s, &s->cpus[k]);
	return ret < 0 ? ret : 0;
}

int braid_tracefs_source_take(struct braid_tracefs_source *s)
{
	int err = tracefs_put_stream(s);

	braid_capture_replay(s->o.sink->capture, s->stream);
	if (!err)
		err = tracefs_take_now(s);
	return err ? err : tracefs_put_tables(s);
}

int braid_tracefs_source_leave_file(struct braid_tracefs_source *s, struct braid_capture_writer *to)
{
	int err = tracefs_take_now(s) ?: tracefs_put_steal(s);

	return err ? err : braid_tracefs_source_took(s, to);
}

int braid_tracefs_source_enter_file(struct braid_tracefs_source *s)
{
	int err = tracefs_put_stream(s);

	braid_capture_replay(s->o.sink->capture, s->stream);
	braid_host_comms_free(&s->comms);	/* names that are in former files */
	if (!err)
		err = tracefs_put_steal(s);
	return err ? err : tracefs_put_tables(s);
}

int braid_tracefs_source_took(struct braid_tracefs_source *s, struct braid_capture_writer *to)
{
	/* Later events may be in the next file. */
	struct braid_chunk_stream_end end = { .reason = BRAID_END_STOPPED, .host_ns = s->taken_ns };

	if (s->ended)
		return 0;	/* and its end written */
	return braid_capture_put(to, BRAID_CHUNK_STREAM_END, s->stream, &end, sizeof(end), NULL, 0);
}

int braid_tracefs_source_finish(struct braid_tracefs_source *s)
{
	struct braid_chunk_stream_end end = { .reason = BRAID_END_STOPPED };
	int ret = 0;
	u32 k;

	if (s->ended)
		return 0;
	s->ended = true;
	tracefs_trace_off(s->instance);
	/* No writer is left: it ends when the buffers do. */
	for (k = 0; k < s->nr_cpus && ret >= 0 && !s->o.flight; k++)
		ret = braid_host_cpu_drain(s, &s->cpus[k], ~0u >> 1, true);
	for (k = 0; k < s->nr_cpus && ret >= 0; k++)
		ret = put_accounting(s, &s->cpus[k]);
	if (ret >= 0)
		ret = braid_host_send_comms(s, true);
	if (ret >= 0)
		ret = tracefs_put_steal(s);
	end.host_ns = braid_host_clock_ns();
	if (ret >= 0)
		ret = braid_host_emit(s, BRAID_CHUNK_STREAM_END, &end, sizeof(end), NULL, 0);
	return ret < 0 ? ret : 0;
}

struct braid_tracefs_status braid_tracefs_source_status(const struct braid_tracefs_source *s)
{
	return (struct braid_tracefs_status){
		.stream = s->stream, .nr_cpus = s->nr_cpus,
		.mapped = s->nr_cpus && s->cpus[0].meta,
		.bytes = s->bytes, .events = s->events, .lost = s->lost,
	};
}

void braid_tracefs_source_close(struct braid_tracefs_source *s)
{
	if (!s)
		return;
	if (s->instance)
		tracefs_trace_off(s->instance);
	braid_host_cpus_close(s);
	free(s->extent);
	tracefs_put_tracing_file(s->stats);
	braid_instance_remove(s->instance);
	braid_host_comms_free(&s->comms);
	free(s);
}
