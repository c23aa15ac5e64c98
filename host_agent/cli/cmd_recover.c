// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid recover: a capture of what is unread in the regions of guests, dead or not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/discover/discover.h"
#include "host_agent/discover/libvirt.h"
#include "host_agent/live/region.h"
#include "host_agent/transport/post_mortem.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/transport/vm_reader.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/helper.h"
#include "host_agent/util/landlock.h"
#include "host_agent/util/peek.h"

#define DEFAULT_FILE	"recovered.braid"
#define TEMPORARY	"/tmp"
#define CPU_S		60u		/* that reading a small dump may take; a second more for ... */
#define CPU_BYTES	(4u << 20)
#define MEMORY_BYTES	(4ULL << 30)	/* limit, in addition to this multiple of the dump's
					   size: */
#define MEMORY_TIMES	16u
#define TURNS_MOST	64	/* till a stream has begun: some where buffers were being changed */

/* The command line's options. */
struct given {
	char path[256];
	char name[64];
	int fd;
	pid_t vmm;		/* whose memory is read; 0: it is a file */
	struct braid_post_mortem_regions regions;
};

struct recovery {
	const char *file;
	bool quiet;
	struct given *given;
	size_t nr_given, nr_left_out;
	struct braid_progress progress;
	struct braid_live_sink sink;
	struct braid_chunk_file head;
	size_t nr_regions;
	u64 events;
};

static const struct braid_option options[] = {
	{ 'o', "output", "FILE", BRAID_STRING(struct recovery, file),
	  "the capture. Default: " DEFAULT_FILE "; -: standard output" },
	BRAID_OPTION_QUIET(struct recovery, quiet),
	{ 0 },
};

const struct braid_cli_command braid_command_recover = {
	.name = "recover", .summary = "make a capture from a guest's memory",
	.run = braid_cmd_recover, .usage = "[OPTION]... SOURCE[,name=NAME]...",
	.text =
	"Makes a capture of all committed events that have not been read. SOURCE is a guest as "
	"`tracebraid list` names it, a region's file (/dev/shm/NAME, or a copy of it), a VMM whose "
	"guest has its region in its own memory (pid:PID), or a dump of "
	"a guest's memory: ELF (virsh dump --memory-only, QEMU's dump-guest-memory, /proc/vmcore) "
	"or compressed (makedumpfile, --format kdump-zlib). All regions in a dump are recovered. "
	"The core of a VMM (gcore, or the kernel's) is accepted if the guest's memory is in it. "
	"SOURCE is not modified.\n"
	"The guest of a region's file or of a VMM may be running, and may be recorded at the same "
	"time. The capture contains "
	"the events that are unread when the region is copied; if the guest is running, a line on "
	"standard error and a note in the capture say so. Recordings are not affected. Events that "
	"are overwritten during the copy count as lost.",
	.options = options,
	.notes =
	"NAME is the guest's name in reports. Default: the one by which SOURCE names it, else the name that the guest gives itself. Times "
	"are of this host's clock, or wall times if the guest ran before this host's last boot or "
	"on another host.",
	.status =
	"0 on success, 1 on error, and 3 if the capture has nothing of one of several SOURCEs, for "
	"example because its driver was starting, or its region changed during each attempt to copy it.",
	.least = 1, .most = BRAID_ANY_NUMBER,
	.expected = "a source: 'tracebraid recover SOURCE...'",
};

/* A process for what may crash: libkdumpfile parses untrusted files ---------------------------- */

struct child_limits {
	u64 cpu_s;
	u64 memory_bytes;	/* of address space */
};

/* Messages of the child; the parent reads them after its exit. */
struct child_report {
	bool done;		/* it ended by itself */
	char doing[256];
};

static struct child_report *report;

/* In the child: notes what it reads now, for the line about its death. */
static void child_does(const char *what)
{
	if (report)
		snprintf(report->doing, sizeof(report->doing), "%s", what);
}

static void child_limit(int resource, u64 most)
{
	struct rlimit rl = { .rlim_cur = most, .rlim_max = most };

	setrlimit(resource, &rl);	/* a lower one may hold already */
}

static void be_child(pid_t parent, const struct child_limits *limits, int (*run)(void *arg),
		     void *arg)
{
	int code;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	child_limit(RLIMIT_CORE, 0);
	child_limit(RLIMIT_CPU, limits->cpu_s);
	if (braid_cli_confines())	/* a sanitizer's shadow is larger than any limit */
		child_limit(RLIMIT_AS, limits->memory_bytes);
	code = run(arg);
	fflush(NULL);
	report->done = true;
	_exit(code);
}

