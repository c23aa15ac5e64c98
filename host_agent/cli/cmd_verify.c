// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid verify: everything about a capture that can be checked. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/check.h"
#include "host_agent/cli/cli.h"
#include "host_agent/format/format.h"
#include "host_agent/trace/merge.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/analysis.h"

#define MAX_LINES	1000	/* of faults printed */

struct verify {
	bool verbose;
	u64 *stream_notes;	/* by stream */
	u64 faults;
	u64 events;
	u64 unknown;		/* events with undefined ids */
	s64 last_ns;
	bool any;
	struct braid_source *source;
	struct braid_format *format;
};

static const struct braid_option options[] = {
	{ 'v', "verbose", NULL, BRAID_FLAG(struct verify, verbose),
	  "also print notes: observations that are not faults" },
	{ 0 },
};

const struct braid_cli_command braid_command_verify = {
	.name = "verify", .summary = "check a capture or a region for faults",
	.run = braid_cmd_verify, .usage = "[-v] FILE|REGION",
	.text =
	"Checks a capture: chunks and checksums, order of times and of sequence numbers, formats, "
	"ids, clock samples, accounting; and whether each event of a guest happened while its vCPU "
	"executed, if the host recorded kvm_entry and kvm_exit. Prints one line for each fault, and counts for each "
	"stream. FILE may be -, standard input, up to 1 GiB. REGION is a running guest as "
	"`tracebraid list` shows it: the guest's name or the region's file.",
	.options = options, .operands = "@region",
	.status = "0 if there is no fault, 1 if there is one.",
	.least = 1, .most = 1, .expected = "one capture or region: 'tracebraid verify FILE'",
};

static void print_fault(void *arg, const struct braid_stream *stream, const char *line)
{
	struct verify *v = arg;

	if (v->faults++ < MAX_LINES)
		printf("%s%s%s\n", stream ? stream->name : "", stream ? ": " : "", line);
}

/* Findings that are not faults. */
__attribute__((__format__(printf, 3, 4)))
static void cmd_verify_note(struct verify *v, const struct braid_stream *s, const char *format, ...)
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
		braid_source_faulty(v->source, s, "invalid clock samples: %u", s->clock.nr_refused);
	if (s->clock.kind == BRAID_CLOCK_NOMINAL || s->clock.kind == BRAID_CLOCK_PAIRS)
		cmd_verify_note(v, s, "timestamps have no error bound");
	else if (braid_clock_epochs(&s->clock) > 1)
		cmd_verify_note(v, s, "its clock has %u epochs; 'tracebraid clock' shows why",
				braid_clock_epochs(&s->clock));
}

static void check_symbols(struct verify *v, const struct braid_stream *s)
{
	braid_auto_free char *text = NULL;
	const char *why = braid_stream_kallsyms(s, &text);

	if (why)
		braid_source_faulty(v->source, s, "its kernel symbols cannot be decompressed: %s", why);
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
			return braid_out_of_memory();
		if (!info->parsed && !s->formats[k].format_bytes)
			cmd_verify_note(v, s, "event %s:%s is printed as bytes: its format has no fields",
					info->system, braid_format_label(info));
		else if (!info->parsed)
			braid_source_faulty(v->source, s, "event %s:%s, id %u: %s", info->system,
					    braid_format_label(info), info->id, info->why);
		else if (!info->printable)
			cmd_verify_note(v, s, "event %s:%s is printed field by field: %s", info->system,
					braid_format_label(info), info->why);
	}
	return 0;
}

/* Guests' clocks against the host's kvm events. */
static int take_windows(void *arg, struct braid_stream *s, const struct braid_windows_found *found)
{
	const char *why = braid_analysis_not_judged(found);
	struct verify *v = arg;

	if (why)
		cmd_verify_note(v, s, "its clock could not be compared with the host's events: %s", why);
	if (found->outside)
		braid_source_faulty(v->source, s, "%llu of %llu events are outside the times in which their vCPU executed, by up to %llu ns more than their error bounds (at %lld.%09lld): its clock is wrong",
				    (unsigned long long)found->outside,
				    (unsigned long long)found->judged,
				    (unsigned long long)found->worst_ns,
				    (long long)(found->worst_at_ns / 1000000000),
				    (long long)(found->worst_at_ns % 1000000000));
	return 0;
}

