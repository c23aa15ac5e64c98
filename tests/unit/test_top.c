// SPDX-License-Identifier: GPL-2.0-or-later
/* Samples fake guests as `tracebraid top` does: without changes, exact for guests at rest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/top.h"
#include "host_agent/clock_sync/host.h"
#include "tests/unit/busy_host.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

static char *region, *capture;

static struct fake_guest *new_guest(u32 flags)
{
	const struct fake_params p = {
		.name = "fake", .bytes = 1 << 20, .nr_vcpus = 2, .subbuf_bytes = 1024, .nr_slots = 16,
		.flags = flags, .always = true,
	};

	return fake_guest_new(region, &p);
}

/* Both ways of counting, of each ring. */
static void check_gauges(void)
{
	struct braid_ring_account whole, quick;
	struct braid_superblock sb;
	struct braid_ring_map map;
	struct braid_mapping *m;
	u32 vcpu;

	NEED(!braid_mapping_open(&m, region, false) && !braid_mapping_identify(m, &sb));
	for (vcpu = 0; vcpu < sb.nr_vcpus; vcpu++) {
		braid_mapping_ring(m, &sb, 0, vcpu, &map);
		NEED(!braid_ring_account(&whole, &map, m, sb.incarnation, NULL, NULL));
		NEED(!braid_ring_gauge(&quick, &map, m, sb.incarnation));
		CHECK(!*whole.fault);
		CHECK_EQ(quick.written, whole.written);
		CHECK_EQ(quick.read, whole.read);
		CHECK_EQ(quick.lost, whole.lost);
		CHECK_EQ(quick.left, whole.left);
		CHECK_EQ(quick.left_bytes, whole.left_bytes);
		CHECK_EQ(quick.bytes, whole.bytes);
	}
	braid_mapping_close(m);
}

static void gauges_count_as_accounts_do(void)
{
	static const u32 modes[] = { 0, BRAID_BUFFER_OVERWRITE };
	struct fake_guest *g;
	size_t k;

	for (k = 0; k < 2; k++) {
		g = new_guest(modes[k]);
		check_gauges();
		fake_guest_write(g, 0, 7);
		fake_guest_write(g, 1, 100);
		check_gauges();
		fake_guest_read(g, 1);
		fake_guest_write(g, 1, 3);
		check_gauges();
		fake_guest_write(g, 0, 5000);	/* more than it holds */
		fake_guest_write(g, 1, 5000);
		check_gauges();
		fake_guest_free(g);
	}
}

/* A sample of one guest. */
static const struct braid_top_guest *sample(struct braid_top *top)
{
	NEED(!braid_top_sample(top));
	NEED(top->nr == 1);
	return &top->guests[0];
}

/* A rate times the time between two samples equals the events written between them. */
static bool near(double rate, u64 ns, double count)
{
	double seconds = ns / 1e9;

	return fabs(rate * seconds - count) < count / 100 + 0.001;
}

static void shows_rates_and_changes_nothing(void)
{
	struct fake_guest *g = new_guest(0);
	struct braid_top *top = calloc(1, sizeof(*top));
	const struct braid_top_guest *one;
	u8 *before = malloc(1 << 20);
	u64 first_ns;

	NEED(top && before && !braid_top_add(top, region, "fake"));
	fake_guest_write(g, 0, 50);
	memcpy(before, g->base, 1 << 20);
	one = sample(top);
	CHECK(isnan(one->rates.events));
	CHECK_EQ(one->vcpus[0].events, 50);
	CHECK(isnan(one->rates.steal) && isnan(one->rates.exits));
	CHECK(!memcmp(before, g->base, 1 << 20));

	first_ns = one->sampled_ns;
	fake_guest_write(g, 0, 200);
	fake_guest_write(g, 1, 100);
	one = sample(top);
	CHECK(near(one->vcpus[0].rates.events, one->sampled_ns - first_ns, 200));
	CHECK(near(one->vcpus[1].rates.events, one->sampled_ns - first_ns, 100));
	CHECK(near(one->rates.events, one->sampled_ns - first_ns, 300));
	CHECK(one->rates.bytes > 8 * one->rates.events);
	CHECK_EQ(one->rates.lost, 0);
	CHECK(one->vcpus[0].fill_permille > one->vcpus[1].fill_permille);
	CHECK_EQ(one->fill_permille, one->vcpus[0].fill_permille);

	fake_guest_write(g, 1, 100000);
	one = sample(top);
	CHECK(one->vcpus[1].rates.lost > 0 && !one->vcpus[0].rates.lost);
	CHECK(one->lost > 90000);
	CHECK(one->vcpus[1].fill_permille > 900);
	braid_top_free(top);
	free(top);
	free(before);
	fake_guest_free(g);
}

