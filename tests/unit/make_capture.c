// SPDX-License-Identifier: GPL-2.0-or-later
/* Synthetic guests and a synthetic host, written through the real code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/account.h"
#include "shared/region.h"
#include "shared/schema.h"
#include "tests/unit/format_text.h"
#include "tests/unit/need.h"
#include "tests/unit/make_capture.h"

static const char tick_format[] =
	"name: tick\nID: 1\nformat:\n"
	FORMAT_COMMON
	"\tfield:u32 number;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:__data_loc char[] text;\toffset:12;\tsize:4;\tsigned:1;\n\n"
	"print fmt: \"number=%u text=%s\", REC->number, __get_str(text)\n";

static u64 counter_now;

static u64 read_counter(void)
{
	return counter_now;
}

u64 synth_host_ns(const struct synth_guest *g, u64 counter)
{
	return g->start_ns + counter + (u64)(s64)((double)counter * g->ppm / 1e6);
}

static void init_ring(struct synth_guest *g, u32 cpu, const struct synth_guest_params *params)
{
	struct synth_ring *ring = &g->rings[cpu];
	size_t bytes = braid_ring_bytes(params->nr_slots, params->subbuf_bytes, BRAID_PAGE_BYTES);
	struct braid_ring_identity who = {
		.incarnation = params->incarnation,
		.vcpu = cpu,
		.first_position = BRAID_POS_MASK - 2,	/* wraps soon */
		.first_seq = (u64)-20 + cpu,		/* likewise */
		.counter = g->now,
	};

	ring->memory = aligned_alloc(4096, (bytes + 4095) & ~4095ul);
	ring->writer = malloc(braid_writer_bytes(params->nr_slots));
	NEED(ring->memory && ring->writer);
	memset(ring->memory, 0, bytes);
	braid_ring_map_init(&ring->map, ring->memory, params->nr_slots, params->subbuf_bytes,
			    BRAID_PAGE_BYTES, params->flags);
	braid_writer_init(ring->writer, &ring->map, &who);
	NEED(!braid_reader_attach(&ring->reader, &ring->map, params->incarnation));
	ring->began_seq = ring->reader.next_seq;
}

void synth_guest_init(struct synth_guest *g, const struct synth_guest_params *params)
{
	struct braid_region_params region = {
		.region_bytes = 64 << 20, .nr_vcpus = SYNTH_CPUS, .nr_comms = 64,
		.nr_symbols = 64, .directory_bytes = 64 << 10,
	};
	struct braid_buffer_params buffer = {
		.name = "main", .flags = params->flags, .subbuf_bytes = params->subbuf_bytes,
		.nr_slots = params->nr_slots,
	};
	u64 needed;
	u32 k;

	memset(g, 0, sizeof(*g));
	snprintf(g->name, sizeof(g->name), "%s", params->name);
	g->ppm = params->ppm;
	g->start_ns = params->start_ns;
	g->now = 1000;
	NEED(!braid_region_layout(&g->sb, &region, &needed));
	NEED(!braid_region_add_buffer(&g->sb, &buffer, &needed));
	g->sb.magic = BRAID_MAGIC;
	g->sb.version_major = BRAID_VERSION_MAJOR;
	g->sb.state = BRAID_STATE_LIVE;
	g->sb.incarnation = params->incarnation;
	g->sb.counter_type = BRAID_COUNTER_SYNTHETIC;
	g->sb.counter_hz = SYNTH_HZ;
	g->sb.init_counter = g->now;
	memset(g->sb.boot_id, params->boot, sizeof(g->sb.boot_id));
	snprintf(g->sb.guest_name, sizeof(g->sb.guest_name), "%s", params->name);
	snprintf(g->sb.kernel_release, sizeof(g->sb.kernel_release), "6.1.0-test");
	snprintf(g->sb.machine, sizeof(g->sb.machine), "x86_64");
	for (k = 0; k < SYNTH_CPUS; k++)
		init_ring(g, k, params);
}

