// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Follows a region in a guest's own memory: each event that is read is what the guest wrote, once,
 * and nothing is lost without being counted.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/transport/vm_mirror.h"
#include "tests/unit/check.h"
#include "tests/unit/own_memory.h"
#include "tests/unit/need.h"

#define NONCE	0x7071727374757677ULL

static char region_path[] = "/tmp/test_vm_mirror.XXXXXX";

static const struct fake_params usual = {
	.name = "fake", .bytes = 2 * OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 4096,
	.nr_slots = 16,
	.always = true, .flags = BRAID_BUFFER_OVERWRITE,
};

/* A guest, and who follows it. */
struct follower {
	struct fake_guest *g;
	struct own_memory memory;
	struct braid_vm_mirror *mirror;
	struct braid_superblock sb;
	struct braid_reader readers[2];
	u64 wrong;		/* events that are not what the guest wrote */
};

static void attach(struct follower *f)
{
	struct braid_mapping *m;
	struct braid_ring_map map;
	u32 k;

	NEED(!braid_vm_mirror_open(&f->mirror, f->memory.pid, "pid:self"));
	m = braid_vm_mirror_mapping(f->mirror);
	NEED(!braid_mapping_identify(m, &f->sb));
	for (k = 0; k < 2; k++) {
		braid_mapping_ring(m, &f->sb, 0, k, &map);
		NEED(!braid_reader_attach(&f->readers[k], &map, f->sb.incarnation));
	}
}

static void detach(struct follower *f)
{
	braid_mapping_close(braid_vm_mirror_mapping(f->mirror));
	braid_vm_mirror_close(f->mirror);
}

static void begin(struct follower *f, const struct fake_params *p)
{
	memset(f, 0, sizeof(*f));
	f->g = fake_guest_new(region_path, p);
	own_memory_begin(&f->memory, f->g, NONCE);
}

static void end(struct follower *f)
{
	fake_guest_free(f->g);
	own_memory_end(&f->memory);
}

/* Each event has its number. */
static u64 check_span(struct follower *f, const struct braid_reader *r,
		      const struct braid_span *span)
{
	u64 number, want = span->first_seq - (~0ULL - 99);
	struct braid_event_view view;
	struct braid_cursor c;

	braid_cursor_init(&c, span->data, span->to_bytes, span->time_stamp, r->map.flags);
	while (braid_page_next(&c, &view) > 0) {
		if (view.type != BRAID_TYPE_DATA)
			continue;
		memcpy(&number, (const u8 *)view.payload + sizeof(struct braid_record),
		       sizeof(number));
		f->wrong += number != want++;
	}
	f->wrong += span->final && c.events != span->entries;
	return c.events - (r->next_seq - span->first_seq);
}

/* Reads all that is readable in the copy. Return: events. */
static u64 read_all(struct follower *f, u32 vcpu)
{
	struct braid_reader *r = &f->readers[vcpu];
	struct braid_span span;
	u64 events = 0, n;
	int ret;

	while ((ret = braid_reader_next(r, &span)) > 0) {
		n = check_span(f, r, &span);
		braid_reader_done(r, &span, n);
		events += n;
	}
	CHECK_EQ(ret, 0);
	return events;
}

/* Events are readable only after a sign of life that is later than their copy. */
static void waits_for_proof(void)
{
	struct follower f;

	begin(&f, &usual);
	fake_guest_look(f.g);
	fake_guest_write(f.g, 0, 300);
	attach(&f);
	CHECK_EQ(read_all(&f, 0), 0);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 300);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(read_all(&f, 0), 0);
	fake_guest_look(f.g);			/* a heartbeat */
	CHECK(braid_vm_mirror_pull(f.mirror));
	CHECK_EQ(read_all(&f, 0), 300);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 0);

	fake_guest_write(f.g, 0, 5);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(read_all(&f, 0), 0);
	fake_guest_write(f.g, 1, 1);		/* as good: another ring's */
	CHECK(braid_vm_mirror_pull(f.mirror));
	CHECK_EQ(read_all(&f, 0), 5);
	CHECK_EQ(read_all(&f, 1), 0);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 1);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(read_all(&f, 1), 1);
	CHECK_EQ(f.wrong, 0);
	detach(&f);
	end(&f);
}

/* A slow follower is lapped: it continues with the oldest that exist, and counts the rest. */
static void counts_laps(void)
{
	struct follower f;
	u64 read = 0;
	int k;

	begin(&f, &usual);
	attach(&f);
	for (k = 0; k < 200; k++) {
		fake_guest_write(f.g, 0, k % 7 ? 300 : 9000);
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		if (k % 3)
			read += read_all(&f, 0);
	}
	for (k = 0; k < 8; k++) {
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		read += read_all(&f, 0);
	}
	CHECK_EQ(f.readers[0].read, read);
	CHECK_EQ(f.readers[0].read + f.readers[0].lost, f.g->ctl->offered[0]);
	CHECK(f.readers[0].lost > 0 && read > 40000);
	CHECK_EQ(f.wrong, 0);
	detach(&f);
	end(&f);
}

