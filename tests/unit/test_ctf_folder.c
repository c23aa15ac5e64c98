// SPDX-License-Identifier: GPL-2.0-or-later
/* The folder that an export to CTF makes: what it replaces, and what it leaves. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/ctf/form.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"
#include "tests/unit/scratch.h"

static char *capture, *folder;

static const struct braid_walk_options all;

static int export(const struct braid_walk_options *options, struct braid_walk_totals *totals)
{
	return export_capture(braid_export_ctf, capture, folder, options, totals);
}

static void remove_folder(void)
{
	char command[160];

	snprintf(command, sizeof(command), "rm -rf %s %s.part", folder, folder);
	NEED(!system(command));
}

/* Whether a folder or file is there, below the export's, with this mode. */
static bool has(const char *name, mode_t mode)
{
	char path[160];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return !stat(path, &st) && (st.st_mode & 0777) == mode;
}

static void folders(void)
{
	struct braid_walk_totals totals;
	char part[80], file[80];

	snprintf(part, sizeof(part), "%s.part", folder);
	snprintf(file, sizeof(file), "%s/kept", folder);
	synth_standard(capture);
	remove_folder();
	NEED(!mkdir(folder, 0755));
	CHECK_EQ(export(&all, &totals), 0);	/* an empty one counts as missing */
	CHECK_EQ(export(&all, &totals), -ENOTEMPTY);
	CHECK(strstr(braid_failure(), "cannot be replaced"));
	remove_folder();
	NEED(!mkdir(folder, 0755) && !close(open(file, O_WRONLY | O_CREAT, 0600)));
	CHECK_EQ(export(&all, &totals), -ENOTEMPTY);
	CHECK(!access(file, F_OK));
	remove_folder();
	NEED(!mkdir(part, 0755));
	CHECK_EQ(export(&all, &totals), -EEXIST);
	CHECK(strstr(braid_failure(), "name another folder") && !strstr(braid_failure(), ".part"));
	remove_folder();
}

/* What a killed export left is replaced, if it holds nothing else. */
static void left_over(void)
{
	struct braid_walk_totals totals;
	char command[200];

	snprintf(command, sizeof(command), "umask 077; mkdir -p %s.part/host && echo x > %s.part/host/main_0",
		 folder, folder);
	NEED(!system(command));
	CHECK_EQ(export(&all, &totals), 0);
	CHECK(has("host/metadata", 0600));
	remove_folder();
	NEED(!system(command));
	snprintf(command, sizeof(command), "umask 077; echo mine > %s.part/notes", folder);
	NEED(!system(command));
	CHECK_EQ(export(&all, &totals), -EEXIST);
	snprintf(command, sizeof(command), "test -s %s.part/notes && test -s %s.part/host/main_0", folder,
		 folder);
	CHECK(!system(command));
	remove_folder();
}

/* With no event selected, there is one trace, without events. */
static void nothing(void)
{
	static char *none[] = { "no_such_event" };
	const struct braid_walk_options options = { .events = none, .nr_events = 1 };
	struct braid_walk_totals totals;
	struct braid_capture_writer *w = synth_capture(capture);
	char metadata[120];

	synth_host(w, 1, 5, SYNTH_START_NS, 100);
	NEED(!braid_capture_finish(w));
	remove_folder();
	CHECK_EQ(export(&options, &totals), 0);
	CHECK_EQ(totals.events, 0);
	snprintf(metadata, sizeof(metadata), "%s/host/metadata", folder);
	CHECK(!access(metadata, F_OK));
}

/* Streams whose names are the same, or become the same, have folders of their own. */
static void same_names(void)
{
	static const char *const names[] = { "a b", "a/b", "a b", "-" };
	struct synth_guest_params params = {
		.nr_slots = 4, .subbuf_bytes = 4096, .start_ns = SYNTH_START_NS,
	};
	struct braid_capture_writer *w = synth_capture(capture);
	struct braid_walk_totals totals;
	struct synth_guest g;
	u32 k;

	for (k = 0; k < sizeof(names) / sizeof(*names); k++) {
		params.name = names[k];
		params.incarnation = params.boot = k + 1;
		synth_guest_init(&g, &params);
		g.now = (k + 1) * 1000000;
		synth_begin(w, &g, k + 1);
		synth_sample(w, &g, 100, 100);
		NEED(synth_tick(&g, 0, k, "x"));
		synth_drain(w, &g, 0);
		synth_end(w, &g, BRAID_END_STOPPED);
		synth_guest_free(&g);
	}
	NEED(!braid_capture_finish(w));
	remove_folder();
	CHECK_EQ(export(&all, &totals), 0);
	CHECK_EQ(totals.events, 4);
	CHECK(has("a_b", 0700) && has("a_b-1", 0700) && has("a_b-2", 0700) && has("_", 0700));
	CHECK(has("a_b-2/metadata", 0600) && has("a_b-2/main_0", 0600));
	remove_folder();
}

int main(void)
{
	capture = scratch("capture.braid");
	folder = scratch("ctf");
	RUN(folders);
	RUN(left_over);
	RUN(nothing);
	RUN(same_names);
	remove_folder();
	return VERDICT();
}