void synth_guest_free(struct synth_guest *g)
{
	u32 k;

	for (k = 0; k < SYNTH_CPUS; k++) {
		free(g->rings[k].memory);
		free(g->rings[k].writer);
	}
}

bool synth_event(struct synth_guest *g, u32 cpu, const void *payload, u32 bytes)
{
	struct synth_ring *ring = &g->rings[cpu];
	u64 token;
	void *at;

	counter_now = g->now;
	ring->written++;
	at = braid_ring_reserve(ring->writer, bytes, read_counter, &token);
	if (!at)
		return false;
	memcpy(at, payload, bytes);
	braid_ring_commit(ring->writer, token);
	return true;
}

bool synth_tick(struct synth_guest *g, u32 cpu, u32 number, const char *text)
{
	u32 length = strlen(text) + 1, location = 16 | length << 16;
	struct braid_record record = { .common_type = 1, .common_pid = 100 + cpu };
	u8 payload[512];

	NEED(length <= sizeof(payload) - 16);
	memcpy(payload, &record, sizeof(record));
	memcpy(payload + 8, &number, sizeof(number));
	memcpy(payload + 12, &location, sizeof(location));
	memcpy(payload + 16, text, length);
	return synth_event(g, cpu, payload, 16 + length);
}

static const struct braid_chunk_file synth_head = {
	.version_major = BRAID_CAPTURE_MAJOR,
	.version_minor = BRAID_CAPTURE_MINOR,
	.start_host_ns = SYNTH_START_NS,
	.start_realtime_ns = 1700000000000000000ULL,
	.clock = "mono_raw",
	.host_name = "testhost",
	.kernel_release = "6.12.0-test",
	.machine = "x86_64",
	.agent_version = "test",
};

struct braid_capture_writer *synth_capture_at(int fd)
{
	struct braid_capture_writer *w;

	NEED(!braid_capture_create_at(&w, fd, "memory", &synth_head));
	return w;
}

struct braid_capture_writer *synth_capture(const char *path)
{
	struct braid_capture_writer *w;

	NEED(!braid_capture_create(&w, path, &synth_head));
	NEED(!braid_capture_publish(w));	/* some are read before they end, or have no end */
	return w;
}

struct braid_capture_writer *synth_capture_of(const char *path, const char *host, u8 id,
					      u64 start_ns)
{
	struct braid_chunk_file head = synth_head;
	struct braid_capture_writer *w;
	struct braid_chunk_host who;

	head.start_host_ns = start_ns;
	snprintf(head.host_name, sizeof(head.host_name), "%s", host);
	memset(&who, id, sizeof(who));
	NEED(!braid_capture_create(&w, path, &head));
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST, 0, &who, sizeof(who), NULL, 0));
	NEED(!braid_capture_publish(w));
	return w;
}

void synth_peer(struct braid_capture_writer *w, u8 id, const struct braid_peer_crossing *crossings,
		u32 nr)
{
	struct braid_chunk_peer head = { .nonce = 1, .name = "peer" };

	memset(head.id, id, sizeof(head.id));
	NEED(!braid_capture_put(w, BRAID_CHUNK_PEER, 0, &head, sizeof(head), crossings,
				nr * sizeof(*crossings)));
}

static void put_events(struct braid_capture_writer *w, struct synth_guest *g)
{
	size_t room = 16 << 10;
	struct braid_directory *dir = calloc(1, sizeof(*dir) + room);
	struct braid_schema_event event = {
		.id = 1, .system = "test", .name = "tick", .format = tick_format,
	};
	u32 used = 0;

	NEED(dir && !braid_schema_append(dir, room, &used, &event));
	NEED(!braid_capture_put(w, BRAID_CHUNK_EVENTS, g->stream, NULL, 0, dir->data, used));
	free(dir);
}

