// SPDX-License-Identifier: GPL-2.0-or-later
/* Output of commands: for a live region with buffers of all kinds, and filters without a match. */
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/list.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"

static char *dir, *region_path;

static const struct fake_params usual = {
	.name = "fake", .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 16,
};

static const struct braid_buffer_params small = {
	.name = "small", .subbuf_bytes = 1024, .nr_slots = 8,
};

static u64 written_in_all(void)
{
	const char *line = strstr(printed, "\nall ");

	return line ? strtoull(line + 5, NULL, 10) : 0;
}

/* Addresses that do not fit the guest's symbol table are counted, and reported if there are any. */
static void counts_unnamed(struct fake_guest *g)
{
	const char *text[] = { "stat", region_path, NULL };
	const char *json[] = { "stat", "--json", region_path, NULL };
	struct braid_symbol_table *symbols =
		(void *)(g->base + g->sb.sections[BRAID_SECTION_SYMBOLS].offset);

	CHECK_EQ(run_command(braid_cmd_stat, text), EXIT_SUCCESS);
	CHECK(!strstr(printed, "Unnamed kernel addresses"));
	symbols->missed = 5;
	CHECK_EQ(run_command(braid_cmd_stat, text), EXIT_SUCCESS);
	CHECK(strstr(printed, "Unnamed kernel addresses in events: at least 5."));
	CHECK_EQ(run_command(braid_cmd_stat, json), EXIT_SUCCESS);
	CHECK(strstr(printed, "\"unnamed_symbols\":5,"));
	symbols->missed = 0;
}

/* How long recording was off; of an earlier driver that is unknown. */
static void says_when_recording_was_off(struct fake_guest *g)
{
	const char *text[] = { "stat", region_path, NULL };
	const char *json[] = { "stat", "--json", region_path, NULL };
	struct braid_ring_map map;

	CHECK_EQ(run_command(braid_cmd_stat, text), EXIT_SUCCESS);
	CHECK(!strstr(printed, "off"));
	CHECK_EQ(run_command(braid_cmd_stat, json), EXIT_SUCCESS);
	CHECK(strstr(printed, "\"off\":null,\"off_times\":null,\"off_ns\":null"));
	fake_guest_ring(g, 0, 0, &map);
	map.priv->off_times = 2;
	map.priv->off_steps = 250000000;
	map.priv->off_seq = 2;
	CHECK_EQ(run_command(braid_cmd_stat, text), EXIT_SUCCESS);
	CHECK(strstr(printed, "ok; recording was off: 2 times, 0.250000 s in all\n"));
	map.priv->off_now = 1;
	CHECK_EQ(run_command(braid_cmd_stat, text), EXIT_SUCCESS);
	CHECK(strstr(printed, "ok; recording is off: 2 times, 0.250000 s in all\n"));
	CHECK_EQ(run_command(braid_cmd_stat, json), EXIT_SUCCESS);
	CHECK(strstr(printed, "\"off\":true,\"off_times\":2,\"off_ns\":250000000"));
	map.priv->off_seq = 3;	/* it is being changed */
	CHECK_EQ(run_command(braid_cmd_stat, text), EXIT_SUCCESS);
	CHECK(!strstr(printed, "off"));
	memset(&map.priv->off_seq, 0, sizeof(map.priv->off_seq));
}

