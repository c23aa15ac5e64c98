// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid record: guests and their host into one capture. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/messages.h"
#include "host_agent/cli/record.h"
#include "host_agent/transport/port.h"
#include "host_agent/util/error.h"

static const char usage[] =
	"Usage: tracebraid record [OPTION]... [-- COMMAND [ARGUMENT]...]\n"
	"Records guests and their host into one capture.\n"
	"\n"
	"  -r REGION[,name=NAME]  a guest: its region's file or its name; may be repeated. A region\n"
	"                         without a driver is waited for. Default: everything that\n"
	"                         `tracebraid list` shows. ivshmem-doorbell:SOCKET[,size=16M]\n"
	"                         [,shm=FILE][,group=GROUP] makes the agent the server of such a\n"
	"                         device: start it before the guest. vhost-user:SOCKET[,size=16M]\n"
	"                         [,group=GROUP] makes the agent the back end of a virtio device;\n"
	"                         size= is the size requested from the driver, and the maximum\n"
	"  -d, --domain DOMAIN    a libvirt domain; may be repeated. A domain that is shut off or has\n"
	"                         no region yet (see `tracebraid attach`) is waited for\n"
	"  -a, --all              all regions, and all domains that are attached or become attached\n"
	"                         during the recording\n"
	"  -c, --connect URI      libvirt's URI; default: $LIBVIRT_DEFAULT_URI or qemu:///system\n"
	"  -e SYSTEM[:EVENT]      events to enable in the guests; globs; may be repeated, or\n"
	"                         separated by commas. Default: " BRAID_GUEST_EVENTS "\n"
	"  -B, --buffer NAME      record only the guests' buffers of this name. Default: all,\n"
	"                         including buffers that are made later\n"
	"  --host[=EVENTS]        record the host too; EVENTS as for -e. Default:\n"
	"                         " BRAID_HOST_EVENTS "\n"
	"  --try-host[=EVENTS]    the same, but continue if the host can't be recorded\n"
	"  -C, --host-clock=CLOCK the trace clock of the host's events, as named in tracefs; their\n"
	"                         times are converted. Default: the timeline's own, mono_raw\n"
	"  -t SECONDS             stop after this time; also accepts 500ms, 10s, 2m and 1h\n"
	"      --backlog          also take events that were in the guests' rings before the start:\n"
	"                         from a guest traced without a reader, or after a killed recorder\n"
	"  -o FILE                the capture. Default: " BRAID_RECORD_FILE "; -: standard output\n"
	"  --to FORM              also export to OUT (from -o) when recording stops, as `tracebraid\n"
	"                         export --to` does; the capture is saved as OUT.braid\n"
	"  --live                 also print the merged events, as `tracebraid report` does, within\n"
	"                         200 ms. Events that a slow reader misses are recorded and\n"
	"                         counted, but not shown. Timestamps are provisional;\n"
	"                         `tracebraid report` computes the final ones. With\n"
	"                         -o /dev/null no capture is kept\n"
	"  --json                 with --live: one JSON object per line\n"
	"  --snapshot             flight recorder: write nothing until `tracebraid snapshot` requests\n"
	"                         it, a guest ends or is silent, or an event of --on occurs. Load the\n"
	"                         guests' drivers with overwrite=1. Automatic snapshots are named\n"
	"                         after -o FILE: FILE-1.braid, FILE-2.braid...\n"
	"  --on=SYSTEM[:EVENT]    take a snapshot when such an event occurs in a guest or, with\n"
	"                         --host, on the host; this enables the event. Syntax as for -e\n"
	"  --on-count=NUMBER      maximum number of automatic snapshots. Default: 10\n"
	"  --hold-off=SECONDS     minimum interval between snapshots that --on takes. Default: 10\n"
	"  -q                     print errors only\n"
	"      --help             this text\n"
	"\n"
	"Stops on Ctrl-C, after SECONDS, when COMMAND ends, or when all guests are gone, except\n"
	"libvirt guests, which may restart. Exits with COMMAND's status if that is not 0;\n"
	"otherwise with 0 on success, 1 on error, and 3 if less was recorded than requested: a\n"
	"guest did not confirm its events, no driver was found, or a silent guest gave no events.\n";

