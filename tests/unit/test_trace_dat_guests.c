// SPDX-License-Identifier: GPL-2.0-or-later
/* A host's file of trace-cmd and those of its guests, as one trace. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/export/text/form.h"
#include "host_agent/export/trace_dat/form.h"
#include "host_agent/trace/vcpu.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/make_trace_dat.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"
#include "tests/unit/shell.h"

#define HOST_ID		0x1122334455667788ULL
#define GUEST_ID	0x99aabbccddeeff00ULL
#define BEHIND		700000000000ULL		/* of the guest's counter */
#define THIRD		0x2aaaaaab		/* of a second: the counter has 3 GHz */

static char host_path[64], guest_path[64], capture[64];

/* The guest's first event is half a step after the host's. */
static const struct synth_dat usual_host = {
	.version = 7, .clock = "tsc2nsec", .buffer_clock = "tsc2nsec", .tsc_multiplier = THIRD,
	.start = 3000000000000ULL, .step = 10000, .uname = "Linux big 6.12.0 x86_64",
	.trace_id = HOST_ID, .guest = "web1", .guest_id = GUEST_ID, .guest_tids = { 501, 502 },
};

static const struct synth_dat usual_guest = {
	.version = 7, .clock = "tsc2nsec", .buffer_clock = "tsc2nsec", .tsc_multiplier = THIRD,
	.start = 3000000000000ULL + 5000 - BEHIND, .step = 10000, .uname = "Linux small 6.1.9 x86_64",
	.trace_id = GUEST_ID, .shifted = true, .by_kvm = true, .shift_ns = BEHIND, .peer = HOST_ID,
};

/* NULL: it cannot be opened. */
static char *report_of(char **names, size_t nr, struct braid_walk_totals *totals)
{
	static const struct braid_walk_options options;
	struct braid_source *source;
	char *text = NULL;
	size_t bytes;
	FILE *to;

	if (braid_source_open_captures(&source, names, nr, NULL))
		return NULL;
	to = open_memstream(&text, &bytes);
	NEED(to && !braid_export_text(to, source, &options, totals));
	fclose(to);
	braid_source_free(source);
	return text;
}

static char *report(const struct synth_dat *host, const struct synth_dat *guest, bool guest_first)
{
	char *names[] = { host_path, guest_path, host_path };
	struct braid_walk_totals totals = { 0 };
	char *text;

	synth_trace_dat(host_path, host);
	synth_trace_dat(guest_path, guest);
	text = report_of(names + guest_first, 2, &totals);
	if (text)
		CHECK_EQ(totals.events, 2 * SYNTH_DAT_EVENTS);
	return text;
}

static bool refused(const struct synth_dat *host, const struct synth_dat *guest, const char *why)
{
	char *text = report(host, guest, false);

	if (!text && strstr(braid_failure(), why))
		return true;
	fprintf(stderr, "%s\n", text ? "it was read" : braid_failure());
	free(text);
	return false;
}

static bool has(const char *text, const char *what)
{
	if (!text || !strstr(text, what))
		fprintf(stderr, "no '%s' in\n%.800s\n", what, text ? text : braid_failure());
	return text && strstr(text, what);
}

/* One timeline, whatever the order of the files; the guest has its name, and its own kernel. */
static void together(void)
{
	struct synth_dat host = usual_host, guest = usual_guest;
	char *text, *events, *other;

	for (host.version = 6; host.version <= 7; host.version++) {
		guest.version = host.version;
		text = report(&host, &guest, false);
		CHECK(has(text, "# web1: Linux 6.1.9 x86_64, 2 vCPUs, clock trace-cmd (KVM's offsets, the same in all samples), bound ≤ 1 ns\n"));
		CHECK(has(text, "Linux 6.12.0 x86_64, 2 CPUs, clock tsc2nsec\n"));
		CHECK(has(text, "times are seconds of the host's clock tsc2nsec\n"));
		NEED(text);
		events = strstr(text, "1000.000000465: beat:");
		CHECK(events && strstr(events, "1000.000002132: beat:") > events);
		CHECK(events && strstr(events, "1000.000003798: beat:") >
		      strstr(events, "1000.000002132: beat:"));
		other = report(&host, &guest, true);
		CHECK(has(other, "times are seconds of the host's clock tsc2nsec\n"));
		free(other);
		free(text);
	}
}