/* list, stat and verify read live buffers of all kinds without changing them. */
static void commands_on_all_kinds_of_buffers(void)
{
	struct braid_schema_event sub = {
		.id = 1, .number = 17, .system = "sched", .name = "seventeen", .format = "",
		.flags = BRAID_EVENT_SUB | 8u << BRAID_SUB_BYTES_SHIFT | 8u << BRAID_SUB_OFFSET_SHIFT,
	};
	struct braid_buffer_params backup = small, raw = small, gone = small;
	const char *list[] = { "list", region_path, NULL };
	const char *json[] = { "list", "--json", region_path, NULL };
	const char *stat[] = { "stat", region_path, NULL };
	const char *stat_one[] = { "stat", "--buffer", "raw", region_path, NULL };
	const char *stat_none[] = { "stat", "-B", "nosuch", region_path, NULL };
	const char *verify[] = { "verify", region_path, NULL };
	struct fake_guest *g = fake_guest_new(region_path, &usual);
	struct braid_ring_map map;

	backup.name = "backup";
	backup.events_of = "main";
	raw.name = "raw";
	raw.flags = BRAID_BUFFER_RAW;
	gone.name = "gone";
	fake_guest_open_buffer(g, &gone);
	fake_guest_open_buffer(g, &backup);
	fake_guest_open_buffer(g, &raw);
	fake_guest_tell(g, &sub);
	fake_guest_close_buffer(g, 1, true);
	fake_guest_write(g, 0, 8);
	fake_guest_write_to(g, 2, 0, 16);
	fake_guest_write_to(g, 3, 1, 3);
	fake_guest_ring(g, 0, 1, &map);
	map.priv->reader_owner = BRAID_READER_GUEST;
	CHECK_EQ(run_command(braid_cmd_verify, verify), EXIT_SUCCESS);
	CHECK(strstr(printed, "4 events in the directory, 6 rings, 27 unread events"));
	CHECK_EQ(run_command(braid_cmd_stat, stat), EXIT_SUCCESS);
	CHECK_EQ(written_in_all(), 27);
	CHECK_EQ(run_command(braid_cmd_stat, stat_one), EXIT_SUCCESS);
	CHECK_EQ(written_in_all(), 3);
	CHECK_EQ(run_command(braid_cmd_stat, stat_none), EXIT_FAILURE);
	CHECK(strstr(printed, "no buffer 'nosuch'"));
	counts_unnamed(g);
	says_when_recording_was_off(g);
	CHECK_EQ(run_command(braid_cmd_list, list), EXIT_SUCCESS);
	CHECK(strstr(printed, "  0/4  "));	/* a sub-event is not an event */
	CHECK(strstr(printed, "events of main"));
	CHECK(strstr(printed, "raw producer/consumer raw 9x1024"));
	CHECK(!strstr(printed, "seventeen") && !strstr(printed, "gone"));
	CHECK_EQ(run_command(braid_cmd_list, json), EXIT_SUCCESS);
	CHECK(strstr(printed, "\"events_of\":\"main\",\"raw\":false"));
	/* One of many buffers takes its events from one that does not exist. */
	((struct braid_superblock *)g->base)->buffers[2].events_of = 40;
	CHECK_EQ(run_command(braid_cmd_verify, verify), EXIT_FAILURE);
	fake_guest_free(g);
}

/* `list` with options, of the region. */
static int list(const char *a, const char *b, const char *c)
{
	const char *argv[] = { "list", region_path, a, b, c, NULL };

	return run_command(braid_cmd_list, argv);
}

/* list -e prints each event on a line, and sub-events on request. */
static void lists_events(void)
{
	struct braid_schema_event sub = {
		.id = 1, .number = 17, .system = "sched", .name = "seventeen", .format = "",
		.flags = BRAID_EVENT_SUB | 8u << BRAID_SUB_BYTES_SHIFT | 8u << BRAID_SUB_OFFSET_SHIFT,
	}, gone = { .id = 9, .system = "a", .name = "gone", .format = "", .flags = BRAID_EVENT_GONE };
	struct fake_guest *g = fake_guest_new(region_path, &usual);

	fake_guest_tell(g, &sub);
	fake_guest_tell(g, &gone);
	CHECK_EQ(list("-e", NULL, NULL), EXIT_SUCCESS);
	CHECK(strstr(printed, "sched:sched_switch\n") && strstr(printed, "sched:sched_wakeup\n"));
	CHECK(!strstr(printed, "seventeen") && !strstr(printed, "gone"));
	CHECK_EQ(list("-e", "-v", NULL), EXIT_SUCCESS);
	CHECK(strstr(printed, "sched:seventeen\n"));
	CHECK_EQ(list("-e", "sched:*switch", NULL), EXIT_SUCCESS);
	CHECK(!strcmp(printed, "sched:sched_switch\n"));
	CHECK_EQ(list("-e", "sched_switch", NULL), EXIT_SUCCESS);
	CHECK(!strcmp(printed, "sched:sched_switch\n"));
	CHECK_EQ(list("-e", "seven*", NULL), EXIT_SUCCESS);
	CHECK(!strcmp(printed, "sched:seventeen\n"));
	CHECK_EQ(list("-e", "sched:sched_swich", NULL), EXIT_FAILURE);
	CHECK(strstr(printed, "did you mean sched:sched_switch"));
	CHECK_EQ(list("-e", "sched:*switch", "--json"), EXIT_SUCCESS);
	CHECK(!strcmp(printed, "[{\"guest\":\"fake\",\"system\":\"sched\",\"event\":\"sched_switch\","
			       "\"buffer\":\"main\",\"id\":1,\"on\":false}]\n"));
	memset(g->base, 0, sizeof(struct braid_superblock));
	CHECK_EQ(list("-e", NULL, NULL), EXIT_FAILURE);
	CHECK(strstr(printed, "no guest has a driver"));
	memset(g->base, 0x55, sizeof(struct braid_superblock));
	CHECK_EQ(list("-e", NULL, NULL), EXIT_FAILURE);
	CHECK(strstr(printed, ": not a tracebraid region"));
	fake_guest_free(g);
}

/* The column of a word in its line. */
static long column_of(const char *word)
{
	const char *at = strstr(printed, word), *line = at;

	NEED(at);
	while (line > printed && line[-1] != '\n')
		line--;
	return at - line;
}

