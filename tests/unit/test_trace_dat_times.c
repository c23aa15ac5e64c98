// SPDX-License-Identifier: GPL-2.0-or-later
/* Times in files of trace-cmd become ns as trace-cmd's own report has them. */
#include <string.h>
#include <unistd.h>

#include "host_agent/export/text/form.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_trace_dat.h"
#include "tests/unit/need.h"
#include "tests/unit/shell.h"

static char dat[64];

static const struct synth_dat usual = { .version = 7, .clock = "mono_raw", .step = 10000 };

/* NULL: it cannot be opened. */
static char *report_all(struct braid_walk_totals *totals)
{
	static const struct braid_walk_options options;
	char *names[] = { dat }, *text = NULL;
	struct braid_source *source;
	size_t bytes;
	FILE *to;

	if (braid_source_open_captures(&source, names, 1, NULL))
		return NULL;
	to = open_memstream(&text, &bytes);
	NEED(to && !braid_export_text(to, source, &options, totals));
	fclose(to);
	braid_source_free(source);
	return text;
}

static bool refused(const struct synth_dat *params, const char *why)
{
	struct braid_walk_totals totals;
	char *text;

	synth_trace_dat(dat, params);
	text = report_all(&totals);
	if (text)
		fprintf(stderr, "it was read\n");
	else if (!strstr(braid_failure(), why))
		fprintf(stderr, "%s\n", braid_failure());
	else
		return true;
	free(text);
	return false;
}

/* The first time in a report, and in trace-cmd's: "SECONDS.NS". */
#define FIRST_TIME	" | sed -n '/count=0$/s/.* \\([0-9]*[.][0-9]*\\): beat:.*/\\1/p' | head -1"

static bool first_time_is(const struct synth_dat *params, const char *time)
{
	struct braid_walk_totals totals;
	char *ours, *theirs, line[64];
	bool same;

	synth_trace_dat(dat, params);
	ours = report_all(&totals);
	NEED(ours);
	snprintf(line, sizeof(line), " %s: beat:", time);
	theirs = shell_output("trace-cmd report -t -i %s 2>/dev/null" FIRST_TIME, dat);
	same = strstr(ours, line) &&
	       totals.events == SYNTH_DAT_EVENTS * (params->instance ? 2 : 1) &&
	       strlen(theirs) == strlen(time) + 1 && !strncmp(theirs, time, strlen(time));
	if (!same)
		fprintf(stderr, "wanted %s, trace-cmd has %s%.600s\n", time, theirs, ours);
	free(theirs);
	free(ours);
	return same;
}

/* Ticks, offsets and shifts become ns as trace-cmd's own report has them. */
static void converted_times(void)
{
	struct synth_dat p = usual;

	for (p.version = 6; p.version <= 7; p.version++) {
		p.clock = p.buffer_clock = "tsc2nsec";
		p.start = 3000000000ULL;
		p.tsc_multiplier = 0x2aaaaaab;		/* a third */
		p.offset = NULL;
		CHECK(first_time_is(&p, "1.000000000"));
		p.clock = "x86-tsc";			/* what trace-cmd has for an instance */
		CHECK(first_time_is(&p, "1.000000000"));
		p.instance = "own";
		CHECK(first_time_is(&p, "1.000000000"));
		p.instance = NULL;
		p.offset = "-250000000";
		CHECK(first_time_is(&p, "0.750000000"));
		p.clock = p.buffer_clock = "mono_raw";
		p.tsc_multiplier = 0;
		CHECK(first_time_is(&p, "2.750000000"));
	}
}

/* A guest's are shifted first, by what trace-cmd measured, and rated by the host's counter. */
static void shifted_times(void)
{
	struct synth_dat p = usual;

	p.shifted = true;
	p.start = 2000000000;
	p.shift_ns = 1000;
	p.shift_fraction = 1;
	CHECK(first_time_is(&p, "3.000001000"));
	p.clock = p.buffer_clock = "x86-tsc";
	p.tsc_multiplier = 0x2aaaaaab;
	CHECK(first_time_is(&p, "1.000000333"));
	p.shift_ns = -1000000;
	p.shift_fraction = 0;
	CHECK(first_time_is(&p, "1.999666667"));
	p.shift_fraction = 64;
	CHECK(refused(&p, "impossible"));
}

/* A clock that is not ftrace's, or one without its rate, is never taken for ns. */
static void unknown_units(void)
{
	static const char *const others[] = { "kvm-clock", "ppc-tb", "s390-tod", "x", "mono_fast" };
	struct synth_dat p = usual;
	size_t k;

	for (k = 0; k < sizeof(others) / sizeof(*others); k++) {
		p.clock = p.buffer_clock = others[k];
		CHECK(refused(&p, "whose unit is not known"));
	}
	p.clock = p.buffer_clock = "tsc2nsec";
	CHECK(refused(&p, "not in seconds"));
}

/* Times that go back are named with their count and their stream, and no bound denies them. */
static void back(void)
{
	struct braid_walk_totals totals;
	struct synth_dat p = usual;
	struct braid_source *source;
	char *names[] = { dat };
	char *text;

	p.start = 1000000000;
	p.back = 5 * 2 * p.step;
	synth_trace_dat(dat, &p);
	text = report_all(&totals);
	NEED(text);
	CHECK(strstr(text, ".dat: time goes back at 4 events, shown at the time before them; 'tracebraid verify' explains each\n"));
	free(text);
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	while (source->streams[0]->rings[1]->ops->next(source->streams[0]->rings[1]) > 0 &&
	       source->streams[0]->rings[1]->item.seq < SYNTH_DAT_PER_PAGE)
		CHECK_EQ(source->streams[0]->rings[1]->item.bound_ns, 0);
	CHECK_EQ(source->streams[0]->rings[1]->item.bound_ns, 4 * 2 * p.step);
	braid_source_free(source);
	p.back = 2 * 2 * p.step;
	synth_trace_dat(dat, &p);
	text = report_all(&totals);
	NEED(text);
	CHECK(strstr(text, ".dat: time goes back at 1 event, shown at the time before it; 'tracebraid verify' explains it\n"));
	free(text);
	p.back = 0;
	synth_trace_dat(dat, &p);
	text = report_all(&totals);
	NEED(text);
	CHECK(!strstr(text, "goes back"));
	free(text);
}

int main(void)
{
	snprintf(dat, sizeof(dat), "/tmp/braid-%d.dat", getpid());
	RUN(converted_times);
	RUN(shifted_times);
	RUN(unknown_units);
	RUN(back);
	unlink(dat);
	return VERDICT();
}