/* The host's list says which threads the guest's vCPUs are. */
static void threads(void)
{
	struct synth_dat host = usual_host;
	char *names[] = { guest_path, host_path };
	struct braid_vcpu_map map;
	struct braid_source *source;
	const struct braid_vcpu_span *span;

	synth_trace_dat(guest_path, &usual_guest);
	synth_trace_dat(host_path, &host);
	NEED(!braid_source_open_captures(&source, names, 2, NULL));
	NEED(!braid_vcpu_map_make(&map, source));
	span = braid_vcpu_map_find(&map, 0, 502, 5);
	CHECK(span && span->vcpu == 1 && span->guest == source->streams[0]);
	CHECK_EQ(source->streams[0]->kind, BRAID_STREAM_GUEST);
	CHECK_EQ(source->streams[1]->kind, BRAID_STREAM_HOST);
	braid_vcpu_map_free(&map);
	braid_source_free(source);
	/* One thread, listed for each vCPU, runs them in turn; -1 is none. */
	host.guest_tids[0] = 502;
	synth_trace_dat(host_path, &host);
	NEED(!braid_source_open_captures(&source, names, 2, NULL));
	CHECK_EQ(source->streams[0]->nr_threads, 1);
	CHECK_EQ(source->streams[0]->threads[0].vcpu, BRAID_VCPU_ALL);
	braid_source_free(source);
	host.guest_tids[0] = -1;
	synth_trace_dat(host_path, &host);
	NEED(!braid_source_open_captures(&source, names, 2, NULL));
	CHECK_EQ(source->streams[0]->nr_threads, 1);
	CHECK_EQ(source->streams[0]->threads[0].vcpu, 1);
	braid_source_free(source);
}

/* A bound is stated only where the file's samples give one. */
static void bounds(void)
{
	static const struct {
		bool exchange, scaled;
		s64 step;
		u32 cpus;
		const char *why;
	} kinds[] = {
		{ .exchange = true, .why = "(trace-cmd's exchange of messages, whose error it does not save), bound unknown\n" },
		{ .scaled = true, .why = "(KVM scales the guest's counter), bound unknown\n" },
		{ .step = 1, .why = "(KVM's offset changed between two samples), bound unknown\n" },
		{ .cpus = 1, .why = "(a vCPU has no sample), bound unknown\n" },
	};
	struct synth_dat guest;
	char *text;
	size_t k;

	for (k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		guest = usual_guest;
		guest.by_kvm = !kinds[k].exchange;
		guest.shift_fraction = kinds[k].exchange || kinds[k].scaled;
		guest.shift_scale = kinds[k].scaled ? 3 : 0;
		guest.shift_step = kinds[k].step;
		guest.shift_cpus = kinds[k].cpus;
		text = report(&usual_host, &guest, false);
		CHECK(has(text, kinds[k].why));
		free(text);
	}
	/* With fraction bits, a scale of one is that many bits. */
	guest = usual_guest;
	guest.shift_scale = 1ULL << 48;
	guest.shift_fraction = 48;
	text = report(&usual_host, &guest, false);
	CHECK(has(text, "bound ≤ 1 ns\n"));
	free(text);
}

/* The host's rate and offset are those of the shifted times; the numbers tie them, either way. */
static void ties(void)
{
	struct synth_dat host = usual_host, guest = usual_guest;
	char *text;

	guest.tsc_multiplier = 0;
	guest.clock = guest.buffer_clock = "x86-tsc";
	text = report(&host, &guest, false);
	CHECK(has(text, "1000.000002132: beat:"));
	free(text);
	host.offset = "-250000000";
	text = report(&host, &guest, false);
	CHECK(has(text, "999.750002132: beat:"));
	free(text);
	host = usual_host;
	guest = usual_guest;
	host.guest = NULL;		/* by the guest's peer alone: it has its file's name */
	text = report(&host, &guest, false);
	CHECK(has(text, "braid-guest"));
	CHECK(has(text, "2 vCPUs, clock trace-cmd"));
	free(text);
	host.guest = "web1";
	guest.peer = 5;			/* by the host's list alone */
	text = report(&host, &guest, false);
	CHECK(has(text, "# web1: Linux 6.1.9"));
	free(text);
}