static void shows_recorders_and_restarts(void)
{
	struct braid_top *top = calloc(1, sizeof(*top));
	struct session s = { 0 };
	const struct braid_top_guest *one;

	s.guest = new_guest(0);
	NEED(top && !braid_top_add(top, region, NULL));
	one = sample(top);
	CHECK(!one->recorded);
	CHECK(!strcmp(one->name, "fake"));
	session_begin(&s, region, capture, NULL);
	fake_guest_write(s.guest, 0, 300);
	session_settle(&s);
	one = sample(top);
	CHECK(one->recorded);
	CHECK(one->rates.read > 0);
	session_end(&s);

	fake_guest_free(s.guest);
	s.guest = new_guest(0);		/* another incarnation, in another file */
	one = sample(top);
	CHECK(isnan(one->rates.events));
	CHECK_EQ(one->vcpus[0].events, 0);
	fake_guest_free(s.guest);
	one = sample(top);
	CHECK_EQ(one->state, BRAID_DRIVER_NONE);
	braid_top_free(top);
	free(top);
}

/* Unreadable data is simulated by a process of this test. */
static void shows_times_of_a_thread(void)
{
	struct braid_thread_times t;

	CHECK(!braid_thread_times(getpid(), &t));
	CHECK(t.run_ns > 0);
	CHECK(braid_thread_times(-1, &t) < 0);
}

static void sorts_by_the_largest(void)
{
	struct braid_top_guest guests[3] = {
		{ .name = "b", .rates.events = 5, .rates.exits = NAN },
		{ .name = "a", .rates.events = NAN, .rates.exits = 1 },
		{ .name = "c", .rates.events = 9, .rates.exits = NAN },
	};
	struct braid_top *top = calloc(1, sizeof(*top));

	NEED(top);
	top->guests = guests;
	top->nr = 3;
	braid_top_sort(top, BRAID_TOP_EVENTS);
	CHECK(!strcmp(guests[0].name, "c") && !strcmp(guests[2].name, "a"));
	braid_top_sort(top, BRAID_TOP_EXITS);
	CHECK(!strcmp(guests[0].name, "a") && !strcmp(guests[1].name, "b"));
	braid_top_sort(top, BRAID_TOP_NAME);
	CHECK(!strcmp(guests[0].name, "a") && !strcmp(guests[2].name, "c"));
	free(top);
}

static struct braid_top_screen screen;
static struct braid_top many;

static int print_many(int argc, char **argv)
{
	(void)argc, (void)argv;
	braid_top_print(&many, &screen);
	return 0;
}

/* The number of printed lines; none may be wider than the screen. */
static u32 check_lines(void)
{
	const char *at = strchr(printed, 'J') + 1, *end;	/* after the sequence that clears
								   the screen */
	u32 nr = 0;

	for (; (end = strchr(at, '\n')); at = end + 1, nr++)
		CHECK((u32)(end - at) <= screen.columns);
	return nr;
}

/* Parts that do not fit a small terminal are omitted, or on the next page. */
static void fits_the_terminal(void)
{
	struct braid_top_guest guests[12] = { 0 };
	u32 k, lines;

	many.guests = guests;
	many.nr = 12;
	for (k = 0; k < 12; k++)
		snprintf(guests[k].name, sizeof(guests[k].name), "guest-%02u-with-a-long-name", k);
	screen = (struct braid_top_screen){ .terminal = true, .rows = 10, .columns = 60 };
	RUN_COMMAND(print_many, "top");
	CHECK(check_lines() < screen.rows);
	CHECK(strstr(printed, "EVENTS/s     LOST  FILL%\n") && strstr(printed, "?: keys"));
	CHECK(strstr(printed, "guest-05") && !strstr(printed, "guest-06"));
	CHECK(strstr(printed, "rows 1 to 6 of 12"));
	screen.first += braid_top_page(&many, &screen);
	RUN_COMMAND(print_many, "top");
	CHECK(strstr(printed, "guest-06") && !strstr(printed, "guest-05"));
	CHECK(strstr(printed, "rows 7 to 12 of 12"));
	screen.keys = true;
	RUN_COMMAND(print_many, "top");
	CHECK(strstr(printed, "  s  steal time of vCPUs") && !strstr(printed, "guest-06"));
	screen = (struct braid_top_screen){ .terminal = true, .rows = 40, .columns = 200 };
	RUN_COMMAND(print_many, "top");
	lines = check_lines();
	CHECK_EQ(lines, 14);
	CHECK(strstr(printed, "EXITS/s\n") && !strstr(printed, "rows 1"));
}

/* The number after a key, from a place on. */
static double number_of(const char *at, const char *key)
{
	const char *found = at ? strstr(at, key) : NULL;

	NEED(found);
	return strtod(found + strlen(key), NULL);
}

