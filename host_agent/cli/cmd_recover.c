// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid recover: a capture of what dead guests left. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/cli/child.h"
#include "host_agent/cli/cli.h"
#include "host_agent/source/region.h"
#include "host_agent/transport/dead.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define DEFAULT_FILE	"recovered.braid"
#define CPU_S		60u		/* that reading a small dump may take; a second more for ... */
#define CPU_BYTES	(4u << 20)
#define MEMORY_BYTES	(4ULL << 30)	/* that it may take, beside so many times the dump's size: */
#define MEMORY_TIMES	16u
#define TURNS_MOST	64	/* till a stream has begun: some where buffers were being changed */

static const char usage[] =
	"Usage: tracebraid recover [OPTION]... SOURCE[,name=NAME]...\n"
	"Makes a capture of all events that guests committed and that were not read yet. SOURCE is\n"
	"a region's file (/dev/shm/NAME, or a copy of it) whose guest no longer runs, or a dump of\n"
	"a guest's memory: ELF (virsh dump --memory-only, QEMU's dump-guest-memory, /proc/vmcore)\n"
	"or compressed (makedumpfile, --format kdump-zlib). All regions in a dump are recovered.\n"
	"SOURCE is not modified.\n"
	"\n"
	"  -o FILE     the capture. Default: " DEFAULT_FILE "; -: standard output\n"
	"  -q          print errors only\n"
	"  --help      this text\n"
	"\n"
	"NAME is the guest's name in reports. Default: the name that the guest gives itself. Times\n"
	"are of this host's clock, or wall times if the guest ran before this host's last boot or on\n"
	"another host.\n";

static const struct option options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* What was given on the command line. */
struct given {
	char path[256];
	char name[64];
	int fd;
	struct braid_dead_regions regions;
};

struct recovery {
	const char *file;
	bool quiet;
	struct given *given;
	size_t nr_given;
	struct braid_progress progress;
	struct braid_live_sink sink;
	struct braid_chunk_file head;
	size_t nr_regions;
	u64 events;
};

static int parse_given(struct given *given, const char *argument)
{
	const char *name = strstr(argument, ",name=");
	size_t n = name ? (size_t)(name - argument) : strlen(argument);

	given->fd = -1;
	if (name)
		name += strlen(",name=");
	if (!n || n >= sizeof(given->path) ||
	    (name && (!*name || strlen(name) >= sizeof(given->name))))
		return braid_fail(-EINVAL, "\"%s\" is not SOURCE[,name=NAME]", argument);
	memcpy(given->path, argument, n);
	if (name)
		strcpy(given->name, name);
	braid_text_clean(given->name);
	return 0;
}

static void say(void *arg, const char *name, const char *line)
{
	struct recovery *r = arg;

	if (!r->quiet)
		fprintf(stderr, "tracebraid: %s: %s\n", name, line);
}

static void print_sums(const struct recovery *r, const struct braid_region_status *status,
		       const struct braid_dead_region *region)
{
	const struct braid_region_sums *s = &status->sums;

	if (r->quiet)
		return;
	fprintf(stderr, "  %-16s written %llu = recovered %llu + read before %llu + lost %llu + left %llu\n",
		status->name, (unsigned long long)s->written, (unsigned long long)s->read,
		(unsigned long long)s->read_before,
		(unsigned long long)(s->lost + s->lost_before), (unsigned long long)s->left);
	if (region->missing_pages)
		fprintf(stderr, "  %-16s %llu of its %llu pages are missing and are read as zeros\n", "",
			(unsigned long long)region->missing_pages,
			(unsigned long long)region->pages);
	if (status->unreadable)
		fprintf(stderr, "  %-16s %llu of those events can't be read: their bytes are missing\n", "",
			(unsigned long long)status->unreadable);
}

