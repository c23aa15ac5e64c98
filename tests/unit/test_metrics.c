// SPDX-License-Identifier: GPL-2.0-or-later
/* The engine's sums as text for Prometheus. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/online/metrics.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/online_engine.h"
#include "tests/unit/scratch.h"

#define SECOND		1000000000ULL
#define MS		1000000ULL
#define MOST_LINES	4096u
#define STRANGE		"a\"b\\c}{,=\xc3\xa9"

static struct busy_host b = { .for_ns = SECOND, .mark_ns = 5 * MS, .web2 = STRANGE };

static struct braid_online *engine(const struct braid_online_options *options)
{
	struct braid_online *o;

	b.path = scratch("metrics.braid");
	busy_host(&b);
	NEED(!braid_online_begin(&o, options) && !online_feed(o, &b));
	return o;
}

/* To be freed. */
static char *metrics(const struct braid_online *o, enum braid_exposition_form form)
{
	struct braid_text text = { 0 };
	struct braid_exposition e = { .out = &text, .form = form };

	braid_online_metrics(o, &e);
	braid_exposition_end(&e);
	braid_text_putc(&text, 0);
	NEED(!text.failed);
	return text.data;
}

static u32 split(char *text, char *lines[MOST_LINES])
{
	char *line;
	u32 nr = 0;

	while ((line = strsep(&text, "\n")) && *line) {
		NEED(nr < MOST_LINES);
		lines[nr++] = line;
	}
	CHECK(!line || !text);
	return nr;
}

/* The end of a sample's labels; NULL: they are not valid. */
static const char *after_labels(const char *at)
{
	if (*at != '{')
		return at;
	do {
		at++;
		while (islower((unsigned char)*at) || *at == '_')
			at++;
		if (*at++ != '=' || *at++ != '"')
			return NULL;
		for (; *at && *at != '"'; at++)
			if (*at == '\\' && !*++at)
				return NULL;
		if (*at++ != '"')
			return NULL;
	} while (*at == ',');
	return *at == '}' ? at + 1 : NULL;
}

/* A sample of the present family; *bytes: what no other one may begin with. */
static bool is_sample(const char *line, const char *family, bool histogram, size_t *bytes)
{
	static const char *const tails[] = { "", "_bucket", "_sum", "_count", "_total", "_info" };
	const char *at = line + strlen(family), *end;
	u32 k;

	if (strncmp(line, family, strlen(family)))
		return false;
	for (k = 0; k < 6; k++) {
		size_t tail = strlen(tails[k]);

		if (!strncmp(at, tails[k], tail) && (at[tail] == '{' || at[tail] == ' '))
			break;
	}
	if (k == 6 || (histogram != (k >= 1 && k <= 3)))
		return false;
	end = after_labels(at + strlen(tails[k]));
	if (!end || *end != ' ')
		return false;
	*bytes = end - line;
	return !strcmp(end, " +Inf") || strspn(end + 1, "0123456789.") == strlen(end + 1);
}

static int by_text(const void *a, const void *x)
{
	return strcmp(*(char *const *)a, *(char *const *)x);
}

/* No two samples, and no two families, are the same. */
static void check_unique(char **names, u32 nr)
{
	u32 k;

	qsort(names, nr, sizeof(*names), by_text);
	for (k = 1; k < nr; k++) {
		if (!strcmp(names[k], names[k - 1]))
			fprintf(stderr, "twice: %s\n", names[k]);
		CHECK(strcmp(names[k], names[k - 1]));
	}
}

static void check_form(const struct braid_online *o, bool open)
{
	char *text = metrics(o, open ? BRAID_EXPOSITION_OPEN : BRAID_EXPOSITION_TEXT);
	char *lines[MOST_LINES], family[64] = "", *type = NULL;
	u32 nr = split(text, lines), k, families = 0;
	size_t bytes;

	for (k = 0; k + open < nr; k++) {
		if (!strncmp(lines[k], "# HELP ", 7)) {
			families++;
			snprintf(family, sizeof(family), "%.*s", (int)strcspn(lines[k] + 7, " "),
				 lines[k] + 7);
			CHECK(!strncmp(lines[++k], "# TYPE ", 7));
			CHECK(!strncmp(lines[k] + 7, family, strlen(family)));
			type = strrchr(lines[k], ' ') + 1;
			CHECK(open == !strstr(family, "_total") || strcmp(type, "counter"));
			if (open && strstr(family, "_seconds"))
				CHECK(!strncmp(lines[++k], "# UNIT ", 7) &&
				      strstr(lines[k], "_seconds seconds"));
			continue;
		}
		if (!is_sample(lines[k], family, type && !strcmp(type, "histogram"), &bytes)) {
			fprintf(stderr, "%s\n", lines[k]);
			CHECK(!"a sample");
			continue;
		}
		lines[k][bytes] = 0;
	}
	CHECK(families > 20);
	if (open)
		CHECK(!strcmp(lines[nr - 1], "# EOF"));
	check_unique(lines, nr);
	free(text);
}

