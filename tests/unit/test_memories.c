// SPDX-License-Identifier: GPL-2.0-or-later
/* Guests that come into a recording from their own memory: new ones, and copies of others. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"
#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/own_memory.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"
#include "tests/unit/truth.h"

#define NONCE	0x7071727374757677ULL
#define LIMIT_NS	20000000000ULL

static const struct fake_params usual = {
	.name = "fake", .bytes = 2 * OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 4096,
	.nr_slots = 16, .always = true, .flags = BRAID_BUFFER_OVERWRITE,
};

static u64 stop_ns;	/* of a migration: the counter stands still */

static void hear(void *arg, const char *name, const char *line)
{
	(void)arg;
	(void)name;
	(void)line;
}

/* A recording that knows these VMs, and lists no others. */
static void begin(struct braid_recording *r, struct braid_vm *vms, size_t nr)
{
	static const struct braid_record_ops ops = { .say = hear };

	*r = (struct braid_recording){
		.ops = &ops, .start_ns = 1,
		.sink = { .capture = synth_capture(scratch("x.braid")), .next_stream = 1 },
		.memories = {
			.wanted = true, .look_ns = ~0ULL, .vms = { .items = vms, .nr = nr },
		},
	};
}

/* A search of each VM. */
static void search(struct braid_recording *r)
{
	size_t k;

	for (k = 0; k < 2 * r->memories.vms.nr; k++) {
		r->memories.search_ns = 0;
		NEED(!braid_record_poll_memories(r));
	}
}

/* Turns of the recording while the guest lives, in either VM. */
static void run(struct braid_recording *r, struct fake_guest *g, int turns)
{
	for (; turns; turns--) {
		fake_guest_look(g);
		search(r);
		NEED(braid_region_source_poll(r->guests[0].source) >= 0);
		usleep(1000);
	}
}

static void poll_until(struct braid_recording *r, enum braid_region_phase phase)
{
	u64 start_ns = braid_host_clock_ns();

	while (braid_region_source_status(r->guests[0].source).phase != phase) {
		NEED(braid_host_clock_ns() - start_ns < LIMIT_NS);
		NEED(braid_region_source_poll(r->guests[0].source) >= 0);
		usleep(1000);
	}
}

/* The VMM has ended: its number is not looked up any more. */
static void poll_until_over(struct braid_recording *r)
{
	u64 start_ns = braid_host_clock_ns();

	while (!braid_region_source_status(r->guests[0].source).over) {
		NEED(braid_host_clock_ns() - start_ns < LIMIT_NS);
		NEED(braid_region_source_poll(r->guests[0].source) >= 0);
		usleep(1000);
	}
}

static void end(struct braid_recording *r)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		NEED(!braid_region_source_finish(r->guests[k].source));
		braid_region_source_close(r->guests[k].source);
	}
	free(r->guests);
	free(r->memories.copies);
	NEED(!braid_capture_finish(r->sink.capture));
}

static void write_events(struct fake_guest *g, u64 events)
{
	fake_guest_write(g, 0, events);
	fake_guest_write(g, 1, 2 * events);
}

/* Events whose bound does not hold. @before: events of vCPU 0 before the stop. */
static u64 count_wrong(struct braid_ring *ring, u64 before)
{
	u64 k = 0, wrong = 0, true_ns;
	struct braid_clock_time t;

	while (braid_ring_next(ring) > 0) {
		const struct braid_item *item = &ring->item;

		if (item->kind != BRAID_ITEM_EVENT)
			continue;
		true_ns = item->counter - FAKE_COUNTER_OFFSET;
		if (k++ >= before << ring->cpu)
			true_ns += stop_ns;
		t = (struct braid_clock_time){ item->host_ns, item->bound_ns, 0, true };
		wrong += item->bound_ns == BRAID_BOUND_UNKNOWN || !truth_holds(&t, true_ns);
	}
	return wrong;
}

/*
 * The capture has each event once, or counted as lost, as its accounts say: in one stream with two
 * epochs.
 */
static void check_capture(u64 before, u64 events, bool lost)
{
	char *names[] = { (char *)scratch("x.braid") };
	struct braid_source *source;
	const struct braid_stream *stream;
	u64 sums[2] = { 0 };
	bool any_lost = false;
	u32 k;

	CHECK_EQ(RUN_COMMAND(braid_cmd_verify, "verify", names[0]), 0);
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	NEED(source->nr_streams == 1);
	stream = source->streams[0];
	NEED(braid_clock_epochs(&stream->clock) == 2);
	CHECK_EQ(stream->clock_inputs.nr_breaks, 1);
	CHECK(stream->clock.tracks->epochs[1].parted && !stream->clock.tracks->epochs[1].disrupted);
	for (k = 0; k < stream->nr_rings; k++) {
		CHECK_EQ(count_wrong(stream->rings[k], before), 0);
		sums[stream->rings[k]->cpu & 1] += stream->rings[k]->walk.events +
						   stream->rings[k]->walk.lost;
		any_lost |= stream->rings[k]->walk.lost;
	}
	CHECK_EQ(sums[0], events);
	CHECK_EQ(sums[1], 2 * events);
	CHECK_EQ(any_lost, lost);
	braid_source_free(source);
}

