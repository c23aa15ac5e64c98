// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid stat: the accounting of a capture, ring by ring. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/check.h"
#include "host_agent/cli/cli.h"
#include "host_agent/util/error.h"

static const char usage[] =
	"Usage: tracebraid stat [--json] [--buffer NAME] FILE|REGION\n"
	"Prints for each ring the events written, read, lost and left, and whether they add\n"
	"up: written = read + lost + left, and read is what a walk over the pages finds.\n"
	"Of a capture they are those between the start and the stop of the recording; BEFORE\n"
	"and AFTER are what the ring's driver wrote before and after that. Of a region they are\n"
	"those of the driver's whole life.\n"
	"Exits with 1 when something does not add up. REGION is a guest's, as `tracebraid list`\n"
	"shows it: the guest's name, or the region's file.\n"
	"\n"
	"      --json          one JSON object\n"
	"      --buffer NAME   only guests' buffers of this name\n"
	"      --help          this text\n";

struct totals {
	u64 before, written, read, lost, left, after, found;
	bool unknown;		/* a ring's end was not told */
	bool wrong;
};

struct stat_run {
	bool json;
	const char *buffer;	/* NULL: all */
	bool any;
	struct totals totals;
	struct braid_text out;
};

static void put_u64(struct braid_text *t, u64 value)
{
	braid_text_u64(t, value, 12, ' ');
}

static void text_row(struct stat_run *s, const struct braid_ring *ring, const char *why)
{
	const struct braid_ring_report *report = &ring->report;
	struct braid_text *t = &s->out;

	braid_text_printf(t, "%-20s %-10s %03u", ring->stream->name, braid_ring_buffer_name(ring),
			  ring->cpu);
	if (ring->report.nr_parts) {
		put_u64(t, report->before);
		put_u64(t, report->read + report->lost + report->left);
		put_u64(t, report->read);
		put_u64(t, report->lost);
		put_u64(t, report->left);
		put_u64(t, report->after);
	} else {
		braid_text_printf(t, "%12s%12s", "?", "?");
		put_u64(t, ring->walk.events + ring->walk.skipped);
		put_u64(t, ring->walk.lost);
		braid_text_printf(t, "%12s%12s", "?", "?");
	}
	put_u64(t, ring->walk.events + ring->walk.skipped);
	braid_text_printf(t, "  %s%s\n", *why ? "✗ " : ring->report.nr_parts ? "✓" : "?", why);
}

static void json_row(struct stat_run *s, const struct braid_ring *ring, const char *why)
{
	const struct braid_ring_report *report = &ring->report;
	struct braid_text *t = &s->out;

	braid_text_puts(t, s->any ? ",\n{\"stream\":" : "{\"rings\":[\n{\"stream\":");
	braid_text_json(t, ring->stream->name, strlen(ring->stream->name));
	braid_text_printf(t, ",\"incarnation\":\"%016llx\",\"buffer\":%u,\"cpu\":%u,\"name\":",
			  (unsigned long long)ring->stream->incarnation, ring->buffer, ring->cpu);
	braid_text_json(t, braid_ring_buffer_name(ring), strlen(braid_ring_buffer_name(ring)));
	if (ring->report.nr_parts)
		braid_text_printf(t, ",\"before\":%llu,\"written\":%llu,\"read\":%llu,\"lost\":%llu,\"left\":%llu,\"after\":%llu",
				  (unsigned long long)report->before,
				  (unsigned long long)(report->read + report->lost + report->left),
				  (unsigned long long)report->read, (unsigned long long)report->lost,
				  (unsigned long long)report->left, (unsigned long long)report->after);
	braid_text_printf(t, ",\"found\":%llu,\"found_lost\":%llu,\"ok\":%s,\"why\":",
			  (unsigned long long)(ring->walk.events + ring->walk.skipped),
			  (unsigned long long)ring->walk.lost, *why ? "false" : "true");
	braid_text_json(t, why, strlen(why));
	braid_text_putc(t, '}');
}

static void put_row(struct stat_run *s, const struct braid_ring *ring)
{
	const struct braid_ring_report *report = &ring->report;
	struct totals *totals = &s->totals;
	struct braid_text why = { 0 };

	totals->wrong |= !braid_check_account(ring, &why);
	braid_text_putc(&why, 0);
	if (s->json)
		json_row(s, ring, why.data ? why.data : "");
	else
		text_row(s, ring, why.data ? why.data : "");
	braid_text_free(&why);
	s->any = true;
	totals->unknown |= !ring->report.nr_parts;
	totals->before += report->before;
	totals->written += report->read + report->lost + report->left;
	totals->read += report->read;
	totals->lost += report->lost;
	totals->left += report->left;
	totals->after += report->after;
	totals->found += ring->walk.events + ring->walk.skipped;
}

