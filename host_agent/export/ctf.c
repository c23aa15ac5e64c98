// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes a merged trace as CTF 1.8: a graph of libbabeltrace2's from the walk to its CTF writer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/ctf.h"
#include "host_agent/export/form_ctf.h"
#include "host_agent/util/error.h"

static const bt_component_class_sink *writer;

/*
 * The last export that failed. Its graph is kept until the process ends: a failed writer frees
 * memory twice on destruction, and aborts when it can't write metadata either.
 */
static struct braid_ctf *abandoned;

static int no_memory(void)
{
	return braid_out_of_memory();
}

int braid_export_ctf_prepare(void)
{
	const bt_plugin *plugin = NULL;
	struct rlimit limit;

	/* The writer holds a file open for each ring. */
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (writer)
		return 0;
	if (!bt_plugin_find("ctf", BT_FALSE, BT_FALSE, BT_TRUE, BT_TRUE, BT_FALSE, &plugin))
		writer = bt_plugin_borrow_sink_component_class_by_name_const(plugin, "fs");
	if (writer)
		bt_component_class_sink_get_ref(writer);
	bt_plugin_put_ref(plugin);
	return writer ? 0 :
	       braid_fail(-ENOENT, "no CTF writer: libbabeltrace2's plugin 'ctf' is missing; 'apt-get install libbabeltrace2-0' installs it");
}

/* The graph ------------------------------------------------------------------------------- */