void synth_begin(struct braid_capture_writer *w, struct synth_guest *g, u32 stream)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_GUEST, .nr_cpus = SYNTH_CPUS,
		.host_ns = synth_host_ns(g, g->now),
	};
	struct braid_comm comms[] = {
		{ .seq = 2, .pid = 100, .comm = "first" },
		{ .seq = 2, .pid = 101, .comm = "second" },
		{ .seq = 4, .pid = 101, .since_counter = 1 << 20, .comm = "renamed" },
	};
	struct braid_symbol symbols[] = {
		{ .address = 0xffffffff81000010, .name = "start+0x10/0x40" },
		{ .address = 0x1234, .name = "0x1234" },	/* of an older driver: no name */
	};

	g->stream = stream;
	snprintf(head.name, sizeof(head.name), "%s", g->name);
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, stream, &head, sizeof(head), &g->sb,
				sizeof(g->sb)));
	put_events(w, g);
	NEED(!braid_capture_put(w, BRAID_CHUNK_COMMS, stream, NULL, 0, comms, sizeof(comms)));
	NEED(!braid_capture_put(w, BRAID_CHUNK_SYMBOLS, stream, NULL, 0, symbols, sizeof(symbols)));
}

void synth_format(struct braid_capture_writer *w, u16 id, const char *system, const char *name,
		  const char *format)
{
	static struct {
		struct braid_directory dir;
		u8 room[200 << 10];
	} d;
	struct braid_schema_event event = {
		.id = id, .system = system, .name = name, .format = format,
	};
	u32 used = 0;

	memset(&d, 0, sizeof(d.dir));
	NEED(!braid_schema_append(&d.dir, sizeof(d.room), &used, &event));
	NEED(!braid_capture_put(w, BRAID_CHUNK_EVENTS, 1, NULL, 0, d.dir.data, used));
}

void synth_sample(struct braid_capture_writer *w, struct synth_guest *g, u64 before_ns,
		  u64 after_ns)
{
	u64 truth = synth_host_ns(g, g->now);
	struct braid_clock_sample sample = {
		.h1_ns = truth - before_ns, .counter = g->now, .h2_ns = truth + after_ns,
	};

	NEED(!braid_capture_put(w, BRAID_CHUNK_CLOCK, g->stream, NULL, 0, &sample,
				sizeof(sample)));
}

/* The first extent in a file says where it begins. */
static void place(const struct synth_ring *ring, const struct braid_span *span,
		  struct braid_chunk_page *page)
{
	struct braid_event_view view;
	struct braid_cursor c;

	if (!span->from_bytes)
		return;
	braid_cursor_init(&c, span->data, span->from_bytes, span->time_stamp, ring->map.flags);
	while (braid_page_next(&c, &view) > 0)
		;
	page->flags |= BRAID_PAGE_PLACED;
	page->time_stamp = c.time;
	page->first_seq += c.events;
}

void synth_next_file(struct synth_guest *g)
{
	u32 k;

	for (k = 0; k < SYNTH_CPUS; k++) {
		struct synth_ring *ring = &g->rings[k];

		ring->again = true;
		ring->began_seq += ring->reader.read - ring->began_read +
				   ring->reader.lost - ring->began_lost;
		ring->began_read = ring->reader.read;
		ring->began_lost = ring->reader.lost;
	}
}

void synth_also(struct synth_guest *g, struct braid_capture_writer *w, u32 stream, u64 ns)
{
	u32 k;

	g->also = w;
	g->also_stream = stream;
	g->also_ns = ns;
	if (!w)
		synth_next_file(g);
	for (k = 0; k < SYNTH_CPUS; k++) {
		struct synth_ring *ring = &g->rings[k];

		ring->also_again = true;
		if (!w) {	/* what it has is of its account */
			ring->again &= !ring->also_read;
			ring->began_seq -= ring->also_read;
			ring->began_read -= ring->also_read;
		}
		ring->also_read = 0;
	}
}

