// SPDX-License-Identifier: GPL-2.0-or-later
/* What rings are in CTF: streams, with a file each; made when first met. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host_agent/export/ctf/ctf.h"
#include "host_agent/util/error.h"

/* A walk's first ring of a stream. */
static int meet_stream(struct braid_ctf *ctf, const struct braid_stream *stream)
{
	struct braid_ctf_tasks **tasks = &ctf->tasks[stream->number];
	u32 k;

	if (*tasks)
		return 0;
	*tasks = calloc(1, sizeof(**tasks));
	if (!*tasks)
		return braid_out_of_memory();
	for (k = 0; k < BRAID_CTF_NR_TASKS; k++)
		(*tasks)->all[k].from = 1;
	return braid_ctf_make_folder(ctf->output, &ctf->output->traces[stream->number]);
}

static int meet(struct braid_ctf *ctf, struct braid_ctf_ring *r, const struct braid_stream *stream,
		u32 class, const char *path)
{
	int fd, err = meet_stream(ctf, stream);

	if (err)
		return err;
	fd = openat(ctf->output->dir, path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return braid_ctf_cannot_write(ctf->output, -errno);
	r->trace = &ctf->output->traces[stream->number];
	r->class = &ctf->output->traces[stream->number].classes[class];
	r->path = path;
	r->fd = fd;
	if (ctf->nr_open < ctf->most_open) {
		ctf->nr_open++;
	} else {
		r->fd = -1;
		close(fd);
	}
	return 0;
}

int braid_ctf_meet_ring(struct braid_ctf *ctf, const struct braid_ring *ring)
{
	struct braid_ctf_ring *r = &ctf->rings[ring->order];

	r->id = ring->order;
	r->cpu = ring->cpu;
	return meet(ctf, r, ring->stream, ring->cpu == BRAID_RING_NOTES ? BRAID_CTF_NOTES :
		    1 + ring->buffer % BRAID_MAX_BUFFERS, ctf->output->files[ring->order]);
}

int braid_ctf_meet_states(struct braid_ctf *ctf, u32 vcpu)
{
	const struct braid_vcpu *v = &braid_slices_states(ctf->slices)->vcpus[vcpu];
	struct braid_ctf_ring *r = &ctf->states[vcpu];
	char name[BRAID_CTF_NAME_BYTES];
	const char *path;

	r->id = v->number;
	r->cpu = v->number;
	snprintf(name, sizeof(name), "tracebraid-states_%u", v->number);
	path = braid_ctf_paths_add(&ctf->output->paths,
				   ctf->output->traces[v->guest->number].folder, name, v->number);
	return path ? meet(ctf, r, v->guest, BRAID_CTF_STATES, path) : braid_out_of_memory();
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

	for (k = 0; ctf->rings && k < ctf->output->nr_rings; k++)
		free_ring(&ctf->rings[k]);
	free(ctf->rings);
	for (k = 0; ctf->states && k < braid_slices_states(ctf->slices)->nr_vcpus; k++)
		free_ring(&ctf->states[k]);
	free(ctf->states);
	for (k = 0; ctf->tasks && k < ctf->output->nr_streams; k++)
		free(ctf->tasks[k]);
	free(ctf->tasks);
}