#define EXIT_LACKS	3	/* recorded, but not all that was asked for */

enum {
	OPT_HOST = 256, OPT_TRY_HOST, OPT_LIVE, OPT_JSON, OPT_SNAPSHOT, OPT_ON, OPT_ON_COUNT,
	OPT_HOLD_OFF, OPT_TO, OPT_BACKLOG
};

static const struct option options[] = {
	{ "region", required_argument, NULL, 'r' },
	{ "domain", required_argument, NULL, 'd' },
	{ "all", no_argument, NULL, 'a' },
	{ "connect", required_argument, NULL, 'c' },
	{ "event", required_argument, NULL, 'e' },
	{ "buffer", required_argument, NULL, 'B' },
	{ "host", optional_argument, NULL, OPT_HOST },
	{ "try-host", optional_argument, NULL, OPT_TRY_HOST },
	{ "host-clock", required_argument, NULL, 'C' },
	{ "time", required_argument, NULL, 't' },
	{ "output", required_argument, NULL, 'o' },
	{ "snapshot", no_argument, NULL, OPT_SNAPSHOT },
	{ "on", required_argument, NULL, OPT_ON },
	{ "on-count", required_argument, NULL, OPT_ON_COUNT },
	{ "hold-off", required_argument, NULL, OPT_HOLD_OFF },
	{ "to", required_argument, NULL, OPT_TO },
	{ "backlog", no_argument, NULL, OPT_BACKLOG },
	{ "live", no_argument, NULL, OPT_LIVE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static int parse_seconds(double *seconds, const char *option, const char *text)
{
	static const struct { const char *name; double seconds; } units[] = {
		{ "", 1 }, { "s", 1 }, { "ms", 1e-3 }, { "m", 60 }, { "h", 3600 },
	};
	size_t k = 0, nr = sizeof(units) / sizeof(units[0]);
	char *end;

	*seconds = strtod(text, &end);
	while (k < nr && strcmp(end, units[k].name))
		k++;
	*seconds *= k < nr ? units[k].seconds : 0;
	if (end == text || !(*seconds > 0 && *seconds < 1e9))
		return braid_fail(-EINVAL, "%s %s: not a duration; use 10, 10s, 500ms, 2m or 1h",
				  option, text);
	return 0;
}

static int parse_host(struct braid_recording *r, enum braid_record_host how, const char *events)
{
	r->host = how;
	if (!events)
		return 0;
	r->host_events_given = true;
	return braid_record_add_events(&r->host_events, events);
}

/* -ENOEXEC: it is none of a flight recorder. */
static int parse_flight(struct braid_recording *r, int option, const char *value)
{
	struct braid_record_flight *f = &r->flight;

	switch (option) {
	case OPT_SNAPSHOT:
		f->wanted = true;
		return 0;
	case OPT_ON:
		return braid_record_add_events(&f->on, value);
	case OPT_ON_COUNT:
		return braid_parse_u64(value, ~0U, &f->most);
	case OPT_HOLD_OFF:
		return parse_seconds(&f->hold_off, "--hold-off", value);
	}
	return -ENOEXEC;
}

static bool parse_live(struct braid_recording *r, int option)
{
	r->live.wanted |= option == OPT_LIVE;
	r->live.json |= option == OPT_JSON;
	return option == OPT_LIVE || option == OPT_JSON;
}

static int check_live(const struct braid_recording *r)
{
	if (r->live.json && !r->live.wanted)
		return braid_fail(-EINVAL, "--json is for --live; 'tracebraid report --json' prints a capture");
	if (r->live.wanted && r->flight.wanted)
		return braid_fail(-EINVAL, "--live and --snapshot exclude each other: a flight recorder shows nothing");
	if (r->live.wanted && !strcmp(r->file, "-"))
		return braid_fail(-EINVAL, "--live prints to standard output: add -o FILE, or -o /dev/null to keep no capture");
	return 0;
}

static int check_options(const struct braid_recording *r)
{
	int err = check_live(r);

	if (err)
		return err;
	if (!r->flight.wanted)
		return r->flight.on.nr ? braid_fail(-EINVAL, "--on requires --snapshot") : 0;
	if (r->host_clock)
		return braid_fail(-EINVAL, "-C %s: not available with --snapshot: a flight recorder keeps only its own clock",
				  r->host_clock);
	if (strlen(r->file) >= sizeof(r->flight.path) - BRAID_FLIGHT_NUMBER_BYTES)
		return braid_fail(-ENAMETOOLONG, "-o: the name is too long to append a number; change to its directory and use a short name");
	if (!strcmp(r->file, "-"))
		return braid_fail(-EINVAL, "-o -: a flight recorder makes many captures; -o FILE names them");
	return 0;
}

/* A word that belongs to no option. */
static int explain_word(const char *before, const char *word)
{
	if (!strcmp(before, "--host") || !strcmp(before, "--try-host"))
		return braid_fail(-EINVAL, "record: '%s': events of the host need a '=': %s=%s", word,
				  before, word);
	return braid_fail(-EINVAL, "record: '%s': unexpected argument; use -r for a guest, -d for a libvirt domain, '--' before a command: 'tracebraid record -r %s'",
			  word, word);
}

/*
 * Returns 0, 1 when help was printed, -ENOEXEC when an option is not understood, or
 * another -errno with braid_fail().
 */
static int parse_options(struct braid_recording *r, int argc, char **argv)
{
	int c, err = 0;

	optind = 0;
	opterr = 0;
	while (!err && (c = getopt_long(argc, argv, "+r:d:ac:e:B:C:t:o:qh", options, NULL)) != -1) {
		switch (c) {
		case 'r':
			err = braid_record_add_guest(r, optarg);
			break;
		case 'd':
			err = braid_record_add_domain(r, optarg);
			break;
		case 'a':
			r->domains.all = true;
			break;
		case 'c':
			r->domains.uri = optarg;
			break;
		case 'e':
			err = braid_record_add_events(&r->events, optarg);
			break;
		case 'B':
			r->buffer = optarg;
			break;
		case OPT_HOST:
			err = parse_host(r, BRAID_HOST_YES, optarg);
			break;
		case OPT_TRY_HOST:
			err = parse_host(r, BRAID_HOST_TRY, optarg);
			break;
		case 'C':
			r->host_clock = optarg;
			break;
		case 't':
			err = parse_seconds(&r->seconds, "-t", optarg);
			break;
		case 'o':
			r->file = optarg;
			break;
		case OPT_BACKLOG:
			r->backlog = true;
			break;
		case OPT_TO:
			err = braid_record_take_form(r, optarg);
			break;
		case 'q':
			r->quiet = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		default:
			err = parse_live(r, c) ? 0 : parse_flight(r, c, optarg);
		}
	}
	if (!err && optind < argc && strcmp(argv[optind - 1], "--"))
		err = explain_word(argv[optind - 1], argv[optind]);
	if (!err && optind < argc)
		r->child.argv = argv + optind;
	return err ? err : check_options(r);
}

/* From here on signals are read, so that every end is a clean one. */
static int open_signals(struct braid_recording *r, sigset_t *before)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, before);
	r->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	return r->signal_fd < 0 ? braid_fail(-errno, "no signalfd: %s", strerror(errno)) : 0;
}