static void put_also(struct synth_guest *g, u32 cpu, const struct braid_span *span,
		     struct braid_chunk_page page, const void *data, u32 bytes)
{
	struct synth_ring *ring = &g->rings[cpu];
	void *room = g->also ? braid_capture_reserve(g->also, sizeof(page), bytes) : NULL;
	struct braid_cursor c;

	if (!g->also)
		return;
	NEED(room);
	if (ring->also_again)
		place(ring, span, &page);
	ring->also_again = false;
	memcpy(room, data, bytes);
	page.host_ns = g->also_ns;
	braid_cursor_init(&c, room, bytes, 0, ring->map.flags);
	ring->also_read += braid_page_count(&c);
	NEED(!braid_capture_put(g->also, BRAID_CHUNK_PAGE, g->also_stream, &page, sizeof(page),
				room, bytes));
}

static void put_span(struct braid_capture_writer *w, struct synth_guest *g, u32 cpu,
		     const struct braid_span *span)
{
	struct synth_ring *ring = &g->rings[cpu];
	u32 bytes = span->to_bytes - span->from_bytes;
	struct braid_chunk_page page = {
		.vcpu = cpu,
		.flags = (span->final ? BRAID_PAGE_FINAL : 0) |
			 (ring->map.flags & BRAID_BUFFER_ABSOLUTE ? BRAID_PAGE_ABSOLUTE : 0) |
			 (ring->map.flags & BRAID_BUFFER_RAW ? BRAID_PAGE_RAW : 0),
		.position = span->position,
		.from_bytes = span->from_bytes,
		.to_bytes = span->to_bytes,
		.time_stamp = span->time_stamp,
		.first_seq = span->first_seq,
		.lost_before = ring->reader.lost - ring->reported_lost,
		.dropped = span->final ? span->dropped : 0,
		.host_ns = synth_host_ns(g, g->now),
	};
	void *room = braid_capture_reserve(w, sizeof(page), bytes);
	struct braid_cursor c;

	NEED(room);
	put_also(g, cpu, span, page, span->data + span->from_bytes, bytes);
	if (ring->again)
		place(ring, span, &page);
	ring->again = false;
	memcpy(room, span->data + span->from_bytes, bytes);
	braid_cursor_init(&c, room, bytes, 0, ring->map.flags);
	NEED(!braid_capture_put(w, BRAID_CHUNK_PAGE, g->stream, &page, sizeof(page), room, bytes));
	braid_reader_done(&ring->reader, span, braid_page_count(&c));
	ring->reported_lost += page.lost_before + page.dropped;
}

void synth_drain(struct braid_capture_writer *w, struct synth_guest *g, u32 max)
{
	struct braid_span span;
	u32 k, n;

	for (k = 0; k < SYNTH_CPUS; k++)
		for (n = 0; (!max || n < max) && braid_reader_next(&g->rings[k].reader, &span) > 0;
		     n++)
			put_span(w, g, k, &span);
}

void synth_end(struct braid_capture_writer *w, struct synth_guest *g, u32 reason)
{
	struct braid_chunk_stream_end end = {
		.reason = reason, .host_ns = synth_host_ns(g, g->now),
	};
	u32 k;

	for (k = 0; k < SYNTH_CPUS; k++) {
		struct synth_ring *ring = &g->rings[k];
		struct braid_chunk_ring_end ring_end = {
			.vcpu = k,
			.written = ring->written,
			.read = ring->reader.read,
			.lost = ring->reader.lost,
			.left = ring->written - ring->reader.read - ring->reader.lost,
			.first_seq = ring->began_seq,
			.read_before = ring->began_read,
			.lost_before = ring->began_lost,
		};

		NEED(!braid_capture_put(w, BRAID_CHUNK_RING_END, g->stream, &ring_end,
					sizeof(ring_end), NULL, 0));
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM_END, g->stream, &end, sizeof(end), NULL, 0));
}