static void both_forms(void)
{
	const struct braid_online_options small = { .max_culprits = 2, .max_reasons = 1 };
	struct braid_online *o = engine(NULL);

	check_form(o, false);
	check_form(o, true);
	braid_online_end(o);
	o = engine(&small);
	check_form(o, false);
	check_form(o, true);
	braid_online_end(o);
	NEED(!braid_online_begin(&o, NULL));
	check_form(o, false);
	check_form(o, true);
	braid_online_end(o);
}

/* A sample's value as text; NULL: there is none. */
static const char *value_of(const char *text, const char *sample)
{
	const char *at = text;
	size_t bytes = strlen(sample);

	while ((at = strstr(at, sample))) {
		if ((at == text || at[-1] == '\n') && at[bytes] == ' ')
			return at + bytes + 1;
		at += bytes;
	}
	return NULL;
}

static u64 ns_of(const char *text, const char *sample)
{
	const char *at = value_of(text, sample);
	u64 ns, digit = SECOND / 10;

	if (!at) {
		fprintf(stderr, "no %s\n", sample);
		CHECK(!"there");
		return 0;
	}
	for (ns = 0; isdigit((unsigned char)*at); at++)
		ns = 10 * ns + *at - '0';
	ns *= SECOND;
	for (at += *at == '.'; isdigit((unsigned char)*at); at++, digit /= 10)
		ns += (*at - '0') * digit;
	return ns;
}

