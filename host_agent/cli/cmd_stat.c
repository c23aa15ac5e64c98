// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid stat: the accounting of a capture, ring by ring. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/check.h"
#include "host_agent/cli/cli.h"
#include "host_agent/util/error.h"

/* The counts of a ring: its stored account, or those of a walk; or of all together. */
struct row {
	bool known;
	u64 before, written, read, lost, left, after, found;
};

struct totals {
	struct row sums;	/* known: of all rings */
	bool wrong;
	bool unfinished;	/* the recorder was killed, or the file is cut off */
};

struct stat_run {
	bool json;
	const char *buffer;	/* NULL: all */
	bool any;
	struct totals totals;
	struct braid_text out;
};

static const struct braid_option options[] = {
	{ 'j', "json", NULL, BRAID_FLAG(struct stat_run, json), "one JSON object" },
	{ 'B', "buffer", "NAME", BRAID_STRING(struct stat_run, buffer),
	  "only guests' buffers of this name" },
	{ 0 },
};

const struct braid_cli_command braid_command_stat = {
	.name = "stat", .summary = "print the accounting of a capture or a region",
	.run = braid_cmd_stat, .usage = "[--json] [--buffer NAME] FILE|REGION",
	.text =
	"Prints the events written, read, lost and left for each ring, and checks that written = "
	"read + lost + left, and that read equals the number of events in the pages. For a "
	"capture, these count events between the start and the stop of the recording; BEFORE and "
	"AFTER count events that the driver wrote before the start and after the stop. Without "
	"--buffer, tables of the accounts of filters (offered = filtered + written + lost) and "
	"probes follow, if any (\"filters\" and \"probes\" in JSON). For a "
	"region, they count all events since the driver was loaded. For a region, stat also "
	"prints how many kernel addresses in events are unnamed because the guest's symbol table "
	"was full, if any (\"unnamed_symbols\" in JSON), how many stacks are missing because "
	"its table of stacks was full or they could not be walked (\"lost_stacks\"), and for each ring how often and how long "
	"recording was switched off in the guest since its buffer was made, if it was (\"off\", "
	"\"off_times\" and \"off_ns\" in JSON; null where the guest's driver does not say). FILE "
	"may be -, standard input, up to 1 GiB. REGION is a running guest as `tracebraid list` shows it: "
	"the guest's name or the region's file.",
	.options = options, .operands = "@region",
	.status = "0 if everything adds up, 1 if the accounting does not add up or the capture has no end mark.",
	.least = 1, .most = 1, .expected = "one capture or region: 'tracebraid stat FILE'",
};

static void put_u64(struct braid_text *t, u64 value)
{
	braid_text_u64(t, value, 12, ' ');
}

static struct row row_of(const struct braid_ring *ring)
{
	const struct braid_ring_report *r = &ring->report;
	u64 found = ring->walk.events + ring->walk.skipped;

	if (!r->nr_parts)
		return (struct row){ .read = found, .lost = ring->walk.lost, .found = found };
	return (struct row){
		.known = true, .before = r->before, .written = r->read + r->lost + r->left,
		.read = r->read, .lost = r->lost, .left = r->left, .after = r->after,
		.found = found,
	};
}

static void put_known(struct braid_text *t, bool known, u64 value)
{
	if (known)
		put_u64(t, value);
	else
		braid_text_printf(t, "%12s", "?");
}

static void put_numbers(struct braid_text *t, const struct row *row)
{
	put_known(t, row->known, row->before);
	put_known(t, row->known, row->written);
	put_u64(t, row->read);
	put_u64(t, row->lost);
	put_known(t, row->known, row->left);
	put_known(t, row->known, row->after);
	put_u64(t, row->found);
}

/* In JSON unknown counts are null. */
static void json_known(struct braid_text *t, const char *key, bool known, u64 value)
{
	if (known)
		braid_text_printf(t, ",\"%s\":%llu", key, (unsigned long long)value);
	else
		braid_text_printf(t, ",\"%s\":null", key);
}

static void json_numbers(struct braid_text *t, const struct row *row)
{
	json_known(t, "before", row->known, row->before);
	json_known(t, "written", row->known, row->written);
	json_known(t, "read", true, row->read);
	json_known(t, "lost", true, row->lost);
	json_known(t, "left", row->known, row->left);
	json_known(t, "after", row->known, row->after);
}

static void text_row(struct stat_run *s, const struct braid_ring *ring, const struct row *row,
		     const char *why)
{
	struct braid_text *t = &s->out;

	braid_text_printf(t, "%-20s %-10s %03u", ring->stream->name, braid_ring_buffer_name(ring),
			  ring->cpu);
	put_numbers(t, row);
	braid_text_printf(t, "  %s%s\n", !row->known ? "? " : *why ? "✗ " : "✓", why);
}

