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
#include "host_agent/trace/merge.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"

#define SURVEY_ITEMS	16384u

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

/* Traces in a folder ----------------------------------------------------------------------- */

/* Opens a subfolder for listing. Return: NULL if it cannot be opened. */
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

/* Removes the traces in an export's folder. */
static void empty_folder(int at)
{
	DIR *dir = open_in(at, ".");
	const char *name;

	while ((name = next_in(dir))) {
		remove_trace(dirfd(dir), name);
		unlinkat(dirfd(dir), name, AT_REMOVEDIR);
	}
	if (dir)
		closedir(dir);
}

/* The export ------------------------------------------------------------------------------ */

static const struct braid_walk_ops ops = {
	.event = ctf_put_event, .lost = ctf_put_lost, .note = ctf_put_note,
};

static struct braid_ctf *ctf_new(struct braid_ctf_output *output, u32 cpus)
{
	struct braid_ctf *ctf = calloc(1, sizeof(*ctf));

	if (!ctf)
		return NULL;
	ctf->output = output;
	ctf->packet_bytes = output->packet_bytes;
	ctf->most_ns = output->most_ns;
	ctf->most_open = BRAID_CTF_MOST_OPEN / (cpus ? cpus : 1);
	ctf->tasks = calloc((size_t)output->nr_streams + 1, sizeof(*ctf->tasks));
	ctf->rings = calloc((size_t)output->nr_rings + 1, sizeof(*ctf->rings));
	return ctf;
}

static void ctf_free(struct braid_ctf *ctf)
{
	if (!ctf)
		return;
	braid_ctf_free_events(ctf);
	braid_ctf_free_rings(ctf);
	braid_walk_end(&ctf->walk);
	braid_slices_free(ctf->slices);
	braid_ctf_names_free(&ctf->names);
	free(ctf);
}

/* Writes all that a walk, which is begun, delivers. */
static int ctf_run(struct braid_ctf *ctf)
{
	u32 k;
	int err;

	if (!ctf->tasks || !ctf->rings)
		return braid_out_of_memory();
	ctf->walk.no_order = true;
	err = ctf->walk.options->states ? braid_ctf_states_begin(ctf) : 0;
	if (!err)
		err = braid_walk_run(&ctf->walk, &ops, ctf);
	if (!err)
		err = braid_ctf_states_end(ctf);
	for (k = 0; k < ctf->output->nr_rings && !err; k++)
		err = braid_ctf_end_ring(ctf, &ctf->rings[k]);
	return err ? err : braid_ctf_output_take(ctf);
}

static int make_group(void *arg, struct braid_group *group)
{
	struct braid_ctf *ctf = ctf_new(arg, group->options.cpus);
	int err = ctf ? braid_group_begin(group, &ctf->walk) : braid_out_of_memory();

	if (!err) {
		ctf->group = group;
		err = ctf_run(ctf);
	}
	ctf_free(ctf);
	return err;
}

static int survey_item(struct braid_ctf *ctf, const struct braid_item *item)
{
	struct braid_ctf_trace *t = &ctf->output->traces[item->stream->number];
	const struct braid_event_type_info *info;
	int ret;

	if (item->kind != BRAID_ITEM_EVENT)
		return 0;
	info = braid_format_event(ctf->walk.format, item);
	ret = info ? braid_select_event(ctf->walk.select, item, info) : braid_out_of_memory();
	if (ret > 0 && !braid_ctf_event(ctf, &t->classes[1 + item->ring->buffer % BRAID_MAX_BUFFERS],
					item, info))
		ret = braid_out_of_memory();
	return ret < 0 ? ret : 0;
}

/*
 * The event types that the capture begins with get the ids that are short. What is wrong there is
 * reported when its turn comes.
 */
static int survey(struct braid_ctf *ctf)
{
	struct braid_source *source = ctf->walk.source;
	void (*fault)(void *arg, const struct braid_stream *stream, const char *line) =
		source->fault;
	struct braid_merge *merge = NULL;
	u64 faults = source->faults;
	const struct braid_item *item;
	u32 k;
	int ret;

	source->fault = NULL;
	ctf->surveys = true;
	ret = braid_merge_begin(&merge, source, braid_select_ring, (void *)ctf->walk.options);
	for (k = 0; k < SURVEY_ITEMS && !ret; k++) {
		ret = braid_merge_next(merge, &item);
		if (ret <= 0)
			break;
		ret = survey_item(ctf, item);
	}
	braid_merge_end(merge);
	braid_ctf_free_events(ctf);
	braid_source_rewind(source);
	ctf->surveys = false;
	source->fault = fault;
	source->faults = faults;
	return ret;
}

/* On several CPUs, if that is possible, or else by one walk. */
static int write_streams(struct braid_ctf *ctf)
{
	const struct braid_walk_options *options = ctf->walk.options;
	struct braid_ctf_output *o = ctf->output;
	/* States need all rings. */
	int ret = options->states ? 0 : braid_groups_run(ctf->walk.source, options,
							 ctf->walk.totals, make_group, o);

	if (ret)
		return ret < 0 ? ret : 0;
	braid_ctf_output_clear(o);
	empty_folder(o->dir);
	return ctf_run(ctf);
}

static int write_folder(const char *folder, int dir, struct braid_source *source,
			const struct braid_walk_options *options,
			struct braid_walk_totals *totals)
{
	struct braid_ctf_output output = { .folder = folder, .dir = dir };
	struct braid_ctf *ctf = NULL;
	int err = braid_ctf_output_begin(&output, source, options->realtime);

	if (!err) {
		ctf = ctf_new(&output, 1);
		err = ctf ? braid_walk_begin(&ctf->walk, source, options, totals) :
			    braid_out_of_memory();
	}
	if (!err)
		err = survey(ctf);
	if (!err)
		err = write_streams(ctf);
	if (!err)
		err = braid_ctf_output_end(ctf);
	ctf_free(ctf);
	braid_ctf_output_free(&output);
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

/* Removes the folder that was made for an export, and the traces in it. */
static void remove_folder(const struct output *o)
{
	empty_folder(o->dir);
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
