// SPDX-License-Identifier: GPL-2.0-or-later
/* Properties that all export forms share. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/export/export.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define NR_TICKS	20000u

static char folder[] = "/tmp/tracebraid-forms-XXXXXX";
static char capture[64];

/* More than a walk processes between two checks for a stop request. */
static void make_long(void)
{
	static const struct synth_guest_params params = {
		.name = "guest1", .incarnation = 1, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 64, .subbuf_bytes = 4096,
	};
	struct braid_capture_writer *w = synth_capture(capture);
	struct synth_guest g;
	u32 k;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	for (k = 0; k < NR_TICKS; k++) {
		g.now += 1000;
		synth_tick(&g, k & 1, k, "tick");
		if (k % 500)
			continue;
		synth_sample(w, &g, 50, 50);
		synth_drain(w, &g, 0);
	}
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
}

static int run(const struct braid_export_form *form, const struct braid_walk_options *options,
	       struct braid_walk_totals *totals)
{
	struct braid_source *source;
	char *names[] = { capture }, out[128];
	int err;

	snprintf(out, sizeof(out), "%s/out", folder);
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	err = braid_export_run(form, out, source, options, totals);
	braid_source_free(source);
	return err;
}

/* Names in the folder, except the capture's. */
static u32 nr_made(void)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	u32 nr = 0;

	NEED(dir);
	while ((entry = readdir(dir)))
		nr += !strncmp(entry->d_name, "out", 3);
	closedir(dir);
	return nr;
}

static void remove_made(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s/out*", folder);
	NEED(!system(command));
}

/* A stop request ends an export, which leaves no partial files. */
static void stopped_leaves_nothing(void)
{
	static const volatile sig_atomic_t stop = 1;
	static const struct braid_walk_options options = { .stop = &stop };
	const struct braid_export_form *form;
	struct braid_walk_totals totals;
	size_t k;

	for (k = 0; (form = braid_export_form_by_number(k)); k++) {
		CHECK_EQ(run(form, &options, &totals), -EINTR);
		CHECK_EQ(nr_made(), 0);
		remove_made();
	}
}

/* Each form has the same number of events of one capture. */
static void all_count_alike(void)
{
	static const struct braid_walk_options all;
	const struct braid_export_form *form;
	struct braid_walk_totals totals;
	size_t k;

	for (k = 0; (form = braid_export_form_by_number(k)); k++) {
		CHECK_EQ(run(form, &all, &totals), 0);
		CHECK_EQ(totals.events, NR_TICKS);
		CHECK_EQ(totals.lost, 0);
		CHECK(nr_made() > 0);
		remove_made();
	}
	CHECK(k >= 7);
}

int main(void)
{
	NEED(mkdtemp(folder));
	snprintf(capture, sizeof(capture), "%s/x.braid", folder);
	make_long();
	RUN(stopped_leaves_nothing);
	RUN(all_count_alike);
	unlink(capture);
	rmdir(folder);
	return VERDICT();
}
