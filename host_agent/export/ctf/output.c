// SPDX-License-Identifier: GPL-2.0-or-later
/* The folder of an export: its names and ids, made first of all; and its metadata, made last. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "host_agent/export/ctf/ctf.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

/*
 * Each ring has a buffer for a packet and the event by which that gets larger than this; buffers
 * are powers of 2. Larger packets are no faster.
 */
#define MOST_PACKET_BYTES	(120u << 10)
#define LEAST_PACKET_BYTES	(4u << 10)
#define ALL_PACKETS_BYTES	(64u << 20)

int braid_ctf_cannot_write(const struct braid_ctf_output *o, int err)
{
	return braid_fail(err, "cannot write CTF to '%s': %s", o->folder, strerror(-err));
}

int braid_ctf_make_folder(const struct braid_ctf_output *o, const struct braid_ctf_trace *t)
{
	return mkdirat(o->dir, t->folder, 0700) && errno != EEXIST ?
	       braid_ctf_cannot_write(o, -errno) : 0;
}

/* Names and ids --------------------------------------------------------------------------- */

/*
 * The number comes first: babeltrace2 sorts events of one time by their traces' ids. The rest is
 * random: it takes two traces with one id for parts of one.
 */
static void make_uuid(struct braid_ctf_trace *t, u32 number, const u8 random[BRAID_CTF_UUID_BYTES])
{
	u32 first = __builtin_bswap32(number);

	memcpy(t->uuid, random, sizeof(t->uuid));
	memcpy(t->uuid, &first, sizeof(first));
	t->uuid[6] = (t->uuid[6] & 0x0f) | 0x80;	/* version 8: of our own making */
	t->uuid[8] = (t->uuid[8] & 0x3f) | 0x80;
}

/* A folder of the stream's name, with its number if another one has that name. */
static int name_stream(struct braid_ctf_output *o, u32 number, const char *name,
		       const u8 random[BRAID_CTF_UUID_BYTES])
{
	struct braid_ctf_trace *t = &o->traces[number];

	make_uuid(t, number, random);
	t->folder = braid_ctf_paths_add(&o->paths, "", *name ? name : "guest", number);
	return t->folder ? 0 : braid_out_of_memory();
}

static int name_ring(struct braid_ctf_output *o, const struct braid_ring *ring)
{
	const char *buffer = braid_ring_buffer_name(ring);
	char name[BRAID_CTF_NAME_BYTES] = "notes";

	if (ring->cpu != BRAID_RING_NOTES)
		snprintf(name, sizeof(name), "%s_%u", *buffer ? buffer : "trace", ring->cpu);
	o->files[ring->order] = braid_ctf_paths_add(&o->paths,
						    o->traces[ring->stream->number].folder, name,
						    ring->order);
	return o->files[ring->order] ? 0 : braid_out_of_memory();
}

static int name_all(struct braid_ctf_output *o, const struct braid_source *source)
{
	u8 random[BRAID_CTF_UUID_BYTES];
	size_t k, n;
	int err = 0;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return braid_fail(-EIO, "cannot get random numbers for the ids of traces");
	if (!source->nr_streams)
		err = name_stream(o, 0, "host", random);
	for (k = 0; k < source->nr_streams && !err; k++)
		err = name_stream(o, k, source->streams[k]->name, random);
	for (k = 0; k < source->nr_streams; k++)
		for (n = 0; n < source->streams[k]->nr_rings && !err; n++)
			err = name_ring(o, source->streams[k]->rings[n]);
	return err;
}

/*
 * If the capture has wall time, the clocks count from 1970, by its value at the start of the
 * recording, like LTTng's.
 */
static void set_origin(struct braid_ctf_output *o, const struct braid_source *source, bool realtime)
{
	s64 start_ns = source->head.start_host_ns;
	s64 wall_ns;

	o->absolute = source->clocks.realtime.nr_tracks > 0;
	if (!o->absolute || realtime)
		return;
	wall_ns = braid_clock_reading_at(&source->clocks.realtime, start_ns).value;
	if (__builtin_sub_overflow(wall_ns, start_ns, &o->offset_ns) ||
	    o->offset_ns > INT64_MAX / 2 || o->offset_ns < INT64_MIN / 2) {
		o->offset_ns = 0;
		o->absolute = false;
	}
}

int braid_ctf_output_begin(struct braid_ctf_output *o, const struct braid_source *source,
			   bool realtime)
{
	size_t k, j;

	pthread_mutex_init(&o->lock, NULL);
	o->nr_streams = source->nr_streams;
	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->nr_rings; j++)
			if (source->streams[k]->rings[j]->order >= o->nr_rings)
				o->nr_rings = source->streams[k]->rings[j]->order + 1;
	o->packet_bytes = ALL_PACKETS_BYTES / (o->nr_rings + 1);
	if (o->packet_bytes > MOST_PACKET_BYTES)
		o->packet_bytes = MOST_PACKET_BYTES;
	if (o->packet_bytes < LEAST_PACKET_BYTES)
		o->packet_bytes = LEAST_PACKET_BYTES;
	set_origin(o, source, realtime);
	o->most_ns = INT64_MAX - (o->offset_ns > 0 ? o->offset_ns : 0);
	o->traces = calloc(source->nr_streams + 1, sizeof(*o->traces));
	o->files = calloc(o->nr_rings + 1, sizeof(*o->files));
	return o->traces && o->files ? name_all(o, source) : braid_out_of_memory();
}

