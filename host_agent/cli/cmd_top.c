// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid top: what guests trace, lose and get of the host, again and again. */
#include <errno.h>
#include <getopt.h>
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
#include "host_agent/clock/host.h"
#include "host_agent/discover/libvirt.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

#define INTERVAL_NS	2000000000ULL
#define SECOND_NS	1000000000ULL

static const char usage[] =
	"Usage: tracebraid top [OPTION]...\n"
	"Live view of each guest and vCPU: events recorded and lost per second, ring fill, CPU time\n"
	"of the vCPU's thread on the host, and VM exits. Nothing is enabled, consumed or changed;\n"
	"guests may be recorded at the same time (STATE shows rec).\n"
	"\n"
	"  -r REGION[,name=NAME]  a guest: its region's file or its name; may be repeated\n"
	"  -d, --domain DOMAIN    a libvirt domain; may be repeated\n"
	"  -a, --all              all regions, including those that appear later. The default\n"
	"  -c, --connect URI      libvirt's URI; default: $LIBVIRT_DEFAULT_URI or qemu:///system\n"
	"  -B, --buffer NAME      only the guests' buffers of this name\n"
	"  -s, --sort KEY         sort by events, bytes, lost, fill, run, steal or exits (largest\n"
	"                         first), or by name (the default)\n"
	"  -i, --interval SECONDS time between two samples. Default: 2\n"
	"  -n, --count COUNT      stop after COUNT samples\n"
	"  -b, --batch            print one table after the other; the default without a terminal\n"
	"      --json             one JSON object per sample, each on its own line\n"
	"      --help             this text\n"
	"\n"
	"READ/s counts events read on the host or in the guest. FILL% is that of the fullest ring.\n"
	"RUN% and STEAL% are the time that the vCPU's thread ran, and the time that it was runnable\n"
	"while another thread ran. EXITS/s is KVM's count for the whole guest. \"-\" means unavailable:\n"
	"threads need KVM, or QEMU with -name debug-threads=on, which libvirt sets; exits need KVM's\n"
	"debugfs and root.\n"
	"\n"
	"On a terminal, the keys e b l f r s x sort by events, bytes, lost, fill, run, steal and\n"
	"exits, n by name; space shows the next rows, ? explains the keys, q quits. A narrow\n"
	"terminal shows only the columns that fit.\n";

enum { OPT_JSON = 256 };

static const struct option options[] = {
	{ "region", required_argument, NULL, 'r' },
	{ "domain", required_argument, NULL, 'd' },
	{ "all", no_argument, NULL, 'a' },
	{ "connect", required_argument, NULL, 'c' },
	{ "buffer", required_argument, NULL, 'B' },
	{ "sort", required_argument, NULL, 's' },
	{ "interval", required_argument, NULL, 'i' },
	{ "count", required_argument, NULL, 'n' },
	{ "batch", no_argument, NULL, 'b' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* What was asked for. */
struct request {
	struct braid_top top;
	const char **regions, **domains;
	size_t nr_regions, regions_capacity, nr_domains, domains_capacity;
	const char *uri;
	struct braid_top_screen screen;
	u64 interval_ns;
	u64 count;		/* 0: until told */
	bool batch;
	bool json;
};

static int take_key(struct request *q, const char *word)
{
	enum braid_top_key key;

	for (key = 0; key < BRAID_TOP_KEYS; key++) {
		if (strcmp(word, braid_top_key_name(key)))
			continue;
		q->screen.key = key;
		return 0;
	}
	return braid_fail(-EINVAL, "-s %s: the keys are name, events, bytes, lost, fill, run, steal and exits",
			  word);
}

static int take_interval(struct request *q, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0.01 && seconds < 1e6))
		return braid_fail(-EINVAL, "-i %s: not a number of seconds, at least 0.01", text);
	q->interval_ns = seconds * SECOND_NS;
	return 0;
}

/* Return: 0, 1 when help was printed, -ENOEXEC when it is not understood, or another -errno. */
static int take_option(struct request *q, int option)
{
	switch (option) {
	case 'r':
		return braid_array_push(q->regions, q->nr_regions, q->regions_capacity,
					(const char *)optarg) ?
		       braid_fail(-ENOMEM, "out of memory") : 0;
	case 'd':
		return braid_array_push(q->domains, q->nr_domains, q->domains_capacity,
					(const char *)optarg) ?
		       braid_fail(-ENOMEM, "out of memory") : 0;
	case 'a':
		q->top.all = true;
		return 0;
	case 'c':
		q->uri = optarg;
		return 0;
	case 'B':
		q->top.buffer = optarg;
		return 0;
	case 's':
		return take_key(q, optarg);
	case 'i':
		return take_interval(q, optarg);
	case 'n':
		return braid_parse_u64(optarg, INT64_MAX, &q->count);
	case 'b':
		q->batch = true;
		return 0;
	case OPT_JSON:
		q->json = q->batch = true;
		return 0;
	}
	return braid_other_option(option, usage);
}

/* Guests ----------------------------------------------------------------------------------- */

