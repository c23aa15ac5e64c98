// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid verify: everything about a capture that can be checked. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/check.h"
#include "host_agent/cli/cli.h"
#include "host_agent/format/format.h"
#include "host_agent/merge/merge.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

#define MAX_LINES	1000	/* of faults printed */

static const char usage[] =
	"Usage: tracebraid verify [-v] FILE|REGION\n"
	"Checks a capture: chunks and checksums, order of times and of sequence numbers, formats,\n"
	"ids, clock samples, accounting. Prints one line for each fault, and the contents of each\n"
	"stream. Exits with 1 if there is a fault. FILE may be -, standard input, up to 1 GiB.\n"
	"REGION is a running guest as `tracebraid list` shows it: the guest's name or the region's\n"
	"file.\n"
	"\n"
	"  -v, --verbose       also print notes: peculiarities that are not faults\n"
	"      --help          this text\n";

struct verify {
	bool verbose;
	u64 *stream_notes;	/* by stream */
	u64 faults;
	u64 events;
	u64 unknown;		/* events of ids that nobody told of */
	s64 last_ns;
	bool any;
	struct braid_source *source;
	struct braid_format *format;
};

static void print_fault(void *arg, const struct braid_stream *stream, const char *line)
{
	struct verify *v = arg;

	if (v->faults++ < MAX_LINES)
		printf("%s%s%s\n", stream ? stream->name : "", stream ? ": " : "", line);
}