static bt_component_class_initialize_method_status
begin_component(bt_self_component_source *self, bt_self_component_source_configuration *unused,
		const bt_value *params, void *data)
{
	struct braid_ctf *ctf = data;

	(void)unused;
	(void)params;
	ctf->component = bt_self_component_source_as_self_component(self);
	bt_self_component_set_data(ctf->component, ctf);
	return bt_self_component_source_add_output_port(self, "out", NULL, NULL) ?
	       BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_MEMORY_ERROR :
	       BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

static bt_message_iterator_class_initialize_method_status
begin_iterator(bt_self_message_iterator *self, bt_self_message_iterator_configuration *unused,
	       bt_self_component_port_output *port)
{
	struct braid_ctf *ctf =
		bt_self_component_get_data(bt_self_message_iterator_borrow_component(self));

	(void)unused;
	(void)port;
	ctf->iterator = self;
	return BT_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

/* The walk pushes and the sink pulls: it consumes the queue, and gets "try again". */
static bt_message_iterator_class_next_method_status
take_queued(bt_self_message_iterator *self, bt_message_array_const messages, uint64_t capacity,
	    uint64_t *count)
{
	struct braid_ctf *ctf =
		bt_self_component_get_data(bt_self_message_iterator_borrow_component(self));

	*count = 0;
	while (*count < capacity && ctf->nr_taken < ctf->nr_queued)
		messages[(*count)++] = ctf->queue[ctf->nr_taken++];
	if (*count)
		return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
	return ctf->ended ? BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_END :
			    BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_AGAIN;
}

static bt_component_class_source *make_source_class(void)
{
	bt_message_iterator_class *iterator = bt_message_iterator_class_create(take_queued);
	bt_component_class_source *class = NULL;

	if (iterator && !bt_message_iterator_class_set_initialize_method(iterator, begin_iterator))
		class = bt_component_class_source_create("walk", iterator);
	bt_message_iterator_class_put_ref(iterator);
	if (class && bt_component_class_source_set_initialize_method(class, begin_component))
		BT_COMPONENT_CLASS_SOURCE_PUT_REF_AND_RESET(class);
	return class;
}

static int add_components(struct braid_ctf *ctf, const bt_component_class_source *class,
			  const bt_value *params)
{
	const bt_component_source *source;
	const bt_component_sink *sink;

	if (bt_graph_add_source_component_with_initialize_method_data(
		    ctf->graph, class, "walk", NULL, ctf, BT_LOGGING_LEVEL_NONE, &source) ||
	    bt_graph_add_sink_component(ctf->graph, writer, "writer", params,
					BT_LOGGING_LEVEL_NONE, &sink) ||
	    bt_graph_connect_ports(
		    ctf->graph,
		    bt_component_source_borrow_output_port_by_index_const(source, 0),
		    bt_component_sink_borrow_input_port_by_index_const(sink, 0), NULL))
		return -EIO;
	return 0;
}

static int make_graph(struct braid_ctf *ctf, const char *folder)
{
	bt_component_class_source *class = make_source_class();
	bt_value *params = bt_value_map_create();
	int err;

	ctf->graph = bt_graph_create(0);
	if (class && params && ctf->graph &&
	    !bt_value_map_insert_string_entry(params, "path", folder) &&
	    !bt_value_map_insert_bool_entry(params, "quiet", BT_TRUE) &&
	    /* 2.1 writes CTF 2 by default, which it refuses with graphs like ours; 2.0 lacks the
	       parameter. */
	    (bt_version_get_minor() < 1 ||
	     !bt_value_map_insert_string_entry(params, "ctf-version", "1")))
		err = add_components(ctf, class, params);
	else
		err = no_memory();
	bt_value_put_ref(params);
	bt_component_class_source_put_ref(class);
	return err;
}

/* What an item's ring is in CTF, its stream begun. */
static int begin_ring(struct braid_ctf *ctf, const struct braid_ring *ring,
		      struct braid_ctf_ring **out)
{
	bool met = ctf->rings[ring->order].stream;

	*out = braid_ctf_ring(ctf, ring);
	if (!*out)
		return no_memory();
	return met ? 0 : braid_ctf_begin_ring(ctf, *out);
}

/* The walk -------------------------------------------------------------------------------- */

static int put_event(void *arg, const struct braid_item *item,
		     const struct braid_event_type_info *info)
{
	struct braid_ctf *ctf = arg;
	const struct braid_ctf_event *e;
	struct braid_ctf_ring *r;
	bt_message *message;
	int err = begin_ring(ctf, item->ring, &r);

	if (err)
		return err;
	e = braid_ctf_event(ctf, r->buffer, item, info);
	if (!e)
		return no_memory();
	err = braid_ctf_begin_event(ctf, r, e->class, ctf->walk.ns,
				    item->payload_bytes, &message);
	if (err)
		return err;
	if (braid_ctf_fill(ctf, bt_message_event_borrow_event(message), e, item)) {
		bt_message_put_ref(message);
		return no_memory();
	}
	return braid_ctf_queue(ctf, message, item->payload_bytes);
}

static int put_note(void *arg, const struct braid_item *item)
{
	struct braid_ctf *ctf = arg;
	struct braid_ctf_ring *r;
	bt_message *message;
	bt_field *payload;
	int err = begin_ring(ctf, item->ring, &r);

	if (!err)
		err = braid_ctf_begin_event(ctf, r, r->buffer->note, ctf->walk.ns,
					    item->payload_bytes, &message);
	if (err)
		return err;
	payload = bt_event_borrow_payload_field(bt_message_event_borrow_event(message));
	if (braid_ctf_string(ctf, bt_field_structure_borrow_member_field_by_index(payload, 0),
			     (const char *)item->payload, item->payload_bytes)) {
		bt_message_put_ref(message);
		return no_memory();
	}
	return braid_ctf_queue(ctf, message, item->payload_bytes);
}

/*
 * In CTF a packet has the number of events lost since the previous one. So a loss is an empty
 * packet at the time when it was detected, and never the ring's first: readers take that one's
 * count for a loss of unknown size. CTF cannot express such a loss, which counts as one.
 */
static int put_lost(void *arg, const struct braid_item *item)
{
	struct braid_ctf *ctf = arg;
	struct braid_ctf_ring *r;
	bt_message *message;
	u64 before, now;
	int err = begin_ring(ctf, item->ring, &r);

	if (err)
		return err;
	before = r->now;
	now = braid_ctf_tell_time(ctf, r, ctf->walk.ns);
	if (!r->had_packets) {
		before = now;
		err = braid_ctf_open_packet(ctf, r, now);
	}
	if (!err && r->packet)
		err = braid_ctf_close_packet(ctf, r, before);
	if (err)
		return err;
	message = bt_message_discarded_events_create_with_default_clock_snapshots(
		ctf->iterator, r->stream, before, now);
	if (message && item->lost_before != BRAID_LOST_SOME)
		bt_message_discarded_events_set_count(message, item->lost_before);
	err = braid_ctf_queue(ctf, message, 0);
	if (!err)
		err = braid_ctf_open_packet(ctf, r, now);
	return err ? err : braid_ctf_close_packet(ctf, r, now);
}

static int end_rings(struct braid_ctf *ctf)
{
	int err = braid_ctf_states_end(ctf);
	u32 k;

	for (k = 0; k < ctf->nr_rings && !err; k++)
		err = braid_ctf_end_ring(ctf, &ctf->rings[k]);
	ctf->ended = true;
	return err ? err : braid_ctf_drain(ctf);
}

/* The export ------------------------------------------------------------------------------ */

/*
 * If the capture has wall time, the clocks count from 1970, by its value at the start of the
 * recording, like LTTng's.
 */
static void tell_origin(struct braid_ctf *ctf)
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

static int begin(struct braid_ctf *ctf, const char *folder)
{
	const struct braid_source *source = ctf->walk.source;
	size_t k, j;
	int err;

	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->nr_rings; j++)
			if (source->streams[k]->rings[j]->order >= ctf->nr_rings)
				ctf->nr_rings = source->streams[k]->rings[j]->order + 1;
	ctf->traces = calloc(source->nr_streams + 1, sizeof(*ctf->traces));
	ctf->rings = calloc(ctf->nr_rings + 1, sizeof(*ctf->rings));
	if (!ctf->traces || !ctf->rings)
		return no_memory();
	tell_origin(ctf);
	err = make_graph(ctf, folder);
	if (!err)
		err = braid_ctf_drain(ctf);
	return err || !ctf->walk.options->states ? err : braid_ctf_states_begin(ctf);
}

/* Whether this many more bytes can be written, always true for 0; -errno. */
static int find_room(const char *folder, u64 bytes)
{
	char path[PATH_MAX];
	int fd, err;

	if (!bytes)
		return 0;
	if (snprintf(path, sizeof(path), "%s/room", folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = -posix_fallocate(fd, 0, bytes);
	close(fd);
	unlink(path);
	return err;
}

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

/* An export that failed; says why where the library does not. */
static int fail(struct braid_ctf *ctf, const char *folder, int err)
{
	if (err == -EIO) {
		err = find_room(folder, BRAID_CTF_PACKET_BYTES);
		if (!err)
			err = -EIO;
		braid_fail(err, "cannot write CTF to '%s': %s", folder, err == -EIO ?
			   "libbabeltrace2 failed without a reason" : strerror(-err));
	}
	remove_folder(folder);
	abandoned = ctf;
	return err;
}

/*
 * The writer creates each trace's metadata when the graph ends, and aborts the program if there is
 * no space: so check the space first.
 */
static int end(struct braid_ctf *ctf, const char *folder)
{
	int err = end_rings(ctf);

	if (err)
		return err;
	err = find_room(folder, ctf->metadata_bytes);
	if (err)
		return braid_fail(err, "cannot write CTF to '%s': %s", folder, strerror(-err));
	braid_ctf_free_classes(ctf);
	bt_graph_put_ref(ctf->graph);
	return 0;
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
		return no_memory();
	err = braid_walk_begin(&ctf->walk, source, options, totals);
	if (!err)
		err = begin(ctf, folder);
	if (!err)
		err = braid_walk_run(&ctf->walk, &ops, ctf);
	if (!err)
		err = end(ctf, folder);
	braid_walk_end(&ctf->walk);
	braid_slices_free(&ctf->slices);
	braid_text_free(&ctf->text);
	if (err)
		return fail(ctf, folder, err);
	free(ctf);
	return 0;
}

int braid_export_ctf(const char *out, struct braid_source *source,
		     const struct braid_export_options *options,
		     struct braid_export_totals *totals)
{
	char part[PATH_MAX];
	size_t bytes = strlen(out);
	int err = braid_export_ctf_prepare();

	if (err)
		return err;
	while (bytes > 1 && out[bytes - 1] == '/')
		bytes--;
	if (snprintf(part, sizeof(part), "%.*s.part", (int)bytes, out) >= (int)sizeof(part))
		return braid_fail(-ENAMETOOLONG, "the name of the folder is too long");
	/* Foreign files are not removed, so a folder that has some is unchanged. */
	if (unlinkat(AT_FDCWD, out, AT_REMOVEDIR) && errno != ENOENT)
		return braid_fail(-errno, "'%s' can't be replaced: %s; remove it, or name another folder",
				  out, strerror(errno));
	if (mkdir(part, 0700))
		return errno == EEXIST ?
		       braid_fail(-errno,
				  "'%s' is left from an export that was cut short: remove it", part) :
		       braid_fail(-errno, "cannot make the folder '%s': %s", part, strerror(errno));
	err = write_folder(part, source, options, totals);
	if (!err && rename(part, out)) {
		err = braid_fail(-errno, "cannot rename '%s' to '%s': %s", part, out,
				 strerror(errno));
		remove_folder(part);
	}
	return err;
}
