// SPDX-License-Identifier: GPL-2.0-or-later
/* Guests that come into a recording from their own memory: new ones, and copies of others. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/own_memory.h"
#include "tests/unit/scratch.h"

#define LIMIT_NS	20000000000ULL

static const struct fake_params usual = {
	.name = "fake", .bytes = 2 * OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 4096,
	.nr_slots = 16, .always = true, .flags = BRAID_BUFFER_OVERWRITE,
};

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

static void poll_until(struct braid_recording *r, enum braid_region_phase phase)
{
	u64 start_ns = braid_host_clock_ns();

	while (braid_region_source_status(r->guests[0].source).phase != phase) {
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
	NEED(!braid_capture_finish(r->sink.capture));
}

/* A migrated guest is in two VMMs; the copy is not recorded as long as the source is. */
static void leaves_copies_alone(void)
{
	struct braid_vm vms[2] = { { .name = "web1" }, { .name = "web1" } };
	struct fake_guest *g = fake_guest_new(scratch("one"), &usual);
	struct fake_guest *other = fake_guest_new(scratch("two"), &usual);
	struct own_memory source, copy;
	struct braid_recording r;

	own_memory_begin(&source, g, 0x7071727374757677ULL);
	own_memory_begin(&copy, other, 0x8081828384858687ULL);
	vms[0].pid = source.pid;
	vms[1].pid = copy.pid;
	begin(&r, vms, 1);
	search(&r);
	NEED(r.nr_guests == 1);
	CHECK(!strcmp(r.guests[0].name, "web1"));
	poll_until(&r, BRAID_PHASE_RECORDING);
	search(&r);
	CHECK_EQ(r.nr_guests, 1);

	memcpy(copy.vm, source.vm, source.bytes);
	r.memories.vms.nr = 2;
	search(&r);
	CHECK_EQ(r.nr_guests, 1);

	own_memory_end(&source);
	poll_until(&r, BRAID_PHASE_GONE);
	search(&r);
	CHECK_EQ(r.nr_guests, 2);
	CHECK(!strcmp(r.guests[1].name, "web1"));
	end(&r);
	own_memory_end(&copy);
	fake_guest_free(g);
	fake_guest_free(other);
}

int main(void)
{
	RUN(leaves_copies_alone);
	return VERDICT();
}
