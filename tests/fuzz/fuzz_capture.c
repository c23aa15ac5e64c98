// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The capture reader and all that follows it, up to the complete text of a report and SQL's tables.
 * A chunk whose checksum is 0 gets the correct one first, so that mutations get past the checksum.
 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_agent/capture/checksum.h"
#include "host_agent/export/ctf/form.h"
#include "host_agent/export/html/form.h"
#include "host_agent/export/perfetto/form.h"
#include "host_agent/export/text/form.h"
#include "host_agent/export/trace_dat/form.h"
#include "host_agent/export/trace_dat/trace_dat.h"
#include "host_agent/sql/sql.h"
#include "host_agent/trace/source.h"
#include "host_agent/walk/analysis.h"
#include "tests/fuzz/fuzz.h"
#include "tracebraid/tracebraid.h"

size_t LLVMFuzzerMutate(u8 *data, size_t bytes, size_t max_bytes);
size_t LLVMFuzzerCustomMutator(u8 *data, size_t bytes, size_t max_bytes, unsigned int seed);

/* The length of the chunk at @at by its header; 0: no complete chunk. */
static size_t chunk_bytes(const u8 *data, size_t bytes, size_t at, struct braid_chunk *chunk)
{
	size_t total;

	if (bytes - at < sizeof(*chunk))
		return 0;
	memcpy(chunk, data + at, sizeof(*chunk));
	if (chunk->magic != BRAID_CHUNK_MAGIC || chunk->payload_bytes > BRAID_CHUNK_MAX_BYTES)
		return 0;
	total = sizeof(*chunk) + ((chunk->payload_bytes + 7) & ~7u);
	return total <= bytes - at ? total : 0;
}

static void fix_checksums(u8 *data, size_t bytes)
{
	struct braid_chunk chunk;
	size_t at = 0, n;

	for (; at + sizeof(chunk) <= bytes; at += n ? n : 8) {
		n = chunk_bytes(data, bytes, at, &chunk);
		if (!n || chunk.checksum)
			continue;
		chunk.checksum = braid_chunk_checksum(&chunk, data + at + sizeof(chunk),
						      chunk.payload_bytes, NULL, 0);
		memcpy(data + at, &chunk, sizeof(chunk));
	}
}

/* Every other mutation changes only one chunk's payload, so that the rest stays valid. */
size_t LLVMFuzzerCustomMutator(u8 *data, size_t bytes, size_t max_bytes, unsigned int seed)
{
	struct braid_chunk chunk;
	size_t at = 0, n, nr = 0, pick;

	while ((n = at < bytes ? chunk_bytes(data, bytes, at, &chunk) : 0))
		at += n, nr++;
	if (!nr || seed & 1)
		return LLVMFuzzerMutate(data, bytes, max_bytes);
	for (pick = (seed >> 1) % nr, at = 0; pick--;)
		at += chunk_bytes(data, bytes, at, &chunk);
	chunk_bytes(data, bytes, at, &chunk);
	/* A shorter payload keeps the end of the old one. */
	if (chunk.payload_bytes)
		LLVMFuzzerMutate(data + at + sizeof(chunk), chunk.payload_bytes,
				 chunk.payload_bytes);
	return bytes;
}

static char folder[] = "/dev/shm/fuzz-XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	return at->level ? remove(path) : 0;
}

static void empty_folder(void)
{
	MUST(!nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS));
}

static void remove_folder(void)
{
	rmdir(folder);
}

/* Exports trace.dat files and CTF, with the same events and losses, CPU by CPU. */
static void export_files(struct braid_source *source, u64 events, u64 lost)
{
	struct braid_walk_options options = { .states = true };
	struct braid_walk_totals totals = { 0 };
	static u32 turns;
	char out[64];

	if (turns++ & 3)	/* files take more time than everything else */
		return;
	if (turns == 1) {
		MUST(mkdtemp(folder) != NULL);
		atexit(remove_folder);
	}
	snprintf(out, sizeof(out), "%s/out.dat", folder);
	braid_source_rewind(source);
	MUST(!braid_export_trace_dat(out, source, &options, &totals));
	MUST_EQ(totals.events, events);
	MUST_EQ(totals.lost, lost);
	snprintf(out, sizeof(out), "%s/ctf", folder);
	braid_source_rewind(source);
	MUST(!braid_export_ctf(out, source, &options, &totals));
	MUST_EQ(totals.events, events);
	MUST_EQ(totals.lost, lost);
	empty_folder();
}

/* Return: the number of events. */
static u64 report(struct braid_source *source, FILE *to)
{
	struct braid_walk_options options = { 0 };
	struct braid_walk_totals text = { 0 }, json = { 0 }, html = { 0 };
	int err_text, err_json, err_html;

	err_text = braid_export_text(to, source, &options, &text);
	braid_source_rewind(source);
	err_json = braid_export_json(to, source, &options, &json);
	braid_source_rewind(source);
	err_html = braid_export_html("/dev/null", source, &options, &html);
	MUST(err_text == err_json && err_text == err_html);
	MUST_EQ(text.events, json.events);
	MUST_EQ(text.lost, json.lost);
	MUST_EQ(text.events, html.events);
	MUST_EQ(text.lost, html.lost);
	export_files(source, text.events, text.lost);
	return text.events;
}

