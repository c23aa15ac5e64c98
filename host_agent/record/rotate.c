// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A recording in a sequence of files: each is a complete capture, and together they lack nothing.
 *
 * A file ends at a moment up to which it has all events. By the time it does, it also has some
 * later ones, which the next file lacks; that one's window begins when it is made, and says what
 * precedes it.
 */
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

#define SUFFIX		".braid"
#define COMPLETE_NS	1000000000ULL	/* a guest whose events come later than that is late */
#define APART_NS	1000000000ULL	/* the least, if a guest comes or goes, ... */
#define CHANGES_NS	8000000000ULL	/* ... which is a reason no oftener than that */
#define NUMBERS_MOST	1000000000ULL

/* FILE without its suffix. */
static int rotate_stem(const struct braid_recording *r)
{
	size_t n = strlen(r->o.file), suffix = strlen(SUFFIX);

	return n > suffix && !strcmp(r->o.file + n - suffix, SUFFIX) ? n - suffix : n;
}

static void rotate_name(const struct braid_recording *r, u32 number,
			char path[BRAID_FLIGHT_PATH_BYTES])
{
	snprintf(path, BRAID_FLIGHT_PATH_BYTES, "%.*s-%u" SUFFIX, rotate_stem(r), r->o.file, number);
}

/* The number in a file's name; 0: it has another name. */
static u64 rotate_number(const char *name, const char *stem, size_t bytes)
{
	char *end;
	u64 number;

	if (strncmp(name, stem, bytes) || name[bytes] != '-' || name[bytes + 1] < '1' ||
	    name[bytes + 1] > '9')
		return 0;
	errno = 0;
	number = strtoull(name + bytes + 1, &end, 10);
	return errno || strcmp(end, SUFFIX) || number >= NUMBERS_MOST ? 0 : number;
}

/* Files of an earlier recording are not replaced: numbers go on after theirs. */
int braid_record_open_rotation(struct braid_recording *r)
{
	braid_auto_free char *stem = strndup(r->o.file, rotate_stem(r)), *copy = strdup(r->o.file);
	const char *base;
	struct dirent *entry;
	u64 number;
	DIR *dir;

	if (!r->o.rotate.bytes)
		return 0;
	if (!stem || !copy)
		return braid_out_of_memory();
	dir = opendir(dirname(copy));
	if (!dir)
		return braid_fail(-errno, "%s: %s", copy, strerror(errno));
	base = strrchr(stem, '/') ? strrchr(stem, '/') + 1 : stem;
	while ((entry = readdir(dir))) {
		number = rotate_number(entry->d_name, base, strlen(base));
		if (number > r->rotation.number)
			r->rotation.number = number;
	}
	closedir(dir);
	return 0;
}

/* Those that are not kept; what was removed before is not looked for. */
static void rotate_remove_old(const struct braid_recording *r)
{
	u64 keep = r->o.rotate.keep, number = r->rotation.number;
	char path[BRAID_FLIGHT_PATH_BYTES];

	if (!keep || number <= keep)
		return;
	for (number -= keep; number; number--) {
		rotate_name(r, number, path);
		if (unlink(path))
			break;
	}
}

static int rotate_create(struct braid_recording *r)
{
	struct braid_record_rotation *x = &r->rotation;
	struct braid_chunk_file head;

	x->number++;
	x->nr_files++;
	rotate_name(r, x->number, x->path);
	x->began_ns = braid_host_clock_ns();
	x->stop_ns = 0;
	x->asked = x->counted = false;
	r->ops->capture_head(&head);
	return braid_capture_create(&x->out, x->path, &head) ?: braid_record_put_host(r, x->out);
}

/* The first one: its streams begin by themselves. */
int braid_record_begin_rotation(struct braid_recording *r)
{
	int err = braid_capture_create_history(&r->sink.capture, true);

	if (!err)
		err = rotate_create(r);
	return err ? err : braid_capture_tee(r->sink.capture, r->rotation.out);
}

/* How many streams there were, and how many of them go on. */
static void rotate_count(const struct braid_recording *r, u32 *nr_streams, u32 *nr_live)
{
	struct braid_region_status status;
	size_t k;

	*nr_streams = r->sink.next_stream;
	*nr_live = r->vms ? braid_vm_sources_number(r->vms) : 0;
	for (k = 0; k < r->nr_guests; k++) {
		status = braid_region_source_status(r->guests[k].source);
		*nr_live += status.phase == BRAID_PHASE_RECORDING;
	}
}

