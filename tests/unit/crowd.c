// SPDX-License-Identifier: GPL-2.0-or-later
/* Captures with many of something that analyses follow. */
#include <stdio.h>

#include "shared/region.h"
#include "tests/unit/crowd.h"
#include "tests/unit/host_events.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

/* A run of a guest. */
static void put_run(struct braid_capture_writer *w, u32 stream, u32 incarnation, u32 nr_vcpus,
		    u32 nr_buffers)
{
	struct braid_region_params region = {
		.region_bytes = 1ULL << 44, .nr_vcpus = nr_vcpus, .nr_comms = 64, .nr_symbols = 64,
		.directory_bytes = 64 << 10,
	};
	struct braid_superblock sb = {
		.magic = BRAID_MAGIC, .version_major = BRAID_VERSION_MAJOR,
		.state = BRAID_STATE_LIVE, .incarnation = incarnation, .counter_hz = 1000000000,
		.counter_type = BRAID_COUNTER_TSC, .init_counter = 1000,
	};
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_GUEST, .nr_cpus = nr_vcpus, .host_ns = SYNTH_START_NS + incarnation,
		.name = "guest",
	};
	char name[24];
	u64 needed;
	u32 k;

	NEED(!braid_region_layout(&sb, &region, &needed));
	for (k = 0; k < nr_buffers; k++) {
		struct braid_buffer_params buffer = {
			.name = name, .subbuf_bytes = 4096, .nr_slots = 4,
		};

		snprintf(name, sizeof(name), "buffer%u", k);
		NEED(braid_region_add_buffer(&sb, &buffer, &needed) == (int)k);
	}
	NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM, stream, &head, sizeof(head), &sb,
				sizeof(sb)));
}

void crowd_guest(struct braid_capture_writer *w, u32 stream, u32 nr_vcpus, u32 nr_buffers)
{
	put_run(w, stream, stream, nr_vcpus, nr_buffers);
}

/* A guest of which each vCPU was current once. */
static void begin_seen(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	crowd_guest(w, 1, n, 1);
	host_begin(w, n, HOST_FIRST_TID);
	for (k = 0; k < n; k++)
		host_event(w, 10 * k, HOST_SWITCH, HOST_FIRST_TID + k, HOST_FIRST_TID + k + 1,
			   false);
}

/* All vCPUs wait on a CPU that handles interrupts. */
void crowd_waiters(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	begin_seen(w, n);
	for (k = 0; k < n; k++)
		host_event(w, 10 * (n + k), k & 1 ? HOST_IRQ_END : HOST_IRQ, HOST_FIRST_TID + n,
			   0, false);
}

/* All vCPUs were seen, and events of the host are lost all the time. */
void crowd_losses(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	begin_seen(w, n);
	for (k = 0; k < n; k++)
		host_event(w, 10 * (n + k), HOST_IRQ, 7, 0, true);
}

/* One culprit after another takes the only vCPU's CPU. */
void crowd_culprits(struct braid_capture_writer *w, u32 n)
{
	u32 k;

	crowd_guest(w, 1, 1, 1);
	host_begin(w, 1, HOST_FIRST_TID);
	for (k = 0; k < 2 * n; k++)
		host_event(w, 10 * k, HOST_SWITCH, HOST_FIRST_TID + k % n,
			   HOST_FIRST_TID + (k + 1) % n, false);
}

/* Guests that were reset one after the other; each had a task. */
void crowd_lives(struct braid_capture_writer *w, u32 n)
{
	struct braid_chunk_stream_end end = { .reason = BRAID_END_REINIT };
	u32 k;

	crowd_guest(w, 1, 1, 1);
	host_begin(w, 1, HOST_FIRST_TID);
	for (k = 0; k < n; k++) {
		crowd_guest(w, 3 + k, 4, 1);
		end.host_ns = SYNTH_START_NS + 100 * (k + 1);
		NEED(!braid_capture_put(w, BRAID_CHUNK_STREAM_END, 3 + k, &end, sizeof(end), NULL,
					0));
	}
	for (k = 0; k < n; k++)
		host_event(w, 100 * k, HOST_SWITCH, HOST_FIRST_TID + k % 2,
			   HOST_FIRST_TID + (k + 1) % 2, false);
}

static void put_edge(struct braid_capture_writer *w, u32 edge, u64 ns)
{
	struct braid_chunk_window window = { .edge = edge, .host_ns = SYNTH_START_NS + ns };

	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, &window, sizeof(window), NULL, 0));
}

#define CAPTURE_NS	10000u

/* A recording of a guest and the host, after others. */
void crowd_capture(struct braid_capture_writer *w, u32 number)
{
	s32 tid = HOST_FIRST_TID + 2 * number;
	u64 ns = (u64)number * CAPTURE_NS;

	put_run(w, 1, 1 + number, 4, 1);
	host_begin(w, 1, tid);
	put_edge(w, BRAID_WINDOW_START, ns);
	host_event(w, ns + 100, HOST_SWITCH, tid, 7, false);
	host_event(w, ns + 200, HOST_SWITCH, 7, tid, false);
	host_event(w, ns + 300, HOST_SWITCH, tid, 7, false);
	put_edge(w, BRAID_WINDOW_STOP, ns + CAPTURE_NS / 2);
}
