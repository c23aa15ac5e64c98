// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CTF, byte by byte: packets, event headers, values and losses, read by the rules of docs/ctf.md.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/ctf/form.h"
#include "host_agent/export/ctf/names.h"
#include "shared/schema.h"
#include "tests/unit/check.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/scratch.h"

#define NR_TYPES	40u	/* more than a compact header's ids */
#define FIRST_ID	10u
#define MOST_EVENTS	4096u
#define COMPACT_BITS	27

static char *capture, *folder;

/* What is in the capture, by the events' numbers. */
static struct {
	struct synth_guest g;
	u64 counter[MOST_EVENTS];
	u32 nr;
} made;

/* What was found in the export. */
static struct {
	u32 class_of[NR_TYPES];		/* by type: the event class */
	u8 uuid[16];
	u64 events, compact, extended, packets, empty, lost;
	bool seen[MOST_EVENTS];
} found;

/* Making ---------------------------------------------------------------------------------- */

static const char format[] =
	"format:\n"
	FORMAT_COMMON
	"\tfield:u32 number;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:char word[8];\toffset:12;\tsize:8;\tsigned:0;\n"
	"\tfield:__data_loc u16[] list;\toffset:20;\tsize:4;\tsigned:0;\n"
	"\nprint fmt: \"\"\n";

static void put(u32 cpu, u64 after_ns)
{
	struct braid_record record = {
		.common_type = FIRST_ID + made.nr % NR_TYPES, .common_flags = 3,
		.common_preempt_count = 4, .common_pid = 100,
	};
	u32 location = 24 | 6 << 16;
	u16 list[] = { 1, 2, made.nr };
	u8 payload[32];

	memcpy(payload, &record, sizeof(record));
	memcpy(payload + 8, &made.nr, 4);
	memcpy(payload + 12, "word\0ext", 8);
	memcpy(payload + 20, &location, 4);
	memcpy(payload + 24, list, sizeof(list));
	made.g.now += after_ns;
	NEED(made.nr < MOST_EVENTS);
	made.counter[made.nr++] = made.g.now;
	NEED(synth_event(&made.g, cpu, payload, 24 + sizeof(list)));
}

static struct braid_capture_writer *begin(u32 nr_slots, u32 flags)
{
	const struct synth_guest_params params = {
		.name = "guest", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = nr_slots, .subbuf_bytes = 256, .flags = flags,
	};
	struct braid_capture_writer *w = synth_capture(capture);
	char name[16];
	u32 k;

	memset(&made, 0, sizeof(made));
	synth_guest_init(&made.g, &params);
	synth_begin(w, &made.g, 1);
	synth_sample(w, &made.g, 100, 100);
	for (k = 0; k < NR_TYPES; k++) {
		snprintf(name, sizeof(name), "t%u", k);
		synth_format(w, FIRST_ID + k, "test", name, format);
	}
	return w;
}

