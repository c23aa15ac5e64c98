// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes a merged trace as CTF 1.8: a folder with a trace for each stream. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/ctf/ctf.h"
#include "host_agent/export/ctf/form.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"

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

static int ctf_put_event(void *arg, const struct braid_item *item,
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

static int ctf_put_note(void *arg, const struct braid_item *item)
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

static int ctf_put_lost(void *arg, const struct braid_item *item)
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

static int ctf_begin(struct braid_ctf *ctf)
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
	return ctf->walk.options->states ? braid_ctf_states_begin(ctf) : 0;
}

static int ctf_end(struct braid_ctf *ctf)
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
	braid_slices_free(ctf->slices);
	braid_ctf_names_free(&ctf->names);
	free(ctf);
}

static int write_folder(const char *folder, int dir, struct braid_source *source,
			const struct braid_walk_options *options,
			struct braid_walk_totals *totals)
{
	static const struct braid_walk_ops ops = {
		.event = ctf_put_event, .lost = ctf_put_lost, .note = ctf_put_note,
	};
	struct braid_ctf *ctf = calloc(1, sizeof(*ctf));
	int err;

	if (!ctf)
		return braid_out_of_memory();
	ctf->folder = folder;
	ctf->dir = dir;
	err = braid_walk_begin(&ctf->walk, source, options, totals);
	ctf->walk.no_order = true;
	if (!err)
		err = ctf_begin(ctf);
	if (!err)
		err = braid_walk_run(&ctf->walk, &ops, ctf);
	if (!err)
		err = ctf_end(ctf);
	free_all(ctf);
	return err;
}

/* The folder ------------------------------------------------------------------------------ */

/* The folder that an export makes. It has another name until it is complete. */
struct output {
	const char *out;
	int above;		/* the folder that it is in */
	char name[256], part[256 + 8];
	int dir;		/* it itself */
	struct stat made;
};

/* Opens a folder in one, to list it; NULL: there is none. */
static DIR *open_in(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

/* The next name in a folder, or NULL. */
static const char *next_in(DIR *dir)
{
	const struct dirent *entry;

	do
		entry = dir ? readdir(dir) : NULL;
	while (entry && (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")));
	return entry ? entry->d_name : NULL;
}

static void remove_trace(int at, const char *name)
{
	DIR *dir = open_in(at, name);

	while ((name = next_in(dir)))
		unlinkat(dirfd(dir), name, 0);
	if (dir)
		closedir(dir);
}

/* Removes the folder that was made for an export, and the traces in it. */
static void remove_folder(const struct output *o)
{
	DIR *dir = open_in(o->dir, ".");
	const char *name;

	while ((name = next_in(dir))) {
		remove_trace(dirfd(dir), name);
		unlinkat(dirfd(dir), name, AT_REMOVEDIR);
	}
	if (dir)
		closedir(dir);
	braid_folder_remove(o->above, o->part, &o->made);
}

/* Whether a name in a folder is of a kind and mode as an export makes them. */
static bool is_as_made(int at, const char *name, mode_t mode)
{
	struct stat st;

	return !fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) &&
	       (st.st_mode & ~S_ISGID) == mode && st.st_uid == geteuid();
}

static bool is_trace(int at, const char *name)
{
	DIR *dir = is_as_made(at, name, S_IFDIR | 0700) ? open_in(at, name) : NULL;
	bool is = dir;

	while (is && (name = next_in(dir)))
		is = is_as_made(dirfd(dir), name, S_IFREG | 0600);
	if (dir)
		closedir(dir);
	return is;
}

/* A folder left by an export that was killed: it holds nothing but traces. */
static bool is_left_over(const struct output *o)
{
	bool is = is_as_made(o->above, o->part, S_IFDIR | 0700);
	DIR *dir = is ? open_in(o->above, o->part) : NULL;
	const char *name;

	while (is && (name = next_in(dir)))
		is = is_trace(dirfd(dir), name);
	if (dir)
		closedir(dir);
	return is;
}

static int open_made(struct output *o)
{
	o->dir = openat(o->above, o->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (o->dir >= 0 && !fstat(o->dir, &o->made))
		return 0;
	return braid_fail(-errno, "cannot create the folder '%s': %s", o->out, strerror(errno));
}

static void remove_left_over(struct output *o)
{
	if (!open_made(o))
		remove_folder(o);
	if (o->dir >= 0)
		close(o->dir);
	o->dir = -1;
}

static int make_folder(struct output *o)
{
	/* Foreign files are not removed, so a folder that has some is unchanged. */
	if (unlinkat(o->above, o->name, AT_REMOVEDIR) && errno != ENOENT)
		return braid_fail(-errno, "'%s' cannot be replaced: %s; remove it, or name another folder",
				  o->out, strerror(errno));
	if (is_left_over(o))
		remove_left_over(o);
	if (!mkdirat(o->above, o->part, 0700))
		return open_made(o);
	return errno == EEXIST ?
	       braid_fail(-errno, "cannot create the folder '%s': the name for it while it is unfinished is taken; name another folder",
			  o->out) :
	       braid_fail(-errno, "cannot create the folder '%s': %s", o->out, strerror(errno));
}

/* The folder that it is in, and its name there, without trailing slashes. */
static int find_folder(struct output *o)
{
	char path[PATH_MAX];
	size_t bytes = strlen(o->out);

	while (bytes > 1 && o->out[bytes - 1] == '/')
		bytes--;
	if (snprintf(path, sizeof(path), "%.*s", (int)bytes, o->out) >= (int)sizeof(path) ||
	    snprintf(o->name, sizeof(o->name), "%s", braid_folder_name(path)) >= (int)sizeof(o->name))
		return braid_fail(-ENAMETOOLONG, "the name of the folder is too long");
	snprintf(o->part, sizeof(o->part), "%s.part", o->name);
	o->above = braid_folder_open(path);
	return o->above >= 0 ? 0 : braid_fail(o->above, "cannot create the folder '%s': %s", o->out,
					      o->above == -EISDIR ? "it has no name" :
					      strerror(-o->above));
}

static int complete(const struct output *o)
{
	int err = braid_folder_rename(o->above, o->part, o->name, &o->made);

	if (err == -ESTALE)
		return braid_fail(err, "cannot complete '%s': the unfinished folder was removed or replaced; does another process write to it?",
				  o->out);
	return err ? braid_fail(err, "cannot create the folder '%s': %s", o->out, strerror(-err)) : 0;
}

int braid_export_ctf(const char *out, struct braid_source *source,
		     const struct braid_walk_options *options,
		     struct braid_walk_totals *totals)
{
	struct output o = { .out = out, .dir = -1 };
	int err = find_folder(&o);

	if (err)
		return err;
	err = make_folder(&o);
	if (!err)
		err = write_folder(out, o.dir, source, options, totals);
	if (!err)
		err = complete(&o);
	if (err && o.dir >= 0)
		remove_folder(&o);
	if (o.dir >= 0)
		close(o.dir);
	close(o.above);
	return err;
}