void braid_ctf_output_clear(struct braid_ctf_output *o)
{
	u32 k, class;

	for (k = 0; k < o->nr_met; k++)
		braid_text_free(&o->met[k].metadata);
	o->nr_met = 0;
	for (k = 0; k < o->nr_streams; k++)
		for (class = 0; class < BRAID_CTF_CLASSES; class++)
			o->traces[k].classes[class].met = false;
}

void braid_ctf_output_free(struct braid_ctf_output *o)
{
	if (o->traces)
		braid_ctf_output_clear(o);
	free(o->met);
	free(o->traces);
	free(o->files);
	braid_ctf_paths_free(&o->paths);
	pthread_mutex_destroy(&o->lock);
}

/* What was met ---------------------------------------------------------------------------- */

static int take_event(struct braid_ctf_output *o, struct braid_ctf_event *e, u32 stream)
{
	struct braid_ctf_met met = {
		.stream = stream, .class = e->class - o->traces[stream].classes, .id = e->id,
		.metadata = e->metadata,
	};

	if (e->unfit)
		return 0;
	if (braid_array_push(o->met, o->nr_met, o->met_capacity, met))
		return braid_out_of_memory();
	e->metadata = (struct braid_text){ 0 };
	return 0;
}

static u32 stream_of(const struct braid_ctf_output *o, const struct braid_ctf_event *e)
{
	return ((const char *)e->class - (const char *)o->traces) / sizeof(*o->traces);
}

int braid_ctf_output_take(struct braid_ctf *ctf)
{
	struct braid_ctf_output *o = ctf->output;
	struct braid_ctf_event *e;
	int err = 0;
	u32 k;

	pthread_mutex_lock(&o->lock);
	for (k = 0; k < o->nr_rings; k++)
		if (ctf->rings[k].class)
			ctf->rings[k].class->met = true;
	for (k = 0; ctf->states && k < braid_slices_states(ctf->slices)->nr_vcpus; k++)
		if (ctf->states[k].class)
			ctf->states[k].class->met = true;
	for (k = 0; k < ctf->nr_types; k++)
		for (e = ctf->types[k]; e && !err; e = e->next)
			err = take_event(o, e, stream_of(o, e));
	pthread_mutex_unlock(&o->lock);
	return err;
}

static int by_place(const void *a, const void *b)
{
	const struct braid_ctf_met *x = a, *y = b;

	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* A trace's classes, and the events in them: from *at on. */
static bool put_classes(struct braid_text *to, const struct braid_ctf_output *o, u32 stream,
			size_t *at)
{
	bool any = false;
	u32 class;

	for (class = 0; class < BRAID_CTF_CLASSES; class++) {
		if (!o->traces[stream].classes[class].met)
			continue;
		any = true;
		braid_ctf_describe_class(to, class);
		for (; *at < o->nr_met && o->met[*at].stream == stream &&
		       o->met[*at].class == class; (*at)++)
			/* Several threads may have met one. */
			if (!*at || by_place(&o->met[*at - 1], &o->met[*at]))
				braid_text_put(to, o->met[*at].metadata.data,
					       o->met[*at].metadata.bytes);
	}
	return any;
}

static int write_metadata(const struct braid_ctf_output *o, const struct braid_ctf_trace *t,
			  const struct braid_text *text)
{
	char path[BRAID_CTF_PATH_BYTES];
	int err;

	if (text->failed)
		return braid_out_of_memory();
	snprintf(path, sizeof(path), "%s/metadata", t->folder);
	braid_auto_fd int fd = openat(o->dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	err = fd < 0 ? -errno : braid_write_all(fd, text->data, text->bytes);
	return err ? braid_ctf_cannot_write(o, err) : 0;
}

/* Readers take a folder without any trace for something else: one is there in any case. */
int braid_ctf_output_end(struct braid_ctf *ctf)
{
	static const struct braid_stream none = { .kind = BRAID_STREAM_HOST, .name = "host" };
	const struct braid_source *source = ctf->walk.source;
	struct braid_ctf_output *o = ctf->output;
	struct braid_text text = { 0 };
	bool any = false;
	size_t at = 0;
	int err = 0;
	u32 k;

	if (o->nr_met)
		qsort(o->met, o->nr_met, sizeof(*o->met), by_place);
	for (k = 0; k < o->nr_streams && !err; k++) {
		text.bytes = 0;
		braid_ctf_describe_trace(ctf, &text, &o->traces[k], source->streams[k]);
		if (!put_classes(&text, o, k, &at))
			continue;
		any = true;
		err = write_metadata(o, &o->traces[k], &text);
	}
	if (!any && !err) {
		text.bytes = 0;
		braid_ctf_describe_trace(ctf, &text, o->traces,
					 o->nr_streams ? source->streams[0] : &none);
		err = braid_ctf_make_folder(o, o->traces);
		err = err ? err : write_metadata(o, o->traces, &text);
	}
	braid_text_free(&text);
	return err;
}
