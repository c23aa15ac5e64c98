// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid record: guests and their host into one capture. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/record_selection.h"
#include "host_agent/cli/trace_options.h"
#include "host_agent/record/record.h"
#include "host_agent/serve/conf.h"
#include "host_agent/util/error.h"
#include "host_agent/util/landlock.h"
#include "tracebraid/tracebraid.h"

#define RECORD_FILE	"tracebraid.braid"

/* The export of the capture when it is complete. */
struct record_to {
	const char *form;			/* NULL: none */
	const char *out;
	char capture[4096];			/* kept beside it */
};

struct record_command {
	struct braid_record_options o;
	struct record_to to;
	u64 status_fd;		/* 0: none */
};

static int cmd_record_take_guest(const struct braid_option *o, void *to, const char *value)
{
	struct record_command *r = to;

	(void)o;
	return braid_record_add_guest(&r->o, value);
}

static int take_domain(const struct braid_option *o, void *to, const char *value)
{
	struct record_command *r = to;

	(void)o;
	return braid_record_add_domain(&r->o, value);
}

/* As trace-cmd has it. */
static int cmd_record_take_tracer(const struct braid_option *o, void *to, const char *value)
{
	(void)o;
	(void)to;
	(void)value;
	return braid_fail(-EINVAL, "functions are traced by the guest's own tracefs; in the guest: echo 'vfs_*' >/sys/kernel/tracing/set_ftrace_filter; echo function >/sys/kernel/tracing/current_tracer; 'record' then records them, from the buffer ftrace (docs/ftrace.md)");
}

/* --host and --try-host. */
static int cmd_record_take_host(const struct braid_option *o, void *to, const char *events)
{
	struct record_command *r = to;

	r->o.host = !strcmp(o->name, "host") ? BRAID_HOST_YES : BRAID_HOST_TRY;
	if (!events)
		return 0;
	r->o.host_events_given = true;
	return braid_record_add_events(&r->o.host_events, events);
}

/* SIZE[,TIME] */
static int cmd_record_take_rotation(const struct braid_option *o, void *to, const char *value)
{
	struct braid_record_rotate_options *rotate = to;
	char *end;
	double bytes = strtod(value, &end);
	int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;

	end += shift > 0;
	bytes *= 1ULL << shift;
	if (end == value || !(bytes >= 1 << 20 && bytes <= 1e15) || (*end && *end != ','))
		return braid_fail(-EINVAL, "expected a size of at least 1M, and perhaps a time, as in 64M or 64M,10m");
	rotate->bytes = bytes;
	return *end ? braid_take_duration(o, &rotate->seconds, end + 1) : 0;
}

/* Without a value: the usual port, of any address. */
static int cmd_record_take_listen(const struct braid_option *o, void *to, const char *value)
{
	struct record_command *r = to;

	(void)o;
	r->o.peers.listen = value ? value : BRAID_PEER_PORT;
	return 0;
}

#define RECORD		struct record_command