static void json_row(struct stat_run *s, const struct braid_ring *ring, const struct row *row,
		     const char *why)
{
	struct braid_text *t = &s->out;

	braid_text_puts(t, s->any ? ",\n{" : "{\"rings\":[\n{");
	braid_text_member(t, "stream", ring->stream->name);
	braid_text_printf(t, ",\"incarnation\":\"%016llx\",\"buffer\":%u,\"cpu\":%u",
			  (unsigned long long)ring->stream->incarnation, ring->buffer, ring->cpu);
	braid_text_member(t, "name", braid_ring_buffer_name(ring));
	json_numbers(t, row);
	braid_text_printf(t, ",\"found\":%llu,\"found_lost\":%llu,\"ok\":%s",
			  (unsigned long long)row->found, (unsigned long long)ring->walk.lost,
			  *why ? "false" : "true");
	braid_text_member(t, "why", why);
	braid_text_putc(t, '}');
}

static void cmd_stat_put_row(struct stat_run *s, const struct braid_ring *ring)
{
	struct row row = row_of(ring);
	struct totals *totals = &s->totals;
	struct braid_text why = { 0 };

	totals->wrong |= !braid_check_account(ring, &why);
	if (!row.known && !why.bytes)
		braid_text_puts(&why, "its accounting is missing");
	braid_text_putc(&why, 0);
	if (s->json)
		json_row(s, ring, &row, why.data ? why.data : "");
	else
		text_row(s, ring, &row, why.data ? why.data : "");
	braid_text_free(&why);
	s->any = true;
	totals->unfinished |= ring->stream->unfinished;
	totals->sums.known &= row.known;
	totals->sums.before += row.before;
	totals->sums.written += row.written;
	totals->sums.read += row.read;
	totals->sums.lost += row.lost;
	totals->sums.left += row.left;
	totals->sums.after += row.after;
	totals->sums.found += row.found;
}

/* Accounts of filters and probes ------------------------------------------------------------- */

static void name_account(char name[2 * BRAID_PATTERN_BYTES], const struct braid_account *row)
{
	if (*row->event)
		snprintf(name, 2 * BRAID_PATTERN_BYTES, "%s:%s", row->system, row->event);
	else
		snprintf(name, 2 * BRAID_PATTERN_BYTES, "%u events", row->nr_events);
}

static void text_account(struct braid_text *t, const struct braid_stream *stream,
			 const struct braid_account *row)
{
	const struct braid_filter_account *a = &row->filter;
	bool known = !(row->flags & BRAID_ACCOUNT_UNKNOWN);
	char name[2 * BRAID_PATTERN_BYTES];

	name_account(name, row);
	braid_text_printf(t, "%-20s %-32s", stream->name, name);
	if (row->kind == BRAID_ACCOUNT_PROBE) {
		braid_text_printf(t, "%7s", row->hits.placed ? "yes" : "no");
		put_known(t, known, row->hits.missed);
	} else {
		put_known(t, known, a->offered);
		put_known(t, known, a->filtered);
		put_known(t, known, a->written);
		put_known(t, known, a->lost);
		put_known(t, known, a->unjudged);
	}
	braid_text_putc(t, '\n');
}

static void json_account(struct braid_text *t, const struct braid_stream *stream,
			 const struct braid_account *row)
{
	const struct braid_filter_account *a = &row->filter;
	bool known = !(row->flags & BRAID_ACCOUNT_UNKNOWN);

	braid_text_putc(t, '{');
	braid_text_member(t, "stream", stream->name);
	if (*row->event) {
		braid_text_member(t, "system", row->system);
		braid_text_member(t, "event", row->event);
	} else {
		braid_text_puts(t, ",\"system\":null,\"event\":null");
	}
	if (row->kind == BRAID_ACCOUNT_PROBE) {
		json_known(t, "placed", known, !!row->hits.placed);
		json_known(t, "missed", known, row->hits.missed);
	} else {
		json_known(t, "events", true, row->nr_events);
		json_known(t, "offered", known, a->offered);
		json_known(t, "filtered", known, a->filtered);
		json_known(t, "written", known, a->written);
		json_known(t, "lost", known, a->lost);
		json_known(t, "unjudged", known, a->unjudged);
	}
	braid_text_putc(t, '}');
}