static int child_fail(int status)
{
	int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (number == SIGXCPU || number == SIGKILL)
		return braid_fail(-EBADMSG, "%s: reading it took too long and was ended: the file is damaged",
				  report->doing);
	return braid_fail(-EBADMSG, "%s: reading it crashed%s%s: the file is damaged; 'virsh dump --memory-only' makes one that can be read",
			  report->doing, number ? " with " : "", number ? strsignal(number) : "");
}

/* Return: the exit code of @run; or -errno with braid_fail(): it crashed, or took too long. */
static int child_run(const struct child_limits *limits, int (*run)(void *arg), void *arg)
{
	pid_t parent = getpid(), pid;
	int status, ret;

	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (report == MAP_FAILED) {
		report = NULL;
		return braid_out_of_memory();
	}
	fflush(NULL);
	pid = fork();
	if (!pid)
		be_child(parent, limits, run, arg);
	ret = pid < 0 ? -errno : 0;
	while (!ret && waitpid(pid, &status, 0) < 0)
		ret = errno == EINTR ? 0 : -errno;
	if (ret)
		braid_fail(ret, "cannot create a process: %s", strerror(-ret));
	else
		ret = report->done ? WEXITSTATUS(status) : child_fail(status);
	munmap(report, sizeof(*report));
	report = NULL;
	return ret;
}

/* Regions -------------------------------------------------------------------------------------- */

static void cmd_recover_say(void *arg, const char *name, const char *line)
{
	struct recovery *r = arg;

	if (!r->quiet)
		fprintf(stderr, "tracebraid: %s: %s\n", name, braid_cli_clean(line));
}

static void print_sums(const struct recovery *r, const struct braid_region_status *status,
		       const struct braid_post_mortem_region *region)
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
		fprintf(stderr, "  %-16s %llu of those events cannot be read: their bytes are missing\n", "",
			(unsigned long long)status->unreadable);
}

/* One region's stream. Errors are the capture's; an unreadable region is only reported. */
static int write_stream(struct recovery *r, struct braid_region_source *source,
		       const struct braid_post_mortem_region *region)
{
	struct braid_region_status status;
	int turns, ret;

	for (turns = 0; turns < TURNS_MOST; turns++) {
		ret = braid_region_source_poll(source);
		status = braid_region_source_status(source);
		if (ret < 0 || status.phase == BRAID_PHASE_RECORDING)
			break;
		usleep(1000);
	}
	if (ret >= 0 && status.phase == BRAID_PHASE_RECORDING && region->running)
		ret = braid_region_source_note(source, "the guest is running: later events are not in this capture");
	if (ret >= 0)
		ret = braid_region_source_finish(source);
	if (ret < 0)
		return ret;
	status = braid_region_source_status(source);
	if (!status.nr_streams) {
		cmd_recover_say(r, *status.name ? status.name : "a region", braid_failure());
		return 0;
	}
	r->nr_regions++;
	r->events += status.events;
	print_sums(r, &status, region);
	return 0;
}

static int write_region(struct recovery *r, const struct given *given,
		       struct braid_post_mortem_region *region)
{
	struct braid_region_options o = {
		.path = given->path,
		.name = *given->name ? given->name : NULL,
		.sink = &r->sink,
		.dead_ns = r->head.start_host_ns,
		.say = cmd_recover_say,
		.say_arg = r,
	};
	struct braid_region_source *source;
	struct braid_post_mortem_region copy = *region;
	int err;

	o.endpoint = braid_post_mortem_endpoint(region);
	if (!o.endpoint)
		return braid_out_of_memory();
	err = braid_region_source_open(&source, &o);
	if (err) {
		cmd_recover_say(r, given->path, braid_failure());
		return 0;
	}
	err = write_stream(r, source, &copy);
	braid_region_source_close(source);
	return err;
}

/* The capture replaces an existing file of its name. */
static int refuse_same_file(const struct recovery *r, const struct given *given)
{
	struct stat in, out;

	if (stat(r->file, &out) || fstat(given->fd, &in) || in.st_ino != out.st_ino ||
	    in.st_dev != out.st_dev)
		return 0;
	return braid_fail(-EEXIST, "%s is a SOURCE; use -o to name another file",
			  r->file);
}

