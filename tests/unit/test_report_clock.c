// SPDX-License-Identifier: GPL-2.0-or-later
/* Reports by wall time, and by a requested clock source. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/export/export.h"
#include "host_agent/store/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define AHEAD_NS	1700000000000000000ULL	/* wall time's start, in the file's clock */

static char path[64];

static char *report(bool json, const struct braid_export_options *options)
{
	struct braid_source_options how = {
		.force_clock = options->clock_asked, .clock = options->clock,
	};
	struct braid_export_totals totals;
	struct braid_source *source;
	char *names[] = { path }, *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);
	int err;

	NEED(to && !braid_source_open_captures(&source, names, 1, &how));
	err = (json ? braid_export_json : braid_export_text)(to, source, options, &totals);
	fclose(to);
	braid_source_free(source);
	if (!err)
		return text;
	free(text);
	return NULL;
}

static u64 number_after(const char *text, const char *key)
{
	const char *at = text ? strstr(text, key) : NULL;

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* The same lines at wall times; bounds are those of both clocks. */
static void realtime(void)
{
	struct braid_export_options host = { 0 }, wall = { .realtime = true };
	char *a, *b, *text;
	const char *at, *bt;

	synth_standard_at(path, AHEAD_NS);
	text = report(false, &wall);
	CHECK(strstr(text, "# tracebraid: times are UTC (CLOCK_REALTIME), by the host's clock mono_raw\n"));
	CHECK(strstr(text, "host:               qemu-55      [001] 2023-11-14T22:30:00.000001000Z: tock: "));
	free(text);
	a = report(true, &host);
	b = report(true, &wall);
	CHECK(strstr(b, "\"ns\":1700001000000001000,\"time\":\"2023-11-14T22:30:00.000001000Z\","));
	CHECK(!strstr(a, "\"time\":"));
	CHECK(strstr(a, "{\"type\":\"header\",\"clock\":\"mono_raw\",\"host\":"));
	CHECK(strstr(b, "{\"type\":\"header\",\"clock\":\"realtime\",\"bound_ns\":"));
	for (at = a, bt = b; (at = strstr(at, "{\"type\":\"event\"")) &&
			     (bt = strstr(bt, "{\"type\":\"event\"")); at++, bt++) {
		u64 bound = number_after(at, "\"bound_ns\":");
		u64 both = number_after(bt, "\"bound_ns\":");
		u64 away = number_after(bt, "\"ns\":") - number_after(at, "\"ns\":") - AHEAD_NS;

		CHECK(llabs((s64)away) <= 2);
		CHECK(both > bound + 30 && both < bound + bound / 500 + 1000);
	}
	CHECK(!at && !strstr(bt + 1, "{\"type\":\"event\""));
	free(a);
	free(b);
}

/* Captures of earlier versions have one pair, in their header. */
static void head_alone(void)
{
	struct braid_export_options wall = { .realtime = true, .max_lines = 1 };
	char *text;

	synth_standard(path);
	text = report(true, &wall);
	CHECK(text && number_after(text, "\"start_realtime_ns\":"));
	free(text);
}

static void requested_source(void)
{
	struct braid_export_options kvm = { .clock_asked = true, .clock = BRAID_CLOCK_KVM };
	char *text;

	synth_standard(path);
	text = report(false, &kvm);
	CHECK(strstr(text, "2 vCPUs, clock nominal, bound unknown\n#   its clock kvm is unavailable: KVM offset unavailable\n"));
	free(text);
	text = report(true, &kvm);
	CHECK(strstr(text, "\"clock\":\"nominal\",\"bound_ns\":null,\"clock_asked\":\"kvm\",\"reason\":\"KVM offset unavailable\""));
	free(text);
	kvm.clock = BRAID_CLOCK_EXCHANGE;
	text = report(false, &kvm);
	CHECK(strstr(text, "clock exchange") && !strstr(text, "is unavailable"));
	free(text);
	kvm.clock = BRAID_CLOCK_NOMINAL;
	text = report(false, &kvm);
	CHECK(strstr(text, "clock nominal") && !strstr(text, "is unavailable"));
	free(text);
}

int main(void)
{
	snprintf(path, sizeof(path), "/tmp/braid-report-clock-%d", getpid());
	RUN(realtime);
	RUN(head_alone);
	RUN(requested_source);
	unlink(path);
	return VERDICT();
}
