// SPDX-License-Identifier: GPL-2.0-or-later
/* A trace in memory, event by event: a host that switches, and enters and leaves its guest. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"

#define MEMORY_WINDOWS	8u

struct memory_ring memory_rings[4];
struct braid_stream memory_host, memory_guest, memory_again;
static struct braid_stream *streams[] = { &memory_host, &memory_guest, &memory_again };
struct braid_source memory_source = { .streams = streams, .nr_streams = 2 };
static struct braid_vcpu_thread threads[] = { { .vcpu = 0, .tid = 70 } };

static int next(struct braid_ring *base)
{
	struct memory_ring *r = (struct memory_ring *)base;
	struct memory_event *e = &r->events[r->at];

	if (r->at == r->nr)
		return 0;
	r->at++;
	base->walk.events += !e->at_end;
	base->item.kind = e->at_end ? BRAID_ITEM_LOST : BRAID_ITEM_EVENT;
	base->item.host_ns = e->ns;
	base->item.lost_before = e->lost;
	base->item.sure = true;
	base->item.bound_ns = e->bound;
	base->item.counter = e->counter;
	base->item.seq = r->at;
	base->item.payload = e->payload;
	base->item.payload_bytes = sizeof(e->payload);
	return 1;
}

static void rewind_ring(struct braid_ring *base)
{
	((struct memory_ring *)base)->at = 0;
	base->walk.events = 0;
}

#define TYPE(number, of, named, fields)						\
	{ .id = (number), .system = (of), .name = (named), .format = FORMAT_HEAD fields }

struct braid_event_format memory_formats[MEMORY_FORMATS] = {
	TYPE(MEMORY_SWITCH, "sched", "sched_switch", FORMAT_FIELD("pid_t prev_pid", 8, 4, 1)
	     FORMAT_FIELD("long prev_state", 16, 8, 1)
	     FORMAT_FIELD("char next_comm[16]", 24, 16, 0)
	     FORMAT_FIELD("pid_t next_pid", 40, 4, 1) FORMAT_END),
	TYPE(MEMORY_WAKEUP, "sched", "sched_wakeup", FORMAT_FIELD("pid_t pid", 8, 4, 1) FORMAT_END),
	TYPE(MEMORY_ENTRY, "kvm", "kvm_entry",
	     FORMAT_FIELD("unsigned int vcpu_id", 8, 4, 0) FORMAT_END),
	TYPE(MEMORY_EXIT, "kvm", "kvm_exit", FORMAT_FIELD("unsigned int exit_reason", 8, 4, 0)
	     FORMAT_FIELD("u32 isa", 12, 4, 0)
	     FORMAT_FIELD("unsigned long guest_rip", 16, 8, 0) "\n"
	     "print fmt: \"vcpu 0 reason %s%s rip 0x0\", (REC->isa == 1) ? "
	     "__print_symbolic(REC->exit_reason, { 12, \"HLT\" }, { 30, \"IO\" }) : \"?\", \"\"\n"),
	TYPE(MEMORY_USER, "kvm", "kvm_userspace_exit",
	     FORMAT_FIELD("__u32 reason", 8, 4, 0) FORMAT_END),
	TYPE(MEMORY_MIGRATE, "sched", "sched_migrate_task", FORMAT_FIELD("pid_t pid", 8, 4, 1)
	     FORMAT_FIELD("int dest_cpu", 12, 4, 1)
	     FORMAT_FIELD("int orig_cpu", 16, 4, 1) FORMAT_END),
	TYPE(MEMORY_IRQ, "irq", "irq_handler_entry", FORMAT_FIELD("int irq", 8, 4, 1) FORMAT_END),
	TYPE(MEMORY_IRQ_END, "irq", "irq_handler_exit",
	     FORMAT_FIELD("int irq", 8, 4, 1) FORMAT_END),
	TYPE(MEMORY_WAKEUP_ON, "sched", "sched_wakeup_new", FORMAT_FIELD("pid_t pid", 8, 4, 1)
	     FORMAT_FIELD("int target_cpu", 12, 4, 1) FORMAT_END),
	TYPE(MEMORY_NESTED, "kvm", "kvm_nested_vmexit",
	     FORMAT_FIELD("unsigned int exit_reason", 8, 4, 0) FORMAT_END),
	TYPE(MEMORY_CALL, "raw_syscalls", "sys_enter", FORMAT_FIELD("long id", 8, 8, 1) FORMAT_END),
	TYPE(MEMORY_CALL_END, "raw_syscalls", "sys_exit",
	     FORMAT_FIELD("long id", 8, 8, 1) FORMAT_END),
	TYPE(MEMORY_WRITE, "syscalls", "sys_enter_write",
	     FORMAT_FIELD("int __syscall_nr", 8, 4, 1) FORMAT_END),
	TYPE(MEMORY_WRITE_END, "syscalls", "sys_exit_write",
	     FORMAT_FIELD("int __syscall_nr", 8, 4, 1) FORMAT_END),
	TYPE(MEMORY_IPI, "kvm", "kvm_apic_ipi", FORMAT_FIELD("__u32 icr_low", 8, 4, 0) FORMAT_END),
	TYPE(MEMORY_RAISE, "kvm", "kvm_apic_accept_irq", FORMAT_FIELD("__u32 apicid", 8, 4, 0)
	     FORMAT_FIELD("__u8 vec", 16, 1, 0) FORMAT_END),
	TYPE(MEMORY_INJECT, "kvm", "kvm_inj_virq", FORMAT_FIELD("unsigned int vector", 8, 4, 0)
	     FORMAT_FIELD("bool reinjected", 13, 1, 0) FORMAT_END),
	TYPE(MEMORY_HALTED, "kvm", "kvm_vcpu_wakeup", FORMAT_FIELD("__u64 ns", 8, 8, 0)
	     FORMAT_FIELD("bool waited", 16, 1, 0) FORMAT_END),
	TYPE(MEMORY_TIMER, "irq_vectors", "local_timer_entry",
	     FORMAT_FIELD("int vector", 8, 4, 1) FORMAT_END),
	TYPE(MEMORY_TIMER_END, "irq_vectors", "local_timer_exit",
	     FORMAT_FIELD("int vector", 8, 4, 1) FORMAT_END),
	TYPE(MEMORY_WAKING, "sched", "sched_waking", FORMAT_FIELD("pid_t pid", 8, 4, 1) FORMAT_END),
	TYPE(MEMORY_FLUSH, "tlb", "tlb_flush", FORMAT_FIELD("int reason", 8, 4, 1) FORMAT_END),
	TYPE(MEMORY_ONLINE, "tracebraid", "cpu_online", FORMAT_FIELD("unsigned int cpu", 8, 4, 0)
	     FORMAT_FIELD("unsigned int online", 12, 4, 0) FORMAT_END),
	TYPE(MEMORY_SAMPLE, "sample", "cpu", FORMAT_FIELD("unsigned long ip", 8, 8, 0)
	     FORMAT_FIELD("unsigned int missed", 16, 4, 0)
	     FORMAT_FIELD("unsigned int user", 20, 4, 0)
	     FORMAT_FIELD("__data_loc unsigned long[] stack", 24, 4, 0) FORMAT_END),
	/* The same event of later drivers, its mappings, and the host's stacks: */
	TYPE(MEMORY_USER_SAMPLE, "sample", "cpu", FORMAT_FIELD("unsigned long ip", 8, 8, 0)
	     FORMAT_FIELD("unsigned int missed", 16, 4, 0)
	     FORMAT_FIELD("unsigned short user", 20, 2, 0)
	     FORMAT_FIELD("unsigned short ends", 22, 2, 0)
	     FORMAT_FIELD("__data_loc unsigned long[] stack", 24, 4, 0)
	     FORMAT_FIELD("__data_loc unsigned long[] user_stack", 28, 4, 0)
	     FORMAT_FIELD("unsigned long space", 32, 8, 0)
	     FORMAT_FIELD("unsigned int late_ns", 40, 4, 0) FORMAT_END),
	TYPE(MEMORY_MAPPING, "sample", "mapping", FORMAT_FIELD("unsigned long space", 8, 8, 0)
	     FORMAT_FIELD("unsigned long start", 16, 8, 0)
	     FORMAT_FIELD("unsigned long end", 24, 8, 0)
	     FORMAT_FIELD("unsigned long offset", 32, 8, 0)
	     FORMAT_FIELD("__data_loc char[] path", 44, 4, 0)
	     FORMAT_FIELD("unsigned int id_bytes", 48, 4, 0)
	     FORMAT_FIELD("unsigned char build_id[20]", 52, 20, 0) FORMAT_END),
	TYPE(MEMORY_STACK, "ftrace", "kernel_stack", FORMAT_FIELD("int size", 8, 4, 1)
	     FORMAT_FIELD("unsigned long caller[8]", 16, 64, 0) FORMAT_END),
};

