// SPDX-License-Identifier: GPL-2.0-or-later
/* Recovers regions as the command does, and reads the capture. */
#include <stdio.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/trace/source.h"
#include "host_agent/transport/post_mortem.h"
#include "host_agent/transport/vm_mirror.h"
#include "tests/unit/need.h"
#include "tests/unit/recovery.h"

static void count_capture(struct recovery *r, const char *capture)
{
	char *path = (char *)capture;
	struct braid_source *source;
	size_t s, k;

	NEED(!braid_source_open_captures(&source, &path, 1, NULL));
	for (s = 0; s < source->nr_streams; s++)
		for (k = 0; k < source->streams[s]->nr_rings; k++)
			while (braid_ring_next(source->streams[s]->rings[k]) > 0)
				r->events += source->streams[s]->rings[k]->item.kind ==
					     BRAID_ITEM_EVENT;
	r->faults = source->faults;
	braid_source_free(source);
}

static void hear(void *arg, const char *name, const char *line)
{
	struct recovery *r = arg;

	(void)name;
	r->notes++;
	snprintf(r->last_note, sizeof(r->last_note), "%s", line);
}

static void take(struct recovery *r, struct braid_post_mortem_region *region,
		 struct braid_live_sink *sink)
{
	struct braid_region_options o = {
		.path = "dead", .name = "fake", .sink = sink, .dead_ns = braid_host_clock_ns(),
		.say = hear, .say_arg = r,
	};
	struct braid_region_source *source;

	r->missing_pages += region->missing_pages;
	r->running |= region->running;
	o.endpoint = braid_post_mortem_endpoint(region);
	NEED(o.endpoint);
	r->err = braid_region_source_open(&source, &o);
	if (r->err)
		return;
	NEED(braid_region_source_poll(source) >= 0);
	NEED(!braid_region_source_finish(source));
	r->status = braid_region_source_status(source);
	NEED(r->status.sums.written ==
	     r->status.sums.read_before + r->status.sums.read + r->status.sums.lost_before +
	     r->status.sums.lost + r->status.sums.left);
	braid_region_source_close(source);
}

struct recovery recovery_run(const char *path, const char *capture, const char *folder)
{
	const struct braid_post_mortem_options o = { .folder = folder };
	struct braid_chunk_file head = {
		.version_major = BRAID_CAPTURE_MAJOR, .version_minor = BRAID_CAPTURE_MINOR,
		.clock = "mono_raw",
	};
	struct braid_post_mortem_regions regions = { 0 };
	struct braid_live_sink sink = { .next_stream = 1 };
	struct recovery r = { 0 };
	int pid, vmm = sscanf(path, BRAID_VM_SCHEME "%d", &pid) == 1;
	int fd = vmm ? -1 : braid_post_mortem_take(path);
	size_t k;

	if (vmm)
		r.err = braid_post_mortem_open_vm(&regions, pid, path);
	else
		r.err = fd < 0 ? fd : braid_post_mortem_open(&regions, fd, path, &o);
	r.nr_regions = regions.nr;
	r.unplaced = regions.unplaced;
	r.cut_off = regions.cut_off;
	if (!r.err) {
		braid_host_clock_pair(&head.start_host_ns, &head.start_realtime_ns);
		NEED(!braid_capture_create(&sink.capture, capture, &head));
		for (k = 0; k < regions.nr; k++)
			take(&r, &regions.items[k], &sink);
		NEED(!braid_capture_finish(sink.capture));
		count_capture(&r, capture);
	}
	braid_post_mortem_free(&regions);
	if (fd >= 0)
		close(fd);
	return r;
}