static const struct braid_option options[] = {
	{ 'r', "region", "REGION[,name=NAME]", .take = cmd_record_take_guest, .help =
	  "a guest: its region's file or its name; may be repeated. Waits for the driver if a "
	  "region has none. Default: everything that `tracebraid list` shows. "
	  "ivshmem-doorbell:SOCKET[,size=16M][,shm=FILE][,group=GROUP] makes the agent the server "
	  "of an ivshmem-doorbell device: start it before the guest. "
	  "vhost-user:SOCKET[,size=16M][,group=GROUP] makes the agent the back end of a virtio "
	  "device; size= is the size requested from the driver, and the maximum. pid:PID reads the "
	  "memory of a VMM's process, in which a guest without a device has its region",
	  .values = "@region ivshmem-doorbell: vhost-user: pid:" },
	{ 'd', "domain", "DOMAIN", .take = take_domain, .help =
	  "a libvirt domain; may be repeated. Waits for a domain that is shut off, or whose "
	  "driver is not loaded (without `tracebraid attach` its memory is read)", .values = "@domain" },
	{ 'a', "all", NULL, BRAID_FLAG(RECORD, o.domains.all),
	  "all regions, and those that come during the recording: of domains that are attached, and "
	  "in guests' own memory" },
	{ 0, "search", NULL, BRAID_FLAG(RECORD, o.search),
	  "before the recording, search each page of VMs' memory, as `tracebraid list --search` "
	  "does; not that of VMs that start later" },
	BRAID_OPTION_CONNECT(RECORD, o.domains.uri, ""),
	BRAID_RECORD_SELECTION(RECORD, o),
	{ 'B', "buffer", "NAME", BRAID_STRING(RECORD, o.buffer),
	  "record only the guests' buffers of this name. Default: all, including buffers that are "
	  "created later" },
	{ 'p', "tracer", "TRACER", .take = cmd_record_take_tracer, .help =
	  "prints how to trace functions, with the guest's own tracefs", .values = "function" },
	{ 0, "guest-agent", NULL, BRAID_FLAG(RECORD, o.domains.agents),
	  "where a domain of -d is only read, have its QEMU guest agent enable the events of -e, and "
	  "disable them at the end. Each command is printed before it is sent to the guest (also with "
	  "--quiet). Without this option nothing is ever sent to a guest agent" },
	{ 0, "host", "[=EVENTS]", .take = cmd_record_take_host, .help =
	  "record the host too; EVENTS as for -e. If no guest is named, VMs without the driver are noted: "
	  "analyses show what their vCPUs did. Default: " BRAID_HOST_EVENTS },
	{ 0, "try-host", "[=EVENTS]", .take = cmd_record_take_host, .help =
	  "as --host, but continue if the host cannot be recorded" },
	{ 'C', "host-clock", "CLOCK", BRAID_STRING(RECORD, o.host_clock),
	  "the trace clock of the host's events, as named in tracefs; their times are converted. "
	  "Default: the timeline's own, mono_raw",
	  .values = "mono_raw mono boot tai x86-tsc local global perf" },
	{ 0, "peer", "HOST[:PORT]", BRAID_LIST(RECORD, o.peers.hosts),
	  "exchange times with the recorder of another host, which has --peer-listen, over UDP, so "
	  "that captures of both can be merged; may be repeated" },
	{ 0, "peer-listen", "[=[ADDRESS:]PORT]", .take = cmd_record_take_listen, .help =
	  "answer recorders of other hosts that ask with --peer. Default: port " BRAID_PEER_PORT
	  " of all addresses" },
	{ 0, "packets", NULL, BRAID_FLAG(RECORD, o.peers.packets),
	  "with --host: also record the heads of TCP packets that this host sends and receives; "
	  "those that another host has recorded, too, tie the clocks of both" },
	{ 0, "peer-rate", "NUMBER", BRAID_COUNT(RECORD, o.peers.rate),
	  "how often each --peer is asked in a second. Default: 10", .least = 1, .most = 1000 },
	{ 't', "time", "SECONDS", BRAID_DURATION(RECORD, o.seconds),
	  "stop after this time; also accepts 500ms, 10s, 2m and 1h" },
	{ 0, "backlog", NULL, BRAID_FLAG(RECORD, o.backlog),
	  "also take events that were in the guests' rings before the start: from a guest traced "
	  "without a reader, or after a killed recorder" },
	{ 'o', "output", "FILE", BRAID_STRING(RECORD, o.file),
	  "the capture. Default: " RECORD_FILE ", of which a former one becomes " RECORD_FILE
	  ".old; -: standard output" },
	{ 0, "rotate", "SIZE[,TIME]",
	  BRAID_TAKE(cmd_record_take_rotation, struct braid_record_rotate_options, RECORD,
		     o.rotate),
	  "record into a sequence of files, named after -o FILE: FILE-1.braid, FILE-2.braid... A new one "
	  "begins when the last one has SIZE bytes (64M, 1G) or is TIME old (30s, 10m), when a guest comes "
	  "or goes (once in 8 s at most), and on SIGUSR1. Each is a complete capture; read together they are one. With --all "
	  "the recording goes on when all guests are gone. The host kernel's symbols are in files of 64M and more" },
	{ 0, "keep", "NUMBER", BRAID_COUNT(RECORD, o.rotate.keep),
	  "with --rotate: remove older files than the newest NUMBER, also those of earlier recordings with "
	  "this name. Default: keep all", .least = 2, .most = 1000000 },
	{ 'z', "compress", NULL, BRAID_FLAG(RECORD, o.compress),
	  "compress the capture while it is recorded, as `tracebraid pack` does afterwards; all "
	  "commands read it directly. The file gets events when 1 MiB of the capture is complete or, with "
	  "--prompt, within 300 ms, and is then larger. Not with --live or --snapshot" },
	{ 0, "to", "FORM", BRAID_TAKE(braid_trace_take_form, const char *, RECORD, to.form),
	  "also export to OUT (from -o) when recording stops, as `tracebraid export --to` does; the "
	  "capture is saved as OUT.braid", .values = "@form" },
	{ 0, "prompt", NULL, BRAID_FLAG(RECORD, o.prompt),
	  "write events to the capture within 200 ms, for programs that follow it; implied by --live. "
	  "Default: when a sub-buffer is full, or after 250 ms; the host's events later" },
	{ 0, "live", NULL, BRAID_FLAG(RECORD, o.live.wanted),
	  "also print the merged events, as `tracebraid report` does, within 200 ms. Events that a "
	  "slow reader misses are recorded and counted, but not shown. Timestamps are provisional; "
	  "`tracebraid report` computes the final ones. With -o /dev/null no capture is kept" },
	{ 'j', "json", NULL, BRAID_FLAG(RECORD, o.live.json), "with --live: one JSON object per line" },
	{ 0, "snapshot", NULL, BRAID_FLAG(RECORD, o.flight.wanted),
	  "flight recorder: write nothing until `tracebraid snapshot` requests it, a guest ends or "
	  "is silent, or an event of --on occurs. Load the guests' drivers with overwrite=1. "
	  "Automatic snapshots are named after -o FILE: FILE-1.braid, FILE-2.braid..." },
	{ 0, "on", "SYSTEM[:EVENT]", BRAID_EVENTS(RECORD, o.flight.on),
	  "take a snapshot when such an event occurs in a guest or, with --host, on the host; this "
	  "enables the event. Syntax as for -e", .values = "@event" },
	{ 0, "on-count", "NUMBER", BRAID_COUNT(RECORD, o.flight.most),
	  "maximum number of automatic snapshots. Default: 10", .most = ~0u },
	{ 0, "hold-off", "SECONDS", BRAID_DURATION(RECORD, o.flight.hold_off),
	  "minimum interval between snapshots that --on takes, and before triggers can fire again. Default: 10" },
	{ 0, "status-fd", "NUMBER", BRAID_COUNT(RECORD, status_fd),
	  "for programs: write JSON lines to this file descriptor: \"started\", \"progress\" every "
	  "second, \"stopped\", and messages as \"message\" instead of on standard error. The "
	  "recording stops when the reader closes the descriptor", .most = 1 << 20 },
	BRAID_OPTION_QUIET(RECORD, o.quiet),
	{ 0 },
};