struct memory_event *memory_add(u32 ring, s64 ns, u16 id, s32 pid)
{
	struct memory_event *e = &memory_rings[ring].events[memory_rings[ring].nr++];
	struct braid_record record = { .common_type = id, .common_pid = pid };

	NEED(memory_rings[ring].nr <= MEMORY_MOST);
	memset(e, 0, sizeof(*e));
	e->ns = ns;
	memcpy(e->payload, &record, sizeof(record));
	return e;
}

void memory_put(struct memory_event *e, u32 offset, u64 value, u32 bytes)
{
	memcpy(e->payload + offset, &value, bytes);
}

/* The task that runs there, if it was switched to; else 1. */
s32 memory_current(u32 ring)
{
	return memory_rings[ring].switched ? memory_rings[ring].current : 1;
}

struct memory_event *memory_switch(u32 ring, s64 ns, s32 prev, u64 state, s32 next_pid)
{
	struct memory_event *e = memory_add(ring, ns, MEMORY_SWITCH, prev);

	memory_put(e, 8, prev, 4);
	memory_put(e, 16, state, 8);
	snprintf((char *)e->payload + 24, 16, "task%d", next_pid);
	memory_put(e, 40, next_pid, 4);
	memory_rings[ring].switched = true;
	memory_rings[ring].current = next_pid;
	return e;
}

