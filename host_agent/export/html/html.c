// SPDX-License-Identifier: GPL-2.0-or-later
/* The timeline as a page: rows of a table, and the spans that they make. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/export.h"
#include "host_agent/export/html/flame.h"
#include "host_agent/export/html/form.h"
#include "host_agent/export/html/spans.h"
#include "host_agent/export/html/states.h"
#include "host_agent/export/text/line.h"
#include "host_agent/trace/epochs.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/walk.h"

#define BLOCK_ROWS		8192u		/* the page unpacks this many texts at once ... */
#define BLOCK_TEXT_BYTES	(1u << 20)	/* ... or about this many bytes */
#define MAX_ROWS		(20u << 20)	/* more than that no browser holds */

enum { TIME, LANE, KIND, TASK, BOUND, COLUMNS };	/* of a chunk of rows */

struct html_export {
	struct braid_line_export x;	/* its walk; out: the texts of the block's rows */
	struct braid_html_out page;
	struct braid_html_names *names;
	struct braid_html_lanes lanes;
	struct braid_html_spans *spans;
	struct braid_html_states *states;
	struct braid_text columns[COLUMNS];
	u64 block_rows;
	u64 rows;
	s64 base_ns;			/* of the first row; all times are relative to it */
	s64 last_ns;
	struct braid_window *windows;	/* by the clock that is shown; sorted, apart */
	size_t nr_windows;
	u64 *last_bound;		/* by lane, as in its column */
	u32 *types;			/* names + 1 by an event type's number; 0: not seen yet */
	size_t nr_types;
};

static int flush_block(struct html_export *h)
{
	u64 rows = h->block_rows;
	int err;

	h->block_rows = 0;
	if (!rows)
		return 0;
	if (h->x.out.failed)
		return braid_out_of_memory();
	err = braid_html_names_flush(h->names, &h->page);
	if (!err)
		err = braid_html_out_columns(&h->page, "rows", rows, h->columns, COLUMNS);
	if (!err)
		err = braid_html_out_chunk(&h->page, "texts", h->x.out.data, h->x.out.bytes);
	h->x.out.bytes = 0;
	return err;
}

/* A row whose text was appended. */
static int html_put_row(struct html_export *h, u32 lane, u32 kind, u32 task)
{
	const struct braid_walk *w = &h->x.walk;
	u64 bound = w->bound_ns == BRAID_BOUND_UNKNOWN ? 0 : w->bound_ns + 1;

	braid_text_putc(&h->x.out, '\n');
	braid_html_put_signed(&h->columns[TIME], (s64)((u64)w->ns - (u64)h->last_ns));
	braid_html_put(&h->columns[LANE], lane);
	braid_html_put(&h->columns[KIND], (u64)kind << 1 | w->uncertain);
	braid_html_put(&h->columns[TASK], task);
	braid_html_put_signed(&h->columns[BOUND], (s64)(bound - h->last_bound[lane]));
	h->last_bound[lane] = bound;
	h->last_ns = w->ns;
	h->block_rows++;
	if (++h->rows > MAX_ROWS)
		return braid_fail(-EFBIG, "more than %u events are too many for a browser; select fewer, see 'tracebraid export --help'",
				  MAX_ROWS);
	if (h->block_rows < BLOCK_ROWS && h->x.out.bytes < BLOCK_TEXT_BYTES)
		return 0;
	return flush_block(h);
}

/* Places an item; the first one sets the origin of all times. */
static struct braid_html_place *html_place_of(struct html_export *h, const struct braid_item *item)
{
	if (!h->rows) {
		h->base_ns = h->x.walk.ns;
		h->last_ns = h->base_ns;
		braid_html_spans_base(h->spans, h->base_ns);
	}
	return &h->lanes.places[item->ring->order];
}

static u32 kind_name(struct html_export *h, const struct braid_event_type_info *info)
{
	const char *label = braid_format_label(info);
	u32 *kind = &h->types[info->number], system;

	if (!*kind) {
		system = braid_html_name(h->names, BRAID_HTML_SYSTEM, 0, 0, info->system,
					 strlen(info->system));
		*kind = braid_html_name(h->names, BRAID_HTML_EVENT, 0, system, label,
					strlen(label)) + 1;
	}
	return *kind - 1;
}

/* The event's task: mostly that of the ring's last event. */
static void name_task(struct html_export *h, struct braid_html_place *place,
		      struct braid_html_seen *seen)
{
	const struct braid_item *item = seen->item;
	const char *comm;

	if (!place->named || place->pid != seen->pid || item->counter < place->from ||
	    item->counter > place->until) {
		comm = braid_format_comm_for(item, seen->pid, &place->from, &place->until);
		place->named = true;
		place->pid = seen->pid;
		place->comm_known = strcmp(comm, BRAID_COMM_UNKNOWN);
		place->task = braid_html_name(h->names, BRAID_HTML_TASK, seen->group, seen->pid,
					      comm, strlen(comm));
	}
	seen->task = place->task;
	seen->comm_known = place->comm_known;
}