/* They read VMMs' memory for us, with the privileges that we give up. */
static int start_readers(void)
{
	int err = braid_cli_confines() ? braid_peek_start() : 0;

	return err || !braid_cli_confines() ? err : braid_vm_reader_start();
}

static int cmd_recover_take_all(struct recovery *r)
{
	bool vmms = false;
	size_t k;
	int err = 0;

	for (k = 0; k < r->nr_given && !err; k++) {
		if (r->given[k].vmm) {
			vmms = true;
			continue;
		}
		r->given[k].fd = braid_post_mortem_take(r->given[k].path);
		err = r->given[k].fd < 0 ? r->given[k].fd : refuse_same_file(r, &r->given[k]);
	}
	if (!err && vmms)
		err = start_readers();
	if (!err)	/* "-": a dump may have to be put in order, in a file without a name */
		err = strcmp(r->file, "-") ? braid_landlock_allow(r->file, BRAID_PLACE_OUTPUT) :
					     braid_landlock_allow(TEMPORARY "/-", BRAID_PLACE_WRITTEN);
	return err ? err : braid_cli_confine(BRAID_CONFINE_CONVERT, NULL);
}

/* The capture's folder has the space that the capture needs anyway. */
static char *folder_of(const char *file)
{
	const char *slash = strrchr(file, '/');

	if (!strcmp(file, "-"))
		return strdup(TEMPORARY);
	return slash ? strndup(file, slash - file + 1) : strdup(".");
}

static int open_source(struct given *given, const struct braid_post_mortem_options *o)
{
	if (given->vmm)
		return braid_post_mortem_open_vm(&given->regions, given->vmm, given->path);
	return braid_post_mortem_open(&given->regions, given->fd, given->path, o);
}