static void end(struct braid_capture_writer *w)
{
	synth_drain(w, &made.g, 0);
	synth_end(w, &made.g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
}

/* Reading --------------------------------------------------------------------------------- */

struct packet {
	u32 magic;
	u8 uuid[16];
	u32 stream_id;
	u64 stream_instance_id;
	u64 timestamp_begin, timestamp_end;
	u64 content_bits, packet_bits;
	u64 packet_seq_num, events_discarded;
	u32 cpu_id;
} __attribute__((__packed__));

static size_t load(const char *name, u8 **data)
{
	char path[160];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/guest/%s", folder, name);
	fd = open(path, O_RDONLY);
	NEED(fd >= 0 && !fstat(fd, &st));
	CHECK_EQ(st.st_mode & 0777, 0600);
	*data = calloc(1, st.st_size + 1);
	NEED(*data && read(fd, *data, st.st_size) == st.st_size);
	close(fd);
	return st.st_size;
}

static void read_metadata(void)
{
	char name[64], *text, *at;
	unsigned int byte;
	u32 k;

	load("metadata", (u8 **)&text);
	at = strstr(text, "trace {");
	at = at ? strstr(at, "uuid = \"") : NULL;
	NEED(at);
	at += strlen("uuid = \"");
	for (k = 0; k < 16; k++) {
		at += *at == '-';
		NEED(sscanf(at, "%2x", &byte) == 1);
		found.uuid[k] = byte;
		at += 2;
	}
	for (k = 0; k < NR_TYPES; k++) {
		snprintf(name, sizeof(name), "name = \"t%u\";\n\tid = ", k);
		at = strstr(text, name);
		found.class_of[k] = at ? strtoul(at + strlen(name), NULL, 10) : ~0u;
	}
	free(text);
}

/* Return: what follows the event. */
static const u8 *read_event(const u8 *at, u64 *now)
{
	u32 word, id, number, nr;
	u64 want, bound;

	memcpy(&word, at, 4);
	id = word & 31;
	if (id != 31) {
		u64 low = word >> 5, mask = (1u << COMPACT_BITS) - 1;

		*now = (*now & ~mask) + low + (low < (*now & mask) ? mask + 1 : 0);
		at += 4;
		found.compact++;
	} else {
		u64 before = *now;

		memcpy(&id, at + 1, 4);
		memcpy(now, at + 5, 8);
		CHECK(*now >= before && (id >= 31 || *now - before >= 1u << COMPACT_BITS));
		at += 13;
		found.extended++;
	}
	memcpy(&word, at, 4);
	memcpy(&bound, at + 6, 8);
	CHECK(word == 100 && at[4] == 3 && at[5] == 4);
	at += 14;
	CHECK(*at && strlen((const char *)at) < 16);
	at += strlen((const char *)at) + 1;
	memcpy(&number, at, 4);
	memcpy(&nr, at + 12, 4);
	NEED(number < made.nr && nr == 3);
	CHECK(!memcmp(at + 4, "word", 5) && at[16] == 1 && at[18] == 2 && at[20] == (u8)number);
	CHECK_EQ(id, found.class_of[number % NR_TYPES]);
	want = synth_host_ns(&made.g, made.counter[number]);
	CHECK((*now > want ? *now - want : want - *now) <= bound);
	CHECK(!found.seen[number]);
	found.seen[number] = true;
	found.events++;
	return at + 16 + 2 * nr;
}

static void read_stream(const char *name)
{
	struct packet p, before = { 0 };
	u8 *data;
	size_t bytes = load(name, &data), at;
	u64 nr = 0, had = found.events, now;

	for (at = 0; at < bytes; at += p.packet_bits / 8, nr++) {
		const u8 *event = data + at + sizeof(p), *stop;

		NEED(bytes - at >= sizeof(p));
		memcpy(&p, data + at, sizeof(p));
		CHECK(p.magic == 0xc1fc1fc1 && !memcmp(p.uuid, found.uuid, sizeof(p.uuid)));
		CHECK(p.stream_id == 1 && p.cpu_id < SYNTH_CPUS && p.packet_seq_num == nr);
		CHECK(!nr || p.stream_instance_id == before.stream_instance_id);
		CHECK(p.timestamp_begin >= before.timestamp_end);
		CHECK(p.timestamp_end >= p.timestamp_begin);
		CHECK(p.events_discarded >= before.events_discarded);
		CHECK(!(p.packet_bits % 64) && p.content_bits <= p.packet_bits);
		NEED(p.packet_bits / 8 <= bytes - at && p.content_bits / 8 >= sizeof(p));
		stop = data + at + p.content_bits / 8;
		/* Trace Compass ends a stream after an empty packet that is not its first. */
		CHECK(event < stop || !nr || found.events == had);
		CHECK(nr || !p.events_discarded);
		found.empty += event == stop;
		for (now = p.timestamp_begin; event < stop; )
			event = read_event(event, &now);
		CHECK(event == stop && now <= p.timestamp_end);
		before = p;
	}
	found.packets += nr;
	found.lost += before.events_discarded;
	free(data);
}

static void read_all(struct braid_walk_totals *totals)
{
	static const struct braid_walk_options all;
	char path[96];
	struct dirent *entry;
	DIR *streams;

	memset(&found, 0, sizeof(found));
	snprintf(path, sizeof(path), "rm -rf %s", folder);
	NEED(!system(path));
	CHECK_EQ(export_capture(braid_export_ctf, capture, folder, &all, totals), 0);
	read_metadata();
	snprintf(path, sizeof(path), "%s/guest", folder);
	streams = opendir(path);
	NEED(streams);
	while ((entry = readdir(streams)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "metadata"))
			read_stream(entry->d_name);
	closedir(streams);
	CHECK_EQ(found.events, totals->events);
	CHECK_EQ(found.lost, totals->lost);
	synth_guest_free(&made.g);
}

/* Tests ----------------------------------------------------------------------------------- */

/* Types beyond a compact header's, and gaps beyond its time. */
static void event_headers(void)
{
	struct braid_capture_writer *w = begin(64, 0);
	struct braid_walk_totals totals;
	u32 k;

	for (k = 0; k < 200; k++)
		put(k & 1, k % 50 == 49 ? (1u << COMPACT_BITS) + 5 : k % 50 == 25 ? 100000000 : 1000);
	end(w);
	read_all(&totals);
	CHECK_EQ(found.events, 200);
	CHECK(found.compact > 100 && found.extended > 40);
	CHECK_EQ(found.packets, 2 * SYNTH_CPUS);
}

/* Losses at a stream's start, between events and after the last one. */
static void losses(void)
{
	struct braid_capture_writer *w = begin(2, BRAID_BUFFER_OVERWRITE);
	struct braid_walk_totals totals;
	u32 k;

	for (k = 0; k < 300; k++) {
		put(k % 7 ? 0 : 1, 1000);
		if (k % 90 == 89)
			synth_drain(w, &made.g, 0);
	}
	end(w);
	read_all(&totals);
	CHECK(found.lost > 100);
	CHECK_EQ(found.empty, SYNTH_CPUS);
	CHECK_EQ(found.events + found.lost, 300);
}

/* Behind a ring's last event; and of a ring that lost all. */
static void losses_at_the_end(void)
{
	struct braid_capture_writer *w = begin(64, 0);
	struct braid_chunk_stream_end stream_end = { .reason = BRAID_END_STOPPED };
	struct braid_walk_totals totals;
	u32 k;

	for (k = 0; k < 10; k++)
		put(0, 1000);
	synth_drain(w, &made.g, 0);
	for (k = 0; k < SYNTH_CPUS; k++) {
		u64 read = made.g.rings[k].reader.read, lost = 7 + k;
		struct braid_chunk_ring_end ring_end = {
			.vcpu = k, .written = read + lost, .read = read, .lost = lost,
			.lost_within = lost,
		};

		NEED(!braid_capture_put(w, BRAID_CHUNK_RING_END, made.g.stream, &ring_end,
					sizeof(ring_end), NULL, 0));
	}
	stream_end.host_ns = synth_host_ns(&made.g, made.g.now);
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM_END, made.g.stream, &stream_end,
				sizeof(stream_end), NULL, 0));
	NEED(!braid_capture_finish(w));
	read_all(&totals);
	CHECK_EQ(found.lost, 7 + 8);
	CHECK_EQ(found.events, 10);
}