/* Host ------------------------------------------------------------------------------------- */

static const char host_format[] =
	"name: tock\nID: 7\nformat:\n"
	FORMAT_COMMON
	"\tfield:u64 count;\toffset:8;\tsize:8;\tsigned:0;\n\n"
	"print fmt: \"count=%llu\", (unsigned long long)REC->count\n";

#define HOST_PAGE_BYTES	4096u
#define HOST_EVENT	20u

void synth_host_page(struct braid_capture_writer *w, u32 stream, u32 first, u32 nr, u64 ns,
		     u64 step_ns)
{
	struct braid_chunk_host_page head = { .cpu = 1, .bytes = HOST_PAGE_BYTES };
	static u8 page[HOST_PAGE_BYTES];
	u64 commit = nr * HOST_EVENT;
	u32 k;

	memset(page, 0, sizeof(page));
	memcpy(page, &ns, 8);
	memcpy(page + 8, &commit, 8);
	for (k = 0; k < nr; k++) {
		struct braid_record record = { .common_type = 7, .common_pid = 55 };
		u32 word = 4 | (u32)(k ? step_ns : 0) << 5;
		u64 count = first + k;
		u8 *at = page + 16 + k * HOST_EVENT;

		memcpy(at, &word, 4);
		memcpy(at + 4, &record, 8);
		memcpy(at + 12, &count, 8);
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_PAGE, stream, &head, sizeof(head), page,
				sizeof(page)));
}

void synth_host(struct braid_capture_writer *w, u32 stream, u32 nr, u64 ns, u64 step_ns)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = 4, .subbuf_bytes = HOST_PAGE_BYTES,
		.host_ns = ns, .name = "host",
	};
	struct braid_chunk_text text = { .kind = BRAID_TEXT_FORMAT, .name = "test" };
	struct braid_comm comm = { .seq = 2, .pid = 55, .comm = "qemu" };
	struct braid_chunk_ring_end end = { .vcpu = 1, .written = nr, .read = nr };
	struct braid_chunk_stream_end stop = { .reason = BRAID_END_STOPPED };
	u32 some, done;

	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, stream, &head, sizeof(head), NULL, 0));
	NEED(!braid_capture_put(w, BRAID_CHUNK_TEXT, stream, &text, sizeof(text), host_format,
				sizeof(host_format) - 1));
	NEED(!braid_capture_put(w, BRAID_CHUNK_COMMS, stream, NULL, 0, &comm, sizeof(comm)));
	for (done = 0; done < nr; done += some) {
		some = nr - done < 100 ? nr - done : 100;
		synth_host_page(w, stream, done, some, ns + done * step_ns, step_ns);
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_RING_END, stream, &end, sizeof(end), NULL, 0));
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM_END, stream, &stop, sizeof(stop), NULL, 0));
}

void synth_host_clock(struct braid_capture_writer *w, u32 kind, const char *name, u64 ahead_ns)
{
	struct braid_chunk_host_clock head = { .kind = kind };
	struct braid_clock_sample samples[20];
	u32 k;

	snprintf(head.name, sizeof(head.name), "%s", name);
	for (k = 0; k < 20; k++) {
		samples[k].h1_ns = SYNTH_START_NS - 1000000 + k * 10000000ULL;
		samples[k].counter = samples[k].h1_ns + 30 + ahead_ns;
		samples[k].h2_ns = samples[k].h1_ns + 60;
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_CLOCK, 0, &head, sizeof(head), samples,
				sizeof(samples)));
}

/* The standard capture ----------------------------------------------------------------------- */

u64 synth_standard(const char *path)
{
	return synth_standard_at(path, 0);
}