/* A guest that writes as fast as it can, while two followers read. */
static void follows_storms(void)
{
	struct fake_params p = usual;
	struct follower f, other;
	u64 k, laps, turns = 0;

	p.rate = 300000;
	p.subbuf_bytes = 1024;
	p.nr_slots = 8;
	begin(&f, &p);
	attach(&f);
	other = f;
	attach(&other);
	fake_guest_start_process(f.g);
	do {
		braid_vm_mirror_pull(f.mirror);
		read_all(&f, turns % 2);
		if (turns % 16 == 0) {
			braid_vm_mirror_pull(other.mirror);
			read_all(&other, 0);
			read_all(&other, 1);
		}
		turns++;
		laps = __atomic_load_n(&f.g->ctl->offered[0], __ATOMIC_RELAXED) / (8 * 22);
	} while (laps < 1000);
	fake_guest_stop(f.g);
	f.g->p.rate = 0;
	for (k = 0; k < 20; k++) {
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		braid_vm_mirror_pull(other.mirror);
		read_all(&f, 0);
		read_all(&f, 1);
		read_all(&other, 0);
		read_all(&other, 1);
	}
	for (k = 0; k < 2; k++) {
		CHECK_EQ(f.readers[k].read + f.readers[k].lost, f.g->ctl->offered[k]);
		CHECK_EQ(other.readers[k].read + other.readers[k].lost, f.g->ctl->offered[k]);
		CHECK(f.readers[k].read > 1000);
	}
	printf("%llu laps, read %llu and %llu, lost %llu and %llu\n", (unsigned long long)laps,
	       (unsigned long long)f.readers[0].read, (unsigned long long)other.readers[0].read,
	       (unsigned long long)f.readers[0].lost, (unsigned long long)other.readers[0].lost);
	CHECK_EQ(f.wrong + other.wrong, 0);
	detach(&f);
	detach(&other);
	end(&f);
}

/* After a reset nothing is believed that was copied after the last sign of life. */
static void believes_no_reset(void)
{
	struct braid_mapping *m;
	struct follower f;

	begin(&f, &usual);
	fake_guest_look(f.g);
	attach(&f);
	m = braid_vm_mirror_mapping(f.mirror);
	fake_guest_write(f.g, 0, 100);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	fake_guest_write(f.g, 0, 50);
	/* Rings are overwritten, while superblock and beacons are not. */
	own_memory_scribble(&f.memory, 0, 60, 300);
	braid_vm_mirror_pull(f.mirror);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(read_all(&f, 0), 100);
	CHECK(!m->gone);
	own_memory_scribble(&f.memory, 0, 0, 1);
	braid_vm_mirror_pull(f.mirror);
	CHECK(m->gone);
	CHECK_EQ(read_all(&f, 0), 0);
	CHECK_EQ(f.wrong, 0);
	detach(&f);
	end(&f);
}

/* A driver that is unloaded, in time to be seen: all is proven by its beacons. */
static void reads_to_the_end(void)
{
	struct braid_mapping *m;
	struct follower f;

	begin(&f, &usual);
	fake_guest_look(f.g);
	attach(&f);
	m = braid_vm_mirror_mapping(f.mirror);
	fake_guest_write(f.g, 0, 100);
	braid_store(&((struct braid_superblock *)f.g->base)->state, BRAID_STATE_DOWN);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(read_all(&f, 0), 100);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(braid_mapping_state(m), BRAID_STATE_DOWN);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 0);
	own_memory_clear(&f.memory);
	braid_vm_mirror_pull(f.mirror);
	CHECK(m->gone);
	detach(&f);
	end(&f);
}

/* What was DOWN before anyone looked may be what a reset left. */
static void doubts_remains(void)
{
	struct follower f;
	int k;

	begin(&f, &usual);
	fake_guest_write(f.g, 0, 100);
	braid_store(&((struct braid_superblock *)f.g->base)->state, BRAID_STATE_DOWN);
	attach(&f);
	for (k = 0; k < 3; k++)
		braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(read_all(&f, 0), 0);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 100);
	detach(&f);
	end(&f);
}

/* A reader in the guest takes sub-buffers, and exchanges their ids. */
static void stands_readers_in_the_guest(void)
{
	struct follower f;
	u64 read = 0;
	int k;

	begin(&f, &usual);
	attach(&f);
	for (k = 0; k < 60; k++) {
		fake_guest_write(f.g, 0, 1 + k * 7 % 400);
		if (k % 5 == 2)
			fake_guest_read(f.g, 0);
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		read += read_all(&f, 0);
	}
	for (k = 0; k < 8; k++) {
		fake_guest_write(f.g, 0, 200);
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		read += read_all(&f, 0);
	}
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	read += read_all(&f, 0);
	CHECK_EQ(read + f.readers[0].lost, f.g->ctl->offered[0]);
	CHECK(read > 6000);
	CHECK_EQ(f.wrong, 0);
	detach(&f);
	end(&f);
}

int main(void)
{
	int fd = mkstemp(region_path);

	NEED(fd >= 0);
	close(fd);
	RUN(waits_for_proof);
	RUN(counts_laps);
	RUN(follows_storms);
	RUN(believes_no_reset);
	RUN(reads_to_the_end);
	RUN(doubts_remains);
	RUN(stands_readers_in_the_guest);
	unlink(region_path);
	return VERDICT();
}