static bool rotate_is_due(struct braid_recording *r)
{
	struct braid_record_rotation *x = &r->rotation;
	u64 now_ns = braid_host_clock_ns(), age_ns = now_ns - x->began_ns;
	u32 nr_streams, nr_live;

	if (x->asked || braid_capture_bytes(x->out) >= r->o.rotate.bytes ||
	    (r->o.rotate.seconds > 0 && age_ns >= r->o.rotate.seconds * 1e9))
		return true;
	if (age_ns < APART_NS || (x->changed_ns && now_ns - x->changed_ns < CHANGES_NS))
		return false;
	rotate_count(r, &nr_streams, &nr_live);
	if (nr_streams == x->nr_streams && nr_live == x->nr_live)
		return false;
	x->changed_ns = now_ns;
	return true;
}

static bool rotate_waits(const struct braid_recording *r)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++)
		if (braid_region_source_ending(r->guests[k].source))
			return true;
	return (u64)braid_record_complete_ns(r, COMPLETE_NS) < r->rotation.stop_ns;
}

static int rotate_put_edge(struct braid_recording *r, enum braid_window_edge edge, u64 host_ns,
			   u32 after_ns)
{
	struct braid_chunk_window window = {
		.edge = edge, .after_ns = after_ns, .host_ns = host_ns,
	};

	return braid_capture_put(r->rotation.out, BRAID_CHUNK_WINDOW, 0, &window, sizeof(window),
				 NULL, 0);
}

static int rotate_leave(struct braid_recording *r)
{
	struct braid_record_rotation *x = &r->rotation;
	int err = braid_sampler_turn(r->sampler, r->sink.capture, true), tee_err;
	size_t k;

	for (k = 0; k < r->nr_guests && !err; k++)
		err = braid_region_source_leave_file(r->guests[k].source, x->out);
	if (r->vms && !err)
		err = braid_vm_sources_took(r->vms, x->out);
	if (r->host_source && !err)
		err = braid_tracefs_source_leave_file(r->host_source, x->out);
	if (!err)
		err = rotate_put_edge(r, BRAID_WINDOW_STOP, x->stop_ns, 0);
	tee_err = braid_capture_tee(r->sink.capture, NULL);
	err = err ? err : tee_err;
	if (err)
		return err;
	x->bytes += braid_capture_bytes(x->out);
	err = braid_capture_finish(x->out);
	x->out = NULL;
	return err;
}

static int rotate_enter(struct braid_recording *r, u64 stop_ns)
{
	struct braid_record_rotation *x = &r->rotation;
	int err = rotate_create(r);
	size_t k;

	if (err)
		return err;
	braid_capture_tee(r->sink.capture, x->out);
	braid_capture_replay(r->sink.capture, 0);
	err = rotate_put_edge(r, BRAID_WINDOW_START, x->began_ns,
			      x->began_ns - stop_ns < ~0u ? x->began_ns - stop_ns : 0);
	for (k = 0; k < r->nr_guests && !err; k++)
		err = braid_region_source_enter_file(r->guests[k].source);
	if (r->vms && !err)
		err = braid_vm_sources_take(r->vms);
	if (r->host_source && !err)
		err = braid_tracefs_source_enter_file(r->host_source);
	if (!err)
		err = braid_capture_publish(x->out);
	return err;
}

/* From here on all is read soon, so that the next window does not begin much later. */
static void rotate_stop(struct braid_recording *r)
{
	size_t k;

	r->rotation.stop_ns = braid_host_clock_ns();
	r->sink.prompt_ns = BRAID_PROMPT_NS;
	for (k = 0; k < r->nr_guests; k++)
		r->guests[k].due_ns = 0;
}

int braid_record_poll_rotation(struct braid_recording *r)
{
	struct braid_record_rotation *x = &r->rotation;
	u64 stop_ns;
	int err;

	if (!x->out)
		return 0;
	if (braid_capture_tee_failed(r->sink.capture)) {
		err = braid_capture_tee(r->sink.capture, x->out);
		return err ? err : -EIO;
	}
	if (!x->counted) {
		rotate_count(r, &x->nr_streams, &x->nr_live);
		rotate_remove_old(r);
	}
	x->counted = true;
	if (!x->stop_ns && rotate_is_due(r))
		rotate_stop(r);
	if (!x->stop_ns || rotate_waits(r))
		return 0;
	stop_ns = x->stop_ns;
	err = rotate_leave(r);
	r->sink.prompt_ns = r->o.prompt ? BRAID_PROMPT_NS : 0;
	return err ? err : rotate_enter(r, stop_ns);
}

int braid_record_end_rotation(struct braid_recording *r, bool failed)
{
	struct braid_record_rotation *x = &r->rotation;
	int err;

	if (!x->out)
		return 0;
	err = braid_capture_tee(r->sink.capture, NULL);
	if (failed || err)
		braid_capture_abandon(x->out);
	else
		err = braid_capture_finish(x->out);
	x->out = NULL;
	return err;
}
