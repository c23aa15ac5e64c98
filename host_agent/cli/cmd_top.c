// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid top: a live view of guests' event rates, losses and CPU time. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/top.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/discover/libvirt.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define INTERVAL_S	2
#define LEAST_INTERVAL_S	0.01

/* The request. */
struct request {
	struct braid_top top;
	struct braid_option_list regions, domains;
	const char *uri;
	struct braid_top_screen screen;
	double interval;	/* seconds */
	u64 count;		/* 0: until interrupted */
	char *capture;		/* or NULL */
	bool batch;
	bool json;
};

static int take_json(const struct braid_option *o, void *to, const char *value)
{
	struct request *q = to;

	(void)o, (void)value;
	q->json = q->batch = true;
	return 0;
}

static int take_interval(const struct braid_option *o, void *to, const char *value)
{
	double seconds;
	int err = braid_take_duration(o, &seconds, value);

	if (!err && seconds < LEAST_INTERVAL_S)
		err = braid_fail(-EINVAL, "expected at least 0.01 seconds");
	if (!err)
		*(double *)to = seconds;
	return err;
}

#define TOP	struct request

static const struct braid_option options[] = {
	{ 'r', "region", "REGION[,name=NAME]", BRAID_LIST(TOP, regions),
	  "a guest: its region's file or its name; may be repeated", .values = "@region" },
	{ 'd', "domain", "DOMAIN", BRAID_LIST(TOP, domains), "a libvirt domain; may be repeated",
	  .values = "@domain" },
	{ 'a', "all", NULL, BRAID_FLAG(TOP, top.all),
	  "all regions, including those that appear later. The default" },
	BRAID_OPTION_CONNECT(TOP, uri, ""),
	{ 'B', "buffer", "NAME", BRAID_STRING(TOP, top.buffer),
	  "only the guests' buffers of this name" },
	{ 's', "sort", "KEY", BRAID_WORD(TOP, screen.key),
	  "sort by events, bytes, lost, fill, run, steal or exits (largest first), or by name (the "
	  "default)", .values = BRAID_TOP_KEY_NAMES },
	{ 'i', "interval", "SECONDS", BRAID_TAKE(take_interval, double, TOP, interval),
	  "time between two samples. Default: 2" },
	{ 'n', "count", "COUNT", BRAID_COUNT(TOP, count), "stop after COUNT samples",
	  .least = 1 },
	{ 'b', "batch", NULL, BRAID_FLAG(TOP, batch),
	  "print one table after the other; the default without a terminal" },
	{ 'j', "json", NULL, .take = take_json, .help = "one JSON object per sample, each on its own line" },
	{ 0 },
};

const struct braid_cli_command braid_command_top = {
	.name = "top", .summary = "live view of guests' event rates, losses and CPU time",
	.run = braid_cmd_top, .usage = "[OPTION]...\n[OPTION]... FILE",
	.text =
	"Live view of each guest and vCPU: events recorded and lost per second, ring fill, CPU time "
	"of the vCPU's thread on the host, and VM exits. Nothing is enabled, consumed or changed; "
	"guests may be recorded at the same time (STATE shows rec).\n"
	"With FILE, a capture that may still be recorded (`tracebraid record --host`), the guests are "
	"those of FILE. RUN%, STEAL% and EXITS/s are then computed from the host's events, and equal "
	"those of `tracebraid analyze`. The first sample covers all that FILE has so far.",
	.options = options,
	.notes =
	"READ/s counts events read on the host or in the guest. FILL% is that of the fullest ring. "
	"RUN% and STEAL% are the time that the vCPU's thread ran, and the time that it was runnable "
	"while another thread ran. EXITS/s is KVM's count for the whole guest. \"-\" means "
	"unavailable: threads need KVM, or QEMU with -name debug-threads=on, which libvirt sets; "
	"exits need KVM's debugfs and root.\n"
	"On a terminal, the keys e, b, l, f, r, s and x sort by events, bytes, lost, fill, run, "
	"steal and exits, n by name; space shows the next rows, ? explains the keys, q quits. A "
	"narrow terminal shows only the columns that fit; EVENTS/s, LOST and FILL% are dropped last.",
};

/* Guests ----------------------------------------------------------------------------------- */

