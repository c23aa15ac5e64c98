// SPDX-License-Identifier: GPL-2.0-or-later
/* Marks of completeness that a recording puts into its files. */
#include <stdlib.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

#define MS	1000000ULL

static char *path;

/* The last mark in the file. */
static u64 marked(void)
{
	struct braid_capture_reader *reader;
	struct braid_chunk_complete mark = { 0 };
	struct braid_chunk_view v;
	struct braid_chunk_file head;

	NEED(!braid_capture_open(&reader, path, &head));
	while (braid_capture_next(reader, &v) > 0) {
		u32 at = 0;

		if (v.type == BRAID_CHUNK_COMPLETE)
			NEED(braid_view_take(&v, &at, &mark, sizeof(mark)));
	}
	braid_capture_close(reader);
	return mark.until_ns;
}

/* A file that has a stop already is written on: another one is to follow, and lacks nothing. */
static void no_mark_passes_a_stop(void)
{
	struct braid_recording *r = calloc(1, sizeof(*r));
	u64 stop_ns = braid_host_clock_ns() - 50 * MS;

	NEED(r);
	r->start_ns = 1;
	r->sink.capture = r->rotation.out = synth_capture(path);
	NEED(!braid_record_mark_complete(r) && !braid_capture_flush(r->sink.capture));
	CHECK(marked() > stop_ns);
	r->rotation.stop_ns = stop_ns;
	r->marks.marked_ns = 0;
	NEED(!braid_record_mark_complete(r) && !braid_capture_finish(r->sink.capture));
	CHECK_EQ(marked(), stop_ns);
	free(r);
}

int main(void)
{
	path = scratch("marks.braid");
	RUN(no_mark_passes_a_stop);
	return VERDICT();
}