static pid_t followed(const struct braid_recording *r)
{
	return braid_region_source_status(r->guests[0].source).qemu_pid;
}

/* All guests are gone: until all VMs were searched, however long that takes, one may be elsewhere. */
static void await_searches(struct braid_recording *r)
{
	struct braid_record_memories *m = &r->memories;
	const size_t copies = m->nr_copies;

	CHECK(braid_record_awaits_moved(r));
	CHECK(braid_record_awaits_moved(r));
	m->nr_copies = 0;
	m->gone_ns -= 2000000000;
	CHECK(braid_record_awaits_moved(r));
	m->at += 2 * m->vms.nr;
	CHECK(!braid_record_awaits_moved(r));
	m->gone_ns += 2000000000;
	CHECK(braid_record_awaits_moved(r));
	m->nr_copies = copies;
}

/* The recording learns that the guest does not live in its first VMM any more. */
static void leave_source(struct braid_recording *r, struct own_memory *source, bool ends)
{
	if (!ends) {
		while (!braid_region_source_status(r->guests[0].source).silent) {
			NEED(braid_region_source_poll(r->guests[0].source) >= 0);
			usleep(1000);
		}
		return;
	}
	own_memory_end(source);
	poll_until_over(r);
	CHECK_EQ(braid_region_source_status(r->guests[0].source).phase, BRAID_PHASE_GONE);
	await_searches(r);
	r->memories.vms.nr = 1;
	CHECK(!braid_record_awaits_moved(r));
	r->memories.vms.nr = 2;
	r->memories.look_ns = ~0ULL;
}

/* The copy is left alone as long as the guest may live elsewhere, and while pages arrive. */
static void move(struct braid_recording *r, struct fake_guest *g, struct own_memory *source,
		 bool ends)
{
	int k;

	for (k = 0; k < 10; k++) {
		fake_guest_look(g);
		search(r);
	}
	CHECK_EQ(followed(r), source->pid);
	leave_source(r, source, ends);
	for (k = 0; k < 3; k++) {
		fake_guest_look(g);
		search(r);
		search(r);
	}
	CHECK(followed(r) != (pid_t)r->memories.vms.items[1].pid);
}

/* A guest is migrated, and recorded from then on in the other VMM. @ends: the first one does so. */
static void follows(bool ends)
{
	const u64 meanwhile = ends ? 4000 : 50;		/* more than the rings hold */
	struct fake_guest *g = fake_guest_new(scratch("one"), &usual);
	struct braid_vm vms[2] = { { .name = "web1" }, { .name = "web1" } };
	struct own_memory source, copy;
	struct braid_recording r;

	own_memory_begin(&source, g, NONCE);
	vms[0].pid = source.pid;
	begin(&r, vms, 1);
	search(&r);
	NEED(r.nr_guests == 1);
	CHECK(!strcmp(r.guests[0].name, "web1"));
	poll_until(&r, BRAID_PHASE_RECORDING);
	write_events(g, 100);
	run(&r, g, 20);
	write_events(g, 7);	/* copied, and not proven */
	NEED(braid_region_source_poll(r.guests[0].source) >= 0);

	usleep(stop_ns / 1000);
	g->ctl->counter_gain -= stop_ns;
	own_memory_begin(&copy, g, NONCE);
	vms[1].pid = copy.pid;
	r.memories.vms.nr = 2;
	move(&r, g, &source, ends);
	write_events(g, meanwhile);
	run(&r, g, 20);
	CHECK_EQ(followed(&r), copy.pid);
	write_events(g, 30);
	run(&r, g, 20);
	CHECK_EQ(r.nr_guests, 1);
	CHECK_EQ(braid_region_source_status(r.guests[0].source).nr_streams, 2);
	end(&r);
	check_capture(107, 137 + meanwhile, ends);
	if (!ends)
		own_memory_end(&source);
	own_memory_end(&copy);
	fake_guest_free(g);
}

static void follows_migrations(void)
{
	stop_ns = 50000000;
	follows(false);
	stop_ns = 300000;	/* no sample shows that */
	follows(true);
}

int main(void)
{
	RUN(follows_migrations);
	return VERDICT();
}