/* One region's stream. An error is the capture's; a region that can't be read is told. */
static int write_stream(struct recovery *r, struct braid_region_source *source,
		       const struct braid_dead_region *region)
{
	struct braid_region_status status;
	int turns, ret;

	for (turns = 0; turns < TURNS_MOST; turns++) {
		ret = braid_region_source_poll(source);
		braid_region_source_status(source, &status);
		if (ret < 0 || status.phase == BRAID_PHASE_RECORDING)
			break;
		usleep(1000);
	}
	if (ret >= 0)
		ret = braid_region_source_finish(source);
	if (ret < 0)
		return ret;
	braid_region_source_status(source, &status);
	if (!status.nr_streams) {
		say(r, *status.name ? status.name : "a region", braid_failure());
		return 0;
	}
	r->nr_regions++;
	r->events += status.events;
	print_sums(r, &status, region);
	return 0;
}

static int write_region(struct recovery *r, const struct given *given,
		       struct braid_dead_region *region)
{
	struct braid_region_options o = {
		.path = given->path,
		.name = *given->name ? given->name : NULL,
		.sink = &r->sink,
		.dead_ns = r->head.start_host_ns,
		.say = say,
		.say_arg = r,
	};
	struct braid_region_source *source;
	struct braid_dead_region copy = *region;
	int err;

	o.port = braid_dead_port(region);
	if (!o.port)
		return braid_fail(-ENOMEM, "out of memory");
	err = braid_region_source_open(&source, &o);
	if (err) {
		say(r, given->path, braid_failure());
		return 0;
	}
	err = write_stream(r, source, &copy);
	braid_region_source_close(source);
	return err;
}

/* The capture takes the place of what has its name. */
static int refuse_same_file(const struct recovery *r, const struct given *given)
{
	struct stat in, out;

	if (stat(r->file, &out) || fstat(given->fd, &in) || in.st_ino != out.st_ino ||
	    in.st_dev != out.st_dev)
		return 0;
	return braid_fail(-EEXIST, "%s: is the SOURCE itself; use -o to name another capture",
			  r->file);
}

static int take_all(struct recovery *r)
{
	size_t k;
	int err = 0;

	for (k = 0; k < r->nr_given && !err; k++) {
		r->given[k].fd = braid_dead_take(r->given[k].path);
		err = r->given[k].fd < 0 ? r->given[k].fd : refuse_same_file(r, &r->given[k]);
	}
	return err ? err : braid_cli_confine(BRAID_CONFINE_CONVERT, NULL);
}

/* Where the capture is to be there is room, or there would be none for it. */
static char *folder_of(const char *file)
{
	const char *slash = strrchr(file, '/');

	if (!strcmp(file, "-"))
		return strdup("/tmp");
	return slash ? strndup(file, slash - file + 1) : strdup(".");
}

/* Finds all regions, before a former capture is replaced. */
static int open_all(struct recovery *r)
{
	braid_auto_free char *folder = folder_of(r->file);
	struct braid_dead_options o = {
		.folder = folder,
		.progress = braid_progress_show,
		.progress_arg = &r->progress,
	};
	int err = folder ? 0 : braid_fail(-ENOMEM, "out of memory");
	size_t k;

	braid_progress_begin(&r->progress);
	for (k = 0; k < r->nr_given && !err; k++) {
		braid_child_does(r->given[k].path);
		err = braid_dead_open(&r->given[k].regions, r->given[k].fd, r->given[k].path, &o);
	}
	braid_progress_end(&r->progress);
	return err;
}

/* All that one SOURCE holds. An error is the capture's, or memory's. */
static int write_source(struct recovery *r, struct given *given)
{
	char line[128];
	size_t k;
	int err = 0;

	for (k = 0; k < given->regions.nr && !err; k++)
		err = write_region(r, given, &given->regions.items[k]);
	if (given->regions.cut_off)
		say(r, given->path, "the dump is truncated; its missing end is read as zeros");
	if (!given->regions.unplaced)
		return err;
	snprintf(line, sizeof(line), "%llu more regions begin in it, but their rings are missing",
		 (unsigned long long)given->regions.unplaced);
	say(r, given->path, line);
	return err;
}