/* If the host's list has a vsock CID, or nothing, the file has the name: "trace-NAME.dat". */
static void names(void)
{
	static const struct {
		const char *listed, *file, *name;
	} kinds[] = {
		{ "web1", "a-other.dat", "# web1: Linux 6.1.9" },
		{ "", "a-web2.dat", "# web2: Linux 6.1.9" },
		{ "3", "a-web3.dat", "# web3: Linux 6.1.9" },
		{ NULL, "a-web4.dat", "# web4: Linux 6.1.9" },
		{ "3", "b-web5.dat", "# 3: Linux 6.1.9" },
		{ "", "b-web6.dat", "# b-web6.dat: Linux 6.1.9" },
		{ "", "a-.dat", "# a-.dat: Linux 6.1.9" },
		{ "3", "a.dat-web7", "# 3: Linux 6.1.9" },
	};
	struct synth_dat host = usual_host;
	char folder[] = "/tmp/braid-names-XXXXXX", of_host[64], of_guest[64], *text;
	char *files[] = { of_host, of_guest };
	struct braid_walk_totals totals;
	size_t k;

	NEED(mkdtemp(folder));
	snprintf(of_host, sizeof(of_host), "%s/a.dat", folder);
	for (k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		host.guest = kinds[k].listed;
		snprintf(of_guest, sizeof(of_guest), "%s/%s", folder, kinds[k].file);
		synth_trace_dat(of_host, &host);
		synth_trace_dat(of_guest, &usual_guest);
		text = report_of(files, 2, &totals);
		CHECK(has(text, kinds[k].name));
		free(text);
		unlink(of_guest);
	}
	unlink(of_host);
	rmdir(folder);
}

static void refusals(void)
{
	struct synth_dat host = usual_host, guest = usual_guest;

	guest.trace_id = 1;
	guest.peer = 2;
	CHECK(refused(&host, &guest, "or with the file of its host, which is not among these"));
	guest = usual_guest;
	guest.shifted = false;
	CHECK(refused(&host, &guest, "lacks the shift of the guest's times"));
	guest = usual_guest;
	guest.clock = guest.buffer_clock = "mono";
	guest.tsc_multiplier = 0;
	CHECK(refused(&host, &guest, "those of its host's '"));
	host.guest_cpus = 0xffffffff;
	CHECK(refused(&host, &usual_guest, "too many guests or vCPUs"));
	host.guest_cpus = 5;		/* more than the option has */
	CHECK(refused(&host, &usual_guest, "ends too early"));
}

/* On a capture's timeline by its host's file, whose clock the shifted times are of. */
static void with_a_capture(void)
{
	struct synth_dat host = usual_host, guest = usual_guest;
	char *names[] = { host_path, capture, guest_path };
	struct braid_walk_totals totals;
	char *text;

	host.clock = host.buffer_clock = guest.clock = guest.buffer_clock = "mono_raw";
	host.tsc_multiplier = guest.tsc_multiplier = 0;
	host.uname = NULL;
	host.start = SYNTH_START_NS + 5000;
	guest.start = SYNTH_START_NS + 6000 - BEHIND;
	synth_standard(capture);
	synth_trace_dat(host_path, &host);
	synth_trace_dat(guest_path, &guest);
	text = report_of(names, 3, &totals);
	CHECK(has(text, "1000.000005000: beat:"));
	CHECK(has(text, "1000.000006000: beat:"));
	CHECK(has(text, "(the file does not say how), bound unknown\n"));
	free(text);
	guest.start += 100000000000000ULL;
	synth_trace_dat(guest_path, &guest);
	text = report_of(names, 3, &totals);
	CHECK(!text && strstr(braid_failure(), "no time in common"));
	free(text);
}

/* trace-cmd itself ----------------------------------------------------------------------------- */