static int check_item(struct verify *v, const struct braid_item *item)
{
	const struct braid_event_type_info *info;

	if (v->any && item->host_ns < v->last_ns)
		braid_source_faulty(v->source, item->stream, "the merged timeline goes back in time");
	v->any = true;
	v->last_ns = item->host_ns;
	if (item->kind != BRAID_ITEM_EVENT)
		return 0;
	v->events++;
	if (!item->raw && item->payload_bytes < (item->stream->ids_with_pid ? sizeof(u16) :
						 sizeof(struct braid_record)))
		braid_source_faulty(v->source, item->stream,
				    "CPU %u, event %llu: too short to be a record",
				    item->ring->cpu, (unsigned long long)item->seq);
	info = braid_format_event(v->format, item);
	if (!info)
		return braid_out_of_memory();
	if (!info->known && !v->unknown++)
		braid_source_faulty(v->source, item->stream,
				    "CPU %u, event %llu: id %u is not in the event directory (only the first such event is listed)",
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
		cmd_verify_note(v, s, "%llu event%s newer than its stored accounting: the recording was killed",
				(unsigned long long)late, late == 1 ? " is" : "s are");
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
	const struct braid_walk_options quiet = { 0 };
	size_t k;
	int err;

	v->stream_notes = calloc(v->source->nr_streams + 1, sizeof(*v->stream_notes));
	if (!v->stream_notes)
		return braid_out_of_memory();
	err = braid_format_open(&v->format, v->source);
	if (err)
		return err;
	for (k = 0; k < v->source->nr_streams; k++) {
		check_clock(v, v->source->streams[k]);
		check_symbols(v, v->source->streams[k]);
		err = err ?: check_formats(v, v->source->streams[k]);
	}
	err = err ?: braid_analysis_judge(v->source, &quiet, take_windows, v);
	err = err ?: check_items(v);
	for (k = 0; !err && k < v->source->nr_streams; k++)
		check_accounts(v, v->source->streams[k]);
	for (k = 0; !err && k < v->source->nr_streams; k++)
		print_stream(v, v->source->streams[k]);
	braid_format_close(v->format);
	return err;
}

static int verify_file(struct verify *v, char *path)
{
	struct braid_progress progress;
	struct braid_source_options options = {
		.fault = print_fault, .fault_arg = v, .check_types = true,
		.progress = braid_progress_show, .progress_arg = &progress,
	};
	int err;

	braid_progress_begin(&progress);
	err = braid_source_open_captures(&v->source, &path, 1, &options);
	if (!err)
		err = verify_source(v);
	braid_progress_end(&progress);
	if (!err && v->faults > MAX_LINES)
		printf("... and %llu more\n", (unsigned long long)v->faults - MAX_LINES);
	if (!err)
		printf("%llu event%s in %zu stream%s: %llu fault%s\n", (unsigned long long)v->events,
		       v->events == 1 ? "" : "s", v->source->nr_streams,
		       v->source->nr_streams == 1 ? "" : "s", (unsigned long long)v->faults,
		       v->faults == 1 ? "" : "s");
	braid_source_free(v->source);
	free(v->stream_notes);
	return err ? err : v->faults > 0;
}

int braid_cmd_verify(int argc, char **argv)
{
	struct verify v = { 0 };
	char path[256];
	int ret = braid_options_parse(&braid_command_verify, &v, argc, argv);

	if (ret)
		return braid_options_exit(ret);
	ret = braid_cli_target(argv + optind, path);
	if (!ret)
		return braid_verify_region(path);
	if (ret > 0)
		ret = verify_file(&v, argv[optind]);
	return ret < 0 ? braid_complain() : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