static int add_domains(struct request *q)
{
	braid_auto_free struct braid_domain *domains = NULL;
	size_t nr = 0, k, i;
	int err = q->nr_domains ? braid_domains_list(q->uri, &domains, &nr) : 0;

	for (k = 0; k < q->nr_domains && !err; k++) {
		for (i = 0; i < nr; i++)
			if (!strcmp(domains[i].name, q->domains[k]) ||
			    !strcmp(domains[i].uuid, q->domains[k]))
				break;
		if (i == nr)
			err = braid_fail(-ENOENT, "-d %s: no such domain; 'tracebraid list' shows all",
					 q->domains[k]);
		else if (!*domains[i].path)
			err = braid_fail(-ENOENT, "-d %s: it has no region; 'tracebraid attach %s' adds one",
					 q->domains[k], q->domains[k]);
		else
			err = braid_top_add(&q->top, domains[i].path, domains[i].name);
	}
	return err;
}

/* REGION[,name=NAME]: the word, in @word, and the name, or NULL. */
static int split_region(const char *argument, char word[256], const char **name)
{
	const char *comma = strstr(argument, ",name=");
	size_t n = comma ? (size_t)(comma - argument) : strlen(argument);

	if (n >= 256)
		return braid_fail(-ENAMETOOLONG, "-r: the name is too long");
	memcpy(word, argument, n);
	word[n] = 0;
	*name = comma ? comma + strlen(",name=") : NULL;
	return 0;
}

/* What can't be read is an error here, and later, when it may come back, a row. */
static int add_region(struct request *q, const char *argument)
{
	braid_auto_free struct braid_found *found = NULL;
	struct braid_named named;
	const char *name = NULL, *path = named.path;
	char word[256];
	size_t nr = 0;
	int err = split_region(argument, word, &name);

	named.word = word;
	if (!err)
		err = braid_resolve(&named, 1);
	if (!err)
		err = braid_discover(&found, &nr, &path, 1, 0, NULL);
	if (!err && found->state == BRAID_DRIVER_UNREADABLE)
		err = braid_fail(found->error, "%s", found->why);
	return err ? err : braid_top_add(&q->top, path, name);
}

static int add_regions(struct request *q)
{
	int err = 0;
	size_t k;

	for (k = 0; k < q->nr_regions && !err; k++)
		err = add_region(q, q->regions[k]);
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
		struct timespec t = {
			.tv_sec = (due_ns - now_ns) / SECOND_NS,
			.tv_nsec = (due_ns - now_ns) % SECOND_NS,
		};

		if (ppoll(&p, 1, &t, NULL) <= 0 || !p.revents)
			continue;
		if (!heed_key(q) || show(q))
			return false;
	}
	return true;
}

/* The first sample has nothing to be compared with. */
static int run(struct request *q)
{
	u64 due_ns = braid_host_clock_ns(), nr = 0;
	int err = braid_cli_confine(BRAID_CONFINE_LOOK, NULL);

	if (!err)
		err = add_regions(q);
	if (!err)
		err = braid_top_sample(&q->top);
	while (!err && (!q->count || nr < q->count)) {
		due_ns += q->interval_ns;
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

/* Until our child has ended; who tells us to end means both. */
static void await(pid_t pid, const sigset_t *mask, int *status)
{
	while (waitpid(pid, status, WNOHANG) == 0)
		if (sigwaitinfo(mask, NULL) != SIGCHLD)
			kill(pid, SIGTERM);
}

/*
 * On a terminal: keys come one by one, unseen. It is set back by a process that reads
 * nothing of a guest, since the one that does may not touch it.
 */
static int run_on_terminal(struct request *q)
{
	struct termios before, raw;
	sigset_t mask, unmasked;
	int status = 0;
	pid_t pid;

	if (tcgetattr(STDIN_FILENO, &before))
		return run(q);
	block_ends(&mask, &unmasked);
	pid = fork();
	if (pid < 0)
		return braid_fail(-errno, "no process: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		sigprocmask(SIG_SETMASK, &unmasked, NULL);
		_exit(run(q) ? braid_complain() : EXIT_SUCCESS);
	}
	raw = before;
	raw.c_lflag &= ~(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	await(pid, &mask, &status);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	sigprocmask(SIG_SETMASK, &unmasked, NULL);
	return WIFEXITED(status) && WEXITSTATUS(status) ? -ECANCELED : 0;
}

int braid_cmd_top(int argc, char **argv)
{
	struct request *q = calloc(1, sizeof(*q));
	int option, err = q ? 0 : braid_fail(-ENOMEM, "out of memory");
	bool told = false;

	optind = 0;
	opterr = 0;
	if (q)
		q->interval_ns = INTERVAL_NS;
	while (!err && (option = getopt_long(argc, argv, "r:d:ac:B:s:i:n:bh", options, NULL)) != -1)
		err = take_option(q, option);
	if (err == -ENOEXEC)
		told = braid_complain_option("top", argc, argv);
	if (!err && optind < argc)
		err = braid_fail(-EINVAL, "top: '%s': unexpected argument; use -r or -d to name a guest", argv[optind]);
	if (!err) {
		q->batch |= !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO);
		q->top.all |= !q->nr_regions && !q->nr_domains;
		err = add_domains(q);	/* libvirt is not spoken to later */
	}
	if (!err && q->batch) {
		err = run(q);
	} else if (!err) {
		err = run_on_terminal(q);
		told = err == -ECANCELED;
	}
	if (q) {
		braid_top_free(&q->top);
		free(q->regions);
		free(q->domains);
		free(q);
	}
	if (told)
		return EXIT_FAILURE;
	return err >= 0 || err == -EPIPE ? EXIT_SUCCESS : braid_complain();
}