/* "[CPU] SECONDS.NS count=N" of each event of all files, in order. */
#define BEATS	"sed -n 's/.*\\(\\[0[0-9]*\\]\\).* \\([0-9]*[.][0-9]*\\): beat: *\\(count.*\\)/\\1 \\2 \\3/p'"

/* Line by line what trace-cmd reports of both files, at times that differ. */
static void as_trace_cmd_reads(void)
{
	struct synth_dat host = usual_host, guest = usual_guest;
	char *ours, *theirs, *text, name[80];
	FILE *file;
	u32 kind;

	snprintf(name, sizeof(name), "%s.text", host_path);
	for (kind = 0; kind < 4; kind++) {
		host.version = guest.version = kind ? 7 : 6;
		host.compressed = guest.compressed = kind >= 2;
		guest.by_kvm = kind != 3;
		guest.shift_ns = kind == 3 ? 1000000000000 : BEHIND;
		guest.start = kind == 3 ? 2000000005000 : usual_guest.start;
		guest.shift_fraction = kind == 3;
		text = report(&host, &guest, false);
		NEED(text);
		file = fopen(name, "w");
		NEED(file && fputs(text, file) >= 0 && !fclose(file));
		ours = shell_output(BEATS " %s", name);
		theirs = shell_output("trace-cmd report -t -i %s -i %s 2>/dev/null | " BEATS, host_path,
				      guest_path);
		CHECK(strlen(ours) > 20000 && !strcmp(ours, theirs));
		if (strcmp(ours, theirs))
			fprintf(stderr, "kind %u: %.200s\nand trace-cmd: %.200s\n", kind, ours, theirs);
		free(ours);
		free(theirs);
		free(text);
	}
	unlink(name);
}

/* Damage --------------------------------------------------------------------------------------- */

static u8 bytes[1 << 20];

static size_t load(const char *path)
{
	FILE *file = fopen(path, "rb");
	size_t n;

	NEED(file);
	n = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	NEED(n > 0 && n < sizeof(bytes));
	return n;
}

static void store(const char *path, size_t n)
{
	FILE *file = fopen(path, "wb");

	NEED(file && fwrite(bytes, 1, n, file) == n && !fclose(file));
}

/* Either file, truncated or changed in its options, is refused or read; nothing else. */
static void damaged(void)
{
	char *names[] = { host_path, guest_path };
	struct braid_walk_totals totals;
	struct synth_dat host = usual_host, guest = usual_guest;
	u32 turn, kind;
	size_t n, at;
	u64 seed = 5;

	host.version = guest.version = 6;	/* its options are near the front */
	host.small = guest.small = true;
	synth_trace_dat(host_path, &host);
	synth_trace_dat(guest_path, &guest);
	for (kind = 0; kind < 2; kind++) {
		n = load(names[kind]);
		for (turn = 0; turn < 400; turn++) {
			u8 before;

			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			at = 900 + (seed >> 33) % 700;
			NEED(at < n);
			before = bytes[at];
			bytes[at] = turn & 1 ? 0xff : before ^ 1 << (seed >> 61);
			store(names[kind], turn % 8 ? n : at);
			free(report_of(names, 2, &totals));
			bytes[at] = before;
		}
		store(names[kind], n);
	}
}

/* Commands ------------------------------------------------------------------------------------- */

static bool succeeds(int status)
{
	if (status)
		fprintf(stderr, "%s\n", printed);
	return !status;
}