struct memory_event *memory_wakeup(u32 ring, s64 ns, s32 pid)
{
	struct memory_event *e = memory_add(ring, ns, MEMORY_WAKEUP, memory_current(ring));

	memory_put(e, 8, pid, 4);
	return e;
}

void memory_wakeup_on(u32 ring, s64 ns, s32 pid, u32 cpu)
{
	struct memory_event *e = memory_add(ring, ns, MEMORY_WAKEUP_ON, memory_current(ring));

	memory_put(e, 8, pid, 4);
	memory_put(e, 12, cpu, 4);
}

void memory_irq(u32 ring, s64 ns, bool begins, u32 number)
{
	memory_put(memory_add(ring, ns, begins ? MEMORY_IRQ : MEMORY_IRQ_END,
			      memory_current(ring)), 8, number, 4);
}

void memory_entry(u32 ring, s64 ns, s32 tid)
{
	memory_add(ring, ns, MEMORY_ENTRY, tid);
}

struct memory_event *memory_exit(u32 ring, s64 ns, s32 tid, u32 reason)
{
	struct memory_event *e = memory_add(ring, ns, MEMORY_EXIT, tid);

	memory_put(e, 8, reason, 4);
	memory_put(e, 12, 1, 4);
	return e;
}

void memory_user(u32 ring, s64 ns, s32 tid)
{
	memory_put(memory_add(ring, ns, MEMORY_USER, tid), 8, 0, 4);
}

struct memory_event *memory_migrate(u32 ring, s64 ns, s32 pid, u32 to_cpu)
{
	struct memory_event *e = memory_add(ring, ns, MEMORY_MIGRATE, memory_current(ring));

	memory_put(e, 8, pid, 4);
	memory_put(e, 12, to_cpu, 4);
	return e;
}