/* Whether a guest lived before this host's clock began: on another host, or before a reboot. */
static bool lived_before(const struct recovery *r)
{
	u64 began_ns = r->head.start_realtime_ns - r->head.start_host_ns, wall_ns;
	size_t k, i;

	for (k = 0; k < r->nr_given; k++) {
		for (i = 0; i < r->given[k].regions.nr; i++) {
			wall_ns = braid_dead_wall_ns(&r->given[k].regions.items[i]);
			if (wall_ns && wall_ns < began_ns)
				return true;
		}
	}
	return false;
}

static int write_capture(struct recovery *r)
{
	char failure[1024];
	size_t k;
	int err;

	braid_cli_capture_head(&r->head);
	if (lived_before(r)) {
		strcpy(r->head.clock, "realtime");
		r->head.start_host_ns = r->head.start_realtime_ns;
	}
	r->sink.next_stream = 1;
	err = braid_capture_create(&r->sink.capture, r->file, &r->head);
	if (err)
		return err;
	braid_capture_sync_at_end(r->sink.capture);
	for (k = 0; k < r->nr_given && !err; k++)
		err = write_source(r, &r->given[k]);
	if (!err && !r->nr_regions)
		err = braid_fail(-ENODATA, "nothing could be recovered");
	if (!err)
		return braid_capture_finish(r->sink.capture);
	snprintf(failure, sizeof(failure), "%s", braid_failure());
	if (err != -ENODATA)	/* it is good up to where it failed */
		braid_capture_publish(r->sink.capture);
	braid_capture_abandon(r->sink.capture);
	return braid_fail(err, "%s", failure);
}

/* libkdumpfile trusts a dump's headers, so all is done in a child process. Return: its exit code. */
static int recover(void *arg)
{
	struct recovery *r = arg;
	int err = take_all(r);

	if (!err)
		err = open_all(r);
	if (!err)
		err = write_capture(r);
	if (!err && !r->quiet && strcmp(r->file, "-"))
		fprintf(stderr, "Recovered %llu events of %zu region%s to %s\nNext: tracebraid report %s\n",
			(unsigned long long)r->events, r->nr_regions, r->nr_regions == 1 ? "" : "s",
			r->file, r->file);
	return err ? braid_complain() : EXIT_SUCCESS;
}

/* Return: the child's exit code, or -errno with braid_fail(). */
static int recover_in_child(struct recovery *r)
{
	struct braid_child_limits limits = { .cpu_s = CPU_S, .memory_bytes = MEMORY_BYTES };
	struct stat st;
	size_t k;

	for (k = 0; k < r->nr_given; k++) {
		if (stat(r->given[k].path, &st))
			continue;	/* the child says why */
		limits.cpu_s += (u64)st.st_size / CPU_BYTES;
		limits.memory_bytes += MEMORY_TIMES * (u64)st.st_size;
	}
	return braid_child_run(&limits, recover, r);
}

/* Returns 0, 1 when help was printed, -ENOEXEC when an option is not understood. */
static int parse_options(struct recovery *r, int argc, char **argv)
{
	int c;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "o:qh", options, NULL)) != -1) {
		switch (c) {
		case 'o':
			r->file = optarg;
			break;
		case 'q':
			r->quiet = true;
			break;
		default:
			return braid_other_option(c, usage);
		}
	}
	return 0;
}

int braid_cmd_recover(int argc, char **argv)
{
	struct recovery r = { .file = DEFAULT_FILE };
	int err = parse_options(&r, argc, argv);
	size_t k;

	if (err)
		return err > 0 ? EXIT_SUCCESS : braid_complain_option("recover", argc, argv);
	r.given = calloc(argc, sizeof(*r.given));
	if (!r.given)
		err = braid_fail(-ENOMEM, "out of memory");
	else if (optind == argc)
		err = braid_fail(-EINVAL, "recover: expected a source: 'tracebraid recover SOURCE...'");
	for (; !err && optind < argc; optind++)
		err = parse_given(&r.given[r.nr_given++], argv[optind]);
	if (!err)
		err = recover_in_child(&r);
	for (k = 0; k < r.nr_given; k++) {
		braid_dead_free(&r.given[k].regions);
		if (r.given[k].fd >= 0)
			close(r.given[k].fd);
	}
	free(r.given);
	return err < 0 ? braid_complain() : err;
}
