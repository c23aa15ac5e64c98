// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes a merged trace as CTF 1.8: a folder with a trace for each stream. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/ahead.h"
#include "host_agent/export/ctf.h"
#include "host_agent/export/form_ctf.h"
#include "host_agent/util/error.h"

/*
 * Each ring has a buffer for a packet and the event by which that gets larger than this; buffers
 * are powers of 2. Larger packets are no faster.
 */
#define MOST_PACKET_BYTES	(120u << 10)
#define LEAST_PACKET_BYTES	(4u << 10)
#define ALL_PACKETS_BYTES	(64u << 20)

/* The walk -------------------------------------------------------------------------------- */

/* What an item's ring is in CTF. */
static inline int meet_ring(struct braid_ctf *ctf, const struct braid_ring *ring,
			    struct braid_ctf_ring **out)
{
	*out = &ctf->rings[ring->order];
	return (*out)->class ? 0 : braid_ctf_meet_ring(ctf, ring);
}

static int put_event(void *arg, const struct braid_item *item,
		     const struct braid_event_type_info *info)
{
	struct braid_ctf *ctf = arg;
	const struct braid_ctf_event *e;
	struct braid_ctf_ring *r;
	u8 *at;
	int err = meet_ring(ctf, item->ring, &r);

	if (err)
		return err;
	e = braid_ctf_known_event(ctf, r->class, item, info);
	if (!e)
		e = braid_ctf_event(ctf, r->class, item, info);
	if (!e)
		return braid_out_of_memory();
	err = braid_ctf_begin_event(ctf, r, e->id, ctf->walk.ns, braid_ctf_most_bytes(e, item), &at);
	if (err)
		return err;
	return braid_ctf_end_event(ctf, r, braid_ctf_put_event(ctf, at, e, item));
}

static int put_note(void *arg, const struct braid_item *item)
{
	struct braid_ctf *ctf = arg;
	struct braid_ctf_ring *r;
	u8 *at;
	int err = meet_ring(ctf, item->ring, &r);

	if (!err)
		err = braid_ctf_begin_event(ctf, r, 0, ctf->walk.ns, item->payload_bytes + 8, &at);
	return err ? err : braid_ctf_end_event(ctf, r, braid_ctf_put_string(at, item->payload,
									     item->payload_bytes));
}

static int put_lost(void *arg, const struct braid_item *item)
{
	struct braid_ctf *ctf = arg;
	struct braid_ctf_ring *r;
	int err = meet_ring(ctf, item->ring, &r);

	return err ? err : braid_ctf_lose(ctf, r, ctf->walk.ns, item->lost_before);
}

/* The export ------------------------------------------------------------------------------ */

/*
 * If the capture has wall time, the clocks count from 1970, by its value at the start of the
 * recording, like LTTng's.
 */
static void set_origin(struct braid_ctf *ctf)
{
	const struct braid_source *source = ctf->walk.source;
	s64 start_ns = source->head.start_host_ns;
	s64 wall_ns;

	ctf->absolute = source->clocks.realtime.nr_tracks > 0;
	if (!ctf->absolute || ctf->walk.options->realtime)
		return;
	wall_ns = braid_clock_reading_at(&source->clocks.realtime, start_ns).value;
	if (__builtin_sub_overflow(wall_ns, start_ns, &ctf->offset_ns) ||
	    ctf->offset_ns > INT64_MAX / 2 || ctf->offset_ns < INT64_MIN / 2) {
		ctf->offset_ns = 0;
		ctf->absolute = false;
	}
}