static int add_domains(struct request *q)
{
	braid_auto_free struct braid_domain *domains = NULL;
	size_t nr = 0, k, i;
	int err = q->domains.nr ? braid_domains_list(q->uri, &domains, &nr) : 0;

	for (k = 0; k < q->domains.nr && !err; k++) {
		for (i = 0; i < nr; i++)
			if (!strcmp(domains[i].name, q->domains.items[k]) ||
			    !strcmp(domains[i].uuid, q->domains.items[k]))
				break;
		if (i == nr)
			err = braid_fail(-ENOENT, "--domain=%s: no such domain; 'tracebraid list' shows all",
					 q->domains.items[k]);
		else if (!*domains[i].path)
			err = braid_fail(-ENOENT, "--domain=%s: it has no region; 'tracebraid attach %s' adds one",
					 q->domains.items[k], q->domains.items[k]);
		else
			err = braid_top_add(&q->top, domains[i].path, domains[i].name);
	}
	return err;
}

/* An unreadable region is an error here; later, when it may return, a row. */
static int add_region(struct request *q, const char *argument)
{
	braid_auto_free struct braid_found *found = NULL;
	struct braid_named named;
	const char *path = named.path;
	char word[256], name[BRAID_GUEST_NAME_BYTES];
	size_t nr = 0;
	int err = braid_split_name(argument, word, name);

	named.word = word;
	if (!err)
		err = braid_resolve(&named, 1);
	if (!err)
		err = braid_cli_needs_mapping(word, path);
	if (!err)
		err = braid_discover(&found, &nr, &path, 1, 0, NULL);
	if (!err && found->state == BRAID_DRIVER_UNREADABLE)
		err = braid_fail(found->error, "%s", found->why);
	return err ? err : braid_top_add(&q->top, path, *name ? name : NULL);
}

static int add_regions(struct request *q)
{
	int err = 0;
	size_t k;

	for (k = 0; k < q->regions.nr && !err; k++)
		err = add_region(q, q->regions.items[k]);
	return err;
}

/* Showing ----------------------------------------------------------------------------------- */

static void measure_terminal(struct braid_top_screen *screen)
{
	struct winsize size = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	screen->rows = size.ws_row;
	screen->columns = size.ws_col;
}

static int show(struct request *q)
{
	struct braid_top_screen *screen = &q->screen;

	braid_top_sort(&q->top, screen->key);
	screen->terminal = !q->batch;
	screen->rows = screen->columns = ~0u;
	if (screen->terminal)
		measure_terminal(screen);
	if (screen->first >= braid_top_rows(&q->top))
		screen->first = 0;
	if (q->json)
		braid_top_print_json(&q->top);
	else
		braid_top_print(&q->top, screen);
	if (fflush(stdout) || ferror(stdout))
		return errno == EPIPE ? -EPIPE :
		       braid_fail(-errno, "cannot write to standard output: %s", strerror(errno));
	return 0;
}

/* A key was pressed. Return: false: it says to quit. */
static bool heed_key(struct request *q)
{
	struct braid_top_screen *screen = &q->screen;
	enum braid_top_key key;
	char c;

	if (read(STDIN_FILENO, &c, 1) != 1 || c == 'q')
		return false;
	screen->keys = c == '?' && !screen->keys;
	if (c == ' ')
		screen->first += braid_top_page(&q->top, screen);
	for (key = 0; key < BRAID_TOP_KEYS; key++)
		if (c == (key == BRAID_TOP_EXITS ? 'x' : *braid_top_key_name(key))) {
			screen->key = key;
			screen->first = 0;
		}
	return true;
}

/* Until it is time for the next sample. Return: false: to quit. */
static bool rest(struct request *q, u64 due_ns)
{
	struct pollfd p = { .fd = q->batch ? -1 : STDIN_FILENO, .events = POLLIN };
	u64 now_ns;

	while ((now_ns = braid_host_clock_ns()) < due_ns) {
		struct timespec t = braid_clock_timespec(due_ns - now_ns);

		if (ppoll(&p, 1, &t, NULL) <= 0 || !p.revents)
			continue;
		if (!heed_key(q) || show(q))
			return false;
	}
	return true;
}