/* To the nanosecond. */
static void exact_values(void)
{
	static const char *const states[BRAID_NR_VCPU_STATES] = {
		"unknown", "guest", "hypervisor", "vmm", "running", "stolen", "throttled", "halted",
		"blocked", "sleeping", "stopped", "offline",
	};
	struct braid_online *o = engine(NULL);
	const struct braid_online_guest *g = online_guest(o, "web1");
	char *text = metrics(o, BRAID_EXPOSITION_TEXT), sample[256];
	u64 stolen = 0;
	u32 v, n;

	for (v = 0; v < 2; v++)
		for (n = 0; n < BRAID_NR_VCPU_STATES; n++) {
			snprintf(sample, sizeof(sample),
				 "tracebraid_vcpu_seconds_total{guest=\"web1\",vcpu=\"%u\",state=\"%s\"}",
				 v, states[n]);
			if (n == BRAID_VCPU_THROTTLED)	/* it has no quota */
				CHECK(!value_of(text, sample));
			else
				CHECK_EQ(ns_of(text, sample), g->vcpus[v].ns[n]);
		}
	for (n = 0; n < g->culprits.nr; n++)
		stolen += g->culprits.items[n].ns;
	CHECK_EQ(stolen, g->vcpus[0].ns[BRAID_VCPU_STOLEN] + g->vcpus[1].ns[BRAID_VCPU_STOLEN]);
	CHECK_EQ(ns_of(text, "tracebraid_stolen_seconds_total{guest=\"web1\",culprit_class=\"guest\","
		       "culprit=\"a\\\"b\\\\c}{,=\xc3\xa9\"}"),
		 online_stolen_by(g, BRAID_CULPRIT_GUEST, STRANGE));
	CHECK(ns_of(text, "tracebraid_stolen_seconds_total{guest=\"web1\",culprit_class=\"host\","
		    "culprit=\"host threads\"}") > 0);
	CHECK(ns_of(text, "tracebraid_stolen_seconds_total{guest=\"web1\",culprit_class=\"recorder\","
		    "culprit=\"recorder\"}") > 0);
	CHECK(ns_of(text, "tracebraid_throttled_seconds_total{guest=\"a\\\"b\\\\c}{,=\xc3\xa9\","
		    "cgroup=\"machine/web2\"}") > 0);
	CHECK_EQ(g->exits.nr, 4);
	for (n = 0; n < g->exits.nr; n++) {
		snprintf(sample, sizeof(sample), "tracebraid_exit%s_total{guest=\"web1\",reason=\"%s\"}",
			 "s", g->exits.items[n].name);
		CHECK_EQ(ns_of(text, sample) / SECOND, g->exits.items[n].count);
		snprintf(sample, sizeof(sample), "tracebraid_exit%s_total{guest=\"web1\",reason=\"%s\"}",
			 "_seconds", g->exits.items[n].name);
		CHECK_EQ(ns_of(text, sample), g->exits.items[n].ns);
	}
	CHECK_EQ(ns_of(text, "tracebraid_wakeup_seconds_count{guest=\"web1\"}") / SECOND, g->wakeups.nr);
	CHECK_EQ(ns_of(text, "tracebraid_wakeup_seconds_sum{guest=\"web1\"}"), g->wakeups.sum_ns);
	CHECK_EQ(ns_of(text, "tracebraid_wakeup_seconds_bucket{guest=\"web1\",le=\"+Inf\"}") / SECOND,
		 g->wakeups.nr);
	CHECK_EQ(ns_of(text, "tracebraid_vcpu_wakeup_seconds_sum{guest=\"web1\"}"), g->vcpu_wakeups.sum_ns);
	CHECK(value_of(text, "tracebraid_stolen_episode_seconds_bucket{guest=\"web1\",le=\"0.0005\"}"));
	CHECK(value_of(text, "tracebraid_stolen_episode_seconds_bucket{guest=\"web1\",le=\"10.0\"}"));
	CHECK(value_of(text, "tracebraid_guest_info{guest=\"web1\",driver=\"yes\",clock=\"exchange\"}"));
	CHECK_EQ(ns_of(text, "tracebraid_events_total{guest=\"web1\"}") / SECOND, b.guest_events);
	CHECK_EQ(ns_of(text, "tracebraid_host_events_total") / SECOND, b.host_events);
	CHECK(ns_of(text, "tracebraid_clock_bound_seconds{guest=\"web1\"}") < MS);
	CHECK(ns_of(text, "tracebraid_guest_silent_seconds{guest=\"web1\"}") < 20 * MS);
	CHECK_EQ(ns_of(text, "tracebraid_analyzed_until_seconds"), braid_online_totals(o)->now_ns);
	free(text);
	braid_online_end(o);
}

/* Any bytes of a name are one label. */
static void labels(void)
{
	struct braid_text text = { 0 };
	struct braid_exposition e = { .out = &text, .form = BRAID_EXPOSITION_OPEN };

	braid_exposition_family(&e, "x_bytes", BRAID_GAUGE, "X.");
	braid_exposition_sample(&e);
	braid_exposition_label(&e, "a", "\"} 1\n# EOF\\");
	braid_exposition_label(&e, "b", "");
	braid_exposition_label_number(&e, "c", UINT64_MAX);
	braid_exposition_number(&e, 1ULL << 63);
	braid_exposition_sample(&e);
	braid_exposition_ns(&e, UINT64_MAX);
	braid_exposition_sample(&e);
	braid_exposition_ns(&e, UINT64_MAX - 1);
	braid_exposition_sample(&e);
	braid_exposition_ns(&e, 1);
	braid_exposition_sample(&e);
	braid_exposition_ns(&e, 3 * SECOND);
	braid_text_putc(&text, 0);
	CHECK(!strcmp(text.data, "# HELP x_bytes X.\n# TYPE x_bytes gauge\n# UNIT x_bytes bytes\n"
		      "x_bytes{a=\"\\\"} 1\\n# EOF\\\\\",b=\"\",c=\"18446744073709551615\"} 9223372036854775808\n"
		      "x_bytes +Inf\nx_bytes 18446744073.709551614\nx_bytes 0.000000001\nx_bytes 3.0\n"));
	braid_text_free(&text);
}

int main(void)
{
	RUN(labels);
	RUN(both_forms);
	RUN(exact_values);
	return VERDICT();
}