static int html_put_event(void *arg, const struct braid_item *item,
			  const struct braid_event_type_info *info)
{
	struct html_export *h = arg;
	struct braid_html_place *place = html_place_of(h, item);
	struct braid_html_seen seen = {
		.item = item, .info = info, .ns = h->x.walk.ns, .pid = braid_format_pid(item),
		.lane = place->lane, .group = h->lanes.group_of[item->stream->number],
	};
	size_t at = h->x.out.bytes;
	int err = braid_array_cover(h->types, h->nr_types, info->number);

	braid_format_text_of(item, info, &h->x.out);
	braid_text_putc(&h->x.out, '\0');
	if (err || h->x.out.failed)
		return braid_out_of_memory();
	h->x.out.bytes--;
	seen.text = h->x.out.data + at;
	if (seen.pid != BRAID_PID_UNKNOWN)
		name_task(h, place, &seen);
	err = braid_html_spans_event(h->spans, &seen);
	place->begun = true;
	place->last_ns = seen.ns;
	return err ? err : html_put_row(h, place->lane, kind_name(h, info),
					seen.pid == BRAID_PID_UNKNOWN ? 0 : seen.task + 1);
}

static int html_put_lost(void *arg, const struct braid_item *item)
{
	struct html_export *h = arg;
	struct braid_html_place *place = html_place_of(h, item);
	s64 ns = h->x.walk.ns;
	int err = braid_html_spans_lost(h->spans, place->lane, place->begun ? place->last_ns : ns,
					ns);

	place->begun = true;
	place->last_ns = ns;
	braid_line_put_lost(&h->x.out, item);
	return err ? err : html_put_row(h, place->lane, BRAID_HTML_NAME_LOST, 0);
}

static int html_put_note(void *arg, const struct braid_item *item)
{
	struct html_export *h = arg;
	struct braid_html_place *place = html_place_of(h, item);

	braid_text_puts(&h->x.out, "NOTE ");
	braid_text_safe(&h->x.out, (const char *)item->payload, item->payload_bytes);
	return html_put_row(h, place->lane, BRAID_HTML_NAME_NOTE, 0);
}

/* Data written once ------------------------------------------------------------------------- */

/* A host time as the page has it. */
static long long shown(const struct html_export *h, s64 ns)
{
	return (long long)((u64)braid_walk_shown_ns(&h->x.walk, ns) - (u64)h->base_ns);
}

/* Where one model of a stream's clock ends and another begins; times in between are uncertain. */
static void put_epochs(struct html_export *h, const struct braid_stream *s, const char **comma)
{
	u32 group = h->lanes.group_of[s->number];
	struct braid_epoch epoch = { 0 };

	while (braid_epoch_next(s, &epoch)) {
		if (!epoch.number)
			continue;
		braid_text_printf(&h->x.out, "%s[%u,%lld,%lld]", *comma, group,
				  shown(h, epoch.from_ns), shown(h, epoch.begun_ns));
		*comma = ",";
	}
}

/* From start to stop of each recording; a stop may be unknown. */
static void put_windows(struct html_export *h)
{
	struct braid_text *t = &h->x.out;
	bool stops = true;
	size_t k;

	braid_text_puts(t, "],\"windows\":[");
	for (k = 0; k < h->nr_windows; k++) {
		const struct braid_window *window = &h->windows[k];

		if (window->stop_ns == INT64_MAX)
			stops = false;
		else
			braid_text_printf(t, "%s[%lld,%lld]", t->data[t->bytes - 1] == '[' ? "" : ",",
					  (long long)((u64)window->start_ns - (u64)h->base_ns),
					  (long long)((u64)window->stop_ns - (u64)h->base_ns));
	}
	braid_text_printf(t, "],\"stops\":%s}\n", stops ? "true" : "false");
}

/* One line of the page's own, then those of report --json. */
static int put_meta(struct html_export *h)
{
	const struct braid_source *source = h->x.walk.source;
	struct braid_text *t = &h->x.out;
	const char *comma = "";
	size_t k;

	braid_text_printf(t, "{\"base_ns\":\"%lld\",\"states_ns\":%lld,\"rows\":%llu,\"lanes\":[",
			  (long long)h->base_ns,
			  (long long)((u64)braid_html_states_origin(h->states) - (u64)h->base_ns),
			  (unsigned long long)h->rows);
	for (k = 0; k < h->lanes.nr_lanes; k++) {
		const struct braid_html_lane *lane = &h->lanes.lanes[k];

		braid_text_printf(t, "%s[%u,%u,%u,%d]", k ? "," : "", lane->kind, lane->group,
				  lane->number, lane->tid);
	}
	braid_text_puts(t, "],\"group_of\":[");
	for (k = 0; k < source->nr_streams; k++)
		braid_text_printf(t, "%s%u", k ? "," : "",
				  h->lanes.group_of[source->streams[k]->number]);
	braid_text_puts(t, "],\"epochs\":[");
	for (k = 0; k < source->nr_streams; k++)
		put_epochs(h, source->streams[k], &comma);
	put_windows(h);
	braid_json_head(&h->x);
	braid_json_foot(&h->x);
	if (t->failed)
		return braid_out_of_memory();
	return braid_html_out_chunk(&h->page, "meta", t->data, t->bytes);
}

