// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Creates a capture all of whose names and texts contain markup, or with 0 events one of
 * nothing: make_hostile OUT [EVENTS].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/schema.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define CLOSE		"</script><script>alert(1)</script>"
#define ATTRIBUTE	"\"'><img src=http://127.0.0.1:9/ onerror=alert(2)>"
#define ELEMENT		"<svg onload=alert(3)>"
#define EVENTS		1200u
#define LATE		50u	/* of them, after the recording's stop */
#define TOO_MANY	900u	/* between two drains: some are lost */

static const char format[] =
	"name: tick\nID: 1\nformat:\n"
	FORMAT_COMMON
	"\tfield:u32 number;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:__data_loc char[] text;\toffset:12;\tsize:4;\tsigned:1;\n\n"
	"print fmt: \"%s\", __get_str(text)\n";

int main(int argc, char **argv);

static void put_names(struct braid_capture_writer *w)
{
	static struct {
		struct braid_directory dir;
		u8 room[8 << 10];
	} d;
	struct braid_schema_event event = {
		.id = 1, .system = ATTRIBUTE, .name = ELEMENT, .format = format,
	};
	struct braid_comm comms[] = {
		{ .seq = 2, .pid = 100, .comm = "<b>x</b>" }, { .seq = 2, .pid = 101, .comm = "&lt;<!--" },
	};
	struct braid_chunk_note note = { .host_ns = SYNTH_START_NS + 5000 };
	u32 used = 0;

	NEED(!braid_schema_append(&d.dir, sizeof(d.room), &used, &event));
	NEED(!braid_capture_put(w, BRAID_CHUNK_EVENTS, 1, NULL, 0, d.dir.data, used));
	NEED(!braid_capture_put(w, BRAID_CHUNK_COMMS, 1, NULL, 0, comms, sizeof(comms)));
	NEED(!braid_capture_put(w, BRAID_CHUNK_NOTE, 1, &note, sizeof(note), CLOSE, strlen(CLOSE)));
}

static void put_edge(struct braid_capture_writer *w, u32 edge, u64 ns)
{
	struct braid_chunk_window window = { .edge = edge, .host_ns = ns };

	NEED(!braid_capture_put(w, BRAID_CHUNK_WINDOW, 0, NULL, 0, &window, sizeof(window)));
}

int main(int argc, char **argv)
{
	struct synth_guest_params params = {
		.name = CLOSE, .incarnation = 5, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 8, .subbuf_bytes = 4096,
	};
	struct braid_capture_writer *w;
	u32 events = argc == 3 ? strtoul(argv[2], NULL, 0) : EVENTS, k;
	struct synth_guest g;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "make_hostile OUT [EVENTS]\n");
		return 2;
	}
	w = synth_capture(argv[1]);
	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	if (events) {
		put_names(w);
		put_edge(w, BRAID_WINDOW_START, SYNTH_START_NS);
	}
	for (k = 0; k < events; k++) {
		g.now += 1000;
		synth_tick(&g, k & 1, k, k & 2 ? CLOSE "]]>-->" : ATTRIBUTE ELEMENT);
		if (k % TOO_MANY == 0)
			synth_drain(w, &g, 0);
	}
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	if (events)
		put_edge(w, BRAID_WINDOW_STOP, SYNTH_START_NS + (events - LATE) * 1000);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	return 0;
}