const struct braid_cli_command braid_command_record = {
	.name = "record", .summary = "record guests and their host into a capture",
	.run = braid_cmd_record, .usage = "[OPTION]... [-- COMMAND [ARGUMENT]...]",
	.text = "Records guests and their host into one capture.",
	.options = options, .stops = true,
	.notes =
	"Stops on Ctrl-C, after SECONDS, when COMMAND ends, or when all guests are gone, except "
	"libvirt guests, which may restart.",
	.status =
	"COMMAND's status if that is not 0; otherwise with 0 on success, 1 on error, and 3 if less "
	"was recorded than requested: a guest did not confirm its events, or refused some, no driver was found, or a "
	"silent guest gave no events.",
};

static int check_live(const struct braid_record_options *r)
{
	if (r->live.json && !r->live.wanted)
		return braid_fail(-EINVAL, "--json is for --live; 'tracebraid report --json' prints a capture");
	if (r->live.wanted && r->flight.wanted)
		return braid_fail(-EINVAL, "--live cannot be combined with --snapshot: a flight recorder prints no events");
	if (r->live.wanted && !strcmp(r->file, "-"))
		return braid_fail(-EINVAL, "--live prints to standard output: add -o FILE, or -o /dev/null to keep no capture");
	return 0;
}

static int check_compress(const struct braid_record_options *r)
{
	if (!r->compress)
		return 0;
	if (r->flight.wanted)
		return braid_fail(-EINVAL, "--compress cannot be combined with --snapshot: 'tracebraid pack' compresses a snapshot");
	if (r->live.wanted)
		return braid_fail(-EINVAL, "--compress cannot be combined with --live: 'tracebraid pack' compresses the capture afterwards");
	return 0;
}

