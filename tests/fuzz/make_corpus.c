// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Creates the corpora from real structures with the code under test:
 * make_corpus FOLDER. Run it after a change of the ABI (make fuzz-corpus).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/capture/pack.h"
#include "host_agent/control/compile.h"
#include "host_agent/transport/vhost_user_message.h"
#include "shared/page.h"
#include "shared/region.h"
#include "shared/schema.h"
#include "tests/fuzz/fleet_inputs.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/make_trace_dat.h"
#include "tests/unit/need.h"

static const char *folder;

/* The bytes of the current input. */
static struct {
	u8 bytes[64 << 10];
	size_t used;
} out;

static void put(const void *from, size_t bytes)
{
	NEED(out.used + bytes <= sizeof(out.bytes));
	memcpy(out.bytes + out.used, from, bytes);
	out.used += bytes;
}

static void put_value(u64 value, u32 bytes)
{
	put(&value, bytes);
}

/* Writes the current input to folder/target/name. */
static void save(const char *target, const char *name)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, target);
	NEED(!mkdir(path, 0777) || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/%s/%s", folder, target, name);
	file = fopen(path, "wb");
	NEED(file && fwrite(out.bytes, 1, out.used, file) == out.used && !fclose(file));
	out.used = 0;
}

/* Sub-buffers: every type of event, every size of header. */
static void make_page(const char *name, u32 flags)
{
	u32 at[64], n = 0, k;
	u64 now = 1ULL << 40;

	put_value(flags, 4);
	put_value(now, 8);
	for (k = 0; k < 10; k += 3) {
		u32 event = braid_event_bytes(k * 4);

		braid_page_put_event(at + n, event, flags ? (now + k) & BRAID_DELTA_MASK : k);
		memset(at + n + (k * 4 > BRAID_MAX_SMALL_BYTES ? 2 : 1), k,
		       event - (k * 4 > BRAID_MAX_SMALL_BYTES ? 8 : 4));
		n += event / 4;
	}
	braid_page_put_extent(at + n, flags ? now + (1ULL << 30) : 1ULL << 30);
	n += BRAID_EXTENT_BYTES / 4;
	braid_page_put_stamp(at + n, now + (1ULL << 36), 123456789);
	n += BRAID_STAMP_BYTES / 4;
	braid_page_put_event(at + n, 8, 0);
	at[n + 1] = 7;
	n += 2;
	at[n++] = BRAID_TYPE_PADDING;
	at[n++] = 0xffffffff;
	put(at, 4 * n);
	save("page", name);
}

/* A guest's superblock, in a region small enough to track the owner of each byte. */
static void make_region(const char *name)
{
	struct synth_guest_params guest = {
		.name = "guest", .incarnation = 5, .nr_slots = 2, .subbuf_bytes = 256,
	};
	struct braid_region_params region = {
		.region_bytes = 256 << 10, .nr_vcpus = SYNTH_CPUS, .nr_comms = 4,
		.nr_symbols = 4, .directory_bytes = 512,
	};
	struct braid_buffer_params buffer = { .name = "main", .subbuf_bytes = 256, .nr_slots = 4 };
	struct synth_guest g;
	u64 needed;

	synth_guest_init(&g, &guest);
	g.sb.nr_buffers = 0;
	NEED(!braid_region_layout(&g.sb, &region, &needed));
	NEED(braid_region_add_buffer(&g.sb, &buffer, &needed) == 0);
	buffer.name = "second";
	buffer.events_of = "main";
	NEED(braid_region_add_buffer(&g.sb, &buffer, &needed) == 1);
	/* Without a spare byte, so that a part that grows does not fit. */
	region.region_bytes = needed;
	g.sb.region_bytes = needed;
	g.sb.sections[BRAID_SECTION_RINGS].bytes = needed -
						   g.sb.sections[BRAID_SECTION_RINGS].offset;
	g.sb.state = BRAID_STATE_DOWN;
	put_value(0, 1);
	put_value(region.region_bytes, 8);
	put(&g.sb, offsetof(struct braid_superblock, buffers) + 3 * sizeof(g.sb.buffers[0]));
	save("region", name);
	synth_guest_free(&g);
}

