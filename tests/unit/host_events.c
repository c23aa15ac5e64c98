// SPDX-License-Identifier: GPL-2.0-or-later
/* A host of one CPU, whose events show what its threads do. */
#include <string.h>

#include "tests/unit/format_text.h"
#include "tests/unit/host_events.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define HOST		2u
/* An event of the host, with all fields that any of its formats has. */
struct event {
	u32 head;
	struct braid_record record;
	s32 first;		/* prev_pid, irq */
	s32 next_pid;
	u64 prev_state;
};

static void put_format(struct braid_capture_writer *w, const char *system, const char *format)
{
	struct braid_chunk_text text = { .kind = BRAID_TEXT_FORMAT };

	strcpy(text.name, system);
	NEED(!braid_capture_put(w, BRAID_CHUNK_TEXT, HOST, &text, sizeof(text), format,
				strlen(format)));
}

void host_begin(struct braid_capture_writer *w, u32 nr_vcpus, s32 first_tid)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_HOST, .nr_cpus = 1, .subbuf_bytes = 4096,
		.host_ns = SYNTH_START_NS, .name = "host",
	};
	u32 k;

	for (k = 0; k < nr_vcpus; k++) {
		struct braid_vcpu_thread thread = { .vcpu = k, .tid = first_tid + k };

		NEED(!braid_capture_put(w, BRAID_CHUNK_VCPU_THREADS, 1, &thread, sizeof(thread),
					NULL, 0));
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, HOST, &head, sizeof(head), NULL, 0));
	put_format(w, "sched", "name: sched_switch\nID: 1\nformat:\n" FORMAT_COMMON
		   "\tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n"
		   "\tfield:pid_t next_pid;\toffset:12;\tsize:4;\tsigned:1;\n"
		   "\tfield:long prev_state;\toffset:16;\tsize:8;\tsigned:1;\n\nprint fmt: \"\"\n");
	put_format(w, "irq", "name: irq_handler_entry\nID: 2\nformat:\n" FORMAT_COMMON
		   "\tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n");
	put_format(w, "irq", "name: irq_handler_exit\nID: 3\nformat:\n" FORMAT_COMMON
		   "\tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n");
}

void host_event(struct braid_capture_writer *w, u64 ns, u16 id, s32 task, s32 next, bool lost)
{
	struct braid_chunk_host_page head = { .bytes = 4096, .lost_before = lost };
	static struct {
		u64 ns, commit;
		struct event event;
		u8 room[4096 - 16 - sizeof(struct event)];
	} page;

	page.ns = SYNTH_START_NS + ns;
	page.commit = sizeof(page.event);
	page.event = (struct event){
		.head = sizeof(page.event) / 4 - 1,
		.record = { .common_type = id, .common_pid = task },
		.first = task, .next_pid = next,
	};
	NEED(!braid_capture_put(w, BRAID_CHUNK_HOST_PAGE, HOST, &head, sizeof(head), &page,
				sizeof(page)));
}