/* The name of a file, and a number after it. */
static int check_numbered(const struct braid_record_options *r, const char *what)
{
	if (strlen(r->file) >= BRAID_FLIGHT_PATH_BYTES - BRAID_FLIGHT_NUMBER_BYTES)
		return braid_fail(-ENAMETOOLONG, "--output: the name is too long to append a number; change to its directory and use a short name");
	if (!strcmp(r->file, "-"))
		return braid_fail(-EINVAL, "--output=-: %s makes several captures; use -o FILE to name them", what);
	return 0;
}

static int check_rotate(const struct braid_record_options *r)
{
	const char *other = r->flight.wanted ? "snapshot" : r->live.wanted ? "live" :
			    r->compress ? "compress" : NULL;

	if (!r->rotate.bytes)
		return r->rotate.keep ? braid_fail(-EINVAL, "--keep needs --rotate") : 0;
	if (other)
		return braid_fail(-EINVAL, "--rotate cannot be combined with --%s", other);
	return check_numbered(r, "--rotate");
}

static int check_triggers(const struct braid_record_options *r)
{
	size_t k;

	for (k = 0; k < r->nr_triggers; k++) {
		enum braid_trigger_action action = r->triggers[k].action;

		if (action == BRAID_TRIGGER_SNAPSHOT && !r->flight.wanted && !r->rotate.bytes)
			return braid_fail(-EINVAL, "--trigger '%s': needs --snapshot or --rotate; use traceoff or stop",
					  r->triggers[k].text);
		if (action == BRAID_TRIGGER_STOP && r->flight.wanted)
			return braid_fail(-EINVAL, "--trigger '%s': not with --snapshot; use snapshot or traceoff",
					  r->triggers[k].text);
	}
	return 0;
}

static int check_options(const struct braid_record_options *r)
{
	int err = check_triggers(r) ?: check_live(r) ?: check_compress(r) ?: check_rotate(r) ?:
		  braid_record_selection_check(r);

	if (err)
		return err;
	if (!r->flight.wanted)
		return r->flight.on.nr ? braid_fail(-EINVAL, "--on needs --snapshot") : 0;
	if (r->host_clock)
		return braid_fail(-EINVAL, "--host-clock=%s: not available with --snapshot: a flight recorder keeps only its own clock",
				  r->host_clock);
	return check_numbered(r, "a flight recorder");
}

/* A word that belongs to no option. */
static int explain_word(const char *before, const char *word)
{
	if (!strcmp(before, "--host") || !strcmp(before, "--try-host"))
		return braid_fail(-EINVAL, "record: '%s': the host's events need a '=': %s=%s", word,
				  before, word);
	if (!strcmp(before, "--peer-listen"))
		return braid_fail(-EINVAL, "record: '%s': an address needs a '=': %s=%s", word,
				  before, word);
	return braid_fail(-EINVAL, "record: '%s': unexpected argument; a guest is named by -r %s, a libvirt domain by -d %s; to record while a command runs: tracebraid record ... -- %s ...",
			  word, word, word, word);
}

/* As braid_options_parse(). */
static int parse_options(struct record_command *r, int argc, char **argv)
{
	int err = braid_options_parse(&braid_command_record, r, argc, argv);

	if (!err && optind < argc && strcmp(argv[optind - 1], "--"))
		err = explain_word(argv[optind - 1], argv[optind]);
	if (!err && optind < argc)
		r->o.command = argv + optind;
	return err ? err : check_options(&r->o);
}

/* The recording of watch and of the service continues after a trigger. */
static int check_chosen_triggers(const struct braid_record_options *r)
{
	size_t k;

	for (k = 0; k < r->nr_triggers; k++)
		if (r->triggers[k].action != BRAID_TRIGGER_SNAPSHOT)
			return braid_fail(-EINVAL, "--trigger '%s': its action ends the recording or leaves the rings frozen; use snapshot",
					  r->triggers[k].text);
	return 0;
}

/* The first @nr of them alone, and if @all what they are together. @as: whose options they are. */
static int check_chosen(const struct braid_conf_chosen *chosen, size_t nr, bool all, const char *as)
{
	struct braid_cli_command command = braid_command_record;
	struct record_command r = { .o = { .file = RECORD_FILE, .rotate.bytes = 1 } };
	char *words[BRAID_CONF_WORDS + 2] = { "record" };
	size_t k;
	int err;

	for (k = 0; k < nr; k++)
		words[k + 1] = (char *)chosen->words[k];
	command.name = as;
	err = braid_options_parse(&command, &r, nr + 1, words) ?: check_chosen_triggers(&r.o);
	if (!err && all)
		err = check_options(&r.o);
	braid_record_options_free(&r.o);
	return err;
}

