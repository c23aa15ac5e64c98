// SPDX-License-Identifier: GPL-2.0-or-later
/* What streams, buffers and rings are in CTF: traces, stream classes, streams; made when first met. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/ctf/ctf.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

static int cannot_write(const struct braid_ctf *ctf, int err)
{
	return braid_fail(err, "cannot write CTF to '%s': %s", ctf->folder, strerror(-err));
}

/*
 * The number comes first: babeltrace2 sorts events of one time by their traces' ids. The rest is
 * random: it takes two traces with one id for parts of one.
 */
static int make_uuid(struct braid_ctf_trace *t, u32 number)
{
	u32 first = __builtin_bswap32(number);

	if (getrandom(t->uuid, sizeof(t->uuid), 0) != sizeof(t->uuid))
		return -EIO;
	memcpy(t->uuid, &first, sizeof(first));
	t->uuid[6] = (t->uuid[6] & 0x0f) | 0x80;	/* version 8: of our own making */
	t->uuid[8] = (t->uuid[8] & 0x3f) | 0x80;
	return 0;
}

/* A folder of the stream's name, with its number if another one has that name. */
static int make_folder(struct braid_ctf *ctf, struct braid_ctf_trace *t,
		       const struct braid_stream *stream)
{
	char name[BRAID_CTF_NAME_BYTES], path[sizeof(t->folder)];
	u32 number = stream->number;

	braid_ctf_file_name(name, stream->name);
	snprintf(path, sizeof(path), "%s", *name ? name : "guest");
	while (mkdirat(ctf->dir, path, 0700)) {
		if (errno != EEXIST)
			return cannot_write(ctf, -errno);
		snprintf(path, sizeof(path), "%s-%u", *name ? name : "guest", number++);
	}
	strcpy(t->folder, path);
	return 0;
}

static int meet_trace(struct braid_ctf *ctf, const struct braid_stream *stream,
		      struct braid_ctf_trace **out)
{
	struct braid_ctf_trace *t = ctf->traces[stream->number];
	int err;
	u32 k;

	*out = t;
	if (t)
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return braid_out_of_memory();
	*out = ctf->traces[stream->number] = t;
	for (k = 0; k < BRAID_CTF_CLASSES; k++)
		t->classes[k].trace = t;
	for (k = 0; k < BRAID_CTF_NR_TASKS; k++)
		t->tasks[k].from = 1;
	err = make_uuid(t, stream->number);
	if (err)
		return braid_fail(err, "cannot get random numbers for the id of a trace");
	braid_ctf_describe_trace(ctf, t, stream);
	return make_folder(ctf, t, stream);
}

/* Creates the stream's file, named @file or, if another one has that name, with its id too. */
static int ctf_rings_make_file(struct braid_ctf *ctf, struct braid_ctf_ring *r, const char *file)
{
	const char *folder = r->class->trace->folder;
	char name[BRAID_CTF_NAME_BYTES];
	u64 number = r->id;
	int fd;

	braid_ctf_file_name(name, file);
	snprintf(r->path, sizeof(r->path), "%s/%s", folder, name);
	while ((fd = openat(ctf->dir, r->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC,
			    0600)) < 0) {
		if (errno != EEXIST)
			return cannot_write(ctf, -errno);
		snprintf(r->path, sizeof(r->path), "%s/%s-%llu", folder, name,
			 (unsigned long long)number++);
	}
	if (ctf->nr_open < BRAID_CTF_MOST_OPEN) {
		r->fd = fd;
		ctf->nr_open++;
	} else {
		close(fd);
	}
	return 0;
}

static int meet(struct braid_ctf *ctf, struct braid_ctf_ring *r, const struct braid_stream *stream,
		u32 class, const char *file)
{
	struct braid_ctf_trace *t;
	int err = meet_trace(ctf, stream, &t);

	if (err)
		return err;
	r->class = &t->classes[class];
	r->fd = -1;
	if (!r->class->described)
		braid_ctf_describe_class(t, class);
	r->class->described = true;
	return t->metadata.failed ? braid_out_of_memory() : ctf_rings_make_file(ctf, r, file);
}

int braid_ctf_meet_ring(struct braid_ctf *ctf, const struct braid_ring *ring)
{
	struct braid_ctf_ring *r = &ctf->rings[ring->order];
	const char *buffer = braid_ring_buffer_name(ring);
	char name[BRAID_CTF_NAME_BYTES];

	r->id = ring->order;
	r->cpu = ring->cpu;
	if (ring->cpu == BRAID_RING_NOTES)
		return meet(ctf, r, ring->stream, BRAID_CTF_NOTES, "notes");
	snprintf(name, sizeof(name), "%s_%u", *buffer ? buffer : "trace", ring->cpu);
	return meet(ctf, r, ring->stream, 1 + ring->buffer % BRAID_MAX_BUFFERS, name);
}

int braid_ctf_meet_states(struct braid_ctf *ctf, u32 vcpu)
{
	struct braid_slices_vcpu v = braid_slices_vcpu(ctf->slices, vcpu);
	struct braid_ctf_ring *r = &ctf->states[vcpu];
	char name[BRAID_CTF_NAME_BYTES];

	r->id = v.number;
	r->cpu = v.number;
	snprintf(name, sizeof(name), "tracebraid-states_%u", v.number);
	return meet(ctf, r, v.guest, BRAID_CTF_STATES, name);
}

/* Readers take a folder without any trace for something else. */
static int meet_one(struct braid_ctf *ctf)
{
	static const struct braid_stream none = { .kind = BRAID_STREAM_HOST, .name = "host" };
	const struct braid_source *source = ctf->walk.source;
	struct braid_ctf_trace *t;
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if (ctf->traces[k])
			return 0;
	return meet_trace(ctf, source->nr_streams ? source->streams[0] : &none, &t);
}

int braid_ctf_write_metadata(struct braid_ctf *ctf)
{
	char path[BRAID_CTF_PATH_BYTES];
	size_t k;
	int err = meet_one(ctf);

	/* Of no streams there is one trace. */
	for (k = 0; k <= ctf->walk.source->nr_streams && !err; k++) {
		struct braid_ctf_trace *t = ctf->traces[k];

		if (!t)
			continue;
		if (t->metadata.failed)
			return braid_out_of_memory();
		snprintf(path, sizeof(path), "%s/metadata", t->folder);
		braid_auto_fd int fd = openat(ctf->dir, path,
					      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

		err = fd < 0 ? -errno :
		      braid_write_all(fd, t->metadata.data, t->metadata.bytes);
		if (err)
			return cannot_write(ctf, err);
	}
	return err;
}

static void free_ring(struct braid_ctf_ring *r)
{
	if (r->class && r->fd >= 0)
		close(r->fd);
	free(r->data);
}

void braid_ctf_free_rings(struct braid_ctf *ctf)
{
	size_t k;

	for (k = 0; ctf->rings && k < ctf->nr_rings; k++)
		free_ring(&ctf->rings[k]);
	free(ctf->rings);
	for (k = 0; ctf->states && k < braid_slices_nr_vcpus(ctf->slices); k++)
		free_ring(&ctf->states[k]);
	free(ctf->states);
	for (k = 0; ctf->traces && k <= ctf->walk.source->nr_streams; k++) {
		if (ctf->traces[k])
			braid_text_free(&ctf->traces[k]->metadata);
		free(ctf->traces[k]);
	}
	free(ctf->traces);
}