static void put_totals(struct stat_run *s, const struct braid_source *source)
{
	const struct totals *totals = &s->totals;
	struct braid_text *t = &s->out;

	if (s->json) {
		braid_text_printf(t, "%s],\"before\":%llu,\"written\":%llu,\"read\":%llu,\"lost\":%llu,\"left\":%llu,\"after\":%llu,\"found\":%llu,\"known\":%s,\"ok\":%s}\n",
				  s->any ? "\n" : "{\"rings\":[", (unsigned long long)totals->before,
				  (unsigned long long)totals->written,
				  (unsigned long long)totals->read, (unsigned long long)totals->lost,
				  (unsigned long long)totals->left, (unsigned long long)totals->after,
				  (unsigned long long)totals->found,
				  totals->unknown ? "false" : "true", totals->wrong ? "false" : "true");
		return;
	}
	braid_text_printf(t, "%-20s %-10s %3s", "total", "", "");
	put_u64(t, totals->before);
	put_u64(t, totals->written);
	put_u64(t, totals->read);
	put_u64(t, totals->lost);
	put_u64(t, totals->left);
	put_u64(t, totals->after);
	put_u64(t, totals->found);
	braid_text_printf(t, "  %s\n", totals->wrong ? "✗ does not add up" :
			  totals->unknown ? "? " : "✓");
	if (totals->unknown)
		braid_text_puts(t, "The recording did not end by itself: what was written and left is not known for rings with a ?.\n");
	if (source->faults)
		braid_text_printf(t, "%llu fault%s in the capture; 'tracebraid verify' explains %s.\n",
				  (unsigned long long)source->faults,
				  source->faults == 1 ? "" : "s",
				  source->faults == 1 ? "it" : "each");
}

static bool want_ring(const struct stat_run *s, const struct braid_ring *ring)
{
	return ring->cpu != BRAID_RING_NOTES &&
	       (!s->buffer || !strcmp(s->buffer, braid_ring_buffer_name(ring)));
}

static int stat_source(struct stat_run *s, struct braid_source *source)
{
	size_t k, j;
	int err;

	err = braid_walk_rings(source);
	if (err)
		return err;
	if (!s->json)
		braid_text_printf(&s->out, "%-20s %-10s %3s%12s%12s%12s%12s%12s%12s%12s\n", "STREAM",
				  "BUFFER", "CPU", "BEFORE", "WRITTEN", "READ", "LOST", "LEFT", "AFTER",
				  "FOUND");
	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->nr_rings; j++)
			if (want_ring(s, source->streams[k]->rings[j]))
				put_row(s, source->streams[k]->rings[j]);
	if (s->buffer && !s->any)
		return braid_fail(-ENOENT, "no ring in the capture is of a buffer '%s'", s->buffer);
	put_totals(s, source);
	return s->out.failed ? braid_fail(-ENOMEM, "out of memory") : 0;
}

static int stat_file(char *path, bool json, const char *buffer)
{
	struct stat_run s = { .json = json, .buffer = buffer };
	struct braid_source *source = NULL;
	struct braid_progress progress;
	struct braid_source_options options = {
		.progress = braid_progress_show, .progress_arg = &progress,
	};
	int err;

	braid_progress_begin(&progress);
	err = braid_source_open_captures(&source, &path, 1, &options);
	if (!err)
		err = stat_source(&s, source);
	braid_progress_end(&progress);
	if (!err)
		fwrite(s.out.data, 1, s.out.bytes, stdout);
	braid_source_free(source);
	braid_text_free(&s.out);
	return err ? err : s.totals.wrong;
}

int braid_cmd_stat(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "buffer", required_argument, NULL, 'B' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *buffer = NULL;
	char path[256];
	bool json = false;
	int option, ret;

	optind = 1;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "jB:h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (option != 'j' && option != 'B')
			return braid_complain_option("stat", argv[optind - 1]);
		if (option == 'B')
			buffer = optarg;
		else
			json = true;
	}
	if (optind + 1 != argc) {
		braid_fail(-EINVAL, "stat: one capture or region, please: 'tracebraid stat FILE'");
		return braid_complain();
	}
	if (braid_cli_confine_for(argv + optind))
		return braid_complain();
	ret = braid_cli_target(argv[optind], path);
	if (!ret)
		return braid_stat_region(path, json, buffer);
	if (ret > 0)
		ret = stat_file(argv[optind], json, buffer);
	return ret < 0 ? braid_complain() : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
