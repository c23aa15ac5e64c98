// SPDX-License-Identifier: GPL-2.0-or-later
/* What the streams of a large capture say before their events: kernels, formats, threads, names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "shared/region.h"
#include "shared/schema.h"
#include "tests/bench/big_formats.h"
#include "tests/bench/big_streams.h"
#include "tests/unit/need.h"

#define NR_TIMES	200u	/* in which a cgroup is throttled */

bool scene[SCENES];

const char *const names[NR_TASKS] = {
	"swapper", "systemd", "kworker/0:1", "kworker/u8:2", "rcu_preempt", "ksoftirqd/0",
	"migration/1", "sshd", "bash", "postgres", "nginx", "java", "python3", "redis-server",
	"CPU 0/KVM", "CPU 1/KVM", "CPU 2/KVM", "CPU 3/KVM", "qemu-system-x86", "vhost-4711", "dd",
	"cc1", "make", "md5sum",
};

const char *const functions[NR_FUNCTIONS] = {
	"hrtimer_wakeup", "tick_sched_timer", "it_real_fn", "timerfd_tmrproc", "watchdog_timer_fn",
	"apic_timer_fn", "sched_rt_period_timer", "perf_mux_hrtimer_handler",
};

u64 function_address(u32 k)
{
	return KERNEL_TEXT + 0x1000 + k * 0x400;
}

void put_comms(struct braid_capture_writer *w, const struct stream *s)
{
	struct braid_comm comms[NR_TASKS - 1];
	u32 k;

	memset(comms, 0, sizeof(comms));
	for (k = 1; k < NR_TASKS; k++) {
		comms[k - 1].seq = 2;
		comms[k - 1].pid = FIRST_PID + k;
		snprintf(comms[k - 1].comm, sizeof(comms[0].comm), "%s", names[k]);
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_COMMS, s->number, NULL, 0, comms, sizeof(comms)));
}

static void put_threads(struct braid_capture_writer *w, const struct stream *s)
{
	u32 first = FIRST_PID + (scene[WINDOW] && s->number != 2 ? 4 : 14), t;
	struct braid_vcpu_thread threads[NR_CPUS];

	for (t = 0; t < NR_CPUS; t++)
		threads[t] = (struct braid_vcpu_thread){ .vcpu = t, .tid = first + t };
	NEED(!braid_capture_put(w, s->vm ? BRAID_CHUNK_VCPU_THREADS : BRAID_CHUNK_VCPUS, s->number,
				NULL, 0, threads, sizeof(threads)));
}

/* Threads of even numbers are in one cgroup, the others in two. */
static void put_quotas(struct braid_capture_writer *w, const struct stream *s, u64 now)
{
	struct braid_cgroup rows[NR_CPUS + NR_CPUS / 2];
	struct braid_throttled times[2 * NR_TIMES];
	u32 first = FIRST_PID + (scene[WINDOW] && s->number != 2 ? 4 : 14), t, nr = 0;

	memset(rows, 0, sizeof(rows));
	for (t = 0; t < NR_CPUS; t++) {
		rows[nr] = (struct braid_cgroup){ .id = 1, .tid = first + t };
		strcpy(rows[nr++].path, "/machine");
		if (t % 2) {
			rows[nr] = (struct braid_cgroup){ .id = 10 + s->number, .tid = first + t };
			snprintf(rows[nr].path, sizeof(rows[nr].path), "/machine/%s", s->name);
			nr++;
		}
	}
	for (t = 0; t < NR_TIMES; t++) {
		times[2 * t] = (struct braid_throttled){
			.id = 1, .from_ns = now + t * 500000,
			.to_ns = now + t * 500000 + 100000, .ns = 7,
		};
		times[2 * t + 1] = (struct braid_throttled){
			.id = 10 + s->number, .from_ns = now + t * 300000,
			.to_ns = now + t * 300000 + 120000, .ns = 7,
		};
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_CGROUPS, s->number, NULL, 0, rows,
				nr * sizeof(*rows)));
	NEED(!braid_capture_put(w, BRAID_CHUNK_THROTTLED, s->number, NULL, 0, times,
				sizeof(times)));
}

void begin_vm(struct braid_capture_writer *w, const struct stream *s, u64 now)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_VM, .nr_cpus = NR_CPUS, .host_ns = now,
	};
	struct braid_chunk_vm vm = { .pid = 7000 + s->number, .start_ticks = 4711 };

	snprintf(head.name, sizeof(head.name), "%s", s->name);
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, s->number, &head, sizeof(head), &vm,
				sizeof(vm)));
	put_threads(w, s);
	if (scene[QUOTAS])
		put_quotas(w, s, now);
}