static int put_verdict(struct html_export *h)
{
	struct braid_text *t = &h->x.out;
	int err;

	braid_html_states_verdict(h->states, h->base_ns, t);
	if (t->failed)
		return braid_out_of_memory();
	err = t->bytes ? braid_html_out_chunk(&h->page, "verdict", t->data, t->bytes) : 0;
	t->bytes = 0;
	return err;
}

/* The recorded times, of all captures together. */
static int find_windows(struct html_export *h)
{
	const struct braid_observed *recorded;
	size_t k;

	recorded = braid_html_states_recorded(h->states, &h->nr_windows);
	h->windows = calloc(h->nr_windows + 1, sizeof(*h->windows));
	if (!h->windows)
		return braid_out_of_memory();
	for (k = 0; k < h->nr_windows; k++)
		h->windows[k] = (struct braid_window){
			.start_ns = braid_walk_shown_ns(&h->x.walk, recorded[k].start_ns),
			.stop_ns = recorded[k].stop_ns == INT64_MAX ? INT64_MAX :
				   braid_walk_shown_ns(&h->x.walk, recorded[k].stop_ns),
		};
	braid_html_spans_windows(h->spans, h->windows, h->nr_windows);
	return 0;
}

static int html_begin(struct html_export *h, FILE *to)
{
	int err = braid_html_out_begin(&h->page, to);

	if (!err && h->x.walk.options->cpus > 1)
		braid_html_out_pack_apart(&h->page);
	if (!err)
		err = braid_html_lanes_make(&h->lanes, h->x.walk.source, h->x.walk.options);
	if (err)
		return err;
	h->names = braid_html_names_new();
	h->last_bound = calloc(h->lanes.nr_lanes + 1, sizeof(*h->last_bound));
	if (h->names)
		h->spans = braid_html_spans_new(&h->lanes, h->names, &h->page);
	if (!h->spans || !h->last_bound)
		return braid_out_of_memory();
	err = braid_html_states_begin(&h->states, &h->x.walk, &h->lanes, h->names, h->spans,
				      &h->page, BRAID_HTML_EXACT_STATES);
	return err ? err : find_windows(h);
}

static int put_all(struct html_export *h, FILE *to)
{
	static const struct braid_walk_ops ops = {
		.event = html_put_event, .lost = html_put_lost, .note = html_put_note,
	};
	int err = html_begin(h, to);

	if (!err)
		err = braid_html_flame_put(&h->page, h->x.walk.source, h->x.walk.options);
	if (!err)
		err = braid_walk_run(&h->x.walk, &ops, h);
	if (!err)
		err = flush_block(h);
	if (!err)
		err = braid_html_states_end(h->states);
	if (!err)
		err = braid_html_spans_end(h->spans, h->last_ns);
	if (!err)
		err = braid_html_names_flush(h->names, &h->page);
	if (!err)
		err = put_verdict(h);
	if (!err)
		err = put_meta(h);
	return err ? err : braid_html_out_end(&h->page);
}

/* If the other thread failed to write a chunk, that came first, and is reported. */
static int html_run(struct html_export *h, FILE *to)
{
	int err = put_all(h, to), before = err ? braid_html_out_settle(&h->page) : 0;

	return before ? before : err;
}

static int write_page(FILE *to, struct braid_source *source,
		      const struct braid_walk_options *options,
		      struct braid_walk_totals *totals)
{
	struct html_export h = { 0 };
	size_t k;
	int err = braid_walk_begin(&h.x.walk, source, options, totals);

	if (!err)
		err = html_run(&h, to);
	braid_walk_end(&h.x.walk);
	for (k = 0; k < COLUMNS; k++)
		braid_text_free(&h.columns[k]);
	braid_text_free(&h.x.out);
	braid_html_spans_free(h.spans);
	braid_html_states_free(h.states);
	braid_html_lanes_free(&h.lanes);
	braid_html_names_free(h.names);
	braid_html_out_free(&h.page);
	free(h.last_bound);
	free(h.windows);
	free(h.types);
	return err;
}

int braid_export_html(const char *out, struct braid_source *source,
		      const struct braid_walk_options *options,
		      struct braid_walk_totals *totals)
{
	return braid_export_to_file(out, source, options, totals, write_page);
}