/* What is no fault. */
__attribute__((__format__(printf, 3, 4)))
static void note(struct verify *v, const struct braid_stream *s, const char *format, ...)
{
	va_list args;

	v->stream_notes[s->number]++;
	if (!v->verbose)
		return;
	printf("%s: note: ", s->name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

static void check_clock(struct verify *v, const struct braid_stream *s)
{
	if (s->kind != BRAID_STREAM_GUEST)
		return;
	if (s->clock.nr_refused)
		braid_source_faulty(v->source, s, "%u clock samples are invalid",
				    s->clock.nr_refused);
	if (s->clock.kind == BRAID_CLOCK_NOMINAL || s->clock.kind == BRAID_CLOCK_PAIRS)
		note(v, s, "timestamps have no error bound");
	else if (braid_clock_epochs(&s->clock) > 1)
		note(v, s, "its clock has %u epochs; 'tracebraid clock' shows why",
		     braid_clock_epochs(&s->clock));
}

static void check_symbols(struct verify *v, const struct braid_stream *s)
{
	braid_auto_free char *text = NULL;
	const char *why = braid_stream_kallsyms(s, &text);

	if (why)
		braid_source_faulty(v->source, s, "its kernel symbols can't be decompressed: %s", why);
}

static int check_formats(struct verify *v, const struct braid_stream *s)
{
	const struct braid_event_type_info *info;
	size_t k;

	for (k = 0; k < s->nr_formats; k++) {
		if (s->formats[k].buffer >= BRAID_MAX_BUFFERS) {
			braid_source_faulty(v->source, s, "the format of event id %u refers to nonexistent buffer %u",
					    s->formats[k].id, s->formats[k].buffer);
			continue;
		}
		info = braid_format_by_number(v->format, s, k);
		if (!info)
			return braid_fail(-ENOMEM, "out of memory");
		if (!info->parsed && !s->formats[k].format_bytes)
			note(v, s, "event %s:%s is printed as bytes: its format has no fields",
			     info->system, braid_format_label(info));
		else if (!info->parsed)
			braid_source_faulty(v->source, s, "event %s:%s, id %u: %s", info->system,
					    braid_format_label(info), info->id, info->why);
		else if (!info->printable)
			note(v, s, "event %s:%s is printed field by field: %s", info->system,
			     braid_format_label(info), info->why);
	}
	return 0;
}

static int check_item(struct verify *v, const struct braid_item *item)
{
	const struct braid_event_type_info *info;

	if (v->any && item->host_ns < v->last_ns)
		braid_source_faulty(v->source, item->stream, "the merge goes back in time");
	v->any = true;
	v->last_ns = item->host_ns;
	if (item->kind != BRAID_ITEM_EVENT)
		return 0;
	v->events++;
	if (!item->raw && item->payload_bytes < sizeof(struct braid_record))
		braid_source_faulty(v->source, item->stream,
				    "CPU %u, event %llu: too short to be a record",
				    item->ring->cpu, (unsigned long long)item->seq);
	info = braid_format_event(v->format, item);
	if (!info)
		return braid_fail(-ENOMEM, "out of memory");
	if (!info->known && !v->unknown++)
		braid_source_faulty(v->source, item->stream,
				    "CPU %u, event %llu: id %u is in no directory (the first such)",
				    item->ring->cpu, (unsigned long long)item->seq, info->id);
	return 0;
}

static int check_items(struct verify *v)
{
	const struct braid_item *item;
	struct braid_merge *merge;
	int ret;

	ret = braid_merge_begin(&merge, v->source, NULL, NULL);
	if (ret)
		return ret;
	while ((ret = braid_merge_next(merge, &item)) > 0) {
		ret = check_item(v, item);
		if (ret)
			break;
	}
	braid_merge_end(merge);
	return ret;
}

static void check_accounts(struct verify *v, const struct braid_stream *s)
{
	struct braid_text why = { 0 };
	u64 late = 0;
	size_t k;

	for (k = 0; k < s->nr_rings; k++) {
		const struct braid_ring *ring = s->rings[k];

		why.bytes = 0;
		if (ring->report.nr_parts && s->unfinished)
			late += ring->walk.late;
		if (ring->cpu == BRAID_RING_NOTES || braid_check_account(ring, &why))
			continue;
		braid_text_putc(&why, 0);
		braid_source_faulty(v->source, s, "buffer %u, CPU %u: %s", ring->buffer, ring->cpu,
				    why.data ? why.data : "");
	}
	if (late)
		note(v, s, "%llu events are newer than its stored accounting: the recording was killed",
		     (unsigned long long)late);
	braid_text_free(&why);
}

/* "web1: 8000 events in 2 rings, 12 formats, 3 notes (-v prints them)" */
static void print_stream(const struct verify *v, const struct braid_stream *s)
{
	u64 events = 0, notes = v->stream_notes[s->number];
	size_t k, rings = 0;

	for (k = 0; k < s->nr_rings; k++) {
		if (s->rings[k]->cpu == BRAID_RING_NOTES)
			continue;
		events += s->rings[k]->walk.events;
		rings++;
	}
	printf("%s: %llu event%s in %zu ring%s, %zu format%s", s->name, (unsigned long long)events,
	       events == 1 ? "" : "s", rings, rings == 1 ? "" : "s", s->nr_formats,
	       s->nr_formats == 1 ? "" : "s");
	if (notes)
		printf(", %llu note%s%s", (unsigned long long)notes, notes == 1 ? "" : "s",
		       v->verbose ? "" : " (-v prints them)");
	putchar('\n');
}

static int verify_source(struct verify *v)
{
	size_t k;
	int err;

	v->stream_notes = calloc(v->source->nr_streams + 1, sizeof(*v->stream_notes));
	if (!v->stream_notes)
		return braid_fail(-ENOMEM, "out of memory");
	err = braid_format_open(&v->format, v->source);
	if (err)
		return err;
	for (k = 0; k < v->source->nr_streams; k++) {
		check_clock(v, v->source->streams[k]);
		check_symbols(v, v->source->streams[k]);
		err = err ?: check_formats(v, v->source->streams[k]);
	}
	err = err ?: check_items(v);
	for (k = 0; !err && k < v->source->nr_streams; k++)
		check_accounts(v, v->source->streams[k]);
	for (k = 0; !err && k < v->source->nr_streams; k++)
		print_stream(v, v->source->streams[k]);
	braid_format_close(v->format);
	return err;
}

static int verify_file(char *path, bool verbose)
{
	struct verify v = { .verbose = verbose };
	struct braid_progress progress;
	struct braid_source_options options = {
		.fault = print_fault, .fault_arg = &v,
		.progress = braid_progress_show, .progress_arg = &progress,
	};
	int err;

	braid_progress_begin(&progress);
	err = braid_source_open_captures(&v.source, &path, 1, &options);
	if (!err)
		err = verify_source(&v);
	braid_progress_end(&progress);
	if (!err && v.faults > MAX_LINES)
		printf("... and %llu more\n", (unsigned long long)v.faults - MAX_LINES);
	if (!err)
		printf("%llu event%s in %zu stream%s: %llu fault%s\n", (unsigned long long)v.events,
		       v.events == 1 ? "" : "s", v.source->nr_streams,
		       v.source->nr_streams == 1 ? "" : "s", (unsigned long long)v.faults,
		       v.faults == 1 ? "" : "s");
	braid_source_free(v.source);
	free(v.stream_notes);
	return err ? err : v.faults > 0;
}

int braid_cmd_verify(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	bool verbose = false;
	char path[256];
	int option, ret;

	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "vh", long_options, NULL)) != -1) {
		if (option == 'v') {
			verbose = true;
			continue;
		}
		if (option != 'h')
			return braid_complain_option("verify", argc, argv);
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	}
	if (optind + 1 != argc) {
		braid_fail(-EINVAL, "verify: expected one capture or region: 'tracebraid verify FILE'");
		return braid_complain();
	}
	if (braid_cli_confine_for(argv + optind))
		return braid_complain();
	ret = braid_cli_target(argv[optind], path);
	if (!ret)
		return braid_verify_region(path);
	if (ret > 0)
		ret = verify_file(argv[optind], verbose);
	return ret < 0 ? braid_complain() : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