/* A capture's first sample is of all that it has. */
static int run_capture(struct request *q)
{
	u64 due_ns = braid_host_clock_ns(), nr = 0;
	int err = braid_cli_confine_to(NULL, &q->capture, 1);

	if (!err)
		err = braid_top_open_capture(&q->top, q->capture);
	while (!err && (!q->count || nr < q->count)) {
		err = braid_top_sample_capture(&q->top);
		if (!err)
			err = show(q);
		nr++;
		due_ns += q->interval * BRAID_SECOND_NS;
		if (err || (q->batch && q->top.over) || !rest(q, due_ns))
			break;
	}
	return err;
}

/* The first sample has no predecessor. */
static int cmd_top_run(struct request *q)
{
	u64 due_ns = braid_host_clock_ns(), nr = 0;
	int err;

	if (q->capture)
		return run_capture(q);
	err = braid_cli_confine(BRAID_CONFINE_INSPECT, NULL);
	if (!err)
		err = add_regions(q);
	if (!err)
		err = braid_top_sample(&q->top);
	while (!err && (!q->count || nr < q->count)) {
		due_ns += q->interval * BRAID_SECOND_NS;
		if (!rest(q, due_ns))
			break;
		err = braid_top_sample(&q->top);
		if (!err)
			err = show(q);
		nr++;
	}
	return err;
}

/* From here on what would end us is waited for, as our child's end is. */
static void block_ends(sigset_t *mask, sigset_t *before)
{
	sigemptyset(mask);
	sigaddset(mask, SIGCHLD);
	sigaddset(mask, SIGINT);
	sigaddset(mask, SIGQUIT);
	sigaddset(mask, SIGTERM);
	sigaddset(mask, SIGHUP);
	sigprocmask(SIG_BLOCK, mask, before);
}

/* Waits for our child; a signal to us ends both. */
static void cmd_top_await(pid_t pid, const sigset_t *mask, int *status)
{
	while (waitpid(pid, status, WNOHANG) == 0)
		if (sigwaitinfo(mask, NULL) != SIGCHLD)
			kill(pid, SIGTERM);
}

/*
 * On a terminal: keys are read one by one, without echo. A process that reads no guest data
 * restores the terminal, since the confined one may not.
 */
static int run_on_terminal(struct request *q)
{
	struct termios before, raw;
	sigset_t mask, unmasked;
	int status = 0;
	pid_t pid;

	if (tcgetattr(STDIN_FILENO, &before))
		return cmd_top_run(q);
	block_ends(&mask, &unmasked);
	pid = fork();
	if (pid < 0)
		return braid_fail(-errno, "cannot create a process: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		sigprocmask(SIG_SETMASK, &unmasked, NULL);
		_exit(cmd_top_run(q) ? braid_complain() : EXIT_SUCCESS);
	}
	raw = before;
	raw.c_lflag &= ~(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	cmd_top_await(pid, &mask, &status);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	sigprocmask(SIG_SETMASK, &unmasked, NULL);
	return WIFEXITED(status) && WEXITSTATUS(status) ? -ECANCELED : 0;
}

/* Guests, or a capture. */
static int take_operands(struct request *q, int argc, char **argv)
{
	bool named = q->regions.nr || q->domains.nr;

	if (optind < argc && !braid_is_capture(argv[optind]))
		return braid_fail(-EINVAL, "top: '%s': not a capture; use -r or -d to name a guest",
				  argv[optind]);
	if (optind + 1 < argc || (optind < argc && (named || q->top.all || q->top.buffer)))
		return braid_fail(-EINVAL, "top: a capture is shown alone: 'tracebraid top FILE'");
	q->capture = optind < argc ? argv[optind] : NULL;
	q->batch |= !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO);
	q->top.all |= !named;
	return add_domains(q);	/* libvirt is not used later */
}

int braid_cmd_top(int argc, char **argv)
{
	struct request *q = calloc(1, sizeof(*q));
	int err = q ? 0 : braid_out_of_memory();
	bool reported = false;

	if (q)
		q->interval = INTERVAL_S;
	if (!err)
		err = braid_options_parse(&braid_command_top, q, argc, argv);
	if (!err)
		err = take_operands(q, argc, argv);
	if (!err && q->batch) {
		err = cmd_top_run(q);
	} else if (!err) {
		err = run_on_terminal(q);
		reported = err == -ECANCELED;
	}
	if (q) {
		braid_top_free(&q->top);
		free(q->regions.items);
		free(q->domains.items);
		free(q);
	}
	if (reported)
		return EXIT_FAILURE;
	return err >= 0 || err == -EPIPE ? EXIT_SUCCESS : braid_complain();
}