/* Of the longest line, but a name alone on its own, which cannot be broken. */
static size_t columns(void)
{
	const char *line = printed;
	size_t n, most = 0;

	for (; *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		if (n > most && line[n] && strncmp(line, "tracebraid: ", 12))
			most = n;
	}
	return most;
}

/* Long names and states keep columns aligned, and rows within a terminal's width. */
static void columns_stay_aligned(void)
{
	struct braid_buffer_params second = small;
	struct fake_guest *g = fake_guest_new(region_path, &usual);
	struct braid_superblock *sb = (void *)g->base;

	second.name = "second";
	fake_guest_open_buffer(g, &second);
	strcpy(sb->guest_name, "a-guest-whose-name-is-rather-a-long-one");
	strcpy(sb->kernel_release, "6.12.74+deb13+1-cloud-with-more-amd64");
	CHECK_EQ(list(NULL, NULL, NULL), EXIT_SUCCESS);
	CHECK_EQ(column_of("KERNEL"), column_of("6.12.74"));
	CHECK_EQ(column_of("BUFFER "), column_of("main "));
	CHECK_EQ(column_of("BUFFER "), column_of("second "));
	CHECK(columns() <= 80);
	strcpy(sb->guest_name, "web1");
	strcpy(sb->kernel_release, "6.12.74+deb13+1-amd64");
	CHECK_EQ(list(NULL, NULL, NULL), EXIT_SUCCESS);
	CHECK(columns() <= 80);
	CHECK_EQ(column_of("EVENTS ON") + (long)strlen("EVENTS ON"), column_of("0/4") + 3);
	fake_guest_free(g);
}

static int print_domains(int argc, char **argv)
{
	static const struct braid_domain domains[] = {
		{ .name = "web1", .state = "running", .attached = true, .configured = true,
		  .path = "/dev/shm/tracebraid-web1", .qemu_pid = 1234567 },
		{ .name = "a-domain-whose-name-is-rather-a-long-one", .state = "shut off" },
	};

	(void)argc, (void)argv;
	braid_list_print_domains(domains, 2, NULL, 0);
	return 0;
}

static void domains_fit(void)
{
	CHECK_EQ(RUN_COMMAND(print_domains, "list"), 0);
	CHECK(columns() <= 80 && strstr(printed, "needs KVM"));
	CHECK_EQ(column_of("MEMORY"), column_of("attached, configured"));
	CHECK_EQ(column_of("MEMORY"), column_of("none"));
}

/* The name of a file can control no terminal. */
static void names_are_sanitized(void)
{
	struct fake_guest *g;
	char odd[96];

	snprintf(odd, sizeof(odd), "%s/re\x1b[2Jgion", dir);
	g = fake_guest_new(odd, &usual);
	CHECK_EQ(run_command(braid_cmd_list, ((const char *[]){ "list", odd, NULL })), EXIT_SUCCESS);
	CHECK(strstr(printed, "/re") && strstr(printed, "[2Jgion") && !strchr(printed, '\x1b'));
	fake_guest_free(g);
	unlink(odd);
}

/* An empty report says why. */
static void filters_without_a_match(void)
{
	const char *event[] = { "report", "-e", "nosuch", "-e", "test:t?ck", region_path, NULL };
	const char *none[] = { "report", "-e", "nosuch", "-e", "no:such", region_path, NULL };
	const char *buffer[] = { "report", "-B", "nosuch", region_path, NULL };
	const char *stat[] = { "stat", "-B", "nosuch", region_path, NULL };

	synth_standard(region_path);
	CHECK_EQ(run_command(braid_cmd_report, event), EXIT_SUCCESS);
	CHECK(!strstr(printed, "no event matches"));
	CHECK_EQ(run_command(braid_cmd_report, none), 2);
	CHECK(strstr(printed, "tracebraid: no event matches 'nosuch' or 'no:such'\n"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "-e", "tikc", region_path), 2);
	CHECK(strstr(printed, "no event matches 'tikc'; did you mean 'tick'?\n"));
	CHECK_EQ(run_command(braid_cmd_report, buffer), EXIT_FAILURE);
	CHECK(strstr(printed, "no buffer 'nosuch'"));
	buffer[2] = "main";
	CHECK_EQ(run_command(braid_cmd_report, buffer), EXIT_SUCCESS);
	CHECK(strstr(printed, " tick: ") && !strstr(printed, " tock: "));
	CHECK_EQ(run_command(braid_cmd_stat, stat), EXIT_FAILURE);
	unlink(region_path);
}

int main(void)
{
	dir = scratch(".");
	region_path = scratch("region");
	RUN(commands_on_all_kinds_of_buffers);
	RUN(lists_events);
	RUN(columns_stay_aligned);
	RUN(domains_fit);
	RUN(names_are_sanitized);
	RUN(filters_without_a_match);
	return VERDICT();
}