u64 synth_standard_at(const char *path, u64 ahead_ns)
{
	struct synth_guest_params one = {
		.name = "guest1", .incarnation = 11, .boot = 1, .ppm = 20,
		.start_ns = SYNTH_START_NS, .nr_slots = 8, .subbuf_bytes = 512,
	};
	struct synth_guest_params two = {
		.name = "guest2", .incarnation = 22, .boot = 2, .ppm = -35,
		.start_ns = SYNTH_START_NS + 500000, .nr_slots = 2, .subbuf_bytes = 256,
		.flags = BRAID_BUFFER_OVERWRITE | BRAID_BUFFER_ABSOLUTE,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest a, b;
	u64 read;
	u32 k;

	if (ahead_ns)
		synth_host_clock(w, BRAID_HOST_CLOCK_REALTIME, "realtime", ahead_ns);
	synth_guest_init(&a, &one);
	synth_guest_init(&b, &two);
	synth_begin(w, &a, 1);
	synth_begin(w, &b, 2);
	synth_host(w, 3, 250, SYNTH_START_NS + 1000, 40000);
	for (k = 0; k < 400; k++) {
		a.now += 20000 + k % 7;
		b.now += 20000 + k % 5;
		synth_tick(&a, k & 1, k, "hello");
		synth_tick(&b, k % 3 == 0, k, k % 10 ? "x" : "a longer text than the others have");
		if (k % 16 == 15)
			synth_drain(w, &a, 0);
		if (k % 64 == 63)
			synth_drain(w, &b, 0);
		if (k % 20 == 0) {
			synth_sample(w, &a, 900, 600 + k);
			synth_sample(w, &b, 700, 800);
		}
	}
	synth_drain(w, &a, 0);
	synth_drain(w, &b, 2);
	synth_end(w, &a, BRAID_END_STOPPED);
	synth_end(w, &b, BRAID_END_STOPPED);
	read = a.rings[0].reader.read + a.rings[1].reader.read + b.rings[0].reader.read +
	       b.rings[1].reader.read;
	NEED(!braid_capture_finish(w));
	synth_guest_free(&a);
	synth_guest_free(&b);
	return read;
}

/* An event without fields. */
static void put_bare(struct synth_guest *g, u32 cpu, u16 id)
{
	const struct braid_record record = { .common_type = id, .common_pid = 100 + cpu };

	g->now += 1000;
	NEED(synth_event(g, cpu, &record, sizeof(record)));
}

u64 synth_many_types(const char *path)
{
	const struct synth_guest_params params = {
		.name = "guest1", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 16, .subbuf_bytes = 4096,
	};
	const u32 early = 40, late = 9, ticks = 20000;
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;
	u32 k;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	synth_sample(w, &g, 500, 500);
	for (k = 0; k < early; k++)
		put_bare(&g, k & 1, 10 + k);
	for (k = 0; k < ticks; k++) {
		g.now += 1000;
		NEED(synth_tick(&g, k & 1, k, "tick"));
		if (k % 128 == 127)
			synth_drain(w, &g, 0);
	}
	for (k = 0; k < late; k++) {
		put_bare(&g, 0, 100 + k);
		put_bare(&g, 1, 100 + late - k);
	}
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	return early + ticks + 2 * late;
}

void synth_accounts(struct braid_capture_writer *w)
{
	const struct braid_account rows[] = {
		{ .kind = BRAID_ACCOUNT_FILTER, .flags = BRAID_ACCOUNT_UNKNOWN, .nr_events = 1,
		  .system = "fake", .event = "fake_tick" },
		{ .kind = BRAID_ACCOUNT_FILTER, .nr_events = 3, .filter = { 9, 5, 4, 0, 1 } },
		{ .kind = BRAID_ACCOUNT_PROBE, .nr_events = 1, .system = "kprobes", .event = "open",
		  .hits = { .missed = 2, .placed = 1 } },
	};

	NEED(!braid_capture_put(w, BRAID_CHUNK_ACCOUNTS, 1, NULL, 0, rows, sizeof(rows)));
}
