/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Creates captures for tests: synthetic guests, through the real writer, and a host. */
#ifndef BRAID_TESTS_MAKE_CAPTURE_H
#define BRAID_TESTS_MAKE_CAPTURE_H

#include "host_agent/capture/capture.h"
#include "shared/ring.h"

#define SYNTH_CPUS	2u
#define SYNTH_HZ		1000000000ULL	/* stated by guests */
#define SYNTH_START_NS	1000000000000ULL

/* Writer and reader of one ring, in private memory. */
struct synth_ring {
	void *memory;
	struct braid_ring_map map;
	struct braid_writer *writer;
	struct braid_reader reader;
	u64 written;		/* events offered */
	u64 began_seq, began_read, began_lost;
	u64 reported_lost;
	bool again;		/* its next extent is the first one of another file */
	bool also_again;	/* likewise, of ->also */
	u64 also_read;		/* events in it */
};

/* A guest with one buffer; its true clock is ns = start_ns + counter * (1 + ppm / 1e6). */
struct synth_guest {
	struct braid_superblock sb;
	char name[64];
	double ppm;
	u64 start_ns;
	u64 now;		/* its counter */
	u32 stream;
	struct synth_ring rings[SYNTH_CPUS];
	struct braid_capture_writer *also;	/* another capture that gets all extents, too ... */
	u32 also_stream;
	u64 also_ns;		/* ... by a host's clock that shows this */
};

/* The recording goes on to another file; the guest begins in it by synth_begin(). */
void synth_next_file(struct synth_guest *g);

/* From here on another capture has all extents, too; NULL: no longer, and it is the next file. */
void synth_also(struct synth_guest *g, struct braid_capture_writer *w, u32 stream, u64 ns);

struct synth_guest_params {
	const char *name;
	u64 incarnation;
	u8 boot;		/* fills the boot id */
	double ppm;
	u64 start_ns;		/* host time of counter 0 */
	u32 flags;		/* BRAID_BUFFER_* */
	u32 nr_slots;
	u32 subbuf_bytes;
};

void synth_guest_init(struct synth_guest *g, const struct synth_guest_params *params);
void synth_guest_free(struct synth_guest *g);

/* The true host time of a guest's counter. */
u64 synth_host_ns(const struct synth_guest *g, u64 counter);

/* One event of id 1 ("test:tick": u32 number, __data_loc text) at g->now. */
bool synth_tick(struct synth_guest *g, u32 cpu, u32 number, const char *text);

/* Any payload at g->now. */
bool synth_event(struct synth_guest *g, u32 cpu, const void *payload, u32 bytes);

/* The writer's host: FILE, with the given start. */
struct braid_capture_writer *synth_capture(const char *path);

/* The same, in an open file, which is closed with it. */
struct braid_capture_writer *synth_capture_at(int fd);

/* The same of a host that has an id of such bytes, and whose clock shows @start_ns at the start. */
struct braid_capture_writer *synth_capture_of(const char *path, const char *host, u8 id,
					      u64 start_ns);

/* What crossed between the writer's host and one with such an id. */
void synth_peer(struct braid_capture_writer *w, u8 id, const struct braid_peer_crossing *crossings,
		u32 nr);

/* STREAM and EVENTS, COMMS, SYMBOLS of a guest. */
void synth_begin(struct braid_capture_writer *w, struct synth_guest *g, u32 stream);

/* One more event's format, of stream 1. */
void synth_format(struct braid_capture_writer *w, u16 id, const char *system, const char *name,
		  const char *format);

/* One clock sample at g->now, with delays before and after. */
void synth_sample(struct braid_capture_writer *w, struct synth_guest *g, u64 before_ns,
		 u64 after_ns);

/* Reads all available events; at most @max extents of each ring, 0: all. */
void synth_drain(struct braid_capture_writer *w, struct synth_guest *g, u32 max);

/* RING_END for each ring, and STREAM_END. */
void synth_end(struct braid_capture_writer *w, struct synth_guest *g, u32 reason);

/* Accounts of filters, one of them unknown, and of a probe, of stream 1. */
void synth_accounts(struct braid_capture_writer *w);

/* The host as stream @stream: @nr events of one CPU from @ns on, @step_ns apart. */
void synth_host(struct braid_capture_writer *w, u32 stream, u32 nr, u64 ns, u64 step_ns);

/* Events of such a host's CPU in one page, the first one's count being @first. */
void synth_host_page(struct braid_capture_writer *w, u32 stream, u32 first, u32 nr, u64 ns,
		     u64 step_ns);

/* One of the host's clocks, @ahead_ns ahead of the file's: from the start on for 0.2 s. */
void synth_host_clock(struct braid_capture_writer *w, u32 kind, const char *name, u64 ahead_ns);

/*
 * The standard capture: guest1 and guest2, two vCPUs each, interleaved with a host;
 * guest2 loses events. Returns the number of guest events in it.
 */
u64 synth_standard(const char *path);

/* The same, with wall time @ahead_ns ahead of the file's clock. */
u64 synth_standard_at(const char *path, u64 ahead_ns);

/*
 * Makes a capture of two vCPUs with more event types than the short ids of CTF, some of which come
 * late, and not in one order on both. Return: events in it.
 */
u64 synth_many_types(const char *path);

#endif /* BRAID_TESTS_MAKE_CAPTURE_H */