static void put_guest(struct braid_capture_writer *w, struct stream *s, u64 now)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_GUEST, .nr_cpus = NR_CPUS, .host_ns = now,
	};
	struct braid_region_params region = {
		.region_bytes = 64 << 20, .nr_vcpus = NR_CPUS, .nr_comms = 64, .nr_symbols = 64,
		.directory_bytes = 64 << 10,
	};
	struct braid_buffer_params buffer = {
		.name = "main", .subbuf_bytes = SUBBUF_BYTES, .nr_slots = 64,
	};
	struct braid_symbol symbols[NR_FUNCTIONS];
	static struct braid_superblock sb;
	u64 needed;
	u32 t;

	memset(&sb, 0, sizeof(sb));
	NEED(!braid_region_layout(&sb, &region, &needed));
	NEED(!braid_region_add_buffer(&sb, &buffer, &needed));
	sb.magic = BRAID_MAGIC;
	sb.version_major = BRAID_VERSION_MAJOR;
	sb.state = BRAID_STATE_LIVE;
	sb.incarnation = (scene[SECOND] ? 199 : 99) + s->number;
	sb.counter_type = BRAID_COUNTER_TSC;
	sb.counter_hz = COUNTER_KHZ * 1000;
	memset(sb.boot_id, s->number, sizeof(sb.boot_id));
	snprintf(sb.guest_name, sizeof(sb.guest_name), "%s", s->name);
	snprintf(sb.kernel_release, sizeof(sb.kernel_release), "6.1.0-bench");
	snprintf(sb.machine, sizeof(sb.machine), "x86_64");
	snprintf(head.name, sizeof(head.name), "%s", s->name);
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, s->number, &head, sizeof(head), &sb,
				sizeof(sb)));
	memset(symbols, 0, sizeof(symbols));
	for (t = 0; t < NR_FUNCTIONS; t++) {
		symbols[t].address = function_address(t);
		snprintf(symbols[t].name, sizeof(symbols[t].name), "%s+0x0/0x80", functions[t]);
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_SYMBOLS, s->number, NULL, 0, symbols,
				sizeof(symbols)));
	put_threads(w, s);
	if (scene[QUOTAS])
		put_quotas(w, s, now);
}

static bool is_recorded(enum big_event event, bool host)
{
	bool migrations = scene[MIGRATE] || scene[RARE] || scene[BURSTS];

	if (event == BIG_SAMPLE || event == BIG_MAPPING || event == BIG_STACK)
		return scene[SAMPLES] && host == (event == BIG_STACK);
	return event < BIG_EVENTS || (event == BIG_MIGRATE && migrations) ||
	       (event == BIG_ONLINE && scene[OFFLINE] && !host);
}

static void write_guest_events(struct braid_capture_writer *w, struct stream *s)
{
	const size_t room = 64 << 10;
	struct braid_directory *dir = calloc(1, sizeof(*dir) + room);
	struct braid_schema_event event = { 0 };
	static char text[8192];
	u32 used = 0, k;

	NEED(dir);
	for (k = 1; k < BIG_FORMATS; k++) {
		if (!is_recorded(k, false))
			continue;
		event.id = s->first_id + k;
		event.system = big_formats[k].system;
		event.name = big_formats[k].name;
		event.format = text;
		big_format_text(k, event.id, text, sizeof(text));
		NEED(!braid_schema_append(dir, room, &used, &event));
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_EVENTS, s->number, NULL, 0, dir->data, used));
	free(dir);
}

static void put_kallsyms(struct braid_capture_writer *w, u32 stream)
{
	struct braid_chunk_text head = { .kind = BRAID_TEXT_KALLSYMS };
	size_t room = 1 << 20, used = 0, bound = ZSTD_compressBound(room), packed;
	char *text = malloc(room), *to = malloc(bound);
	u32 k;

	NEED(text && to);
	for (k = 0; k < NR_FUNCTIONS; k++)
		used += snprintf(text + used, room - used, "%016llx t %s\n",
				 (unsigned long long)function_address(k), functions[k]);
	for (k = 0; k < 10000; k++)
		used += snprintf(text + used, room - used, "%016llx T bench_function_%u\n",
				 (unsigned long long)(KERNEL_TEXT + 0x100000 + k * 0x80), k);
	NEED(used < room);
	packed = ZSTD_compress(to, bound, text, used, 1);
	NEED(!ZSTD_isError(packed));
	head.raw_bytes = used;
	NEED(!braid_capture_put(w, BRAID_CHUNK_TEXT, stream, &head, sizeof(head), to, packed));
	free(text);
	free(to);
}

void begin_guest(struct braid_capture_writer *w, struct stream *s, u64 now)
{
	put_guest(w, s, now);
	write_guest_events(w, s);
}

void begin_host(struct braid_capture_writer *w, struct stream *s, u64 now)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = NR_CPUS, .subbuf_bytes = SUBBUF_BYTES,
		.host_ns = now,
	};
	static char text[8192];
	u32 k;

	snprintf(head.name, sizeof(head.name), "%s", s->name);
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, s->number, &head, sizeof(head), NULL, 0));
	for (k = 1; k < BIG_FORMATS; k++) {
		struct braid_chunk_text format = { .kind = BRAID_TEXT_FORMAT };

		if (!is_recorded(k, true))
			continue;
		snprintf(format.name, sizeof(format.name), "%s", big_formats[k].system);
		NEED(!braid_capture_put(w, BRAID_CHUNK_TEXT, s->number, &format, sizeof(format),
					text, big_format_text(k, s->first_id + k, text,
							      sizeof(text))));
	}
	put_kallsyms(w, s->number);
}