/* Operations on the layout: see begin_layout() and change() in fuzz_region.c. */
static void make_orders(void)
{
	u32 k;

	put_value(1, 1);
	put_value(0x200000, 3);
	put_value(1, 1);
	put_value(0x1010, 2);
	put_value(4096, 2);
	for (k = 0; k < 12; k++) {
		put_value(k % 4 == 3 ? 1 : k << 1, 1);
		put_value(0, 1);
		put_value(2 + k, 1);
		put_value(k % 3 ? 4 : 0, 1);
		put_value(0x10000, 3);
	}
	save("region", "orders");
}

static void make_schema(void)
{
	struct braid_directory *dir = calloc(1, sizeof(*dir) + 4096);
	struct braid_schema_event events[] = {
		{ .id = 1, .system = "test", .name = "tick", .format = "name: tick\nID: 1\n" },
		{ .id = 2, .flags = BRAID_EVENT_HOST_ON, .buffer = 1, .system = "s", .name = "n",
		  .format = "" },
		{ .id = 2, .flags = BRAID_EVENT_SUB | 4 << BRAID_SUB_BYTES_SHIFT |
			 8 << BRAID_SUB_OFFSET_SHIFT, .number = 9, .system = "s",
		  .name = "of_n", .format = "x" },
	};
	u32 used = 0, k;

	for (k = 0; k < 3; k++)
		NEED(dir && !braid_schema_append(dir, 4096, &used, &events[k]));
	put_value(used, 2);
	put(dir->data, used);
	save("schema", "three");
	free(dir);
}

/* A capture with all checksums 0, so that they are fixed after a mutation. */
static void save_capture(const char *path, const char *name)
{
	FILE *file = fopen(path, "rb");
	size_t at, n;

	NEED(file);
	n = fread(out.bytes, 1, sizeof(out.bytes), file);
	NEED(n && n < sizeof(out.bytes) && !fclose(file));
	for (at = 0; at + sizeof(struct braid_chunk) <= n;) {
		struct braid_chunk *chunk = (struct braid_chunk *)(out.bytes + at);

		NEED(chunk->magic == BRAID_CHUNK_MAGIC);
		chunk->checksum = 0;
		at += sizeof(*chunk) + ((chunk->payload_bytes + 7) & ~7u);
	}
	out.used = n;
	save("capture", name);
}