/* Everything is closed whatever happened; a failed capture is good up to its failure. */
static int close_all(struct braid_recording *r, int err)
{
	char failure[1024];
	int finish_err = 0;
	size_t k;

	snprintf(failure, sizeof(failure), "%s", braid_failure());
	braid_record_close_flight(r);
	braid_child_stop(&r->child);
	braid_record_live_end(r);
	braid_domain_watch_stop(&r->domains.watch);
	for (k = 0; k < r->nr_guests; k++)
		braid_region_source_leave(r->guests[k].source);
	for (k = 0; k < r->nr_guests; k++) {
		braid_region_source_close(r->guests[k].source);
		braid_port_close(r->guests[k].port);
	}
	braid_sampler_close(r->sampler);	/* it may hold a file of the instance that is to go */
	braid_tracefs_source_close(r->host_source);
	braid_exchange_stop(r->exchange);
	braid_kvm_watch_close(r->kvm_watch);
	if (r->sink.capture && !err)
		finish_err = braid_capture_finish(r->sink.capture);
	else
		braid_capture_abandon(r->sink.capture);
	if (r->signal_fd >= 0)
		close(r->signal_fd);
	free(r->fds);
	free(r->guests);
	free(r->domains.names);
	free(r->events.items);
	free(r->host_events.items);
	if (err)
		return braid_fail(err, "%s", failure);
	return finish_err;
}