int braid_cli_check_chosen(const struct braid_conf *conf, const char *name)
{
	const struct braid_conf_chosen *chosen = &conf->chosen;
	char why[512];
	size_t k;
	int err = 0;

	for (k = 0; k < chosen->nr && !err; k++)
		err = check_chosen(chosen, k + 1, k + 1 == chosen->nr, name ? "record" : "watch");
	if (!err || !name)
		return err;
	snprintf(why, sizeof(why), "%s", braid_failure());
	return braid_fail(err, "%s:%d: %s", name, chosen->lines[k - 1], why);
}

/* Export ------------------------------------------------------------------------------------- */

/* --to: checks before we are confined. */
static int prepare_export(struct record_command *r)
{
	size_t bytes = strlen(r->o.file);
	int n, err;

	if (!r->to.form)
		return 0;
	err = tracebraid_export_check(r->to.form, r->o.file, NULL);
	if (err)
		return err;
	if (r->o.flight.wanted || r->o.live.wanted || r->o.rotate.bytes)
		return braid_fail(-EINVAL, "--to cannot be combined with %s: export the captures afterwards",
				  r->o.live.wanted ? "--live" : r->o.rotate.bytes ? "--rotate" : "--snapshot");
	if (!strcmp(r->o.file, RECORD_FILE) || !strcmp(r->o.file, "-"))
		return braid_fail(-EINVAL, "--to=%s: needs -o OUT, the output file or folder",
				  r->to.form);
	if (braid_trace_check_output(r->to.form, r->o.file))
		return -EINVAL;
	while (bytes > 1 && r->o.file[bytes - 1] == '/')	/* beside the folder, not in it */
		bytes--;
	n = snprintf(r->to.capture, sizeof(r->to.capture), "%.*s.braid", (int)bytes, r->o.file);
	if (n < 0 || (size_t)n >= sizeof(r->to.capture))
		return braid_fail(-ENAMETOOLONG, "--output: the name is too long");
	r->to.out = r->o.file;
	r->o.file = r->to.capture;
	return braid_landlock_allow(r->to.out, BRAID_PLACE_OUTPUT);
}

/* Likewise the export, once the capture is complete. */
static int export_capture(struct record_command *r)
{
	char *paths[] = { r->to.capture };
	struct braid_trace_options trace = { 0 };
	int err;

	if (!r->to.form)
		return 0;
	err = braid_trace_export(&trace, r->to.form, r->to.out, paths, 1);
	braid_progress_end(&trace.progress);
	braid_trace_free(&trace);
	if (!err && !r->o.quiet)
		fprintf(stderr, "Exported to %s as %s\n", r->to.out, r->to.form);
	return err;
}

/* ------------------------------------------------------------------------------------------ */

static const char usual_file[] = RECORD_FILE;

/* What follows a recording. Return: the exit code. */
static int conclude(struct record_command *r, const struct braid_record_result *result)
{
	if (r->o.keep_former && !r->o.quiet)
		fputs("tracebraid: the former " RECORD_FILE " is " RECORD_FILE ".old now\n", stderr);
	if (export_capture(r))
		return braid_complain();
	if (result->status)
		return result->status;
	return result->lacks ? BRAID_EXIT_LACKS : EXIT_SUCCESS;
}

int braid_cmd_record(int argc, char **argv)
{
	struct record_command r = {
		.o = { .file = usual_file, .flight = { .most = 10, .hold_off = 10 },
		       .peers.rate = 10 },
	};
	struct braid_record_result result = { 0 };
	int err = parse_options(&r, argc, argv), code;

	/* Without -o a former capture keeps its events, under another name. */
	r.o.keep_former = r.o.file == usual_file && !r.o.flight.wanted && !r.o.rotate.bytes &&
			  !access(usual_file, F_OK);
	if (!err)
		err = prepare_export(&r);
	if (err)
		code = braid_options_exit(err);
	else if (braid_record_show(&r.o, r.status_fd, &result))
		code = braid_complain();
	else
		code = conclude(&r, &result);
	braid_record_options_free(&r.o);
	return code;
}
