// SPDX-License-Identifier: GPL-2.0-or-later
/* Recovers the regions of guests that are running, and recorded. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/transport/region_copy.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/need.h"
#include "tests/unit/recovery.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

#define MOST_TRIES	100	/* to see that a guest runs */

static char *dir, *region_path, *capture_path, *first_path;

static const struct fake_params usual = {
	.name = "fake", .bytes = 1 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 16,
	.always = true,
};

static struct recovery recover(const char *path)
{
	return recovery_run(path, capture_path, dir);
}

/*
 * Until the guest was seen to run: its thread may get no CPU while a copy waits for its heartbeat.
 */
static struct recovery recover_running(void)
{
	struct recovery r;
	int tries = 0;

	do
		r = recover(region_path);
	while (!r.err && !r.running && ++tries < MOST_TRIES);
	return r;
}

static struct fake_guest *guest_with(u64 events, u64 more)
{
	struct fake_guest *g = fake_guest_new(region_path, &usual);

	fake_guest_write(g, 0, events);
	fake_guest_write(g, 1, more);
	return g;
}

/* Others ---------------------------------------------------------------------------------- */

/* What another thread does to the region of a guest until it is stopped. */
struct others {
	struct fake_guest *g;
	u32 stop;
	u32 turns;
	void (*act)(struct fake_guest *g);
	pthread_t thread;
};

static void *others_main(void *arg)
{
	struct others *o = arg;

	while (!braid_load_acquire(&o->stop)) {
		o->act(o->g);
		braid_store_release(&o->turns, o->turns + 1);
	}
	return NULL;
}

static void others_begin(struct others *o)
{
	NEED(!pthread_create(&o->thread, NULL, others_main, o));
	while (!braid_load_acquire(&o->turns))
		sched_yield();
}

static void others_end(struct others *o)
{
	braid_store_release(&o->stop, 1);
	pthread_join(o->thread, NULL);
}

/* Whoever uses the region: what is unread is copied, and stays there. */
static void copies_live_regions(void)
{
	struct fake_guest *g = guest_with(300, 7);
	struct session s = { .guest = g };
	struct recovery r;

	CHECK(!recover(region_path).running);
	fake_guest_start_thread(g);
	for (int k = 0; k < 2; k++) {
		r = recover_running();
		CHECK_EQ(r.err, 0);
		CHECK(r.running);
		CHECK_EQ(r.events, 307);
		CHECK_EQ(r.status.sums.left + r.status.sums.lost, 0);
	}
	session_begin(&s, region_path, first_path, NULL);
	session_settle(&s);
	session_turn(&s);
	r = recover(region_path);	/* an agent has it */
	CHECK_EQ(r.err, 0);
	CHECK_EQ(r.events, 0);
	CHECK_EQ(r.status.sums.read_before, 307);
	session_end(&s);
	CHECK_EQ(s.status.events, 307);
	fake_guest_stop(g);
	fake_guest_free(g);
}

/* With a load that laps the rings, and an agent that reads them. */
static void copies_busy_regions(void)
{
	struct fake_params p = usual;
	struct session s = { 0 };
	struct recovery r;
	u64 events = 0;
	int k, running = 0;

	p.flags = BRAID_BUFFER_OVERWRITE;
	p.rate = 200000;
	s.guest = fake_guest_new(region_path, &p);
	fake_guest_start_thread(s.guest);
	for (k = 0; k < 20; k++) {
		if (k == 10)
			session_begin(&s, region_path, first_path, NULL);
		if (k >= 10)
			session_turn(&s);
		r = recover(region_path);
		CHECK_EQ(r.err, 0);
		running += r.running;
		CHECK_EQ(r.faults, 0);
		CHECK_EQ(r.events, r.status.sums.read);
		CHECK_EQ(r.status.sums.left, 0);
		events += r.events;
	}
	CHECK(events > 0);
	CHECK(running > 0);
	session_end(&s);
	CHECK_EQ(s.notes, 0);
	fake_guest_free(s.guest);
}

/* The region's copy compiled again, with a ring's copy after which the buffers change. */
static u32 *buffers_seq;
static u32 changes;

static int changing_ring_copy(const struct braid_ring_map *to, const struct braid_ring_map *from,
			      u64 incarnation)
{
	int ret = braid_ring_copy(to, from, incarnation);

	if (changes) {
		changes--;
		braid_store(buffers_seq, *buffers_seq + 2);
	}
	return ret;
}

#define braid_region_copy	changing_region_copy
#define braid_ring_copy		changing_ring_copy
#include "host_agent/transport/region_copy.c"	/* NOLINT: for the change */
#undef braid_region_copy
#undef braid_ring_copy

/* It changes during some tries, or during each. */
static void refuses_regions_that_never_rest(void)
{
	struct fake_guest *g = guest_with(10, 10);
	struct braid_mapping *m, *copy;
	bool running;

	buffers_seq = &((struct braid_superblock *)g->base)->buffers_seq;
	NEED(!braid_mapping_open(&m, region_path, false));
	changes = 1000;
	CHECK_EQ(changing_region_copy(&copy, m, &running), -EAGAIN);
	CHECK(strstr(braid_failure(), "try again, or record it with"));
	changes = COPY_TRIES - 1;
	CHECK_EQ(changing_region_copy(&copy, m, &running), 0);
	CHECK_EQ(changes, 0);
	braid_mapping_close(copy);
	braid_mapping_close(m);
	fake_guest_free(g);
}