static int begin(struct braid_ctf *ctf)
{
	const struct braid_source *source = ctf->walk.source;
	size_t k, j;

	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->nr_rings; j++)
			if (source->streams[k]->rings[j]->order >= ctf->nr_rings)
				ctf->nr_rings = source->streams[k]->rings[j]->order + 1;
	ctf->packet_bytes = ALL_PACKETS_BYTES / (ctf->nr_rings + 1);
	if (ctf->packet_bytes > MOST_PACKET_BYTES)
		ctf->packet_bytes = MOST_PACKET_BYTES;
	if (ctf->packet_bytes < LEAST_PACKET_BYTES)
		ctf->packet_bytes = LEAST_PACKET_BYTES;
	ctf->traces = calloc(source->nr_streams + 1, sizeof(*ctf->traces));
	ctf->rings = calloc(ctf->nr_rings + 1, sizeof(*ctf->rings));
	if (!ctf->traces || !ctf->rings)
		return braid_out_of_memory();
	set_origin(ctf);
	ctf->most_ns = INT64_MAX - (ctf->offset_ns > 0 ? ctf->offset_ns : 0);
	ctf->dir = open(ctf->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ctf->dir < 0)
		return braid_fail(-errno, "cannot open '%s': %s", ctf->folder, strerror(errno));
	return ctf->walk.options->states ? braid_ctf_states_begin(ctf) : 0;
}

static int end(struct braid_ctf *ctf)
{
	int err = braid_ctf_states_end(ctf);
	u32 k;

	for (k = 0; k < ctf->nr_rings && !err; k++)
		err = braid_ctf_end_ring(ctf, &ctf->rings[k]);
	return err ? err : braid_ctf_write_metadata(ctf);
}

static void free_all(struct braid_ctf *ctf)
{
	braid_ctf_free_events(ctf);
	braid_ctf_free_rings(ctf);
	braid_walk_end(&ctf->walk);
	braid_slices_free(&ctf->slices);
	braid_ctf_names_free(&ctf->names);
	if (ctf->dir >= 0)
		close(ctf->dir);
	free(ctf);
}

static int write_folder(const char *folder, struct braid_source *source,
			const struct braid_export_options *options,
			struct braid_export_totals *totals)
{
	static const struct braid_walk_ops ops = {
		.event = put_event, .lost = put_lost, .note = put_note,
	};
	struct braid_ctf *ctf = calloc(1, sizeof(*ctf));
	int err;

	if (!ctf)
		return braid_out_of_memory();
	ctf->folder = folder;
	ctf->dir = -1;
	err = braid_walk_begin(&ctf->walk, source, options, totals);
	ctf->walk.no_order = true;
	if (!err)
		err = begin(ctf);
	if (!err)
		/* States are written by the walk itself, which must then not run ahead. */
		err = options->states ? braid_walk_run(&ctf->walk, &ops, ctf) :
					braid_ahead_run(&ctf->walk, &ops, ctf);
	if (!err)
		err = end(ctf);
	free_all(ctf);
	return err;
}

/* The folder ------------------------------------------------------------------------------ */

static void remove_trace(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		unlinkat(fd, entry->d_name, 0);
	if (dir)
		closedir(dir);
	unlinkat(at, name, AT_REMOVEDIR);
}

/* Removes the folder that was made for an export, and the traces in it. */
static void remove_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			remove_trace(dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
	unlinkat(AT_FDCWD, folder, AT_REMOVEDIR);
}

int braid_export_ctf(const char *out, struct braid_source *source,
		     const struct braid_export_options *options,
		     struct braid_export_totals *totals)
{
	char part[PATH_MAX];
	size_t bytes = strlen(out);
	int err;

	while (bytes > 1 && out[bytes - 1] == '/')
		bytes--;
	if (snprintf(part, sizeof(part), "%.*s.part", (int)bytes, out) >= (int)sizeof(part))
		return braid_fail(-ENAMETOOLONG, "the name of the folder is too long");
	/* Foreign files are not removed, so a folder that has some is unchanged. */
	if (unlinkat(AT_FDCWD, out, AT_REMOVEDIR) && errno != ENOENT)
		return braid_fail(-errno, "'%s' cannot be replaced: %s; remove it, or name another folder",
				  out, strerror(errno));
	if (mkdir(part, 0700))
		return errno == EEXIST ?
		       braid_fail(-errno,
				  "'%s' is left from an export that was cut short: remove it", part) :
		       braid_fail(-errno, "cannot create the folder '%s': %s", out, strerror(errno));
	err = write_folder(part, source, options, totals);
	if (!err && rename(part, out))
		err = braid_fail(-errno, "cannot rename '%s' to '%s': %s", part, out,
				 strerror(errno));
	if (err)
		remove_folder(part);
	return err;
}