static void make_guest_capture(const char *path, u32 flags)
{
	struct synth_guest_params params = {
		.name = "guest1", .incarnation = 11, .boot = 1, .ppm = 20,
		.start_ns = SYNTH_START_NS, .nr_slots = 2, .subbuf_bytes = 256, .flags = flags,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;
	u32 k;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	for (k = 0; k < 40; k++) {
		g.now += k == 20 ? 5ULL << 32 : 20000 + k % 7;
		synth_tick(&g, k & 1, k, k % 9 ? "x" : "longer than the others");
		if (k % 6 == 5 && k > 20)
			synth_drain(w, &g, 1);
		if (k % 13 == 0)
			synth_sample(w, &g, 900, 600 + k);
	}
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
}

static void put_clock_chunks(struct braid_capture_writer *w, bool by_kvm)
{
	struct braid_clock_offset offsets[] = {
		{ .offset = -SYNTH_START_NS, .from_counter = SYNTH_START_NS },
		{ .vcpu = 1, .offset = -SYNTH_START_NS, .from_counter = SYNTH_START_NS },
		{ .vcpu = 1,
		  .ratio_bits = 48,
		  .ratio = 1ULL << 48,
		  .offset = -SYNTH_START_NS,
		  .after_counter = SYNTH_START_NS + 500000,
		  .from_counter = SYNTH_START_NS + 600000 },
	};
	struct braid_clock_mark marks[] = {
		{ BRAID_MARK_PAUSED, 0, SYNTH_START_NS + 300000, SYNTH_START_NS + 310000 },
		{ BRAID_MARK_RESUMED, 0, SYNTH_START_NS + 400000, SYNTH_START_NS + 410000 },
		{ BRAID_MARK_DISRUPTED, 0, SYNTH_START_NS + 750100, SYNTH_START_NS + 790000 },
		{ BRAID_MARK_UNSEEN, 0, SYNTH_START_NS + 780000, SYNTH_START_NS + 800000 },
	};
	struct braid_clock_vm vm = {
		.host_ns = SYNTH_START_NS + 800000, .marker = 2, .counter = 800000, .time_ns = 5,
		.bound_ns = 100, .flags = BRAID_VM_TIME | BRAID_VM_BOUND, .changes = 1,
	};
	struct braid_clock_pair pair = { .counter = 5000, .realtime_ns = 1700000000000005000ULL };

	NEED(!braid_capture_put(w, BRAID_CHUNK_CLOCK_PAIR, 1, NULL, 0, &pair, sizeof(pair)));
	NEED(!braid_capture_put(w, BRAID_CHUNK_CLOCK_MARK, 1, NULL, 0, marks, sizeof(marks)));
	NEED(!braid_capture_put(w, BRAID_CHUNK_CLOCK_VM, 1, NULL, 0, &vm, sizeof(vm)));
	if (by_kvm)
		NEED(!braid_capture_put(w, BRAID_CHUNK_CLOCK_OFFSET, 1, NULL, 0, offsets,
					sizeof(offsets)));
}

/* All chunks about clocks. @type: of the guest's counter; @by_kvm: with KVM's offset. */
static void make_timed_capture(const char *path, u32 type, bool by_kvm)
{
	struct synth_guest_params params = {
		.name = "guest1", .incarnation = 11, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 2, .subbuf_bytes = 256,
	};
	struct {
		struct braid_chunk_clock_vcpu head;
		struct braid_clock_sample samples[2];
	} round_trips = { .head.vcpu = 1 };
	struct braid_vcpu_thread threads[] = { { 0, 77, 0 }, { 1, 78, 5 } };
	struct braid_cgroup cgroups[] = {
		{ .id = 3, .tid = 77, .path = "/machine" },
		{ .id = 4, .tid = 78, .from_ns = SYNTH_START_NS + 900, .path = "/machine/guest" },
	};
	struct braid_throttled times[] = { { 3, SYNTH_START_NS, SYNTH_START_NS + 300000, 7 } };
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;
	struct braid_chunk_complete complete;
	u32 k;

	synth_host_clock(w, BRAID_HOST_CLOCK_COUNTER, "tsc", 0);
	synth_host_clock(w, BRAID_HOST_CLOCK_REALTIME, "realtime", 1700000000000000000ULL - SYNTH_START_NS);
	synth_host_clock(w, BRAID_HOST_CLOCK_TRACE, "mono", 12345);
	synth_guest_init(&g, &params);
	g.sb.counter_type = type;
	synth_begin(w, &g, 1);
	NEED(!braid_capture_put(w, BRAID_CHUNK_VCPU_THREADS, 1, NULL, 0, threads, sizeof(threads)));
	NEED(!braid_capture_put(w, BRAID_CHUNK_CGROUPS, 1, NULL, 0, cgroups, sizeof(cgroups)));
	NEED(!braid_capture_put(w, BRAID_CHUNK_THROTTLED, 1, NULL, 0, times, sizeof(times)));
	synth_accounts(w);
	put_clock_chunks(w, by_kvm);
	for (k = 0; k < 12; k++) {
		g.now += 100000;
		g.start_ns += type == BRAID_COUNTER_TSC_EMULATED && k == 6 ? 30000000 : 0;
		synth_tick(&g, k & 1, k, "x");
		round_trips.samples[k & 1] = (struct braid_clock_sample){
			synth_host_ns(&g, g.now) - 100, g.now, synth_host_ns(&g, g.now) + 200 + k,
		};
		if (k & 1 && type)
			NEED(!braid_capture_put(w, BRAID_CHUNK_CLOCK_VCPU, 1, NULL, 0, &round_trips,
						sizeof(round_trips)));
		complete.until_ns = synth_host_ns(&g, g.now - 50000);
		if (k % 4 == 3)
			NEED(!braid_capture_put(w, BRAID_CHUNK_COMPLETE, 0, &complete,
						sizeof(complete), NULL, 0));
	}
	synth_drain(w, &g, 0);
	synth_host(w, 2, 5, SYNTH_START_NS + 1000, 40000);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
}

/*
 * With small segments. After a mutation the checksums of the packed file's chunks are fixed, but
 * not those of the chunks in it. Segments of few bytes are plain, so that mutations change their
 * contents.
 */
static void make_packed(const char *plain, u32 segment_bytes, const char *name)
{
	struct braid_pack_run run = { .level = 3, .segment_bytes = segment_bytes };
	char path[] = "/tmp/make_corpus.XXXXXX";
	int to = mkstemp(path), from;

	make_guest_capture(plain, 0);
	from = open(plain, O_RDONLY | O_CLOEXEC);
	NEED(to >= 0 && from >= 0 && !braid_pack(to, from, plain, &run));
	close(from);
	close(to);
	save_capture(path, name);
	NEED(!unlink(path));
}

static void make_captures(void)
{
	char path[] = "/tmp/make_corpus.XXXXXX";
	struct braid_capture_writer *w;
	int fd = mkstemp(path);

	NEED(fd >= 0 && !close(fd));
	make_guest_capture(path, 0);
	save_capture(path, "deltas");
	make_guest_capture(path, BRAID_BUFFER_OVERWRITE | BRAID_BUFFER_ABSOLUTE);
	save_capture(path, "absolute");
	make_timed_capture(path, BRAID_COUNTER_TSC, true);
	save_capture(path, "kvm");
	make_timed_capture(path, BRAID_COUNTER_TSC, false);
	save_capture(path, "exchange");
	make_timed_capture(path, BRAID_COUNTER_TSC_EMULATED, false);
	save_capture(path, "emulated");
	make_timed_capture(path, 0, false);
	save_capture(path, "pairs");
	w = synth_capture(path);
	synth_host(w, 1, 5, SYNTH_START_NS + 1000, 40000);
	NEED(!braid_capture_finish(w));
	save_capture(path, "host");
	make_packed(path, 512, "packed");
	make_packed(path, 100, "packed-plain");
	NEED(!unlink(path));
}

static void save_file(const char *path, const char *name)
{
	FILE *file = fopen(path, "rb");

	NEED(file);
	out.used = fread(out.bytes, 1, sizeof(out.bytes), file);
	fclose(file);
	save("capture", name);
}

/* The capture reader also accepts trace-cmd's files. */
static void make_trace_dats(void)
{
	struct synth_dat p = {
		.version = 6, .clock = "mono_raw", .start = SYNTH_START_NS, .step = 10000,
		.small = true, .instance = "second", .lost = 3,
		.trace_id = 5, .guest = "web1", .guest_id = 6, .guest_tids = { 501, 502 },
		.uname = "Linux vm 6.18.0 x86_64", .kallsyms = "ffffffff81000000 T _stext\n",
	};
	char path[] = "/tmp/make_corpus.XXXXXX";

	close(mkstemp(path));
	synth_trace_dat(path, &p);
	save_file(path, "trace-dat-6");
	p.version = 7;
	synth_trace_dat(path, &p);
	save_file(path, "trace-dat-7");
	p.compressed = true;
	p.lost = ~0ULL;
	synth_trace_dat(path, &p);
	save_file(path, "trace-dat-7-zstd");
	p.zlib = true;
	synth_trace_dat(path, &p);
	save_file(path, "trace-dat-7-zlib");
	unlink(path);
}

/* An event with fields of all types. */
static const char tick_format[] =
	"name: tick\nID: 1\nformat:\n"
	FORMAT_COMMON
	"\tfield:long ret;\toffset:8;\tsize:8;\tsigned:1;\n"
	"\tfield:__data_loc char[] text;\toffset:16;\tsize:4;\tsigned:1;\n"
	"\tfield:char comm[16];\toffset:20;\tsize:16;\tsigned:1;\n"
	"\tfield:__rel_loc char[] rel;\toffset:36;\tsize:4;\tsigned:1;\n\n"
	"print fmt: \"%ld\", REC->ret\n";

static void put_tick(void)
{
	put_value(1, 4);	/* id */
	put_value(77, 4);	/* pid */
	put_value(-3, 8);
	put_value(6 << 16 | 40, 4);
	put("shell\0\0\0\0\0\0\0\0\0\0", 16);
	put_value(6 << 16, 4);
	put("hello\0", 6);
}

/* Filters over an event with fields of all types. */
static void make_filters(void)
{
	static const char *const filters[] = {
		"tick: ret < 0 && text == \"hello\"", "test/t.*: !(comm ~ \"sh*\") || CPU & 1",
		"nosuch,tick: rel =~ \"x$\" && COMM !~ 'y'", "tick: common_pid == ret", "tick", "tick: ret == \"do_idle\"",
	};
	char name[16];
	size_t k;

	for (k = 0; k < sizeof(filters) / sizeof(filters[0]); k++) {
		put(filters[k], strlen(filters[k]) + 1);
		put(tick_format, sizeof(tick_format));
		put_tick();
		snprintf(name, sizeof(name), "%zu", k);
		save("filter", name);
	}
}

/* Programs of filters, and a record. */
static void make_programs(void)
{
	static const char *const filters[] = {
		"ret < 0 && text == \"hello\"", "!(comm ~ \"sh*\") || CPU > 1 && ret & 3", "rel ~ \"[a-z]*?o\" && common_pid != 5 && COMM ~ \"*a*b*\"",
	};
	static const struct braid_schema_event event = {
		.id = 1, .system = "test", .name = "tick", .format = tick_format,
	};
	struct braid_filter_program program;
	char name[16];
	size_t k;

	for (k = 0; k < sizeof(filters) / sizeof(filters[0]); k++) {
		NEED(!braid_filter_compile(&program, filters[k], &event));
		put(&program, sizeof(program));
		put_tick();
		snprintf(name, sizeof(name), "%zu", k);
		save("program", name);
	}
	put("\x2e\x73\x74\0\x21\x3a\x2e\0\0\0\x21\x3a", 12);
	save("profile", "0");	/* a symbol that begins below the kernel */
	put("\0\1\x10\0\0\3\0\0\1\1\x28\1", 12);	/* larger rings, larger sub-buffers */
	save("asked", "0");
	put("\1\1\0\0\0", 5);
	save("asked", "1");
	put("\0\1\2", 3);	/* fuzz_probe has valid ones itself */
	save("probe", "0");
	put("\0\1\2", 3);	/* likewise fuzz_btf */
	save("btf", "0");
}

/* An event of trace_printk(), and the list with its format. */
static void make_bprint(void)
{
	static const char list[] = "0x10 : \"other\"\n"
		"0x20 : \"%d %5.3s %*lx%hhu %pS %pI4 %c%%\\n\"\n";

	put(list, sizeof(list));
	put_value(6, 4);
	put_value(77, 4);
	put_value(0x1234, 8);
	put_value(0x20, 8);
	put_value(-3, 4);
	put("text\0\0\0", 8);
	put_value(9, 4);
	put_value(0x123456789, 8);
	put_value(5, 4);
	put_value(0xffffffff81000000, 8);
	put("1.2.3.4", 8);
	put("c", 1);
	save("bprint", "0");
}

/* Operations are chosen by bytes: any are valid, with some for each setting. */
static void make_operations(const char *target, u32 settings)
{
	u64 state = 0x9e3779b97f4a7c15ULL;
	u32 k, n;

	for (k = 0; k < settings; k++) {
		char name[16];

		put_value(k, 1);
		for (n = 0; n < 700; n++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			put_value(state >> 32, 1);
		}
		snprintf(name, sizeof(name), "%02u", k);
		save(target, name);
	}
}

/* The life of a VM in the steps of fuzz_vhost_user.c. */
static void make_vm(const char *name, u8 connection)
{
	static const u8 steps[] = {
		0x28, 0x40, 0x84,	/* ANNOUNCE of two chunks */
		10,			/* mapped */
		0x17, 5, 0, 0x80, 0, 4, 0, 2, 0,	/* a buffer for the doorbell */
		12, 15, 31,		/* both ring */
		0x5d,			/* memory is added and removed */
		9, 11, 10,		/* REVOKE */
		0x18, 0xc7, 10,		/* another region */
		0x6e,			/* the VM reconnects */
		10, 9, 0x2e,
	};
	static const struct { u8 request, bytes, payload[16]; } messages[] = {
		{ BRAID_VHOST_GET_FEATURES, 0, { 0 } },
		{ BRAID_VHOST_SET_FEATURES, 8, { 2, 0, 0, 0x40, 1 } },
		{ BRAID_VHOST_SET_PROTOCOL_FEATURES, 8, { 0x29, 0x42 } },
		{ BRAID_VHOST_SET_VRING_NUM, 8, { 0, 0, 0, 0, 64 } },
		{ BRAID_VHOST_SET_VRING_BASE, 8, { 0, 0, 0, 0, 9 } },
		{ BRAID_VHOST_GET_CONFIG, 16, { 0, 0, 0, 0, 4 } },
		{ BRAID_VHOST_SET_VRING_ENABLE, 8, { 0, 0, 0, 0, 1 } },
		{ BRAID_VHOST_VRING_KICK, 8, { 1 } },
		{ BRAID_VHOST_GET_VRING_BASE, 8, { 0 } },
		{ BRAID_VHOST_RESET_OWNER, 0, { 0 } },
	};
	size_t k;

	put_value(connection, 1);
	put(steps, sizeof(steps));
	for (k = 0; k < sizeof(messages) / sizeof(messages[0]); k++) {
		put_value(0x40, 1);
		put_value(messages[k].request, 1);
		put_value(messages[k].bytes, 1);
		put(messages[k].payload, messages[k].bytes);
	}
	save("vhost_user", name);
}

/* Extents in order, in parts, one without bytes after a longer one, packed, out of order. */
static void make_extents(void)
{
	static const struct { u8 bytes, input[40]; } inputs[] = {
		{ 13, { 0, 0, 1, 0xf0, 0, 2, 0xf0, 0, 3, 0xf0, 0, 4, 0xf0 } },
		{ 13, { 1, 8, 4, 0x40, 8, 4, 0x84, 8, 4, 0xf8, 0, 5, 0 } },
		{ 10, { 1, 0, 4, 0, 8, 5, 0xf0, 8, 5, 0 } },
		{ 13, { 3, 0, 5, 0, 0, 4, 0, 8, 6, 0x80, 0, 0x84, 0 } },
		/* in steps: at a quarter, a half, three quarters */
		{ 14, { 32, 3, 0, 0x40, 0, 0x80, 0, 0xc0, 8, 4, 0x40, 8, 4, 0x84 } },
		{ 14, { 34, 3, 0, 0x40, 0, 0x80, 0, 0xc0, 8, 4, 0x40, 8, 4, 0x84 } },
		/* a longer one comes first, and has only padding */
		{ 40, { 0x27, 0x33, 0, 0xd8, 0xd8, 0xd8, 0xd8, 0xd8, 0xd8, 0xd8, 0xd8, 0xd8, 0xd8, 1, 0,
			0x61, 0x20, 0, 0, 0xa1, 0xd9, 0xd8, 0xd8, 0xd8, 0, 0, 0, 0, 0xfb, 0x86 } },
	};
	char name[8];
	size_t k;

	for (k = 0; k < sizeof(inputs) / sizeof(inputs[0]); k++) {
		put(inputs[k].input, inputs[k].bytes);
		snprintf(name, sizeof(name), "%02zu", k);
		save("extents", name);
	}
}

static void make_fleet(void)
{
	char name[16];
	size_t k;

	for (k = 0; k < sizeof(fleet_inputs) / sizeof(fleet_inputs[0]); k++) {
		put_value(fleet_inputs[k].which, 1);
		put(fleet_inputs[k].text, strlen(fleet_inputs[k].text));
		snprintf(name, sizeof(name), "%zu", k);
		save("fleet", name);
	}
}

int main(int argc, char **argv)
{
	NEED(argc == 2);
	folder = argv[1];
	NEED(!mkdir(folder, 0777) || errno == EEXIST);
	make_page("deltas", 0);
	make_page("absolute", BRAID_BUFFER_ABSOLUTE);
	make_region("plain");
	put_value(2 | 12 << 24, 4);	/* fuzz_region.c's edit() */
	save("region", "edit");
	make_orders();
	make_schema();
	make_captures();
	make_trace_dats();
	make_filters();
	make_fleet();
	make_programs();
	make_bprint();
	make_operations("ring", 12);
	make_operations("hostile", 12);
	make_operations("beacons", 16);
	make_operations("peer", 16);
	make_extents();
	make_vm("silent", 0);
	make_vm("usual", 0x20);
	make_vm("inband", 0x60);
	return 0;
}