/* Finds all regions, before a former capture is replaced. Of several, one that is busy is left out. */
static int open_all(struct recovery *r)
{
	braid_auto_free char *folder = folder_of(r->file);
	struct braid_post_mortem_options o = {
		.folder = folder,
		.progress = braid_progress_show,
		.progress_arg = &r->progress,
	};
	int err = folder ? 0 : braid_out_of_memory();
	size_t k;

	braid_progress_begin(&r->progress);
	for (k = 0; k < r->nr_given && !err; k++) {
		child_does(r->given[k].path);
		err = open_source(&r->given[k], &o);
		if (err != -EAGAIN || r->nr_given == 1)
			continue;
		fprintf(stderr, "tracebraid: %s\n", braid_failure());
		err = 0;
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
		cmd_recover_say(r, given->path, "the dump is truncated; its missing end is read as zeros");
	if (!given->regions.unplaced)
		return err;
	snprintf(line, sizeof(line), "its rings are missing for %llu more region%s",
		 (unsigned long long)given->regions.unplaced, given->regions.unplaced == 1 ? "" : "s");
	cmd_recover_say(r, given->path, line);
	return err;
}

/* Whether a guest lived before this host's clock began: on another host, or before a reboot. */
static bool lived_before(const struct recovery *r)
{
	u64 began_ns = r->head.start_realtime_ns - r->head.start_host_ns, wall_ns;
	size_t k, i;

	for (k = 0; k < r->nr_given; k++) {
		for (i = 0; i < r->given[k].regions.nr; i++) {
			wall_ns = braid_post_mortem_wall_ns(&r->given[k].regions.items[i]);
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
	for (k = 0; k < r->nr_given && !err; k++) {
		size_t before = r->nr_regions;

		err = write_source(r, &r->given[k]);
		r->nr_left_out += r->nr_regions == before;
	}
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

static void cmd_recover_print_result(const struct recovery *r)
{
	fprintf(stderr, "Recovered %llu event%s of %zu region%s to %s", (unsigned long long)r->events,
		r->events == 1 ? "" : "s", r->nr_regions, r->nr_regions == 1 ? "" : "s", r->file);
	if (r->nr_left_out)
		fprintf(stderr, "; %zu of %zu sources left out", r->nr_left_out, r->nr_given);
	fprintf(stderr, "\nNext: tracebraid report %s\n", braid_cli_quoted(r->file));
}

/* The region of a domain, which libvirt knows also when it is shut off. Return: whether it is one. */
static bool find_domain(struct given *given)
{
	braid_auto_free struct braid_domain *domains = NULL;
	size_t nr = 0, k;
	struct stat st;

	if (braid_domains_list(NULL, &domains, &nr))
		return false;
	for (k = 0; k < nr; k++) {
		if (strcmp(domains[k].name, given->path) || !*domains[k].path ||
		    lstat(domains[k].path, &st) || (st.st_uid && st.st_uid != domains[k].uid))
			continue;
		strcpy(given->path, domains[k].path);
		return true;
	}
	return false;
}

/* In a process of its own, because it reads regions. */
static void find_region(void *arg, int fd)
{
	struct braid_named named = { .word = ((struct given *)arg)->path };

	if (braid_cli_confine(BRAID_CONFINE_INSPECT, NULL) || braid_resolve(&named, 1))
		snprintf(named.path, sizeof(named.path), "!%.254s", braid_failure());
	if (write(fd, named.path, sizeof(named.path)) < 0)
		return;
}

/* Notes whose memory it is, if it is a VMM's. */
static bool is_vmm(struct given *given)
{
	int pid, end = 0;

	if (sscanf(given->path, BRAID_VM_SCHEME "%d%n", &pid, &end) != 1 || pid <= 0 ||
	    given->path[end])
		return false;
	given->vmm = pid;
	return true;
}

/* A name that `list` shows is a region's, and the guest's in the capture, unless a file here has it. */
static int resolve(struct given *given)
{
	char word[sizeof(given->path)], path[sizeof(given->path)] = "";
	pid_t pid;
	int fd, err;

	if (strchr(given->path, '/') || !access(given->path, F_OK) || is_vmm(given))
		return 0;
	strcpy(word, given->path);
	if (!find_domain(given)) {
		err = braid_helper_start(&fd, &pid, find_region, given);
		if (err)
			return err;
		if (read(fd, path, sizeof(path)) == sizeof(path) && *path != '!')
			strcpy(given->path, path);
		else
			err = braid_fail(-ENOENT, "%s", *path == '!' ? path + 1 :
					 "the search for regions failed");
		close(fd);
		waitpid(pid, NULL, 0);
		if (err)
			return err;
		is_vmm(given);
	}
	if (!*given->name)
		snprintf(given->name, sizeof(given->name), "%.63s", word);
	return 0;
}

/* libkdumpfile trusts a dump's headers, so all is done in a child process. Return: its exit code. */
static int recover(void *arg)
{
	struct recovery *r = arg;
	int err = cmd_recover_take_all(r);

	if (!err)
		err = open_all(r);
	if (!err)
		err = write_capture(r);
	if (!err && !r->quiet && strcmp(r->file, "-"))
		cmd_recover_print_result(r);
	if (err)
		return braid_complain();
	return r->nr_left_out ? BRAID_EXIT_LACKS : EXIT_SUCCESS;
}

/* Return: the child's exit code, or -errno with braid_fail(). */
static int recover_in_child(struct recovery *r)
{
	struct child_limits limits = { .cpu_s = CPU_S, .memory_bytes = MEMORY_BYTES };
	struct stat st;
	size_t k;

	for (k = 0; k < r->nr_given; k++) {
		if (stat(r->given[k].path, &st))
			continue;	/* the child says why */
		limits.cpu_s += (u64)st.st_size / CPU_BYTES;
		limits.memory_bytes += MEMORY_TIMES * (u64)st.st_size;
	}
	return child_run(&limits, recover, r);
}

int braid_cmd_recover(int argc, char **argv)
{
	struct recovery r = { .file = DEFAULT_FILE };
	int err = braid_options_parse(&braid_command_recover, &r, argc, argv);
	size_t k;

	if (err)
		return braid_options_exit(err);
	r.given = calloc(argc, sizeof(*r.given));
	if (!r.given)
		err = braid_out_of_memory();
	for (; !err && optind < argc; optind++) {
		struct given *given = &r.given[r.nr_given++];

		given->fd = -1;
		err = braid_split_name(argv[optind], given->path, given->name);
		if (!err)
			err = resolve(given);
	}
	if (!err)
		err = recover_in_child(&r);
	for (k = 0; k < r.nr_given; k++) {
		braid_post_mortem_free(&r.given[k].regions);
		if (r.given[k].fd >= 0)
			close(r.given[k].fd);
	}
	free(r.given);
	return err < 0 ? braid_complain() : err;
}