/* More than one packet a ring, with every event in one of them. */
static void many_packets(void)
{
	struct braid_capture_writer *w = begin(2048, 0);
	struct braid_walk_totals totals;
	u32 k;

	for (k = 0; k < MOST_EVENTS; k++)
		put(0, 10);
	end(w);
	read_all(&totals);
	CHECK_EQ(found.events, MOST_EVENTS);
	CHECK(found.packets > 2 && found.empty == 1);
}

/* Names ----------------------------------------------------------------------------------- */

static const char *name_field(struct braid_ctf_names *n, const char *system, const char *name)
{
	const struct braid_layout layout = { .system = system };
	const struct braid_field field = { .layout = &layout, .name = name };

	return braid_ctf_names_field(n, &field);
}

static void names_of_members(void)
{
	static struct braid_ctf_names n;
	char longest[BRAID_CTF_MEMBER_BYTES * 2], last[BRAID_CTF_MEMBER_BYTES];
	const char *name;
	u32 k;

	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	braid_ctf_names_begin(&n);
	CHECK(!strcmp(name_field(&n, "test", "pid"), "pid"));
	CHECK(!strcmp(name_field(&n, "sched", "pid"), "tid"));
	CHECK(!strcmp(name_field(&n, "sched", "next_pid"), "next_tid"));
	CHECK(!strcmp(name_field(&n, "test", "pid"), "pid_2"));
	CHECK(!strcmp(name_field(&n, "test", "a\"; }\xc3\xa9"), "a______"));
	CHECK(!strcmp(name_field(&n, "test", ""), "field"));
	CHECK(!strcmp(name_field(&n, "test", "Bool"), "Bool_2"));
	CHECK(!strcmp(braid_ctf_names_length(&n, "list"), "__list_len"));
	CHECK(!strcmp(name_field(&n, "test", "__list_len"), "__list_len_2"));
	/* As many as an event can have, and names that meet those made of others. */
	braid_ctf_names_begin(&n);
	CHECK(!strcmp(name_field(&n, "test", "a_3"), "a_3"));
	for (k = 0; k < BRAID_MAX_FIELDS - 1; k++) {
		name = name_field(&n, "test", k & 1 ? "a" : longest);
		if (k < BRAID_MAX_FIELDS - 2)
			name = braid_ctf_names_length(&n, name);
	}
	snprintf(last, sizeof(last), "%s", name);
	CHECK_EQ(n.nr, 3 + 2 * BRAID_MAX_FIELDS - 2);
	CHECK(!strncmp(last, "aaaa", 4) && strlen(last) < BRAID_CTF_MEMBER_BYTES);
	CHECK(!n.failed);
	braid_ctf_names_free(&n);
}