/* In JSON also if there are none. */
static void put_accounts(struct stat_run *s, const struct braid_source *source, u32 kind)
{
	struct braid_text *t = &s->out;
	bool any = false;
	size_t k, j;

	if (s->buffer)
		return;
	if (s->json)
		braid_text_printf(t, ",\"%s\":[",
				  kind == BRAID_ACCOUNT_PROBE ? "probes" : "filters");
	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->accounts[kind].nr; j++) {
			const struct braid_account *row =
				&source->streams[k]->accounts[kind].items[j].row;

			if (s->json)
				braid_text_puts(t, any ? ",\n" : "\n");
			else if (!any && kind == BRAID_ACCOUNT_PROBE)
				braid_text_printf(t, "\n%-20s %-32s%7s%12s\n", "STREAM", "PROBE",
						  "PLACED", "MISSED");
			else if (!any)
				braid_text_printf(t, "\n%-20s %-32s%12s%12s%12s%12s%12s\n",
						  "STREAM", "FILTER OF", "OFFERED", "FILTERED", "WRITTEN",
						  "LOST", "UNJUDGED");
			any = true;
			(s->json ? json_account : text_account)(t, source->streams[k], row);
		}
	if (s->json)
		braid_text_puts(t, any ? "\n]" : "]");
}

/* Why the sums are not those of a whole recording, or "". */
static const char *why_not(const struct totals *totals)
{
	if (totals->unfinished)
		return "the file has no end mark: it is truncated, or the recording was killed or still runs";
	if (totals->wrong)
		return "does not add up";
	return totals->sums.known ? "" : "the accounting of a ring is missing";
}

static void json_totals(struct stat_run *s, const struct braid_source *source)
{
	const struct totals *totals = &s->totals;
	const char *why = why_not(totals);
	struct braid_text *t = &s->out;

	braid_text_puts(t, s->any ? "\n]" : "{\"rings\":[]");
	json_numbers(t, &totals->sums);
	put_accounts(s, source, BRAID_ACCOUNT_FILTER);
	put_accounts(s, source, BRAID_ACCOUNT_PROBE);
	braid_text_printf(t, ",\"found\":%llu,\"known\":%s,\"ok\":%s",
			  (unsigned long long)totals->sums.found,
			  totals->sums.known ? "true" : "false", *why ? "false" : "true");
	braid_text_member(t, "why", why);
	braid_text_puts(t, "}\n");
}

static void put_totals(struct stat_run *s, const struct braid_source *source)
{
	const struct totals *totals = &s->totals;
	const char *why = why_not(totals);
	struct braid_text *t = &s->out;

	if (s->json) {
		json_totals(s, source);
		return;
	}
	braid_text_printf(t, "%-20s %-10s %3s", "total", "", "");
	put_numbers(t, &totals->sums);
	braid_text_printf(t, "  %s%s\n", *why ? "✗ " : "✓", why);
	put_accounts(s, source, BRAID_ACCOUNT_FILTER);
	put_accounts(s, source, BRAID_ACCOUNT_PROBE);
	if (source->faults)
		braid_text_printf(t, "%llu fault%s in the capture; 'tracebraid verify' explains %s.\n",
				  (unsigned long long)source->faults,
				  source->faults == 1 ? "" : "s",
				  source->faults == 1 ? "it" : "each");
}

static bool cmd_stat_want_ring(const struct stat_run *s, const struct braid_ring *ring)
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
			if (cmd_stat_want_ring(s, source->streams[k]->rings[j]))
				cmd_stat_put_row(s, source->streams[k]->rings[j]);
	if (s->buffer && !s->any)
		return braid_fail(-ENOENT, "the capture has no ring of a buffer '%s'", s->buffer);
	put_totals(s, source);
	return s->out.failed ? braid_out_of_memory() : 0;
}

static int stat_file(struct stat_run *s, char *path)
{
	struct braid_source *source = NULL;
	struct braid_progress progress;
	struct braid_source_options options = {
		.progress = braid_progress_show, .progress_arg = &progress,
	};
	int err;

	braid_progress_begin(&progress);
	err = braid_source_open_captures(&source, &path, 1, &options);
	if (!err)
		err = stat_source(s, source);
	braid_progress_end(&progress);
	if (!err)
		fwrite(s->out.data, 1, s->out.bytes, stdout);
	braid_source_free(source);
	braid_text_free(&s->out);
	return err ? err : *why_not(&s->totals) != 0;
}

int braid_cmd_stat(int argc, char **argv)
{
	struct stat_run s = { .totals.sums.known = true };
	char path[256];
	int ret = braid_options_parse(&braid_command_stat, &s, argc, argv);

	if (ret)
		return braid_options_exit(ret);
	ret = braid_cli_target(argv + optind, path);
	if (!ret)
		return braid_stat_region(path, s.json, s.buffer);
	if (ret > 0)
		ret = stat_file(&s, argv[optind]);
	return ret < 0 ? braid_complain() : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
