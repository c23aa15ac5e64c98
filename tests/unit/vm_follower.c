// SPDX-License-Identifier: GPL-2.0-or-later
/* A reader of each ring of the copy, which knows what the guest wrote. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/live/account.h"
#include "host_agent/util/array.h"
#include "tests/unit/need.h"
#include "tests/unit/vm_follower.h"

const struct fake_params vm_follower_usual = {
	.name = "fake", .bytes = 2 * OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 4096,
	.nr_slots = 16,
	.always = true, .flags = BRAID_BUFFER_OVERWRITE,
};

void vm_follower_begin(struct vm_follower *f, const char *path, const struct fake_params *p,
		       u64 nonce)
{
	memset(f, 0, sizeof(*f));
	f->g = fake_guest_new(path, p);
	own_memory_begin(&f->memory, f->g, nonce);
}

void vm_follower_end(struct vm_follower *f)
{
	u32 buffer, vcpu;

	for (buffer = 0; buffer < FOLLOWED_BUFFERS; buffer++)
		for (vcpu = 0; vcpu < f->g->p.nr_vcpus; vcpu++)
			free(f->written[buffer][vcpu].numbers);
	fake_guest_free(f->g);
	own_memory_end(&f->memory);
}

static void follow_buffer(struct vm_follower *f, u32 buffer)
{
	struct braid_mapping *m = braid_vm_mirror_mapping(f->mirror);
	struct braid_ring_map map;
	u32 vcpu;

	f->on[buffer] = f->sb.buffers[buffer].nr_rings;
	for (vcpu = 0; vcpu < f->sb.buffers[buffer].nr_rings; vcpu++) {
		braid_mapping_ring(m, &f->sb, buffer, vcpu, &map);
		NEED(!braid_reader_attach(&f->readers[buffer][vcpu], &map, f->sb.incarnation));
	}
}

static struct braid_mailbox *mailbox(const struct vm_follower *f)
{
	return braid_mapping_section(braid_vm_mirror_mapping(f->mirror), &f->sb,
				     BRAID_SECTION_MAILBOX);
}

static void attach(struct vm_follower *f, const struct braid_vm_mirror *former)
{
	u32 k;

	NEED(!braid_vm_mirror_open(&f->mirror, f->memory.pid, "pid:self", former));
	NEED(!braid_mapping_identify(braid_vm_mirror_mapping(f->mirror), &f->sb));
	mailbox(f)->agent_heartbeat = 1;
	for (k = 0; k < f->sb.nr_buffers; k++)
		follow_buffer(f, k);
}

void vm_follower_attach(struct vm_follower *f)
{
	attach(f, NULL);
}

void vm_follower_go_on(struct vm_follower *f)
{
	struct braid_vm_mirror *former = f->mirror;

	braid_vm_mirror_leave(former);
	braid_mapping_close(braid_vm_mirror_mapping(former));
	attach(f, former);
	braid_vm_mirror_close(former);
}

bool vm_follower_adds_up(const struct vm_follower *f)
{
	const struct braid_mapping *m = braid_vm_mirror_mapping(f->mirror);
	struct braid_ring_account a;
	struct braid_ring_map map;
	bool ok = true;
	u32 k, vcpu;

	for (k = 0; k < f->sb.nr_buffers; k++)
		for (vcpu = 0; vcpu < f->sb.buffers[k].nr_rings; vcpu++) {
			braid_mapping_ring(m, &f->sb, k, vcpu, &map);
			ok &= !braid_ring_account(&a, &map, m, f->sb.incarnation, NULL, NULL) &&
			      !*a.fault && a.written == a.read + a.lost + a.left;
		}
	return ok;
}

void vm_follower_detach(struct vm_follower *f)
{
	braid_mapping_close(braid_vm_mirror_mapping(f->mirror));
	braid_vm_mirror_close(f->mirror);
}

void vm_follower_buffers(struct vm_follower *f)
{
	struct braid_mapping *m = braid_vm_mirror_mapping(f->mirror);
	struct braid_superblock former = f->sb;
	u32 k;

	if (braid_mapping_buffers_seq(m) == f->sb.buffers_seq)
		return;
	NEED(!braid_mapping_buffers(m, &f->sb));
	for (k = 0; k < f->sb.nr_buffers && k < FOLLOWED_BUFFERS; k++)
		if (k >= former.nr_buffers ||
		    former.buffers[k].layout != f->sb.buffers[k].layout ||
		    former.buffers[k].nr_rings != f->sb.buffers[k].nr_rings)
			follow_buffer(f, k);
}

void vm_follower_acknowledge(struct vm_follower *f)
{
	u32 k;

	for (k = 0; k < f->sb.nr_buffers && k < FOLLOWED_BUFFERS; k++)
		if (f->sb.buffers[k].flags & BRAID_BUFFER_CLOSING)
			f->on[k] = false;
	mailbox(f)->agent_buffers_seq = f->sb.buffers_seq;
}

void vm_follower_write(struct vm_follower *f, u32 buffer, u32 vcpu, u64 events)
{
	struct vm_written *written = &f->written[buffer][vcpu];

	for (; events; events--) {
		u64 number = f->g->ctl->offered[vcpu];

		NEED(!braid_array_push(written->numbers, written->nr, written->capacity, number));
		fake_guest_write_to(f->g, buffer, vcpu, 1);
	}
}

/* Whether an event is that of its place in the ring. */
static bool is_right(const struct vm_written *written, u64 place, u64 number)
{
	if (!written->numbers)
		return number == place;
	return place < written->nr && written->numbers[place] == number;
}

/* Return: events that are new in a span. */
static u64 check_span(struct vm_follower *f, u32 buffer, u32 vcpu, const struct braid_span *span)
{
	const struct braid_reader *r = &f->readers[buffer][vcpu];
	u64 number, place = span->first_seq - FOLLOWED_FIRST_SEQ;
	struct braid_event_view view;
	struct braid_cursor c;

	braid_cursor_init(&c, span->data, span->to_bytes, span->time_stamp, r->map.flags);
	while (braid_page_next(&c, &view) > 0) {
		if (view.type != BRAID_TYPE_DATA)
			continue;
		memcpy(&number, (const u8 *)view.payload + sizeof(struct braid_record),
		       sizeof(number));
		f->wrong += !is_right(&f->written[buffer][vcpu], place++, number);
	}
	f->wrong += span->final && c.events != span->entries;
	return c.events - (r->next_seq - span->first_seq);
}

u64 vm_follower_read(struct vm_follower *f, u32 buffer, u32 vcpu)
{
	struct braid_reader *r = &f->readers[buffer][vcpu];
	struct braid_span span;
	u64 events = 0, n;
	int ret;

	while ((ret = braid_reader_next(r, &span)) > 0) {
		n = check_span(f, buffer, vcpu, &span);
		braid_reader_done(r, &span, n);
		events += n;
	}
	f->faults += ret < 0;
	f->read += events;
	return events;
}

void vm_follower_beat(struct vm_follower *f)
{
	fake_guest_look(f->g);
	braid_vm_mirror_pull(f->mirror);
}

u64 vm_follower_read_proven(struct vm_follower *f)
{
	vm_follower_beat(f);
	vm_follower_beat(f);
	return vm_follower_read(f, 0, 0) + vm_follower_read(f, 0, 1);
}