static void commands(void)
{
	static const char *const forms[] = { "json", "stats", "perfetto", "ctf", "html", "trace.dat" };
	char out[96];
	size_t k;

	snprintf(out, sizeof(out), "%s.report", host_path);
	synth_trace_dat(host_path, &usual_host);
	synth_trace_dat(guest_path, &usual_guest);
	CHECK(succeeds(RUN_COMMAND(braid_cmd_report, "report", "-o", out, host_path, guest_path)));
	CHECK(succeeds(RUN_COMMAND(braid_cmd_analyze, "analyze", "summary", host_path, guest_path)));
	CHECK(has(printed, "web1"));
	CHECK(succeeds(RUN_COMMAND(braid_cmd_analyze, "analyze", "wake", host_path, guest_path)));
	CHECK(succeeds(RUN_COMMAND(braid_cmd_sql, "sql", host_path, guest_path,
				   "SELECT host, clock, bound_ns FROM streams WHERE stream = 'web1'")));
	CHECK(has(printed, "trace-cmd"));
	for (k = 0; k < sizeof(forms) / sizeof(*forms); k++) {
		snprintf(out, sizeof(out), "%s.%s", host_path, forms[k]);
		CHECK(succeeds(RUN_COMMAND(braid_cmd_export, "export", "--to", forms[k], host_path,
					   guest_path, "-o", out)));
	}
	free(shell_output("rm -rf %s.*", host_path));
}

/* trace-cmd stops tracing a guest before its host: that the guest is silent then is no stall. */
static void stalls(void)
{
	struct synth_dat host = usual_host;

	host.step *= 100;
	synth_trace_dat(host_path, &host);
	synth_trace_dat(guest_path, &usual_guest);
	CHECK(succeeds(RUN_COMMAND(braid_cmd_analyze, "analyze", "stalls", host_path, guest_path)));
	CHECK(has(printed, "web1/vCPU 1"));
	CHECK(!strstr(printed, "recorded no event for 1"));
	CHECK(succeeds(RUN_COMMAND(braid_cmd_analyze, "analyze", "summary", "--json", host_path,
				   guest_path)));
	CHECK(has(printed, "\"worst_stall_ns\":6667,"));
}

/* "[CPU] SECONDS.NS text" of the events of guests. */
#define TICKS	"sed -n 's/.*\\(\\[0[0-9]*\\]\\) *\\([0-9]*[.][0-9]*\\): tick: *\\(number.*\\)/\\1 \\2 \\3/p'"

static char *ticks_of(char **names, size_t nr)
{
	struct braid_walk_totals totals;
	char name[80], *text = report_of(names, nr, &totals), *ticks;
	FILE *file;

	if (!text)
		fprintf(stderr, "%s\n", braid_failure());
	snprintf(name, sizeof(name), "%s.text", host_path);
	file = fopen(name, "w");
	NEED(text && file && fputs(text, file) >= 0 && !fclose(file));
	ticks = shell_output(TICKS " %s | sort", name);
	unlink(name);
	free(text);
	return ticks;
}

/* What is exported of a capture is read as the same events at the same times. */
static void our_own(void)
{
	static const struct braid_walk_options options;
	char *names[] = { capture }, out[80], *files[8], *list, *rest, *line, *before, *after;
	struct braid_walk_totals totals;
	struct braid_source *source;
	size_t nr = 0, k;

	synth_standard(capture);
	before = ticks_of(names, 1);
	snprintf(out, sizeof(out), "%s.set", host_path);
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	NEED(!braid_export_trace_dat(out, source, &options, &totals));
	braid_source_free(source);
	list = shell_output("ls %s*", out);
	for (rest = list; nr < 8 && (line = strsep(&rest, "\n")) && *line;)
		files[nr++] = line;
	CHECK(nr > 1);
	after = ticks_of(files, nr);
	CHECK(strlen(before) > 5000 && !strcmp(before, after));
	for (k = 0; k < nr; k++)
		unlink(files[k]);
	free(after);
	free(before);
	free(list);
}

int main(void)
{
	snprintf(host_path, sizeof(host_path), "/tmp/braid-host-%d.dat", getpid());
	snprintf(guest_path, sizeof(guest_path), "/tmp/braid-guest-%d.dat", getpid());
	snprintf(capture, sizeof(capture), "/tmp/braid-%d.braid", getpid());
	RUN(together);
	RUN(threads);
	RUN(bounds);
	RUN(ties);
	RUN(names);
	RUN(refusals);
	RUN(with_a_capture);
	RUN(as_trace_cmd_reads);
	RUN(damaged);
	RUN(commands);
	RUN(stalls);
	RUN(our_own);
	unlink(host_path);
	unlink(guest_path);
	unlink(capture);
	return VERDICT();
}