/* All of a recording, to its clean end. Returns 0 or -errno with braid_fail(). */
int braid_record_whole(struct braid_recording *r)
{
	int err, no_buffer = 0;
	char why[256];
	sigset_t before;

	err = open_signals(r, &before);
	if (!err)	/* processes of our own first: later there can be none */
		err = braid_record_watch_domains(r);
	if (!err)
		err = braid_record_live_start(r);
	if (!err)
		err = braid_child_prepare(&r->child);
	braid_messages_begin();		/* behind the last fork */
	if (!err)
		err = braid_record_confine(r);
	if (!err)
		err = braid_record_find_guests(r);
	if (!err)
		err = braid_record_take_domains(r);
	if (!err)
		err = braid_record_open_guests(r);
	if (!err)	/* before a former capture is replaced */
		err = braid_record_check_host(r);
	if (!err)
		err = braid_record_open_file(r);
	if (!err)
		err = braid_record_open_host(r);
	if (!err)
		err = braid_record_run(r);
	if (!err) {
		braid_record_live_end(r);
		r->lacks = braid_record_lacks(r);
		braid_record_summary(r);
		no_buffer = braid_record_check_buffer(r);
		snprintf(why, sizeof(why), "%s", braid_failure());
	}
	err = close_all(r, err);
	if (!err && no_buffer)	/* the capture is a whole one, of nothing */
		err = braid_fail(no_buffer, "%s", why);
	braid_messages_end();
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (err && r->line_open)
		fputc('\n', stderr);
	return err;
}

int braid_cmd_record(int argc, char **argv)
{
	struct braid_recording r = {
		.file = BRAID_RECORD_FILE,
		.signal_fd = -1,
		.child = { .pidfd = -1, .go_fd = -1, .failure_fd = -1 },
		.domains.watch.fd = -1,
		.flight = {
			.most = 10, .hold_off = 10, .requests = { .fd = -1, .listener.fd = -1 },
		},
		.live = { .memory_fd = -1, .pidfd = -1, .marks_fd = -1 },
		.terminal = isatty(STDERR_FILENO),
	};
	int err = parse_options(&r, argc, argv);

	if (!err)
		err = braid_record_prepare_export(&r);
	if (err) {
		close_all(&r, 0);
		if (err > 0)
			return EXIT_SUCCESS;
		return err == -ENOEXEC ? braid_complain_option("record", argc, argv) :
					 braid_complain();
	}
	if (braid_record_whole(&r) || braid_record_export(&r))
		return braid_complain();
	if (r.child.ended && r.child.status)
		return r.child.status;
	return r.lacks ? EXIT_LACKS : EXIT_SUCCESS;
}