struct memory_event *memory_online(u32 ring, s64 ns, u32 cpu, bool online)
{
	struct memory_event *e = memory_add(ring, ns, MEMORY_ONLINE, 20);

	memory_put(e, 8, cpu, 4);
	memory_put(e, 12, online, 4);
	return e;
}

struct braid_window *memory_more_window(s64 start_ns, s64 stop_ns, bool host, bool guest)
{
	static const struct braid_stream *guests[] = { &memory_guest };
	static struct braid_window windows[MEMORY_WINDOWS];
	struct braid_window *window = &windows[memory_source.nr_windows++];

	NEED(memory_source.nr_windows <= MEMORY_WINDOWS);
	*window = (struct braid_window){
		.start_ns = start_ns, .stop_ns = stop_ns, .host = host ? &memory_host : NULL,
		.guests = guests, .nr_guests = guest,
	};
	memory_source.windows = windows;
	return window;
}

void memory_window(s64 start_ns, s64 stop_ns)
{
	memory_source.nr_windows = 0;
	memory_more_window(start_ns, stop_ns, true, true);
}

void memory_begin(void)
{
	static const struct braid_ring_ops ops = { .next = next, .rewind = rewind_ring };
	static struct braid_ring *of_host[] = { &memory_rings[0].ring, &memory_rings[1].ring };
	static struct braid_ring *of_guest[] = { &memory_rings[2].ring };
	static struct braid_ring *again[] = { &memory_rings[3].ring };
	u32 k;

	memory_host = (struct braid_stream){
		.kind = BRAID_STREAM_HOST, .name = "host", .rings = of_host, .nr_rings = 2,
		.formats = memory_formats, .nr_formats = MEMORY_FORMATS,
	};
	memory_guest = (struct braid_stream){
		.number = 1, .kind = BRAID_STREAM_GUEST, .name = "guest", .rings = of_guest,
		.nr_rings = 1, .threads = threads, .nr_threads = 1,
		.formats = memory_formats, .nr_formats = MEMORY_FORMATS,
	};
	memory_again = memory_guest;
	memory_again.number = 2;
	memory_again.nr_cpus = 1;
	memory_again.rings = again;
	memory_source.nr_streams = 2;
	for (k = 0; k < 4; k++) {
		memory_rings[k].nr = memory_rings[k].at = 0;
		memory_rings[k].switched = false;
		memory_rings[k].ring = (struct braid_ring){ 0 };
		memory_rings[k].ring.stream = k < 2 ? &memory_host :
					      k < 3 ? &memory_guest : &memory_again;
		memory_rings[k].ring.cpu = k == 1;
		memory_rings[k].ring.order = k;
		memory_rings[k].ring.ops = &ops;
		memory_rings[k].ring.item.stream = memory_rings[k].ring.stream;
		memory_rings[k].ring.item.ring = &memory_rings[k].ring;
	}
	memory_source.nr_windows = 0;
	for (k = 0; k < MEMORY_FORMATS; k++)
		memory_formats[k].format_bytes = strlen(memory_formats[k].format);
}

void memory_reset(s64 answers_ns, s64 again_ns)
{
	static struct braid_round_trip answer;

	answer.s.h1_ns = answers_ns;
	memory_guest.clock_inputs.round_trips = &answer;
	memory_guest.clock_inputs.nr_round_trips = 1;
	memory_guest.end_reason = BRAID_END_REINIT;
	memory_guest.end_ns = memory_again.found_ns = again_ns;
	memory_again.before = &memory_guest;
	memory_again.boot_id[0] = 2;
	memory_again.life = 2;
	memory_source.nr_streams = 3;
}

void memory_stolen(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_switch(2, 1000, 0, 0, 33);
	memory_switch(0, 2000, 70, 0, 9);
	memory_switch(0, 2300, 9, 0, 70);
	memory_switch(0, 3000, 70, 0, 9);
	memory_switch(0, 3400, 9, 0, 8);
	memory_switch(0, 3900, 8, 0, 70);
	memory_wakeup(2, 4000, 5);
	memory_switch(0, 5000, 70, 1, 0);
}