#define WAYS	4	/* to run an analysis */

/* Whatever a capture says, each nanosecond of a vCPU is in one state: else this fails. */
static void analyze(struct braid_source *source, FILE *to)
{
	struct braid_analysis_options wants = { .top = 3 };
	struct braid_walk_options options = { 0 };
	const struct braid_analysis *analysis;
	size_t k;
	int err;

	for (k = 0; (analysis = braid_analysis_by_number(k / WAYS)); k++) {
		wants.form = k % 3;
		wants.by_task = k % WAYS == 0 &&
				braid_analysis_takes(analysis, BRAID_ANALYSIS_BY_TASK);
		wants.by_call = k % WAYS == 1;
		wants.by_function = k % WAYS == 2;
		wants.folded = k % WAYS == 3;
		if ((wants.by_call || wants.by_function) &&
		    !braid_analysis_takes(analysis, BRAID_ANALYSIS_BY_CALL))
			continue;
		if (wants.folded && !braid_analysis_takes(analysis, BRAID_ANALYSIS_FOLDED))
			continue;
		braid_source_rewind(source);
		err = braid_analysis_write(to, source, &options, analysis, &wants);
		MUST(!err || err == -ENODATA);	/* exits, without the events that it needs */
	}
}

/* Perfetto accepts no CPU above 1023. */
static void report_perfetto(struct braid_source *source, FILE *to)
{
	struct braid_walk_options options = { 0 };
	struct braid_walk_totals totals = { 0 };
	int err;

	braid_source_rewind(source);
	err = braid_export_perfetto(to, source, &options, &totals);
	MUST(!err || err == -ERANGE);
}

/* Within each ring, times and numbers never decrease. */
static void walk(struct braid_source *source)
{
	size_t k, n;

	braid_source_rewind(source);
	for (k = 0; k < source->nr_streams; k++) {
		for (n = 0; n < source->streams[k]->nr_rings; n++) {
			struct braid_ring *ring = source->streams[k]->rings[n];
			s64 last = INT64_MIN;
			u64 sum = 0, j;

			while (braid_ring_next(ring) > 0) {
				MUST(ring->item.host_ns >= last);
				last = ring->item.host_ns;
				for (j = 0; j < ring->item.payload_bytes; j++)
					sum += ring->item.payload[j];
			}
			MUST(sum != 1ULL << 63);	/* every byte was read */
		}
	}
}

/* Each guest's clock as in `tracebraid clock`; every bound can be added to a time. */
static void judge_clocks(const struct braid_source *source)
{
	struct braid_clock_comparison comparison;
	struct braid_clock_quality quality;
	struct braid_clock_check check;
	struct braid_clock other;
	size_t k;

	for (k = 0; k < source->nr_streams; k++) {
		const struct braid_stream *s = source->streams[k];

		if (s->kind != BRAID_STREAM_GUEST || !s->clock.nr_tracks)
			continue;
		MUST(braid_clock_epochs(&s->clock) <= 256);
		braid_clock_check(&s->clock, &s->clock_inputs, &check);
		MUST(!braid_clock_quality(&s->clock, &s->clock_inputs, &quality));
		MUST((s64)quality.worst_ns >= -1);
		if (braid_clock_choose(&other, &s->clock_inputs, BRAID_CLOCK_EXCHANGE))
			continue;
		braid_clock_compare(&s->clock, &other, &s->clock_inputs, &comparison);
		braid_clock_free(&other);
	}
}

#define MOST_TABLES	30u	/* that are queried */

/* Runs a statement. Return: its last row's first value, as a number. */
static s64 query(struct braid_sql *sql, const char *format, const char *name)
{
	char *text = sqlite3_mprintf(format, name);
	sqlite3_stmt *s = NULL;
	s64 value = 0;
	int ret, k;

	MUST(!sqlite3_prepare_v2(braid_sql_database(sql), text, -1, &s, NULL));
	while ((ret = sqlite3_step(s)) == SQLITE_ROW) {
		for (k = 0; k < sqlite3_column_count(s); k++)
			sqlite3_column_bytes(s, k);
		value = sqlite3_column_int64(s, 0);
	}
	MUST(ret == SQLITE_DONE);
	sqlite3_finalize(s);
	sqlite3_free(text);
	return value;
}

/*
 * Events that a reader finds by the index, as SQL does. @events: those that a reader of all chunks
 * finds. A page that differs from its place in the index is damaged for the former alone, which
 * then reports it.
 */