static void other_names(void)
{
	struct braid_ctf_paths paths = { 0 };
	char name[BRAID_CTF_NAME_BYTES];

	braid_ctf_clock_name(name, sizeof(name), "x86-tsc");
	CHECK(!strcmp(name, "x86_tsc"));
	braid_ctf_clock_name(name, sizeof(name), "event");
	CHECK(!strcmp(name, "host_clock"));
	braid_ctf_clock_name(name, sizeof(name), "0; }");
	CHECK(!strcmp(name, "host_clock"));
	braid_ctf_plain(name, sizeof(name), "a\"b\\c\n\xc3\xa9");
	CHECK(!strcmp(name, "a?b?c???"));
	CHECK(!strcmp(braid_ctf_paths_add(&paths, "", "../a b-c.d", 0), "_._a_b-c.d"));
	CHECK(!strcmp(braid_ctf_paths_add(&paths, "", "x-7", 0), "x-7"));
	CHECK(!strcmp(braid_ctf_paths_add(&paths, "", "x", 0), "x"));
	CHECK(!strcmp(braid_ctf_paths_add(&paths, "", "X", 7), "X-8"));
	CHECK(!strcmp(braid_ctf_paths_add(&paths, "x", "x", 7), "x/x"));
	braid_ctf_paths_free(&paths);
}

int main(void)
{
	capture = scratch("capture.braid");
	folder = scratch("ctf");
	RUN(event_headers);
	RUN(losses);
	RUN(losses_at_the_end);
	RUN(many_packets);
	RUN(names_of_members);
	RUN(other_names);
	return VERDICT();
}