/* A dead guest: one ring's damage is reported, and the other ring is recovered. */
static void recovers_beside_damage(void)
{
	struct fake_guest *g = guest_with(300, 7);
	struct braid_ring_map map;
	struct recovery r;
	u32 k;

	fake_guest_ring(g, 0, 0, &map);
	for (k = 0; k <= map.nr_slots; k++)
		map.states[k].commit |= 2;	/* not a whole number of words */
	r = recover(region_path);
	CHECK_EQ(r.err, 0);
	CHECK_EQ(r.events, 7);
	CHECK_EQ(r.notes, 1);
	fake_guest_free(g);
}

/* As a guest that resizes a buffer. */
static void move_buffer(struct fake_guest *g)
{
	struct braid_buffer_params params = {
		.name = "main", .subbuf_bytes = 1024 << g->ctl->nr_inits % 3, .nr_slots = 8,
	};

	fake_guest_close_buffer(g, 0, false);
	g->ctl->nr_inits++;
	fake_guest_open_buffer(g, &params);
	fake_guest_write(g, 0, 50);
	fake_guest_write(g, 1, 50);
	usleep(g->ctl->nr_inits % 64 ? 0 : 30000);
}

/* Copies are of one layout, or none. */
static void copies_while_buffers_move(void)
{
	struct fake_guest *g = guest_with(10, 10);
	struct others o = { .g = g, .act = move_buffer };
	struct recovery r;
	u32 k, copied = 0;

	others_begin(&o);
	for (k = 0; k < 20; k++) {
		r = recover(region_path);
		CHECK(!r.err || r.err == -EAGAIN);
		CHECK_EQ(r.faults, 0);
		CHECK_EQ(r.notes, 0);
		copied += !r.err;
	}
	others_end(&o);
	CHECK(copied > 0);
	CHECK_EQ(recover(region_path).err, 0);
	fake_guest_free(g);
}

/* Tables ------------------------------------------------------------------------------------ */

static struct braid_comm_table *comms_of(struct fake_guest *g)
{
	return (struct braid_comm_table *)(g->base + g->sb.sections[BRAID_SECTION_COMMS].offset);
}

/* All words of an entry, or of the wall pair, follow from one; and the heart beats. */
static void change_tables(struct fake_guest *g)
{
	struct braid_clock_cells *cells =
		(void *)(g->base + g->sb.sections[BRAID_SECTION_CLOCK].offset);
	struct braid_mailbox *box = (void *)(g->base +
					     g->sb.sections[BRAID_SECTION_MAILBOX].offset);
	static u64 number;
	u32 k;

	number++;
	braid_store(&box->guest_heartbeat, number);
	for (k = 0; k < 64; k++) {
		struct braid_comm *comm = &comms_of(g)->entries[k];

		braid_store(&comm->seq, comm->seq + 1);
		braid_fence();
		comm->pid = number;
		comm->since_counter = number;
		memset(comm->comm, 'a' + number % 26, sizeof(comm->comm) - 1);
		braid_store_release(&comm->seq, comm->seq + 1);
	}
	braid_store(&cells->wall_seq, cells->wall_seq + 1);
	braid_fence();
	cells->wall_counter = number;
	cells->wall_realtime_ns = number;
	cells->wall_boottime_ns = number;
	braid_store_release(&cells->wall_seq, cells->wall_seq + 1);
}

static void check_tables(const struct fake_guest *g, const struct braid_mapping *copy)
{
	const struct braid_comm_table *comms =
		braid_mapping_section(copy, &g->sb, BRAID_SECTION_COMMS);
	const struct braid_clock_cells *cells =
		braid_mapping_section(copy, &g->sb, BRAID_SECTION_CLOCK);
	u32 k, i;

	for (k = 0; k < 64; k++) {
		const struct braid_comm *comm = &comms->entries[k];
		char letter = comm->seq ? 'a' + comm->since_counter % 26 : 0;

		CHECK(!(comm->seq & 1) && (u32)comm->pid == (u32)comm->since_counter);
		for (i = 0; i < sizeof(comm->comm) - 1; i++)
			CHECK_EQ(comm->comm[i], letter);
	}
	CHECK(!(cells->wall_seq & 1) && cells->wall_counter == cells->wall_realtime_ns &&
	      cells->wall_counter == cells->wall_boottime_ns);
}

static void copies_whole_entries(void)
{
	struct fake_guest *g = guest_with(10, 10);
	struct others o = { .g = g, .act = change_tables };
	struct braid_mapping *m, *copy;
	int k, nr_running = 0;
	bool running;

	memset(comms_of(g)->entries, 0, 64 * sizeof(struct braid_comm));
	NEED(!braid_mapping_open(&m, region_path, false));
	others_begin(&o);
	for (k = 0; k < 20 && !check_failures; k++) {
		NEED(!braid_region_copy(&copy, m, &running));
		nr_running += running;
		check_tables(g, copy);
		braid_mapping_close(copy);
	}
	others_end(&o);
	CHECK(nr_running > 0);
	/* An entry that was never completed. */
	comms_of(g)->entries[5].seq |= 1;
	NEED(!braid_region_copy(&copy, m, &running));
	CHECK(!running);
	check_tables(g, copy);
	CHECK_EQ(((struct braid_comm_table *)braid_mapping_section(copy, &g->sb, BRAID_SECTION_COMMS))->entries[5].seq, 0);
	braid_mapping_close(copy);
	braid_mapping_close(m);
	fake_guest_free(g);
}

int main(void)
{
	dir = scratch(".");
	region_path = scratch("region");
	capture_path = scratch("x.braid");
	first_path = scratch("first.braid");
	RUN(copies_live_regions);
	RUN(copies_busy_regions);
	RUN(recovers_beside_damage);
	RUN(refuses_regions_that_never_rest);
	RUN(copies_while_buffers_move);
	RUN(copies_whole_entries);
	return VERDICT();
}