/* What analyze finds of a vCPU. */
struct of_states {
	double ran, stolen;	/* of the observed time */
	double seconds;
};

static struct of_states states_of(const char *path, const char *vcpu)
{
	static const char *const ran[] = {
		"\"guest_ns\":", "\"hypervisor_ns\":", "\"vmm_ns\":", "\"running_ns\":",
	};
	struct of_states of = { 0 };
	const char *row;
	double all;
	size_t k;

	CHECK_EQ(RUN_COMMAND(braid_cmd_analyze, "analyze", "states", "--json", path), 0);
	row = strstr(printed, vcpu);
	all = number_of(row, "\"observed_ns\":");
	for (k = 0; k < 4; k++)
		of.ran += number_of(row, ran[k]) / all;
	of.stolen = number_of(row, "\"stolen_ns\":") / all;
	of.seconds = all / 1e9;
	return of;
}

/* All exits of the two guests, in the order of the captures' streams. */
static double exits_of(const char *path)
{
	const char *at;
	double sum = 0;

	CHECK_EQ(RUN_COMMAND(braid_cmd_analyze, "analyze", "exits", "--json", "--top", "100", path), 0);
	for (at = printed; (at = strstr(at, "\"vcpu\":\"web1")); at++)
		sum += number_of(at, "\"count\":");
	return sum;
}

static bool same(double shown, double wanted)
{
	return fabs(shown - wanted) <= 0.00051;
}

/* A capture that grows: each guest has one row, whatever their order is. */
static void shows_a_growing_capture(void)
{
	struct busy_host b = { .path = capture, .for_ns = 2000000000, .mark_ns = 5000000 };
	struct braid_top *top = calloc(1, sizeof(*top));
	size_t bytes;
	u8 *all;
	u32 k;

	busy_host(&b);
	all = read_file(capture, &bytes);
	NEED(top);
	for (k = 1; k <= 8; k++) {
		write_file(capture, all, bytes * k / 8);
		if (k == 1)
			NEED(!braid_top_open_capture(top, capture));
		NEED(!braid_top_sample_capture(top));
		braid_top_sort(top, k & 1 ? BRAID_TOP_STEAL : BRAID_TOP_NAME);
		CHECK(top->nr <= 2);
		CHECK_EQ(top->over, k == 8);
		if (top->nr == 2 && k < 8)
			CHECK(top->guests[0].rates.run > 0 && top->guests[1].rates.run > 0);
	}
	CHECK_EQ(top->nr, 2);
	braid_top_free(top);
	free(top);
	free(all);
}

/* What top shows of a whole capture is what analyze finds in it. */
static void shows_a_capture_as_analyze(void)
{
	struct busy_host b = { .path = capture, .for_ns = 2000000000, .mark_ns = 5000000 };
	struct of_states first, second;
	const char *web1, *web2;
	double exits;

	busy_host(&b);
	first = states_of(capture, "web1/vCPU 1");
	second = states_of(capture, "web2/vCPU 0");
	exits = exits_of(capture);
	CHECK_EQ(RUN_COMMAND(braid_cmd_top, "top", "--json", capture), 0);
	web1 = strstr(printed, "\"guest\":\"web1\"");
	web2 = strstr(printed, "\"guest\":\"web2\"");
	NEED(web1 && web2);
	CHECK(same(number_of(strstr(web1, "\"vcpu\":1"), "\"run\":"), first.ran));
	CHECK(same(number_of(strstr(web1, "\"vcpu\":1"), "\"steal\":"), first.stolen));
	CHECK(same(number_of(strstr(web2, "\"vcpu\":0"), "\"run\":"), second.ran));
	CHECK(same(number_of(strstr(web2, "\"vcpu\":0"), "\"steal\":"), second.stolen));
	CHECK(first.stolen > 0.01 && second.ran > 0.01);
	CHECK(same(number_of(web1, "\"exits_per_s\":"), exits / first.seconds));
	CHECK(same(number_of(web1, "\"events_per_s\":"), b.guest_events / first.seconds));
	CHECK(!strncmp(strstr(web2, "\"events_per_s\":"), "\"events_per_s\":null", 19));
	CHECK_EQ(RUN_COMMAND(braid_cmd_top, "top", "--json", "-r", "x", capture), 1);
	CHECK(strstr(printed, "a capture is shown alone"));
}

int main(void)
{
	region = scratch("region");
	capture = scratch("c.braid");
	RUN(gauges_count_as_accounts_do);
	RUN(shows_rates_and_changes_nothing);
	RUN(shows_recorders_and_restarts);
	RUN(shows_times_of_a_thread);
	RUN(sorts_by_the_largest);
	RUN(fits_the_terminal);
	RUN(shows_a_growing_capture);
	RUN(shows_a_capture_as_analyze);
	return VERDICT();
}