static u64 count_by_index(const char *path, u64 events)
{
	const struct braid_source_options how = { .by_index = true };
	struct braid_walk_options options = { 0 };
	struct braid_walk_totals totals = { 0 };
	FILE *nowhere = fopen("/dev/null", "w");
	char *paths = (char *)path;
	struct braid_source *source;

	MUST(nowhere && !braid_source_open_captures(&source, &paths, 1, &how));
	braid_export_text(nowhere, source, &options, &totals);
	MUST(source->faults || totals.events == events);
	braid_source_free(source);
	fclose(nowhere);
	return totals.events;
}

/* Each table can be read, those of types as well; a selection finds what is there without it. */
static void query_all(const char *path, u64 events)
{
	const struct braid_sql_options options = { .paths = &path, .nr_paths = 1 };
	struct braid_sql *sql;
	const char *name;
	size_t k;

	MUST(!braid_sql_open(&sql, &options));
	for (k = 0; k < MOST_TABLES && (name = braid_sql_table_name(sql, k)); k++)
		query(sql, "SELECT * FROM \"%w\" LIMIT 100", name);
	query(sql, "SELECT *, guest, vcpu, text FROM events LIMIT 100", "");
	MUST_EQ(query(sql, "SELECT count(*) FROM events", ""), count_by_index(path, events));
	MUST_EQ(query(sql, "SELECT count(*) FROM events WHERE name = (SELECT name FROM events LIMIT 1)", ""),
		query(sql, "SELECT count(*) FROM events WHERE +name = (SELECT name FROM events LIMIT 1)", ""));
	MUST_EQ(query(sql, "SELECT count(*) FROM events WHERE ns >= (SELECT ns FROM events LIMIT 1 OFFSET 3)", ""),
		query(sql, "SELECT count(*) FROM events WHERE +ns >= (SELECT ns FROM events LIMIT 1 OFFSET 3)", ""));
	query(sql, "SELECT (SELECT count(*) FROM vcpu_state), (SELECT count(*) FROM task_state)", "");
	braid_sql_close(sql);
}

/* Text and JSON from a start time on, by the index, as `report --since` reads it. */
static void report_by_index(char *const *paths, FILE *to)
{
	const struct braid_source_options how = { .by_index = true };
	struct braid_walk_options options = {
		.from = { BRAID_MOMENT_SINCE, 1000 },
	};
	struct braid_walk_totals totals;
	struct braid_source *source;

	if (braid_source_open_captures(&source, paths, 1, &how))
		return;
	braid_export_text(to, source, &options, &totals);
	braid_source_rewind(source);
	braid_export_json(to, source, &options, &totals);
	walk(source);
	braid_source_free(source);
}

/* Everything that is there now: formats are asked for, and each event's text is made. */
static int take_all(struct tracebraid_walk *walk)
{
	int got;

	while ((got = tracebraid_walk_next(walk)) > 0 && got != TRACEBRAID_PAUSE)
		MUST(tracebraid_text(walk) && tracebraid_item_stream(walk));
	return got;
}

/* The capture is being written, and its recorder is killed: the walk comes to an end. */
static void follow(const u8 *data, size_t bytes)
{
	int fd = memfd_create("growing", MFD_CLOEXEC), ret = 0, got = TRACEBRAID_PAUSE;
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_walk *walk = NULL;
	size_t had = 0, part;
	char path[64];
	u32 turns;

	MUST(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (part = 1; part <= 4 && ret >= 0 && got == TRACEBRAID_PAUSE; part++) {
		size_t to = bytes * part / 4;

		MUST(write(fd, data + had, to - had) == (ssize_t)(to - had));
		had = to;
		if (!trace && tracebraid_follow(&trace, path, NULL, NULL, NULL))
			continue;
		if (!walk && tracebraid_walk_new(&walk, trace, NULL))
			break;
		ret = tracebraid_grow(trace, 0);
		got = ret < 0 ? ret : take_all(walk);
	}
	if (walk && ret >= 0 && got == TRACEBRAID_PAUSE) {
		tracebraid_finish(trace);
		for (turns = 0; got == TRACEBRAID_PAUSE && tracebraid_grow(trace, 0) >= 0; turns++)
			got = take_all(walk);
		MUST(turns < 10);
	}
	tracebraid_close(trace);
	close(fd);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	int fd = memfd_create("capture", MFD_CLOEXEC);
	struct braid_source *source;
	char path[64], *paths = path;
	FILE *nowhere = fopen("/dev/null", "w");
	static u32 turns;
	u64 events;
	u8 *copy = malloc(bytes);

	memcpy(copy, data, bytes);
	fix_checksums(copy, bytes);
	if (fd < 0 || !nowhere || write(fd, copy, bytes) != (ssize_t)bytes)
		abort();
	follow(copy, bytes);
	free(copy);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	report_by_index(&paths, nowhere);
	if (!braid_source_open_captures(&source, &paths, 1, NULL)) {
		events = report(source, nowhere);
		report_perfetto(source, nowhere);
		analyze(source, nowhere);
		walk(source);
		judge_clocks(source);
		braid_source_free(source);
		if (!(turns++ & 3))
			query_all(path, events);
	}
	fclose(nowhere);
	close(fd);
	return 0;
}
